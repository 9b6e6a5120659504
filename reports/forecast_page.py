"""The page of `router forecast check`: predicted against actual, before and after what the record teaches.

In: a ledger's readers, a period. Out: a `Page`. Invariant: nothing is compared that was not counted by the provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.forecast_check import CallCheck, Check, RunCheck, check_calls, check_runs
from reports.page import Cell, Column, Fact, Note, Page, Panel, Table
from reports.period import Period
from router.errors import RouterError
from router.experience import Experience
from router.ledger import Ledger
from router.ledger.forecast_rows import MOST_ATTEMPTS

_MEASURES = ("input", "output", "cost")
MOST_CHANGES = 5
LEAST_CHANGE_MILLI = 50


def forecast_page(ledger: Ledger, period: Period) -> Page:
    """Return how good the forecasts of a period were, and how good the record of its earlier half would make them.

    Args:
        ledger: open.
        period: the days that are looked at.

    Raises:
        RouterError: nothing of the period has a forecast on record.
        LedgerError: the ledger cannot be read.
    """
    attempts, runs = ledger.run_reader.forecasts(period.start_us, period.end_us)
    if len(attempts) < 2:
        message = f"forecast check: the ledger has no forecasts of answered calls in {period.name} to be checked"
        raise RouterError(message, hint="every call that router run makes has one; imported records have none")
    prices = ledger.reader.price_sets(each.price_set_id for each in attempts if each.price_set_id is not None)
    calls, experience = check_calls(attempts, prices)
    of_runs = check_runs(runs)
    return Page(
        name="forecast_check",
        title=f"Forecasts against what came, {period.name}",
        parameters=(Fact("period", "period", period.name), Fact("time_zone", "time zone", period.zone.key)),
        tables=(_calls_table(calls), *((_runs_table(of_runs),) if of_runs else ())),
        notes=tuple(_notes(experience, of_runs, is_cut=len(attempts) == MOST_ATTEMPTS)),
        footer=(
            Fact("rows_learnt", "calls learnt from", len(attempts) // 2, "count"),
            Fact("rows_counted", "calls checked", len(attempts) - len(attempts) // 2, "count"),
            Fact("runs", "runs checked", len(runs) - len(runs) // 2, "count"),
            Fact("rows_unpriced", "calls without a cost", sum(each.cost is None for each in attempts), "count"),
            Fact("baseline", "baseline", "forecasts as they were made"),
        ),
    )


def _calls_table(calls: Sequence[CallCheck]) -> Table:
    columns = [Column("kind", "Model, class", "text"), Column("calls", "Calls", "count")]
    for moment, heading in (("made", "As made"), ("learnt", "By record")):
        for measure in (*_MEASURES, *(("latency",) if moment == "learnt" else ())):
            columns.append(Column(f"{moment}_{measure}_bias", heading, "change"))
            columns.append(Column(f"{moment}_{measure}_mape", "±", "share"))
        columns.append(Column(f"{moment}_held_share", "80 % held", "share"))
    title = "Predicted over actual as forecasts were made and by the record before, mean absolute error (±)"
    return Table("calls", title, tuple(columns), tuple(map(_call_row, calls)), panels=_PANELS)


def _keys(measure: str, *moments: str, held: bool = False) -> tuple[str, ...]:
    """Return the keys of one measure's columns."""
    kinds = (f"{measure}_bias", f"{measure}_mape", *(("held_share",) if held else ()))
    return tuple(f"{moment}_{kind}" for moment in moments for kind in kinds)


_PANELS = (
    Panel("Input tokens", ("calls", *_keys("input", "made", "learnt"))),
    Panel("Output tokens", _keys("output", "made", "learnt", held=True)),
    Panel("Cost", _keys("cost", "made", "learnt")),
    Panel("Latency", _keys("latency", "learnt")),
)


def _call_row(each: CallCheck) -> tuple[Cell, ...]:
    made, learnt = _cells(each.made), _cells(each.learnt, with_latency=True)
    return (f"{each.model}, {each.task_class or '–'}", each.calls, *made, *learnt)


def _cells(check: Check, *, with_latency: bool = False) -> tuple[Cell, ...]:
    measures = (check.input, check.output, check.cost, *((check.latency,) if with_latency else ()))
    return (*(cell for each in measures for cell in (each.bias, each.mape)), check.held)


def _runs_table(runs: Sequence[RunCheck]) -> Table:
    columns = (
        Column("kind", "Runs of", "text"),
        Column("runs", "Runs", "count"),
        Column("cost_bias", "Cost", "change"),
        Column("cost_mape", "±", "share"),
        Column("held_share", "80 % held", "share"),
        Column("moved_held_share", "Ends moved", "share"),
    )
    rows = tuple((each.kind, each.runs, each.cost.bias, each.cost.mape, each.held, each.held_moved) for each in runs)
    return Table(
        "runs", "Cost of whole runs, predicted over actual, and share of 80 % intervals that held", columns, rows
    )


def _notes(experience: Experience, runs: Sequence[RunCheck], *, is_cut: bool) -> Iterator[Note]:
    yield Note("note", "the earlier half is learnt from, the later half is checked; both tables are of the later half")
    if is_cut:
        yield Note("note", "only the newest {count} calls are looked at", {"count": (MOST_ATTEMPTS, "count")})
    found = sorted(experience.inputs.items(), key=lambda each: -abs(each[1].expected_milli - 1000))
    for (model, script), ratio in found[:MOST_CHANGES]:
        if abs(ratio.expected_milli - 1000) >= LEAST_CHANGE_MILLI:
            factor = f"{ratio.expected_milli / 1000:.2f}"
            yield Note("note", f"changed: input of {model} in {script} counts {factor} times its estimate")
    for each in runs:
        if each.widths.runs:
            ends = f"{each.widths.low_milli / 1000:.2f} and {each.widths.high_milli / 1000:.2f}"
            yield Note("note", f"changed: ends of intervals of {each.kind} are moved to {ends} times their distance")
