"""Spans of time read from the rollups: the fewest rows that they are the sum of.

In: an engine, spans in microseconds. Out: cubes of sums or histograms, counts of runs, the dearest runs. Invariant:
what comes out is what the raw rows (and those that were pruned) add up to, to the last digit: marks of the spans are
worked off first, and where the database cannot be written, the raw rows themselves are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import numpy as np
import sqlalchemy as sa

from pricing.money import join_amount
from router.errors import LedgerError, unknown_name
from router.ledger import histograms, queries
from router.ledger.cube import SPAN, LatencyCube, UsageCube, compacted
from router.ledger.database import database_errors, is_read_only, shown
from router.ledger.groups import DearRun, RunGroup
from router.ledger.records import Amount
from router.ledger.rollup_cover import Use, cover, plan
from router.ledger.rollup_fetch import fetch_histograms, fetch_sums
from router.ledger.rollup_runs import DEAREST
from router.ledger.rollup_tables import WIDTHS, dearest_runs, prunes, rollup_keys, runs_rollup
from router.ledger.rollups import DAY, refresh
from router.ledger.rows import QUARTER_HOUR_US
from router.ledger.sums import KEY_COLUMNS, SUM_NAMES

Span = tuple[int, int]
RUN_COLUMNS = ("day", "configuration", "task_class", "tenant", "tags_id", "status")
"""What runs can be grouped by."""

_SPANS_AT_ONCE = 1_000  # a statement of some 3,000 pieces
_NONE = np.empty(0, np.int64)
_LAST_US = 253_402_300_800_000_000  # the end of the year 9999: an end beyond it means all there is


def quarter_hours(start_us: int, end_us: int) -> tuple[int, int]:
    """Return a span as quarter hours since 1970 UTC; an end beyond the year 9999 stands for all there is.

    Raises:
        ValueError: an edge lies within a quarter hour, or the end before the start.
    """
    end_us = min(end_us, _LAST_US)
    for edge in (start_us, end_us):
        if edge % QUARTER_HOUR_US:
            raise ValueError(f"span: {edge} µs lies within a quarter hour; whole ones are allowed")
    if end_us < start_us:
        raise ValueError(f"span: it ends at {end_us} µs, before its start at {start_us} µs")
    return start_us // QUARTER_HOUR_US, end_us // QUARTER_HOUR_US


class RollupReader:
    """Reads the rollups of one ledger.

    Args:
        engine: of a ledger at the current revision.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._keys: dict[int, tuple[Any, ...]] = {}  # by id; a key never changes

    def usage(self, spans: Sequence[Span], times: Sequence[str] = ()) -> UsageCube:
        """Return the sums of some spans, each with the number of its span.

        Args:
            spans: start and end in microseconds since 1970 UTC, on whole quarter hours.
            times: of `day` and `quarter_hour`, what is to be kept apart.

        Raises:
            ValueError: a span is not of whole quarter hours.
            LedgerError: the database cannot be read.
        """
        bounds = [quarter_hours(*span) for span in spans]
        if not self._fresh(bounds):
            return self._raw_usage(spans, times)
        heads = 1 + len(times)
        columns = [[_NONE] for _ in range(heads + 1)]
        sums = [np.empty((0, len(SUM_NAMES)), np.int64)]
        for uses in _plans(bounds, times):
            with self._connected() as connection:
                rows = fetch_sums(connection, uses, times)
            for column, part in zip(columns, (*rows.times, rows.key_ids), strict=True):
                column.append(part)
            sums.append(rows.sums)
        *kept, key_ids = map(np.concatenate, columns)
        kept, key_ids, totals = compacted(kept, key_ids, np.concatenate(sums))
        keys = self._keys_of(set(key_ids.tolist()))
        return UsageCube(dict(zip((SPAN, *times), kept, strict=True)), key_ids, totals, keys)

    def latencies(
        self, spans: Sequence[Span], times: Sequence[str] = (), measure: Literal["latency", "ttft"] = "latency"
    ) -> LatencyCube:
        """Return the histograms of some spans; see `usage`.

        Args:
            spans: as there.
            times: as there.
            measure: whole calls, or times to first token.

        Raises:
            ValueError: a span is not of whole quarter hours.
            LedgerError: the database cannot be read.
        """
        bounds = [quarter_hours(*span) for span in spans]
        if not self._fresh(bounds):
            return self._raw_latencies(spans, times, measure)
        column = "latencies" if measure == "latency" else "ttfts"
        columns = [[_NONE] for _ in range(3 + len(times))]
        packed: list[bytes] = []
        for uses in _plans(bounds, times):
            with self._connected() as connection:
                rows = fetch_histograms(connection, uses, times, column)
            for values, part in zip(columns, (*rows.times, rows.key_ids, rows.signs), strict=True):
                values.append(part)
            packed.extend(rows.histograms)
        *kept, key_ids, signs = map(np.concatenate, columns)
        owners, buckets, counts = histograms.unpacked(packed)
        keys = self._keys_of(set(key_ids.tolist()))
        kept_apart = dict(zip((SPAN, *times), kept, strict=True))
        return LatencyCube(kept_apart, key_ids, owners, buckets, counts * signs[owners], keys)

    def runs(self, span: Span, by: Sequence[str]) -> tuple[RunGroup, ...]:
        """Return how many runs that started in a span there are of each combination that occurs.

        Args:
            span: start and end in microseconds since 1970 UTC, on whole quarter hours.
            by: of `RUN_COLUMNS`.

        Raises:
            WrongUsage: a group that does not exist.
            ValueError: the span is not of whole quarter hours.
            LedgerError: the database cannot be read, or its rollups cannot be brought up to date.
        """
        bounds = quarter_hours(*span)
        self._need_fresh([bounds])
        for name in by:
            if name not in RUN_COLUMNS:
                raise unknown_name("group", name, RUN_COLUMNS)
        columns = [runs_rollup.c[name] for name in by]
        found: dict[tuple[Any, ...], int] = {}
        table = runs_rollup.c
        for use in cover(*bounds, (1, DAY)):
            rows = use.piece
            within = (table.width == rows.width, table.quarter_hour >= rows.first, table.quarter_hour < rows.past)
            query = sa.select(*columns, sa.func.sum(table.runs)).where(*within).group_by(*columns)
            with self._connected() as connection:
                for *key, count in connection.execute(query):
                    if count is not None:
                        found[tuple(key)] = found.get(tuple(key), 0) + use.sign * int(count)
        return tuple(RunGroup(key, count) for key, count in found.items() if count)

    def dearest(self, span: Span, limit: int) -> tuple[DearRun, ...]:
        """Return the runs that started in a span and cost most, dearest first, so many of each currency.

        Raises:
            ValueError: the span is not of whole quarter hours, or the limit is above what is kept.
            LedgerError: the database cannot be read, or its rollups cannot be brought up to date.
        """
        if limit > DEAREST:
            raise ValueError(f"limit: {limit} is not allowed; of each quarter hour the {DEAREST} dearest are kept")
        first, past = quarter_hours(*span)
        self._need_fresh([(first, past)])
        table = dearest_runs.c
        within = (table.quarter_hour >= first, table.quarter_hour < past)
        best = (table.settled_micro.desc(), table.settled_pico.desc(), table.run_id)
        found: list[DearRun] = []
        with self._connected() as connection:
            currencies = connection.execute(sa.select(table.currency).where(*within).distinct()).scalars()
            for currency in sorted(currencies):
                query = sa.select(dearest_runs).where(*within, table.currency == currency)
                found.extend(map(_dear_run, connection.execute(query.order_by(*best).limit(limit)).mappings()))
        return tuple(found)

    def _fresh(self, bounds: Sequence[tuple[int, int]]) -> bool:
        """Bring the rollups of some spans up to date; False where the database cannot be written."""
        if not bounds:
            return True
        first, past = min(each[0] for each in bounds), max(each[1] for each in bounds)
        try:
            refresh(self._engine, first, past)
        except LedgerError as error:
            if not is_read_only(error):
                raise
            if self._has_prunes():
                self._refuse()
            return False
        return True

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        with database_errors(self._engine, "read"), self._engine.connect() as connection:
            yield connection

    def _has_prunes(self) -> bool:
        with self._connected() as connection:
            return connection.execute(sa.select(prunes.c.prune_id).limit(1)).first() is not None

    def _need_fresh(self, bounds: Sequence[tuple[int, int]]) -> None:
        if not self._fresh(bounds):
            self._refuse()

    def _refuse(self) -> NoReturn:
        message = f"database {shown(self._engine.url)}: its sums are not up to date, and it cannot be written"
        raise LedgerError(message, hint="any report brings them up to date where it can be written")

    def _keys_of(self, ids: set[int]) -> Mapping[int, tuple[Any, ...]]:
        if not ids <= self._keys.keys():
            query = sa.select(rollup_keys.c.key_id, *(rollup_keys.c[name] for name in KEY_COLUMNS))
            with self._connected() as connection:
                self._keys = {row[0]: tuple(row[1:]) for row in connection.execute(query)}
        return {key_id: self._keys[key_id] for key_id in ids}

    def _raw_usage(self, spans: Sequence[Span], times: Sequence[str]) -> UsageCube:
        """Read the raw rows, where the rollups cannot be brought up to date."""
        heads: list[tuple[int, ...]] = []
        sums: list[list[int]] = []
        ids: dict[tuple[Any, ...], int] = {}
        by = (*times, *KEY_COLUMNS)
        for number, span in enumerate(spans):
            for query in (queries.attempt_groups(*span, by), queries.bucket_groups(*span, by)):
                with self._connected() as connection:
                    rows = connection.execute(query).all()
                for row in rows:
                    key = tuple(row[len(times) : len(by)])
                    heads.append((number, *row[: len(times)], ids.setdefault(key, len(ids))))
                    sums.append([int(value or 0) for value in row[len(by) :]])
        table = np.array(heads, np.int64).reshape(len(heads), 2 + len(times))
        kept = {name: table[:, at] for at, name in enumerate((SPAN, *times))}
        keys = {key_id: key for key, key_id in ids.items()}
        return UsageCube(kept, table[:, -1], np.array(sums, np.int64).reshape(len(sums), len(SUM_NAMES)), keys)

    def _raw_latencies(self, spans: Sequence[Span], times: Sequence[str], measure: str) -> LatencyCube:
        found: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        column = "latency_bucket" if measure == "latency" else "ttft_us"
        by = (*times, *KEY_COLUMNS)
        for number, span in enumerate(spans):
            with self._connected() as connection:
                for *key, value, count in connection.execute(queries.latency_counts(*span, by, column)):
                    found.setdefault((number, *key), []).append((value, count))
        ids: dict[tuple[Any, ...], int] = {}
        heads = [(*key[: 1 + len(times)], ids.setdefault(key[1 + len(times) :], len(ids))) for key in found]
        table = np.array(heads, np.int64).reshape(len(heads), 2 + len(times))
        make = histograms.from_counts if measure == "latency" else histograms.from_timed_counts
        kept = {name: table[:, at] for at, name in enumerate((SPAN, *times))}
        unpacked = histograms.unpacked([make(pairs) for pairs in found.values()])
        return LatencyCube(kept, table[:, -1], *unpacked, {key_id: key for key, key_id in ids.items()})


def _plans(bounds: Sequence[tuple[int, int]], times: Sequence[str]) -> Iterator[Sequence[Use]]:
    """Yield what spans are the sums of, as many at once as a statement takes: a span is of one statement."""
    widths = (1,) if "quarter_hour" in times else WIDTHS
    for first in range(0, len(bounds), _SPANS_AT_ONCE):
        if uses := plan(bounds[first : first + _SPANS_AT_ONCE], widths, first):
            yield uses


def _dear_run(row: sa.RowMapping) -> DearRun:
    settled = Amount(row["currency"], join_amount(row["settled_micro"], row["settled_pico"]))
    names = ("run_id", "started_us", "configuration", "task_class", "tenant", "attempts")
    return DearRun(**{name: row[name] for name in names}, settled=settled)
