"""Configurations side by side: the same work priced under each, and the change against the first.

In: work (totals given by hand, or a month of the ledger), configurations, a price basis. Out: a `Page`.
Invariant: the first configuration is the baseline; a total with an unpriced part is a lower bound and is compared with
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pricing import Catalog, UnknownModel
from reports.page import Cell, Column, Fact, Kind, Money, Note, Page, Table
from reports.repricing import Basis, PricedLine, Repriced, reprice
from reports.workload import Portion
from router.errors import WrongUsage, unknown_name
from router.settings import ConfigurationSettings, FixedSettings, Settings


@dataclass(frozen=True, slots=True)
class Work:
    """What is compared.

    Args:
        title: what it is, for the page's heading.
        portions: the work.
        parameters: what was asked for.
        notes: what must be said about it.
        rows_counted: rows of the ledger that are in it; 0 for totals given by hand.
        rows_unpriced: rows of the ledger that are not in it, because their usage is not known.
        estimates: rows whose token counts are estimated.
        time_zone: IANA name.
    """

    title: str
    portions: tuple[Portion, ...]
    parameters: tuple[Fact, ...]
    notes: tuple[Note, ...]
    rows_counted: int
    rows_unpriced: int
    estimates: int
    time_zone: str


def configurations_named(
    names: Iterable[str], settings: Settings, catalog: Catalog
) -> Mapping[str, ConfigurationSettings]:
    """Return the configurations of those names; a model's name stands for "all of that model".

    Args:
        names: names of configurations or models.
        settings: has the configurations and aliases.
        catalog: has the models.

    Raises:
        WrongUsage: a name is neither; near misses are listed.
    """
    return {name: _configuration(name, settings, catalog) for name in dict.fromkeys(names)}


def compare_configurations(configurations: Mapping[str, ConfigurationSettings], work: Work, basis: Basis) -> Page:
    """Return the page that sets configurations side by side.

    Args:
        configurations: by name, the baseline first; one or more.
        work: what is priced under each.
        basis: the prices.

    Raises:
        WrongUsage: a configuration names a model that nobody knows.
        NoCandidate: a policy finds no model that fits.
        FxError: an amount cannot be converted.
    """
    repriced = [reprice(name, rule, work.portions, basis) for name, rule in configurations.items()]
    baseline = repriced[0]
    summary = _summary(repriced, configurations, basis.exchange.currency)
    notes = (*work.notes, *_retired(repriced), *_unpriced(repriced, basis), *basis.exchange.notes())
    return Page(
        name="compare",
        title=f"Configurations compared: {work.title}",
        parameters=(*work.parameters, *_basis_facts(basis)),
        tables=(summary, _lines(repriced, basis.exchange.currency), *basis.exchange.tables()),
        notes=notes,
        footer=_footer(work, repriced, basis, baseline.name),
    )


def _configuration(name: str, settings: Settings, catalog: Catalog) -> ConfigurationSettings:
    if name in settings.configurations:
        return settings.configurations[name]
    try:
        model = catalog.find(settings.aliases.get(name, name))
    except UnknownModel:
        models = {model for price_list in catalog.lists for model in catalog.models(price_list)}
        known = {*settings.configurations, *settings.aliases, *models}
        message = str(unknown_name("configuration", name, known))
        named = ", ".join(sorted(settings.configurations))
        raise WrongUsage(
            message, hint=f"configurations that exist: {named}; a model's name is all of that model"
        ) from None
    return FixedSettings(orchestrator=model, worker=model)


def _summary(repriced: Sequence[Repriced], configurations: Mapping[str, ConfigurationSettings], currency: str) -> Table:
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("orchestrator", "Orchestrator", "text"),
        Column("worker", "Worker", "text"),
        Column("cost", f"Cost, {currency}", "money"),
        Column("change", f"Change, {currency}", "money"),
        Column("change_share", "Change", "change"),
        Column("lines_unpriced", "Unpriced", "count", optional=True),
    )
    base = repriced[0].total
    rows = tuple(
        (each.name, *_models(configurations[each.name]), each.total, *_change(each.total, base), len(each.unpriced))
        for each in repriced
    )
    return Table("configurations", "Configurations", columns, rows)


def _models(configuration: ConfigurationSettings) -> tuple[str, str]:
    if isinstance(configuration, FixedSettings):
        return configuration.orchestrator, configuration.worker
    return "by class", "by class"


def _change(total: Money | None, base: Money | None) -> tuple[Cell, Cell]:
    """Return amount and share of the change; unknown where either side has an unpriced part."""
    if total is None or base is None or total.lower_bound or base.lower_bound:
        return None, None
    change = total.value - base.value
    share = change / base.value if base.value else (Fraction(0) if change == 0 else None)
    return Money(change, total.currency), share


def _lines(repriced: Sequence[Repriced], currency: str) -> Table:
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("role", "Role", "text"),
        Column("model", "Model", "text"),
        Column("component", "Component", "text"),
        Column("quantity_tokens", "Tokens", "tokens"),
        Column("rate_per_mtok", "Rate per Mtok", "rate"),
        Column("cost", f"Cost, {currency}", "money"),
    )
    rows = tuple(_line(each, line) for each in repriced for line in each.lines)
    return Table("lines", "Lines", columns, rows)


def _line(repriced: Repriced, line: PricedLine) -> tuple[Cell, ...]:
    amount = None if line.amount is None else Money(line.amount, repriced.currency)
    component = "web_search, calls at a rate per 1k" if line.component == "web_search" else line.component
    return repriced.name, line.role, line.model, component, line.quantity, line.rate, amount


def _retired(repriced: Iterable[Repriced]) -> tuple[Note, ...]:
    models = {model: at for each in repriced for model, at in each.retired.items()}
    return tuple(
        Note(
            "warning",
            "{model} was retired on {day} and cannot be bought any more; it is priced at its last list",
            {"model": (model, "text"), "day": (f"{at:%Y-%m-%d}", "text")},
        )
        for model, at in sorted(models.items())
    )


def _unpriced(repriced: Iterable[Repriced], basis: Basis) -> tuple[Note, ...]:
    """Return a warning per component that the list has no price for, naming the models."""
    lines = [line for each in repriced for line in each.unpriced]
    text = (
        "price list {list} has no {component} price of {models}; a total with such a part is a lower bound (≥) or "
        "unknown (–); unpriced lines: {count}"
    )
    notes = []
    for component in dict.fromkeys(line.component for line in lines):
        models = [line.model for line in lines if line.component == component]
        values: dict[str, tuple[Cell, Kind]] = {
            "list": (basis.price_list, "text"),
            "component": (component, "text"),
            "models": (", ".join(sorted(set(models))), "text"),
            "count": (len(models), "count"),
        }
        notes.append(Note("warning", text, values))
    return tuple(notes)


def _basis_facts(basis: Basis) -> tuple[Fact, ...]:
    terms = basis.terms
    settlement = "none"
    if terms.settlement_currency is not None:
        settlement = f"{terms.settlement_rate} {terms.settlement_currency} for one unit of list price"
    return (
        Fact("price_list", "price list", basis.price_list),
        Fact("prices_at", "prices at", f"{basis.at:%Y-%m-%d}" if basis.at else "each call's own day"),
        Fact("settlement", "settlement", settlement),
        Fact("currency", "currency", basis.exchange.currency),
    )


def _footer(work: Work, repriced: Sequence[Repriced], basis: Basis, baseline: str) -> tuple[Fact, ...]:
    return (
        *_basis_facts(basis),
        Fact("rows_counted", "rows counted", work.rows_counted, "count"),
        Fact("rows_unpriced", "rows unpriced", work.rows_unpriced, "count"),
        Fact("lines_unpriced", "lines unpriced", sum(len(each.unpriced) for each in repriced), "count"),
        Fact("estimates", "estimates", work.estimates, "count"),
        Fact("catalogue_date", "catalogue of", basis.catalog.checked.isoformat()),
        Fact("baseline", "baseline", baseline),
        Fact("time_zone", "time zone", work.time_zone),
        basis.exchange.fact(),
    )
