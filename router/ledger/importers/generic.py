"""Any table of requests: CSV, JSON or Parquet whose columns the user names.

In: a file, and which of its columns is which of our fields (`router.ledger.importers.fields`). Out: its records.
Invariant: columns are matched by name, never by guess; `input_tokens` includes what was read from and written to a
cache, unless the user states that it does not, and `output_tokens` includes reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any

from router.errors import WrongUsage
from router.ledger.importers.documents import parse_json
from router.ledger.importers.field_reader import Reader, shown_text
from router.ledger.importers.fields import FIELDS, matched, names_of
from router.ledger.importers.file import SourceFile
from router.ledger.importers.json_lines import Lines, struct_of
from router.ledger.importers.record import Block, Rejected
from router.ledger.importers.source import Found, ReadOptions, Source

_ROWS_AT_ONCE = 10_000  # of Parquet, a few columns each: some 10 MB


def _read(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    if file.kind == "table":
        return _table(file, options)
    return _parquet(file, options) if file.kind == "parquet" else _objects(file, options)


def _table(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    names, pieces = file.table_columns()
    columns = matched(names, options.columns, f"file {file.path}")
    reader, used = Reader(columns, options), [names.index(name) for name in names_of(columns)]
    for piece in pieces:
        found: list[Found] = [_ragged(line, cells, len(names)) for line, cells in piece.ragged]
        if piece.lines:
            found += reader.found(piece.lines, [piece.columns[place] for place in used], _row_of(piece.columns))
        yield from sorted(found, key=_line_of) if piece.ragged else found


def _line_of(found: Found) -> int:
    return int(found.columns["line"][0] if isinstance(found, Block) else found.line)


def _row_of(columns: Sequence[Sequence[Any]]) -> Callable[[int], Any]:
    return lambda place: [column[place] for column in columns]


def _ragged(line: int, cells: Sequence[str], width: int) -> Rejected:
    return Rejected(line, f"has {len(cells)} cells; the head has {width}", shown_text(cells))


def _picked(keys: Sequence[Any]) -> Callable[[Any], Sequence[Any]]:
    """Return what takes some values out of a row or an object, as a tuple."""
    return itemgetter(*keys) if len(keys) > 1 else lambda row: (row[keys[0]],)


def _attributes(names: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return what takes some attributes of an object, as a tuple."""
    return attrgetter(*names) if len(names) > 1 else lambda found: (getattr(found, names[0]),)


