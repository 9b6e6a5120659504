"""The tables and charts of a comparison.

In: contenders, single models. Out: `Table`s and `Chart`s. Invariant: nothing is priced or measured here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from reports.bands import SURE, Band, Ratio
from reports.baselines import Baselines, Single
from reports.contenders import ON_RECORD, Contender
from reports.expectations import Histograms, percentile_ms, prior_bound
from reports.frontier import Point, beaten_by
from reports.page import Cell, Chart, Column, Money, Panel, Table, change_share, money_of
from reports.repricing import PricedLine, Repriced
from reports.savings import saving
from router import quality

_PANELS = (
    Panel("Configurations", ("orchestrator", "worker", "cost", "change", "change_share", "lines_unpriced", "mark")),
    Panel(
        "Cost if answers are longer or shorter, and what to expect",
        ("cost_low", "cost_high", "p50_ms", "p95_ms", "quality_share", "quality_bound_share", "benchmark_share"),
    ),
)


def summary_table(them: Sequence[Contender], baseline: Contender, currency: str, *, recorded: bool) -> Table:
    """Return one row per contender: cost, change against the baseline, band, latency, quality.

    Args:
        them: the contenders in the order shown.
        baseline: the one that changes are against.
        currency: ISO 4217 code of the page.
        recorded: whether the work is the ledger's; by hand there is no latency or quality to show.
    """
    by_hand = not recorded
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("orchestrator", "Orchestrator", "text"),
        Column("worker", "Worker", "text"),
        Column("cost", f"Cost, {currency}", "money"),
        Column("change", f"Change, {currency}", "money"),
        Column("change_share", "Change", "change"),
        Column("lines_unpriced", "Unpriced", "count", optional=True),
        Column("mark", "Mark", "text", optional=True),
        Column("cost_low", f"At least, {currency}", "money", optional=by_hand),
        Column("cost_high", f"At most, {currency}", "money", optional=by_hand),
        Column("p50_ms", "p50, ms", "duration_ms", optional=by_hand),
        Column("p95_ms", "p95, ms", "duration_ms", optional=by_hand),
        Column("quality_share", "Quality", "share", optional=by_hand),
        Column("quality_bound_share", "Published", "share", optional=by_hand),
        Column("benchmark_share", "Of calls", "share", optional=by_hand),
    )
    rows = tuple(_summary_row(each, baseline, currency) for each in them)
    return Table("configurations", "Configurations", columns, rows, panels=_PANELS if recorded else ())


def savings_table(them: Iterable[Contender], baseline: Contender, currency: str) -> Table:
    """Return each contender's saving against the baseline and where it comes from."""
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("saving", f"Saved, {currency}", "money"),
        Column("model", f"By model, {currency}", "money"),
        Column("settlement", f"By settlement, {currency}", "money"),
        Column("cache", f"By cache, {currency}", "money"),
    )
    rows = tuple(_saving_row(each, baseline, currency) for each in them if each is not baseline)
    return Table("savings", f"Saved against {baseline.name}, and by what", columns, rows)


def choices_table(them: Iterable[Contender], latencies: Histograms, currency: str) -> Table:
    """Return what each configuration gives to which model, with that model's latency and published quality there."""
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("class", "Class", "text"),
        Column("model", "Model", "text"),
        Column("calls", "Calls", "count"),
        Column("cost", f"Cost, {currency}", "money"),
        Column("p50_ms", "p50, ms", "duration_ms"),
        Column("p95_ms", "p95, ms", "duration_ms"),
        Column("quality_bound_share", "Published", "share", optional=True),
        Column("benchmark", "Benchmark", "text", optional=True),
    )
    rows = tuple(row for each in them if each.repriced for row in _choice_rows(each, each.repriced, latencies))
    shown = Panel("By class", ("class", "model", "calls", "cost", "p50_ms", "p95_ms", "quality_bound_share"))
    return Table("choices", "By class", columns, rows, panels=(shown,))


