"""What the sums of a month cost: built for the first time, kept up to date, and read, beside pandas on all rows.

    python -m benchmarks.month [--calls 4200000] [--ledger FILE]     (from the project's root)

The answers are checked first: sums by model from the rollups, from the raw rows and from pandas are the same integers.
With --ledger, the file is kept and used again. Wall times; memory is the peak of a process that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from benchmarks.data.month_of_calls import DAYS, START, fill
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.reader import instant_us
from router.ledger.records import AttemptEnded, AttemptStarted

T = TypeVar("T")
MONTH = (instant_us(START), instant_us(START + timedelta(days=DAYS)))
LATER = 20_000  # calls of the incremental part
_TOTALS = ("SUM(cost_micro)", "SUM(cost_pico)", "SUM(uncached_input_tokens)", "COUNT(*)")

READ = """
import json, resource, sys, time
import numpy, sqlalchemy
from benchmarks.month import questions
from router.ledger import open_ledger
with open_ledger(sys.argv[1]) as ledger:
    ledger.reader.months_present()
    begun = time.perf_counter()
    questions(ledger, sys.argv[2])
    took = time.perf_counter() - begun
    begun = time.perf_counter()
    questions(ledger, sys.argv[2])
    again = time.perf_counter() - begun
print(json.dumps([took, again, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""
PANDAS = """
import json, resource, sqlite3, sys, time
import pandas
begun = time.perf_counter()
totals = ["cost_micro", "cost_pico", "uncached_input_tokens"]
names = "model_served role task_class tenant configuration cost_currency status day latency_bucket cost_micro cost_pico"
frame = pandas.read_sql(
    f"SELECT {names.replace(' ', ', ')}, uncached_input_tokens FROM attempts", sqlite3.connect(sys.argv[1])
)
for name in ("model_served", "role", "task_class", "tenant", "configuration", "day"):
    frame.groupby([name, "cost_currency"], dropna=False)[totals].sum()
    frame[frame.status == "succeeded"].groupby([name, "latency_bucket"], dropna=False).size()
by_model = frame.groupby("model_served")[totals].sum()
took = time.perf_counter() - begun
answer = {name: [int(value) for value in row] for name, *row in by_model.itertuples()}
print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, answer]))
"""


def days_of(zone: str) -> list[tuple[int, int]]:
    """Return the month's days in a time zone."""
    midnights = [datetime(2026, 10, 1, tzinfo=ZoneInfo(zone)) + timedelta(days=day) for day in range(DAYS + 1)]
    edges = [instant_us(midnight.astimezone(UTC)) for midnight in midnights]
    return list(pairwise(edges))


def questions(ledger: Ledger, zone: str) -> None:
    """Ask what a month's report asks: one reading of sums and one of latencies, grouped in many ways; runs."""
    days = days_of(zone)
    cube = ledger.reader.usage_cube(days, ("day",))
    latencies = ledger.reader.latency_cube(days)
    for name in ("model_served", "role", "task_class", "tenant", "configuration", "span"):
        cube.groups((name, "day", "cost_currency", "settled_currency", "status", "cost_status"))
        latencies.groups((name,))
    span = (days[0][0], days[-1][1])
    ledger.reader.run_counts(*span)
    ledger.reader.dearest_runs(*span)


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return how long some work took, seconds, and what it returned."""
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def check(ledger: Ledger) -> None:
    """See that the sums by model of rollups and raw rows are the same integers."""
    raw = f"SELECT model_served, {', '.join(_TOTALS)} FROM attempts GROUP BY model_served"  # noqa: S608 - our own names
    with ledger._engine.connect() as connection:  # noqa: SLF001 - past the rollups
        wanted = {row[0]: tuple(int(value or 0) for value in row[1:]) for row in connection.execute(sa.text(raw))}
    names = ("cost_micro", "cost_pico", "uncached_input_tokens", "attempts")
    groups = ledger.reader.usage_groups(0, 2**62, ("model_served",))
    assert {group.key[0]: tuple(group.sums[name] for name in names) for group in groups} == wanted


def write_more(ledger: Ledger) -> None:
    """Write calls of an hour, one after the other in pieces, as a busy service does."""
    for first in range(0, LATER, 500):
        records: list[AttemptStarted | AttemptEnded] = []
        for number in range(first, first + 500):
            key = new_id()
            at_us = MONTH[1] + number * 3_600_000_000 // LATER
            records.append(AttemptStarted(key, key, 1, "hybrid", "e", "openai", "gpt-4.1", at_us))
            records.append(AttemptEnded(key, "succeeded", "unknown", 1_000_000 + number))
        ledger.write_now(*records)


def in_process(code: str, *arguments: str) -> list[object]:
    """Run code in a process of its own and return what it printed, as JSON."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    found: list[object] = json.loads(done.stdout)
    return found


def main(calls: int, kept: Path | None) -> None:
    """Make the month where it is not there, then measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        path = kept or Path(folder) / "ledger.db"
        url = f"sqlite:///{path}"
        is_new = not path.exists()
        with open_ledger(url) as ledger:
            if is_new:
                took, _ = timed(lambda: fill(ledger, calls))
                print(f"made {calls:,} calls in {took:.0f} s")
                took, quarter_hours = timed(ledger.refresh)
                print(f"first build       {took:8.2f} s   {quarter_hours:,} quarter hours; at most 20 s is promised")
            check(ledger)
            if is_new:
                write_more(ledger)
                took, _ = timed(ledger.refresh)
                print(f"incremental       {took / LATER * 1e6:8.2f} µs a call over {LATER:,}; at most 10 is promised")
                check(ledger)
        for zone in ("UTC", "Asia/Tokyo", "Asia/Kolkata"):
            first, again, memory = in_process(READ, url, zone)
            print(
                f"month, {zone:<12}{first:8.3f} s   {again:.3f} s again, {memory:.0f} MB; 0.5 s and 250 MB are promised"
            )
        took_pandas, memory, by_model = in_process(PANDAS, str(path))
        with open_ledger(url) as ledger:
            groups = ledger.reader.usage_groups(0, 2**62, ("model_served",))
            names = ("cost_micro", "cost_pico", "uncached_input_tokens")
            assert by_model == {
                group.key[0]: [group.sums[name] for name in names] for group in groups if group.key[0] is not None
            }
        print(f"pandas, all rows  {took_pandas:8.3f} s   {memory:.0f} MB, the same sums by model")
        first, _, _ = in_process(READ, url, "UTC")
        print(f"pandas takes {float(str(took_pandas)) / float(str(first)):.0f} × as long as the rollups (UTC)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--ledger", type=Path)
    options = parser.parse_args()
    main(options.calls, options.ledger)
