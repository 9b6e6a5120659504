"""What the sums of a month cost: built for the first time, kept up to date, and read, beside pandas on all rows.

    python -m benchmarks.month [--calls 4200000] [--ledger FILE]     (from the project's root)

The answers are checked first: sums by model from the rollups, from the raw rows and from pandas are the same integers.
With --ledger, the file is kept and used again. Times are of the wall, and of the processor behind it, which is what to
look at where other programs run; memory is the peak of a process that does nothing else. Pages are whole ones, after
everything is loaded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import sqlalchemy as sa

from benchmarks.data.month_of_calls import DAYS, START, fill
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.reader import instant_us
from router.ledger.records import AttemptEnded, AttemptStarted

T = TypeVar("T")
MONTH = (instant_us(START), instant_us(START + timedelta(days=DAYS)))
LATER = 20_000  # calls of the incremental part
CONFIGURATIONS = ("gpt-4.1", "gpt-5-mini", "kimi-k2", "claude-sonnet-4.5")  # each is "all of that model"
_TOTALS = ("SUM(cost_micro)", "SUM(cost_pico)", "SUM(uncached_input_tokens)", "COUNT(*)")

PAGES = """
import json, resource, sys
from datetime import UTC, datetime
from benchmarks.month import CONFIGURATIONS, timed
from pricing import load_catalog
from pricing.terms import NO_TERMS
from reports import Singles, compare_configurations, configurations_named, month_report, named_month, time_zone
from reports import work_of_month
from reports.exchange import Exchange
from reports.repricing import Basis
from reports.sold import needs_days, sold_at
from router.ledger import open_ledger
from router.ledger.rates import fx_of
from router.settings import Settings
import numpy, reports.month, reports.past_work, router.ledger.rollup_read

settings, catalog, now = Settings(), load_catalog(), datetime(2026, 11, 15, tzinfo=UTC)

def report():
    return month_report(ledger.reader, month="2026-10", by="model", currency="USD", time_zone_name=sys.argv[2], fx=fx,
        catalog=catalog, now=now)

def compare():
    zone = time_zone(sys.argv[2])
    month, basis = named_month("2026-10", zone, now), Basis(catalog, "vendor", None, NO_TERMS, Exchange(fx, "USD"))
    rules = configurations_named(CONFIGURATIONS, settings, catalog)
    sold = sold_at(rules, {name: basis for name in rules}, catalog)
    work = work_of_month(ledger.reader, month, split=None, catalog=catalog, price_list="vendor",
        exchange=basis.exchange, sold=sold, by_day=needs_days(sold, (basis,), "USD"))
    return compare_configurations(rules, work, basis, singles=Singles(CONFIGURATIONS))

with open_ledger(sys.argv[1]) as ledger:
    ledger.reader.months_present()
    fx = fx_of(settings, ledger.reader)
    found = [timed(report)[0], timed(report)[0], timed(compare)[0]]
print(json.dumps([*found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
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


Times = tuple[float, float]
"""Wall and processor time, seconds."""


def timed(work: Callable[[], T]) -> tuple[Times, T]:
    """Return how long some work took, and what it returned."""
    begun, used = time.perf_counter(), time.process_time()
    result = work()
    return (time.perf_counter() - begun, time.process_time() - used), result


def shown(times: object, unit: str = "s", share: float = 1) -> str:
    """Return wall and processor time as text.

    Args:
        times: `Times`, or the list that JSON makes of them.
        unit: what they are shown in.
        share: how many seconds that unit is.
    """
    wall, used = (float(str(each)) / share for each in cast("Times", times))
    return f"{wall:8.3f} {unit} ({used:.3f} of the processor)"


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
                print(f"made {calls:,} calls in {took[0]:.0f} s")
                took, quarter_hours = timed(ledger.refresh)
                print(f"first build       {shown(took)}   {quarter_hours:,} quarter hours; at most 20 s is promised")
            check(ledger)
            if is_new:
                write_more(ledger)
                took, _ = timed(ledger.refresh)
                each = shown(took, "µs a call", LATER / 1e6)
                print(f"incremental       {each} over {LATER:,}; at most 10 is promised")
                check(ledger)
        for zone in ("UTC", "Asia/Tokyo", "Asia/Kolkata", "America/Los_Angeles"):
            first, again, compared, memory = in_process(PAGES, url, zone)
            print(f"month, {zone:<20}{shown(first)}   again {shown(again)}; at most 0.5 s is promised")
            print(f"compare, {zone:<18}{shown(compared)}   {memory:.0f} MB; at most 0.3 s and 250 MB are promised")
        took_pandas, memory, by_model = in_process(PANDAS, str(path))
        with open_ledger(url) as ledger:
            groups = ledger.reader.usage_groups(0, 2**62, ("model_served",))
            names = ("cost_micro", "cost_pico", "uncached_input_tokens")
            assert by_model == {
                group.key[0]: [group.sums[name] for name in names] for group in groups if group.key[0] is not None
            }
        print(f"pandas, all rows  {took_pandas:8.3f} s   {memory:.0f} MB, the same sums by model")
        first = in_process(PAGES, url, "UTC")[0]
        rollups = float(str(cast("Times", first)[0]))
        print(f"pandas takes {float(str(took_pandas)) / rollups:.0f} × as long as a whole page from the rollups (UTC)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--ledger", type=Path)
    options = parser.parse_args()
    main(options.calls, options.ledger)
