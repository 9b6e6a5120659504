"""The ledger's groups with what is on record of their cost, in the page's currency.

In: a reader, a span, columns to group by. Out: `BilledGroup`s. Invariant: amounts are exact; each is converted at the
rate of the UTC day of its calls. Days are only read where something has to be converted, since most months need none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pricing import PriceSet, join_amount
from pricing.usage import BUCKETS, INPUT_BUCKETS
from reports.exact import exact_sum
from reports.exchange import Exchange
from reports.frames import LedgerReader
from reports.page import Money
from reports.period import Period, at_us, utc_day
from reports.rate_cards import CACHED_BUCKETS, by_bucket, list_amount, quote_of, undated
from reports.work import Recorded

if TYPE_CHECKING:
    from router.ledger.cube import UsageCube
    from router.ledger.groups import UsageGroup

STATUS_COLUMNS = ("status", "cost_status", "usage_estimated", "possibly_billed")
"""What tells a call that cost nothing from one whose cost is not known."""
_CURRENCIES = ("cost_currency", "settled_currency")
_SIZED = ("price_set_id", "context_tier", "service_tier")
_NEVER_SERVED = ("failed", "timed_out")
_ANY_INSTANT = at_us(0)
"""Where a set has peak hours, its components share out alike at every hour, as far as lists are known (DeepSeek's)."""


@dataclass(frozen=True, slots=True)
class BilledGroup:
    """Attempts that are alike.

    Args:
        key: their values of the columns grouped by.
        sums: of `router.ledger.queries.SUM_NAMES`.
        listed: list cost on record, page's currency; None: none is known.
        settled: settled cost on record, alike.
    """

    key: Mapping[str, Any]
    sums: Mapping[str, int]
    listed: Fraction | None
    settled: Fraction | None

    @property
    def records(self) -> int:
        """Rows of the ledger: attempts, and usage that somebody else has added up."""
        return self.sums["records"]

    @property
    def requests(self) -> int:
        """Requests whose usage is known, as far as they are counted."""
        return requests_of(self.sums) or 0

    @property
    def unknown(self) -> int:
        """Attempts whose usage is not known, but for those that were refused before anything could be billed."""
        key = self.key
        never = key["status"] in _NEVER_SERVED and not key["possibly_billed"] and key["cost_status"] == "unknown"
        return 0 if never else self.sums["usage_unknown"]

    @property
    def is_whole(self) -> bool:
        """Whether every request whose usage is known has a whole price."""
        has_usage = self.records > self.sums["usage_unknown"]
        return not has_usage or self.key["cost_status"] in ("exact", "estimated")


def requests_of(sums: Mapping[str, int]) -> int | None:
    """Return the requests of known usage that sums are of; None where some do not say how many they are."""
    return None if sums["requests_unknown"] else sums["requests"] - sums["usage_unknown"]


def billed_groups(
    reader: LedgerReader, month: Period, by: Sequence[str], exchange: Exchange
) -> tuple[BilledGroup, ...]:
    """Return a month's attempts by groups.

    Args:
        reader: the ledger's.
        month: the month.
        by: columns of `router.ledger.queries.GROUP_COLUMNS`; those of `STATUS_COLUMNS` are added.
        exchange: converts into the page's currency.

    Raises:
        FxError: an amount cannot be converted.
        LedgerError: the ledger cannot be read.
    """
    names = _names(by)
    groups = reader.usage_groups(month.start_us, month.end_us, names)
    if _are_foreign(groups, names, exchange):
        names = (*names, "day")
        groups = reader.usage_groups(month.start_us, month.end_us, names)
    return tuple(_billed(group, names, exchange) for group in groups)


def recorded_groups(cube: UsageCube, exchange: Exchange) -> tuple[BilledGroup, ...]:
    """Return attempts in the groups that `recorded_cost` needs.

    Args:
        cube: the attempts, with their days kept apart.
        exchange: converts into the page's currency.

    Raises:
        FxError: an amount cannot be converted.
    """
    names = _names(_SIZED)
    groups: Sequence[UsageGroup] = cube.groups(names)
    if _are_foreign(groups, names, exchange):
        names = (*names, "day")
        groups = cube.groups(names)
    return tuple(_billed(group, names, exchange) for group in groups)


def sets_of(reader: LedgerReader, groups: Iterable[BilledGroup]) -> Mapping[str, PriceSet]:
    """Return the price sets on record that groups were priced with, by id, as if they were in force at every instant.

    Raises:
        PricingError: a stored set was altered.
        LedgerError: the ledger cannot be read.
    """
    ids = {group.key["price_set_id"] for group in groups} - {None}
    return {identity: undated(prices) for identity, prices in reader.price_sets(ids).items()}


def recorded_cost(groups: Sequence[BilledGroup], sets: Mapping[str, PriceSet], currency: str) -> Recorded:
    """Return what the groups cost as they were billed.

    Args:
        groups: of `recorded_groups`.
        sets: of `sets_of`.
        currency: ISO 4217 code of the page.
    """
    listed, settled = recorded_sums(groups, currency)
    is_bound = not all(group.is_whole for group in groups)
    uncached = [_uncached(group, sets) for group in groups if group.listed is not None]
    known = [amount for amount in uncached if amount is not None]
    return Recorded(
        listed=listed,
        settled=settled,
        uncached=exact_sum(known) if len(known) == len(uncached) and not is_bound else None,
    )


def recorded_sums(groups: Sequence[BilledGroup], currency: str) -> tuple[Money | None, Money | None]:
    """Return list and settled cost of groups; a lower bound where a request of known usage has no whole price.

    Args:
        groups: of `billed_groups`.
        currency: ISO 4217 code of the page.
    """
    is_bound = not all(group.is_whole for group in groups)
    return (
        _sum([group.listed for group in groups], currency, is_bound=is_bound),
        _sum([group.settled for group in groups], currency, is_bound=is_bound),
    )


def by_component(group: BilledGroup, sets: Mapping[str, PriceSet]) -> Mapping[str | None, Fraction]:
    """Return the settled cost of a group by price component, which adds up to it exactly.

    It is shared out as the list prices of the group's own price set share out; under the key None where it has none.

    Args:
        group: grouped by `price_set_id`, `context_tier` and `service_tier` at least.
        sets: of `sets_of`.
    """
    if group.settled is None:
        return {}
    parts = _listed_parts(group, sets)
    whole = exact_sum(parts.values()) if parts is not None else Fraction(0)
    if not parts or not whole:
        return {None: group.settled}
    return {component: group.settled * part / whole for component, part in parts.items()}


def component_columns() -> tuple[str, ...]:
    """Return the columns that `by_component` needs a group to be grouped by."""
    return _SIZED


def _names(by: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*by, *STATUS_COLUMNS, *_CURRENCIES)))


