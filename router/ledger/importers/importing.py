"""Takes one file of records into the ledger: read, price, write, count.

In: a file that was read through without a fault, what the user states, the catalogue. Out: rows marked *imported*, and
an `ImportResult`. Invariant: importing a file again adds nothing, and so does another file with the same records where
the source names them. A file of up to 250,000 records is written in one transaction, a larger one in
several: each holds the write lock of SQLite for some seconds. One that was killed between them is completed by the same
command.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pricing import Catalog, PriceSet, UsageError
from router.errors import RouterError, WrongUsage
from router.ledger.importers.booking import Booking, Sellers
from router.ledger.importers.buckets import count_bucket, priced_bucket
from router.ledger.importers.feed import Feed
from router.ledger.importers.priced import Pricer, columns_of
from router.ledger.importers.record import Block, Record, Rejected
from router.ledger.importers.rows import Naming, RowMaker
from router.ledger.importers.sink import Piece, Sink
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.tally import ImportResult, Tally
from router.ledger.keys import named_id
from router.ledger.reader import instant_at
from router.ledger.records import AS_RECORDED, Import, UsageBucket
from router.ledger.rows import DAY_US
from router.ledger.store import Ledger

RECORDS_AT_ONCE = 10_000
RECORDS_IN_ONE_TRANSACTION = 250_000
_NEVER_US = 2**63
_TURN_S = 0.000_5
_FREE_S = 0.12  # a process that waits for SQLite's lock looks every 0.1 s
_CLOCKS_DIFFER_US = 3_600_000_000  # an hour: the clock of who recorded it may be ahead of ours


@dataclass(frozen=True, slots=True)
class Origin:
    """Where records come from: a file, or a database.

    Args:
        name: the file's name without its folder, or the database's without a password.
        sha256: digest of its bytes, hexadecimal; of a database, of its name.
        found: reads it, from the start.
        now_us: the instant of the import, microseconds since 1970 UTC; what is of later is rejected. None: nothing is.
        allow_open: take buckets that are not over yet.
        reached: how many bytes have been read, and of how many.
    """

    name: str
    sha256: str
    found: Callable[[], Iterator[Found]]
    now_us: int | None = None
    allow_open: bool = False
    reached: Callable[[], tuple[int, int]] = field(default=lambda: (0, 0))


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told while an import goes on.

    Args:
        on_progress: of bytes read and bytes in all, now and then.
        on_reject: of every rejected line.
        on_wait: that another process is writing to the ledger, which the import waits for.
    """

    on_progress: Callable[[int, int], None] | None = None
    on_reject: Callable[[Rejected], None] | None = None
    on_wait: Callable[[], None] | None = None


def import_of(source: Source, origin: Origin, booking: Booking, options: ReadOptions) -> Import:
    """Return the row of an import; equal files, formats and options give the same one.

    Args:
        source: the format.
        origin: the file.
        booking: what is stated for all records.
        options: how the file is read.
    """
    stated = (
        *(
            booking.endpoint,
            booking.price_list,
            booking.last_list,
            [(at, each.id) for at, each in booking.terms],
            booking.configuration,
        ),
        *(booking.task_class, booking.tenant, booking.role, sorted(booking.model_map.items())),
        *(options.zone, sorted(options.columns.items()), options.thousands, options.input_excludes_cache),
    )
    return Import(
        import_id=named_id("import", source.name, origin.sha256, repr(stated)),
        format=source.name,
        file_name=origin.name,
        file_sha256=origin.sha256,
        model=AS_RECORDED,
        price_list=AS_RECORDED if booking.price_list == "vendor" else booking.price_list,
        configuration=booking.configuration,
        start_us=0,
    )


def import_records(
    ledger: Ledger | None,
    origin: Origin,
    taken: Import,
    booking: Booking,
    catalog: Catalog,
    watch: Watch | None = None,
    in_one_transaction: int = RECORDS_IN_ONE_TRANSACTION,
) -> ImportResult:
    """Price a file's records at their instants and write them.

    Args:
        ledger: where rows go; None: a dry run that writes nothing.
        origin: the file.
        taken: the import's row.
        booking: what is stated for all records.
        catalog: the prices.
        watch: who is told while it goes on.
        in_one_transaction: how many records are committed together, at least; more of a file come in the next one.

    Returns:
        What was read, added, there already and rejected.

    Raises:
        WrongUsage: the file has no record at all, or was imported with other options.
        RouterError: every line of it was rejected.
        PricingError: a price list that does not exist.
        LedgerError: the ledger cannot be written; what was committed before stays, and the same command completes it.
    """
    watch = watch or Watch()
    sellers = Sellers(catalog, booking)
    naming = Naming(taken.format, booking.endpoint, taken.import_id)
    tally = Tally(on_reject=watch.on_reject)
    maker = RowMaker(taken.import_id, booking, naming, sellers)
    reading = _Reading(origin, taken, booking, sellers, naming, maker, tally, watch)
    with _no_collector(), _short_turns():
        if ledger is None:
            for _ in reading.pieces():
                pass
        else:
            _write(ledger, reading, Sink(taken, booking), in_one_transaction)
    if not tally.rows:
        raise _nothing(origin, tally)
    return tally.result(taken.import_id, taken.format, origin.name, written=ledger is not None)


