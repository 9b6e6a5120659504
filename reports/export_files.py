"""Rows of any number as a file: CSV, JSON lines or Parquet, written as they come.

In: columns, rows one after the other, an open binary file. Out: bytes in the file. Invariant: memory does not grow with
the number of rows; numbers are exact (decimal text, or Parquet's decimal128).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import islice
from typing import IO, Any, Literal, TypeAlias, get_args

from reports.export_columns import ExportColumn, ExportKind
from reports.export_values import guarded, objects_of, text_of
from router.errors import RouterError, WrongUsage

ExportFormat: TypeAlias = Literal["csv", "jsonl", "parquet"]
EXPORT_FORMATS: tuple[ExportFormat, ...] = get_args(ExportFormat)
Rows: TypeAlias = Iterable[Sequence[Any]]
_ROWS_AT_ONCE = 50_000
PLACES: Mapping[ExportKind, int] = {"money": 12, "price": 22, "quantity": 6}
"""Decimals of decimal128(38, …)."""


def write_rows(
    file: IO[bytes], form: ExportFormat, columns: Sequence[ExportColumn], rows: Rows, *, guard: bool = True
) -> int:
    """Write rows and return how many there were.

    Args:
        file: open for binary writing; it is not closed.
        form: csv (RFC 4180, UTF-8, line feeds), jsonl (one object a line) or parquet.
        columns: the columns.
        rows: values in their order.
        guard: csv only: whether a text that a spreadsheet would run as a formula is led by an apostrophe.

    Raises:
        WrongUsage: Parquet's package is not installed.
        RouterError: a number has more digits than Parquet's decimal128.
    """
    if form == "parquet":
        return write_parquet(file, columns, rows)
    text = TextIOWrapper(file, encoding="utf-8", newline="", write_through=False)
    try:
        return _write_csv(text, columns, rows, guard=guard) if form == "csv" else _write_jsonl(text, columns, rows)
    finally:
        text.flush()
        text.detach()


def require_parquet(what: str) -> None:
    """Refuse Parquet where its package is not installed.

    Args:
        what: the option or file that asked for it, for the message.

    Raises:
        WrongUsage: it is not installed.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise WrongUsage(f"{what}: Parquet needs the package pyarrow", hint="pip install 'farebox[parquet]'") from None


def _write_csv(file: TextIOWrapper, columns: Sequence[ExportColumn], rows: Rows, *, guard: bool) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    # The writer itself leaves None empty and writes whole numbers, and texts that need no guard, as they are.
    plain = ("count",) if guard else ("count", "text", "json")
    changed = [(at, column.kind) for at, column in enumerate(columns) if column.kind not in plain]
    written, count = guarded if guard else text_of, 0
    for row in rows:
        cells = list(row)
        for at, kind in changed:
            if cells[at] is not None:
                cells[at] = written(cells[at], kind)
        writer.writerow(cells)
        count += 1
    return count


def _write_jsonl(file: TextIOWrapper, columns: Sequence[ExportColumn], rows: Rows) -> int:
    count = 0
    for row in rows:
        file.write(json.dumps(objects_of(columns, row), ensure_ascii=False, separators=(",", ":")))
        file.write("\n")
        count += 1
    return count


def write_parquet(
    file: IO[bytes], columns: Sequence[ExportColumn], rows: Rows, metadata: Mapping[str, str] | None = None
) -> int:
    """Write rows as Parquet and return how many there were.

    Args:
        file: open for binary writing; it is not closed.
        columns: the columns.
        rows: values in their order.
        metadata: texts that are kept with the file, by key.

    Raises:
        WrongUsage: pyarrow is not installed.
        RouterError: a number has more digits than its type.
    """
    require_parquet("--format parquet")
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    fields = [pa.field(column.name, arrow_type(column.kind)) for column in columns]
    schema = pa.schema(fields, metadata=None if metadata is None else dict(metadata))
    count = 0
    with ParquetWriter(file, schema, compression="zstd") as writer:
        for chunk in _chunks(rows):
            writer.write_table(_table(chunk, columns, schema))
            count += len(chunk)
    return count


def _table(chunk: Sequence[Sequence[Any]], columns: Sequence[ExportColumn], schema: Any) -> Any:
    import pyarrow as pa

    values = list(zip(*chunk, strict=True))
    arrays = []
    for column, cells, field in zip(columns, values, schema, strict=True):
        try:
            arrays.append(pa.array(cells, field.type))
        except (pa.ArrowInvalid, OverflowError) as error:
            message = f"column {column.name}: a value does not fit into {field.type}"
            raise RouterError(message, hint="--format csv has room for every number") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def arrow_type(kind: ExportKind) -> Any:
    """Return the Arrow type of a kind of column.

    Args:
        kind: the kind.
    """
    import pyarrow as pa

    if kind in PLACES:
        return pa.decimal128(38, PLACES[kind])
    if kind in ("instant", "moment"):
        return pa.timestamp("us", tz="UTC")
    return {"count": pa.int64(), "flag": pa.bool_(), "number": pa.float64()}.get(kind, pa.string())


def _chunks(rows: Rows) -> Iterator[Sequence[Sequence[Any]]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _ROWS_AT_ONCE)):
        yield chunk
