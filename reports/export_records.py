"""The ledger's records one by one, as rows of a file.

In: a reader, a period. Out: rows of `export_columns.RECORD_COLUMNS`. Invariant: every record of the period is in one
row, and its amounts are the ledger's own, to the last digit; nothing is held back in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Protocol

from pricing import join_amount
from reports.export_columns import RECORD_COLUMNS
from reports.period import at_us

_AMOUNTS = {"list_cost": "cost", "settled_cost": "settled", "reported_cost_usd": "reported_usd"}
_RENAMED = {"list_currency": "cost_currency", "started_at": "started_us", "ended_at": "ended_us"}


class RecordReader(Protocol):
    """What the export reads of a ledger; `router.ledger.reader.Reader` has it."""

    def iterate_attempts(self, start_us: int, end_us: int) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield every record of a span in chunks."""
        ...


def record_rows(reader: RecordReader, start_us: int, end_us: int) -> Iterator[tuple[Any, ...]]:
    """Yield one row for each record of a span: attempts in the order of time, then buckets of usage.

    Args:
        reader: the ledger's.
        start_us: first instant, microseconds since 1970 UTC.
        end_us: first instant that is not in it any more.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from router.ledger.scan import SCANNED

    places: Mapping[str, int] = {name: at for at, name in enumerate(SCANNED)}
    takers = [_taker(column.name, column.kind, places) for column in RECORD_COLUMNS]
    for chunk in reader.iterate_attempts(start_us, end_us):
        for record in chunk:
            yield tuple(take(record) for take in takers)


def _taker(name: str, kind: str, places: Mapping[str, int]) -> Any:
    """Return what takes one column's value from a record."""
    if kind == "money":
        stored = _AMOUNTS.get(name, name)
        micro, pico = places[f"{stored}_micro"], places[f"{stored}_pico"]
        return lambda record: None if record[micro] is None else join_amount(record[micro], record[pico])
    at = places[_RENAMED.get(name, name)]
    if kind == "moment":
        return lambda record: None if record[at] is None else at_us(record[at])
    if kind == "flag":
        return lambda record: None if record[at] is None else bool(record[at])
    return itemgetter(at)
