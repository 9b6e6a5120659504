"""Rollups: the ledger's total is the report's total, to the last digit, whatever is written, and whenever."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from pricing import Usage
from pricing.terms import Terms
from router.ledger import Ledger, new_id, open_ledger, queries
from router.ledger.latency import latency_bucket
from router.ledger.queries import GROUP_COLUMNS, SUM_NAMES
from router.ledger.records import (
    Amount,
    AttemptEnded,
    AttemptStarted,
    Import,
    ImportedAttempt,
    RunEnded,
    RunStarted,
    UsageBucket,
)
from router.ledger.rollup_cover import plan
from router.ledger.rollup_tables import WIDTHS
from router.ledger.rows import Record
from tests.new_ledger import new_ledger

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
QUARTER_US = 900_000_000
DAY_US = 96 * QUARTER_US
ALL = (0, 2**62)
IMPORT = Import("00000000-0000-7000-8000-000000000001", "f", "n", "s", "m", "l", None, 0)


# ---- what spans are made of


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400)), max_size=4),
    st.lists(st.integers(0, 400), max_size=6),
    st.sampled_from([WIDTHS, (1, 96), (1,)]),
)
def test_the_pieces_of_spans_cover_each_quarter_hour_once(
    apart: list[tuple[int, int]], cuts: list[int], widths: tuple[int, ...]
) -> None:
    """Each quarter hour of a span counts once in it, and no other at all: of spans apart, and of ones in a row."""
    spans = [*apart, *pairwise(sorted(cuts))]
    covered: list[Counter[int]] = [Counter() for _ in spans]
    for use in plan(spans, widths):
        assert use.piece.first % use.piece.width == use.piece.past % use.piece.width == 0
        for quarter_hour in range(use.piece.first, use.piece.past):
            covered[use.span][quarter_hour] += use.sign
    for (first, past), counts in zip(spans, covered, strict=True):
        assert {each: count for each, count in counts.items() if count} == dict.fromkeys(range(first, past), 1)


def _rows(spans: list[tuple[int, int]]) -> Counter[int]:
    """Return how many times of each width are read."""
    read: Counter[int] = Counter()
    for piece in {use.piece for use in plan(spans)}:
        read[piece.width] += (piece.past - piece.first) // piece.width
    return read


def test_a_day_that_is_cut_in_two_is_read_as_itself_and_its_smaller_part() -> None:
    # Tokyo, at 15:00 UTC: the day and three times three hours; the first part is the day less these.
    assert _rows([(0, 60), (60, 96)]) == {96: 1, 12: 3}
    # Kolkata, at 18:30: 18:00 to 21:00 less the two quarter hours before 18:30, and 21:00 to 24:00.
    assert _rows([(0, 74), (74, 96)]) == {96: 1, 12: 2, 1: 2}
    # A part alone, of all but an hour, is the day less that hour.
    assert _rows([(4, 96)]) == {96: 1, 1: 4}
    # Hours are read as what they are: the last of them as the day less 92 others would be no fewer rows.
    assert _rows([(hour * 4, hour * 4 + 4) for hour in range(24)]) == {1: 96}


# ---- random ledgers

_KEYS = ("role", "tenant", "model_asked", "tags", "configuration", "task_class")
_MONEY = st.none() | st.decimals(Decimal(0), Decimal(9_300_000_000), places=12)
_START = st.fixed_dictionaries(
    {
        "at": st.integers(-2, 210),
        "offset_us": st.integers(0, QUARTER_US - 1),
        "role": st.sampled_from([None, "worker", "orchestrator"]),
        "tenant": st.sampled_from([None, "", "a", "日本"]),
        "model_asked": st.sampled_from(["gpt-4.1", "kimi"]),
        "tags": st.sampled_from([{}, {"team": "x"}]),
        "number": st.sampled_from([1, 1, 2]),
        "in_run": st.booleans(),
        "reserved_usd": _MONEY,
    }
)
_END = st.none() | st.fixed_dictionaries(
    {
        "status": st.sampled_from(["succeeded", "succeeded", "failed", "timed_out"]),
        "tokens": st.none() | st.integers(0, 10**12),
        "cost": _MONEY,
        "currency": st.sampled_from(["USD", "CNY"]),
        "reported": _MONEY,
        "latency_us": st.none() | st.integers(0, 2 * DAY_US),
        "ttft_us": st.none() | st.integers(0, 10**9),
        "http_status": st.sampled_from([None, 200, 429]),
        "possibly_billed": st.booleans(),
        "discount": st.sampled_from([None, "0.1"]),
    }
)
_ATTEMPTS = st.lists(st.tuples(_START, _END), max_size=8)
_BUCKETS = st.lists(
    st.tuples(st.integers(0, 200), st.none() | st.integers(0, 10**6), st.none() | st.integers(0, 10**12)), max_size=3
)


class _Writer:
    """Writes drawn attempts; some of them are ended later than they are started."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.run = RunStarted(new_id(), "hybrid", "1", OCTOBER_US + 5 * QUARTER_US, tags={"team": "x"})
        self.late: list[AttemptEnded] = []
        ledger.write_now(IMPORT, self.run)

    def write(self, drawn: list[tuple[dict[str, Any], dict[str, Any] | None]], buckets: list[Any]) -> None:
        records: list[Record] = []
        for place, (start, end) in enumerate(drawn):
            started = self._started(start)
            records.append(started)
            if end is not None:
                ended = self._ended(started.attempt_id, end)
                if place % 2:
                    self.late.append(ended)
                else:
                    records.append(ended)
        records += [self._bucket(*bucket) for bucket in buckets]
        self.ledger.write_now(*records)

    def complete(self) -> None:
        self.ledger.write_now(*self.late, RunEnded(self.run.run_id, "succeeded", OCTOBER_US + DAY_US))
        self.late = []

    def _started(self, start: dict[str, Any]) -> AttemptStarted:
        key = new_id()
        return AttemptStarted(
            attempt_id=key,
            call_key=key,
            number=start["number"],
            configuration="hybrid",
            endpoint="e",
            price_list="l",
            model_asked=start["model_asked"],
            started_us=OCTOBER_US + start["at"] * QUARTER_US + start["offset_us"],
            run_id=self.run.run_id if start["in_run"] else None,
            role=start["role"],
            tenant=start["tenant"],
            reserved_usd=start["reserved_usd"],
            tags=start["tags"],
        )

    @staticmethod
    def _ended(attempt_id: str, end: dict[str, Any]) -> AttemptEnded:
        cost = None if end["cost"] is None else Amount(end["currency"], end["cost"])
        return AttemptEnded(
            attempt_id,
            end["status"],
            "exact" if cost else "unknown",
            end["latency_us"],
            http_status=end["http_status"],
            usage=None if end["tokens"] is None else Usage(end["tokens"]),
            list_cost=cost,
            settled_cost=cost,
            reported_cost_usd=end["reported"],
            possibly_billed=end["possibly_billed"],
            ttft_us=end["ttft_us"],
            terms=Terms(discount_share=Decimal(end["discount"])) if end["discount"] else Terms(),
        )

    @staticmethod
    def _bucket(at: int, requests: int | None, tokens: int | None) -> UsageBucket:
        start_us = OCTOBER_US + at * QUARTER_US
        usage = None if tokens is None else Usage(tokens)
        return UsageBucket(
            new_id(), IMPORT.import_id, start_us, start_us + DAY_US, "e", "l", "gpt-4.1", "unknown",
            requests=requests, usage=usage,
        )  # fmt: skip


