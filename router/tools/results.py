"""What a tool gave back, as the text that a model is told.

In: a tool's result, block by block, as its server sent it. Out: a `Told`: the text of the tool's message, with marks.
Invariant: a text is at most as long as allowed; what is not as the tool promised is marked and handed on, never dropped
and never a crash; images and other bytes are named, not sent. Pure.

Marks stand in square brackets on a line of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from router.repair import repair_json
from router.tools.arguments import misfit

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

ERROR_MARK = "[tool error]"
NOTHING = "[the tool gave back nothing]"
READ_BYTES = 1_000_000
"""A longer text is not looked at for JSON: it is cut anyway."""
_JSON_STARTS = ('{"', "{'", '["', "['", "[{", "{}", "[]", "```json", "{\n", "[\n", '{ "', '[ "', "[ {")


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a result.

    Args:
        kind: text, or image, audio, resource, link: what it is where it is not text.
        text: the text; else what it is called.
        mime: its media type, or None.
        size: its bytes, or None.
    """

    kind: Literal["text", "image", "audio", "resource", "link"]
    text: str = ""
    mime: str | None = None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Raw:
    """A result as a server sent it.

    Args:
        blocks: its pieces, in order.
        structured: its structured content; None: there was none.
        is_error: whether the tool says that it failed.
    """

    blocks: tuple[Block, ...]
    structured: Any = field(default=None, hash=False)
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What a model is told of a result.

    Args:
        text: the text of the tool's message.
        is_error: whether the call failed.
        is_raw: whether the text is not the JSON that it should be.
        size: bytes of the result before it was cut.
    """

    text: str
    is_error: bool = False
    is_raw: bool = False
    size: int = 0


def told(raw: Raw, most_bytes: int, output: Validator | None = None) -> Told:
    """Return what a model is told of a result.

    Args:
        raw: the result.
        most_bytes: longest text that goes on, bytes of UTF-8.
        output: checks the structured content that the tool promises; None: it promises none.
    """
    body = _text_of(raw)
    size = len(body.encode("utf-8", "replace"))
    marks: list[str] = []
    if not raw.is_error:
        body, marks = _as_promised(raw, body, output)
    lead = "\n".join([*marks, *([ERROR_MARK] if raw.is_error else [])])
    whole = f"{lead}\n{body}" if lead else body
    return Told(cut(whole or NOTHING, most_bytes, size), raw.is_error, any("not JSON" in mark for mark in marks), size)


def failure(message: str, most_bytes: int) -> Told:
    """Return what a model is told of a call that gave no result: it was refused, it failed, or it took too long."""
    return Told(cut(f"{ERROR_MARK} {message}", most_bytes, len(message.encode("utf-8", "replace"))), is_error=True)


def cut(text: str, most_bytes: int, size: int) -> str:
    """Return a text of at most so many bytes, with a mark where something is missing.

    Args:
        text: the text.
        most_bytes: bytes of UTF-8, at least 100.
        size: bytes of the whole result, for the mark.
    """
    encoded = text.encode("utf-8", "replace")  # half a surrogate pair is no character: it becomes ?
    if len(encoded) <= most_bytes:
        return encoded.decode()
    mark = f"\n[cut: the result is {size} bytes long, of which {most_bytes} at most are shown]"
    return encoded[: most_bytes - len(mark.encode())].decode("utf-8", "ignore") + mark


def _text_of(raw: Raw) -> str:
    parts = [_shown(block) for block in raw.blocks]
    if raw.structured is not None and not _is_said(raw):
        parts.append(json.dumps(raw.structured, ensure_ascii=False))
    return "\n".join(part for part in parts if part)


def _shown(block: Block) -> str:
    if block.kind == "text":
        return block.text
    facts = [block.kind, *([block.text] if block.text else []), *([block.mime] if block.mime else [])]
    size = f", {block.size} bytes" if block.size is not None else ""
    return f"[{' '.join(facts)}{size}: not shown]"


def _is_said(raw: Raw) -> bool:
    """Return whether the text blocks say the same as the structured content, as servers do for older clients."""
    texts = [block.text for block in raw.blocks if block.kind == "text"]
    if not texts:
        return False
    value = raw.structured
    values = [value]
    if isinstance(value, Mapping) and set(value) == {"result"}:  # how servers wrap what is no object
        values.append(value["result"])
    return any(_says(texts, each) for each in values)


def _says(texts: Sequence[str], value: object) -> bool:
    if isinstance(value, list) and len(value) == len(texts) and len(texts) > 1:
        return all(_says([text], item) for text, item in zip(texts, value, strict=True))
    whole = "\n".join(texts)
    return whole == value or _parsed(whole) == (True, value)


def _parsed(text: str) -> tuple[bool, Any]:
    if len(text) > READ_BYTES:
        return False, None
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _as_promised(raw: Raw, body: str, output: Validator | None) -> tuple[str, list[str]]:
    """Return the text and its marks: of a tool that promises JSON, or whose text begins like it."""
    if raw.structured is not None:
        wrong = misfit(raw.structured, output) if output is not None else None
        return body, [f"[not as the tool promised: {wrong}]"] if wrong else []
    is_promised = output is not None
    if len(raw.blocks) != 1 or raw.blocks[0].kind != "text" or len(body) > READ_BYTES:
        return body, ["[not JSON, which the tool promised: handed on as it came]"] if is_promised else []
    if not is_promised and not body.lstrip().startswith(_JSON_STARTS):
        return body, []
    return _mended(body, output)


def _mended(body: str, output: Validator | None) -> tuple[str, list[str]]:
    found = repair_json(body)
    if found.how == "raw" or (output is None and found.how == "extracted"):
        return body, ["[not JSON, though it should be: handed on as it came]"]
    wrong = misfit(found.value, output) if output is not None else None
    if wrong:
        return body, [f"[not JSON as the tool promised: {wrong}]"]
    if found.how == "strict":
        return body, []
    return json.dumps(found.value, ensure_ascii=False), ["[the JSON was broken and has been mended]"]


def without_secrets(raw: Raw, hide: Any) -> Raw:
    """Return the result with secret values taken out of its texts; `hide` takes and returns a text."""
    blocks = tuple(
        block if (text := hide(block.text)) == block.text else replace(block, text=text) for block in raw.blocks
    )
    return Raw(blocks, _hidden(raw.structured, hide), raw.is_error)


def _hidden(value: Any, hide: Any) -> Any:
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, Mapping):
        return {hide(str(key)): _hidden(inner, hide) for key, inner in value.items()}
    return [_hidden(inner, hide) for inner in value] if isinstance(value, list) else value
