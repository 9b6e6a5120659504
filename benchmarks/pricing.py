"""Prices of calls, of columns and of a large catalogue: how fast, and that the answers are right.

    python -m benchmarks.pricing [rounds]     (from the project's root)

Every answer is checked before its time is taken: a call's against genai-prices and litellm, a column's against
`price_call` on a sample of rows, a catalogue read from the cache against the one read from the files. A call's time is
the median of many short rounds, in which the three libraries take turns, so that a busy machine is busy for all alike.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from pricing import Catalog, Usage, load_catalog, price_call

THIS = (sys.executable, "-m", "benchmarks.pricing")
AT = datetime(2026, 11, 30, tzinfo=UTC)
MODELS = ("gpt-4.1", "gpt-4o-mini", "gpt-4o")
UNCACHED, CACHED, OUTPUT = 1_234, 5_678, 910
USAGE = Usage(uncached_input_tokens=UNCACHED, cache_read_tokens=CACHED, plain_output_tokens=OUTPUT)
CALLS_A_ROUND = 25
WARMING_CALLS = 6
ROWS = 4_200_000
MODELS_OF_OVERLAY = 5_000
LIMITS = {
    "price_call, three lines": (10, "µs"),
    "columns": (3, "s"),
    "columns, memory": (400, "MB"),
    "5,000 models, warm": (60, "ms"),
}


def main() -> None:
    """Run all three, and say which limits are kept."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    found = {**calls(rounds), **columns(), **catalogues()}
    for name, (limit, unit) in LIMITS.items():
        print(f"{'kept' if found[name] <= limit else 'MISSED'}: {name} {found[name]:.1f} of {limit} {unit}")


def calls(rounds: int) -> dict[str, float]:
    """Time one call of three lines with each library."""
    ways = {"farebox": _farebox(), "genai-prices": _genai_prices(), "litellm": _litellm()}
    for model in MODELS:
        answers = {name: way(model) for name, way in ways.items()}
        assert len({round(answer, 12) for answer in answers.values()}) == 1, answers
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            for index in range(WARMING_CALLS):
                way(MODELS[index % len(MODELS)])  # the library before has filled the processor's caches
            start = time.perf_counter()
            for index in range(CALLS_A_ROUND):
                way(MODELS[index % len(MODELS)])
            times[name].append((time.perf_counter() - start) / CALLS_A_ROUND * 1e6)
    ours = statistics.median(times["farebox"])
    for name, each in times.items():
        ratios = (other / own for other, own in zip(each, times["farebox"], strict=True))
        print(
            f"a call of three lines: {name:13} median {statistics.median(each):6.1f} µs, least {min(each):6.1f} µs,"
            f" {statistics.median(ratios):5.1f} × ours in the same round"
        )
    return {"price_call, three lines": ours}


def _farebox() -> Callable[[str], Decimal]:
    catalog = load_catalog()
    sets = {model: catalog.price_set(model, "openai", AT) for model in MODELS}
    cost = price_call(USAGE, sets[MODELS[0]], at=AT)
    # 1,234 × 2 + 5,678 × 0.5 + 910 × 8 = 2,468 + 2,839 + 7,280 = 12,587 per Mtok
    assert (len(cost.lines), cost.total) == (3, Decimal("0.012587"))
    return lambda model: price_call(USAGE, sets[model], at=AT).total or Decimal("NaN")


def _genai_prices() -> Callable[[str], Decimal]:
    import genai_prices

    usage = genai_prices.Usage(input_tokens=UNCACHED + CACHED, cache_read_tokens=CACHED, output_tokens=OUTPUT)
    return lambda model: (
        genai_prices.calc_price(usage, model, provider_id="openai", genai_request_timestamp=AT).total_price
    )


def _litellm() -> Callable[[str], Decimal]:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    usage = litellm.Usage(
        prompt_tokens=UNCACHED + CACHED,
        completion_tokens=OUTPUT,
        total_tokens=UNCACHED + CACHED + OUTPUT,
        prompt_tokens_details={"cached_tokens": CACHED},
    )
    answers = {model: litellm.ModelResponse(model=model, usage=usage) for model in MODELS}
    return lambda model: Decimal(repr(litellm.completion_cost(completion_response=answers[model], model=model)))