def _raw_groups(ledger: Ledger, span: tuple[int, int], by: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, int]]:
    """Return the sums of the raw rows, straight from them."""
    found: dict[tuple[Any, ...], Counter[str]] = {}
    with ledger._engine.connect() as connection:  # noqa: SLF001 - past the rollups
        for query in (queries.attempt_groups(*span, by), queries.bucket_groups(*span, by)):
            for row in connection.execute(query):
                sums = {name: int(value or 0) for name, value in zip(SUM_NAMES, row[len(by) :], strict=True)}
                if sums["records"]:
                    found.setdefault(tuple(row[: len(by)]), Counter(dict.fromkeys(SUM_NAMES, 0))).update(sums)
    return {key: dict(sums) for key, sums in found.items()}


def _assert_equal(ledger: Ledger, span: tuple[int, int], by: tuple[str, ...]) -> None:
    groups = {group.key: dict(group.sums) for group in ledger.reader.usage_groups(*span, by)}
    assert groups == _raw_groups(ledger, span, by)
    for measure, column in (("latency", "latency_bucket"), ("ttft", "ttft_us")):
        raw: dict[tuple[Any, ...], Counter[int]] = {}
        with ledger._engine.connect() as connection:  # noqa: SLF001 - as above
            for *key, value, count in connection.execute(queries.latency_counts(*span, by, column)):
                bucket = value if measure == "latency" else latency_bucket(value)
                raw.setdefault(tuple(key), Counter())[bucket] += count
        statuses = ("succeeded", "failed", "timed_out")
        read = ledger.reader.latency_histogram(*span, by, statuses, measure)  # type: ignore[arg-type]
        assert {group.key: Counter(group.counts) for group in read} == raw


