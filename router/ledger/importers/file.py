"""A file of records: read through once before anything is written, then read again line by line.

In: a path; plain or gzip; UTF-8, UTF-16 with its byte order mark, or an encoding the user states; CSV, JSON lines, a
JSON document, or Parquet. Out: cells, objects, or one `WrongUsage` for a file that is cut, damaged, or not of its
encoding. Invariant: what makes the whole file unusable is found by `inspect_file`, so nothing of it is ever half
imported; memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple, TextIO, TypeVar

from router.errors import WrongUsage

if TYPE_CHECKING:
    from router.ledger.importers.delimited import Cells
    from router.ledger.importers.json_lines import Lines
    from router.ledger.importers.record import Rejected

Kind = Literal["table", "lines", "document", "parquet"]
Item = TypeVar("Item")

HEAD_CHARACTERS = 65_536
_ROWS_AT_ONCE = 2_000
"""A column is read at once for so many rows."""
_ROWS_AT_A_LOOK = 20  # between two looks at how many bytes they are
_BYTES_AT_ONCE = 1 << 21
_PIECE_BYTES = 1 << 20
_LINES_BYTES = 1 << 18  # whose lines are read at once
_GZIP, _ZIP, _PARQUET, _ZSTD = b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"\x28\xb5\x2f\xfd"
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ALLOWED = "UTF-8 and UTF-16 with a byte order mark are read as they are"


@dataclass(slots=True)
class _Reached:
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that has been read through without a fault.

    Args:
        path: the file.
        kind: a table of delimited text, JSON lines, another JSON document, or Parquet; from its content, not its name.
        encoding: Python's name of its encoding; "" for Parquet.
        compressed: whether it is gzip.
        sha256: digest of the file's bytes, hexadecimal.
        size_bytes: of the file as it lies there.
        lines: how many lines of text it has; 0 for Parquet.
        head: its beginning, up to 64 KiB of text; "" for Parquet.
        has_short_lines: no line is longer than 2 million characters, so that its lines may be read as they come.
        has_quotes: there is a double quote in it.
    """

    path: Path
    kind: Kind
    encoding: str
    compressed: bool
    sha256: str
    size_bytes: int
    lines: int
    head: str
    has_short_lines: bool = False
    has_quotes: bool = True
    _reached: _Reached = field(default_factory=_Reached, compare=False, repr=False)

    @property
    def read_bytes(self) -> int:
        """How many bytes of the file have been read by the reader that was opened last."""
        return self._reached.bytes

    def reach(self, share: float) -> None:
        """Take note of how much of the file has been read, where another library reads it.

        Args:
            share: 0 to 1.
        """
        self._reached.bytes = int(share * self.size_bytes)

    @contextmanager
    def text(self) -> Iterator[TextIO]:
        """Open the file's text, its line ends as they are.

        Raises:
            WrongUsage: it cannot be read to its end.
        """
        with self._content() as content:
            yield io.TextIOWrapper(content, encoding=self.encoding, newline="")

    def whole_lines(self) -> Iterator[str]:
        """Yield the file's text, many lines at once: each ends in a line feed, but perhaps the last one.

        To be used where `has_short_lines`.

        Raises:
            WrongUsage: it cannot be read to its end.
        """
        with self._content() as content:
            decoder = codecs.getincrementaldecoder(self.encoding)()
            rest = ""
            while piece := content.read(_LINES_BYTES):
                text = rest + decoder.decode(piece)
                end = text.rfind("\n") + 1
                rest = text[end:]
                if end:
                    yield text[:end]
            if rest := rest + decoder.decode(b"", final=True):
                yield rest

    @contextmanager
    def _content(self) -> Iterator[Any]:
        """Open the file's bytes, decompressed."""
        with file_faults(self.path), self.path.open("rb") as raw:
            counted: Any = io.BufferedReader(_Counted(raw, self._reached), _PIECE_BYTES)
            yield gzip.GzipFile(fileobj=counted) if self.compressed else counted

    def some_at_once(self, found: Iterator[Item]) -> Iterator[list[Item]]:
        """Yield what is read of the file, some at once: fewer where it is long, as records with their prompts are.

        Args:
            found: what the reader that was opened last yields.
        """
        some: list[Item] = []
        start, at_a_look = self.read_bytes, _ROWS_AT_A_LOOK if self.has_short_lines else 1
        while more := list(islice(found, at_a_look)):
            some += more
            if len(some) >= _ROWS_AT_ONCE or self.read_bytes - start > _BYTES_AT_ONCE:
                yield some
                some, start = [], self.read_bytes
        if some:
            yield some

    def table(self) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
        """Return a table's head and its rows with their lines; see `router.ledger.importers.delimited.rows`."""
        from router.ledger.importers.delimited import rows

        return rows(self)

    def table_columns(self) -> tuple[list[str], Iterator[Cells]]:
        """Return a table's head and its columns, some thousand rows at once; see `….delimited.columns`."""
        from router.ledger.importers.delimited import columns

        return columns(self)

    def items(self) -> Iterator[tuple[int, Any | Rejected]]:
        """Yield the objects of JSON lines, of a list, or of documents one behind the other; see `json_items`."""
        from router.ledger.importers.documents import json_items

        return json_items(self)

    def item_pieces(self) -> Iterator[tuple[Sequence[int], Sequence[Any | Rejected]]]:
        """Yield the same, some at once; see `router.ledger.importers.documents.json_pieces`."""
        from router.ledger.importers.documents import json_pieces

        return json_pieces(self)

    def line_pieces(self) -> Iterator[Lines]:
        """Yield the lines of JSON lines, some at once; see `router.ledger.importers.json_lines.line_pieces`."""
        from router.ledger.importers.json_lines import line_pieces

        return line_pieces(self)


