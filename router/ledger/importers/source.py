"""The seam to every format: what a source of records is, and what the user may say about how its files are to be read.

A format is one module with a `SOURCE`; `router.ledger.importers.formats` lists them. Adding one needs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import tzinfo
from types import MappingProxyType
from typing import Literal

from router.ledger.importers.file import SourceFile
from router.ledger.importers.record import Block, Record, Rejected

Found = Record | Block | Rejected
Thousands = Literal["comma", "dot", "space"]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user states about files.

    Args:
        now_us: the instant of the import, microseconds since 1970 UTC; a bucket that ends later is not over yet.
        zone: zone of instants that name none; None: the source's documented one, and where there is none, such an
            instant is rejected.
        columns: for generic tables, our field by their column; empty: our own names.
        thousands: the sign between thousands, where numbers have one; None: such a number is rejected.
        input_excludes_cache: for generic tables: input tokens leave out those read from and written to a cache.
        allow_open: take buckets that are not over yet.
    """

    now_us: int
    zone: tzinfo | None = None
    columns: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    thousands: Thousands | None = None
    input_excludes_cache: bool = False
    allow_open: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A format of records.

    Args:
        name: what the user calls it, also the default name of the endpoint its rows are booked under.
        title: for messages, for instance "OpenAI usage API".
        recognises: whether a file's beginning (up to 64 KiB of text) looks like it.
        expected: what such a file has, for the message where it is not recognised.
        read: yields the file's records (many at once as a `Block`, where it can) and rejected lines, in their order,
            in bounded memory. It raises `WrongUsage` where the file as a whole is not what it should be; then nothing
            of it is imported.
        read_url: the same from a database, given its URL; None: it is read from files alone.
    """

    name: str
    title: str
    recognises: Callable[[str], bool]
    expected: str
    read: Callable[[SourceFile, ReadOptions], Iterator[Found]]
    read_url: Callable[[str, ReadOptions], Iterator[Found]] | None = None