def _objects(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    """Read JSON objects; a column is a key, or keys with dots between them ("usage.prompt_tokens")."""
    objects = _Objects(f"file {file.path}", options)
    if file.kind == "lines":
        for piece in file.line_pieces():
            yield from objects.of_lines(piece)
        return
    for lines, items in file.item_pieces():
        yield from objects.found(lines, items)


class _Objects:
    """Makes records of JSON objects; a field that only later ones have counts from then on."""

    def __init__(self, where: str, options: ReadOptions) -> None:
        self._where, self._options = where, options
        self._keys: Any = None
        self._names: list[str] = []
        self._used: list[str] = []
        self._row: Callable[[Any], Sequence[Any]] = _picked([0])
        self._reader: Reader | None = None
        self._told: tuple[Any, Callable[[Any], Sequence[Any]] | None] | None = None

    def of_lines(self, piece: Lines) -> Iterator[Found]:
        """Yield the record of each line, or why it is none."""
        if self._keys is None:
            with suppress(ValueError):
                first = parse_json(piece.text.partition("\n")[0])
                if isinstance(first, dict):
                    self._learn(first)
        decoder, row = self._decoded()
        objects = None if decoder is None else piece.objects(decoder)
        if objects is None or row is None or self._reader is None:
            yield from self.found(*piece.values())
            return
        lines = range(piece.before + 1, piece.before + 1 + len(objects))
        columns = list(zip(*map(row, objects), strict=True))
        each = cache(piece.each)  # looked at where one is rejected
        yield from self._reader.found(lines, columns, lambda place: parse_json(each()[place]))

    def _decoded(self) -> tuple[Any, Callable[[Any], Sequence[Any]] | None]:
        """Return what decodes lines that have the keys of the one before, and what takes of each what is used."""
        if self._told is None and self._keys is not None and all(name in self._keys for name in self._used):
            decoder, attribute_of = struct_of(self._keys) or (None, {})
            self._told = decoder, _attributes([attribute_of[name] for name in self._used]) if decoder else None
        return self._told or (None, None)

    def found(self, lines: Sequence[int], items: Sequence[Any]) -> Iterator[Found]:
        """Yield the record of each object, or why it is none."""
        if self._are_alike(items):
            yield from self._made(lines, items)
            return
        taken: list[tuple[int, Any]] = []
        for line, item in zip(lines, items, strict=True):
            if not isinstance(item, dict):
                yield item if isinstance(item, Rejected) else Rejected(line, "is no JSON object", shown_text((item,)))
                continue
            if item.keys() != self._keys:
                yield from self._taken(taken)
                taken = []
                self._learn(item)
            taken.append((line, item))
        yield from self._taken(taken)

    def _are_alike(self, items: Sequence[Any]) -> bool:
        """Return whether all are objects with the keys of the one before."""
        if self._keys is None or set(map(type, items)) != {dict}:
            return False
        return all(map(self._keys.__eq__, map(dict.keys, items)))

    def _taken(self, taken: Sequence[tuple[int, Any]]) -> Sequence[Found]:
        return self._made(*zip(*taken, strict=True)) if taken else ()

    def _made(self, lines: Sequence[int], items: Sequence[Any]) -> Sequence[Found]:
        if self._reader is None or not items:
            return ()
        return self._reader.found(lines, list(zip(*map(self._row, items), strict=True)), items.__getitem__)

    def _learn(self, item: dict[str, Any]) -> None:
        """Take note of the keys of an object, which are not those of the one before."""
        options = self._options
        known = set(self._names)
        if self._reader is None or any(key in FIELDS and key not in known for key in item):
            names = [*item, *inner_names(item)] if self._reader is None else [key for key in item if key in FIELDS]
            seen = dict.fromkeys((*self._names, *names, *(options.columns.values() if self._reader else ())))
            columns = matched(list(seen), options.columns, self._where)
            self._names, self._reader = list(seen), Reader(columns, options)
            self._used = names_of(columns)
        self._keys, self._told = item.keys(), None
        if all(name in item for name in self._used):
            self._row = _picked(self._used)
        else:
            paths = [name.split(".") for name in self._used]
            self._row = lambda found: [_at(found, path) for path in paths]


def inner_names(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of what lies inside an object's objects, with dots between them."""
    for key, value in item.items():
        if isinstance(value, dict):
            for name in (*value, *inner_names(value)):
                yield f"{key}.{name}"


def _at(item: Mapping[str, Any], path: Sequence[str]) -> Any:
    if len(path) == 1:
        return item.get(path[0])
    joined = ".".join(path)
    if joined in item:
        return item[joined]
    found: Any = item
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _parquet(file: SourceFile, options: ReadOptions) -> Iterator[Found]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        message = f"file {file.path}: is Parquet, which needs the package pyarrow"
        raise WrongUsage(message, hint="pip install 'farebox[parquet]'") from None
    try:
        with ParquetFile(file.path, pre_buffer=False) as table:  # reads as it goes, not all ahead
            columns = matched(table.schema_arrow.names, options.columns, f"file {file.path}")
            yield from _batches(file, table, names_of(columns), Reader(columns, options))
    except ArrowException as error:
        message = f"file {file.path}: cannot be read as Parquet: {str(error).splitlines()[0][:200]}"
        raise WrongUsage(message, hint="it is cut or damaged: export it again") from None


def _batches(file: SourceFile, table: Any, names: list[str], reader: Reader) -> Iterator[Found]:
    line = 0
    total = max(table.metadata.num_rows, 1)
    for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE, columns=names, use_threads=False):
        if batch.num_rows:
            columns = [batch.column(name).to_pylist() for name in names]
            yield from reader.found(range(line + 1, line + 1 + batch.num_rows), columns)
        line += batch.num_rows
        file.reach(line / total)


def _recognises(head: str) -> bool:
    return bool(head.strip())


SOURCE = Source(
    name="generic",
    title="table of requests",
    recognises=_recognises,
    expected="a table with a head, JSON objects, or Parquet",
    read=_read,
)
