"""A fleet of agents: the published figures, put right by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest

from pricing import Catalog, FxTable, Terms
from reports import Basis, Exchange, Money, Split, configurations_named
from reports.fleet import Fleet, fleet_page
from reports.page import Page
from reports.render.sections import fill
from router.errors import WrongUsage
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings

AT = datetime(2026, 11, 30, tzinfo=UTC)
PUBLISHED = Fleet(agents=100, tasks_per_day=50, output_tokens_per_task=2_048)


def page(fleet: Fleet, catalog: Catalog, *names: str, split: Split | None = None) -> Page:
    rules = configurations_named(names, Settings(configurations=dict(BUILT_IN_CONFIGURATIONS)), catalog)
    return fleet_page(
        fleet, rules, Basis(catalog, "vendor", AT, Terms(), Exchange(FxTable(()), "USD")), AT, split=split
    )


def test_the_published_fleet(catalog: Catalog) -> None:
    found = page(PUBLISHED, catalog, "gpt-4.1", "deepseek-v3.2")
    assert PUBLISHED.tasks == 150_000
    assert found.table("tokens").column("total_tokens") == (None, None, 307_200_000)
    costs = found.table("fleet").column("cost")
    assert costs == (Money(Fraction("2457.6"), "USD"), Money(Fraction("129.024"), "USD"))  # × 8.00 and × 0.42 per Mtok
    assert found.table("fleet").column("savings")[1] == Money(Fraction("2328.576"), "USD")
    assert found.table("fleet").column("cost_per_agent")[0] == Money(Fraction("24.576"), "USD")
    said = [f"{note.kind}: {fill(note)}" for note in found.notes]
    assert said[0].startswith("warning: no input tokens are given, so output alone is priced")
    assert (
        "router roi --baseline gpt-4.1 --configuration deepseek-v3.2 --requests 150000 --output-tokens 2048" in said[1]
    )


def test_input_cached_input_and_roles_by_hand(catalog: Catalog) -> None:
    fleet = Fleet(2, 5, 1_000, input_tokens_per_task=4_000, cached_tokens_per_task=3_000, days=10)
    found = page(fleet, catalog, "gpt-4.1", "hybrid-flash", split=Split(1, 4))
    # 100 tasks: 0.1M plain input, 0.3M cached, 0.1M output. 2.00, 0.50, 8.00; then a fifth at 0.60, 0.15, 2.50 and four
    # fifths at 0.30, 0.03, 2.50
    kimi = Fraction("0.06") + Fraction("0.045") + Fraction("0.25")
    flash = Fraction("0.03") + Fraction("0.009") + Fraction("0.25")
    costs = found.table("fleet").column("cost")
    assert costs == (Money(Fraction("1.15"), "USD"), Money(kimi / 5 + flash * 4 / 5, "USD"))
    assert found.table("tokens").column("total_tokens") == (400_000, 300_000, 100_000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": 0}, "--agents: 0 is not allowed; 1 or more is"),
        ({"days": -1}, "--days: -1 is not allowed; 1 or more is"),
        ({"output_tokens_per_task": -1}, "--output-tokens-per-task: -1 is not allowed; 0 or more is"),
    ],
)
def test_a_fleet_that_does_nothing_is_refused(change: dict[str, int], message: str) -> None:
    given = {"agents": 1, "tasks_per_day": 1, "output_tokens_per_task": 1, **change}
    with pytest.raises(WrongUsage, match="allowed") as caught:
        Fleet(**given)
    assert str(caught.value) == message