def bands_table(them: Iterable[Contender]) -> Table | None:
    """Return the changes of model whose token ratios were measured, each once; None where none was."""
    columns = (
        Column("models", "Models", "text"),
        Column("role", "Role", "text"),
        Column("class", "Class", "text"),
        *_ratio_columns("output", "Output"),
        *_ratio_columns("input", "Input"),
        Column("served_calls", "Calls, old", "count"),
        Column("model_calls", "Calls, new", "count"),
        Column("days", "Days", "count"),
    )
    measured = [band for each in them for band in each.bands if band.output not in (None, SURE)]
    rows = tuple(sorted({_band_row(band): None for band in measured}, key=lambda row: [str(cell) for cell in row[:3]]))
    where = ("role", "class")
    panels = (
        Panel("Output tokens per call, new model against old", (*where, "output_low", "output", "output_high")),
        Panel("Input tokens per call, new model against old", (*where, "input_low", "input", "input_high")),
        Panel("What that was measured on", (*where, "served_calls", "model_calls", "days")),
    )
    title = "Tokens per call, new model against old, with their 80 % interval"
    return Table("bands", title, columns, rows, panels=panels) if rows else None


def frontier_table(them: Iterable[Contender], singles: Baselines, currency: str) -> Table | None:
    """Return cost and published quality of all that could be done; None where no quality is known."""
    points = [_point(each, singles) for each in them if each.mark in (None, ON_RECORD)]
    there = {point.name for point in points}
    points += [_single_point(single, singles) for single in singles.singles if single.model not in there]
    if not any(point.quality is not None and point.cost is not None for point in points):
        return None
    columns = (
        Column("choice", "Choice", "text"),
        Column("kind", "Kind", "text"),
        Column("cost", f"Cost, {currency}", "money"),
        Column("quality_bound_share", "Published", "share"),
        Column("on_frontier", "On the frontier", "text"),
        Column("beaten_by", "Beaten by", "text"),
    )
    rows = [_point_row(point, rival, currency) for point, rival in zip(points, beaten_by(points), strict=True)]
    return Table("frontier", "Cost and published quality", columns, tuple(sorted(rows, key=_by_cost)))


def unfit_table(singles: Baselines) -> Table | None:
    """Return the single models that are no baseline, and why; None where there are none."""
    columns = (Column("model", "Model", "text"), Column("reason", "Why it could not do all of it", "text"))
    rows = tuple((single.model, single.lost) for single in singles.singles if single.lost is not None)
    return Table("unfit", "Single models that are no baseline", columns, rows) if rows else None


def lines_table(repriced: Sequence[Repriced], currency: str) -> Table:
    """Return every line of every configuration."""
    columns = (
        Column("configuration", "Configuration", "text"),
        Column("role", "Role", "text"),
        Column("model", "Model", "text"),
        Column("component", "Component", "text"),
        Column("quantity_tokens", "Tokens", "tokens"),
        Column("rate_per_mtok", "Rate per Mtok", "rate"),
        Column("cost", f"Cost, {currency}", "money"),
    )
    return Table("lines", "Lines", columns, tuple(_line(each, line) for each in repriced for line in each.lines))


def charts_of(tables: Iterable[Table], currency: str) -> tuple[Chart, ...]:
    """Return the pictures of the tables that are there."""
    names = {table.name for table in tables}
    costs = Chart(
        "costs",
        f"Cost of the same calls, {currency}",
        "bars",
        "configurations",
        "configuration",
        ("cost",),
        description="One bar for what each configuration costs; the shorter, the cheaper.",
    )
    frontier = Chart(
        "frontier",
        f"Cost, {currency}, and published quality, share of problems solved at least",
        "points",
        "frontier",
        "cost",
        ("quality_bound_share",),
        group="on_frontier",
        label="choice",
        description="Each choice by its cost and its published quality; none beats one on the frontier in both.",
    )
    return (costs, *((frontier,) if "frontier" in names else ()))


def change_of(total: Money | None, base: Money | None) -> tuple[Cell, Cell]:
    """Return amount and share of a change; unknown where either side has an unpriced part."""
    if total is None or base is None or total.lower_bound or base.lower_bound:
        return None, None
    change = total.value - base.value
    return Money(change, total.currency), change_share(change, base.value)


