"""What a tool is called, what it says of itself, and how a model is told.

In: a tool as its server describes it. Out: a `Descriptor`, its name for models, its digest, an OpenAI-style tool.
Invariant: a name is at most 64 letters, digits, `_` and `-`, and the same tool always has the same one. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from router.settings_tools import JOINT

MOST_NAMES = 20
"""So many tools are named in a message that lists them."""
LONGEST_NAME = 64
"""OpenAI's bound of a function's name (platform.openai.com/docs/api-reference/chat, checked 2026-11-30)."""
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 8
_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})  # Unicode categories: controls, formats, unassigned, private
_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))  # variation selectors, which can carry bytes


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tool as its server describes it.

    Args:
        server: the server's name in router.toml.
        tool: the tool's own name.
        description: what it says it does; text of others.
        input_schema: JSON schema of its arguments.
        output_schema: JSON schema of its structured result, or None where it promises none.

    Attributes:
        name: what a model calls it: `server__tool`.
        sha256: digest of all that a model is told of it: name, description and the schema of its arguments.
    """

    server: str
    tool: str
    description: str
    input_schema: Mapping[str, Any] = field(hash=False)
    output_schema: Mapping[str, Any] | None = field(default=None, hash=False)
    name: str = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", tool_name(self.server, self.tool))
        object.__setattr__(self, "sha256", digest(self.tool, self.description, self.input_schema))


def tool_name(server: str, tool: str) -> str:
    """Return the name a model sees of a tool.

    A sign that is not allowed becomes `_`; a name that is too long ends in eight digits of its digest instead.
    """
    plain = f"{server}{JOINT}{_NOT_ALLOWED.sub('_', tool)}"
    if len(plain) <= LONGEST_NAME:
        return plain
    tail = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{plain[: LONGEST_NAME - _DIGITS - 1]}_{tail}"


def digest(tool: str, description: str, input_schema: Mapping[str, Any]) -> str:
    """Return the SHA-256, hexadecimal, of what a model is told of a tool."""
    told = {"name": tool, "description": description, "input_schema": input_schema}
    text = json.dumps(told, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def collisions(descriptors: Iterable[Descriptor]) -> Mapping[str, tuple[Descriptor, ...]]:
    """Return the names that more than one tool would have, each with those tools."""
    by_name: dict[str, list[Descriptor]] = {}
    for each in descriptors:
        by_name.setdefault(each.name, []).append(each)
    return {name: tuple(group) for name, group in by_name.items() if len(group) > 1}


def as_openai(descriptor: Descriptor) -> dict[str, Any]:
    """Return the tool as OpenAI's chat API takes it; an object without properties gets an empty set of them."""
    schema = {key: value for key, value in descriptor.input_schema.items() if key != "$schema"}
    parameters = {"type": "object", "properties": {}, **schema}
    told = {"name": descriptor.name, "description": descriptor.description, "parameters": parameters}
    return {"type": "function", "function": told}


def hidden_signs(descriptor: Descriptor) -> tuple[str, ...]:
    """Return the signs of a descriptor that a reader does not see, as `U+200B`, each once.

    Text may be hidden in them that a model reads all the same (Unicode tags, zero-width and direction marks).
    """
    whole = f"{descriptor.tool}{descriptor.description}{json.dumps(descriptor.input_schema, ensure_ascii=False)}"
    return tuple(sorted({f"U+{ord(sign):04X}" for sign in set(whole) if _is_unseen(sign)}))


def _is_unseen(sign: str) -> bool:
    is_selector = any(ord(sign) in span for span in _SELECTORS)
    return sign not in "\n\r\t" and (is_selector or unicodedata.category(sign) in _UNSEEN)
