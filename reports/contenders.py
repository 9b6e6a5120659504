"""What stands side by side in a comparison: what is on record, configurations, single models; each with its figures.

In: work, configurations with the prices they are bought at. Out: `Contender`s. Invariant: all of them did the same
calls with the same tokens; a figure that is not known is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from reports.bands import Band, bands_of, by_kind, cost_band
from reports.baselines import Baselines, Single
from reports.expectations import Histograms, Quality, mixed_percentiles_ms, quality_of
from reports.page import Money
from reports.repricing import Basis, Given, Repriced, reprice
from reports.savings import Levels, levels_of, levels_on_record
from reports.work import Work
from router.settings import ConfigurationSettings, FixedSettings

AS_BILLED = "as-billed"
"""The name of what is on record."""
ON_RECORD, BEST, CHEAPEST = "on record", "best single", "cheapest single"


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work.

    Args:
        name: the configuration's name, `as-billed`, or what kind of baseline it is.
        mark: what it is, if it is no configuration.
        orchestrator, worker: models, "by class", or None where it is not one choice.
        cost: settled cost, page's currency; a lower bound where a part has no price; None: unknown.
        levels: what makes the cost; None: not worked out.
        given: what is given to which model.
        bands: what another model's tokens may do to the cost.
        low, high: the cost's band; None: not measured whole.
        p50_ms, p95_ms: latency over all calls; None: not measured whole.
        quality: what published figures say.
        repriced: its lines; None for what is on record.
    """

    name: str
    mark: str | None
    orchestrator: str | None
    worker: str | None
    cost: Money | None
    levels: Levels | None
    given: tuple[Given, ...]
    bands: tuple[Band, ...] = ()
    low: Fraction | None = None
    high: Fraction | None = None
    p50_ms: Fraction | None = None
    p95_ms: Fraction | None = None
    quality: Quality = field(default_factory=Quality)
    repriced: Repriced | None = None

    @property
    def unpriced(self) -> int:
        """Lines without a price."""
        return 0 if self.repriced is None else len(self.repriced.unpriced)

    @property
    def exact_cost(self) -> Fraction | None:
        """The cost where all of it is known, else None."""
        return None if self.cost is None or self.cost.lower_bound else self.cost.value


def on_record(work: Work) -> Contender | None:
    """Return what is on record; None for totals given by hand."""
    if work.recorded is None:
        return None
    calls: dict[tuple[str | None, str | None, str], Fraction | None] = {}
    for portion in work.portions:
        key = (portion.role, portion.task_class, portion.served or "")
        before = calls.get(key, Fraction(0))
        calls[key] = None if before is None or portion.requests is None else before + portion.requests
    given = tuple(Given(role, kind, model, model, requests) for (role, kind, model), requests in calls.items())
    settled = work.recorded.settled
    exact = None if settled is None or settled.lower_bound else settled.value
    found = Contender(AS_BILLED, ON_RECORD, None, None, settled, levels_on_record(work.recorded), given)
    return replace(_expected(found, work.latencies), low=exact, high=exact)


def contenders(
    configurations: Mapping[str, ConfigurationSettings], work: Work, bases: Mapping[str, Basis], *, split: bool
) -> tuple[Contender, ...]:
    """Return the configurations in their order.

    Args:
        configurations: rules by name.
        work: what is priced under each.
        bases: the prices of each, by the same names.
        split: whether savings will be split, so that list costs are needed too.

    Raises:
        WrongUsage: a configuration names a model that nobody knows.
        NoCandidate: a policy finds no model that fits.
        FxError: an amount cannot be converted.
    """
    measured = by_kind(work.usage)
    found = []
    for name, rule in configurations.items():
        repriced = reprice(name, rule, work.portions, bases[name])
        bands = () if work.recorded is None else bands_of(repriced, measured)
        low, high = cost_band(bands) if bands else (None, None)
        contender = Contender(
            name=name,
            mark=None,
            orchestrator=rule.orchestrator if isinstance(rule, FixedSettings) else "by class",
            worker=rule.worker if isinstance(rule, FixedSettings) else "by class",
            cost=repriced.total,
            levels=levels_of(repriced, bases[name]) if split else None,
            given=repriced.given,
            bands=bands,
            low=low,
            high=high,
            repriced=repriced,
        )
        found.append(_expected(contender, work.latencies))
    return tuple(found)


def baseline_contenders(found: Baselines, work: Work, basis: Basis) -> tuple[Contender, ...]:
    """Return the baselines that there are.

    Args:
        found: the single models.
        work: the work.
        basis: the prices they were priced with.

    Raises:
        FxError: an amount cannot be converted.
    """
    pairs = ((BEST, found.best), (CHEAPEST, found.cheapest))
    return tuple(_of_single(mark, single, work, basis) for mark, single in pairs if single is not None)


def missing_quality(them: Iterable[Contender]) -> Sequence[tuple[str, str]]:
    """Return the pairs of model and class that lack a published figure, sorted."""
    return sorted({pair for each in them for pair in each.quality.missing})


def _of_single(mark: str, single: Single, work: Work, basis: Basis) -> Contender:
    name, model = mark.replace(" ", "-"), single.model
    repriced = reprice(model, FixedSettings(orchestrator=model, worker=model), work.portions, basis)
    bands = bands_of(repriced, by_kind(work.usage))
    low, high = cost_band(bands)
    levels = levels_of(repriced, basis)
    found = Contender(name, mark, model, model, repriced.total, levels, repriced.given, bands, low, high)
    return _expected(replace(found, repriced=repriced), work.latencies)


def _expected(contender: Contender, latencies: Histograms) -> Contender:
    p50, p95 = mixed_percentiles_ms(contender.given, latencies, (Fraction(1, 2), Fraction(19, 20)))
    return replace(contender, p50_ms=p50, p95_ms=p95, quality=quality_of(contender.given))
