"""Attempts to write into a ledger, with only what a test is about spelled out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

from pricing import Catalog, Usage, price_call, settle
from pricing.terms import NO_TERMS, Terms
from router.ledger import Ledger, new_id
from router.ledger.records import Amount, AttemptEnded, AttemptStarted, AttemptStatus
from router.ledger.rows import Record
from router.task import Role

_NUMBERS = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One attempt; what is not given is the plainest there is."""

    at: datetime
    usage: Usage | None = None
    model: str = "gpt-4.1"
    served: str | None = None
    role: Role | None = "single"
    task_class: str | None = None
    configuration: str | None = "all-gpt-4.1"
    tenant: str | None = None
    status: AttemptStatus = "succeeded"
    number: int = 1
    price_list: str = "vendor"
    terms: Terms = NO_TERMS
    estimated: bool = False
    possibly_billed: bool = False
    reserved_usd: Decimal | None = None
    reported_usd: Decimal | None = None
    latency_us: int = 1_000_000
    queue_us: int = 0
    network_us: int | None = None
    inference_us: int | None = None
    state_us: int | None = None
    ttft_us: int | None = None
    endpoint: str = "here"
    error_kind: str | None = None
    http_status: int | None = None
    run_id: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def records(self, catalog: Catalog) -> Iterator[Record]:
        """Yield the attempt's records, priced as the model that was served."""
        attempt_id, started_us = new_id(), round(self.at.timestamp() * 10**6)
        yield AttemptStarted(
            attempt_id=attempt_id,
            call_key=f"call {next(_NUMBERS)}",
            number=self.number,
            configuration=self.configuration,
            endpoint=self.endpoint,
            run_id=self.run_id,
            tags=self.tags,
            price_list=self.price_list,
            model_asked=self.model,
            started_us=started_us,
            role=self.role,
            task_class=self.task_class,
            tenant=self.tenant,
            queue_us=self.queue_us,
            reserved_usd=self.reserved_usd,
        )
        if self.status == "started":
            return
        served = self.served or self.model
        known = served in catalog.models(self.price_list)
        prices = catalog.price_set(served, self.price_list, self.at.astimezone(UTC), last_list=True) if known else None
        cost = price_call(self.usage, prices, at=self.at.astimezone(UTC), estimated=self.estimated)
        listed = None if cost.total is None or cost.currency is None else Amount(cost.currency, cost.total)
        if prices is not None:
            yield prices
        yield AttemptEnded(
            attempt_id=attempt_id,
            status=self.status,
            cost_status=cost.status,
            latency_us=self.latency_us,
            model_served=self.served or (self.model if self.status == "succeeded" else None),
            error_kind=self.error_kind,
            http_status=self.http_status,
            ttft_us=self.ttft_us,
            usage=self.usage,
            usage_estimated=self.estimated,
            list_cost=listed,
            settled_cost=None if listed is None else Amount(*settle(listed.value, listed.currency, self.terms)),
            reported_cost_usd=self.reported_usd,
            price_set_id=None if listed is None or prices is None else prices.id,
            terms=NO_TERMS if listed is None else self.terms,
            possibly_billed=self.possibly_billed,
            network_us=self.network_us,
            inference_us=self.inference_us,
            state_us=self.state_us,
        )


def write(ledger: Ledger, catalog: Catalog, *scenes: Scene) -> None:
    """Write the scenes in one transaction."""
    ledger.write_now(*(record for scene in scenes for record in scene.records(catalog)))
