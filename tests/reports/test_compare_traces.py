"""Three published traces as one month, under four configurations; every total is worked out from the raw files."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest

from pricing import Catalog, FxTable, Terms
from reports import (
    Basis,
    Exchange,
    Money,
    Page,
    Split,
    compare_configurations,
    configurations_named,
    named_month,
    time_zone,
    work_of_month,
)
from router.ledger import Ledger
from router.ledger.importers.trace import import_trace
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings

START = datetime(2026, 10, 1, tzinfo=UTC)
OCTOBER = named_month("2026-10", time_zone("UTC"), START)
SETTINGS = Settings(configurations=dict(BUILT_IN_CONFIGURATIONS))
FOUR = ("all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash")

# USD per Mtok: input, cached input, output. Vendors' lists of October 2026; kimi-k2's and deepseek-v3.2's last ones.
RATES: Mapping[str, tuple[Fraction, Fraction, Fraction]] = {
    model: (Fraction(one), Fraction(two), Fraction(three))
    for model, one, two, three in (
        ("gpt-4.1", "2", "0.5", "8"),
        ("kimi-k2", "0.6", "0.15", "2.5"),
        ("deepseek-v3.2", "0.28", "0.028", "0.42"),
        ("claude-sonnet-4.5", "3", "0.3", "15"),
        ("gemini-2.5-flash", "0.3", "0.03", "2.5"),
    )
}
PAIRS = (
    ("gpt-4.1", "gpt-4.1"),
    ("kimi-k2", "deepseek-v3.2"),
    ("kimi-k2", "claude-sonnet-4.5"),
    ("kimi-k2", "gemini-2.5-flash"),
)


def by_hand(uncached: int, cached: int, output: int) -> list[Fraction]:
    """Return the four costs: a sixth of the tokens at the orchestrator's rates, five sixths at the worker's."""

    def whole(model: str) -> Fraction:
        rates = RATES[model]
        return (uncached * rates[0] + cached * rates[1] + output * rates[2]) / 10**6

    return [whole(orchestrator) / 6 + whole(worker) * 5 / 6 for orchestrator, worker in PAIRS]


def compared(ledger: Ledger, catalog: Catalog) -> Page:
    exchange = Exchange(FxTable(()), "USD")
    work = work_of_month(
        ledger.reader, OCTOBER, split=Split(1, 5), catalog=catalog, price_list="vendor", exchange=exchange
    )
    basis = Basis(catalog, "vendor", None, Terms(), exchange)
    return compare_configurations(configurations_named(FOUR, SETTINGS, catalog), work, basis)


def costs(page: Page) -> dict[str, Fraction]:
    table = page.table("configurations")
    cells = zip(table.column("configuration"), table.column("cost"), strict=True)
    return {str(name): cell.value for name, cell in cells if isinstance(cell, Money)}


def azure(file: Path) -> tuple[int, int]:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    return sum(int(row["ContextTokens"]) for row in rows), sum(int(row["GeneratedTokens"]) for row in rows)


def kimi(file: Path) -> Iterable[dict[str, object]]:
    return (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def traces(shared: Path) -> Path:
    return shared / "data" / "traces"


def test_three_traces_one_after_the_other_in_one_month(traces: Path, ledger: Ledger, catalog: Catalog) -> None:
    requests = list(kimi(traces / "mooncake_conversation.jsonl"))
    sums = {
        "mooncake_conversation.jsonl": (
            sum(int(str(row["input_length"])) for row in requests),
            sum(int(str(row["output_length"])) for row in requests),
        ),
        **{name: azure(traces / name) for name in ("azure_llm_2023_conv.csv", "azure_llm_2023_code.csv")},
    }
    assert sums["mooncake_conversation.jsonl"] == (144_793_823, 4_122_048)  # as the trace's own page says
    expected = [Fraction(0)] * 4
    for name, (inputs, outputs) in sums.items():
        import_trace(ledger, traces / name, model="gpt-4.1", start=START, catalog=catalog)
        alone = by_hand(inputs, 0, outputs)
        expected = [before + more for before, more in zip(expected, alone, strict=True)]
        found = costs(compared(ledger, catalog))
        assert [found[configuration] for configuration in FOUR] == expected
        assert found["as-billed"] == expected[0]  # it was imported as all of gpt-4.1
        if name.startswith("mooncake"):
            assert expected[0] == Fraction("322.564030")


def test_a_trace_with_its_real_prefix_reuse(traces: Path, ledger: Ledger, catalog: Catalog) -> None:
    file = traces / "mooncake_conversation.jsonl"
    seen: set[int] = set()
    inputs = cached = outputs = 0
    for row in kimi(file):
        blocks, size = row["hash_ids"], int(str(row["input_length"]))
        assert isinstance(blocks, list)
        leading = next((at for at, block in enumerate(blocks) if block not in seen), len(blocks))
        seen.update(blocks)
        inputs, cached, outputs = (
            inputs + size,
            cached + min(512 * leading, size),
            outputs + int(str(row["output_length"])),
        )
    assert cached == 54_098_411
    import_trace(ledger, file, model="gpt-4.1", start=START, catalog=catalog, prefix_cache=True)
    page = compared(ledger, catalog)
    found = costs(page)
    expected = by_hand(inputs - cached, cached, outputs)
    assert [found[configuration] for configuration in FOUR] == expected
    assert found["all-gpt-4.1"] == found["as-billed"] == Fraction("241.4164135")
    rows = {row[0]: row for row in page.table("savings").rows}
    # hybrid caches less of its lower price: 0.45 and 0.252 a Mtok, where gpt-4.1 takes 1.50 off
    cache = Fraction(cached, 10**6) * (Fraction("0.45") / 6 + Fraction("0.252") * 5 / 6 - Fraction("1.5"))
    assert rows["hybrid"][4] == Money(cache, "USD")
    assert rows["hybrid"][2] == Money(by_hand(inputs, 0, outputs)[0] - by_hand(inputs, 0, outputs)[1], "USD")
