"""Published request traces of LLM services, read line by line.

In: a file of Mooncake's JSON lines (`timestamp` ms from the start, `input_length`, `output_length` tokens; Qin et al.,
FAST '25) or of Azure's CSV (`TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; Patel et al., "Splitwise", ISCA 2024).
Out: per line a `Request`, or a `Rejected` with its reason. Invariant: memory does not grow with the file, a bad line
costs nothing but itself, and no number is guessed.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Literal

from router.errors import WrongUsage

Format = Literal["mooncake", "azure"]

_LONGEST_LINE_BYTES = 1_000_000
_MOST_TOKENS = 1_000_000_000  # of one request: a thousand times the largest context there is
_LATEST_MS = 10 * 366 * 86_400_000  # a trace of ten years; beyond it, it is another unit
_JSON_FIELDS = ("timestamp", "input_length", "output_length")
_CSV_FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_HINT = 'a trace has JSON lines {"timestamp", "input_length", "output_length"} or a CSV head ' + ",".join(_CSV_FIELDS)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a trace.

    Args:
        line: its line in the file, from 1.
        at_us: when it came, microseconds: since the trace's start (Mooncake) or since 1970 UTC (Azure).
        input_tokens: prompt, tokens.
        output_tokens: generated, tokens.
    """

    line: int
    at_us: int
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no request, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file that was recognised: its format (from its content, not its name), digest and size in bytes."""

    path: Path
    format: Format
    sha256: str
    size_bytes: int


def inspect_trace(path: Path) -> TraceFile:
    """Return what a trace file is.

    Args:
        path: the file.

    Raises:
        WrongUsage: it is missing, not readable, empty, not UTF-8, or of neither format.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size_bytes = file.tell()
            file.seek(0)
            return TraceFile(path, _format(path, file), digest, size_bytes)
    except OSError as error:
        raise WrongUsage(f"trace {path}: cannot be read: {error.strerror}", hint="name a file that is there") from None


def _format(path: Path, file: BinaryIO) -> Format:
    first = next((line for _, line in _lines(file) if line != b""), b"")
    if first == b"":
        raise WrongUsage(f"trace {path}: is empty", hint=_HINT)
    try:
        text = "" if first is None else first.decode()
    except UnicodeDecodeError:
        raise WrongUsage(f"trace {path}: is not UTF-8 text", hint=_HINT) from None
    if text.startswith("{") and not [name for name in _JSON_FIELDS if f'"{name}"' not in text]:
        return "mooncake"
    if set(_CSV_FIELDS) <= set(_cells(text)):
        return "azure"
    raise WrongUsage(f"trace {path}: is of no format that is known; its first line is {text[:60]!r}", hint=_HINT)


def read_trace(trace: TraceFile) -> Iterator[tuple[Request | Rejected, int]]:
    """Yield each line's request or rejection, with how many bytes of the file have been read.

    Args:
        trace: from `inspect_trace`.

    Raises:
        WrongUsage: the file cannot be read to its end.
    """
    try:
        with trace.path.open("rb") as file:
            lines = ((number, line) for number, line in _lines(file) if line != b"")
            read = _mooncake if trace.format == "mooncake" else _azure_reader(next(lines)[1])
            for number, line in lines:
                yield _read(read, number, line), file.tell()
    except OSError as error:
        raise WrongUsage(f"trace {trace.path}: cannot be read: {error.strerror}") from None


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Yield numbered lines without their ends; None for one that is too long to be a request's."""
    number = 0
    while line := file.readline(_LONGEST_LINE_BYTES):
        number += 1
        if len(line) == _LONGEST_LINE_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(_LONGEST_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        else:
            yield number, (line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line).strip()


def _read(read: Callable[[str], tuple[int, Any, Any]], number: int, line: bytes | None) -> Request | Rejected:
    if line is None:
        return Rejected(number, f"is longer than {_LONGEST_LINE_BYTES} bytes")
    try:
        at_us, input_tokens, output_tokens = read(line.decode())
        return Request(number, at_us, _tokens(input_tokens), _tokens(output_tokens))
    except UnicodeDecodeError:
        return Rejected(number, "is not UTF-8 text")
    except _BadLineError as error:
        return Rejected(number, str(error))


class _BadLineError(ValueError):
    """Why a line is no request."""


def _mooncake(text: str) -> tuple[int, Any, Any]:
    try:
        found = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise _BadLineError("is not JSON") from None
    if not isinstance(found, dict) or [name for name in _JSON_FIELDS if name not in found]:
        raise _BadLineError(f"is not an object with {', '.join(_JSON_FIELDS)}")
    at_ms, input_length, output_length = (found[name] for name in _JSON_FIELDS)
    if type(at_ms) not in (int, Decimal) or not 0 <= at_ms <= _LATEST_MS:
        raise _BadLineError(f"timestamp is {str(at_ms)[:40]}; milliseconds from 0 to ten years are allowed")
    return int(at_ms * 1000), input_length, output_length


def _azure_reader(head: bytes | None) -> Callable[[str], tuple[int, Any, Any]]:
    names = _cells((head or b"").decode())
    at, context, generated = (names.index(name) for name in _CSV_FIELDS)

    def read(text: str) -> tuple[int, Any, Any]:
        cells = _cells(text)
        if len(cells) != len(names):
            raise _BadLineError(f"has {len(cells)} cells; the head has {len(names)}")
        return _instant_us(cells[at]), _whole(cells[context]), _whole(cells[generated])

    return read


def _cells(text: str) -> list[str]:
    if '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    try:
        return [cell.strip() for cell in next(csv.reader([text], strict=True), [])]
    except csv.Error as error:
        raise _BadLineError(f"is not CSV: {error}") from None


def _instant_us(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _BadLineError(f"TIMESTAMP is {text[:40]!r}; a date and time is allowed") from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _whole(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _tokens(value: object) -> int:
    if type(value) is int and 0 <= value <= _MOST_TOKENS:
        return value
    raise _BadLineError(f"a token count is {str(value)[:40]!r}; a whole number from 0 to {_MOST_TOKENS} is allowed")
