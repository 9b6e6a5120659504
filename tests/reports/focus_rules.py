"""The rules of FOCUS 1.2 for the columns we write, one a line, each with the page of the specification it stands on.

In: a CSV file's text. Out: the rules that are broken, as `row: column: rule`. Written from the specification alone; it
shares no code with the export. Source: FinOps Open Cost and Usage Specification 1.2, `specification/columns/*.md` and
`specification/attributes/*.md`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, localcontext
from io import StringIO
from typing import NamedTuple, TypeAlias

from babel.numbers import list_currencies

Row: TypeAlias = Mapping[str, str]

MANDATORY = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd"),
    *("ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity"),
    *("PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
)
CONDITIONAL = (  # each page: "MUST be present when …", and the condition holds here
    *("BillingAccountType", "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice"),
    *("PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost"),
    *("PricingCurrencyListUnitPrice", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId"),
    *("SubAccountName", "SubAccountType", "Tags"),
)
RECOMMENDED = ("ChargeFrequency", "ServiceSubcategory")
NEVER_NULL = (
    *("BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart"),
    *("ChargeCategory", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost"),
    *("InvoiceIssuerName", "ListCost", "PricingCurrency", "PricingCurrencyEffectiveCost", "ProviderName"),
    *("PublisherName", "ServiceCategory", "ServiceName", "ServiceSubcategory", "ChargeFrequency"),
)
USAGE_ONLY = (  # null on Tax, not null on Usage that is no correction
    *("ContractedUnitPrice", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "SkuId"),
    *("SkuPriceId", "PricingCurrencyContractedUnitPrice", "PricingCurrencyListUnitPrice"),
    *("ConsumedQuantity", "ConsumedUnit"),
)
DECIMALS = (
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "ConsumedQuantity", "ContractedUnitPrice"),
    *("ListUnitPrice", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost"),
    *("PricingCurrencyListUnitPrice", "PricingQuantity"),
)
INSTANTS = ("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart")
ALLOWED = {
    "ChargeCategory": ("Usage", "Purchase", "Tax", "Credit", "Adjustment"),
    "ChargeClass": ("", "Correction"),
    "ChargeFrequency": ("One-Time", "Recurring", "Usage-Based"),
    "PricingCategory": ("", "Standard", "Dynamic", "Committed", "Other"),
    "ServiceCategory": ("AI and Machine Learning", "Analytics", "Compute", "Databases", "Other"),
    "ServiceSubcategory": ("Bots", "Generative AI", "Machine Learning", "Natural Language Processing"),
}
NUMBER = re.compile(r"-?\d+(\.\d+)?")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UNIT = re.compile(r"([1-9]\d* )?[A-Z][A-Za-z]*s(-[A-Z][A-Za-z]*s)?(/[A-Z][a-z]+)?")
PASCAL = re.compile(r"([A-Z][a-z0-9]*)+")

CURRENCIES = list_currencies()


class Rule(NamedTuple):
    """A rule: the column, its words and where they stand, and whether a row keeps it."""

    column: str
    words: str
    holds: Callable[[Row], bool]


def product(row: Row, price: str, cost: str) -> bool:
    """Return whether price × quantity is the cost, to the 12 decimals that costs have."""
    if row[price] == "" or row["PricingQuantity"] == "":
        return True
    with localcontext(prec=120):
        exact = Decimal(row[price]) * Decimal(row["PricingQuantity"])
        return exact.quantize(Decimal("1e-12")) == Decimal(row[cost])


def is_flat_object(text: str) -> bool:
    try:
        pairs = json.loads(text, object_pairs_hook=lambda found: found)
    except ValueError:
        return False
    keys = [key for key, _ in pairs] if isinstance(pairs, list) else [""]
    plain = all(isinstance(value, str | int | float | bool | None) for _, value in pairs)
    return text.startswith("{") and len(set(keys)) == len(keys) and plain


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def nulls_go_together(row: Row, one: str, other: str) -> bool:
    return (row[one] == "") == (row[other] == "")


RULES: tuple[Rule, ...] = (
    *(
        Rule(name, f"MUST NOT be null (columns/{name.lower()}.md)", lambda row, name=name: row[name] != "")  # type: ignore[misc]
        for name in NEVER_NULL
    ),
    *(
        Rule(
            name,
            f"MUST be null on Tax and MUST NOT be null on Usage (columns/{name.lower()}.md)",
            lambda row, name=name: (row[name] == "") == (row["ChargeCategory"] == "Tax"),  # type: ignore[misc]
        )
        for name in USAGE_ONLY
    ),
    *(
        Rule(
            name,
            "a number without exponent, sign of plus, comma or unit (attributes/numeric_format.md)",
            lambda row, name=name: row[name] == "" or NUMBER.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in DECIMALS
    ),
    *(
        Rule(
            name,
            "UTC, YYYY-MM-DDTHH:mm:ssZ (attributes/datetime_format.md)",
            lambda row, name=name: INSTANT.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in INSTANTS
    ),
    *(
        Rule(
            name,
            f"MUST be one of the allowed values (columns/{name.lower()}.md)",
            lambda row, name=name, allowed=allowed: row[name] in allowed,  # type: ignore[misc]
        )
        for name, allowed in ALLOWED.items()
    ),
    *(
        Rule(
            name,
            "ISO 4217 code of a national currency (attributes/currency_format.md)",
            lambda row, name=name: row[name] in CURRENCIES,  # type: ignore[misc]
        )
        for name in ("BillingCurrency", "PricingCurrency")
    ),
    *(
        Rule(
            name,
            "plural units with a whole-number quantity before them (attributes/unit_format.md)",
            lambda row, name=name: row[name] == "" or UNIT.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in ("ConsumedUnit", "PricingUnit")
    ),
    *(
        Rule(
            name,
            "a JSON object of unique keys and plain values (attributes/key_value_format.md)",
            lambda row, name=name: row[name] == "" or is_flat_object(row[name]),  # type: ignore[misc]
        )
        for name in ("Tags", "SkuPriceDetails")
    ),
    *(
        Rule(
            price,
            f"× PricingQuantity MUST match {cost} (columns/{price.lower()}.md)",
            lambda row, price=price, cost=cost: product(row, price, cost),  # type: ignore[misc]
        )
        for price, cost in (
            ("ListUnitPrice", "ListCost"),
            ("ContractedUnitPrice", "ContractedCost"),
            ("PricingCurrencyListUnitPrice", "x_PricingCurrencyListCost"),
        )
    ),
    *(
        Rule(
            price,
            f"MUST be a non-negative decimal value (columns/{price.lower()}.md)",
            lambda row, price=price: not row[price].startswith("-"),  # type: ignore[misc]
        )
        for price in ("ListUnitPrice", "ContractedUnitPrice", "PricingCurrencyListUnitPrice")
    ),
    Rule("ConsumedQuantity", "positive (columns/consumedquantity.md)", lambda row: row["ConsumedQuantity"] != "0"),
    Rule(
        "ChargeClass", "null where nothing is corrected (columns/chargeclass.md)", lambda row: row["ChargeClass"] == ""
    ),
    Rule(
        "ChargePeriodEnd",
        "exclusive bound after ChargePeriodStart (columns/chargeperiodend.md)",
        lambda row: instant(row["ChargePeriodStart"]) < instant(row["ChargePeriodEnd"]),
    ),
    Rule(
        "BillingPeriodEnd",
        "the charge period lies in the billing period (columns/billingperiodend.md)",
        lambda row: (
            instant(row["BillingPeriodStart"]) <= instant(row["ChargePeriodStart"])
            and instant(row["ChargePeriodEnd"]) <= instant(row["BillingPeriodEnd"])
        ),
    ),
    Rule(
        "BillingAccountType",
        "null exactly where BillingAccountId is (columns/billingaccounttype.md)",
        lambda row: nulls_go_together(row, "BillingAccountType", "BillingAccountId"),
    ),
    Rule(
        "SubAccountType",
        "null exactly where SubAccountId is (columns/subaccounttype.md)",
        lambda row: nulls_go_together(row, "SubAccountType", "SubAccountId"),
    ),
    Rule(
        "SubAccountName",
        "null where SubAccountId is (columns/subaccountname.md)",
        lambda row: nulls_go_together(row, "SubAccountName", "SubAccountId"),
    ),
    Rule(
        "SkuMeter",
        "null exactly where SkuId is (columns/skumeter.md)",
        lambda r: nulls_go_together(r, "SkuMeter", "SkuId"),
    ),
    Rule(
        "SkuPriceDetails",
        "null where SkuPriceId is (columns/skupricedetails.md)",
        lambda row: row["SkuPriceDetails"] == "" or row["SkuPriceId"] != "",
    ),
    Rule(
        "SkuPriceDetails",
        "keys in PascalCase, none with F_ (columns/skupricedetails.md)",
        lambda row: all(PASCAL.fullmatch(key) for key in json.loads(row["SkuPriceDetails"] or "{}")),
    ),
    Rule(
        "ServiceSubcategory",
        "has one parent (columns/servicesubcategory.md)",
        lambda row: row["ServiceCategory"] == "AI and Machine Learning",
    ),
    Rule(
        "EffectiveCost",
        "BilledCost where nothing is amortized (columns/effectivecost.md)",
        lambda row: row["EffectiveCost"] == row["BilledCost"],
    ),
    Rule(
        "PricingCurrencyEffectiveCost",
        "EffectiveCost where both currencies are one (columns/pricingcurrencyeffectivecost.md)",
        lambda row: (
            row["PricingCurrency"] != row["BillingCurrency"]
            or row["PricingCurrencyEffectiveCost"] == row["EffectiveCost"]
        ),
    ),
    Rule(
        "ChargeFrequency",
        "Usage-Based only where it is no Purchase (columns/chargefrequency.md)",
        lambda row: row["ChargeCategory"] != "Purchase" or row["ChargeFrequency"] != "Usage-Based",
    ),
    Rule("*", "no empty or placeholder text (attributes/null_handling.md)", lambda row: "null" not in row.values()),
    Rule(
        "*",
        "no white space around a text (attributes/string_handling.md)",
        lambda row: all(row[name] == row[name].strip() for name in (*NEVER_NULL, "SkuId", "SkuMeter")),
    ),
)


def faults_of_heading(names: list[str]) -> list[str]:
    """Return what is wrong with a file's columns (attributes/column_naming_and_ordering.md)."""
    faults = [f"{name}: MUST be present" for name in (*MANDATORY, *CONDITIONAL, *RECOMMENDED) if name not in names]
    own = [name for name in names if name.startswith("x_")]
    focus = [name for name in names if not name.startswith("x_")]
    faults += [f"{name}: PascalCase" for name in names if not PASCAL.fullmatch(name.removeprefix("x_"))]
    faults += [f"{name}: longer than 50" for name in names if len(name) > 50]
    known = {*MANDATORY, *CONDITIONAL, *RECOMMENDED}
    faults += [f"{name}: a custom column MUST begin with x_" for name in focus if name not in known]
    if names != [*sorted(focus), *sorted(own)]:
        faults.append("columns: FOCUS's by the alphabet, then custom ones")
    return faults


def faults_of(text: str) -> list[str]:
    """Return every rule that a FOCUS file in CSV breaks, as `row: column: words`."""
    reader = csv.DictReader(StringIO(text))
    names = list(reader.fieldnames or [])
    faults = faults_of_heading(names)
    if faults:
        return faults
    parents: dict[str, str] = {}
    for number, row in enumerate(reader):
        faults += [f"{number}: {rule.column}: {rule.words}" for rule in RULES if not rule.holds(row)]
        if parents.setdefault(row["SkuPriceId"], row["SkuId"]) != row["SkuId"]:
            faults.append(f"{number}: SkuPriceId: one and only one parent SkuId (columns/skupriceid.md)")
    return faults
