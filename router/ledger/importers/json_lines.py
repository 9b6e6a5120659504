"""JSON lines, many at once: each line's value, or why it has none.

In: a `SourceFile` of the kind "lines". Out: pieces of whole lines, which may be decoded as whatever is wanted of them.
Invariant: lines that are decoded together are what `json` reads in each; a line that is none is rejected alone.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TextIO

import numpy as np

from router.ledger.importers.documents import BLANKS, DECODER
from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import Rejected

LONGEST_LINE = 4_000_000
"""Characters: a record with its prompt and answer may be long; one that is longer is no record."""

_SHOWN = 2_000
_LINE_FEED, _OPEN, _CLOSE = b"\n{}"
_NOTHING = object()  # an empty line's value


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file.

    Args:
        before: how many lines are before them.
        text: they, each with its end.
        cut: they, where a line may have been too long: of such a one its beginning; None: none is.
    """

    before: int
    text: str
    cut: Sequence[str] | None = None

    def each(self) -> Sequence[str]:
        """Return them one by one."""
        return list(io.StringIO(self.text, newline="")) if self.cut is None else self.cut

    def objects(self, decoder: Any) -> list[Any] | None:
        """Return what they are decoded as, where each is one object beyond doubt; else None.

        Args:
            decoder: of msgspec, which reads them in half the time of `json`. What it refuses (lone surrogates, as some
                writers have them, among it) is left to `values`, which has the last word.
        """
        from msgspec import MsgspecError

        text = self.text.replace("\r\n", "\n")
        if "\r" in text:  # an end of a line to whoever reads them one by one, and a blank to the decoder
            return None
        try:
            raw = text.encode()
            count = _count_of_objects(raw if raw.endswith(b"\n") else raw + b"\n")
            found: list[Any] = decoder.decode_lines(raw) if count else []
        except (MsgspecError, ValueError, RecursionError):
            return None
        return found if found and len(found) == count else None

    def values(self) -> tuple[Sequence[int], Sequence[Any | Rejected]]:
        """Return the numbers of those that are not empty, and the value of each or why it is none."""
        from msgspec.json import Decoder

        plain = self.objects(Decoder(float_hook=Decimal))
        if plain is not None:
            return range(self.before + 1, self.before + 1 + len(plain)), plain
        found = [(number, _value(number, line)) for number, line in enumerate(self.each(), self.before + 1)]
        kept = [(number, value) for number, value in found if value is not _NOTHING]
        return [number for number, _ in kept], [value for _, value in kept]


def line_pieces(file: SourceFile) -> Iterator[Lines]:
    """Yield a file's lines, some at once.

    Args:
        file: of the kind "lines".

    Raises:
        WrongUsage: it cannot be read to its end.
    """
    before = 0
    if file.has_short_lines:
        for text in file.whole_lines():
            yield Lines(before, text)
            before += _count_of_lines(text)
        return
    with file.text() as opened:
        for some in file.some_at_once(_cut_lines(opened)):
            yield Lines(before, "", some)
            before += len(some)


def struct_of(keys: Collection[str]) -> tuple[Any, Mapping[str, str]] | None:
    """Return msgspec's decoder of objects that have these keys and no others, and the attribute of each key.

    Args:
        keys: of an object.

    Returns:
        None: there is a key that msgspec cannot take.
    """
    from msgspec import defstruct
    from msgspec.json import Decoder

    names = [f"key{place}" for place in range(len(keys))]
    try:
        told = defstruct(
            "Told",
            [(name, Any) for name in names],
            rename=dict(zip(names, keys, strict=True)),
            forbid_unknown_fields=True,
            gc=False,
        )
    except (TypeError, ValueError):
        return None
    return Decoder(told, float_hook=Decimal), dict(zip(keys, names, strict=True))


def decoder_of(keys: Sequence[str]) -> Any:
    """Return msgspec's decoder of objects that have some keys at least, as objects with those attributes alone.

    Args:
        keys: names that Python takes for attributes.
    """
    from msgspec import defstruct
    from msgspec.json import Decoder

    return Decoder(defstruct("Told", [(key, Any) for key in keys], gc=False), float_hook=Decimal)


def _count_of_lines(text: str) -> int:
    if "\r" in text:
        return sum(1 for _ in io.StringIO(text, newline=""))
    return text.count("\n") + (not text.endswith("\n"))


def _count_of_objects(raw: bytes) -> int:
    """Return how many lines there are, where each begins and ends as an object does; else 0.

    No object goes on in a new line then, since nothing in JSON begins with { right after }. Where there are as many
    values as lines, each line is one.
    """
    signs = np.frombuffer(raw, np.uint8)
    ends = np.flatnonzero(signs == _LINE_FEED)
    if signs[0] != _OPEN or (signs[ends - 1] != _CLOSE).any() or (signs[ends[:-1] + 1] != _OPEN).any():
        return 0
    return len(ends)


def _cut_lines(text: TextIO) -> Iterator[str]:
    """Yield lines; of one that is too long its beginning, which is no whole line then."""
    while line := text.readline(LONGEST_LINE):
        yield line
        if len(line) == LONGEST_LINE and not line.endswith("\n"):
            while (rest := text.readline(LONGEST_LINE)) and not rest.endswith("\n"):
                pass


def _value(number: int, line: str) -> Any:
    """Return a line's value, `_NOTHING`, or why it is none."""
    if len(line) == LONGEST_LINE and not line.endswith("\n"):
        return Rejected(number, f"is longer than {LONGEST_LINE:,} characters", line[:_SHOWN])
    shown = line.strip(BLANKS)
    if not shown:
        return _NOTHING
    try:
        value, end = DECODER.scan_once(shown, 0)  # what `json.loads` ends in
    except (ValueError, RecursionError, StopIteration):
        value, end = None, -1
    if end == len(shown):
        return value
    return Rejected(number, "is not JSON" if line.endswith("\n") else "is not JSON: the file is cut", shown[:_SHOWN])
