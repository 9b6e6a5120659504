"""Price rows that contradict each other.

In: placed rows of one or more files. Out: faults. Invariant: after this check at most one row is the most specific for
any component, instant and request, so that the order of rows in a file never decides a price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from pricing.conditions import Conditions
from pricing.errors import Fault
from pricing.price_file import PlacedRow
from pricing.prices import PriceRow


def find_conflicts(rows: Iterable[tuple[int, PlacedRow]]) -> Iterator[Fault]:
    """Yield a fault for each pair of rows of which neither outranks the other.

    Args:
        rows: (layer, row) in the order they were read; a row of a higher layer outranks one of equal conditions.
    """
    groups: dict[tuple[str, str, str], list[tuple[int, PlacedRow]]] = {}
    for layer, placed in rows:
        row = placed.row
        groups.setdefault((row.price_list, row.model, row.component), []).append((layer, placed))
    for group in groups.values():
        for (layer, first), (other_layer, second) in combinations(group, 2):
            same = first.row.conditions == second.row.conditions
            if same and layer != other_layer:
                continue
            if _overlap(first.row, second.row) and (same or _tie(first.row.conditions, second.row.conditions)):
                yield _fault(first, second, same=same)


def _fault(first: PlacedRow, second: PlacedRow, *, same: bool) -> Fault:
    row = second.row
    what = "overlaps" if same else "is as specific as"
    cure = (
        "close one before the other starts"
        if same
        else 'set one more condition on one (service_tier = "default" is the plain tier)'
    )
    return second.place.fault(f"{row.component} of {row.model!r}: {what} the row at {_where(first)}; {cure}")


def _where(placed: PlacedRow) -> str:
    found = placed.place.fault("")
    return found.file if found.line is None else f"{found.file}:{found.line}"


def _overlap(first: PriceRow, second: PriceRow) -> bool:
    starts = [row.effective_from for row in (first, second) if row.effective_from is not None]
    ends = [row.effective_to for row in (first, second) if row.effective_to is not None]
    return not starts or not ends or max(starts) < min(ends)


def _tie(first: Conditions, second: Conditions) -> bool:
    """Return whether both can hold for one request and neither is more specific."""
    return (
        (first.specificity, first.boundary) == (second.specificity, second.boundary)
        and _compatible(first.service_tier, second.service_tier)
        and not (_names_tier_only(first) and second.batch)
        and not (_names_tier_only(second) and first.batch)
        and _compatible(first.region, second.region)
        and _share_time(first, second)
    )


def _compatible(first: str | None, second: str | None) -> bool:
    return first is None or second is None or first == second


def _names_tier_only(conditions: Conditions) -> bool:
    return conditions.service_tier is not None and not conditions.batch


def _share_time(first: Conditions, second: Conditions) -> bool:
    days = set(first.weekdays or range(1, 8)) & set(second.weekdays or range(1, 8))
    whole_day = ((0, 24 * 60),)
    return bool(days) and any(
        start < other_end and other_start < end
        for start, end in first.windows_utc or whole_day
        for other_start, other_end in second.windows_utc or whole_day
    )
