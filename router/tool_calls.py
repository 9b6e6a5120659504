"""The tool calls of one answer of a model: all at once, each a row before and a row after.

In: a `Desk`, the model's call and its tool calls, a `Kit`. Out: one `Done` for each, in their order. Invariant: a tool
is called once its row is committed, and the row is completed exactly once, also where the caller is cancelled; a call
on record is not made again. One that was under way when the process died is made again only if its tool is declared
idempotent; else the model is told that it may have run.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from router.attempts import CallSpec, Desk, now_us
from router.errors import RouterError
from router.ledger.keys import named_id
from router.ledger.records import Answer as Answered
from router.ledger.tool_calls import ToolCallRow
from router.ledger.tool_records import ToolCallEnded, ToolCallStarted
from router.settings_tools import JOINT
from router.tools.kit import Answer, Kit, Ready, Slot
from router.tools.results import ERROR_MARK, Told

LONGEST_NAME = 200
NOT_AGAIN = "it is not made again"
INTERRUPTED = (
    f"{ERROR_MARK} this call was under way when the run was interrupted: it may have done its work, and {NOT_AGAIN}"
)
NOT_KEPT = (
    f"{ERROR_MARK} this call was made before the run was interrupted; its result is no longer kept, and {NOT_AGAIN}"
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as a model wrote it.

    Args:
        id: what its answer is to name.
        position: which of the answer's tool calls, from 0.
        name: the tool's name.
        arguments: as written: JSON text, as a rule.
        before: how many calls of the same words the conversation has had before it.
    """

    id: str
    position: int
    name: str
    arguments: object
    before: int = 0

    @property
    def words(self) -> tuple[str, str]:
        """The tool's name and the arguments, to tell equal calls."""
        return self.name, written(self.arguments)


@dataclass(frozen=True, slots=True)
class Done:
    """A tool call that has ended.

    Args:
        call: what was asked for.
        text: what the model is told.
        is_error: whether it failed.
    """

    call: ToolCall
    text: str
    is_error: bool

    @property
    def message(self) -> Mapping[str, Any]:
        """The tool's message to the model: whatever the tool said stands here, and nowhere else."""
        return {"role": "tool", "tool_call_id": self.call.id, "content": self.text}


@dataclass(frozen=True, slots=True)
class ToolDesk:
    """What the tool calls of one answer are made with.

    Args:
        desk: the run's desk.
        spec: the call of the model that asked for them.
        key: its key.
        kit: the tools that may be called.
        refused: why no call of a tool is made any more, by (name, arguments) as written.
        is_cut: whether the answer was cut at its token limit.
    """

    desk: Desk
    spec: CallSpec
    key: str
    kit: Kit
    refused: Mapping[tuple[str, str], str]
    is_cut: bool = False


async def make_tool_calls(tools: ToolDesk, calls: Sequence[ToolCall]) -> tuple[Done, ...]:
    """Make the tool calls, all at once, and return how they ended, in their order.

    Args:
        tools: what they are made with.
        calls: the calls.

    Raises:
        LedgerError: a row could not be committed; a tool without its row is never called.
        CancelledError: the caller left; each call is completed as stopped.
    """
    earlier = await _earlier(tools)
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(_one(tools, call, earlier.get(call.position, ()))) for call in calls]
    except* RouterError as errors:
        raise _first(errors) from None
    return tuple(task.result() for task in running)


async def _earlier(tools: ToolDesk) -> Mapping[int, Sequence[ToolCallRow]]:
    """Return the rows that an earlier process has written of these tool calls, by position."""
    found: dict[int, list[ToolCallRow]] = {}
    if tools.desk.resumed:
        for row in await tools.desk.ledger.tool_calls(tools.desk.run_id):
            if row.started.call_key == tools.key:
                found.setdefault(row.started.position, []).append(row)
    return found


def _first(errors: BaseExceptionGroup[RouterError]) -> RouterError:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, RouterError)  # noqa: S101 — the group holds nothing else
    return first


async def _one(tools: ToolDesk, call: ToolCall, earlier: Sequence[ToolCallRow]) -> Done:
    """Make one tool call, unless it is on record, or an earlier go of its step has made it."""
    desk, results, slot = tools.desk, tools.kit.allowance.results, _slot(tools, call)
    if tools.spec.sample and (again := results.get(slot)) is not None:
        await desk.write(*desk.answers(_result_key(tools, call), _kept(again), None))
        return Done(call, again.text, again.is_error)
    has_place = tools.kit.allowance.take()
    if desk.resumed and (known := await _on_record(tools, call, earlier)) is not None:
        results[slot] = known
        return Done(call, known.text, known.is_error)
    record = _Record(tools, call, 1 + max((row.started.number for row in earlier), default=0))
    ready = _prepared(tools, call) if has_place else _over(tools.kit)
    if isinstance(ready, Answer):
        await record.started(0)
        return await record.ended(ready)
    answer = await _made(tools, ready, record)
    if answer.is_lost and ready.tool.is_idempotent:
        await record.ended(answer, is_final=False)
        record = _Record(tools, call, record.number + 1)
        answer = await _made(tools, ready, record)
    return await record.ended(answer)


