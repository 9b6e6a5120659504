"""The JSON of an answer, read without a fall.

In: bytes of any content. Out: plain JSON values, or ValueError.
Invariant: what is returned can be written as JSON again, from any depth of the call stack.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_decode = json.JSONDecoder().decode
_PLAIN = (b'{"', b"[{", b"{ ", b"{\n")
"""How UTF-8 begins; of what begins otherwise `json.loads` looks for the encoding first."""
MOST_NESTED = 100
"""Objects and lists inside each other; answers have some ten, and Python's own bound depends on where it is met."""


def parse(raw: bytes) -> Any:
    """Return the JSON value that bytes hold.

    Args:
        raw: the bytes, UTF-8 as a rule.

    Raises:
        ValueError: they are no JSON, hold a number of more digits than Python reads, or are nested too deep.
    """
    try:
        value = _decode(raw.decode("utf-8", "surrogatepass")) if raw.startswith(_PLAIN) else json.loads(raw)
    except RecursionError:
        pass
    else:
        if raw.count(b"[") + raw.count(b"{") <= MOST_NESTED or _is_flat(value):
            return value
    message = f"objects and lists are nested deeper than {MOST_NESTED}"
    raise ValueError(message)


def _is_flat(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(MOST_NESTED + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return True
    return False


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
