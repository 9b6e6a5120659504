"""Which results are merged in one call, so that no merge reads more than its model can.

In: a task's text, results, the window of the merge's model. Out: groups of results, each with the words it is asked
with. Invariant: pure; no prompt made of a group is over the window, and each round has fewer results than the one
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from router.context import cut_text
from router.errors import ContextTooSmall
from router.plan import merge_messages
from router.tokens import estimate_message_tokens, estimate_tokens

WINDOW_SHARE: Final = 0.6
"""Of a model's context that a merge's prompt may take; the rest is for its answer."""
UNKNOWN_WINDOW_TOKENS: Final = 32_000
_PART_TOKENS: Final = 8  # what the format puts around a result, its name not counted
_LEAST_PART_TOKENS: Final = 48
_TASK_SHARE: Final = 0.25  # of the room, for the words of the task

Part = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MergeRound:
    """One round of merging.

    Args:
        task_text: the task's words, cut where they would leave no room.
        groups: (name, text) pairs, in order; a group of one is handed on to the next round as it is.
        cut: how many results had to be cut, since one alone was too long.
    """

    task_text: str
    groups: tuple[tuple[Part, ...], ...]
    cut: int = 0

    @property
    def is_last(self) -> bool:
        """Whether its one group is all there is."""
        return len(self.groups) == 1


def merge_room(context_window_tokens: int | None, max_tokens: int) -> int:
    """Return the most tokens of a merge's prompt.

    Args:
        context_window_tokens: of its model; None: unknown, taken as 32,000.
        max_tokens: [context] max_tokens.
    """
    return min(int((context_window_tokens or UNKNOWN_WINDOW_TOKENS) * WINDOW_SHARE), max_tokens)


def merge_round(task_text: str, parts: Sequence[Part], room_tokens: int) -> MergeRound:
    """Return the groups that the results are merged in; at least two fit into each.

    Args:
        task_text: the words of the task.
        parts: (name, text) pairs, in order; at least one.
        room_tokens: most estimated tokens of a merge's prompt (`merge_room`).

    Raises:
        ContextTooSmall: two results, cut as short as can be, do not fit.
    """
    task_text = cut_text(task_text, int(room_tokens * _TASK_SHARE))
    room = room_tokens - estimate_message_tokens(merge_messages(task_text, ()))
    most = room // 2
    if most < _LEAST_PART_TOKENS:
        raise ContextTooSmall(
            f"merge: {room_tokens} tokens for a prompt hold no two results beside the task",
            hint="take a model with a larger context, or raise [context] max_tokens",
        )
    whole = len(parts) == 1 and _size(parts[0]) <= room
    fitted = list(parts) if whole else [_cut(part, most) for part in parts]
    cut = sum(one is not other for one, other in zip(fitted, parts, strict=True))
    return MergeRound(task_text, _packed(fitted, room), cut)


def merged_name(group: Sequence[Part]) -> str:
    """Return the name of a group's merged answer: from its first result to its last."""
    if len(group) == 1:
        return group[0][0]
    return f"{group[0][0].split(' to ')[0]} to {group[-1][0].split(' to ')[-1]}"


def _size(part: Part) -> int:
    name, text = part
    return estimate_tokens(name) + estimate_tokens(text) + _PART_TOKENS


def _cut(part: Part, most: int) -> Part:
    if _size(part) <= most:
        return part
    name = part[0] if estimate_tokens(part[0]) <= _LEAST_PART_TOKENS // 4 else part[0][: _LEAST_PART_TOKENS // 4]
    return name, cut_text(part[1], most - _PART_TOKENS - estimate_tokens(name))


def _packed(parts: Sequence[Part], room: int) -> tuple[tuple[Part, ...], ...]:
    groups: list[list[Part]] = [[]]
    used = 0
    for part in parts:
        size = _size(part)
        if groups[-1] and used + size > room:
            groups.append([])
            used = 0
        groups[-1].append(part)
        used += size
    return tuple(map(tuple, groups))
