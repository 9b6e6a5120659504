"""How long a plan takes: the longest chain of steps that wait for each other.

In: a graph in walking order, seconds for each step. Out: when steps start, what comes after them, the longest chain.
Invariant: pure; every function walks each edge once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add

from router.assign.checks import walked
from router.assign.problem import StepOptions


@dataclass(frozen=True, slots=True)
class Graph:
    """Who waits for whom, by the steps' places in the problem.

    Args:
        order: the places, each after all it depends on.
        before: what each depends on, no place twice.
    """

    order: tuple[int, ...]
    before: tuple[tuple[int, ...], ...]


def graph_of(steps: tuple[StepOptions, ...]) -> Graph:
    """Return the graph of checked steps."""
    places = {step.step_id: place for place, step in enumerate(steps)}
    before = (tuple(places[need] for need in dict.fromkeys(step.depends_on)) for step in steps)
    return Graph(walked(steps), tuple(before))


def starts(graph: Graph, latency_s: Sequence[float]) -> list[float]:
    """Return when each step can start, seconds after the plan's start."""
    found, ends = [0.0] * len(graph.order), [0.0] * len(graph.order)
    for place in graph.order:
        start = 0.0
        for need in graph.before[place]:
            if ends[need] > start:  # noqa: PLR1730 -- walked by the thousand: twice as fast as max()
                start = ends[need]
        found[place] = start
        ends[place] = start + latency_s[place]
    return found


def rests(graph: Graph, latency_s: Sequence[float]) -> list[float]:
    """Return the longest chain that comes after each step, seconds."""
    found = [0.0] * len(graph.order)
    for place in reversed(graph.order):
        whole = found[place] + latency_s[place]
        for need in graph.before[place]:
            if whole > found[need]:  # noqa: PLR1730 -- as above
                found[need] = whole
    return found


def longest_s(graph: Graph, latency_s: Sequence[float]) -> float:
    """Return how long the plan takes, seconds."""
    ends: list[float] = list(map(add, starts(graph, latency_s), latency_s))
    return max(ends)


def longest_chain(graph: Graph, latency_s: Sequence[float]) -> tuple[float, list[int]]:
    """Return how long the plan takes, seconds, and the steps of one chain that takes as long, last first."""
    ends = list(map(add, starts(graph, latency_s), latency_s))
    length_s = max(ends)
    place = ends.index(length_s)
    chain = [place]
    while graph.before[place]:
        place = max(graph.before[place], key=ends.__getitem__)
        chain.append(place)
    return length_s, chain