def _assert_parts_equal(ledger: Ledger, edges: list[int]) -> None:
    """See that spans in a row, read at once, are each what its raw rows add up to; edges in quarter hours."""
    spans = list(pairwise(OCTOBER_US + edge * QUARTER_US for edge in edges))
    by = ("tenant", "status")
    for span, groups in zip(spans, ledger.reader.usage_groups_by_span(spans, by), strict=True):
        assert {group.key: dict(group.sums) for group in groups} == _raw_groups(ledger, span, by)
    together = {group.key: group.counts for group in ledger.reader.latency_cube(spans).groups(("span", *by))}
    apart = {
        (number, *group.key): group.counts
        for number, span in enumerate(spans)
        for group in ledger.reader.latency_histogram(*span, ("quarter_hour", *by))
    }
    summed: dict[tuple[Any, ...], Counter[int]] = {}
    for (number, _, *rest), counts in apart.items():  # quarter hours are read without taking anything away
        summed.setdefault((number, *rest), Counter()).update(counts)
    assert {key: Counter(counts) for key, counts in together.items()} == summed


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of an empty ledger, to be copied: a hundred of them are needed."""
    path = tmp_path_factory.mktemp("empty") / "ledger.db"
    new_ledger(path)
    return path


@contextmanager
def _copied(empty: Path) -> Iterator[Ledger]:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty, Path(folder) / "l.db")
        with open_ledger(f"sqlite:///{folder}/l.db") as ledger:
            yield ledger


_SPANS = st.tuples(st.integers(-3, 215), st.integers(0, 220)).map(
    lambda at: (OCTOBER_US + at[0] * QUARTER_US, OCTOBER_US + (at[0] + at[1]) * QUARTER_US)
)
_BY = st.lists(st.sampled_from(GROUP_COLUMNS), unique=True, max_size=3).map(tuple)


@settings(max_examples=15)
@given(_ATTEMPTS, _BUCKETS, _ATTEMPTS, _SPANS, _BY)
def test_rollups_are_the_sum_of_the_raw_rows(
    empty: Path, first: list[Any], buckets: list[Any], more: list[Any], span: tuple[int, int], by: tuple[str, ...]
) -> None:
    """Rollup sums equal raw sums as integers: before and after further writes and late completions."""
    with _copied(empty) as ledger:
        writer = _Writer(ledger)
        writer.write(first, buckets)
        _assert_equal(ledger, span, by)
        writer.write(more, [])
        _assert_equal(ledger, ALL, by)
        writer.complete()
        _assert_equal(ledger, span, by)
        _assert_equal(ledger, ALL, GROUP_COLUMNS)
        checked = ledger.verify(*ALL)
        assert checked.quarter_hours == len({key[1] for key in _raw_groups(ledger, ALL, GROUP_COLUMNS)})
        assert [each for each in checked.findings if each.kind == "sums"] == []


def test_rollups_equal_raw_rows_on_either_database(ledger: Ledger) -> None:
    writer = _Writer(ledger)
    writer.write(_MANY, [(3, None, 5), (3, 7, None), (100, 2, 9)])
    for by in ((), ("day",), ("quarter_hour", "role"), ("tags_id", "terms_id"), GROUP_COLUMNS):
        _assert_equal(ledger, ALL, by)
        _assert_equal(ledger, (OCTOBER_US + 3 * QUARTER_US, OCTOBER_US + 150 * QUARTER_US), by)
    for edges in ([-36, 0, 60, 96, 156, 192], [-22, 0, 74, 96, 170, 192, 266], [1, 2, 3, 4, 95, 96, 97, 192]):
        _assert_parts_equal(ledger, edges)
    writer.complete()
    for by in ((), ("origin",), GROUP_COLUMNS):
        _assert_equal(ledger, ALL, by)
    [found] = [group for group in ledger.reader.usage_groups(*ALL, ("origin",)) if group.key == ("aggregated",)]
    # Three buckets: 7 + 2 requests said, one that says nothing; none of them is an attempt.
    names = ("records", "attempts", "requests", "requests_unknown", "usage_unknown", "uncached_input_tokens")
    assert [found.sums[name] for name in names] == [3, 0, 9, 1, 1, 14]


def _plain(at: int, **changes: Any) -> dict[str, Any]:
    start: dict[str, Any] = {
        "at": at,
        "offset_us": at,
        "role": None,
        "tenant": None,
        "model_asked": "gpt-4.1",
        "tags": {},
        "number": 1,
    }
    return {**start, "in_run": False, "reserved_usd": Decimal("0.5"), **changes}


def _done(**changes: Any) -> dict[str, Any]:
    end: dict[str, Any] = {
        "status": "succeeded",
        "tokens": 10,
        "cost": Decimal("9300000.000000000001"),
        "reported": None,
    }
    more = {"currency": "USD", "latency_us": 1_000, "ttft_us": None, "http_status": 200, "possibly_billed": False}
    return {**end, **more, "discount": None, **changes}


_MANY: list[Any] = [
    (_plain(at, role=("worker", None)[at % 2], tags=({}, {"team": "x"})[at % 3 == 0], in_run=at % 5 == 0), end)
    for at, end in enumerate(
        [
            _done(
                latency_us=1_000 * at,
                ttft_us=at or None,
                discount=(None, "0.1")[at % 4 == 0],
                status=("succeeded", "timed_out")[at % 7 == 0],
                possibly_billed=at % 7 == 0,
            )
            for at in range(190)
        ]
    )
]


# ---- runs


def test_the_dearest_runs_are_those_whose_attempts_cost_most_whenever_they_were(ledger: Ledger, sample: Any) -> None:
    runs = [sample.run(started_us=OCTOBER_US + number) for number in range(14)]
    ledger.write_now(*runs)
    for number, run in enumerate(runs):
        for late in (0, 3 * DAY_US):  # the second attempt is three days later, and costs ten times as much
            started = sample.started(run_id=run.run_id, started_us=OCTOBER_US + late)
            cost = Amount("USD", Decimal(number) * (1 if not late else 10))
            ledger.write_now(started, sample.ended(started, settled_cost=cost, list_cost=cost, cost_status="exact"))
            ledger.reader.dearest_runs(*ALL)  # what was added up must be added up again
    assert ledger.reader.dearest_runs(*ALL)[0].settled.value == 143  # the last write was of another day than the run
    yen = sample.started(run_id=runs[0].run_id)
    ledger.write_now(yen, sample.ended(yen, settled_cost=Amount("JPY", Decimal("0.000000000001"))))
    found = ledger.reader.dearest_runs(*ALL)
    assert [(run.run_id, run.settled.value, run.attempts) for run in found[1:]] == [
        (runs[number].run_id, Decimal(11 * number), 2) for number in range(13, 3, -1)
    ]
    assert (found[0].settled, found[0].attempts) == (Amount("JPY", Decimal("0.000000000001")), 1)
    assert ledger.reader.dearest_runs(OCTOBER_US + DAY_US, OCTOBER_US + 9 * DAY_US) == ()
    assert len(ledger.reader.dearest_runs(*ALL, limit=2)) == 3
    with pytest.raises(ValueError, match="the 10 dearest are kept"):
        ledger.reader.dearest_runs(*ALL, limit=11)


def test_runs_are_counted_by_their_start_and_present_status(ledger: Ledger, sample: Any) -> None:
    going, done, other = (sample.run(started_us=OCTOBER_US + at * DAY_US) for at in (0, 0, 3))
    ledger.write_now(going, done, other)
    assert ledger.reader.run_counts(*ALL) == {"running": 3}
    ledger.write_now(RunEnded(done.run_id, "succeeded", OCTOBER_US + 9 * DAY_US))
    assert ledger.reader.run_counts(*ALL) == {"running": 2, "succeeded": 1}
    assert ledger.reader.run_counts(OCTOBER_US, OCTOBER_US + DAY_US) == {"running": 1, "succeeded": 1}
    groups = ledger.reader.run_groups(*ALL, ("day", "status"))
    assert {group.key: group.runs for group in groups} == {
        (20_727, "running"): 1,
        (20_727, "succeeded"): 1,
        (20_730, "running"): 1,
    }


# ---- many spans at once


def test_days_of_a_zone_are_read_at_once(ledger: Ledger, sample: Any) -> None:
    for at in (0, 59, 60, 96 + 59, 96 + 60):  # Tokyo's midnight is 15:00 UTC: quarter hour 60
        ledger.write_now(sample.started(started_us=OCTOBER_US + at * QUARTER_US))
    spans = [(OCTOBER_US + at * QUARTER_US, OCTOBER_US + (at + 96) * QUARTER_US) for at in (-36, 60, 156)]
    days = ledger.reader.usage_groups_by_span(spans)
    assert [sum(group.sums["attempts"] for group in day) for day in days] == [2, 2, 1]
    cube = ledger.reader.usage_cube(spans, ("day",))
    assert {group.key: group.sums["attempts"] for group in cube.groups(("span", "day"))} == {
        (0, 20_727): 2,
        (1, 20_727): 1,
        (1, 20_728): 1,
        (2, 20_728): 1,
    }
    assert cube.columns(("span", "role"))["span"] == [0, 1, 2]
    with pytest.raises(ValueError, match="quarter_hour: was not kept apart"):
        cube.groups(("quarter_hour",))
    assert ledger.reader.usage_groups_by_span([]) == ()


# ---- old ledgers, odd ledgers


def test_a_row_without_digests_is_added_up_like_any_other(ledger: Ledger) -> None:
    writer = _Writer(ledger)
    writer.write(_MANY[:20], [])
    writer.complete()
    with ledger._engine.begin() as connection:  # noqa: SLF001 - as a ledger of an older version has it
        connection.execute(sa.text("UPDATE attempts SET start_digest = NULL WHERE number = 1"))
    ledger.rebuild()
    _assert_equal(ledger, ALL, GROUP_COLUMNS)
    with ledger._engine.begin() as connection:  # noqa: SLF001
        assert connection.execute(sa.text("SELECT COUNT(*) FROM attempts WHERE start_digest IS NULL")).scalar() == 0
        connection.execute(sa.text("UPDATE attempts SET end_digest = NULL"))
        connection.execute(
            sa.text("INSERT INTO rollup_marks (quarter_hour) SELECT DISTINCT quarter_hour FROM attempts")
        )
    _assert_equal(ledger, ALL, GROUP_COLUMNS)


def test_a_database_that_cannot_be_written_is_read_row_by_row(url: str) -> None:
    with open_ledger(url) as ledger:
        _Writer(ledger).write(_MANY[:9], [(3, 7, 5)])

        def forbid(connection: Any, _record: object) -> None:
            connection.execute("PRAGMA query_only = ON")

        sa.event.listen(ledger._engine, "connect", forbid)  # noqa: SLF001 - as a read-only file answers
        ledger._engine.dispose()  # noqa: SLF001
        _assert_equal(ledger, ALL, GROUP_COLUMNS)
        _assert_equal(ledger, (OCTOBER_US, OCTOBER_US + 4 * QUARTER_US), ("day", "role"))
        with pytest.raises(Exception, match="its sums are not up to date, and it cannot be written"):
            ledger.reader.run_counts(*ALL)


# ---- several processes

_PROCESS = """
import sys
from router.ledger import new_id, open_ledger
from router.ledger.records import AttemptEnded, AttemptStarted
url, writes = sys.argv[1], int(sys.argv[2])
with open_ledger(url) as ledger:
    for number in range(writes):
        key = new_id()
        ledger.write_now(AttemptStarted(key, key, 1, None, "e", "l", "m", 1_790_812_800_000_000 + number * 90_000_000))
        ledger.reader.usage_groups(0, 2**62)
        ledger.write_now(AttemptEnded(key, "succeeded", "unknown", number))
        if number == 20:
            print("under way", flush=True)
