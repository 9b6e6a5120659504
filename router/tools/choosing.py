"""Which of the tools that a server offers a task gets: those that are asked for, allowed, approved and sound.

In: what is asked for, what is offered, what is approved. Out: `Sound` tools, or the reason why there are none.
Invariant: a tool that is not approved as it is now is never among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from router.errors import ToolRefused, WrongUsage
from router.settings_tools import EVERY, ToolServerSettings
from router.tools.approval import Lock, standing, what_changed
from router.tools.arguments import checker, schema_fault
from router.tools.descriptors import MOST_NAMES, Descriptor, collisions

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


@dataclass(frozen=True, slots=True)
class Sound:
    """A tool whose schemas are schemas.

    Args:
        descriptor: the tool.
        check: checks arguments.
        output: checks its structured result; None: it promises none, or nothing that could be checked.
    """

    descriptor: Descriptor
    check: Validator
    output: Validator | None


@dataclass(frozen=True, slots=True)
class Shelf:
    """Sound tools, kept so that the schemas of each are read once."""

    _kept: dict[str, Sound] = field(default_factory=dict)

    def sound(self, descriptor: Descriptor) -> Sound:
        """Return a tool with its checks.

        Raises:
            ToolRefused: the schema of its arguments is none.
        """
        kept = self._kept.get(descriptor.name)
        if kept is None or kept.descriptor != descriptor:
            kept = self._kept[descriptor.name] = _sound(descriptor)
        return kept


def _sound(descriptor: Descriptor) -> Sound:
    fault = schema_fault(descriptor.input_schema)
    if fault is not None:
        raise ToolRefused(
            f"tools: {descriptor.name}: the schema of its arguments is wrong: {fault}",
            hint="its server has to be mended; leave the tool out of allow meanwhile",
        )
    promised = descriptor.output_schema
    output = checker(promised) if promised is not None and schema_fault(promised) is None else None
    return Sound(descriptor, checker(descriptor.input_schema), output)


def chosen(
    server: str, asked: tuple[str, ...], offered: Sequence[Descriptor], settings: ToolServerSettings, lock: Lock
) -> list[Descriptor]:
    """Return the descriptors of the tools asked for.

    Args:
        server: the server's name.
        asked: own names of its tools, all allowed; `("*",)`: all that are allowed and offered.
        offered: what it offers.
        settings: its settings.
        lock: what is approved.

    Raises:
        ToolRefused: one is not offered, not approved, or has changed since it was; or two have one name.
    """
    by_tool = {each.tool: each for each in offered}
    names = [each.tool for each in offered if settings.allows(each.tool)] if asked == (EVERY,) else asked
    found = [_approved(server, name, by_tool, lock) for name in names]
    for name, group in collisions(found).items():
        both = " and ".join(each.tool for each in group)
        raise ToolRefused(
            f"tools: {both} of server {server} would both be {name}", hint=f"allow one of them for server {server}"
        )
    return found


def _approved(server: str, tool: str, offered: Mapping[str, Descriptor], lock: Lock) -> Descriptor:
    descriptor = offered.get(tool)
    if descriptor is None:
        there = ", ".join(sorted(offered)[:MOST_NAMES]) or "none"
        raise ToolRefused(f"tools: server {server} offers no tool {tool!r}", hint=f"tools that it offers: {there}")
    how = standing(descriptor, lock)
    hint = f"look at it, then: router tools approve {server}"
    if how == "new":
        raise ToolRefused(f"tools: {descriptor.name} has not been approved", hint=hint)
    if how == "changed":
        what = what_changed(descriptor, lock)
        raise ToolRefused(f"tools: {descriptor.name} has changed since it was approved: {what}", hint=hint)
    return descriptor


def refuse_same_names(names: Mapping[str, object], own: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a task whose own tools have a name that a server's tool has.

    Args:
        names: names of the servers' tools.
        own: the task's own OpenAI-style tools.

    Raises:
        WrongUsage: one name stands in both.
    """
    for each in own:
        function = each.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if name in names:
            raise WrongUsage(f"task: the tool {name!r} stands in tools and in mcp_tools", hint="rename the task's own")
