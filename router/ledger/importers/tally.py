"""What an import did, counted as it goes.

In: priced records and rejected lines. Out: an `ImportResult`. Invariant: every line that was read is in exactly one of
added, already there, or rejected; unpriced rows are rows, with no cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from pricing import join_amount
from router.ledger.importers.record import Rejected
from router.ledger.records import Amount

_MOST_REASONS = 1_000  # kept with their line; the count goes on


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import of one file did.

    Args:
        import_id: the row of `imports`.
        format: the format that was found, for instance "mooncake" or "openai".
        file: the file's name, or the database's.
        rows: records read that are none of the rejected ones.
        buckets: of them usage that somebody else had added up.
        added: of them new in the ledger; with a dry run, none.
        skipped: of them there already.
        differing: of those there already, how many are there with other counts; the ledger keeps what it has.
        unpriced: of all rows, how many have no price at their instant, or no usage, so no cost.
        partial: of all rows, how many have a cost that lacks a part without a price.
        requests: requests that the rows are or add up, as far as they say.
        requests_unknown: buckets that do not say.
        usage_unknown: rows without token counts.
        input_tokens, output_tokens, cache_read_tokens: sums over all rows, tokens.
        list_cost: sum over the priced rows by currency, exact.
        reported_cost_usd: sum of what the source says its rows cost, USD; None where it says nothing.
        first_us, last_us: earliest and latest instant, microseconds since 1970 UTC; None without rows.
        unpriced_models: rows without a price by the model's name.
        rejected: the first 1,000 lines that are no record, with their reasons.
        rejected_rows: all of them, counted.
        rejects_file: where they were written, or None.
    """

    import_id: str
    format: str
    file: str
    rows: int
    buckets: int
    added: int
    skipped: int
    differing: int
    unpriced: int
    partial: int
    requests: int
    requests_unknown: int
    usage_unknown: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    list_cost: tuple[Amount, ...]
    reported_cost_usd: Decimal | None
    first_us: int | None
    last_us: int | None
    unpriced_models: Mapping[str, int]
    rejected: tuple[Rejected, ...]
    rejected_rows: int
    rejects_file: str | None = None


@dataclass(slots=True)
class Tally:
    """Counts while an import goes on.

    Args:
        on_reject: told of every rejected line, or None.
    """

    on_reject: Callable[[Rejected], None] | None = None
    rows: int = 0
    buckets: int = 0
    added: int = 0
    differing: int = 0
    unpriced: int = 0
    partial: int = 0
    requests: int = 0
    requests_unknown: int = 0
    usage_unknown: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    reported_usd: Decimal | None = None
    first_us: int | None = None
    last_us: int | None = None
    rejected_rows: int = 0
    rejected: list[Rejected] = field(default_factory=list)
    unpriced_models: Counter[str] = field(default_factory=Counter)
    _costs: dict[str, list[int]] = field(default_factory=dict)

    def reject(self, line: Rejected) -> None:
        """Count a line that is no record."""
        self.rejected_rows += 1
        if self.on_reject is not None:
            self.on_reject(line)
        if len(self.rejected) < _MOST_REASONS:
            self.rejected.append(line)

    def cost(self, currency: str, micro: int, pico: int) -> None:
        """Add a list cost."""
        sums = self._costs.setdefault(currency, [0, 0])
        sums[0] += micro
        sums[1] += pico

    def reported(self, amounts: Iterable[Decimal | None]) -> None:
        """Add what the source says its rows cost."""
        stated = [amount for amount in amounts if amount is not None]
        if stated:
            self.reported_usd = sum(stated, self.reported_usd or Decimal(0))

    def span(self, first_us: int, last_us: int) -> None:
        """Widen the span of instants."""
        self.first_us = first_us if self.first_us is None else min(self.first_us, first_us)
        self.last_us = last_us if self.last_us is None else max(self.last_us, last_us)

    def result(self, import_id: str, form: str, file: str, *, written: bool) -> ImportResult:
        """Return what has been counted.

        Args:
            import_id: the row of `imports`.
            form: the format.
            file: the file's name.
            written: whether it was no dry run.
        """
        costs = (Amount(currency, join_amount(*sums)) for currency, sums in sorted(self._costs.items()))
        return ImportResult(
            import_id=import_id,
            format=form,
            file=file,
            rows=self.rows,
            buckets=self.buckets,
            added=self.added,
            skipped=self.rows - self.added if written else 0,
            differing=self.differing,
            unpriced=self.unpriced,
            partial=self.partial,
            requests=self.requests,
            requests_unknown=self.requests_unknown,
            usage_unknown=self.usage_unknown,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cache_read_tokens=self.cache_read_tokens,
            list_cost=tuple(costs),
            reported_cost_usd=self.reported_usd,
            first_us=self.first_us,
            last_us=self.last_us,
            unpriced_models=dict(self.unpriced_models.most_common()),
            rejected=tuple(self.rejected),
            rejected_rows=self.rejected_rows,
        )
