"""Takes a request trace into the ledger, as attempts that somebody else made, priced as a model of the user's choice.

In: a trace file, a model, a price list, the instant its first moment is mapped to. Out: rows marked *imported*.
Invariant: importing the same file again, at the same model, list, start and use of the cache, adds nothing: a row's id
is a name made of these and of its line. Latency is not in a trace, and stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pricing import Catalog
from router.errors import WrongUsage
from router.ledger.importers.booking import Booking
from router.ledger.importers.file import SourceFile, inspect_file
from router.ledger.importers.importing import Origin, Watch, import_records
from router.ledger.importers.record import Block, Counts, Record, Rejected
from router.ledger.importers.source import Found
from router.ledger.importers.tally import ImportResult
from router.ledger.importers.trace_file import (
    PrefixCache,
    Request,
    Requests,
    read_together,
    read_trace,
    trace_format,
)
from router.ledger.keys import named_id
from router.ledger.reader import instant_us
from router.ledger.records import Import
from router.ledger.store import Ledger

__all__ = ["ENDPOINT", "ImportResult", "import_trace"]

ENDPOINT = "imported"


def import_trace(  # noqa: PLR0913 - what a record would say of itself is stated here
    ledger: Ledger | None,
    file: Path | SourceFile,
    *,
    model: str,
    start: datetime | None,
    catalog: Catalog,
    price_list: str = "vendor",
    configuration: str | None = None,
    prefix_cache: bool = False,
    watch: Watch | None = None,
) -> ImportResult:
    """Read a trace, price each request at its instant, and write it as an imported attempt.

    A request whose instant has no price gets an unknown cost. Nothing is discounted: settled cost is list cost.

    Args:
        ledger: where rows go; None: a dry run that writes nothing.
        file: the trace.
        model: the model to price as: an id or alias of the list.
        start: aware instant of the trace's first moment; None: the trace's own dates (Azure's has them).
        catalog: the prices.
        price_list: a list's name, or "vendor".
        configuration: what the rows are booked under, or None. It is no part of their identity.
        prefix_cache: whether leading blocks of a prompt that an earlier one had too are cache reads (Mooncake's
            `hash_ids`; nothing is ever evicted); else no request reads from a cache.
        watch: who is told while it goes on.

    Returns:
        What was read, added, skipped and rejected.

    Raises:
        WrongUsage: the file is missing, empty, damaged, of no known format or without any request, or it needs a start.
        RouterError: every line of it was rejected.
        UnknownModel: the list has no such model.
        LedgerError: the ledger cannot be written; what was committed before stays, and the next import completes it.
    """
    if start is not None and start.tzinfo is None:
        raise WrongUsage(f"start: {start} has no zone; an aware instant is allowed", hint="add Z for UTC")
    seller = catalog.vendor_list(model) if price_list == "vendor" else price_list
    model = catalog.resolve(model, seller)
    trace = inspect_file(file) if isinstance(file, Path) else file
    zero_us, start_us = _mapping(trace, start)
    parts = (trace.sha256, model, seller, start_us, *(("prefix cache",) if prefix_cache else ()))
    taken = Import(
        import_id=named_id("trace", *parts),
        format=trace_format(trace),
        file_name=trace.path.name,
        file_sha256=trace.sha256,
        model=model,
        price_list=seller,
        configuration=configuration,
        start_us=start_us,
    )
    origin = Origin(
        trace.path.name,
        trace.sha256,
        lambda: _records(trace, model, start_us - zero_us, prefix_cache=prefix_cache),
        reached=lambda: (trace.read_bytes, trace.size_bytes),
    )
    booking = Booking(ENDPOINT, seller, configuration=configuration)
    return import_records(ledger, origin, taken, booking, catalog, watch)


def _mapping(trace: SourceFile, start: datetime | None) -> tuple[int, int]:
    """Return the trace's own first moment and the instant it is mapped to, both in microseconds."""
    if trace_format(trace) == "mooncake":
        if start is None:
            message = f"start: {trace.path.name} counts milliseconds from its start and needs one"
            raise WrongUsage(message, hint="for instance --start 2026-10-01T00:00:00Z")
        return 0, instant_us(start)
    first = next((line.at_us for line in read_trace(trace) if isinstance(line, Request)), 0)
    return first, first if start is None else instant_us(start)


def _records(trace: SourceFile, model: str, shift_us: int, *, prefix_cache: bool) -> Iterator[Found]:
    cache = PrefixCache()
    for found in read_trace(trace, blocks=True) if prefix_cache else read_together(trace):
        if isinstance(found, Rejected):
            yield found
        elif isinstance(found, Requests):
            at_us = [each + shift_us for each in found.at_us]
            columns = {"line": found.lines, "at_us": at_us, "model": (model,) * len(at_us)}
            counted = {"uncached_input_tokens": found.input_tokens, "plain_output_tokens": found.output_tokens}
            yield Block(columns, counted)
        else:
            cached = cache.read_tokens(found) if prefix_cache else 0
            counts = Counts(found.input_tokens - cached, cached, plain_output_tokens=found.output_tokens)
            yield Record(found.line, found.at_us + shift_us, model, counts)
