"""What the user states about all records of an import, and which price list each record's model is priced at.

In: `Booking`, the catalogue, the names in the records. Out: a `Seller` for each (model, provider) met. Invariant: a
name that no list in question has is unpriced and counted by name, never priced as a neighbour.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pricing import Catalog, PriceSet, UnknownModel
from pricing.catalog import VENDOR
from pricing.terms import NO_TERMS, Terms
from router.ledger.reader import instant_at, instant_us
from router.ledger.rows import storable_text
from router.task import Role


@dataclass(frozen=True, slots=True)
class Booking:
    """What is stated about all records of an import.

    Args:
        endpoint: the name they are booked under; records of two accounts need two names.
        price_list: the list they were bought at, or "vendor": each model at its own vendor's.
        last_list: price a retired model at its last list, instead of leaving it unpriced.
        terms: discount, settlement and so on of what was bought there, each with the instant from which it holds,
            microseconds since 1970 UTC, ascending; empty: settled at list price.
        configuration, task_class, tenant, role: where a record does not say.
        model_map: our model id, or another name of it, by the name in the records.
    """

    endpoint: str
    price_list: str = VENDOR
    last_list: bool = False
    terms: tuple[tuple[int, Terms], ...] = ()
    configuration: str | None = None
    task_class: str | None = None
    tenant: str | None = None
    role: Role | None = None
    model_map: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def terms_at(self, at_us: int) -> Terms:
        """Return the terms that hold at an instant."""
        place = bisect_right(self.terms, at_us, key=lambda each: each[0])
        return self.terms[place - 1][1] if place else NO_TERMS


@dataclass(frozen=True, slots=True)
class Seller:
    """Who sells a model: our id of it, or its name as given where no list has it.

    Args:
        model: as above.
        price_list: the list's name; where none has it, what was stated.
        edges_us: instants at which its prices change, microseconds since 1970 UTC, ascending.
        is_listed: whether the list has it.
    """

    model: str
    price_list: str
    edges_us: tuple[int, ...] = ()
    is_listed: bool = True


class Sellers:
    """Finds sellers and price sets; each is looked up once.

    Args:
        catalog: the prices.
        booking: what the user states.
    """

    def __init__(self, catalog: Catalog, booking: Booking) -> None:
        self._catalog, self._booking = catalog, booking
        self._list_of = {
            prefix.lower(): name
            for name in reversed(catalog.lists)
            for prefix in (*catalog.list_info(name).prefixes, name)
        }
        self._found: dict[tuple[str, str | None], Seller] = {}
        self._sets: dict[tuple[str, str, int], PriceSet | None] = {}
        if booking.price_list != VENDOR:
            catalog.list_info(booking.price_list)  # one that does not exist is an error before anything is read

    def of(self, model: str, provider: str | None) -> Seller:
        """Return who sells a model.

        Args:
            model: its name in a record.
            provider: who sold it, as the record names it; it counts where the user has stated no list.
        """
        key = (model, provider)
        if key not in self._found:
            self._found[key] = self._look_up(self._booking.model_map.get(model, model), provider)
        return self._found[key]

    def price_set(self, seller: Seller, at_us: int) -> PriceSet | None:
        """Return the prices in force for a seller's model at an instant; None where it has none."""
        if not seller.is_listed:
            return None
        key = (seller.model, seller.price_list, bisect_right(seller.edges_us, at_us))
        if key not in self._sets:
            at = instant_at(at_us)
            last = self._booking.last_list
            self._sets[key] = self._catalog.price_set(seller.model, seller.price_list, at, last_list=last)
        return self._sets[key]

    def _look_up(self, model: str, provider: str | None) -> Seller:
        catalog, name = self._catalog, self._booking.price_list
        if name == VENDOR and provider is not None:
            if provider.lower() not in self._list_of:
                return Seller(storable_text(model), name, is_listed=False)
            name = self._list_of[provider.lower()]
        try:
            identity = catalog.resolve(model, name)
            name = catalog.vendor_list(identity) if name == VENDOR else name
        except UnknownModel:
            return Seller(storable_text(model), name, is_listed=False)
        edges = {
            instant_us(edge)
            for row in catalog.history(identity, name)
            for edge in (row.effective_from, row.effective_to)
            if edge is not None
        }
        return Seller(identity, name, tuple(sorted(edges)))