async def _made(tools: ToolDesk, ready: Ready, record: _Record) -> Answer:
    try:
        return await tools.kit.call(ready, tools.spec.deadline_s, record.started)
    except asyncio.CancelledError:
        # `write` queues its row before it waits, so a second cancel cannot lose it.
        record.keep(Told(INTERRUPTED, is_error=True))
        await record.stopped()
        raise


def _prepared(tools: ToolDesk, call: ToolCall) -> Ready | Answer:
    why = tools.refused.get(call.words)
    if why is not None:
        return tools.kit.failed("refused", why)
    return tools.kit.prepared(call.name, call.arguments, is_cut=tools.is_cut)


def _over(kit: Kit) -> Answer:
    return kit.failed("refused", "not called: the run has made all the tool calls it may ([tools] max_calls)")


async def _on_record(tools: ToolDesk, call: ToolCall, earlier: Sequence[ToolCallRow]) -> Told | None:
    """Return what a model was told, or is to be told, of a call that was made before; None: it is to be made now."""
    key = _result_key(tools, call)
    if (found := await tools.desk.ledger.find_answer(key)) is not None:
        return Told(str(found.message.get("content") or ""), bool(found.message.get("is_error")))
    tool = tools.kit.tools.get(call.name)
    if not earlier or (tool is not None and tool.is_idempotent):
        return None
    last = max(earlier, key=lambda row: row.started.number).ended
    if last is not None and last.status == "refused":
        return None
    # Told once, told always: the model's next call is found by what it was told.
    told = Told(INTERRUPTED if last is None or last.status == "stopped" else NOT_KEPT, is_error=True)
    await tools.desk.write(*tools.desk.answers(key, _kept(told), None))
    return told


def _slot(tools: ToolDesk, call: ToolCall) -> Slot:
    return (tools.spec.step_id, *call.words, call.before)


def _result_key(tools: ToolDesk, call: ToolCall) -> str:
    """Return the key under which the result of a tool call is kept."""
    return f"tool:{tools.key}:{call.position}"


def _kept(told: Told) -> Mapping[str, Any]:
    return {"role": "tool", "content": told.text, "is_error": told.is_error}


def written(arguments: object) -> str:
    """Return arguments as text, to compare and to measure them."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, sort_keys=True, default=str)


@dataclass(slots=True)
class _Record:
    """One tool call's two rows: started, and its one completion."""

    tools: ToolDesk
    call: ToolCall
    number: int
    begun_ns: int = 0
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = named_id("tool call", self.tools.key, self.call.position, self.number)

    async def started(self, queue_us: int) -> None:
        """Commit the first row."""
        server, joint, own = self.call.name.partition(JOINT)
        tool = self.tools.kit.tools.get(self.call.name)
        if tool is not None:
            server, own = tool.descriptor.server, tool.descriptor.tool
        self.begun_ns = time.perf_counter_ns()
        row = ToolCallStarted(
            tool_call_id=self.id,
            run_id=self.tools.desk.run_id,
            call_key=self.tools.key,
            position=self.call.position,
            server=server[:LONGEST_NAME] if joint else "",
            tool=(own if joint else self.call.name)[:LONGEST_NAME],
            started_us=now_us(),
            argument_bytes=len(written(self.call.arguments).encode("utf-8", "replace")),
            step_id=self.tools.spec.step_id,
            number=self.number,
            queue_us=queue_us,
        )
        await self.tools.desk.write(row)

    async def ended(self, answer: Answer, *, is_final: bool = True) -> Done:
        """Commit the completion and, where it is what the model is told, the result with it."""
        told = answer.told
        row = ToolCallEnded(
            self.id, answer.status, self._latency_us(), told.size or None, is_raw=told.is_raw, error=answer.error
        )
        kept: Sequence[Answered] = ()
        if is_final:
            kept = self.tools.desk.answers(_result_key(self.tools, self.call), _kept(told), None)
            self.keep(told)
        await self.tools.desk.write(row, *kept)
        return Done(self.call, told.text, told.is_error)

    def keep(self, told: Told) -> None:
        """Keep what the model is told, for the case that its step is done again."""
        self.tools.kit.allowance.results[_slot(self.tools, self.call)] = told

    async def stopped(self) -> None:
        """Complete the row of a call whose caller left, if there is one."""
        if self.begun_ns:
            await self.tools.desk.write(ToolCallEnded(self.id, "stopped", self._latency_us(), error="the caller left"))

    def _latency_us(self) -> int:
        return (time.perf_counter_ns() - self.begun_ns) // 1000


def tool_calls_of(message: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[ToolCall, ...]]:
    """Return a message whose tool calls all have an id of their own, and those calls.

    What is no tool call is dropped: a list entry without a function, a call without a name.

    Args:
        message: an assistant's message.
    """
    listed = message.get("tool_calls")
    entries: list[dict[str, Any]] = []
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for entry in listed if isinstance(listed, list) else ():
        function = entry.get("function") if isinstance(entry, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str) or not name:
            continue
        position = len(calls)
        given = entry.get("id")
        call_id = given if isinstance(given, str) and given and given not in taken else f"call_{position}"
        while call_id in taken:
            call_id += "_"
        taken.add(call_id)
        entries.append({**entry, "id": call_id})
        calls.append(ToolCall(call_id, position, name, function.get("arguments")))
    whole = {key: value for key, value in message.items() if key != "tool_calls"}
    return ({**whole, "tool_calls": entries} if entries else whole), tuple(calls)
