"""The pages of `router prices`: lists, models, rows, and differences from a data set.

In: values of `pricing`. Out: `Page`s. Invariant: an amount is the row's own, exact; what has no price is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from reports.page import Cell, Column, Fact, Money, Note, Page, Panel, Table

if TYPE_CHECKING:
    from pricing import Catalog, Conditions, PriceRow
    from pricing.sources import Comparison, DataSet, Difference, ImportPlan

_SHOWN = ("input", "cache_read", "output")
_MANY = 20


def list_page(catalog: Catalog, price_lists: Sequence[str], at: datetime) -> Page:
    """Return every model of some lists with its plain prices at an instant; one whose list has ended has none."""
    columns = (
        Column("model", "model", "text"),
        Column("price_list", "list", "text"),
        *(Column(f"{name}_per_mtok", name.replace("_", " "), "rate") for name in _SHOWN),
        Column("rows", "rows", "count"),
        Column("ended", "ended", "text", optional=True),
        Column("context_window_tokens", "context", "tokens"),
    )
    rows = [_model_row(catalog, model, name, at) for name in price_lists for model in catalog.models(name)]
    unpriced = sum(row[5] == 0 for row in rows)
    footer = (
        Fact("models", "models", len(rows), "count"),
        Fact("models_unpriced", "without a price then", unpriced, "count"),
        *_dates(catalog, at),
    )
    return Page("prices", "Price lists", (), (Table("models", "models", columns, tuple(rows)),), (), footer)


def show_page(catalog: Catalog, model: str, price_list: str, at: datetime) -> Page:
    """Return the rows in force for a model at an instant, with what is known of it."""
    info, home = catalog.info(model, price_list), _home(catalog, model, price_list)
    prices = catalog.price_set(model, price_list, at, last_list=True)
    notes = []
    if prices is None:
        notes.append(Note("warning", "no price was in force then"))
    elif prices.retired_at is not None:
        notes.append(Note("warning", f"its list ended at {_when(prices.retired_at)}; these are its last prices"))
    footer = (
        Fact("model", "model", info.id),
        Fact("price_list", "list", home),
        Fact("wire_id", "id at the seller", info.wire_id),
        Fact("aliases", "also called", ", ".join(info.aliases) or None),
        Fact("context_window_tokens", "context", info.context_window_tokens, "tokens"),
        Fact("max_output_tokens", "longest answer", info.max_output_tokens, "tokens"),
        Fact("capabilities", "can do", ", ".join(info.capabilities) or None),
        Fact("announced_shutdown", "announced end", str(info.announced_shutdown) if info.announced_shutdown else None),
        *([Fact("price_set_id", "price set", prices.id)] if prices else []),
        *_dates(catalog, at),
    )
    table = _rows_table(prices.rows if prices else ())
    return Page("price", f"Prices of {info.id} at {home}", (), (table,), tuple(notes), footer)


def history_page(catalog: Catalog, model: str, price_list: str) -> Page:
    """Return every row a model ever had at a list, oldest first, outranked ones too."""
    identity, home = catalog.resolve(model, price_list), _home(catalog, model, price_list)
    rows = sorted(catalog.history(model, price_list), key=_start)
    footer = (Fact("rows", "rows", len(rows), "count"), Fact("catalogue", "catalogue of", str(catalog.checked)))
    return Page("price-history", f"Every price of {identity} at {home}", (), (_rows_table(rows),), (), footer)


def difference_page(found: Comparison) -> Page:
    """Return where a data set and the catalogue differ, model by model."""
    columns = (
        Column("model", "model", "text"),
        Column("price_list", "list", "text"),
        Column("component", "component", "text"),
        Column("when", "when", "text"),
        Column("ours", "catalogue", "rate"),
        Column("theirs", found.data.name, "rate"),
        Column("change_share", "change", "change"),
        Column("entry", "entry", "text"),
    )
    table = Table("differences", "differences", columns, tuple(_difference_row(each) for each in found.differences))
    models = {(each.entry.price_list, each.model) for each in found.differences}
    footer = (
        Fact("source", "source", f"{found.data.name} {found.data.version}"),
        Fact("at", "prices of", _when(found.data.at)),
        Fact("models_compared", "models compared", len(found.compared), "count"),
        Fact("prices_equal", "prices that agree", found.agreed, "count"),
        Fact("prices_different", "prices that differ", len(found.differences), "count"),
        Fact("models_different", "models with a difference", len(models), "count"),
        Fact("entries_unknown", "entries the catalogue does not have", len(found.unknown), "count"),
        Fact("entries_ended", "entries whose list has ended", len(found.ended), "count"),
        Fact("models_absent", "models the source does not have", len(found.absent), "count"),
        Fact("prices_rounded", "prices rounded at 12 decimals", len(found.data.roundings), "count"),
    )
    title = f"Where {found.data.name} and the catalogue differ"
    return Page("price-differences", title, (), (table,), _rounding_notes(found.data), footer)


def import_page(plan: ImportPlan, data: DataSet, file: str, *, written: bool) -> Page:
    """Return what an import adds, closes and leaves, and whether it has been written."""
    columns = (
        Column("model", "model", "text"),
        Column("price_list", "list", "text"),
        Column("component", "component", "text"),
        Column("when", "when", "text"),
        Column("before", "before", "rate"),
        Column("after", "after", "rate"),
        Column("effective_from", "from", "text"),
    )
    rows = tuple(
        (
            each.row.model,
            each.row.price_list,
            each.row.component,
            _conditions(each.row.conditions),
            _rate(each.replaces.amount, each.replaces.currency) if each.replaces else None,
            _rate(each.row.amount, each.row.currency),
            _when(each.row.effective_from),
        )
        for each in plan.additions
    )
    skipped = [Note("note", f"{each.model} {each.component}: left: {each.reason}") for each in plan.skipped[:_MANY]]
    if len(plan.skipped) > _MANY:
        skipped.append(Note("note", f"{len(plan.skipped) - _MANY} further prices are left"))
    footer = (
        Fact("source", "source", f"{data.name} {data.version}"),
        Fact("file", "file", file),
        Fact("written", "written", "yes" if written else "no"),
        Fact("rows_added", "rows added", len(plan.additions), "count"),
        Fact("rows_closed", "rows of the file closed", len(plan.closed), "count"),
        Fact("models_added", "models added", len(plan.models), "count"),
        Fact("prices_left", "prices left", len(plan.skipped), "count"),
        Fact("prices_rounded", "prices rounded at 12 decimals", len(data.roundings), "count"),
    )
    notes = (*skipped, *_rounding_notes(data))
    table = Table("rows", "new prices", columns, rows)
    return Page("price-import", f"Prices taken over from {data.name}", (), (table,), notes, footer)


def _model_row(catalog: Catalog, model: str, price_list: str, at: datetime) -> tuple[Cell, ...]:
    prices = catalog.price_set(model, price_list, at)
    plain = {row.component: row for row in prices.rows if not row.conditions.to_json()} if prices else {}
    last = catalog.price_set(model, price_list, at, last_list=True) if prices is None else None
    return (
        model,
        price_list,
        *(_rate(plain[name].amount, plain[name].currency) if name in plain else None for name in _SHOWN),
        len(prices.rows) if prices else 0,
        _when(last.retired_at) if last else None,
        catalog.info(model, price_list).context_window_tokens,
    )


def _rows_table(rows: Iterable[PriceRow]) -> Table:
    columns = (
        Column("component", "component", "text"),
        Column("amount", "amount", "rate"),
        Column("unit", "unit", "text"),
        Column("when", "when", "text"),
        Column("effective_from", "from", "text"),
        Column("effective_to", "to", "text"),
        Column("source", "source", "text"),
        Column("checked", "checked", "text"),
        Column("url", "page", "text"),
        Column("id", "row", "text"),
    )
    cells = tuple(
        (
            row.component,
            _rate(row.amount, row.currency),
            row.unit,
            _conditions(row.conditions),
            _when(row.effective_from),
            _when(row.effective_to),
            row.source,
            row.checked.isoformat(),
            row.url or None,
            row.id,
        )
        for row in rows
    )
    return Table("rows", "rows", columns, cells, panels=_PANELS)


def _difference_row(found: Difference) -> tuple[Cell, ...]:
    change = found.change_share
    return (
        found.model,
        found.entry.price_list,
        found.offer.component,
        _conditions(found.offer.conditions),
        None if found.ours is None else _rate(found.ours, found.row.currency if found.row else "USD"),
        _rate(found.offer.amount, "USD"),
        None if change is None else Fraction(change),
        found.entry.id,
    )


def _rounding_notes(data: DataSet) -> tuple[Note, ...]:
    shown = [
        Note("note", f"{each.entry} {each.key}: {each.stated} was read as {each.rounded}")
        for each in data.roundings[:_MANY]
    ]
    more = len(data.roundings) - _MANY
    return (*shown, *([Note("note", f"{more} further prices were rounded")] if more > 0 else []))


def _conditions(conditions: Conditions) -> str | None:
    """Return conditions in words, None where there are none."""
    parts = [f"tier {conditions.service_tier}"] * (conditions.service_tier is not None)
    parts += ["batch"] * conditions.batch
    parts += [f"region {conditions.region}"] * (conditions.region is not None)
    if conditions.above_input_tokens is not None:
        word = "from" if conditions.inclusive else "above"
        parts.append(f"{word} {conditions.above_input_tokens:,} input tokens")
    if conditions.weekdays:
        parts.append("on " + " ".join(_DAYS[day - 1] for day in conditions.weekdays))
    if conditions.windows_utc:
        parts.append(
            "at " + " ".join(f"{_clock(start)}-{_clock(end)}" for start, end in conditions.windows_utc) + " UTC"
        )
    if conditions.holidays:
        parts.append("not on " + " ".join(day.isoformat() for day in conditions.holidays))
    return ", ".join(parts) or None


_PANELS = (
    Panel("prices", ("amount", "unit", "when", "effective_from", "effective_to")),
    Panel("where they are from", ("source", "checked", "url", "id")),
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def _rate(amount: Decimal, currency: str) -> Money:
    return Money(Fraction(amount), currency)


def _when(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def _start(row: PriceRow) -> tuple[datetime, str, str]:
    first = row.effective_from or datetime.min.replace(tzinfo=UTC)
    return first, row.component, str(row.conditions.to_json())


def _home(catalog: Catalog, model: str, price_list: str) -> str:
    return catalog.vendor_list(model) if price_list == "vendor" else price_list


def _dates(catalog: Catalog, at: datetime) -> tuple[Fact, ...]:
    return Fact("at", "prices of", _when(at)), Fact("catalogue", "catalogue of", str(catalog.checked))
