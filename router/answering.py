"""An answer that can be used: whole, and JSON where JSON was asked for.

In: a call, what is wanted of its answer. Out: its last outcome, and the value in it. Invariant: a cut answer is never
repaired. Where JSON, or the whole of it, is wanted, the same call is made again with twice the room, within the model's
and the budget's limits; JSON that cannot be read for certain is asked for once more, and then goes on as raw text with
a warning. Each try is a call of its own (`CallSpec.sample`), at most `TRIES` in all. A text that nobody said must be
whole goes on as it is, with a warning: its reader can see where it ends, and more of it costs more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from pricing.quick import quick
from router.attempts import CallSpec, Desk, Say
from router.calls import Ask, CallOutcome, perform
from router.errors import BudgetExceeded
from router.policy import Market
from router.repair import How, Repaired, repair_json
from router.task import LIMITS

TRIES: Final = 3
CUT: Final = "length"

Keep = Callable[[CallOutcome], object]
"""Keeps the receipt of a try that was made again, as soon as it has ended."""


@quick
@dataclass(frozen=True, slots=True)
class Want:
    """What is wanted of an answer.

    Args:
        json: it must be a JSON object.
        keys: keys that the object must have.
        whole: it must not be cut, though it is plain text.
    """

    json: bool = False
    keys: tuple[str, ...] = ()
    whole: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Answered:
    """What came of it.

    Args:
        outcome: of the last try; where its JSON was not strict, its text is the value written anew.
        value: the JSON object, where one was wanted and could be read.
        how: how it was come by (`router.repair`); None where no JSON was wanted, or no text came.
    """

    outcome: CallOutcome
    value: Any = None
    how: How | None = None


async def answered(desk: Desk, spec: CallSpec, want: Want, keep: Keep, say: Say | None = None) -> Answered:
    """Make a call, as often as it takes for an answer that can be used; return what came of it.

    Args:
        desk: what it is made with.
        spec: the call.
        want: what is wanted of the answer.
        keep: takes the outcome of each try but the last, which is returned.
        say: takes the text as it streams; JSON is said at the end, when it is whole. None: not streamed.

    Raises:
        BudgetExceeded, RunHeld, LedgerError: see `router.calls.perform`; a further try that the budget does not pay for
            is not made, and that is no error.
    """
    outcome = await perform(desk, spec, None if want.json else say)
    for number in range(1, TRIES):
        found = _read(outcome, want)
        again = _again(desk.market, spec, outcome, want, found, is_first=number == 1)
        if again is None:
            break
        try:
            await desk.write(*outcome.unwritten)
            outcome = replace(outcome, unwritten=())
            following = await perform(desk, again, None if want.json else say)
        except BudgetExceeded:
            break
        keep(outcome)
        outcome, spec = following, again
    return await _handed_on(outcome, want, say)


def asking(want: Want, keep: Keep) -> Ask:
    """Return a way of making calls whose answers can be used, in place of `router.calls.perform`; see `answered`."""

    async def ask(desk: Desk, spec: CallSpec, say: Say | None = None) -> CallOutcome:
        return (await answered(desk, spec, want, keep, say)).outcome

    return ask


async def said(desk: Desk, spec: CallSpec, say: Say | None = None) -> CallOutcome:
    """Make one call, and say so where its text was cut; see `router.calls.perform`."""
    return _said_if_cut(await perform(desk, spec, say))


def with_room(market: Market, spec: CallSpec, outcome: CallOutcome) -> CallSpec | None:
    """Return the call with twice the room for its answer; None: its model has no more.

    Args:
        market: what is known of the model.
        spec: the call whose answer was cut.
        outcome: how it ended; where the call set no limit, the limit is what was written.
    """
    name = next((each for each in LIMITS if isinstance(spec.parameters.get(each), int)), None)
    usage = outcome.receipt.usage
    limit = spec.parameters[name] if name else usage.output_tokens if usage else 0
    info = market.info(spec.candidate.model, spec.candidate.price_list)
    room = 2 * limit
    if info is not None and info.max_output_tokens is not None:
        room = min(room, info.max_output_tokens)
    if info is not None and info.context_window_tokens is not None:
        room = min(room, info.context_window_tokens - spec.candidate.input_tokens)
    if room <= limit:
        return None
    return replace(spec, parameters={**spec.parameters, name or "max_tokens": room}, sample=spec.sample + 1)


def _read(outcome: CallOutcome, want: Want) -> Repaired | None:
    """Return the JSON of an answer; None: none is wanted of it, or it is no text (a call of tools, an error)."""
    if not want.json or outcome.error is not None or (outcome.message or {}).get("tool_calls"):
        return None
    found = repair_json(outcome.text, want.keys, finish_reason=outcome.finish_reason)
    return found if isinstance(found.value, dict) else Repaired(None, "raw", found.is_cut)


def _again(
    market: Market, spec: CallSpec, outcome: CallOutcome, want: Want, found: Repaired | None, *, is_first: bool
) -> CallSpec | None:
    """Return the call that is to be made next, or None."""
    if outcome.error is not None:
        return None
    is_cut = outcome.finish_reason == CUT or (found is not None and found.is_cut)
    if is_cut and (want.json or want.whole):
        return with_room(market, spec, outcome)
    if found is not None and found.how == "raw" and is_first:
        return replace(spec, sample=spec.sample + 1)
    return None


async def _handed_on(outcome: CallOutcome, want: Want, say: Say | None) -> Answered:
    """Return the last outcome as it goes on: JSON written anew where it was not strict, what is wrong with it said."""
    found = _read(outcome, want)
    if found is None:
        outcome = _said_if_cut(outcome)
        if want.json and say is not None and outcome.text:
            await say(outcome.text)
        return Answered(outcome)
    if found.how == "raw":
        what = "cut, and there is no more room for it" if found.is_cut else "no JSON object"
        outcome = _warned(outcome, f"the answer is {what}: it stands as raw text")
    elif found.how != "strict":
        if found.how == "repaired":
            outcome = _warned(outcome, "the JSON of the answer was broken, and was repaired")
        text = json.dumps(found.value, ensure_ascii=False)
        outcome = replace(outcome, text=text, message={**(outcome.message or {}), "content": text})
    if say is not None:
        await say(outcome.text)
    return Answered(outcome, found.value, found.how)


def _said_if_cut(outcome: CallOutcome) -> CallOutcome:
    if outcome.error is not None or outcome.finish_reason != CUT or any("cut at" in each for each in outcome.warnings):
        return outcome
    return _warned(outcome, "the answer was cut at its limit: raise max_output_tokens for the rest of it")


def _warned(outcome: CallOutcome, words: str) -> CallOutcome:
    return replace(outcome, warnings=(*outcome.warnings, f"{outcome.receipt.model_asked}: {words}"))