def columns() -> dict[str, float]:
    """Price 4.2 million rows as 1, 4 and 8 configurations, each in a process of its own."""
    found = {}
    for configurations in (1, 4, 8):
        command = [*THIS, "--columns", str(configurations)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, cpu_s, before_mb, most_mb = json.loads(done.stdout)
        print(
            f"{ROWS:,} rows × {configurations} configurations: {seconds:.2f} s ({cpu_s:.2f} s of processor time),"
            f" {most_mb:.0f} MB at most, {before_mb:.0f} MB of it before the first"
        )
        if configurations == 4:
            found = {"columns": seconds, "columns, memory": most_mb}
    return found


def _columns(configurations: int) -> None:
    """Print seconds, memory before and at most, MB, and what was checked; the columns are priced into columns."""
    import resource

    import numpy as np

    from pricing import bulk

    random = np.random.default_rng(7)
    tokens = {
        "uncached_input_tokens": random.integers(0, 150_000, ROWS, np.int64),
        "cache_read_tokens": random.integers(0, 150_000, ROWS, np.int64),
        "plain_output_tokens": random.integers(1, 5_000, ROWS, np.int64),
    }
    group = random.integers(0, 4, ROWS, np.uint8)
    catalog = load_catalog()
    models = ["gpt-4.1", "gpt-4.1-mini", "gpt-4o-mini", "gpt-4o", "claude-sonnet-4.5", "gemini-2.5-flash"]
    sets = [catalog.price_set(model, "vendor", AT) for model in models]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    seconds = cpu_s = 0.0
    for configuration in range(configurations):
        served = [bulk.Served(sets[(configuration + index) % len(sets)]) for index in range(4)]
        start, cpu_start = time.perf_counter(), time.process_time()
        priced = bulk.price(tokens, served, at=AT, group=group)
        seconds += time.perf_counter() - start
        cpu_s += time.process_time() - cpu_start
        for row in random.integers(0, ROWS, 200):
            usage = Usage(**{name: int(column[row]) for name, column in tokens.items()})
            cost = price_call(usage, served[int(group[row])].prices, at=AT)
            micro, pico = int(priced.cost_micro[row]), int(priced.cost_pico[row])
            assert cost.total == Decimal(micro).scaleb(-6) + Decimal(pico).scaleb(-12), (row, cost, micro, pico)
        del priced
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, cpu_s, before, most]))


def catalogues() -> dict[str, float]:
    """Load the bundled catalogue and an overlay of 5,000 models, with and without the cache, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder, "overlay.toml")
        overlay.write_text(_overlay(), encoding="utf-8")
        times = {}
        for name, files in (("bundled", ()), ("5,000 models", (overlay,))):
            cache = Path(folder, name)
            cold = _load(files, cache)
            warm = [_load(files, cache) for _ in range(7)]
            assert {each["digest"] for each in warm} == {cold["digest"]}
            times[f"{name}, warm"] = statistics.median(each["ms"] for each in warm)
            print(
                f"catalogue, {name}: {cold['ms']:.0f} ms from the files; from the cache median"
                f" {times[f'{name}, warm']:.1f} ms, least {min(each['ms'] for each in warm):.1f} ms,"
                f" processor time {statistics.median(each['cpu_ms'] for each in warm):.1f} ms"
            )
    return times


def _load(files: tuple[Path, ...], cache: Path) -> Mapping[str, Any]:
    command = [*THIS, "--load", *map(str, files)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    loaded: Mapping[str, Any] = json.loads(done.stdout)
    return loaded


def _print_load(files: list[str]) -> None:
    """Print the time of one load and one price, milliseconds, and the catalogue's digest."""
    start, cpu_start = time.perf_counter(), time.process_time()
    catalog = load_catalog([Path(file) for file in files])
    model = f"model-{MODELS_OF_OVERLAY - 1}" if files else "gpt-4.1"
    assert catalog.price_set(model, "vendor", AT) is not None
    ms, cpu_ms = (time.perf_counter() - start) * 1000, (time.process_time() - cpu_start) * 1000
    _check_overlay(catalog, files)
    print(json.dumps({"ms": ms, "cpu_ms": cpu_ms, "digest": catalog.digest}))


def _check_overlay(catalog: Catalog, files: list[str]) -> None:
    if files:
        cost = price_call(USAGE, catalog.price_set("alias-17", "vendor", AT), at=AT)
        # 1,234 × 1.17 + 5,678 × 0.117 + 910 × 11.17 = 1,443.78 + 664.326 + 10,164.7 = 12,272.806 per Mtok
        assert cost.total == Decimal("0.012272806"), cost


def _overlay() -> str:
    blocks = (
        f'[[models]]\nlist = "custom"\nid = "model-{n}"\naliases = ["alias-{n}"]\ncontext_window_tokens = 128_000\n'
        f'[[prices]]\nmodel = "model-{n}"\ninput = "1.{n}"\ncache_read = "0.1{n}"\noutput = "11.{n}"\n'
        f'source = "contract"\nchecked = 2026-11-01\nurl = "https://example.org/prices/{n}"\n'
        for n in range(MODELS_OF_OVERLAY)
    )
    return "\n".join(blocks)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--columns"]:
        _columns(int(sys.argv[2]))
    elif sys.argv[1:2] == ["--load"]:
        _print_load(sys.argv[2:])
    else:
        main()
