"""Takes a request trace into the ledger, as attempts that somebody else made, priced as a model of the user's choice.

In: a trace file, a model, a price list, the instant its first moment is mapped to. Out: rows marked *imported*.
Invariant: importing the same file again, at the same model, list and start, adds nothing, also when the first was
killed half-way: a row's id is a name made of these and of its line. Latency is not in a trace, and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path

from pricing import Catalog, Cost, PriceSet, Usage, price_call
from router.errors import WrongUsage
from router.ledger.importers.trace_file import Rejected, Request, TraceFile, inspect_trace, read_trace
from router.ledger.keys import named_id
from router.ledger.reader import instant_at, instant_us
from router.ledger.records import Amount, AttemptEnded, AttemptStarted, Import, ImportedAttempt
from router.ledger.store import Ledger

ENDPOINT = "imported"
_ROWS_AT_ONCE = 2_000
_MOST_REASONS = 1_000  # kept with their line; the count goes on


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import did.

    Args:
        import_id: the row of `imports`.
        format: the format found: "mooncake" or "azure".
        rows: requests read.
        added: of them new in the ledger; with a dry run, none.
        skipped: of them there already.
        unpriced: of them without a price at their instant, so of unknown cost.
        input_tokens, output_tokens: sums over all requests read, tokens.
        list_cost: sum over the priced ones by currency, exact.
        first_us, last_us: earliest and latest instant, microseconds since 1970 UTC; None without requests.
        rejected: the first 1,000 lines that are no request, with their reasons.
        rejected_rows: all of them, counted.
    """

    import_id: str
    format: str
    rows: int
    added: int
    skipped: int
    unpriced: int
    input_tokens: int
    output_tokens: int
    list_cost: tuple[Amount, ...]
    first_us: int | None
    last_us: int | None
    rejected: tuple[Rejected, ...]
    rejected_rows: int


@dataclass(slots=True)
class _Tally:
    rows: int = 0
    added: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    list_cost: dict[str, Decimal] = field(default_factory=dict)
    first_us: int | None = None
    last_us: int | None = None
    rejected: list[Rejected] = field(default_factory=list)
    rejected_rows: int = 0

    def reject(self, line: Rejected) -> None:
        self.rejected_rows += 1
        if len(self.rejected) < _MOST_REASONS:
            self.rejected.append(line)

    def count(self, request: Request, at_us: int, cost: Amount | None) -> None:
        self.rows += 1
        self.input_tokens += request.input_tokens
        self.output_tokens += request.output_tokens
        self.first_us = at_us if self.first_us is None else min(self.first_us, at_us)
        self.last_us = at_us if self.last_us is None else max(self.last_us, at_us)
        if cost is None:
            self.unpriced += 1
        else:
            self.list_cost[cost.currency] = self.list_cost.get(cost.currency, Decimal(0)) + cost.value


class _Pricer:
    """Prices requests one by one; looks the catalogue up again only where a price set's dates end."""

    def __init__(self, catalog: Catalog, model: str, price_list: str) -> None:
        self._catalog, self._model, self._price_list = catalog, model, price_list
        self._prices: PriceSet | None = None

    def price(self, usage: Usage, at_us: int) -> tuple[Cost, PriceSet | None]:
        at = instant_at(at_us)
        if self._prices is None or not self._prices.in_force(at):
            self._prices = self._catalog.price_set(self._model, self._price_list, at)
        return price_call(usage, self._prices, at=at), self._prices