def _summary_row(each: Contender, baseline: Contender, currency: str) -> tuple[Cell, ...]:
    return (
        each.name,
        each.orchestrator,
        each.worker,
        each.cost,
        *change_of(each.cost, baseline.cost),
        each.unpriced,
        each.mark,
        money_of(each.low, currency),
        money_of(each.high, currency),
        each.p50_ms,
        each.p95_ms,
        None,
        each.quality.bound_share,
        each.quality.covered_share,
    )


def _saving_row(each: Contender, baseline: Contender, currency: str) -> tuple[Cell, ...]:
    found = None if each.levels is None or baseline.levels is None else saving(baseline.levels, each.levels)
    if found is None:
        change, _ = change_of(baseline.cost, each.cost)
        return each.name, change, None, None, None
    amounts = (found.total, found.model, found.settlement, found.cache)
    return (each.name, *(Money(amount, currency) for amount in amounts))


def _choice_rows(each: Contender, repriced: Repriced, latencies: Histograms) -> Iterable[tuple[Cell, ...]]:
    costs: dict[tuple[str | None, str], Fraction | None] = {}
    calls = dict(costs)
    for part in repriced.parts:
        key = (part.task_class, part.model)
        costs[key] = _plus(costs.get(key, Fraction(0)), part.amount)
    for given in each.given:
        key = (given.task_class, given.model)
        calls[key] = _plus(calls.get(key, Fraction(0)), given.requests)
    for task_class, model in sorted(calls, key=lambda names: (names[0] or "", names[1])):
        counts = latencies.get((task_class, model))
        found = None if task_class is None else quality.prior(model, task_class)
        yield (
            each.name,
            task_class,
            model,
            calls[task_class, model],
            money_of(costs.get((task_class, model), Fraction(0)), repriced.currency),
            percentile_ms(counts, 0.5),
            percentile_ms(counts, 0.95),
            prior_bound(model, task_class),
            None if found is None else found.benchmark,
        )


def _plus(before: Fraction | None, more: Fraction | None) -> Fraction | None:
    return None if before is None or more is None else before + more


def _ratio_columns(key: str, title: str) -> tuple[Column, ...]:
    return (
        Column(f"{key}_low", f"{title}, least", "change"),
        Column(key, title, "change"),
        Column(f"{key}_high", f"{title}, most", "change"),
    )


def _band_row(band: Band) -> tuple[Cell, ...]:
    return (
        f"{band.served or '–'} → {band.model}",
        band.role,
        band.task_class,
        *_ratio_cells(band.output),
        *_ratio_cells(band.input),
        band.served_calls,
        band.model_calls,
        band.days,
    )


def _ratio_cells(ratio: Ratio | None) -> tuple[Cell, Cell, Cell]:
    if ratio is None:
        return None, None, None
    return ratio.low - 1, ratio.middle - 1, ratio.high - 1


def _point(each: Contender, singles: Baselines) -> Point:
    single = next((found for found in singles.singles if found.model == each.name), None)
    marks = "" if single is None else _marks(single, singles)
    kind = each.mark or ("configuration" + (f", {marks}" if marks else ""))
    return Point(each.name, kind, each.exact_cost, each.quality.bound_share)


def _single_point(single: Single, singles: Baselines) -> Point:
    kind = _marks(single, singles) or "single model"
    return Point(single.model, kind, single.repriced.exact_total, single.quality.bound_share)


def _marks(single: Single, singles: Baselines) -> str:
    marks = [name for name, found in (("best", singles.best), ("cheapest", singles.cheapest)) if found is single]
    return f"{' and '.join(marks)} single" if marks else ""


def _point_row(point: Point, rival: str | None, currency: str) -> tuple[Cell, ...]:
    is_placed = point.cost is not None and point.quality is not None
    on_frontier = None if not is_placed else "no" if rival else "yes"
    return point.name, point.kind, money_of(point.cost, currency), point.quality, on_frontier, rival


def _by_cost(row: tuple[Cell, ...]) -> tuple[bool, Fraction, str]:
    cost = row[2]
    return cost is None, cost.value if isinstance(cost, Money) else Fraction(0), str(row[0])


def _line(repriced: Repriced, line: PricedLine) -> tuple[Cell, ...]:
    component = "web_search, calls at a rate per 1k" if line.component == "web_search" else line.component
    amount = money_of(line.amount, repriced.currency)
    return repriced.name, line.role, line.model, component, line.quantity, line.rate, amount
