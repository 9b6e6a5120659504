"""What usage costs: pure functions of usage, dated prices and rates. No network, no clock, no SQL."""

from __future__ import annotations

from pricing.catalog import Catalog
from pricing.conditions import Conditions
from pricing.cost import Cost, CostLine, CostStatus, context_tier, price_call
from pricing.errors import CatalogError, Fault, FxError, PricingError, UnknownModel, UsageError
from pricing.extract import extract_usage
from pricing.fx import FxRate, FxTable, load_fx, operator_rate
from pricing.load import load_catalog
from pricing.money import is_currency, join_amount, plain, split_amount
from pricing.price_file import ListInfo, ModelInfo
from pricing.prices import PriceRow, PriceSet, price_set_from_json, price_set_to_json
from pricing.terms import Terms, settle
from pricing.usage import Usage

__all__ = [
    "Catalog",
    "CatalogError",
    "Conditions",
    "Cost",
    "CostLine",
    "CostStatus",
    "Fault",
    "FxError",
    "FxRate",
    "FxTable",
    "ListInfo",
    "ModelInfo",
    "PriceRow",
    "PriceSet",
    "PricingError",
    "Terms",
    "UnknownModel",
    "Usage",
    "UsageError",
    "context_tier",
    "extract_usage",
    "is_currency",
    "join_amount",
    "load_catalog",
    "load_fx",
    "operator_rate",
    "plain",
    "price_call",
    "price_set_from_json",
    "price_set_to_json",
    "settle",
    "split_amount",
]
