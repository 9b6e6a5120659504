"""Which models at which lists a comparison prices, and in which currencies.

In: configurations, the prices they are bought at. Out: pairs of model and list. Invariant: a policy counts with every
model that it may choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pricing import Catalog, UnknownModel
from pricing.catalog import VENDOR
from reports.baselines import models_named
from reports.repricing import Basis
from router.settings import ConfigurationSettings


def sold_at(
    configurations: Mapping[str, ConfigurationSettings], bases: Mapping[str, Basis], catalog: Catalog
) -> set[tuple[str, str]]:
    """Return the pairs of model and price list that configurations may come to.

    Args:
        configurations: rules by name.
        bases: the prices of each, by the same names.
        catalog: resolves names.
    """
    return {
        (model, bases[name].price_list)
        for name, rule in configurations.items()
        for model in models_named([rule], catalog)
    }


def needs_days(sold: Iterable[tuple[str, str]], bases: Iterable[Basis], currency: str) -> bool:
    """Return whether an amount may have to be converted, so that the work must be kept by day.

    Args:
        sold: pairs of model and price list.
        bases: all prices that are used.
        currency: ISO 4217 code of the page.
    """
    every = tuple(bases)
    paid = {each.terms.settlement_currency for each in every} - {None}
    lists = {currency_of(*pair, each.catalog) for each in every for pair in sold} - {None}
    return bool((paid | lists) - {currency})


def currency_of(model: str, price_list: str, catalog: Catalog) -> str | None:
    """Return the ISO 4217 code of the list that sells a model; None where none does."""
    try:
        home = catalog.vendor_list(model) if price_list == VENDOR else price_list
    except UnknownModel:
        return None
    return catalog.list_info(home).currency
