"""What stands in a FOCUS row: the values of its columns, from a group's key, one of its lines and that line's costs.

In: a group's key, lines, costs in whole 1e-12. Out: values by column. Invariant: a column of FOCUS has what its page of
the specification allows, and null where it says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from pricing import PriceSet, Terms
from reports.focus_columns import COLUMNS
from reports.focus_lines import METERS, ClassLine, pricing_quantity, stated_price, unit_of
from reports.focus_split import amount, unit_price

FocusRow: TypeAlias = tuple[Any, ...]
"""Values of `COLUMNS` in their order: texts, Decimals, aware UTC instants, whole numbers, flags, or None."""


@dataclass(frozen=True, slots=True)
class RowCost:
    """Costs of one row, whole 1e-12: as paid, at list price in both currencies, and in the list's after terms."""

    paid: int
    listed: int
    list_currency_listed: int
    list_currency_paid: int


def group_values(key: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return our own columns that every row of a group has."""
    return {
        "x_Configuration": key["configuration"] or None,
        "x_ContextTier": key["context_tier"],
        "x_CostStatus": key["cost_status"],
        "x_Endpoint": key["endpoint"] or None,
        "x_ModelAsked": key["model_asked"] or None,
        "x_ModelServed": key["model_served"] or None,
        "x_Origin": key["origin"],
        "x_PriceSetId": key["price_set_id"],
        "x_Role": key["role"],
        "x_ServiceTier": key["service_tier"] or None,
        "x_TaskClass": key["task_class"] or None,
        "x_TermsId": key["terms_id"],
        "x_UsageEstimated": bool(key["usage_estimated"]),
    }


def usage_values(
    line: ClassLine, key: Mapping[str, Any], prices: PriceSet | None, cost: RowCost, terms: Terms
) -> Mapping[str, Any]:
    """Return the columns of the row of one token class.

    Args:
        line: the token class.
        key: what the group is of.
        prices: its price set, or None.
        cost: the row's costs.
        terms: the endpoint's terms.
    """
    model = known_text(prices.model if prices else key["model_served"] or key["model_asked"])
    seller_name = known_text(prices.price_list if prices else key["price_list"])
    sku = f"{seller_name}/{model}/{line.component}"
    consumed_unit, pricing_unit, _ = unit_of(line.component)
    quantity, stated = pricing_quantity(line), stated_price(line)
    conditions = _conditions(line, key)
    details = {"Model": model, "Component": line.component, **conditions}
    before = (1 - Fraction(terms.discount_share)) * (1 + Fraction(terms.markup_share))
    rate = Fraction(terms.settlement_rate or 1)
    has_one_currency = key["cost_currency"] == key["settled_currency"]
    contracted = None if stated is None else stated * before * rate
    own = contracted if has_one_currency else None if stated is None else stated * before
    return {
        **_costs(cost),
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{METERS[line.component]} of {model} at {seller_name}",
        "ConsumedQuantity": Decimal(line.quantity),
        "ConsumedUnit": consumed_unit,
        "PricingQuantity": quantity,
        "PricingUnit": pricing_unit,
        "PricingCategory": "Standard",
        "ListUnitPrice": unit_price(cost.listed, quantity, stated if has_one_currency else None),
        "ContractedUnitPrice": unit_price(cost.paid, quantity, contracted),
        "PricingCurrencyListUnitPrice": unit_price(cost.list_currency_listed, quantity, stated),
        "PricingCurrencyContractedUnitPrice": unit_price(cost.list_currency_paid, quantity, own),
        "SkuId": sku,
        "SkuMeter": METERS[line.component],
        # Keys that FOCUS does not define begin with x_, and a number would be one of a PricingUnit: so all are texts.
        "SkuPriceDetails": json.dumps({f"x_{name}": value for name, value in details.items()}, ensure_ascii=False),
        "SkuPriceId": ";".join([sku, *(f"{name}={value}" for name, value in conditions.items())]),
        "x_CacheTtl": {"cache_write_5m": "5m", "cache_write_1h": "1h"}.get(line.component),
        "x_CostSplit": line.split,
        "x_PriceRowId": None if line.row is None else line.row.id,
    }


def _conditions(line: ClassLine, key: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the conditions that decide a line's price: of its row, or else of what was served."""
    if line.row is None:
        return {"ServiceTier": key["service_tier"]} if key["service_tier"] else {}
    held = line.row.conditions
    found = {
        "ServiceTier": held.service_tier,
        "Batch": "true" if held.batch else None,
        "Region": held.region,
        "InputTokensAbove": None if held.boundary is None else str(held.boundary),
        "WindowsUtc": ",".join(f"{start}-{end}" for start, end in held.windows_utc) or None,
        "Weekdays": ",".join(map(str, held.weekdays)) or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def tax_values(cost: RowCost, key: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the columns of the row of a group's tax."""
    model = key["model_served"] or key["model_asked"]
    return {
        **_costs(cost),
        "ChargeCategory": "Tax",
        "ChargeDescription": f"Tax on the use of {model}",
    }


def _costs(cost: RowCost) -> Mapping[str, Decimal]:
    paid = amount(cost.paid)
    return {
        "BilledCost": paid,
        "ContractedCost": paid,
        "EffectiveCost": paid,
        "ListCost": amount(cost.listed),
        "PricingCurrencyEffectiveCost": amount(cost.list_currency_paid),
        "x_PricingCurrencyListCost": amount(cost.list_currency_listed),
    }


def row_of(values: Mapping[str, Any]) -> FocusRow:
    """Return values by column as a row."""
    return tuple(values.get(column.name) for column in COLUMNS)


def known_text(value: str | None) -> str:
    """Return a text that no column without nulls may lack; what has none is said to be unknown."""
    return value or "unknown"