def _are_foreign(groups: Iterable[UsageGroup], names: Sequence[str], exchange: Exchange) -> bool:
    """Return whether an amount is to be converted."""
    at = [names.index(name) for name in _CURRENCIES]
    return bool({group.key[place] for group in groups for place in at} - {None, exchange.currency})


def _billed(group: UsageGroup, names: Sequence[str], exchange: Exchange) -> BilledGroup:
    key = dict(zip(names, group.key, strict=True))
    amounts = (_amount(group.sums, key, "cost", exchange), _amount(group.sums, key, "settled", exchange))
    return BilledGroup(key, group.sums, *amounts)


def _amount(sums: Mapping[str, int], key: Mapping[str, Any], name: str, exchange: Exchange) -> Fraction | None:
    currency = key[f"{name}_currency"]
    if currency is None:
        return None
    value = Fraction(join_amount(sums[f"{name}_micro"], sums[f"{name}_pico"]))
    return value if currency == exchange.currency else exchange.convert(value, currency, utc_day(key["day"]))


def _sum(amounts: Iterable[Fraction | None], currency: str, *, is_bound: bool) -> Money | None:
    known = [amount for amount in amounts if amount is not None]
    return Money(exact_sum(known), currency, is_bound) if known else None


def _uncached(group: BilledGroup, sets: Mapping[str, PriceSet]) -> Fraction | None:
    """Return the list cost, had every cached token been plain input; None: the price set does not tell."""
    sums = group.sums
    if group.listed is None or not any(sums[bucket] for bucket in BUCKETS if bucket in CACHED_BUCKETS):
        return group.listed
    cached, plain = _listed_parts(group, sets), _listed_parts(group, sets, plain=True)
    if cached is None or plain is None or not (whole := exact_sum(cached.values())):
        return None
    return group.listed * exact_sum(plain.values()) / whole


def _listed_parts(
    group: BilledGroup, sets: Mapping[str, PriceSet], *, plain: bool = False
) -> Mapping[str, Fraction] | None:
    """Return list cost by component at the group's price set; None where a component has no price there.

    Args:
        group: the group.
        sets: of `sets_of`.
        plain: whether cached tokens count as plain input.
    """
    prices = sets.get(group.key["price_set_id"])
    counts = {bucket: group.sums[bucket] for bucket in BUCKETS if group.sums[bucket]}
    if prices is None or not counts:
        return None
    quote = quote_of(prices, _mean_input_tokens(group), _ANY_INSTANT, group.key["service_tier"])
    if quote is None:
        return None
    rates = by_bucket(quote, uncached=plain)
    parts: dict[str, Fraction] = {}
    for bucket, count in counts.items():
        component, amount = rates[bucket].component, rates[bucket].unit_amount
        if amount is None:
            return None
        part = list_amount(component, Fraction(count), Fraction(amount))
        parts[component] = parts[component] + part if component in parts else part
    return parts


def _mean_input_tokens(group: BilledGroup) -> int:
    """Return the whole part of the mean input of a group's requests, which is in their context tier; 0: not known."""
    whole = sum(group.sums[bucket] for bucket in INPUT_BUCKETS)
    return whole // group.requests if group.requests > 0 else 0
