"""Configurations side by side: published totals put right by hand; replaying what was changes nothing."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Terms, Usage, load_catalog, load_fx, price_call
from reports import (
    Basis,
    Exchange,
    Money,
    Page,
    Split,
    Work,
    compare_configurations,
    configurations_named,
    named_month,
    time_zone,
    totals_by_hand,
    work_of_month,
)
from reports.render.sections import fill
from router.errors import RouterError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.importers.trace import import_trace
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from tests.new_ledger import new_ledger
from tests.reports.scenes import Scene, write

AT = datetime(2026, 11, 30, tzinfo=UTC)
SETTINGS = Settings(configurations=dict(BUILT_IN_CONFIGURATIONS), aliases={"mine": "gpt-4.1"})
FOUR = ("all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash")
OCTOBER = named_month("2026-10", time_zone("UTC"), AT)


def by_hand(
    names: Sequence[str],
    catalog: Catalog,
    *,
    input_tokens: int = 0,
    cached_tokens: int = 0,
    output_tokens: int = 3_200_000,
    split: Split | None = None,
    requests: int | None = None,
    price_list: str = "vendor",
    at: datetime = AT,
    terms: Terms | None = None,
    currency: str = "USD",
) -> Page:
    portions = totals_by_hand(
        input_tokens=input_tokens,
        cached_tokens=cached_tokens,
        output_tokens=output_tokens,
        at=at,
        split=split,
        requests=requests,
    )
    work = Work("totals given by hand", portions, (), (), 0, 0, 0, "UTC")
    basis = Basis(catalog, price_list, at, terms or Terms(), Exchange(load_fx(), currency))
    return compare_configurations(configurations_named(names, SETTINGS, catalog), work, basis)


def of_month(ledger: Ledger, names: Sequence[str], catalog: Catalog, split: Split | None = None) -> Page:
    exchange = Exchange(FxTable(()), "USD")
    work = work_of_month(ledger.reader, OCTOBER, split=split, catalog=catalog, price_list="vendor", exchange=exchange)
    basis = Basis(catalog, "vendor", None, Terms(), exchange)
    return compare_configurations(configurations_named(names, SETTINGS, catalog), work, basis)


def totals(page: Page) -> list[Fraction | None]:
    table = page.table("configurations")
    marks = table.column("mark")
    cells = [cell for cell, mark in zip(table.column("cost"), marks, strict=True) if mark is None]
    return [cell.value if isinstance(cell, Money) else None for cell in cells]


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def test_output_alone_at_the_vendors_lists(catalog: Catalog) -> None:
    page = by_hand(FOUR, catalog, split=Split(1, 5))
    # 3.2M × 8.00; then 3.2M/6 × 2.50 for the orchestrator and 16M/6 × 0.42, 15.00, 2.50 for the workers
    assert totals(page) == [Fraction("25.6"), Fraction(184, 75), Fraction(124, 3), Fraction(8)]
    changes = page.table("configurations").column("change_share")
    assert [f"{float(change):+.1%}" for change in changes if isinstance(change, Fraction)] == [
        "+0.0%",
        "-90.4%",
        "+61.5%",
        "-68.8%",
    ]
    assert page.table("configurations").column("change")[3] == Money(Fraction("-17.6"), "USD")
    assert "warning: kimi-k2 was retired on 2026-05-25 and cannot be bought any more" in notes(page)[1]


def test_input_is_added_at_each_models_input_price_and_shown(catalog: Catalog) -> None:
    page = by_hand(("all-gpt-4.1", "hybrid"), catalog, input_tokens=8_000_000, split=Split(1, 5))
    # 25.60 + 8M × 2.00; 184/75 + 8M/6 × 0.60 + 40M/6 × 0.28
    assert totals(page) == [Fraction("41.6"), Fraction(184, 75) + Fraction("0.8") + Fraction("11.2") / 6]
    inputs = [row[4:] for row in page.table("lines").rows if row[0] == "hybrid" and row[3] == "input"]
    assert inputs == [
        (Fraction(4_000_000, 3), Money(Fraction("0.6"), "USD"), Money(Fraction("0.8"), "USD")),
        (Fraction(20_000_000, 3), Money(Fraction("0.28"), "USD"), Money(Fraction("11.2") / 6, "USD")),
    ]


def test_cached_input_has_its_own_price(catalog: Catalog) -> None:
    page = by_hand(["gpt-4.1"], catalog, input_tokens=1_000_000, cached_tokens=750_000, output_tokens=0)
    assert totals(page) == [Fraction("0.875")]  # 0.25 × 2.00 + 0.75 × 0.50


def test_a_monthly_estimate_in_yuan_at_one_to_one(catalog: Catalog) -> None:
    page = by_hand(
        ("deepseek-v3.2", "gemini-2.5-flash", "moonshot-v1-8k", "claude-sonnet-4.5"),
        catalog,
        output_tokens=500,
        requests=10_000,
        price_list="relay",
        terms=Terms(settlement_currency="CNY", settlement_rate=Decimal(1)),
        currency="CNY",
    )
    assert totals(page) == [Fraction(number) for number in ("2.1", "12.5", "6", "75")]


def test_a_discount_lowers_what_is_paid(catalog: Catalog) -> None:
    page = by_hand(["gpt-4.1"], catalog, terms=Terms(discount_share=Decimal("0.15")))
    assert totals(page) == [Fraction("21.76")]  # 85 % of 25.60


def test_what_a_list_does_not_publish_is_unpriced_counted_and_compared_with_nothing(catalog: Catalog) -> None:
    page = by_hand(("all-gpt-4.1", "hybrid"), catalog, input_tokens=8_000_000, split=Split(1, 5), price_list="relay")
    table = page.table("configurations")
    assert table.column("cost") == (
        Money(Fraction("25.6"), "USD", lower_bound=True),
        Money(Fraction(184, 75), "USD", lower_bound=True),
    )
    assert table.column("change") == table.column("change_share") == (None, None)
    assert table.column("lines_unpriced") == (2, 2)
    assert {fact.key: fact.value for fact in page.footer}["lines_unpriced"] == 4
    said = "warning: price list relay has no input price of deepseek-v3.2, gpt-4.1, kimi-k2; a total"
    assert any(note.startswith(said) for note in notes(page))


def test_a_model_that_a_list_does_not_have_is_unknown_and_never_borrowed(catalog: Catalog) -> None:
    page = by_hand(("gpt-4o-mini", "gpt-4.1"), catalog, price_list="relay")
    assert totals(page) == [None, Fraction("25.6")]
    assert page.table("configurations").column("change_share") == (None, None)


def test_prices_of_another_day(catalog: Catalog) -> None:
    early = by_hand(["kimi-k2"], catalog, at=datetime(2026, 5, 24, tzinfo=UTC))
    assert totals(early) == [Fraction(8)]  # 3.2M × 2.50
    assert notes(early) == []  # still on its list then


def test_nothing_costs_nothing(catalog: Catalog) -> None:
    page = by_hand(("gpt-4.1", "gpt-4o"), catalog, output_tokens=0)
    assert totals(page) == [0, 0]
    assert page.table("configurations").column("change_share") == (0, 0)


def test_names_of_configurations_models_and_aliases(catalog: Catalog) -> None:
    named = configurations_named(("hybrid", "mine", "openai/gpt-4o", "hybrid"), SETTINGS, catalog)
    assert list(named) == ["hybrid", "mine", "openai/gpt-4o"]
    with pytest.raises(WrongUsage, match="configuration: 'hybird' does not exist; did you mean hybrid") as caught:
        configurations_named(["hybird"], SETTINGS, catalog)
    assert "all-gpt-4.1" in (caught.value.hint or "")


def test_the_ledgers_month_by_role(ledger: Ledger, catalog: Catalog) -> None:
    day = datetime(2026, 10, 5, tzinfo=UTC)
    usage = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=1_000_000)
    for role in ("orchestrator", "worker"):
        write(ledger, catalog, Scene(at=day, usage=usage, role=role), Scene(at=day, status="failed", role=role))
    page = of_month(ledger, ("all-gpt-4.1", "hybrid-flash"), catalog)
    # 2 × (2.00 + 8.00); 0.60 + 2.50 for the orchestrator, 0.30 + 2.50 for the worker
    assert totals(page) == [20, Fraction("5.9")]
    assert {fact.key: fact.value for fact in page.footer}["rows_counted"] == 4
    assert {fact.key: fact.value for fact in page.footer}["rows_unpriced"] == 0  # refused: nothing was used
    assert "note: on record: 20.00 USD at list, 20.00 USD settled; attempts: 4" in notes(page)


def test_attempts_without_usage_are_counted_and_left_out(ledger: Ledger, catalog: Catalog) -> None:
    day = datetime(2026, 10, 5, tzinfo=UTC)
    lost = Scene(at=day, status="timed_out", possibly_billed=True, reserved_usd=Decimal(1))
    write(ledger, catalog, Scene(at=day, usage=Usage(plain_output_tokens=1_000_000)), lost)
    page = of_month(ledger, ["all-gpt-4.1"], catalog)
    assert totals(page) == [8]
    assert {fact.key: fact.value for fact in page.footer}["rows_unpriced"] == 1
    assert "warning: without known usage, and so in no configuration's cost; attempts: 1" in notes(page)


def test_a_month_without_rows(ledger: Ledger, catalog: Catalog) -> None:
    with pytest.raises(RouterError, match="no rows in 2026-10"):
        of_month(ledger, ["all-gpt-4.1"], catalog)


def test_a_published_trace_under_three_configurations(shared: Path, ledger: Ledger, catalog: Catalog) -> None:
    file = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    import_trace(ledger, file, model="gpt-4.1", start=datetime(2026, 10, 1, tzinfo=UTC), catalog=catalog)
    # 144,793,823 in and 4,122,048 out, without roles: 2.00 and 8.00; 0.60 and 2.50; split 1 : 5
    inputs, outputs = Fraction(144_793_823, 10**6), Fraction(4_122_048, 10**6)
    whole = inputs * Fraction("0.6") + outputs * Fraction("2.5")
    assert totals(of_month(ledger, ("all-gpt-4.1", "hybrid"), catalog)) == [Fraction("322.564030"), whole]
    parts = whole / 6 + (inputs * Fraction("0.28") + outputs * Fraction("0.42")) * 5 / 6
    assert totals(of_month(ledger, ["hybrid"], catalog, Split(1, 5))) == [parts]


CHANGING = """
[[prices]]
model = "changing"
input = "3"
cache_read = "0.3"
output = "15"
effective_to = {first}
source = "contract"
checked = 2026-10-01

