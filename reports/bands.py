"""How far a re-priced cost may be off, because another model writes longer or shorter and counts other tokens.

In: what each model used day by day, re-priced parts. Out: measured ratios, and the cost between their ends. Invariant:
a ratio is measured on this ledger, between two models that both did the same role and class, or there is none and a
reason; nothing here moves a cost.

A ratio is mean tokens per call of the new model / mean tokens per call of the old one. Its 80 % interval comes from
leaving out one UTC day after the other (delete-one jackknife of its logarithm, Miller 1974, Biometrika 61), because
calls of one day resemble each other; with Student's t for the number of days less one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from statistics import NormalDist

from reports.exact import exact_sum, known_sum
from reports.repricing import PricedPart, Repriced
from reports.tokenizers import tokenizer_of
from reports.work import DayUsage

LEAST_DAYS = 5
LEAST_CALLS = 30
"""Days and calls that each model must have in a role and class, below which nothing is measured."""
LEVEL = 0.8
_INPUTS = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
_OUTPUTS = ("output", "reasoning")
_ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Tokens per call of the new model for one of the old: `middle`, and the ends of its 80 % interval."""

    low: Fraction
    middle: Fraction
    high: Fraction


SURE = Ratio(_ONE, _ONE, _ONE)
"""What is not in doubt: a model's own tokens."""


@dataclass(frozen=True, slots=True)
class Band:
    """One change of model in one role and class, and what it may do to the cost.

    Args:
        role, task_class: as in the portions.
        served: the model whose tokens were counted.
        model: the model they are priced as.
        served_calls, model_calls: calls on record of each in that role and class.
        days: UTC days on which either had some.
        input: ratio of input tokens; None: not measured.
        output: ratio of output tokens; None: not measured.
        cost: what is re-priced, in the page's currency; None: unpriced.
        low, high: the cost at the ends of the ratios; None: a ratio is missing.
        reason: why a ratio is missing, or None.
    """

    role: str | None
    task_class: str | None
    served: str | None
    model: str
    served_calls: int
    model_calls: int
    days: int
    input: Ratio | None
    output: Ratio | None
    cost: Fraction | None
    low: Fraction | None
    high: Fraction | None
    reason: str | None


Days = Mapping[date, tuple[int, int, int]]
"""Calls, input and output tokens by UTC day."""


def by_kind(usage: Iterable[DayUsage]) -> Mapping[tuple[str | None, str | None, str], Days]:
    """Return the usage by role, class and model, each by day."""
    found: dict[tuple[str | None, str | None, str], dict[date, tuple[int, int, int]]] = {}
    for each in usage:
        days = found.setdefault((each.role, each.task_class, each.model), {})
        days[each.day] = (each.calls, each.input_tokens, each.output_tokens)
    return found


def bands_of(repriced: Repriced, measured: Mapping[tuple[str | None, str | None, str], Days]) -> tuple[Band, ...]:
    """Return a band for each role, class, served and new model of a configuration, in the order of its parts.

    Args:
        repriced: the work under the configuration.
        measured: of `by_kind`.
    """
    groups: dict[tuple[str | None, str | None, str | None, str], list[PricedPart]] = {}
    for part in repriced.parts:
        groups.setdefault((part.role, part.task_class, part.served, part.model), []).append(part)
    return tuple(_band(key, parts, measured) for key, parts in groups.items())


def cost_band(bands: Sequence[Band]) -> tuple[Fraction | None, Fraction | None]:
    """Return the least and the most that a configuration may cost; None where some change was not measured.

    All ratios are taken to be off in the same direction at once, which makes the band as wide as it can be.
    """
    low, high = Fraction(0), Fraction(0)
    for band in bands:
        if band.low is None or band.high is None:
            return None, None
        low, high = low + band.low, high + band.high
    return low, high


