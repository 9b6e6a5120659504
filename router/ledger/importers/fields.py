"""The fields of a generic record, by name, and which of a file's columns each stands in.

In: the names of the columns a file has, and what the user says of them. Out: `Column`s. Invariant: a field or a column
that does not exist is refused by name, with near misses; a column nobody names is left alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from router.errors import WrongUsage

REQUIRED = ("started", "model")
COUNTED = {
    "input_tokens": None,
    "cache_read_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_5m_tokens",
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "audio_input_tokens": "audio_input_tokens",
    "image_input_tokens": "image_input_tokens",
    "output_tokens": None,
    "reasoning_tokens": "reasoning_tokens",
    "audio_output_tokens": "audio_output_tokens",
    "image_output_tokens": "image_output_tokens",
    "web_searches": "web_searches",
}
"""Counts by field; the whole input and output are taken apart into what is left of them."""

TEXTS = {
    "model_asked": "model_asked",
    "provider": "provider",
    "tenant": "tenant",
    "task_class": "task_class",
    "configuration": "configuration",
    "service_tier": "service_tier",
    "error_kind": "error_kind",
    "finish_reason": "finish_reason",
}
SCALES = {"latency_s": 6, "latency_ms": 3, "ttft_s": 6, "ttft_ms": 3}
OTHERS = ("id", "ended", "requests", "cost_usd", "role", "status", "http_status", "tags")
TAG = "tag."

FIELDS = (*REQUIRED, *COUNTED, *TEXTS, *SCALES, *OTHERS)
"""Every field but `tag.NAME`, which makes a label of a column."""


class Column(NamedTuple):
    """A field and where its value stands.

    Args:
        field: one of `FIELDS`, or `tag.NAME`.
        name: the file's name of it.
        place: index of its value in a row of the columns that are used.
    """

    field: str
    name: str
    place: int


def matched(names: Sequence[str], columns: Mapping[str, str], where: str) -> list[Column]:
    """Return which of our fields a file has, and where.

    Args:
        names: its columns.
        columns: its column by our field, as the user states; a field that is not stated is found by its own name.
        where: the file, for messages.

    Raises:
        WrongUsage: a field or a column does not exist, or a required one is not there; the message lists what is.
    """
    for field in columns:
        if field not in FIELDS and not (field.startswith(TAG) and len(field) > len(TAG)):
            raise _no(f"--column: field {field!r}", field, FIELDS, f"fields: {', '.join(FIELDS)}, {TAG}NAME")
    wanted = {**{field: field for field in FIELDS if field in names}, **columns}
    shown = f"columns of the file: {', '.join(names[:40])}"
    for field, name in wanted.items():
        if name not in names:
            raise _no(f"{where}: column {name!r} for {field}", name, names, shown)
    for field in REQUIRED:
        if field not in wanted:
            raise WrongUsage(f"{where}: no column for {field}; state it: --column {field}=COLUMN", hint=shown)
    places = {name: place for place, name in enumerate(dict.fromkeys(wanted.values()))}
    return [Column(field, name, places[name]) for field, name in wanted.items()]


def names_of(columns: Sequence[Column]) -> list[str]:
    """Return the file's names of the columns that are used, in the order of a row's values."""
    return list(dict.fromkeys(column.name for column in sorted(columns, key=lambda column: column.place)))


def _no(what: str, value: str, allowed: Sequence[str], hint: str) -> WrongUsage:
    near = difflib.get_close_matches(value, allowed, n=1)
    return WrongUsage(f"{what} does not exist" + (f"; did you mean {near[0]!r}?" if near else ""), hint=hint)
