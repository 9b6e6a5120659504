"""What the lines of a report can be, and the line that each row belongs to.

In: a group's name, rows. Out: labels. Invariant: every row has exactly one line; where what lines are read from is not
known, it is the line None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from types import MappingProxyType
from typing import Any

from pricing import Catalog, PricingError, UnknownModel
from pricing.catalog import VENDOR
from reports.frames import LedgerReader
from reports.month_rows import MODEL
from reports.period import Period
from reports.rows import Labels, Rows
from router.errors import WrongUsage, unknown_name

BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "model": MODEL,
        "provider": ("price_list", *MODEL),
        "endpoint": ("endpoint",),
        "role": ("role",),
        "class": ("task_class",),
        "configuration": ("configuration",),
        "tenant": ("tenant",),
        "hour": ("hour",),
        "day": ("local_day",),
        "week": ("local_day",),
        "month": ("local_day",),
    }
)
"""What lines can be, beside `tag:KEY`: the columns each is read from. `model` is the model that answered, or else the
one that was asked for; `provider` is who is paid: the seller whose price list it is; `hour` is the hour of the day."""
TAG = "tag:"
TIMED = ("hour", "day", "week", "month")
"""Lines that follow each other in time."""


@dataclass(frozen=True, slots=True)
class Group:
    """What the lines of a page are.

    Args:
        name: as it was asked for.
        title: the heading of the lines' column.
        columns: what lines are read from.
        name_of: makes a line's name of a row's values of those; None: the first one that is known.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    name_of: Callable[..., Any] | None = None

    @property
    def is_timed(self) -> bool:
        """Whether lines follow each other in time."""
        return self.name in TIMED

    @property
    def ledger_columns(self) -> tuple[str, ...]:
        """The columns of the ledger that it is read from; days and hours are those of spans."""
        return tuple(column for column in self.columns if column not in ("local_day", "hour"))

    @property
    def is_of_hours(self) -> bool:
        """Whether lines are hours of the day."""
        return "hour" in self.columns

    def name_for(self, values: Sequence[Any]) -> Any:
        """Return the line of some values of the columns."""
        if self.name_of:
            return self.name_of(*values)
        return next((value for value in values if value is not None), None)

    def labels(self, rows: Rows) -> Labels:
        """Return each row's line."""
        return rows.labels(self.columns, self.name_of)


def group_of(by: str, reader: LedgerReader, period: Period, catalog: Catalog) -> Group:
    """Return what lines are.

    Args:
        by: a key of `BY`, or `tag:KEY` with a key that a tag of the period has.
        reader: the ledger's.
        period: the period.
        catalog: knows who sells a model at its vendor's list.

    Raises:
        WrongUsage: there is no such group; those that exist are listed, with the keys of the period's tags.
    """
    if by.startswith(TAG):
        documents = _tags(reader, period)
        key = by.removeprefix(TAG)
        if not any(key in tags for tags in documents.values()):
            raise _unknown(by, documents)
        return Group(by, key, ("tags_id",), lambda identity: documents.get(identity, {}).get(key))
    if by not in BY:
        raise _unknown(by, _tags(reader, period))
    return Group(by, by.capitalize(), BY[by], _namer(by, catalog))


def _unknown(by: str, documents: Mapping[str, Mapping[str, str]]) -> WrongUsage:
    keys = sorted({f"{TAG}{key}" for tags in documents.values() for key in tags})
    if by.startswith(TAG) and not keys:
        message = f"group: {by!r} does not exist; no call of the period has a tag"
        return WrongUsage(message, hint=f"groups that exist: {', '.join(sorted(BY))}")
    return unknown_name("group", by, (*BY, *(keys or (f"{TAG}KEY",))))


def _namer(by: str, catalog: Catalog) -> Callable[..., Any] | None:
    if by == "provider":
        return lambda price_list, served, asked: seller(catalog, price_list, served or asked)
    if by == "hour":
        return lambda hour: f"{hour:02}:00"
    if by == "day":
        return date.isoformat
    if by == "week":
        return _week
    return (lambda day: f"{day:%Y-%m}") if by == "month" else None


def seller(catalog: Catalog, price_list: str, model: str) -> str:
    """Return the name of the price list that a model is paid by; "vendor" where its own vendor is not known.

    Args:
        catalog: the price catalogue.
        price_list: a list's name, or "vendor": each model at its own vendor's.
        model: the model.
    """
    if price_list != VENDOR:
        return price_list
    try:
        return catalog.vendor_list(model)
    except (UnknownModel, PricingError):
        return VENDOR


def _week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year}-W{week:02}"


def _tags(reader: LedgerReader, period: Period) -> Mapping[str, Mapping[str, str]]:
    """Return the tags of the period by their id."""
    groups = reader.usage_groups(period.start_us, period.end_us, ("tags_id",))
    return reader.tag_sets([group.key[0] for group in groups if group.key[0] is not None])
