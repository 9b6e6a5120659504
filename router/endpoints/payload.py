"""The JSON of an answer, and reading it without a fall.

In: bytes of any content, and whatever reads them. Out: plain JSON values, or one kind of error.
Invariant: what is read here can be written as JSON again, from any depth of the call stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from router.endpoints.failures import Sender
from router.errors import EndpointError

MOST_NESTED = 100
"""Objects and lists inside each other; answers have some ten, and Python's own bound depends on where it is met."""

_Read = TypeVar("_Read")


def parse(raw: bytes) -> Any:
    """Return the JSON value that bytes hold.

    Args:
        raw: the bytes, UTF-8 as a rule.

    Raises:
        ValueError: they are no JSON, hold a number of more digits than Python reads, or are nested too deep.
    """
    try:
        value = json.loads(raw)
    except RecursionError:
        value = None
    else:
        if raw.count(b"[") + raw.count(b"{") <= MOST_NESTED or _is_flat(value):
            return value
    message = f"objects and lists are nested deeper than {MOST_NESTED}"
    raise ValueError(message)


def _is_flat(value: object) -> bool:
    level = [value]
    for _ in range(MOST_NESTED + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return True
    return False


def _inside(value: object) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def reading(sender: Sender, read: Callable[[], _Read]) -> _Read:
    """Return what a function reads out of an answer.

    Args:
        sender: who sent, for the message.
        read: reads; its own `EndpointError` is passed on.

    Raises:
        EndpointError: of kind "malformed", whatever else it stumbled over: the model has been at work.
    """
    try:
        return read()
    except EndpointError:
        raise
    except Exception as error:  # noqa: BLE001 - an answer may be wrong in ways that nobody has thought of
        failure = sender.failure("malformed", f"an answer that cannot be read: {type(error).__name__}: {error}")
    raise failure  # outside the handler, so that it carries no cause
