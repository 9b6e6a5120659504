"""The way in for files and databases: what an argument names, whether it is of the format, and the import itself.

In: a format's name, a path or a database's URL, what the user states. Out: an `Origin`, or an `ImportResult`.
Invariant: a file of another format is refused before a ledger is opened for it, and the format it looks like is named.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pricing import Catalog
from router.errors import WrongUsage
from router.ledger.importers.booking import Booking
from router.ledger.importers.file import SourceFile, inspect_file
from router.ledger.importers.formats import FORMATS, source_named
from router.ledger.importers.importing import Origin, Watch, import_of, import_records
from router.ledger.importers.source import ReadOptions, Source
from router.ledger.importers.tally import ImportResult
from router.ledger.store import Ledger

_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
_GENERIC = "generic"


def origin_of(source: Source, argument: str, options: ReadOptions, encoding: str | None = None) -> Origin:
    """Return what an argument names, after it was read through once where it is a file.

    Args:
        source: the format it is said to be of.
        argument: a path, or a database's URL where the format can be read from one.
        options: how it is read.
        encoding: of its text; None: as its byte order mark says, else UTF-8.

    Raises:
        WrongUsage: it is missing, damaged, of another format, or a URL where a file is needed.
    """
    if "://" in argument:
        return _database(source, argument, options)
    file = inspect_file(Path(argument), encoding)
    if not _is_of(source, file):
        raise _other(source, file)
    return Origin(
        file.path.name,
        file.sha256,
        lambda: source.read(file, options),
        now_us=options.now_us,
        allow_open=options.allow_open,
        reached=lambda: (file.read_bytes, file.size_bytes),
    )


def _database(source: Source, url: str, options: ReadOptions) -> Origin:
    shown = _PASSWORD.sub(r"\1:***@", url)
    read = source.read_url
    if read is None:
        message = f"source {source.name}: {shown} is a URL; a file is allowed"
        raise WrongUsage(message, hint="export it to a file first")
    digest = hashlib.sha256(shown.encode()).hexdigest()
    return Origin(shown, digest, lambda: read(url, options), now_us=options.now_us, allow_open=options.allow_open)


def _is_of(source: Source, file: SourceFile) -> bool:
    if file.kind == "parquet":
        return source.name == _GENERIC
    return source.recognises(file.head)


def _other(source: Source, file: SourceFile) -> WrongUsage:
    first = file.head.strip().partition("\n")[0][:60]
    shown = "Parquet" if file.kind == "parquet" else f"its beginning is {first!r}"
    message = f"file {file.path}: is not of {source.title}: {shown}"
    others = [name for name in FORMATS if name not in {source.name, _GENERIC}]
    like = next((name for name in others if _is_of(source_named(name), file)), None)
    if like is not None:
        return WrongUsage(message, hint=f"it looks like router import {like}")
    return WrongUsage(message, hint=f"expected: {source.expected}; any other table: router import {_GENERIC}")


def import_file(
    ledger: Ledger | None,
    source_name: str,
    argument: str,
    *,
    catalog: Catalog,
    options: ReadOptions,
    booking: Booking | None = None,
    encoding: str | None = None,
    watch: Watch | None = None,
) -> ImportResult:
    """Import a file of a format.

    Args:
        ledger: where rows go; None: a dry run that writes nothing.
        source_name: one of `router.ledger.importers.formats.FORMATS`.
        argument: as for `origin_of`.
        catalog: the prices.
        options: how it is read.
        booking: what is stated for all records; None: the source's name is the endpoint, prices are the vendors'.
        encoding: as for `origin_of`.
        watch: who is told while it goes on.

    Returns:
        What was read, added, there already and rejected.

    Raises:
        WrongUsage: there is no such format, or the file is not one that can be imported; nothing of it is.
        RouterError: every line of it was rejected.
        LedgerError: the ledger cannot be written; the same call completes what was begun.
    """
    source = source_named(source_name)
    booked = booking or Booking(source_name)
    origin = origin_of(source, argument, options, encoding)
    return import_records(ledger, origin, import_of(source, origin, booked, options), booked, catalog, watch)
