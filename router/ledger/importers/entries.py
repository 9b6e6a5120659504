"""The entries of an export: rows of a table by column, or items of JSON, those inside an API's pages included.

In: a `SourceFile`. Out: mappings, each with its line (of a table or of JSON lines) or its number from 1. Invariant: an
entry that is none is rejected alone, and a last page that says more pages follow is said, not passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pricing.errors import PricingError
from router.ledger.importers.delimited import delimiter_of
from router.ledger.importers.documents import parse_json
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import BadRecordError, Record, Rejected, Tags

Entry = Mapping[str, Any]
_SHOWN = 2_000  # characters of an entry kept beside the reason it was rejected for
_LEFT_OUT = frozenset(
    {"api_key", "completion", "input", "messages", "output", "prompt", "proxy_server_request", "response"}
)
"""Fields of prompts, answers and keys: they explain no rejection, and stand in no file of rejects."""


def columns_of(head: str) -> frozenset[str]:
    """Return the column names of a table's first line; none where the text begins like JSON.

    Args:
        head: the beginning of a file.
    """
    text = head.lstrip()
    if text[:1] in {"", "{", "["}:
        return frozenset()
    first = text.partition("\n")[0]
    return frozenset(name.strip().strip('"') for name in first.split(delimiter_of(text)))


def entries(file: SourceFile) -> Iterator[tuple[int, Entry | Rejected]]:
    """Yield a file's entries in their order.

    Args:
        file: a table, JSON lines, or JSON documents: lists of entries, single entries, or pages with them under `data`.

    Returns:
        The line or number, from 1; and the entry. A table's cells are texts, by column.

    Raises:
        WrongUsage: the file as a whole cannot be read.
    """
    return _rows(file) if file.kind == "table" else _items(file)


def counts_lines(file: SourceFile) -> bool:
    """Return whether a JSON file's entries are numbered by its lines: where it has several.

    Args:
        file: a file. One line alone is a document, as an API's answer is saved, however long.
    """
    return file.kind == "lines" and file.lines > 1


def found(
    number: int, entry: Entry | Rejected, read: Callable[[int, Entry], Record | None]
) -> Record | Rejected | None:
    """Return the record of an entry, or why it is none; None for an entry that is nothing to count and no fault either.

    Args:
        number: its line or number.
        entry: from `entries`.
        read: makes the record. It raises `BadRecordError` or `PricingError` where the entry is at fault.
    """
    if isinstance(entry, Rejected):
        return entry
    try:
        return read(number, entry)
    except (BadRecordError, PricingError) as error:
        return rejected(number, str(error).partition("\n")[0], entry)


def records(
    listed: Iterator[tuple[int, Entry | Rejected]], read: Callable[[int, Entry], Record | None]
) -> Iterator[Record | Rejected]:
    """Yield the record of each entry, or why it is none, as `found` returns it.

    Args:
        listed: from `entries`.
        read: as for `found`.
    """
    for number, entry in listed:
        each = found(number, entry, read)
        if each is not None:
            yield each


def rejected(number: int, reason: str, entry: Any) -> Rejected:
    """Return an entry as a rejected one, its text cut and without prompt, answer and key.

    Args:
        number: its line or number.
        reason: why.
        entry: it.
    """
    shown = (
        {name: value for name, value in entry.items() if name not in _LEFT_OUT} if isinstance(entry, dict) else entry
    )
    return Rejected(number, reason, json.dumps(shown, ensure_ascii=False, default=str)[:_SHOWN])


def nested(value: Any, name: str) -> Entry:
    """Return an object inside an entry: itself, or the JSON text of it; empty where there is none.

    Args:
        value: what the entry holds.
        name: the field, for the message.

    Raises:
        BadRecordError: it is no object.
    """
    if value is None or value == "":
        return {}
    read = value
    if isinstance(value, str):
        try:
            read = parse_json(value)
        except ValueError:
            raise BadRecordError(f"{name} is {value[:40]!r}; a JSON object is allowed") from None
    if not isinstance(read, dict):
        if read is None or read == []:
            return {}
        raise BadRecordError(f"{name} is {str(value)[:40]!r}; a JSON object is allowed")
    return read


def listed_texts(value: Any, name: str) -> tuple[str, ...]:
    """Return a list of texts inside an entry: itself, or the JSON text of it; empty where there is none.

    Args:
        value: what the entry holds.
        name: the field, for the message.

    Raises:
        BadRecordError: it is no list of texts.
    """
    read = value
    if isinstance(value, str) and value:
        try:
            read = parse_json(value)
        except ValueError:
            raise BadRecordError(f"{name} is {value[:40]!r}; a JSON list of texts is allowed") from None
    if read is None or read in ("", {}):
        return ()
    if not isinstance(read, list) or any(not isinstance(each, str) for each in read):
        raise BadRecordError(f"{name} is {str(value)[:40]!r}; a list of texts is allowed")
    return tuple(read)


def truth(value: Any, name: str) -> bool | None:
    """Return a truth value; None for an empty cell or null.

    Args:
        value: true, false, or a text of them in any case.
        name: the field, for the message.

    Raises:
        BadRecordError: it is anything else.
    """
    if isinstance(value, bool) or value is None:
        return value
    said = {"true": True, "false": False, "": None, "none": None}
    if isinstance(value, str) and value.strip().lower() in said:
        return said[value.strip().lower()]
    raise BadRecordError(f"{name} is {str(value)[:40]!r}; true or false is allowed")


def tags_of(named: Mapping[str, str | None]) -> Tags:
    """Return labels, those without a value left out.

    Args:
        named: values by name.
    """
    return tuple(sorted((name, value) for name, value in named.items() if value))


def labelled(labels: tuple[str, ...]) -> dict[str, str]:
    """Return labels that are plain texts as names with values: "env:prod" is env = prod, "urgent" is urgent = yes.

    Args:
        labels: the texts.
    """
    named = {}
    for label in labels:
        name, sign, value = label.strip().partition(":")
        if name.strip():
            named[name.strip()] = value.strip() or "yes" if sign else "yes"
    return named


def _rows(file: SourceFile) -> Iterator[tuple[int, Entry | Rejected]]:
    head, rows = file.table()
    for line, cells in rows:
        if len(cells) == len(head):
            yield line, dict(zip(head, cells, strict=True))
        else:
            reason = f"has {len(cells)} cells; the head has {len(head)}"
            yield line, Rejected(line, reason, ",".join(cells)[:_SHOWN])


def _items(file: SourceFile) -> Iterator[tuple[int, Entry | Rejected]]:
    by_line = counts_lines(file)
    number, more = 0, None
    for line, item in (file if by_line else replace(file, kind="document")).items():
        if isinstance(item, Rejected):
            yield line, item
            continue
        is_page = isinstance(item, dict) and isinstance(item.get("data"), list)
        if is_page:
            more = line if item.get("has_more") is True else None
        for each in item["data"] if is_page else (item,):
            number = line if by_line else number + 1
            yield number, each if isinstance(each, dict) else rejected(number, "is no JSON object", each)
    if more is not None:
        yield more, Rejected(more, "the last page says that more pages follow (has_more); export those too")
