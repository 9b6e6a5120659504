"""The rules of FOCUS 1.2 for the columns we write, each with the id of the specification's rule that it checks.

In: a CSV file's text. Out: the rules that are broken, as `row: column: rule`. Written from the specification alone; it
shares no code with the export. Source of every rule: the requirements model 1.2.0.1 of the FinOps Open Cost and Usage
Specification, whose ids stand in brackets (`C-003-M` of a column is `COLUMN-C-003-M`); it is also what the
specification's own validator, `focus-validator` on PyPI, checks. What we ask for beyond it says "ours".
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

MANDATORY = (  # CostAndUsage-D-005-M to D-068-M
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd"),
    *("BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodEnd"),
    *("ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity"),
    *("PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
)
CONDITIONAL = (  # CostAndUsage-D-004-C to D-067-C: "MUST be present when …", and the condition holds here
    *("BillingAccountType", "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice"),
    *("PricingCategory", "PricingCurrency", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost"),
    *("PricingCurrencyListUnitPrice", "SkuId", "SkuMeter", "SkuPriceDetails", "SkuPriceId", "SubAccountId"),
    *("SubAccountName", "SubAccountType", "Tags"),
)
OPTIONAL = ("CommitmentDiscountStatus",)
RECOMMENDED = ("ChargeFrequency", "InvoiceId", "ServiceSubcategory")  # D-027-O, D-033-O, D-042-O
NEVER_NULL = {
    "BilledCost": "C-003-M",
    "BillingAccountId": "C-001-M",
    "BillingAccountName": "C-003-C",
    "BillingCurrency": "C-004-M",
    "BillingPeriodEnd": "C-003-M",
    "BillingPeriodStart": "C-003-M",
    "ChargeCategory": "C-002-M",
    "ChargeDescription": "C-003-O",
    "ChargeFrequency": "C-002-M",
    "ChargePeriodEnd": "C-003-M",
    "ChargePeriodStart": "C-003-M",
    "ContractedCost": "C-003-M",
    "EffectiveCost": "C-003-M",
    "InvoiceIssuerName": "C-003-M",
    "ListCost": "C-003-M",
    "PricingCurrency": "C-004-M",
    "PricingCurrencyEffectiveCost": "C-003-M",
    "ProviderName": "C-003-M",
    "PublisherName": "C-003-M",
    "ServiceCategory": "C-002-M",
    "ServiceName": "C-003-M",
    "ServiceSubcategory": "C-002-M",
}
USAGE_ONLY = {  # null on Tax, not null on Usage that is no correction
    "ConsumedQuantity": "C-004-C, C-006-C",
    "ConsumedUnit": "C-005-C, C-006-C",
    "ContractedUnitPrice": "C-005-C, C-006-C",
    "ListUnitPrice": "C-004-C, C-005-C",
    "PricingCategory": "C-003-C, C-004-C",
    "PricingCurrencyContractedUnitPrice": "C-004-C, C-005-C",
    "PricingCurrencyListUnitPrice": "C-004-C, C-005-C",
    "PricingQuantity": "C-004-C, C-005-C",
    "PricingUnit": "C-005-C, C-006-C",
    "SkuId": "C-004-C, C-005-C",
    "SkuPriceId": "C-004-C, C-005-C",
}
DECIMALS = (
    *("BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "ConsumedQuantity", "ContractedUnitPrice"),
    *("ListUnitPrice", "PricingCurrencyContractedUnitPrice", "PricingCurrencyEffectiveCost"),
    *("PricingCurrencyListUnitPrice", "PricingQuantity"),
)
INSTANTS = ("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart")
ALLOWED = {
    "ChargeCategory": ("C-003-M", ("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    "ChargeClass": ("C-005-C", ("", "Correction")),
    "ChargeFrequency": ("C-003-M", ("One-Time", "Recurring", "Usage-Based")),
    "PricingCategory": ("C-007-M", ("", "Standard", "Committed", "Dynamic", "Other")),
    "ServiceCategory": (
        "C-003-M",
        (
            *("AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases"),
            *("Developer Tools", "Multicloud", "Identity", "Integration", "Internet of Things"),
            *("Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage"),
            *("Web", "Other"),
        ),
    ),
    "ServiceSubcategory": (  # C-004-M: those whose one parent is AI and Machine Learning
        "C-003-M",
        (
            *("AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing"),
            "Other (AI and Machine Learning)",
        ),
    ),
}
NUMBER = re.compile(r"-?\d+\.\d+")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
UNIT = re.compile(r"([1-9]\d* )?([A-Z][A-Za-z]*-)?[A-Z][A-Za-z]*s(/[A-Z][a-z]+)?")
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


PRODUCTS = (
    ("ListUnitPrice", "ListCost", "C-010-C"),
    ("ContractedUnitPrice", "ContractedCost", "C-011-C"),
    ("PricingCurrencyListUnitPrice", "x_PricingCurrencyListCost", "ours, as ListUnitPrice-C-010-C"),
)
NOT_NEGATIVE = {
    "ContractedUnitPrice": "C-009-C",
    "ListUnitPrice": "C-008-M",
    "PricingCurrencyContractedUnitPrice": "C-008-C",
    "PricingCurrencyListUnitPrice": "C-008-M",
}
IDENTITIES = (
    ("BillingAccountType", "BillingAccountId", "C-004-C, C-005-C"),
    ("SubAccountType", "SubAccountId", "C-004-C, C-005-C"),
    ("SubAccountName", "SubAccountId", "C-004-C, C-005-C"),
    ("SkuMeter", "SkuId", "C-004-C, C-005-C"),
    ("ConsumedUnit", "ConsumedQuantity", "C-005-C, C-006-C"),
    ("PricingUnit", "PricingQuantity", "C-005-C, C-006-C"),
)


def details(row: Row) -> Mapping[str, object]:
    found = json.loads(row["SkuPriceDetails"] or "{}")
    return found if isinstance(found, dict) else {}


RULES: tuple[Rule, ...] = (
    *(
        Rule(
            name,
            f"MUST NOT be null ({rule})",
            lambda row, name=name: row[name] != "",  # type: ignore[misc]
        )
        for name, rule in NEVER_NULL.items()
    ),
    *(
        Rule(
            name,
            f"MUST be null on Tax and MUST NOT be null on Usage ({rule})",
            lambda row, name=name: (row[name] == "") == (row["ChargeCategory"] == "Tax"),  # type: ignore[misc]
        )
        for name, rule in USAGE_ONLY.items()
    ),
    *(
        Rule(
            name,
            "a number without commas, units, operators or sign of plus (NumericFormat-A-002-M to A-011-M), "
            "ours: with a decimal point and no exponent",
            lambda row, name=name: row[name] == "" or NUMBER.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in DECIMALS
    ),
    *(
        Rule(
            name,
            "UTC, YYYY-MM-DDTHH:mm:ssZ (DateTimeFormat-A-001-M to A-006-M)",
            lambda row, name=name: INSTANT.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in INSTANTS
    ),
    *(
        Rule(
            name,
            f"MUST be one of the allowed values ({rule})",
            lambda row, name=name, allowed=allowed: row[name] in allowed,  # type: ignore[misc]
        )
        for name, (rule, allowed) in ALLOWED.items()
    ),
    *(
        Rule(
            name,
            "ISO 4217 code of a national currency (CurrencyFormat-A-001-C, BillingCurrency-C-006-M)",
            lambda row, name=name: row[name] in CURRENCIES,  # type: ignore[misc]
        )
        for name in ("BillingCurrency", "PricingCurrency")
    ),
    *(
        Rule(
            name,
            "plural units, a whole-number quantity before them (UnitFormat-A-001-M, A-002-O)",
            lambda row, name=name: row[name] == "" or UNIT.fullmatch(row[name]) is not None,  # type: ignore[misc]
        )
        for name in ("ConsumedUnit", "PricingUnit")
    ),
    *(
        Rule(
            name,
            "a JSON object of unique keys and plain values (KeyValueFormat-A-001-M to A-004-M)",
            lambda row, name=name: row[name] == "" or is_flat_object(row[name]),  # type: ignore[misc]
        )
        for name in ("Tags", "SkuPriceDetails")
    ),
    *(
        Rule(
            price,
            f"× PricingQuantity MUST match {cost} ({rule})",
            lambda row, price=price, cost=cost: product(row, price, cost),  # type: ignore[misc]
        )
        for price, cost, rule in PRODUCTS
    ),
    *(
        Rule(
            price,
            f"MUST be a non-negative decimal value ({rule})",
            lambda row, price=price: not row[price].startswith("-"),  # type: ignore[misc]
        )
        for price, rule in NOT_NEGATIVE.items()
    ),
    *(
        Rule(
            name,
            f"null exactly where {other} is ({rule})",
            lambda row, name=name, other=other: nulls_go_together(row, name, other),  # type: ignore[misc]
        )
        for name, other, rule in IDENTITIES
    ),
    Rule(
        "BilledCost",
        "MUST be 0 where a third party is paid (C-005-C)",
        lambda row: row["ProviderName"] == row["InvoiceIssuerName"] or Decimal(row["BilledCost"]) == 0,
    ),
    Rule(
        "ConsumedQuantity",
        "ours: more than 0, since what used nothing is a row of Requests",
        lambda row: row["ConsumedQuantity"] == "" or Decimal(row["ConsumedQuantity"]) != 0,
    ),
    Rule("ChargeClass", "null where nothing is corrected (C-003-C)", lambda row: row["ChargeClass"] == ""),
    Rule(
        "CommitmentDiscountStatus",
        "null where there is no commitment discount (C-003-C)",
        lambda row: row["CommitmentDiscountStatus"] == "",
    ),
    Rule("InvoiceId", "null where there is no invoice (C-004-C)", lambda row: row["InvoiceId"] == ""),
    Rule(
        "ChargePeriodEnd",
        "exclusive bound after ChargePeriodStart (C-004-M)",
        lambda row: instant(row["ChargePeriodStart"]) < instant(row["ChargePeriodEnd"]),
    ),
    Rule(
        "BillingPeriodEnd",
        "ours: the charge period lies in the billing period",
        lambda row: (
            instant(row["BillingPeriodStart"]) <= instant(row["ChargePeriodStart"])
            and instant(row["ChargePeriodEnd"]) <= instant(row["BillingPeriodEnd"])
        ),
    ),
    Rule(
        "SkuPriceDetails",
        "null where SkuPriceId is (C-004-C)",
        lambda row: row["SkuPriceDetails"] == "" or row["SkuPriceId"] != "",
    ),
    Rule(
        "SkuPriceDetails",
        "keys begin with x_, since none is one that FOCUS defines (C-017-C)",
        lambda row: all(key.startswith("x_") for key in details(row)),
    ),
    Rule(
        "SkuPriceDetails",
        "keys in PascalCase (C-002-O)",
        lambda row: all(PASCAL.fullmatch(key.removeprefix("x_")) for key in details(row)),
    ),
    Rule(
        "SkuPriceDetails",
        "no numbers, which would be those of one PricingUnit (C-018-C)",
        lambda row: all(isinstance(value, str) for value in details(row).values()),
    ),
    Rule(
        "ServiceSubcategory",
        "has one parent (C-004-M)",
        lambda row: row["ServiceCategory"] == "AI and Machine Learning",
    ),
    Rule(
        "EffectiveCost",
        "ours: BilledCost where nothing is amortized",
        lambda row: row["EffectiveCost"] == row["BilledCost"],
    ),
    Rule(
        "PricingCurrencyEffectiveCost",
        "ours: EffectiveCost where both currencies are one",
        lambda row: (
            row["PricingCurrency"] != row["BillingCurrency"]
            or row["PricingCurrencyEffectiveCost"] == row["EffectiveCost"]
        ),
    ),
    Rule(
        "ChargeFrequency",
        "Usage-Based only where it is no Purchase (C-004-C)",
        lambda row: row["ChargeCategory"] != "Purchase" or row["ChargeFrequency"] != "Usage-Based",
    ),
    Rule(
        "*",
        "no placeholder text (NullHandling-A-002-M)",
        lambda row: not {"null", "None", "Not Applicable", "N/A"}.intersection(row.values()),
    ),
    Rule(
        "*",
        "ours, beyond StringHandling-A-007-M: no white space around a text",
        lambda row: all(row[name] == row[name].strip() for name in (*NEVER_NULL, "SkuId", "SkuMeter")),
    ),
)
ONE_TO_ONE = (
    ("SkuPriceId", "SkuId", "one and only one parent SkuId (C-008-M)"),
    ("SkuPriceId", "SkuPriceDetails", "SkuPriceDetails belong to it (SkuPriceDetails-C-007-M)"),
    ("SkuId", "SkuMeter", "SkuMeter stays the same (SkuMeter-C-006-O)"),
    ("ServiceName", "ServiceCategory", "one and only one ServiceCategory (C-005-C)"),
)
"""Columns, what each of their values has one of, and the rule."""


def faults_of_heading(names: list[str]) -> list[str]:
    """Return what is wrong with a file's columns (ColumnHandling-A-001-M to A-014-O)."""
    faults = [f"{name}: MUST be present" for name in (*MANDATORY, *CONDITIONAL, *RECOMMENDED) if name not in names]
    own = [name for name in names if name.startswith("x_")]
    focus = [name for name in names if not name.startswith("x_")]
    faults += [f"{name}: PascalCase" for name in names if not PASCAL.fullmatch(name.removeprefix("x_"))]
    faults += [f"{name}: longer than 50" for name in names if len(name) > 50]
    known = {*MANDATORY, *CONDITIONAL, *OPTIONAL, *RECOMMENDED}
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
    first: dict[tuple[str, str, str], str] = {}
    for number, row in enumerate(reader):
        faults += [f"{number}: {rule.column}: {rule.words}" for rule in RULES if not is_kept(rule, row)]
        for one, other, words in ONE_TO_ONE:
            if row[one] and first.setdefault((one, other, row[one]), row[other]) != row[other]:
                faults.append(f"{number}: {one}: {words}")
    return faults


def is_kept(rule: Rule, row: Row) -> bool:
    """Return whether a row keeps a rule."""
    try:
        return rule.holds(row)
    except (ValueError, ArithmeticError, AttributeError, TypeError):
        return True  # a text that is no number or date is another rule's fault
