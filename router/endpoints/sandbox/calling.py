"""Tool calls that a prompt tells the stand-in server to make, and its answer to what they gave.

In: the body of a chat completion. Out: tool calls, OpenAI-shaped, or the text that ends them. Invariant: which calls
are made depends on the messages alone: on the orders in the user's last message, and on the answers with calls since.

Orders stand on a line of their own, behind a list mark or not:

    Call tool NAME with ARGUMENTS         in the first answer, all such lines at once
    Then call tool NAME with ARGUMENTS    one answer later for each such line
    Always call tool NAME with ARGUMENTS  in every answer

ARGUMENTS is the rest of the line, word for word, so that broken JSON can be ordered too; a name need not exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

_ORDER = re.compile(
    r"^\s*(?:[-*•]\s+|\(?\d{1,4}[.):]\s+)?(Call|Then call|Always call) tool (\S+) with (.*)$", re.MULTILINE
)
LEAD = "The tools say:"


@dataclass(frozen=True, slots=True)
class Turn:
    """Where a conversation with tools stands.

    Args:
        orders: (kind, tool's name, arguments) in the user's last message.
        answers: answers that called tools since.
        results: texts of the tools since.
    """

    orders: tuple[tuple[str, str, str], ...]
    answers: int
    results: tuple[str, ...]


def read_turn(body: Mapping[str, Any]) -> Turn:
    """Return where the conversation of a body stands."""
    messages = body.get("messages")
    listed: Sequence[Any] = messages if isinstance(messages, list) else ()
    orders: tuple[tuple[str, str, str], ...] = ()
    answers = 0
    results: list[str] = []
    for message in listed:
        role = message.get("role")
        content = message.get("content")
        if role == "user":
            orders, answers, results = tuple(_ORDER.findall(content if isinstance(content, str) else "")), 0, []
        elif role == "assistant" and message.get("tool_calls"):
            answers += 1
        elif role == "tool":
            results.append(content if isinstance(content, str) else "")
    return Turn(orders, answers, tuple(results))


def ordered_calls(body: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the tool calls that are due in the next answer; none where no tools are offered, or none may be called."""
    if not body.get("tools") or body.get("tool_choice") == "none":
        return ()
    turn = read_turn(body)
    later = [order for order in turn.orders if order[0] == "Then call"]
    has_first = any(order[0] == "Call" for order in turn.orders)
    due = [order for order in turn.orders if order[0] == "Always call"]
    if turn.answers == 0:
        due += [order for order in turn.orders if order[0] == "Call"]
    place = turn.answers - has_first
    if 0 <= place < len(later):
        due.append(later[place])
    return tuple(_call(turn, position, name, arguments) for position, (_, name, arguments) in enumerate(due))


def _call(turn: Turn, position: int, name: str, arguments: str) -> Mapping[str, Any]:
    seed = f"{turn.answers}\n{position}\n{name}\n{arguments}".encode("utf-8", "surrogatepass")
    call_id = f"call_{blake2b(seed, digest_size=6).hexdigest()}"
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def told_by_tools(body: Mapping[str, Any]) -> str | None:
    """Return the answer that hands on what the tools gave, or None where none was called in this turn."""
    results = read_turn(body).results
    return "\n".join([LEAD, *results]) if results else None
