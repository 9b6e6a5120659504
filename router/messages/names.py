"""What may be a name of a topic, a subscriber, a namespace or a key, and what may be said.

In: names, values. Out: the same, or JSON text. Invariant: what passes can be stored and printed on every database and
terminal, and comes back as it was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from router.errors import WrongUsage
from router.ledger.message_records import RUN_PREFIX, URGENT_MOST
from router.ledger.row_values import is_id

MOST_NAME_CHARS: Final = 200
MOST_BODY_BYTES: Final = 262_144
"""Of one message's body, as JSON text in ASCII."""
MOST_VALUE_BYTES: Final = 1_048_576
"""Of one value of the state, alike."""
MOST_HEADERS: Final = 20
MOST_KEY_CHARS: Final = 500
MOST_NESTED: Final = 100
"""Levels of lists and mappings in a value: what is written must be readable whatever has called the reader."""
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def checked_name(kind: str, name: Any, most: int = MOST_NAME_CHARS) -> str:
    """Return a name.

    Args:
        kind: what it is of, for the message.
        name: the name.
        most: how many characters it may have.

    Raises:
        WrongUsage: it is empty, too long, or holds what cannot be printed.
    """
    if not isinstance(name, str) or not name or len(name) > most or not name.isprintable():
        shown = repr(name)[:80]
        message = f"{kind}: {shown} is not allowed; 1 to {most} characters that can be printed are"
        raise WrongUsage(message, hint="a name like orders/paid")
    return str(name)


def run_of(kind: str, name: str) -> str | None:
    """Return the id of the run that a topic or a namespace belongs to, or None.

    Raises:
        WrongUsage: it begins as one of a run and no run's id follows.
    """
    if not name.startswith(RUN_PREFIX):
        return None
    run_id = name.removeprefix(RUN_PREFIX).partition("/")[0]
    if not is_id(run_id):
        message = f"{kind}: {name!r} is not allowed: {RUN_PREFIX} is for runs, and a run's id must follow it"
        raise WrongUsage(message, hint=f"{RUN_PREFIX}0199a1b2-…, or a name that begins otherwise")
    return run_id


def checked_headers(topic: str, headers: Mapping[str, str] | None) -> Mapping[str, str]:
    """Return a message's headers; none for None.

    Raises:
        WrongUsage: they are no mapping, one is no text, or there are too many.
    """
    if not headers:
        return {}
    if not isinstance(headers, Mapping):
        raise WrongUsage(f"topic {topic!r}: headers of type {type(headers).__name__} are not allowed; a mapping is")
    if len(headers) > MOST_HEADERS:
        raise WrongUsage(f"topic {topic!r}: {len(headers)} headers; at most {MOST_HEADERS} are allowed")
    for name, value in headers.items():
        checked_name(f"topic {topic!r}: header", name)
        checked_name(f"topic {topic!r}: header {name!r}", value, MOST_KEY_CHARS)
    return dict(headers)


def checked_priority(topic: str, priority: int) -> int:
    """Return a message's priority.

    Raises:
        WrongUsage: it is not one of 0 to 9.
    """
    if type(priority) is not int or not 0 <= priority <= URGENT_MOST:
        raise WrongUsage(f"topic {topic!r}: priority {priority!r} is not allowed; 0 to {URGENT_MOST} is")
    return priority


def json_text(what: str, value: Any, most_bytes: int) -> str:
    """Return a value as JSON text in ASCII.

    Args:
        what: what it is of, for messages.
        value: what JSON can hold: texts, finite numbers, booleans, None, lists, and mappings of texts.
        most_bytes: how long the text may be.

    Raises:
        WrongUsage: it holds something else, or is too long.
    """
    try:
        text = _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise WrongUsage(f"{what}: cannot be written as JSON: {reason}") from None
    if (fault := _fault(value, MOST_NESTED)) is not None:
        raise WrongUsage(f"{what}: cannot be written as JSON: {fault}")
    if len(text) > most_bytes:
        message = f"{what}: {len(text):,} bytes of JSON; at most {most_bytes:,} are allowed"
        raise WrongUsage(message, hint="keep what is large in a file, and say where it is")
    return text


def _fault(value: Any, levels: int) -> str | None:
    """Return why a value that JSON can hold would not come back as it was, or None: another key, or out of reach."""
    if not isinstance(value, dict | list | tuple):
        return None
    if not levels:
        return f"it is nested too deeply; {MOST_NESTED} levels are allowed"
    for key in value if isinstance(value, dict) else ():
        if not isinstance(key, str):
            return f"key {str(key)[:40]} is of type {type(key).__name__}; texts are allowed"
    for each in value.values() if isinstance(value, dict) else value:
        if (fault := _fault(each, levels - 1)) is not None:
            return fault
    return None


def check_count(what: str, count: Any, least: int) -> None:
    """Refuse a count that is no whole number, less than the least, or beyond what a database holds.

    Raises:
        WrongUsage: it is.
    """
    if type(count) is not int or not least <= count < 2**63:
        raise WrongUsage(f"{what} {str(count)[:40]} is not allowed; {least} or more is")


def check_wait(what: str, timeout_s: Any) -> None:
    """Refuse a longest wait that is no number of seconds; None, infinity and what is below 0 are allowed.

    Args:
        what: who waits, for the message.
        timeout_s: the wait.

    Raises:
        WrongUsage: it is none.
    """
    if timeout_s is not None and (type(timeout_s) not in (int, float) or math.isnan(timeout_s)):
        raise WrongUsage(f"{what}: timeout_s {str(timeout_s)[:40]} is not allowed; a number of seconds is")
