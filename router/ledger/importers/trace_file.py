"""Published request traces of LLM services, read line by line.

In: a file of Mooncake's JSON lines (`timestamp` ms from the start, `input_length`, `output_length` tokens, `hash_ids`
of the prompt's blocks; Qin et al., FAST '25) or of Azure's CSV (`TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; Patel
et al., "Splitwise", ISCA 2024). Out: per line a `Request`, or a `Rejected` with its reason. Invariant: a bad line costs
nothing but itself, and no number is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from decimal import Decimal
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from router.errors import WrongUsage
from router.ledger.importers.delimited import delimiter_of
from router.ledger.importers.file import SourceFile
from router.ledger.importers.json_lines import Lines, decoder_of
from router.ledger.importers.record import BadRecordError, Rejected
from router.ledger.importers.values import instant

Format = Literal["mooncake", "azure"]

BLOCK_TOKENS = 512
"""Tokens of one block of `hash_ids` (README of github.com/kvcache-ai/Mooncake, "Open Source Trace")."""

_MOST_TOKENS = 1_000_000_000  # of one request: a thousand times the largest context there is
_LATEST_MS = 10 * 366 * 86_400_000  # a trace of ten years; beyond it, it is another unit
_JSON_FIELDS = ("timestamp", "input_length", "output_length")
_CSV_FIELDS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_HINT = 'a trace has JSON lines {"timestamp", "input_length", "output_length"} or a CSV head ' + ",".join(_CSV_FIELDS)


class Request(NamedTuple):
    """One request of a trace.

    Args:
        line: its line in the file, from 1.
        at_us: when it came, microseconds: since the trace's start (Mooncake) or since 1970 UTC (Azure).
        input_tokens: prompt, tokens.
        output_tokens: generated, tokens.
        blocks: ids of the prompt's blocks of 512 tokens, in order; equal leading ids are an equal prefix. None: the
            trace does not say.
    """

    line: int
    at_us: int
    input_tokens: int
    output_tokens: int
    blocks: Sequence[int] | None = None


class Requests(NamedTuple):
    """Many requests of a trace, a column each; see `Request`. Their blocks are left out."""

    lines: Sequence[int]
    at_us: Sequence[int]
    input_tokens: Sequence[int]
    output_tokens: Sequence[int]


class PrefixCache:
    """What a prompt cache of unbounded size would have served: leading blocks that an earlier request had too.

    It holds every block's id, so its memory grows with a trace's distinct prompts.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def read_tokens(self, request: Request) -> int:
        """Return how many of a request's input tokens are cache reads, and remember its blocks.

        The last block of a prompt may be a part of one: what is read is never more than the prompt.

        Args:
            request: with its blocks; requests come in the order of the trace.
        """
        blocks = request.blocks or ()
        leading = next((index for index, block in enumerate(blocks) if block not in self._seen), len(blocks))
        self._seen.update(blocks)
        return min(leading * BLOCK_TOKENS, request.input_tokens)


def trace_format(file: SourceFile) -> Format:
    """Return which of the two formats a file is of.

    Args:
        file: as `router.ledger.importers.file.inspect_file` found it.

    Raises:
        WrongUsage: it is of neither.
    """
    # A table's head is its first line that is not empty, though it may be blank.
    first = file.head.lstrip("\r\n" if file.kind == "table" else None).partition("\n")[0].strip()
    if file.kind == "lines" and not [name for name in _JSON_FIELDS if f'"{name}"' not in first]:
        return "mooncake"
    if file.kind == "table" and set(_CSV_FIELDS) <= {name.strip(' "') for name in first.split(delimiter_of(first))}:
        return "azure"
    message = f"trace {file.path}: is of no format that is known; its first line is {first[:60]!r}"
    raise WrongUsage(message, hint=_HINT)


