"""A model with tools: ask, call what it asks for, tell it, until it stops.

In: a call, a `Kit`. Out: a `Conversation`: the last answer, and all that was said on the way. Invariant: it ends, after
`max_rounds` answers that call tools and one without; a tool of the task's own is never called here, its calls go back
to the caller; what a tool says reaches the model as a tool's message only.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pricing.quick import quick
from router.attempts import CallSpec, Desk, Say
from router.calls import Ask, CallOutcome, call_key, perform
from router.errors import EndpointError
from router.tokens import estimate_message_tokens
from router.tool_calls import Done, ToolCall, ToolDesk, make_tool_calls, tool_calls_of
from router.tools.kit import Kit

NO_TIME_S = 0.05
Message = Mapping[str, Any]
Add = Callable[[CallOutcome], CallOutcome]
"""Keeps the receipt of a call as soon as it has ended, so that an error later on loses none; returns the outcome."""
Fit = Callable[[Sequence[Message]], Sequence[Message]]
"""Returns the messages that fit into the model's window."""


@quick
@dataclass(frozen=True, slots=True)
class Conversation:
    """A model's work with its tools.

    Args:
        outcome: the last call's; it may hold an error. Where the caller's own tools were called, its message calls them
            and no others.
        messages: all that was said after the task's own messages, tools' results included, the last answer last.
        tool_calls: tool calls made or refused.
        failed: those of them that gave no result.
    """

    outcome: CallOutcome
    messages: tuple[Message, ...] = ()
    tool_calls: int = 0
    failed: int = 0


async def converse(
    desk: Desk,
    spec: CallSpec,
    kit: Kit | None,
    add: Add,
    say: Say | None = None,
    *,
    ask: Ask = perform,
    fit: Fit | None = None,
) -> Conversation:
    """Ask a model, call the tools it asks for, and tell it what they gave, until it asks for none.

    Args:
        desk: what the calls are made with.
        spec: the first call; the tools in its parameters are the caller's own.
        kit: the tools that are called here; None: none, and there is one call.
        add: takes the outcome of each call.
        say: takes the text of each answer as it streams, with a blank line between answers; None: not streamed.
        ask: makes a call.
        fit: keeps the messages within the model's window; None: they are sent as they are.

    Raises:
        BudgetExceeded, RunHeld, LedgerError: see `router.calls.perform`.
    """
    if kit is None:
        outcome = add(await ask(desk, spec, say))
        return Conversation(outcome, () if outcome.message is None else (outcome.message,))
    talk = _Talk(desk, spec, kit, add, ask, fit, None if say is None else _Voice(say))
    for number in range(kit.max_rounds + 1):
        ended = await talk.round(is_first=number == 0, is_last=number == kit.max_rounds)
        if ended is not None:
            return ended
        await _until_it_is_clear(spec.deadline_s)
    raise AssertionError("a conversation went on after its last round")  # pragma: no cover — the last one ends it


def _next_call(
    spec: CallSpec, kit: Kit, said: Sequence[Message], fit: Fit | None, *, is_first: bool, is_end: bool
) -> CallSpec:
    """Return the next call of the model: all that was said, the tools, and the size that it now has."""
    parameters = {**spec.parameters, "tools": [*(spec.parameters.get("tools") or ()), *kit.descriptors]}
    if is_end:
        parameters["tool_choice"] = "none"
    elif not is_first and parameters.get("tool_choice") not in (None, "auto", "none"):
        del parameters["tool_choice"]  # a demand for tools is for the first answer: else there would be no end
    messages: Sequence[Message] = (*spec.messages, *said)
    if fit is not None:
        messages = fit(messages)
    estimated = estimate_message_tokens(messages, parameters["tools"])
    input_tokens = max(spec.candidate.input_tokens, estimated)
    candidate = replace(spec.candidate, input_tokens=input_tokens, estimated_input_tokens=estimated)
    return replace(spec, messages=messages, parameters=parameters, candidate=candidate)


async def _until_it_is_clear(deadline_s: float | None) -> None:
    """Let the last moments before a deadline pass: a request that is sent in them is paid and never answered."""
    if deadline_s is not None:
        left_s = deadline_s - asyncio.get_running_loop().time()
        if left_s < NO_TIME_S:
            await asyncio.sleep(max(0.0, left_s) + 0.001)


