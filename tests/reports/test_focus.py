"""The ledger as FOCUS 1.2 rows: the specification's rules, amounts by hand, and what is in no row."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from io import BytesIO, StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing import Catalog, FxError, FxTable, Terms, Usage, operator_rate
from reports import named_month, time_zone
from reports.export_files import write_rows
from reports.focus import FocusExport, focus_export
from reports.focus_columns import COLUMNS
from reports.focus_split import split, unit_price
from router.errors import RouterError
from router.ledger import Ledger, new_id
from router.ledger.records import Amount, Import, UsageBucket
from tests.reports.focus_rules import RULES, faults_of, faults_of_heading, is_kept
from tests.reports.scenes import Scene, write

AT = datetime(2026, 10, 3, 23, 30, tzinfo=UTC)
SEVEN = FxTable(operator=[operator_rate("USD", "CNY", Decimal(7), AT.date())])
RELAY = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
# gpt-4.1: 2.00 USD per Mtok in, 0.50 cached, 8.00 out (reasoning is output).
USED = Usage(uncached_input_tokens=1_000, cache_read_tokens=400, plain_output_tokens=300, reasoning_tokens=200)


def exported(
    ledger: Ledger, catalog: Catalog, fx: FxTable, zone: str = "UTC", month: str = "2026-10"
) -> tuple[list[dict[str, str]], FocusExport, str]:
    """Return the rows of a month as they stand in the file, the export, and the file."""
    made = focus_export(ledger.reader, named_month(month, time_zone(zone), AT), fx, catalog)
    file = BytesIO()
    write_rows(file, "csv", COLUMNS, made.rows, guard=False)
    text = file.getvalue().decode()
    return list(csv.DictReader(StringIO(text))), made, text


def by_meter(rows: list[dict[str, str]]) -> Mapping[str, dict[str, str]]:
    return {row["SkuMeter"]: row for row in rows}


def test_one_row_a_token_class_with_the_amounts_of_the_price_rows(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=AT, usage=USED, tenant="acme", tags={"team": "x"}))
    rows, made, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    found = by_meter(rows)
    # 1,000 × 2 + 400 × 0.5 + 500 × 8 per Mtok = 0.002 + 0.0002 + 0.004
    expected = {
        "Input Tokens": ("0.002", "1000.0", "0.001", "2.0"),
        "Cached Input Tokens": ("0.0002", "400.0", "0.0004", "0.5"),
        "Output Tokens": ("0.004", "500.0", "0.0005", "8.0"),
    }
    columns = ("BilledCost", "ConsumedQuantity", "PricingQuantity", "ListUnitPrice")
    assert {meter: tuple(row[name] for name in columns) for meter, row in found.items()} == expected
    one = found["Input Tokens"]
    assert (one["BillingPeriodStart"], one["BillingPeriodEnd"]) == ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    assert (one["ChargePeriodStart"], one["ChargePeriodEnd"]) == ("2026-10-03T00:00:00Z", "2026-10-04T00:00:00Z")
    assert (one["ConsumedUnit"], one["PricingUnit"], one["Tags"]) == ("Tokens", "1000000 Tokens", '{"team": "x"}')
    assert (one["SubAccountId"], one["ProviderName"], one["SkuPriceId"]) == ("acme", "openai", "openai/gpt-4.1/input")
    assert one["SkuPriceDetails"] == '{"x_Model": "gpt-4.1", "x_Component": "input"}'
    assert (one["x_CostSplit"], one["x_CostStatus"], made.left.unknown_cost) == ("derived", "exact", 0)


def test_the_charge_period_is_a_day_of_the_time_zone(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=AT, usage=USED))
    rows, _, text = exported(ledger, catalog, fx, "Asia/Kathmandu")  # UTC+5:45: 23:30 UTC is 05:15 on the 4th
    assert faults_of(text) == []
    assert {row["ChargePeriodStart"] for row in rows} == {"2026-10-03T18:15:00Z"}
    assert {row["BillingPeriodStart"] for row in rows} == {"2026-09-30T18:15:00Z"}


def test_what_is_paid_in_another_currency_stands_beside_the_list_in_both(ledger: Ledger, catalog: Catalog) -> None:
    terms = Terms(
        settlement_currency="CNY",
        settlement_rate=Decimal(2),
        discount_share=Decimal("0.15"),
        tax_share=Decimal("0.25"),
    )
    write(ledger, catalog, Scene(at=AT, usage=Usage(uncached_input_tokens=1_000_000), terms=terms))
    rows, _, text = exported(ledger, catalog, SEVEN)
    assert faults_of(text) == []
    usage, tax = rows if rows[0]["ChargeCategory"] == "Usage" else reversed(rows)
    # 2 USD of list price × 0.85 × 2 CNY = 3.4 CNY, and 25 % of tax on it, 0.85 CNY; at 7 CNY for 1 USD the list is 14.
    paid = ("BilledCost", "ContractedCost", "EffectiveCost", "BillingCurrency", "ContractedUnitPrice")
    assert [usage[name] for name in paid] == ["3.4", "3.4", "3.4", "CNY", "3.4"]
    assert [tax[name] for name in paid] == ["0.85", "0.85", "0.85", "CNY", ""]
    assert [row["ListCost"] for row in (usage, tax)] == ["14.0", "3.5"]
    in_list = ("PricingCurrency", "PricingCurrencyListUnitPrice", "PricingCurrencyContractedUnitPrice")
    assert [usage[name] for name in in_list] == ["USD", "2.0", "1.7"]  # the settlement is a rate of exchange, no price
    assert [row["PricingCurrencyEffectiveCost"] for row in (usage, tax)] == ["1.7", "0.425"]
    assert [row["x_PricingCurrencyListCost"] for row in (usage, tax)] == ["2.0", "0.0"]


def test_a_list_cost_is_converted_at_the_rate_of_its_own_utc_day(ledger: Ledger, catalog: Catalog) -> None:
    days = [datetime(2026, 10, 3, 20, tzinfo=UTC), datetime(2026, 10, 4, 2, tzinfo=UTC)]  # both 4 October in Tokyo
    fx = FxTable(
        operator=[
            operator_rate("USD", "CNY", Decimal(rate), day.date()) for rate, day in zip((7, 8), days, strict=True)
        ]
    )
    million = Usage(uncached_input_tokens=1_000_000)
    write(ledger, catalog, *(Scene(at=day, usage=million, terms=RELAY) for day in days))
    rows, _, text = exported(ledger, catalog, fx, "Asia/Tokyo")
    assert faults_of(text) == []
    assert [(row["ListCost"], row["BilledCost"], row["ListUnitPrice"]) for row in rows] == [("30.0", "4.0", "15.0")]


def test_without_a_rate_nothing_is_exported(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=AT, usage=USED, terms=RELAY))
    with pytest.raises(FxError, match="USD"):
        exported(ledger, catalog, FxTable())


def test_unknown_costs_are_left_out_and_counted_never_zero(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(
        ledger,
        catalog,
        Scene(at=AT, usage=USED),
        Scene(at=AT, usage=None),
        Scene(at=AT, status="started"),
        Scene(at=AT, usage=USED, model="nobody-knows"),
        Scene(at=AT, usage=Usage(uncached_input_tokens=1_000, web_searches=3)),  # gpt-4.1 prints no price of a search
    )
    rows, made, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    assert (made.left.unknown_cost, made.left.unpriced_tokens) == (3, 3)
    assert all(Decimal(row["BilledCost"]) > 0 for row in rows)
    assert {row["x_CostStatus"] for row in rows} == {"exact", "partial"}


def test_a_call_that_used_nothing_is_a_row_of_requests(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=AT, usage=Usage()), Scene(at=AT, usage=Usage()))
    (row,), _, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    assert (row["SkuMeter"], row["ConsumedQuantity"], row["BilledCost"]) == ("Requests", "2.0", "0.0")


def test_prices_by_the_clock_split_the_stored_total_and_say_so(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    """Of a day with two rates, usage × one price is not what was paid: the total is split in that proportion."""
    prices = catalog.price_set("gpt-4.1", "openai", AT)
    assert prices is not None
    used = Usage(uncached_input_tokens=300_000, plain_output_tokens=100_000)
    taken = Import(new_id(), "made", "a.json", "0" * 64, "gpt-4.1", "openai", None, 0)
    bucket = UsageBucket(
        bucket_id=new_id(),
        import_id=taken.import_id,
        start_us=round(AT.timestamp()) * 10**6,
        end_us=round(AT.timestamp()) * 10**6 + 1,
        endpoint="here",
        price_list="openai",
        model_asked="gpt-4.1",
        cost_status="estimated",
        requests=2,
        usage=used,
        # 0.3 × 2 + 0.1 × 8 = 1.4 by the list; 1 was booked: 0.6 / 1.4 and 0.8 / 1.4 of it
        list_cost=Amount("USD", Decimal(1)),
        settled_cost=Amount("USD", Decimal(1)),
        price_set_id=prices.id,
    )
    ledger.write_now(prices, taken, bucket)
    rows, made, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    found = by_meter(rows)
    assert found["Input Tokens"]["BilledCost"] == "0.428571428571"
    assert found["Output Tokens"]["BilledCost"] == "0.571428571429"  # the greater remainder takes the last 1e-12
    assert {(row["x_CostSplit"], row["x_PriceRowId"], row["x_Origin"]) for row in rows} == {
        ("proportional", "", "aggregated")
    }
    assert made.left.split == 2


def test_the_context_tier_decides_the_price_row(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    model = "gemini-2.5-pro"  # 1.25 USD per Mtok in up to 200,000 tokens a request, 2.50 above
    long, short = Usage(uncached_input_tokens=300_000), Usage(uncached_input_tokens=100_000)
    write(ledger, catalog, *(Scene(at=AT, usage=usage, model=model) for usage in (long, short, short, short)))
    rows, _, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    assert sorted((row["ConsumedQuantity"], row["ListUnitPrice"], row["BilledCost"]) for row in rows) == [
        ("300000.0", "1.25", "0.375"),
        ("300000.0", "2.5", "0.75"),
    ]
    assert len({row["SkuPriceId"] for row in rows}) == 2
    assert len({row["SkuId"] for row in rows}) == 1
    assert {row["x_CostSplit"] for row in rows} == {"derived"}


def test_cache_writes_say_how_long_they_live(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    usage = Usage(cache_write_5m_tokens=1_000, cache_write_1h_tokens=1_000)
    write(ledger, catalog, Scene(at=AT, usage=usage, model="claude-sonnet-4.5"))
    rows, _, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    assert {(row["x_CacheTtl"], row["ListUnitPrice"]) for row in rows} == {("5m", "3.75"), ("1h", "6.0")}


def test_texts_are_not_changed_but_those_like_formulas_are_counted(
    ledger: Ledger, catalog: Catalog, fx: FxTable
) -> None:
    write(ledger, catalog, Scene(at=AT, usage=Usage(uncached_input_tokens=1), tenant="=1+1"))
    (row,), made, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    assert (row["SubAccountId"], row["SubAccountName"], made.left.formulas) == ("=1+1", "=1+1", 2)


def test_a_month_without_rows_names_those_that_have_some(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=AT, usage=USED))
    with pytest.raises(RouterError, match="it has rows in 2026-10"):
        exported(ledger, catalog, fx, month="2026-09")


PLANTED = [
    ("BilledCost", "", "BilledCost: MUST NOT be null"),
    ("BilledCost", "2E-3", "BilledCost: a number without"),
    ("BilledCost", "1,000.5", "BilledCost: a number without"),
    ("BilledCost", "USD 2.0", "BilledCost: a number without"),
    ("ListCost", "0.0021", "ListUnitPrice: × PricingQuantity MUST match ListCost"),
    ("ContractedUnitPrice", "2.000001", "ContractedUnitPrice: × PricingQuantity MUST match ContractedCost"),
    ("ListUnitPrice", "-2", "ListUnitPrice: MUST be a non-negative decimal value"),
    ("EffectiveCost", "0.003", "EffectiveCost: ours: BilledCost where nothing"),
    ("BillingCurrency", "usd", "BillingCurrency: ISO 4217"),
    ("PricingCurrency", "", "PricingCurrency: MUST NOT be null"),
    ("ChargePeriodStart", "2026-10-03T00:00:00+00:00", "ChargePeriodStart: UTC"),
    ("ChargePeriodEnd", "2026-12-04T00:00:00Z", "BillingPeriodEnd: ours: the charge period lies"),
    ("ChargeCategory", "Fee", "ChargeCategory: MUST be one of"),
    ("ChargeCategory", "Tax", "SkuId: MUST be null on Tax"),
    ("ChargeClass", "Correction", "ChargeClass: null where nothing"),
    ("PricingUnit", "Mtok", "PricingUnit: plural units"),
    ("ConsumedUnit", "1.5 Tokens", "ConsumedUnit: plural units"),
    ("ConsumedQuantity", "0.0", "ConsumedQuantity: ours: more than 0"),
    ("ConsumedQuantity", "1000", "ConsumedQuantity: a number without"),
    ("Tags", "team=x", "Tags: a JSON object"),
    ("Tags", '{"a": ["b"]}', "Tags: a JSON object"),
    ("Tags", '{"a": "b", "a": "c"}', "Tags: a JSON object"),
    ("SkuPriceDetails", '{"x_core_count": "4"}', "SkuPriceDetails: keys in PascalCase"),
    ("SkuPriceDetails", '{"CoreCount": "4"}', "SkuPriceDetails: keys begin with x_"),
    ("SkuPriceDetails", '{"x_CoreCount": 4}', "SkuPriceDetails: no numbers"),
    ("SkuPriceDetails", '{"x_CoreCount": "4"}', "SkuPriceId: SkuPriceDetails belong to it"),
    ("InvoiceId", "2026-10", "InvoiceId: null where there is no invoice"),
    ("InvoiceIssuerName", "marketplace", "BilledCost: MUST be 0 where a third party is paid"),
    ("SkuMeter", "", "SkuMeter: null exactly where SkuId is"),
    ("SubAccountType", "", "SubAccountType: null exactly where"),
    ("ServiceCategory", "AI", "ServiceCategory: MUST be one of"),
    ("PricingCategory", "On-Demand", "PricingCategory: MUST be one of"),
    ("PublisherName", "null", "*: no placeholder text"),
    ("ProviderName", " openai", "*: ours, beyond StringHandling-A-007-M: no white space"),
    ("SkuId", "another", "SkuPriceId: one and only one parent"),
]


@pytest.mark.parametrize(("column", "value", "fault"), PLANTED)
def test_the_rules_find_planted_faults(
    ledger: Ledger, catalog: Catalog, fx: FxTable, column: str, value: str, fault: str
) -> None:
    usage = Usage(uncached_input_tokens=1_000)
    write(ledger, catalog, *(Scene(at=AT, usage=usage, tenant=name, tags={"team": "x"}) for name in ("a", "b")))
    rows, _, text = exported(ledger, catalog, fx)
    assert faults_of(text) == []
    rows[1][column] = value
    assert any(found.startswith(f"1: {fault}") for found in faults_of(csv_of(rows))), faults_of(csv_of(rows))


def csv_of(rows: list[dict[str, str]]) -> str:
    out = StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda names: [name for name in names if name != "ListCost"], "ListCost: MUST be present"),
        (lambda names: [*names, "Model"], "Model: a custom column MUST begin with x_"),
        (lambda names: [*names, "x_cost_status"], "x_cost_status: PascalCase"),
        (lambda names: names[::-1], "columns: FOCUS's by the alphabet"),
    ],
)
def test_the_rules_find_faults_of_the_heading(change: object, fault: str) -> None:
    names = [column.name for column in COLUMNS]
    assert faults_of_heading(names) == []
    assert any(found.startswith(fault) for found in faults_of_heading(change(names)))  # type: ignore[operator]


WRONG = (
    "",
    "?",
    "1e5",
    "-5",
    "0",
    "2026",
    "2020-01-01T00:00:00Z",
    "usd",
    "1.5 Tokens",
    "{",
    '{"x_a_b": 1}',
    '{"A": "b"}',
    "null",
    " x",
)


def test_each_rule_can_fail(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    write(ledger, catalog, Scene(at=AT, usage=Usage(uncached_input_tokens=1_000), tenant="a", tags={"team": "x"}))
    (row,), _, _ = exported(ledger, catalog, fx)
    changed = [{**row, name: value} for name in row for value in (*WRONG, "Tax", "Purchase", "Correction")]
    never = [f"{rule.column}: {rule.words}" for rule in RULES if all(is_kept(rule, each) for each in changed)]
    assert never == []


def test_what_has_no_finite_decimal_is_split_by_largest_remainders() -> None:
    assert split(100, (1, 1, 1)) == (34, 33, 33)
    assert split(1, (2, 3)) == (0, 1)  # 0.4 and 0.6
    assert split(7, (0, 0)) == (4, 3)
    assert split(0, (5, 6)) == (0, 0)
    # A third of 0.000000000100 for 3 units: 3.33…e-11, with decimals enough that three of them are 1e-10 again
    price = unit_price(100, Decimal(3), None)
    assert (price * 3).quantize(Decimal("1e-12")) == Decimal("1e-10")


@given(st.integers(0, 10**20), st.lists(st.integers(0, 10**9), min_size=1, max_size=8))
def test_law_parts_add_up_to_the_total_and_are_within_one_of_their_share(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    assert sum(parts) == total
    whole = sum(weights)
    if whole:
        assert all(abs(part - Fraction(total * weight, whole)) < 1 for part, weight in zip(parts, weights, strict=True))


@given(st.integers(0, 10**20), st.integers(1, 10**14))
def test_law_a_unit_price_times_its_quantity_is_the_cost(cost: int, tokens: int) -> None:
    quantity = Decimal(tokens).scaleb(-6)
    exact = Fraction(unit_price(cost, quantity, None)) * Fraction(quantity)
    assert round(exact * 10**12) == cost


def test_a_price_set_is_asked_at_an_instant_when_it_is_in_force(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    """A list that begins within the day has its own price rows for the calls after that, not the day's first ones."""
    row = next(
        row
        for _, placed in catalog.placed_rows()
        if (row := placed.row).effective_from is not None and row.effective_from.hour and row.component == "input"
    )
    at = row.effective_from
    assert at is not None
    usage = Usage(uncached_input_tokens=1_000)
    write(ledger, catalog, Scene(at=at, usage=usage, model=row.model, price_list=row.price_list))
    rows, _, text = exported(ledger, catalog, fx, month=f"{at:%Y-%m}")
    assert faults_of(text) == []
    assert {found["x_CostSplit"] for found in rows} == {"derived"}