def import_trace(
    ledger: Ledger | None,
    file: Path,
    *,
    model: str,
    start: datetime | None,
    catalog: Catalog,
    price_list: str = "vendor",
    configuration: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ImportResult:
    """Read a trace, price each request at its instant, and write it as an imported attempt.

    No request reads from a cache: a trace's `hash_ids` are not used. A request whose instant has no price gets
    an unknown cost. Nothing is discounted: settled cost is list cost.

    Args:
        ledger: where rows go; None: a dry run that writes nothing.
        file: the trace.
        model: the model to price as: an id or alias of the list.
        start: aware instant of the trace's first moment; None: the trace's own dates (Azure's has them).
        catalog: the prices.
        price_list: a list's name, or "vendor".
        configuration: what the rows are booked under, or None. It is no part of their identity.
        progress: called now and then with bytes read and bytes in all.

    Returns:
        What was read, added, skipped and rejected.

    Raises:
        WrongUsage: the file is missing, empty, of no known format or without any request, or it needs a start.
        UnknownModel: the list has no such model.
        LedgerError: the ledger cannot be written; what was written before stays, and the next import completes it.
    """
    if start is not None and start.tzinfo is None:
        raise WrongUsage(f"start: {start} has no zone; an aware instant is allowed", hint="add Z for UTC")
    seller = catalog.vendor_list(model) if price_list == "vendor" else price_list
    model = catalog.resolve(model, seller)
    trace = inspect_trace(file)
    zero_us, start_us = _mapping(trace, start)
    taken = _import(trace, model, seller, configuration, start_us)
    pricer, tally = _Pricer(catalog, model, seller), _Tally()
    sink = None if ledger is None else _Sink(ledger, taken)
    lines = read_trace(trace)
    while batch := list(islice(lines, _ROWS_AT_ONCE)):
        requests = _requests((line for line, _ in batch), tally)
        made = [_attempt(request, taken, pricer, tally, start_us - zero_us) for request in requests]
        if sink is not None and made:
            tally.added += sink.write(made)
        if progress is not None:
            progress(batch[-1][1], trace.size_bytes)
    if not tally.rows:
        reason = f"line {tally.rejected[0].line} {tally.rejected[0].reason}" if tally.rejected else "it has a head only"
        raise WrongUsage(f"trace {file}: has no request in it: {reason}", hint="nothing was written")
    return _result(taken, tally, written=ledger is not None)


def _mapping(trace: TraceFile, start: datetime | None) -> tuple[int, int]:
    """Return the trace's own first moment and the instant it is mapped to, both in microseconds."""
    if trace.format == "mooncake":
        if start is None:
            message = f"start: {trace.path.name} counts milliseconds from its start and needs one"
            raise WrongUsage(message, hint="for instance --start 2026-10-01T00:00:00Z")
        return 0, instant_us(start)
    first = next((line.at_us for line, _ in read_trace(trace) if isinstance(line, Request)), 0)
    return first, first if start is None else instant_us(start)


def _import(trace: TraceFile, model: str, price_list: str, configuration: str | None, start_us: int) -> Import:
    return Import(
        import_id=named_id("trace", trace.sha256, model, price_list, start_us),
        format=trace.format,
        file_name=trace.path.name,
        file_sha256=trace.sha256,
        model=model,
        price_list=price_list,
        configuration=configuration,
        start_us=start_us,
    )


def _requests(lines: Iterator[Request | Rejected], tally: _Tally) -> Iterator[Request]:
    for line in lines:
        if isinstance(line, Rejected):
            tally.reject(line)
        else:
            yield line


def _attempt(
    request: Request, taken: Import, pricer: _Pricer, tally: _Tally, shift_us: int
) -> tuple[ImportedAttempt, PriceSet | None]:
    at_us = request.at_us + shift_us
    usage = Usage(uncached_input_tokens=request.input_tokens, plain_output_tokens=request.output_tokens)
    cost, prices = pricer.price(usage, at_us)
    amount = None if cost.total is None or cost.currency is None else Amount(cost.currency, cost.total)
    tally.count(request, at_us, amount)
    attempt_id = named_id(taken.import_id, request.line)
    started = AttemptStarted(
        attempt_id=attempt_id,
        call_key=f"import:{attempt_id}",
        number=1,
        configuration=taken.configuration,
        endpoint=ENDPOINT,
        price_list=taken.price_list,
        model_asked=taken.model,
        started_us=at_us,
    )
    ended = AttemptEnded(
        attempt_id=attempt_id,
        status="succeeded",
        cost_status=cost.status,
        latency_us=None,
        model_served=taken.model,
        usage=usage,
        list_cost=amount,
        settled_cost=amount,
        price_set_id=prices.id if prices is not None else None,
    )
    return ImportedAttempt(taken.import_id, started, ended), prices


class _Sink:
    """Writes batches; what they refer to is written before the first that needs it."""

    def __init__(self, ledger: Ledger, taken: Import) -> None:
        self._ledger, self._taken = ledger, taken
        self._known: set[str] = set()

    def write(self, made: Sequence[tuple[ImportedAttempt, PriceSet | None]]) -> int:
        """Write a batch in one transaction and return how many attempts were new."""
        fresh = {prices.id: prices for _, prices in made if prices is not None and prices.id not in self._known}
        if fresh or not self._known:
            self._ledger.write_now(self._taken, *fresh.values())
            self._known.update(fresh or ("",))
        return self._ledger.write_now(*(attempt for attempt, _ in made))


def _result(taken: Import, tally: _Tally, *, written: bool) -> ImportResult:
    return ImportResult(
        import_id=taken.import_id,
        format=taken.format,
        rows=tally.rows,
        added=tally.added,
        skipped=tally.rows - tally.added if written else 0,
        unpriced=tally.unpriced,
        input_tokens=tally.input_tokens,
        output_tokens=tally.output_tokens,
        list_cost=tuple(Amount(currency, value) for currency, value in sorted(tally.list_cost.items())),
        first_us=tally.first_us,
        last_us=tally.last_us,
        rejected=tuple(tally.rejected),
        rejected_rows=tally.rejected_rows,
    )