def measured_ratio(old: Sequence[tuple[int, int]], new: Sequence[tuple[int, int]]) -> Ratio | None:
    """Return the ratio of mean tokens per call, with its interval; None where there is too little to measure it on.

    Args:
        old: calls and tokens of the old model, day by day; (0, 0) where it had none.
        new: the same days of the new one.
    """
    for days in (old, new):
        if sum(1 for calls, _ in days if calls) < LEAST_DAYS or sum(calls for calls, _ in days) < LEAST_CALLS:
            return None
    sums = [*(sum(values) for values in zip(*old, strict=True)), *(sum(values) for values in zip(*new, strict=True))]
    whole = _log_ratio(*sums)
    left = [
        _log_ratio(*(total - part for total, part in zip(sums, (*one, *other), strict=True)))
        for one, other in zip(old, new, strict=True)
    ]
    if whole is None or None in left:
        return None
    known = [value for value in left if value is not None]
    mean = math.fsum(known) / len(known)
    error = math.sqrt((len(known) - 1) / len(known) * math.fsum((value - mean) ** 2 for value in known))
    reach = student_t((1 + LEVEL) / 2, len(known) - 1) * error
    return Ratio(*(Fraction(str(round(math.exp(value), 6))) for value in (whole - reach, whole, whole + reach)))


def student_t(share: float, freedom: int) -> float:
    """Return a quantile of Student's t (Abramowitz and Stegun 1964, 26.7.5), within 1 % from 4 degrees of freedom on.

    Args:
        share: the share below it, above 0.5.
        freedom: degrees of freedom, 1 or more.
    """
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _log_ratio(old_calls: int, old_tokens: int, new_calls: int, new_tokens: int) -> float | None:
    if min(old_calls, old_tokens, new_calls, new_tokens) <= 0:
        return None
    return math.log(new_tokens / new_calls) - math.log(old_tokens / old_calls)


def _band(
    key: tuple[str | None, str | None, str | None, str],
    parts: Sequence[PricedPart],
    measured: Mapping[tuple[str | None, str | None, str], Days],
) -> Band:
    role, task_class, served, model = key
    old = {} if served is None else measured.get((role, task_class, served), {})
    new = measured.get((role, task_class, model), {})
    ratios, reason = _ratios(task_class, served, model, old, new)
    return Band(
        role=role,
        task_class=task_class,
        served=served,
        model=model,
        served_calls=sum(calls for calls, *_ in old.values()),
        model_calls=sum(calls for calls, *_ in new.values()),
        days=len({*old, *new}),
        input=ratios[0],
        output=ratios[1],
        cost=known_sum(part.amount for part in parts),
        low=_at_end(parts, ratios, "low"),
        high=_at_end(parts, ratios, "high"),
        reason=reason,
    )


def _ratios(
    task_class: str | None, served: str | None, model: str, old: Days, new: Days
) -> tuple[tuple[Ratio | None, Ratio | None], str | None]:
    """Return the ratios of input and output, and why one is missing."""
    if served == model:
        return (SURE, SURE), None
    same = served is not None and tokenizer_of(served) == tokenizer_of(model)
    if task_class is None:
        return (SURE if same else None, None), "no class on record, and other work may be longer or shorter"
    days = sorted({*old, *new})
    empty = (0, 0, 0)
    found = tuple(
        measured_ratio(
            [(old.get(day, empty)[0], old.get(day, empty)[at]) for day in days],
            [(new.get(day, empty)[0], new.get(day, empty)[at]) for day in days],
        )
        for at in (1, 2)
    )
    ratios = (SURE if same else found[0], found[1])
    if None not in ratios:
        return ratios, None
    return ratios, f"fewer than {LEAST_DAYS} days or {LEAST_CALLS} calls of one of the two in this role and class"


def _at_end(parts: Sequence[PricedPart], ratios: tuple[Ratio | None, Ratio | None], end: str) -> Fraction | None:
    found = [(_ratio_of(part.component, ratios), part.amount) for part in parts]
    if any(ratio is None or amount is None for ratio, amount in found):
        return None
    return exact_sum(amount * getattr(ratio, end) for ratio, amount in found if amount is not None)


def _ratio_of(component: str, ratios: tuple[Ratio | None, Ratio | None]) -> Ratio | None:
    if component in _INPUTS:
        return ratios[0]
    return ratios[1] if component in _OUTPUTS else SURE
