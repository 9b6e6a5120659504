"""Configurations side by side: the same work priced under each, and the change against the first.

In: work (totals given by hand, or a month of the ledger), configurations, a price basis. Out: a `Page`.
Invariant: the first configuration is the baseline, or else what is on record; a total with an unpriced part is a lower
bound and is compared with nothing; effects add up to the saving exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pricing import Catalog, UnknownModel
from reports.baselines import PLAIN_RULES, Baselines, single_baselines
from reports.compare_notes import compare_notes
from reports.compare_tables import (
    bands_table,
    charts_of,
    choices_table,
    frontier_table,
    lines_table,
    savings_table,
    summary_table,
    unfit_table,
)
from reports.contenders import AS_BILLED, Contender, baseline_contenders, contenders, on_record
from reports.page import Fact, Page, Table
from reports.price_facts import basis_facts, priced_facts
from reports.rate_cards import CACHED_BUCKETS
from reports.repricing import Basis
from reports.work import Work
from router.errors import WrongUsage, unknown_name
from router.policy.market import terms_of
from router.presets import ENDPOINT_PRESETS
from router.settings import ByClassSettings, ConfigurationSettings, EndpointSettings, FixedSettings, Settings


@dataclass(frozen=True, slots=True)
class Singles:
    """What the baselines of a month are chosen from: models, and the rules that have the classes' quality floors."""

    models: tuple[str, ...] = ()
    rules: ByClassSettings = PLAIN_RULES


NO_SINGLES = Singles()


def configurations_named(
    names: Iterable[str], settings: Settings, catalog: Catalog
) -> Mapping[str, ConfigurationSettings]:
    """Return the configurations of those names; a model's name stands for "all of that model".

    Args:
        names: names of configurations or models, each with `@ENDPOINT` or without.
        settings: has the configurations, endpoints and aliases.
        catalog: has the models.

    Raises:
        WrongUsage: a name is neither; near misses are listed.
    """
    return {name: _configuration(_parted(name, settings)[0], settings, catalog) for name in dict.fromkeys(names)}


def bases_named(names: Iterable[str], settings: Settings, basis: Basis, at: datetime) -> Mapping[str, Basis]:
    """Return the prices of each configuration: those of the endpoint that stands behind its name's `@`, or the basis.

    Args:
        names: names as for `configurations_named`.
        settings: has the endpoints; presets count too, whether their key is set or not.
        basis: the prices of names without an endpoint.
        at: aware instant whose terms an endpoint is taken to have (a commitment may begin or end).

    Raises:
        WrongUsage: there is no such endpoint; those that exist are listed.
    """
    found: dict[str, Basis] = {}
    for name in names:
        _, endpoint = _parted(name, settings)
        if endpoint is None:
            found[name] = basis
            continue
        bought = _endpoints(settings)[endpoint]
        found[name] = Basis(basis.catalog, bought.price_list, basis.at, terms_of(bought, at), basis.exchange)
    return found


def compare_configurations(
    configurations: Mapping[str, ConfigurationSettings],
    work: Work,
    basis: Basis,
    *,
    bases: Mapping[str, Basis] | None = None,
    singles: Singles = NO_SINGLES,
    against_record: bool = False,
) -> Page:
    """Return the page that sets configurations side by side.

    Args:
        configurations: by name, the baseline first; none only where `against_record`.
        work: what is priced under each. What is on record of it stands first.
        basis: the prices.
        bases: prices of some configurations that are bought elsewhere, by the same names.
        singles: models that are tried as the only one; none by default, and never for totals given by hand.
        against_record: whether the baseline is what is on record, in place of the first configuration.

    Raises:
        WrongUsage: a configuration names a model that nobody knows, or nothing is on record to compare with.
        NoCandidate: a policy finds no model that fits.
        FxError: an amount cannot be converted.
    """
    record = on_record(work)
    if record is None and (against_record or not configurations):
        message = f"configuration: {AS_BILLED!r} is what the ledger has on record, and totals by hand have no record"
        raise WrongUsage(message, hint="compare on the ledger (--month), or leave it out")
    each_basis = {name: (bases or {}).get(name, basis) for name in configurations}
    is_split = record is not None or _is_split(work, list(each_basis.values()))
    them = contenders(configurations, work, each_basis, split=is_split)
    baseline = record if record is not None and (against_record or not them) else them[0]
    tried = Baselines((), None, None)
    if record is not None:
        tried = single_baselines(work.portions, singles.models, basis, singles.rules)
    ordered = (*((record,) if record else ()), *them, *baseline_contenders(tried, work, basis))
    tables = _tables(ordered, baseline, work, tried, basis.exchange.currency, is_split=is_split)
    return Page(
        name="compare",
        title=f"Configurations compared: {work.title}",
        parameters=(*work.parameters, *basis_facts(basis)),
        tables=(*tables, *basis.exchange.tables()),
        notes=(*work.notes, *compare_notes(ordered, tried, each_basis, basis), *basis.exchange.notes()),
        footer=_footer(work, them, basis, baseline.name),
        charts=charts_of(tables, basis.exchange.currency),
    )