class _Counted(io.RawIOBase):
    """Raw bytes, with what was read taken note of."""

    def __init__(self, raw: BinaryIO, reached: _Reached, digest: Any = None) -> None:
        self._raw, self._reached, self._digest = raw, reached, digest
        reached.bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._raw.read(len(buffer))
        buffer[: len(piece)] = piece
        self._reached.bytes += len(piece)
        if self._digest is not None:
            self._digest.update(piece)
        return len(piece)


@contextmanager
def file_faults(path: Path) -> Iterator[None]:
    """Turn what a file does wrong while it is read into one line.

    Raises:
        WrongUsage: it cannot be read, is cut or damaged, or its bytes are no text of its encoding.
    """
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_text(path, error.encoding, error.reason) from None
    except EOFError:
        raise WrongUsage(
            f"file {path}: its gzip data is cut; nothing of it is imported", hint="copy it again"
        ) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        message = f"file {path}: its gzip data is damaged: {error}; nothing of it is imported"
        raise WrongUsage(message, hint="copy it again") from None
    except OSError as error:
        raise WrongUsage(f"file {path}: cannot be read: {error.strerror}", hint="name a file that is there") from None


def inspect_file(path: Path, encoding: str | None = None) -> SourceFile:
    """Read a file through and return what it is.

    Args:
        path: the file.
        encoding: of its text; None: as its byte order mark says, else UTF-8.

    Raises:
        WrongUsage: it is missing, empty, cut, an archive, or not text of that encoding; a JSON document or a table that
            does not come to a proper end. The message says what and, where it can, in which line.
    """
    with file_faults(path), path.open("rb") as raw:
        magic = raw.read(4)
        raw.seek(0)
        _refuse_archive(path, magic)
        reached, digest = _Reached(), hashlib.sha256()
        counted: Any = io.BufferedReader(_Counted(raw, reached, digest), _PIECE_BYTES)
        if magic == _PARQUET:
            while counted.read(_PIECE_BYTES):
                pass
            return SourceFile(path, "parquet", "", False, digest.hexdigest(), reached.bytes, 0, "")  # noqa: FBT003
        compressed = magic.startswith(_GZIP)
        content = gzip.GzipFile(fileobj=counted) if compressed else counted
        text = _decoded(path, content, encoding)
        found = SourceFile(
            path,
            _kind(text.head),
            text.encoding,
            compressed,
            digest.hexdigest(),
            reached.bytes,
            text.lines,
            text.head,
            has_short_lines=text.has_short_lines,
            has_quotes=text.has_quotes,
        )
    _read_through(found)
    return found


