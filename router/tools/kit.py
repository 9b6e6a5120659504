"""The tools that one task or step may use, and how one of them is called.

In: what a model wrote: a name and arguments. Out: an `Answer`: the text for the model and the facts for the ledger.
Invariant: only a tool of the kit is called, with arguments that fit its schema, at most once unless it is declared
idempotent; nothing but `CancelledError` and what `started` raises comes out of a call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from router.errors import ToolRefused, ToolServerError
from router.tools.arguments import BadArguments, misfit, read_arguments
from router.tools.descriptors import MOST_NAMES, Descriptor, as_openai
from router.tools.link import ConnectionLost, Link, ServerFault
from router.tools.results import ERROR_MARK, Told, failure, told, without_secrets

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

    from router.tools.results import Raw

Status = Literal["succeeded", "failed", "timed_out", "refused"]
Slot = tuple[str | None, str, str, int]
LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool that may be called.

    Args:
        descriptor: as it was approved.
        link: its server.
        places: how many calls its server takes at once.
        check: checks arguments against its schema.
        output: checks its structured result; None: it promises none.
        is_idempotent: whether it may be called twice for one call of a model.
        timeout_s: longest time of one call, its wait for a place included, seconds.
    """

    descriptor: Descriptor
    link: Link
    places: asyncio.Semaphore
    check: Validator
    output: Validator | None
    is_idempotent: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may be made."""

    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended.

    Args:
        status: as the ledger has it.
        told: what the model is told.
        error: one line, or None.
        is_lost: whether the connection broke, so that an idempotent tool may be called again.
    """

    status: Status
    told: Told
    error: str | None = None
    is_lost: bool = False


@dataclass(slots=True)
class Allowance:
    """What the tool calls of one run share.

    Args:
        left: how many may still be made.
        results: what those of steps that are not done gave, by step, tool, arguments and how many there were like it
            before: a step that is done again makes none of them twice.
    """

    left: int
    results: dict[Slot, Told] = field(default_factory=dict)

    def take(self) -> bool:
        """Take one; False: there is none left."""
        if self.left <= 0:
            return False
        self.left -= 1
        return True

    def forget(self, step_id: str | None) -> None:
        """Forget the results of a step that is done."""
        for slot in [slot for slot in self.results if slot[0] == step_id]:
            del self.results[slot]


@dataclass(frozen=True, slots=True)
class Kit:
    """The tools that one task or step may use.

    Args:
        tools: by the name a model sees.
        allowance: what the run may still call.
        max_rounds: answers that may call tools.
        most_bytes: longest result that goes on to the model, bytes.
        hide: takes secrets out of a text.
    """

    tools: Mapping[str, Tool]
    allowance: Allowance
    max_rounds: int
    most_bytes: int
    hide: Callable[[str], str] = field(repr=False)

    @property
    def descriptors(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI's chat API takes them, sorted by name, so that a prompt's prefix stays the same."""
        return tuple(as_openai(self.tools[name].descriptor) for name in sorted(self.tools))

    @property
    def is_over(self) -> bool:
        """Whether the run has made all the tool calls it may."""
        return self.allowance.left <= 0

    def prepared(self, name: str, written: object, *, is_cut: bool = False) -> Ready | Answer:
        """Return the call that a model asked for, or the answer to one that cannot be made.

        Args:
            name: the tool's name as the model wrote it.
            written: its arguments as the model wrote them.
            is_cut: whether the model's answer was cut at its token limit.
        """
        tool = self.tools.get(name)
        if tool is None:
            names = sorted(self.tools)
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            there = f"{', '.join(names[:MOST_NAMES])}{more}"
            return self.failed("refused", f"there is no tool {name[:80]!r} here; there are: {there}")
        try:
            arguments = read_arguments(written, tool.descriptor.input_schema, is_cut=is_cut)
        except BadArguments as error:
            return self.failed("refused", f"{name} was not called: {error}")
        wrong = misfit(arguments, tool.check)
        if wrong is not None:
            return self.failed("refused", f"{name} was not called: its arguments do not fit its schema: {wrong}")
        return Ready(tool, arguments)

    async def call(self, ready: Ready, deadline_s: float | None, started: Callable[[int], Awaitable[None]]) -> Answer:
        """Call a tool once and return how that ended.

        Args:
            ready: the call.
            deadline_s: time of the event loop at which the step ends, seconds, or None.
            started: awaited once, when the call is about to be sent or has been given up before; it takes the time that
                the call waited, microseconds.

        Raises:
            CancelledError: the caller left; the server is told.
        """
        tool, begun_ns = ready.tool, time.perf_counter_ns()
        has_started = False

        async def start() -> None:
            nonlocal has_started
            has_started = True
            await started((time.perf_counter_ns() - begun_ns) // 1000)

        limit_s, within = asyncio.get_running_loop().time() + tool.timeout_s, f"within {tool.timeout_s:g} s"
        if deadline_s is not None and deadline_s < limit_s:
            limit_s, within = deadline_s, "before the step's time-out"
        try:
            async with asyncio.timeout_at(limit_s), tool.places:
                raw = await tool.link.call(tool.descriptor.tool, tool.descriptor.sha256, ready.arguments, start)
            answer = self._answered(tool, raw)
        except (TimeoutError, ConnectionLost, ServerFault, ToolServerError, ToolRefused) as error:
            answer = self._unanswered(tool, error, within)
        if not has_started:
            await start()
        return answer

    def failed(self, status: Status, message: str, *, is_lost: bool = False) -> Answer:
        """Return the answer to a call without a result."""
        words = self.hide(message)
        return Answer(status, failure(words, self.most_bytes), words[:LONGEST_ERROR], is_lost)

    def _answered(self, tool: Tool, raw: Raw) -> Answer:
        said = told(without_secrets(raw, self.hide), self.most_bytes, tool.output)
        if not said.is_error:
            return Answer("succeeded", said)
        words = " ".join(said.text.removeprefix(ERROR_MARK).split())
        return Answer("failed", said, words[:LONGEST_ERROR])

    def _unanswered(self, tool: Tool, error: Exception, within: str) -> Answer:
        name = tool.descriptor.name
        if isinstance(error, TimeoutError):
            tool.link.was_silent()
            return self.failed("timed_out", f"{name} did not answer {within}; it may have done its work all the same")
        if isinstance(error, ConnectionLost):
            note = "; it may have done its work all the same" if error.may_have_run else ""
            return self.failed("failed", f"{name}: {error}{note}", is_lost=True)
        return self.failed("refused" if isinstance(error, ToolRefused) else "failed", f"{name}: {error}")
