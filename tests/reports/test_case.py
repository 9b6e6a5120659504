"""Frozen cases: kept word for word, held against later months, each kind of change found where it was planted."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest

from pricing import Catalog, FxTable, Terms, Usage, operator_rate
from reports import Basis, Exchange, Money, Page, configurations_named, named_month, time_zone
from reports.case import Case, case_from_json, case_to_json
from reports.case_freeze import Promise, frozen_case
from reports.case_page import case_page, cases_page
from reports.case_review_page import review_page
from reports.daily_costs import daily_costs
from reports.render.sections import fill
from reports.roi import RoiInputs
from router.errors import RouterError, WrongUsage
from router.ledger import Ledger
from router.presets import BUILT_IN_CONFIGURATIONS
from router.settings import Settings
from tests.reports.scenes import Scene, write

NOW = datetime(2027, 1, 15, tzinfo=UTC)
FROZEN = datetime(2026, 11, 1, tzinfo=UTC)
NAMES = ("all-gpt-4.1", "hybrid-flash")
SETTINGS = Settings(configurations=dict(BUILT_IN_CONFIGURATIONS))
# A call of a worker: 800 k plain and 200 k cached input, 100 k output.
# gpt-4.1 at 2.00, 0.50, 8.00: 1.6 + 0.1 + 0.8; gemini-2.5-flash at 0.30, 0.03, 2.50: 0.24 + 0.006 + 0.25
CALL = Usage(uncached_input_tokens=800_000, cache_read_tokens=200_000, plain_output_tokens=100_000)
OLD, NEW = Fraction("2.5"), Fraction("0.496")
RATES = FxTable(
    [
        operator_rate("CNY", "USD", Decimal("0.14"), date(2026, 9, 1), "test"),
        operator_rate("CNY", "USD", Decimal("0.15"), date(2026, 12, 1), "test"),
    ]
)
LATER = ((9, "0.2"), (12, "0.15"))


def scene(month: int, **changes: object) -> Scene:
    about = {"usage": CALL, "model": "gemini-2.5-flash", "role": "worker", "configuration": "hybrid-flash", **changes}
    return Scene(at=datetime(2026, month, 10, tzinfo=UTC), **about)  # type: ignore[arg-type]


def freeze(ledger: Ledger, catalog: Catalog, terms: Terms | None = None, growth: Fraction = Fraction(0)) -> Case:
    """Freeze on 1 November what October's ten calls under gpt-4.1 promise."""
    write(ledger, catalog, *[scene(10, model="gpt-4.1", configuration="all-gpt-4.1") for _ in range(10)])
    one, other = configurations_named(NAMES, SETTINGS, catalog).items()
    basis = Basis(catalog, "vendor", FROZEN, terms or Terms(), Exchange(RATES, "USD"))
    month = named_month("2026-10", time_zone("UTC"), FROZEN)
    costs = daily_costs(ledger.reader, month, FROZEN, baseline=one, configuration=other, basis=basis)
    inputs = RoiInputs(*costs.monthly, Fraction(30), Fraction(2), growth=growth)
    return frozen_case(Promise("spring", one, other), costs, month, basis, inputs, FROZEN)


def review(ledger: Ledger, catalog: Catalog, case: Case, month: str = "2026-12", rates: FxTable = RATES) -> Page:
    wanted = named_month(month, time_zone("UTC"), NOW)
    return review_page(ledger.reader, case, wanted, NOW, catalog=catalog, exchange=Exchange(rates, case.currency))


def effects(page: Page) -> dict[str, Fraction]:
    steps, amounts = (page.table("bridge").column(key) for key in ("step", "amount"))
    return {str(step): money.value for step, money in zip(steps, amounts, strict=True) if isinstance(money, Money)}


def notes(page: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in page.notes]


def test_a_case_is_read_back_as_it_was_frozen(ledger: Ledger, catalog: Catalog) -> None:
    case = freeze(ledger, catalog)
    assert (case.inputs.baseline, case.inputs.configuration) == (10 * OLD, 10 * NEW)
    assert case.calls == 10
    assert case.month == "2026-10"
    assert {line.component: line.amount for line in case.lines} == {
        "input": Fraction("2.4"),
        "cache_read": Fraction("0.06"),
        "output": Fraction("2.5"),
    }
    assert set(case.prices) == {"gpt-4.1", "gemini-2.5-flash"}
    by_class = configurations_named(("by_class",), SETTINGS, catalog)["by_class"]
    other = replace(case, configuration=("by_class", by_class), calls=Fraction(41, 3))
    for each in (case, other):
        assert case_from_json(case_to_json(each)) == each
    assert case_page(case).table("promise").column("amount")[2] == Money(10 * (OLD - NEW), "USD")
    assert cases_page([case]).table("cases").column("payback") == ("month 2",)  # 20.04 a month less 2 against 30


def test_a_damaged_or_newer_document_is_refused(ledger: Ledger, catalog: Catalog) -> None:
    text = case_to_json(freeze(ledger, catalog))
    with pytest.raises(RouterError, match="case: schema version 2 is not known; 1 is"):
        case_from_json(text.replace('"schema_version":1', '"schema_version":2'))
    for damaged in ("{", text.replace('"calls":"10"', '"calls":"ten"'), text.replace('"0.3"', '"0.4"')):
        with pytest.raises(RouterError, match="case: the stored document is damaged"):
            case_from_json(damaged)