def read_trace(file: SourceFile, *, blocks: bool = False) -> Iterator[Request | Rejected]:
    """Yield each line's request or rejection.

    Args:
        file: of one of the two formats.
        blocks: whether requests are wanted with their blocks; a line without them is rejected then.

    Raises:
        WrongUsage: the file cannot be read to its end, or blocks are wanted of a format that has none.
    """
    if trace_format(file) == "mooncake":
        return _each(file.items(), lambda found: _mooncake(found, blocks=blocks))
    if blocks:
        message = f"trace {file.path}: has no hash_ids, so it does not say which prefixes were seen before"
        raise WrongUsage(message, hint="leave out --prefix-cache")
    names, rows = file.table()
    at, context, generated = (names.index(name) for name in _CSV_FIELDS)

    def azure(cells: list[str]) -> tuple[int, int, int, None]:
        if len(cells) != len(names):
            raise BadRecordError(f"has {len(cells)} cells; the head has {len(names)}")
        at_us = instant(cells[at].strip(), "TIMESTAMP", UTC)
        return at_us, _tokens(_whole(cells[context])), _tokens(_whole(cells[generated])), None

    return _each(rows, azure)


def read_together(file: SourceFile) -> Iterator[Requests | Request | Rejected]:
    """Yield the same as `read_trace` does, without blocks; requests together where lines are without a fault.

    Args:
        file: of one of the two formats.

    Raises:
        WrongUsage: the file cannot be read to its end.
    """
    if trace_format(file) != "mooncake":
        yield from read_trace(file)
        return
    decoder = decoder_of(_JSON_FIELDS)
    for piece in file.line_pieces():
        together = _together(piece, decoder)
        if together is not None:
            yield together
        else:
            yield from _each(zip(*piece.values(), strict=True), lambda found: _mooncake(found, blocks=False))


def _together(piece: Lines, decoder: Any) -> Requests | None:
    """Return requests where each line is one beyond doubt; else None: each is to be read by itself."""
    items = piece.objects(decoder)
    if items is None:
        return None
    lines = range(piece.before + 1, piece.before + 1 + len(items))
    at_ms, into, out = zip(*map(attrgetter(*_JSON_FIELDS), items), strict=True)
    is_whole = all(set(map(type, column)) == {int} for column in (at_ms, into, out))
    if not is_whole or min(map(min, (at_ms, into, out))) < 0:
        return None
    if max(at_ms) > _LATEST_MS or max(map(max, (into, out))) > _MOST_TOKENS:
        return None
    return Requests(lines, [each * 1_000 for each in at_ms], into, out)


def _each(
    lines: Iterator[tuple[int, Any]], read: Callable[[Any], tuple[int, int, int, Sequence[int] | None]]
) -> Iterator[Request | Rejected]:
    for line, found in lines:
        if isinstance(found, Rejected):
            yield found
            continue
        try:
            yield Request(line, *read(found))
        except BadRecordError as error:
            yield Rejected(line, str(error), str(found)[:2_000])


def _mooncake(found: Any, *, blocks: bool) -> tuple[int, int, int, Sequence[int] | None]:
    if not isinstance(found, dict) or [name for name in _JSON_FIELDS if name not in found]:
        raise BadRecordError(f"is not an object with {', '.join(_JSON_FIELDS)}")
    at_ms, input_length, output_length = (found[name] for name in _JSON_FIELDS)
    if type(at_ms) not in (int, Decimal) or not 0 <= at_ms <= _LATEST_MS:
        raise BadRecordError(f"timestamp is {str(at_ms)[:40]}; milliseconds from 0 to ten years are allowed")
    ids = found.get("hash_ids") if blocks else None
    if blocks and not (isinstance(ids, list) and all(type(each) is int for each in ids)):
        raise BadRecordError(f"hash_ids is {str(ids)[:40]}; a list of whole numbers is allowed")
    return int(at_ms * 1000), _tokens(input_length), _tokens(output_length), ids


def _whole(text: str) -> int | str:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else text


def _tokens(value: object) -> int:
    if type(value) is int and 0 <= value <= _MOST_TOKENS:
        return value
    raise BadRecordError(f"a token count is {str(value)[:40]!r}; a whole number from 0 to {_MOST_TOKENS} is allowed")