"""


@pytest.mark.parametrize("database", ["url", "postgres_url"])
def test_writers_and_refreshers_of_several_processes_lose_nothing(
    database: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(database)
    open_ledger(url).close()
    children = [subprocess.Popen([sys.executable, "-c", _PROCESS, url, "25"], stdout=subprocess.DEVNULL) for _ in "abc"]
    assert [child.wait(120) for child in children] == [0, 0, 0]
    with open_ledger(url) as ledger:
        _assert_equal(ledger, ALL, GROUP_COLUMNS)
        assert ledger.reader.usage_groups(*ALL)[0].sums["succeeded"] == 75


@pytest.mark.parametrize("database", ["url", "postgres_url"])
def test_kill_9_between_write_and_refresh_loses_nothing(database: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(database)
    open_ledger(url).close()
    child = subprocess.Popen([sys.executable, "-c", _PROCESS, url, "100000"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "under way\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    with open_ledger(url) as ledger:
        _assert_equal(ledger, ALL, GROUP_COLUMNS)
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] >= 21


def test_many_rows_at_once_are_the_same_rows(ledger: Ledger, sample: Any) -> None:
    ledger.write_now(IMPORT)
    imported = []
    for number in range(30):
        started = sample.started(started_us=OCTOBER_US + number * 90_000_000, role="worker", number=1)
        imported.append(ImportedAttempt(IMPORT.import_id, started, sample.ended(started, http_status=200)))
    from router.ledger.rows import rows_of

    rows = [row for _, row in rows_of(imported[:20])]
    columns = [name for name in rows[0] if not name.endswith("_digest")]
    values = [tuple(row[name] for name in columns) for row in rows]
    assert ledger.insert_attempts(columns, values[:15]) == 15
    assert ledger.insert_attempts(columns, iter(values)) == 5  # the others are there
    ledger.write_now(*imported)
    [group] = ledger.reader.usage_groups(*ALL, ("origin", "role"))
    assert (group.key, group.sums["attempts"]) == (("imported", "worker"), 30)
    _assert_equal(ledger, ALL, GROUP_COLUMNS)
    row = ledger.reader.attempt(imported[0].started.attempt_id)
    assert row is not None
    assert (row.started, row.ended) == (imported[0].started, imported[0].ended)