@dataclass(slots=True)
class _Talk:
    """A conversation so far."""

    desk: Desk
    spec: CallSpec
    kit: Kit
    add: Add
    ask: Ask
    fit: Fit | None
    voice: _Voice | None
    said: list[Message] = field(default_factory=list)
    rounds: int = 0
    calls: int = 0
    failed: int = 0
    is_cut_short: bool = False
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def round(self, *, is_first: bool, is_last: bool) -> Conversation | None:
        """Ask the model once and call its tools; return the conversation where that was its end."""
        is_end = is_last or self.kit.is_over
        self.is_cut_short = is_end
        asked = _next_call(self.spec, self.kit, self.said, self.fit, is_first=is_first, is_end=is_end)
        outcome = await self.ask(self.desk, asked, self.voice)
        message, calls = tool_calls_of(outcome.message or {})
        own_names = _names(self.spec.parameters.get("tools"))
        own = [call for call in calls if call.name in own_names]
        if outcome.error is not None or len(own) == len(calls):
            return self.ended(outcome, outcome.message)
        if is_end:
            return await self.ended_without(outcome, message)
        await self.desk.write(*outcome.unwritten)
        outcome = replace(outcome, unwritten=())
        self.take(message, await self.made(asked, outcome, [call for call in calls if call not in own]))
        if own:
            left = self.left_to_caller(message, own)
            return self.ended(replace(outcome, message=left), left)
        self.add(outcome)
        if self.voice is not None:
            self.voice.pause()
        return None

    async def made(self, asked: CallSpec, outcome: CallOutcome, calls: Sequence[ToolCall]) -> tuple[Done, ...]:
        """Make the tool calls of an answer; where that is broken off, the answer's receipt is kept all the same."""
        key = outcome.call_key or call_key(self.desk.run_id, asked)
        is_cut = outcome.finish_reason == "length"
        tools = ToolDesk(self.desk, asked, key, self.kit, self.refused, is_cut=is_cut)
        try:
            return await make_tool_calls(tools, self.counted(calls))
        except BaseException:
            self.add(outcome)
            raise

    async def ended_without(self, outcome: CallOutcome, message: Message) -> Conversation:
        """End with a model that calls tools though it was asked not to: its words count, where it has any."""
        plain = {key: value for key, value in message.items() if key != "tool_calls"}
        outcome = replace(outcome, message=plain)
        if not outcome.text:
            await self.desk.write(*outcome.unwritten)
            model = self.spec.candidate.model
            words = f"{model}: it calls tools instead of answering, after {self.rounds} rounds of tool calls"
            error = EndpointError("malformed", words, hint="raise [tools] max_rounds or max_calls, or ask for less")
            outcome = replace(outcome, unwritten=(), error=error)
        return self.ended(outcome, plain)

    @property
    def refused(self) -> Mapping[tuple[str, str], str]:
        """The tool calls that have failed as often as a call may be tried, each with what the model is told."""
        most = self.desk.retry.attempts
        return {
            call: f"{call[0]} was not called: this very call has failed {most} times"
            for call, count in self.failures.items()
            if count >= most
        }

    def counted(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls, each with how many of the same words there were before it."""
        counted = []
        for call in calls:
            counted.append(replace(call, before=self.asked[call.words]))
            self.asked[call.words] += 1
        return counted

    def take(self, message: Message, done: Sequence[Done]) -> None:
        """Take an answer that called tools, and what those gave."""
        positions = {each.call.position for each in done}
        called = [entry for position, entry in enumerate(message["tool_calls"]) if position in positions]
        is_shared = len(called) < len(message["tool_calls"])
        self.said.append({**message, "tool_calls": called, **({"content": None} if is_shared else {})})
        self.said += [each.message for each in done]
        self.rounds += 1
        self.calls += len(done)
        for each in done:
            if each.is_error:
                self.failed += 1
                self.failures[each.call.words] += 1

    def left_to_caller(self, message: Message, own: Sequence[ToolCall]) -> Message:
        """Return an answer with the calls of the caller's own tools alone: the others have been made."""
        positions = {call.position for call in own}
        entries = [entry for position, entry in enumerate(message["tool_calls"]) if position in positions]
        return {**message, "tool_calls": entries}

    def ended(self, outcome: CallOutcome, last: Message | None) -> Conversation:
        """Return the conversation with its last call, which gets the warnings of all."""
        warnings = list(outcome.warnings)
        if self.failed:
            warnings.append(f"{self.failed} of {self.calls} tool calls failed{self._where()}")
        if self.is_cut_short:
            why = "[tools] max_calls" if self.kit.is_over else "[tools] max_rounds"
            warnings.append(f"tools were taken away after {self.rounds} rounds of tool calls ({why}){self._where()}")
        if outcome.error is None:
            self.kit.allowance.forget(self.spec.step_id)
        whole = self.add(replace(outcome, warnings=tuple(warnings)))
        messages = (*self.said, *(() if last is None else (last,)))
        return Conversation(whole, messages, self.calls, self.failed)

    def _where(self) -> str:
        return f" in step {self.spec.step_id}" if self.spec.step_id else ""


@dataclass(slots=True)
class _Voice:
    """Hands on the text of one answer after the other, with a blank line between two that have any."""

    say: Say
    has_spoken: bool = False
    is_pausing: bool = False

    async def __call__(self, text: str) -> None:
        if self.is_pausing and self.has_spoken:
            await self.say("\n\n")
        self.has_spoken, self.is_pausing = True, False
        await self.say(text)

    def pause(self) -> None:
        """Note that an answer has ended."""
        self.is_pausing = True


def _names(tools: object) -> frozenset[str]:
    """Return the names of OpenAI-style tools."""
    listed = tools if isinstance(tools, list | tuple) else ()
    functions = [tool.get("function") for tool in listed if isinstance(tool, Mapping)]
    return frozenset(str(function.get("name")) for function in functions if isinstance(function, Mapping))
