"""Tools in the hands of a call: the kit that a task or step may use, and what that asks of its model.

In: a `Swarm`, names of tools. Out: a `Kit`, a task as it is decided on, a window. Invariant: a model is decided on with
the tools it will be told of, in its capabilities and in its input.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from router.context import windowed
from router.conversation import Fit, Message
from router.result import Decision
from router.swarm import Swarm
from router.task import Task
from router.tools.kit import Kit


@asynccontextmanager
async def kit_of(swarm: Swarm, names: Sequence[str], deadline_s: float | None) -> AsyncIterator[Kit | None]:
    """Give the tools that a task or step may use, their servers up; None where it may use none.

    Args:
        swarm: what it works with.
        names: `server__tool` or `server__*`.
        deadline_s: time of the event loop until which a server is waited for, seconds; None: no such time.

    Raises:
        WrongUsage, ToolServerError, ToolRefused: see `router.tools.Toolbox.kit`.
    """
    if swarm.tools is None:
        yield None
        return
    toolbox, allowance = swarm.tools
    async with toolbox.kit(names, allowance, swarm.task.tools, deadline_s) as kit:
        yield kit


def equipped(task: Task, kit: Kit | None) -> Task:
    """Return the task as its model is decided on: with the tools of the kit among its own."""
    if kit is None:
        return task
    return task.model_copy(update={"tools": (*task.tools, *map(dict, kit.descriptors))})


def fitting(swarm: Swarm, decision: Decision, kit: Kit | None) -> Fit | None:
    """Return what keeps a conversation within its model's context and [context] max_tokens; None: it has no tools."""
    if kit is None:
        return None
    info = swarm.desk.market.info(decision.chosen.model, decision.chosen.price_list)
    limits = swarm.context
    most = limits.max_tokens
    if info is not None and info.context_window_tokens is not None:
        most = min(most, info.context_window_tokens)

    def fit(messages: Sequence[Message]) -> Sequence[Message]:
        return windowed(messages, limits, most).messages

    return fit