def _nothing(origin: Origin, tally: Tally) -> RouterError:
    if not tally.rejected:
        return WrongUsage(f"file {origin.name}: has no record in it", hint="nothing was written")
    first = tally.rejected[0]
    message = f"file {origin.name}: all {tally.rejected_rows:,} lines were rejected; line {first.line}: {first.reason}"
    return RouterError(message, hint="nothing was written")


def _write(ledger: Ledger, reading: _Reading, sink: Sink, in_one_transaction: int) -> None:
    """Write all pieces, in as many transactions as it takes; whatever fails or interrupts rolls the last one back."""
    pieces = reading.pieces()
    piece = next(pieces, None)
    while piece is not None:
        feed = Feed(ledger, sink, reading.watch.on_wait)
        try:
            fed = 0
            while piece is not None and fed < in_one_transaction:
                feed.put(piece)
                fed += piece.size
                piece = next(pieces, None) if fed < in_one_transaction else None
            added, differing = feed.end()
        except BaseException:
            feed.stop()
            raise
        reading.tally.added += added
        reading.tally.differing += differing
        ended = time.monotonic()
        piece = next(pieces, None) if fed >= in_one_transaction else None
        if piece is not None:
            time.sleep(max(0.0, _FREE_S - (time.monotonic() - ended)))  # others may write now


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the collector of cycles out: it would walk through a piece's tuples again and again, a third of all time.

    Nothing that an import makes refers to itself, so what is no longer used is freed at once all the same.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let two threads of Python take turns soon: whoever writes waits for its turn after each of SQLite's statements.

    At the interpreter's own 5 ms that wait is a quarter of what a statement of 1,000 rows takes.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _TURN_S))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Reading:
    """Reads a file's records in pieces of bounded size."""

    def __init__(
        self,
        origin: Origin,
        taken: Import,
        booking: Booking,
        sellers: Sellers,
        naming: Naming,
        maker: RowMaker,
        tally: Tally,
        watch: Watch,
    ) -> None:
        self.tally, self.watch = tally, watch
        self._origin, self._taken, self._booking = origin, taken, booking
        self._sellers, self._naming, self._maker = sellers, naming, maker
        self._pricer = Pricer(sellers)

    def pieces(self) -> Iterator[Piece]:
        """Yield priced records, in their order."""
        parts = _Parts()
        buckets: list[Record] = []
        now_us = _NEVER_US if self._origin.now_us is None else self._origin.now_us
        latest_us = now_us + _CLOCKS_DIFFER_US
        open_until_us = _NEVER_US if self._origin.allow_open else now_us
        for found in self._known(latest_us):
            if type(found) is Record and found.end_us is None and found.at_us <= latest_us:
                parts.add(found)
            elif isinstance(found, Block):
                parts.add_block(found)
            elif isinstance(found, Record) and found.end_us is not None and found.at_us < found.end_us <= open_until_us:
                buckets.append(found)
            else:
                self.tally.reject(found if isinstance(found, Rejected) else _wrong_time(found))
                continue
            if parts.size + len(buckets) >= RECORDS_AT_ONCE:
                yield self._piece(parts.blocks(), buckets)
                parts, buckets = _Parts(), []
        if parts.size or buckets:
            yield self._piece(parts.blocks(), buckets)

    def _known(self, latest_us: int) -> Iterator[Found]:
        """Yield what is found; of a block with a record of the future its records."""
        for found in self._origin.found():
            if isinstance(found, Block) and max(found.columns["at_us"]) > latest_us:
                yield from found.records()
            else:
                yield found

    def _piece(self, blocks: list[Block | list[Record]], bucket_records: list[Record]) -> Piece:
        requests = self._pricer.price(*columns_of(blocks), self.tally) if blocks else None
        sets: list[PriceSet] = []
        if requests is not None:
            sets.extend(group.prices for group in requests.groups if group.prices is not None)
        buckets: list[UsageBucket] = []
        for record in bucket_records:
            identity = self._naming.ids((record.at_us // DAY_US,), (record.identity,), (record.line,))[0]
            try:
                bucket, prices = priced_bucket(record, identity, self._taken.import_id, self._booking, self._sellers)
            except UsageError as error:
                self.tally.reject(Rejected(record.line, str(error)))
                continue
            count_bucket(bucket, self.tally)
            buckets.append(bucket)
            sets.extend(() if prices is None else (prices,))
        if self.watch.on_progress is not None:
            self.watch.on_progress(*self._origin.reached())
        made = None if requests is None else self._maker.rows(requests)
        return Piece(made, buckets, sets)


class _Parts:
    """Requests in their order: blocks of them, and single ones."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Block | list[Record]] = []

    def add(self, record: Record) -> None:
        if not self._parts or isinstance(self._parts[-1], Block):
            self._parts.append([])
        self._parts[-1].append(record)  # type: ignore[union-attr]
        self.size += 1

    def add_block(self, block: Block) -> None:
        self._parts.append(block)
        self.size += len(block)

    def blocks(self) -> list[Block | list[Record]]:
        return self._parts


def _wrong_time(record: Record) -> Rejected:
    if record.end_us is None:
        reason = f"is of {instant_at(record.at_us):%Y-%m-%d %H:%M}Z, which is in the future"
    elif record.end_us <= record.at_us:
        reason = "is a bucket that ends before it begins"
    else:
        reason = f"is a bucket that ends at {instant_at(record.end_us):%Y-%m-%d %H:%M}Z and is not over yet"
    return Rejected(record.line, reason, record.model)