def _refuse_archive(path: Path, magic: bytes) -> None:
    if magic == b"":
        raise WrongUsage(f"file {path}: is empty", hint="export it again")
    if magic == _ZIP:
        raise WrongUsage(f"file {path}: is a ZIP archive or a spreadsheet", hint="unpack it, or save it as CSV")
    if magic == _ZSTD:
        raise WrongUsage(f"file {path}: is Zstandard data; plain and gzip files are read", hint="unzstd it first")


class _Text(NamedTuple):
    """What is known of a text that was decoded to its end."""

    encoding: str
    lines: int
    head: str
    has_short_lines: bool
    has_quotes: bool


def _decoded(path: Path, content: Any, encoding: str | None) -> _Text:
    """Decode the whole file and return what is known of it."""
    piece = content.read(_PIECE_BYTES)
    name = encoding or next((each for mark, each in _MARKS if piece.startswith(mark)), "utf-8")
    try:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if name.lower() in {"utf-8", "utf8"} else name)()
    except LookupError:
        message = f"--encoding: {name!r} does not exist; {_ALLOWED}"
        raise WrongUsage(message, hint="for instance latin-1, cp1252 or utf-16-le") from None
    if encoding is None and b"\x00" in piece[:1000] and not name.startswith("utf-16"):
        message = f"file {path}: is not UTF-8 text: it has NUL bytes; {_ALLOWED}"
        raise WrongUsage(message, hint="state its encoding: --encoding utf-16-le, for instance")
    head, lines, last = "", 0, ""
    has_short_lines, has_quotes = True, False
    while piece:
        try:
            text = decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise _not_text(path, name, f"{error.reason} after line {lines + piece[: error.start].count(10)}") from None
        head += text[: HEAD_CHARACTERS - len(head)]
        ends = text.count("\n")
        lines += ends
        last = text or last
        has_quotes = has_quotes or '"' in text
        piece = content.read(_PIECE_BYTES)
        has_short_lines = has_short_lines and (ends > 0 or not piece)
    try:
        last = decoder.decode(b"", final=True) or last
    except UnicodeDecodeError:
        raise _not_text(path, name, f"its last character is cut, after line {lines}") from None
    if not head.strip():
        raise WrongUsage(f"file {path}: is empty", hint="export it again")
    known = "utf-8-sig" if name == "utf-8" else name
    return _Text(known, lines + (not last.endswith("\n")), head, has_short_lines, has_quotes)


def _not_text(path: Path, encoding: str, reason: str) -> WrongUsage:
    message = f"file {path}: is not {encoding.removesuffix('-sig').upper()} text: {reason}; nothing of it is imported"
    return WrongUsage(message, hint="state its encoding: --encoding latin-1, for instance")


def _kind(head: str) -> Kind:
    text = head.lstrip()
    if text[0] not in "{[":
        return "table"
    from router.ledger.importers.documents import is_whole

    first, feed, rest = text.partition("\n")
    cut = len(head) == HEAD_CHARACTERS
    if text[0] == "{" and (is_whole(first) or (feed and rest.lstrip().startswith("{")) or (cut and not feed)):
        return "lines"
    return "document"


def _read_through(file: SourceFile) -> None:
    """Find what makes the whole file unusable before any of it is used."""
    if file.kind == "table":
        from router.ledger.importers.delimited import check

        check(file)
    elif file.kind == "document":
        for _ in file.items():
            pass
