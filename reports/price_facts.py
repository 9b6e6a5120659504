"""What a page says of the prices it was made with: which, how they are settled, and which models are no longer sold.

In: a price basis, models. Out: facts and notes. Invariant: no savings are drawn from a cost that is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from reports.page import Cell, Fact, Kind, Note
from reports.repricing import Basis
from router.errors import RouterError


def basis_facts(basis: Basis) -> tuple[Fact, ...]:
    """Return the facts that say what was priced with."""
    terms = basis.terms
    settled = None if terms.settlement_currency is None else f"{terms.settlement_rate} {terms.settlement_currency}"
    return (
        Fact("price_list", "price list", basis.price_list),
        Fact("prices_at", "prices at", f"{basis.at:%Y-%m-%d}" if basis.at else "each call's own day"),
        Fact("settlement", "settlement", f"{settled} for one unit of list price" if settled else "none"),
        Fact("currency", "currency", basis.exchange.currency),
    )


def priced_facts(basis: Basis, baseline: str, time_zone: str) -> tuple[Fact, ...]:
    """Return how a footer ends that is about prices: the catalogue's date, the baseline, time zone, exchange rates."""
    return (
        Fact("catalogue_date", "catalogue of", basis.catalog.checked.isoformat()),
        Fact("baseline", "baseline", baseline),
        Fact("time_zone", "time zone", time_zone),
        basis.exchange.fact(),
    )


def retired_notes(retired: Mapping[str, datetime], name: str | None = None) -> Iterator[Note]:
    """Yield a warning for each model that is priced at a list it has left.

    Args:
        retired: the instant it left, by model.
        name: of the configuration, where the page has to say so.
    """
    text = "{model} was retired on {day} and cannot be bought any more; it is priced at its last list"
    for model, at in sorted(retired.items()):
        values: dict[str, tuple[Cell, Kind]] = {"model": (model, "text"), "day": (f"{at:%Y-%m-%d}", "text")}
        if name is None:
            yield Note("warning", text, values)
        else:
            yield Note("warning", f"{{name}}: {text}", {"name": (name, "text"), **values})


def refuse_unpriced(models: Iterable[str], basis: Basis) -> None:
    """Refuse to draw savings from costs that are lower bounds.

    Raises:
        RouterError: there are such models.
    """
    names = ", ".join(models)
    if names:
        message = f"savings: price list {basis.price_list!r} has no whole price of {names}, so none can be worked out"
        raise RouterError(message, hint="another list is --list NAME; router prices list names them")