@pytest.mark.parametrize(
    ("changes", "count", "effect", "amount"),
    [
        ({}, 10, None, Fraction(0)),
        ({}, 15, "volume", 5 * NEW),
        # the dearer model: the promise has its price too
        ({"model": "gpt-4.1"}, 10, "mix", 10 * (OLD - NEW)),
        ({"usage": replace(CALL, plain_output_tokens=200_000)}, 10, "mix", Fraction("2.5")),
        # half of a million cached instead of a fifth: 300 k tokens at 0.03 and not 0.30
        (
            {"usage": replace(CALL, uncached_input_tokens=500_000, cache_read_tokens=500_000)},
            10,
            "cache",
            -10 * Fraction("0.3") * Fraction("0.27"),
        ),
        ({"terms": Terms(discount_share=Decimal("0.1"))}, 10, "price", -NEW),
    ],
)
def test_each_change_alone_is_its_own_effect(
    ledger: Ledger, catalog: Catalog, changes: dict[str, object], count: int, effect: str | None, amount: Fraction
) -> None:
    case = freeze(ledger, catalog)
    write(ledger, catalog, *[scene(12, **changes) for _ in range(count)])
    found = effects(review(ledger, catalog, case))
    assert found.pop("promised") == 10 * NEW
    assert found.pop("paid") == 10 * NEW + amount
    assert {name: value for name, value in found.items() if value} == ({effect: amount} if effect else {})


def test_exchange_rates_are_an_effect_of_their_own(ledger: Ledger, catalog: Catalog) -> None:
    # One unit of list price is paid with a yuan: promised at 0.14 dollars, paid at 0.15
    terms = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    case = freeze(ledger, catalog, terms)
    assert case.inputs.configuration == 10 * NEW * Fraction("0.14")
    write(ledger, catalog, *[scene(12, terms=terms) for _ in range(10)])
    # A rate that is corrected later does not change the promise
    corrected = FxTable([operator_rate("CNY", "USD", Decimal(rate), date(2026, month, 1)) for month, rate in LATER])
    found = effects(review(ledger, catalog, case, rates=corrected))
    assert {name: value for name, value in found.items() if value} == {
        "promised": 10 * NEW * Fraction("0.14"),
        "exchange rates": 10 * NEW * Fraction("0.01"),
        "paid": 10 * NEW * Fraction("0.15"),
    }


def test_a_review_says_what_was_kept(ledger: Ledger, catalog: Catalog) -> None:
    case = freeze(ledger, catalog)
    write(ledger, catalog, *[scene(12) for _ in range(9)], scene(12, model="gpt-4o", configuration="all-gpt-4.1"))
    page = review(ledger, catalog, case)
    gpt_4o = Fraction("0.8") * Fraction("2.5") + Fraction("0.2") * Fraction("1.25") + Fraction(1)  # 2.50, 1.25, 10.00
    assert effects(page)["paid"] == 9 * NEW + gpt_4o
    savings = page.table("promise").rows[2]
    assert savings[1:3] == (Money(10 * (OLD - NEW), "USD"), Money(10 * OLD - 9 * NEW - gpt_4o, "USD"))
    assert page.table("configurations").column("attempts_share") == (Fraction(9, 10), Fraction(1, 10))
    assert any(
        text.startswith("warning: the promise is not kept: 17.2860 USD saved, 20.04 USD") for text in notes(page)
    )


def test_the_promise_grows_as_it_was_made_to(ledger: Ledger, catalog: Catalog) -> None:
    case = freeze(ledger, catalog, growth=Fraction(1, 10))
    write(ledger, catalog, *[scene(12) for _ in range(11)])
    # November has the volume that was measured; December a tenth more
    assert effects(review(ledger, catalog, case)) == {
        "promised": 11 * NEW,
        "volume": 0,
        "mix": 0,
        "cache": 0,
        "price": 0,
        "exchange rates": 0,
        "paid": 11 * NEW,
    }


def test_months_that_cannot_be_reviewed(ledger: Ledger, catalog: Catalog) -> None:
    case = freeze(ledger, catalog)
    with pytest.raises(WrongUsage, match="month: 2026-10 is not after 2026-10, which case 'spring' was drawn from"):
        review(ledger, catalog, case, "2026-10")
    with pytest.raises(RouterError, match="no rows in 2026-11"):
        review(ledger, catalog, case, "2026-11")
    write(ledger, catalog, scene(12, model="gpt-4.1", configuration="all-gpt-4.1"))
    message = (
        r"case 'spring': configuration 'hybrid-flash' did not run in 2026-12; attempts ran under all-gpt-4.1 \(1\)"
    )
    with pytest.raises(RouterError, match=message):
        review(ledger, catalog, case)


def test_a_model_that_nobody_promised_is_said(ledger: Ledger, catalog: Catalog) -> None:
    case = freeze(ledger, catalog)
    write(ledger, catalog, scene(12), scene(12, model="claude-sonnet-4.5", served="unheard-of"))
    page = review(ledger, catalog, case)
    assert "warning: without a cost on record, and so in nothing that was paid; attempts: 1" in notes(page)
