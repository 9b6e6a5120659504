"""How good forecasts were: predicted against actual, as they were made, and as the record before them would have it.

In: attempts and runs with their forecasts, price sets. Out: `CallCheck`s and `RunCheck`s. Invariant: what the record
says is learnt from the earlier half and held against the later half alone; both columns are of that half.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from pricing import PriceSet
from pricing.plain_cost import PlainTariff, plain_tariff
from router.experience import AS_FORECAST, Experience, Widths
from router.forecast import forecast_output
from router.learning import learn
from router.ledger.forecast_rows import ForecastAttempt, ForecastRun

_DIGITS: Final = 10**6


@dataclass(frozen=True, slots=True)
class Errors:
    """How far some predictions were off; None where there is nothing to compare.

    Args:
        bias: sum of the predictions over that of what came, minus one.
        mape: mean of |predicted − actual| / actual.
    """

    bias: Fraction | None
    mape: Fraction | None


@dataclass(frozen=True, slots=True)
class Check:
    """Predictions of one kind against what came.

    Args:
        input: of input tokens.
        output: of output tokens.
        cost: of the list cost.
        latency: of the latency; forecasts as they were made have none.
        held: share of the 80 % intervals of output tokens that held, or None.
    """

    input: Errors
    output: Errors
    cost: Errors
    latency: Errors
    held: Fraction | None


@dataclass(frozen=True, slots=True)
class CallCheck:
    """One model at one class: calls of the later half, as forecast, and by the record of the earlier half."""

    model: str
    task_class: str
    calls: int
    made: Check
    learnt: Check


@dataclass(frozen=True, slots=True)
class RunCheck:
    """Runs of the later half: their cost as forecast, and the share of 80 % intervals that held, before and after.

    Args:
        kind: "one call", "several calls" or "all".
        runs: how many.
        cost: of the expected cost.
        held: share of the intervals that held as they were made.
        held_moved: the same with their ends moved as the earlier half says; None: it says nothing.
        widths: by how much they are moved.
    """

    kind: str
    runs: int
    cost: Errors
    held: Fraction
    held_moved: Fraction | None
    widths: Widths


def check_calls(
    attempts: Sequence[ForecastAttempt], prices: Mapping[str, PriceSet]
) -> tuple[tuple[CallCheck, ...], Experience]:
    """Return the checks by model and class, those of most calls first, and what the earlier half says.

    Args:
        attempts: oldest first.
        prices: price sets by id.
    """
    half = len(attempts) // 2
    experience = learn([each.ended for each in attempts[:half]], (), None)
    tariffs = _Tariffs(prices)
    groups: dict[tuple[str, str], list[ForecastAttempt]] = {}
    for each in attempts[half:]:
        groups.setdefault((each.ended.model, each.ended.task_class or ""), []).append(each)
    found = []
    for (model, task_class), some in groups.items():
        made = [_as_made(each, tariffs) for each in some]
        learnt = [_as_learnt(each, tariffs, experience) for each in some]
        found.append(CallCheck(model, task_class, len(some), _check(some, made), _check(some, learnt)))
    return tuple(sorted(found, key=lambda each: (-each.calls, each.model, each.task_class))), experience


def check_runs(runs: Sequence[ForecastRun]) -> tuple[RunCheck, ...]:
    """Return the checks of runs of one call, of several, and of all.

    Args:
        runs: oldest first.
    """
    half = len(runs) // 2
    before = learn((), [run.ended for run in runs[:half] if run.has_record], None)
    later = runs[half:]
    kinds: tuple[tuple[str, Callable[[ForecastRun], bool], Widths], ...] = (
        ("one call", lambda run: not run.ended.is_planned, before.single),
        ("several calls", lambda run: run.ended.is_planned, before.planned),
    )
    found = []
    held: list[bool] = []
    for kind, is_one, widths in kinds:
        if some := [run for run in later if is_one(run)]:
            moved = [_holds(run, widths) for run in some]
            held += moved
            found.append(_run_check(kind, some, widths, moved))
    if len(found) > 1:
        found.append(_run_check("all", later, AS_FORECAST, held))
    return tuple(found)


class _Predicted(NamedTuple):
    """A prediction of one call."""

    input_tokens: int
    output_tokens: tuple[int, int, int]
    cost: Decimal | None
    latency_us: float | None = None


class _Tariffs:
    """What a call of some size costs at a price set, each set made ready once a day."""

    def __init__(self, prices: Mapping[str, PriceSet]) -> None:
        self._prices = prices
        self._known: dict[tuple[str, object], PlainTariff] = {}

    def cost(self, attempt: ForecastAttempt, input_tokens: int, output_tokens: int) -> Decimal | None:
        prices = self._prices.get(attempt.price_set_id or "")
        if prices is None:
            return None
        at = datetime.fromtimestamp(attempt.started_us // 1_000_000, UTC)
        key = (prices.id, at.replace(minute=0, second=0))
        tariff = self._known.get(key) or self._known.setdefault(key, plain_tariff(prices, at))
        return tariff.total(input_tokens, output_tokens)


def _as_made(attempt: ForecastAttempt, tariffs: _Tariffs) -> _Predicted:
    cost = tariffs.cost(attempt, attempt.input_tokens, attempt.output_tokens[1])
    return _Predicted(attempt.input_tokens, attempt.output_tokens, cost)


def _as_learnt(attempt: ForecastAttempt, tariffs: _Tariffs, experience: Experience) -> _Predicted:
    """Return what the record says of a call; where it says nothing, what was forecast."""
    ended = attempt.ended
    task_class, input_tokens, output = ended.task_class or "", attempt.input_tokens, attempt.output_tokens
    ratio = experience.input_ratio(ended.model, ended.script)
    if ratio is not None and ended.estimated_input_tokens is not None:
        input_tokens = max(1, ended.estimated_input_tokens * ratio.expected_milli // 1000)
    if (lengths := experience.lengths(ended.model, task_class)) is not None:
        forecast = forecast_output(task_class, input_tokens, None, lengths)
        output = forecast.low_tokens, forecast.expected_tokens, forecast.high_tokens
    latency = experience.latency(ended.model, task_class)
    cost = tariffs.cost(attempt, input_tokens, output[1])
    return _Predicted(input_tokens, output, cost, None if latency is None else latency.median_s * 1e6)


def _check(attempts: Sequence[ForecastAttempt], predicted: Sequence[_Predicted]) -> Check:
    both = list(zip(predicted, attempts, strict=True))
    counted = [(each, came.ended.output_tokens) for each, came in both if came.ended.output_tokens is not None]
    held = [each.output_tokens[0] <= tokens <= each.output_tokens[2] for each, tokens in counted]
    return Check(
        errors((each.input_tokens, came.ended.input_tokens) for each, came in both),
        errors((each.output_tokens[1], tokens) for each, tokens in counted),
        errors((each.cost, came.cost) for each, came in both),
        errors((each.latency_us, came.ended.latency_us) for each, came in both),
        _share(held),
    )


def errors(pairs: Iterable[tuple[float | Decimal | None, float | Decimal | None]]) -> Errors:
    """Return how far predictions were off.

    Args:
        pairs: (predicted, actual); those of which one is unknown, or nothing came, are left out.
    """
    known = [(float(guess), float(came)) for guess, came in pairs if guess is not None and came]
    if not known:
        return Errors(None, None)
    bias = math.fsum(guess for guess, _ in known) / math.fsum(came for _, came in known) - 1
    mape = math.fsum(abs(guess - came) / came for guess, came in known) / len(known)
    return Errors(_figure(bias), _figure(mape))


def _figure(value: float) -> Fraction:
    return Fraction(round(value * _DIGITS), _DIGITS)


def _share(held: Sequence[bool]) -> Fraction | None:
    return Fraction(sum(held), len(held)) if held else None


def _run_check(kind: str, runs: Sequence[ForecastRun], widths: Widths, moved: Sequence[bool]) -> RunCheck:
    cost = errors((run.ended.expected_nano, run.ended.actual_nano) for run in runs)
    held = [_holds(run, AS_FORECAST) for run in runs]
    after = _share(moved) if kind == "all" or widths.runs else None
    return RunCheck(kind, len(runs), cost, _share(held) or Fraction(0), after, widths)


def _holds(run: ForecastRun, widths: Widths) -> bool:
    ended = run.ended
    low = ended.expected_nano - Fraction((ended.expected_nano - ended.low_nano) * widths.low_milli, 1000)
    high = ended.expected_nano + Fraction((ended.high_nano - ended.expected_nano) * widths.high_milli, 1000)
    return low <= ended.actual_nano <= high
