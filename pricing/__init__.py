"""What usage costs: pure functions of usage, dated prices and rates. No network, no clock, no SQL."""

from __future__ import annotations

from pricing.catalog import Catalog
from pricing.conditions import Conditions
from pricing.cost import Cost, CostLine, CostStatus, context_tier, price_call
from pricing.errors import CatalogError, Fault, FxError, PricingError, ScenarioError, UnknownModel, UsageError
from pricing.extract import (
    AttemptUsage,
    extract_attempts,
    extract_usage,
    last_per_message,
    last_snapshot,
    reported_cost_usd,
    served_tier,
)
from pricing.fx import FxRate, FxTable, operator_rate
from pricing.fx_load import load_fx
from pricing.load import load_catalog
from pricing.money import is_currency, join_amount, plain, split_amount
from pricing.payment import Commitment, Credit, Spend, draw_credits, shortfall
from pricing.price_file import ListInfo, ModelInfo
from pricing.prices import PriceRow, PriceSet, price_set_from_json, price_set_to_json
from pricing.scenario import PriceChange, Scenario, Settlement
from pricing.scenario_file import load_scenario, scenario_of_options, scenario_to_toml
from pricing.terms import Terms, settle
from pricing.usage import Usage

__all__ = [
    "AttemptUsage",
    "Catalog",
    "CatalogError",
    "Commitment",
    "Conditions",
    "Cost",
    "CostLine",
    "CostStatus",
    "Credit",
    "Fault",
    "FxError",
    "FxRate",
    "FxTable",
    "ListInfo",
    "ModelInfo",
    "PriceChange",
    "PriceRow",
    "PriceSet",
    "PricingError",
    "Scenario",
    "ScenarioError",
    "Settlement",
    "Spend",
    "Terms",
    "UnknownModel",
    "Usage",
    "UsageError",
    "context_tier",
    "draw_credits",
    "extract_attempts",
    "extract_usage",
    "is_currency",
    "join_amount",
    "last_per_message",
    "last_snapshot",
    "load_catalog",
    "load_fx",
    "load_scenario",
    "operator_rate",
    "plain",
    "price_call",
    "price_set_from_json",
    "price_set_to_json",
    "reported_cost_usd",
    "scenario_of_options",
    "scenario_to_toml",
    "served_tier",
    "settle",
    "shortfall",
    "split_amount",
]
