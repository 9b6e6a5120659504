"""The door to HiGHS: what the solver says of a table.

In: a `Table`, an objective, a choice to begin with, a time limit. Out: what the solver found, or None where it cannot
be asked (it is not installed, or it failed). Invariant: each solve has an instance of its own, one thread and a fixed
seed; it prints nothing, and nothing it says is taken for true before `standing` has worked it out anew.

Q. Huangfu and J. A. J. Hall, "Parallelizing the dual revised simplex method", Mathematical Programming Computation 10
(2018); the solver is MIT-licensed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from router.assign.paths import starts
from router.assign.program import FEASIBILITY, Program, program_of
from router.assign.solution import Objective
from router.assign.standing import Standing
from router.assign.table import Table

if TYPE_CHECKING:
    import highspy

_SEED = 0


@dataclass(frozen=True, slots=True)
class Solved:
    """What the solver said.

    Args:
        columns: the column of each step in the table; None where it found none.
        bound: no choice that holds the limits costs less (USD, the steps alone) or is better (0 to 1); None: not known.
        is_impossible: whether it has proven that no choice holds the limits.
    """

    columns: tuple[int, ...] | None
    bound: float | None
    is_impossible: bool


def solve_exactly(
    table: Table,
    objective: Objective,
    *,
    begin: Standing | None,
    forbidden: Sequence[tuple[int, ...]],
    time_limit_s: float,
    gap_share: float,
) -> Solved | None:
    """Return what HiGHS finds; None where it cannot be asked.

    Args:
        table: what there is to choose from.
        objective: "cost" or "quality".
        begin: a choice of the table's own options that holds the limits, to begin with; or None.
        forbidden: choices, by column, that break a limit by rounding, and must not come again.
        time_limit_s: seconds; what the solver does between two looks at its clock comes on top.
        gap_share: the gap at which it may stop, 0 to 1.
    """
    try:
        import highspy
    except ImportError:
        return None
    program = program_of(table, objective, forbidden)
    solver = _quiet_solver(time_limit_s, gap_share)
    if solver.passModel(_linear(program)) == highspy.HighsStatus.kError:
        return None
    if begin is not None:
        solver.setSolution(_beginning(table, program, begin))
    if solver.run() == highspy.HighsStatus.kError:
        return None
    return _said(solver, program)


def _quiet_solver(time_limit_s: float, gap_share: float) -> highspy.Highs:
    import highspy

    class Quiet(highspy.Highs):
        """`Highs.__init__` sets callbacks up, which prints a banner before the log can be turned off."""

        def __init__(self) -> None:
            super(highspy.Highs, self).__init__()

    solver = Quiet()
    for name, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", _SEED),
        ("time_limit", time_limit_s),
        ("mip_rel_gap", gap_share),
        ("mip_abs_gap", 0.0),
        ("mip_feasibility_tolerance", FEASIBILITY),
        ("primal_feasibility_tolerance", FEASIBILITY),
    ):
        solver.setOptionValue(name, value)
    return solver


def _linear(program: Program) -> highspy.HighsLp:
    """Return the program in the solver's form."""
    import highspy

    found, rows = highspy.HighsLp(), program.rows
    found.num_col_, found.num_row_ = len(program.price), len(rows.least)
    found.col_cost_, found.col_lower_, found.col_upper_ = program.price, program.least, program.most
    found.row_lower_, found.row_upper_ = np.array(rows.least), np.array(rows.most)
    found.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    found.a_matrix_.start_ = np.array(rows.begins, dtype=np.int32)
    found.a_matrix_.index_ = np.concatenate(rows.index)
    found.a_matrix_.value_ = np.concatenate(rows.value)
    whole, any_number = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
    found.integrality_ = [whole] * sum(program.count) + [any_number] * len(program.ends)
    return found


def _beginning(table: Table, program: Program, begin: Standing) -> highspy.HighsSolution:
    """Return a choice as a point of the program: its options, and the earliest end of each tight step."""
    import highspy

    point = np.zeros(len(program.price))
    columns = [keep.index(pick) for keep, pick in zip(table.kept, begin.picks, strict=True)]
    for first, column in zip(program.first, columns, strict=True):
        point[first + column] = 1.0
    latency = [float(table.latency[place, column]) for place, column in enumerate(columns)]
    for place, start in enumerate(starts(table.graph, latency)):
        if place in program.ends:
            end = program.ends[place]
            point[end] = max(program.least[end], (start + latency[place]) / program.scale_s)
    solution = highspy.HighsSolution()
    solution.col_value = point.tolist()
    return solution


def _said(solver: highspy.Highs, program: Program) -> Solved:
    """Return what the solver has found and proven."""
    import highspy

    status, info = solver.getModelStatus(), solver.getInfo()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Solved(None, None, is_impossible=True)
    bound = info.mip_dual_bound * program.scale
    columns = None
    if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        point = np.asarray(solver.getSolution().col_value)
        pairs = zip(program.first, program.count, strict=True)
        columns = tuple(int(np.argmax(point[first : first + count])) for first, count in pairs)
    return Solved(columns, bound if np.isfinite(bound) else None, is_impossible=False)
