"""Values as columns hold them: ids, texts, JSON, amounts, times.

In: plain values. Out: what is bound. Invariant: what is returned can be stored on every database.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pricing.money import split_amount

DAY_US = 86_400_000_000
QUARTER_HOUR_US = 900_000_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

to_json = json.JSONEncoder(separators=(",", ":")).encode
"""Returns a value as the JSON text that is stored."""


def storable_text(text: str) -> str:
    """Return a text as every database can hold it: NUL and lone surrogates become U+FFFD, all else stays."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a row."""
    return _UUID.fullmatch(text) is not None


def checked_id(value: str | None) -> str | None:
    """Return an id, or None.

    Raises:
        ValueError: it is no UUID in our spelling.
    """
    if value is not None and _UUID.fullmatch(value) is None:
        message = f"id {value[:60]!r}; a UUID of 36 lower-case characters is allowed (router.ledger.new_id makes one)"
        raise ValueError(message)
    return value


def split_or_none(amount: Decimal | None) -> tuple[int | None, int | None]:
    """Return an amount as (micro, pico); two None for None."""
    return (None, None) if amount is None else split_amount(amount)


def tags_document(tags: Mapping[str, str]) -> str:
    """Return labels as the JSON text that stands for them, whatever their order."""
    return json.dumps(dict(tags), separators=(",", ":"), sort_keys=True)


def tags_id(tags: Mapping[str, str]) -> str | None:
    """Return the id of a set of labels: a digest of their text; None for none."""
    return hashlib.sha256(tags_document(tags).encode()).hexdigest()[:32] if tags else None


def tags_text(tags: Mapping[str, Any]) -> str:
    """Return labels as JSON text, in their own order."""
    return to_json(dict(tags)) if tags else "{}"
