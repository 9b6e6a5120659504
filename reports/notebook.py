"""The ledger as pandas data frames for notebooks.

In: a ledger or its reader, instants or a month. Out: frames whose columns, dtypes and units docs/exports.md lists.
Invariant: amounts are `decimal.Decimal` objects, exact to 1e-12, in units of the currency that stands beside them;
counts are nullable integers; instants are aware UTC; what is unknown is missing, never 0. pandas is loaded when a frame
is first made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pricing import Catalog, FxTable, join_amount
from reports.export_columns import RECORD_COLUMNS, ExportColumn, ExportKind
from reports.export_records import record_rows
from reports.focus import focus_export
from reports.focus_columns import COLUMNS
from reports.page import Cell, Column, Money, Page
from reports.period import day_parts, named_month, time_zone, to_us
from router.errors import WrongUsage

if TYPE_CHECKING:
    import pandas as pd

    from router.ledger.reader import Reader

    class HasReader(Protocol):
        """An open ledger."""

        @property
        def reader(self) -> Reader:
            """What reports read."""
            ...

    Source: TypeAlias = Reader | HasReader

_DTYPES: Mapping[ExportKind, str] = {"text": "string", "json": "string", "count": "Int64", "flag": "boolean"}
_TIMES = ("instant", "moment")
_SUMS = (
    *("records", "attempts", "requests", "requests_unknown", "calls", "succeeded", "usage_unknown", "cost_unknown"),
    *("reported", "unsettled"),
)
_AMOUNTS = {
    "list_cost": ("cost", "list_currency"),
    "settled_cost": ("settled", "settled_currency"),
    "reported_cost_usd": ("reported_usd", None),
    "reserved_unsettled_usd": ("unsettled_usd", None),
}


def attempts_frame(source: Source, start: datetime, end: datetime) -> pd.DataFrame:
    """Return one row for each record of a span: attempts in the order of time, then buckets of usage.

    All rows are held in memory, about 1 kB each; for millions of them write Parquet with `router export calls`.

    Args:
        source: an open ledger, or its reader.
        start: first instant, aware.
        end: first instant that is not in it any more, aware.

    Returns:
        Columns as `reports.export_columns.RECORD_COLUMNS` names and explains them: texts as `string`, counts, tokens
        and microseconds as `Int64`, flags as `boolean`, instants as `datetime64[us, UTC]`, amounts as `Decimal` objects
        (dtype object), None where not known.

    Raises:
        WrongUsage: an instant has no zone.
        LedgerError: the ledger cannot be read.
    """
    start_us, end_us = _span(start, end)
    return _framed(RECORD_COLUMNS, list(record_rows(_reader(source), start_us, end_us)))


def month_frame(
    source: Source, month: str, by: Sequence[str] = ("model_served",), time_zone_name: str = "UTC"
) -> pd.DataFrame:
    """Return a month's sums, one row for each group and pair of currencies.

    Args:
        source: an open ledger, or its reader.
        month: as `2026-10`.
        by: names of `router.ledger.queries.GROUP_COLUMNS`, but for the times; empty: one group of all.
        time_zone_name: IANA name of the zone whose midnights count.

    Returns:
        Columns: `by`; `list_currency`, `settled_currency` (`string`, missing where no cost is known); `records`,
        `attempts`, `requests`, `requests_unknown`, `calls`, `succeeded`, `usage_unknown`, `cost_unknown`, `reported`,
        `unsettled` and the usage buckets (`Int64`; sums past 2^63 as objects); `list_cost`, `settled_cost` in units of
        their currencies, `reported_cost_usd` and `reserved_unsettled_usd` in US dollars (`Decimal` objects). No rows
        where the month has none.

    Raises:
        WrongUsage: the month, zone or group does not exist.
        LedgerError: the ledger cannot be read.
    """
    zone = time_zone(time_zone_name)
    period = named_month(month, zone, datetime.now(zone))
    return _summed(_reader(source), [(None, (period.start_us, period.end_us))], by)


def daily_frame(
    source: Source, start: datetime, end: datetime, by: Sequence[str] = (), time_zone_name: str = "UTC"
) -> pd.DataFrame:
    """Return the sums of each day of a time zone, one row for each day, group and pair of currencies.

    Args:
        source: an open ledger, or its reader.
        start: first instant, aware, on a whole quarter hour.
        end: first instant that is not in it any more, alike.
        by: as for `month_frame`.
        time_zone_name: IANA name of the zone that days are cut in.

    Returns:
        `day` (`datetime64[us]`, that day's date there), then as `month_frame`. Days without records have no row.

    Raises:
        WrongUsage: an instant has no zone; the time zone or group does not exist.
        LedgerError: the ledger cannot be read.
    """
    spans: dict[Any, tuple[int, int]] = {}
    for part in day_parts(*_span(start, end), time_zone(time_zone_name)):
        first, _ = spans.get(part.day, (part.start_us, 0))
        spans[part.day] = (first, part.end_us)
    return _summed(_reader(source), list(spans.items()), by)


def focus_frame(source: Source, month: str, fx: FxTable, catalog: Catalog, time_zone_name: str = "UTC") -> pd.DataFrame:
    """Return a month as FOCUS 1.2 rows, with the columns of `reports.focus_columns.COLUMNS`; see `focus_export`.

    Args:
        source: an open ledger, or its reader.
        month: as `2026-10`.
        fx: exchange rates.
        catalog: says who publishes a model.
        time_zone_name: IANA name of the zone that days and months are cut in.

    Raises:
        WrongUsage: the month or zone does not exist.
        RouterError: the month has no rows.
        FxError: a list cost cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    zone = time_zone(time_zone_name)
    period = named_month(month, zone, datetime.now(zone))
    return _framed(COLUMNS, list(focus_export(_reader(source), period, fx, catalog).rows))


def table_frame(page: Page, name: str | None = None) -> pd.DataFrame:
    """Return a table of any report's page, without its total line.

    Args:
        page: the page.
        name: the table's name; None: the first one.

    Returns:
        A column for each of the table's, by key, all of dtype object: texts, whole numbers, `Fraction`s (shares, times
        in milliseconds), amounts as `Fraction`s; for each column of amounts a second one, `KEY_currency`. Unknown is
        None.

    Raises:
        KeyError: the page has no such table.
    """
    import pandas as pd

    table = page.tables[0] if name is None else page.table(name)
    found: dict[str, list[Any]] = {}
    for column in table.columns:
        cells = table.column(column.key)
        found[column.key] = [cell.value if isinstance(cell, Money) else cell for cell in cells]
        if _has_money(column, cells):
            found[f"{column.key}_currency"] = [cell.currency if isinstance(cell, Money) else None for cell in cells]
    return pd.DataFrame(found, dtype=object)


def _has_money(column: Column, cells: Iterable[Cell]) -> bool:
    return column.kind in ("money", "exact", "rate") or any(isinstance(cell, Money) for cell in cells)


def _summed(reader: Reader, spans: Sequence[tuple[Any, tuple[int, int]]], by: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    from pricing.usage import BUCKETS

    if times := [name for name in by if name in ("day", "quarter_hour")]:
        raise WrongUsage(f"by: {times[0]!r} is not allowed; days are daily_frame's", hint="for instance by=('tenant',)")
    keys = (*by, "cost_currency", "settled_currency")
    groups = reader.usage_groups_by_span([span for _, span in spans], keys)
    pairs = list(chain.from_iterable(zip(repeat(day), found) for (day, _), found in zip(spans, groups, strict=True)))
    frame: dict[str, Any] = {}
    if any(day is not None for day, _ in spans):
        frame["day"] = pd.Series([str(day) for day, _ in pairs], dtype="string").astype("datetime64[us]")
    for at, name in enumerate((*by, "list_currency", "settled_currency")):
        values = [group.key[at] for _, group in pairs]
        is_text = all(isinstance(value, str | None) for value in values)
        frame[name] = pd.Series(values, dtype="string" if is_text else "object")
    for name in (*_SUMS, *BUCKETS):
        frame[name] = _whole([group.sums[name] for _, group in pairs])
    for name, (stored, currency) in _AMOUNTS.items():
        known = [True] * len(pairs) if currency is None else frame[currency].notna()
        amounts = [
            join_amount(group.sums[f"{stored}_micro"], group.sums[f"{stored}_pico"]) if is_known else None
            for (_, group), is_known in zip(pairs, known, strict=True)
        ]
        frame[name] = pd.Series(amounts, dtype=object)
    return pd.DataFrame(frame)


def _whole(values: Sequence[int]) -> pd.Series[Any]:
    import pandas as pd

    fits = all(-(2**63) <= value < 2**63 for value in values)
    return pd.Series(values, dtype="Int64" if fits else "object")


def _framed(columns: Sequence[ExportColumn], rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    import pandas as pd

    cells = list(zip(*rows, strict=True)) or [()] * len(columns)
    series: dict[str, pd.Series[Any]] = {}
    for column, values in zip(columns, cells, strict=True):
        if column.kind in _TIMES:
            found = pd.Series(pd.to_datetime(list(values), utc=True)).astype("datetime64[us, UTC]")
        else:
            found = pd.Series(list(values), dtype=_DTYPES.get(column.kind, "object"))
        series[column.name] = found
    return pd.DataFrame(series)


def _reader(source: Source) -> Any:
    return source.reader if hasattr(source, "reader") else source


def _span(start: datetime, end: datetime) -> tuple[int, int]:
    for name, instant in (("start", start), ("end", end)):
        if instant.tzinfo is None:
            message = f"{name}: {instant} has no zone; an aware instant is allowed"
            raise WrongUsage(message, hint="for instance datetime(2026, 10, 1, tzinfo=UTC)")
    return to_us(start), to_us(end)