def _parted(name: str, settings: Settings) -> tuple[str, str | None]:
    """Return a name and the endpoint behind its last `@`, if it has one."""
    before, mark, endpoint = name.rpartition("@")
    if not mark or name in settings.configurations or name in settings.aliases:
        return name, None
    if endpoint not in _endpoints(settings):
        raise unknown_name("endpoint", endpoint, _endpoints(settings))
    return before, endpoint


def _endpoints(settings: Settings) -> Mapping[str, EndpointSettings]:
    """Return the endpoints that are set, and the presets, which have prices without a key."""
    return {**ENDPOINT_PRESETS, **settings.endpoints}


def _configuration(name: str, settings: Settings, catalog: Catalog) -> ConfigurationSettings:
    if name in settings.configurations:
        return settings.configurations[name]
    try:
        model = catalog.find(settings.aliases.get(name, name))
    except UnknownModel:
        models = {model for price_list in catalog.lists for model in catalog.models(price_list)}
        if name == AS_BILLED:
            message = f"configuration: {AS_BILLED!r} is what the ledger has on record, and cannot be priced again"
            raise WrongUsage(message, hint="router compare and router diff hold it beside others") from None
        known = {AS_BILLED, *settings.configurations, *settings.aliases, *models}
        message = str(unknown_name("configuration", name, known))
        named = ", ".join(sorted(settings.configurations))
        raise WrongUsage(
            message, hint=f"configurations that exist: {named}; a model's name is all of that model"
        ) from None
    return FixedSettings(orchestrator=model, worker=model)


def _is_split(work: Work, bases: Sequence[Basis]) -> bool:
    """Return whether more than the models can make a difference between configurations."""
    is_cached = any(bucket in CACHED_BUCKETS for portion in work.portions for bucket in portion.tokens)
    return len(bases) > 1 and (is_cached or any(basis != bases[0] for basis in bases))


def _tables(
    them: Sequence[Contender], baseline: Contender, work: Work, tried: Baselines, currency: str, *, is_split: bool
) -> tuple[Table, ...]:
    is_recorded = work.recorded is not None
    repriced = [each.repriced for each in them if each.mark is None and each.repriced is not None]
    found: list[Table | None] = [summary_table(them, baseline, currency, recorded=is_recorded)]
    if is_split and len(them) > 1:
        found.append(savings_table(them, baseline, currency))
    if is_recorded:
        chosen = [each for each in them if each.mark is None]
        found += [frontier_table(them, tried, currency), unfit_table(tried)]
        found += [choices_table(chosen, work.latencies, currency), bands_table(chosen)]
    found.append(lines_table(repriced, currency))
    return tuple(table for table in found if table is not None)


def _footer(work: Work, them: Sequence[Contender], basis: Basis, baseline: str) -> tuple[Fact, ...]:
    return (
        *basis_facts(basis),
        Fact("rows_counted", "rows counted", work.rows_counted, "count"),
        Fact("rows_unpriced", "rows unpriced", work.rows_unpriced, "count"),
        Fact("lines_unpriced", "lines unpriced", sum(each.unpriced for each in them), "count"),
        Fact("estimates", "estimates", work.estimates, "count"),
        *priced_facts(basis, baseline, work.time_zone),
    )
