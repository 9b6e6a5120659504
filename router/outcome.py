"""How one logical call ended, and what its attempts add up to.

In: ended attempts. Out: a `CallOutcome` with its receipt. Invariant: amounts are summed by currency, never mixed, and
what may have been billed is in no sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pricing.quick import quick
from router.attempts import CallSpec, Ended
from router.errors import EndpointError
from router.result import CallReceipt

if TYPE_CHECKING:
    from router.ledger.rows import Record


@quick
@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended.

    Args:
        receipt: what was asked, what answered, what it cost.
        message: the assistant message, or None where it failed.
        text: its text.
        finish_reason: as the upstream gave it.
        error: why it failed for good, or None.
        warnings: one line each.
        unwritten: rows that its caller writes, where it succeeded as the run's last call.
        call_key, task_class: of the call, where it succeeded.
    """

    receipt: CallReceipt
    message: Mapping[str, Any] | None = None
    text: str = ""
    finish_reason: str | None = None
    error: EndpointError | None = None
    warnings: tuple[str, ...] = ()
    unwritten: tuple[Record, ...] = ()
    call_key: str = ""
    task_class: str = ""


@dataclass(slots=True)
class Tally:
    """What a call's attempts add up to."""

    before: int = 0
    attempts: int = 0
    billed: int = 0
    list_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_cost: dict[str, Decimal] = field(default_factory=dict)
    settled_usd: Decimal | None = None
    possibly_billed_usd: Decimal = Decimal(0)
    last: Ended | None = None
    note: str | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, ended: Ended, reserved_usd: Decimal) -> None:
        """Add an attempt: its costs by currency, and what may have been billed besides."""
        row = ended.row
        for sums, amount in ((self.list_cost, row.list_cost), (self.settled_cost, row.settled_cost)):
            if amount is not None:
                sums[amount.currency] = sums.get(amount.currency, Decimal(0)) + amount.value
        if ended.charged.settled_usd is not None:
            self.settled_usd = (self.settled_usd or Decimal(0)) + ended.charged.settled_usd
        if row.possibly_billed:
            self.possibly_billed_usd += reserved_usd
        self.billed += row.possibly_billed or (ended.error is not None and ended.error.possibly_billed)
        self.last = ended
        if ended.charged.warning:
            self.warnings.append(ended.charged.warning)

    def receipt(self, spec: CallSpec, endpoint: str | None, status: str, error: str | None = None) -> CallReceipt:
        """Return the call's receipt so far; `endpoint` is where its last attempt went, or would have gone."""
        row = self.last.row if self.last else None
        return CallReceipt(
            role=spec.role,
            step_id=spec.step_id,
            model_asked=spec.candidate.model,
            model_served=row.model_served if row else None,
            endpoint=endpoint or "",
            attempts=self.attempts,
            status=status,
            usage=row.usage if row else None,
            cost_status=row.cost_status if row else "exact",
            list_cost=tuple(sorted(self.list_cost.items())),
            settled_cost=tuple(sorted(self.settled_cost.items())),
            settled_usd=self.settled_usd,
            possibly_billed_usd=self.possibly_billed_usd,
            latency_s=None if row is None or row.latency_us is None else row.latency_us / 1e6,
            error=error,
        )