[[prices]]
model = "changing"
input = "2"
output = "10.123456"
effective_from = {first}
source = "contract"
checked = 2026-10-01

[[prices]]
model = "changing"
input = "6"
output = "22.5"
when = {{ above_input_tokens = 200_000 }}
source = "contract"
checked = 2026-10-01
"""
MIDNIGHT = "2026-10-15T00:00:00Z"


def changing(first: str) -> Catalog:
    return load_catalog(inline=tomllib.loads(CHANGING.format(first=first), parse_float=Decimal))


def test_each_request_decides_about_its_context_tier() -> None:
    catalog = changing(MIDNIGHT)
    long = by_hand(["changing"], catalog, input_tokens=300_000, output_tokens=1000, requests=2)
    assert totals(long) == [Fraction("3.645")]  # 2 × (0.3 × 6 + 0.001 × 22.5)
    short = by_hand(["changing"], catalog, input_tokens=600_000, output_tokens=1_000_000)
    assert totals(short) == [Fraction("11.323456")]  # no request is known to be long: 0.6 × 2 + 1 × 10.123456


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.builds(
            Scene,
            at=st.integers(-30, 30).map(
                lambda hours: datetime(2026, 10, 15, 12, tzinfo=UTC) + timedelta(hours=hours / 2)
            ),
            usage=st.builds(
                Usage,
                uncached_input_tokens=st.integers(0, 250_000),
                cache_read_tokens=st.integers(0, 50_000),
                plain_output_tokens=st.integers(0, 9000),
                reasoning_tokens=st.integers(0, 9000),
            ),
            model=st.just("changing"),
            role=st.sampled_from([None, "single", "worker"]),
            task_class=st.sampled_from([None, "math"]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([MIDNIGHT, "2026-10-15T12:00:00Z"]),
)
def test_law_replaying_what_was_changes_nothing(scenes: list[Scene], first: str) -> None:
    catalog = changing(first)
    expected = Fraction(0)
    for scene in scenes:
        prices = catalog.price_set("changing", "vendor", scene.at)
        expected += Fraction(price_call(scene.usage, prices, at=scene.at).total or 0)
    with tempfile.TemporaryDirectory() as folder, open_ledger(new_ledger(f"{folder}/l.db")) as ledger:
        write(ledger, catalog, *scenes)
        page = of_month(ledger, ["changing"], catalog)
    assert totals(page) == [expected]
