"""Makes records of a generic file's rows.

In: rows of values, and which column each field is in. Out: records, and rejected rows. Invariant: a row with a fault
costs nothing but itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from router.ledger.importers.field_values import MAKERS, disjoint, distinct, kind_of, labels, model_name
from router.ledger.importers.fields import COUNTED, TAG, Column
from router.ledger.importers.instants import plain_instants
from router.ledger.importers.record import BadRecordError, Block, Counts, Record, Rejected
from router.ledger.importers.source import ReadOptions
from router.ledger.importers.values import counts, instant

_SHOWN = 2_000


class Reader:
    """Makes records of rows.

    Args:
        columns: from `matched`.
        options: how values are read.
    """

    def __init__(self, columns: Sequence[Column], options: ReadOptions) -> None:
        self._options = options
        by_field = {column.field: column for column in columns}
        self._started, self._model = by_field["started"], by_field["model"]
        self._counts = [by_field[field] for field in COUNTED if field in by_field]
        self._has_whole = [field in by_field for field in ("input_tokens", "output_tokens")]
        self._tags = [column for column in columns if column.field.startswith(TAG) or column.field == "tags"]
        self._more = [(column, *MAKERS[column.field]) for column in columns if column.field in MAKERS]
        self._ended = by_field.get("ended")
        self._is_bucket = "requests" in by_field
        self._is_plain = not self._tags and not {"ended", "requests", "http_status"} & by_field.keys()

    def found(
        self, lines: Sequence[int], columns: Sequence[Sequence[Any]], shown: Callable[[int], Any] | None = None
    ) -> Sequence[Record | Block | Rejected]:
        """Return the records of some rows, together where they can be; and why a row is none.

        Args:
            lines: their lines, at least one.
            columns: their values, a column each in the order of `names_of`.
            shown: returns what stands in the file, for a row that is rejected, by its index; None: the values.
        """
        return self._halved(range(len(lines)), lines, columns, shown)

    def _halved(
        self,
        places: range,
        lines: Sequence[int],
        columns: Sequence[Sequence[Any]],
        shown: Callable[[int], Any] | None,
    ) -> Sequence[Record | Block | Rejected]:
        """Look in halves for a row that is none: the others are not lost."""
        start, end = places.start, places.stop
        some = [column[start:end] for column in columns]
        try:
            return self._together(lines[start:end], some)
        except BadRecordError as error:
            if len(places) == 1:
                row = [column[0] for column in some] if shown is None else shown(start)
                return [Rejected(lines[start], str(error), shown_text(row))]
        half = len(places) // 2
        return [
            record for part in (places[:half], places[half:]) for record in self._halved(part, lines, columns, shown)
        ]

    def _together(self, lines: Sequence[int], values: Sequence[Sequence[Any]]) -> Sequence[Record | Block]:
        """Return records of rows without a fault, a column at a time: several times as fast as a row at a time."""
        options = self._options
        started = values[self._started.place]
        made: dict[str, Sequence[Any]] = {
            "line": lines,
            "at_us": plain_instants(started, options.zone)
            or [instant(value, self._started.name, options.zone) for value in started],
            "model": distinct(model_name, values[self._model.place], self._model.name, options),
        }
        usage = self._usage(values)
        for column, field, make in self._more:
            made[field] = make(values[column.place], column.name, options)
        if "identity" in made:
            made["upstream_id"] = made["identity"]
        if isinstance(usage, dict) and self._is_plain:
            return (Block(made, usage),)
        records = Block(made, usage if isinstance(usage, dict) else {}).records()
        if not isinstance(usage, dict):
            records = (record._replace(counts=counts) for record, counts in zip(records, usage, strict=True))
        if self._is_plain:
            return list(records)
        return [self._finished(*each) for each in zip(records, zip(*values, strict=True), strict=True)]

    def _usage(self, values: Sequence[Sequence[Any]]) -> dict[str, Sequence[int]] | list[Counts | None]:
        """Return usage as columns, or each row's where some do not state all of it."""
        thousands = self._options.thousands
        if not self._counts:
            return {}
        read = {column.field: counts(values[column.place], column.name, thousands) for column in self._counts}
        if not any(self._has_whole) or any(None in column for column in read.values()):
            rows = zip(*read.values(), strict=True)
            return [self._incomplete(dict(zip(read, row, strict=True))) for row in rows]
        return disjoint(read, len(values[0]), excludes=self._options.input_excludes_cache)

    def _incomplete(self, read: Mapping[str, int | None]) -> Counts | None:
        """Return a row's usage where something is not stated; None where neither input nor output is."""
        ends = [read.get("input_tokens"), read.get("output_tokens")]
        if ends == [None, None]:
            if any(read.values()):
                raise BadRecordError("has parts of usage, but neither input nor output tokens")
            return None
        for name, count, is_there in zip(("input", "output"), ends, self._has_whole, strict=True):
            if count is None and is_there:
                raise BadRecordError(f"has usage, but its {name} tokens are empty")
        known = {field: (count or 0,) for field, count in read.items()}
        found = disjoint(known, 1, excludes=self._options.input_excludes_cache)
        return Counts(**{bucket: column[0] for bucket, column in found.items()})

    def _finished(self, found: Record, row: Sequence[Any]) -> Record:
        """Return the record with what follows from several of its values, and with its labels."""
        if self._tags:
            found = found._replace(tags=labels(self._tags, row))
        is_bucket = self._is_bucket or found.requests is not None
        ended = None if self._ended is None else row[self._ended.place]
        if self._ended is not None and ended not in (None, ""):
            end_us = instant(ended, self._ended.name, self._options.zone)
            if end_us < found.at_us or (is_bucket and end_us == found.at_us):
                raise BadRecordError(f"{self._ended.name} is {str(ended)[:40]!r}, not after {self._started.name}")
            if is_bucket:
                return found._replace(end_us=end_us)
            if found.latency_us is None:
                found = found._replace(latency_us=end_us - found.at_us)
        elif is_bucket:
            raise BadRecordError("has a number of requests, but no end of their span (ended)")
        if found.http_status is not None and found.http_status >= 400:
            kind = found.error_kind or kind_of(found.http_status)
            return found._replace(status="failed" if found.status == "succeeded" else found.status, error_kind=kind)
        return found


def shown_text(row: Any) -> str:
    """Return a row or an object as the file of rejected lines has it, cut."""
    if isinstance(row, dict):
        return json.dumps(row, default=str, ensure_ascii=False)[:_SHOWN]
    return ",".join("" if value is None else str(value) for value in row)[:_SHOWN]
