"""Records drawn from a seed, of every kind a ledger has: what two databases are given alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from pricing import Catalog, Usage
from pricing.terms import NO_TERMS, Terms
from router.ledger import Ledger, new_id
from router.ledger.budget_records import BudgetRow
from router.ledger.records import Amount, Answer, Import, RunEnded, RunStarted, StepEnded, StepRow, UsageBucket
from router.ledger.rows import Record
from router.ledger.tool_records import ToolCallStarted
from tests.reports.scenes import Scene

# Months over for good: nothing that is compared hangs on today.
FIRST = datetime(2026, 8, 1, tzinfo=UTC)
DAYS = 92
ACTIVE = (0, 1, 13, 31, 45, 61, 62, 80)
"""Days from the first one on that have records: few, since each costs time."""
# Days on which clocks change, months end; in zones of whole, half and quarter hours.
INSTANTS = (
    datetime(2026, 8, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(2026, 9, 30, 14, 59, tzinfo=UTC),
    datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
    datetime(2026, 10, 31, 18, 15, tzinfo=UTC),
)
RELAY = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
DISCOUNT = Terms(discount_share=Decimal("0.15"))
NAMES = (None, "", "acme", "Änne", "zeta", "日本", "_b", "B", "a")  # no two collations sort them alike


def random_records(seed: int, catalog: Catalog, attempts: int = 200) -> list[Record]:
    """Return the records of some months of many kinds of attempts, and of all that stands beside them."""
    random = Random(seed)
    runs = [_run(random, number) for number in range(12)]
    taken = Import(new_id(), "f", "usage.csv", f"{seed:064x}", "m", "vendor", None, 0)
    records: list[Record] = [*runs, taken]
    for run in runs[:8]:
        records.append(StepRow(run.run_id, "a", 0, "chat"))
        records.append(StepRow(run.run_id, "b", 1, "math", ("a",)))
        records.append(StepEnded(run.run_id, "a", random.choice(("succeeded", "failed"))))
        records.append(RunEnded(run.run_id, random.choice(("succeeded", "failed")), run.started_us + 10**6))
        records.extend(_tool_call(random, run.run_id, number) for number in range(random.randrange(3)))
    records.append(Answer("call 1", runs[0].run_id, {"content": "世"}, "stop", 2**60))
    for _ in range(attempts):
        records.extend(_scene(random, runs).records(catalog))
    records.extend(_bucket(random, taken.import_id) for _ in range(20))
    return records


def _tool_call(random: Random, run_id: str, number: int) -> ToolCallStarted:
    at_us = random.randrange(10**15)
    return ToolCallStarted(new_id(), run_id, f"{run_id} {number}", number, "files", "läs", at_us, random.randrange(99))


def fill(ledger: Ledger, records: list[Record]) -> None:
    """Write records and budgets."""
    ledger.write_now(*records)
    for scope, name, amount in (("all", "", "50"), ("tenant", "日本", "0.000001"), ("model", "gpt-4.1", "7.5")):
        ledger.set_budget(BudgetRow(scope, name, Amount("USD", Decimal(amount)), 5))  # type: ignore[arg-type]


def _at(random: Random) -> datetime:
    if random.random() < 0.1:
        return random.choice(INSTANTS)
    # A few hours of a few days, so that groups have several rows and many amounts are alike.
    at = FIRST + timedelta(days=random.choice(ACTIVE), hours=random.choice((0, 9, 22)))
    return at + timedelta(microseconds=random.randrange(3))


def _run(random: Random, number: int) -> RunStarted:
    at = round(_at(random).timestamp() * 10**6)
    tags = random.choice(({}, {"team": "x"}, {"app": "y", "team": "日"}))
    tenant = random.choice(NAMES)
    return RunStarted(new_id(), "hybrid", "1", at, f"key {number}", tags=tags, tenant=tenant, task_class="math")


def _usage(random: Random) -> Usage | None:
    if random.random() < 0.1:
        return None
    tokens = random.choice((0, 1_000, 1_000, 150_000, 10**12))
    cached = random.choice((0, 0, tokens // 3))
    return Usage(tokens, cache_read_tokens=cached, plain_output_tokens=random.choice((0, 17, 100)))


def _scene(random: Random, runs: list[RunStarted]) -> Scene:
    times = [random.choice((None, random.randrange(10**7))) for _ in range(4)]
    run = random.choice((None, random.choice(runs)))
    return Scene(
        at=_at(random),
        usage=_usage(random),
        model=random.choice(("gpt-4.1", "gpt-4.1", "kimi-k2", "gpt-4o-mini", "nobody-knows")),
        served=random.choice((None, None, "gpt-4.1-mini")),
        role=random.choice((None, "single", "orchestrator", "worker")),
        task_class=random.choice((None, "chat", "math", "Chat")),
        configuration=random.choice((None, "all-gpt-4.1", "hybrid")),
        tenant=random.choice(NAMES),
        status=random.choice(("succeeded",) * 6 + ("failed", "timed_out", "started")),
        number=random.choice((1, 1, 2)),
        price_list=random.choice(("vendor", "vendor", "relay")),
        terms=random.choice((NO_TERMS, NO_TERMS, RELAY, DISCOUNT)),
        estimated=random.random() < 0.1,
        possibly_billed=random.random() < 0.1,
        reserved_usd=random.choice((None, Decimal("0.000000000001"), Decimal("0.5"))),
        reported_usd=random.choice((None, Decimal("0.001"))),
        latency_us=random.choice((50, 1_000_000, random.randrange(10**8))),
        queue_us=random.randrange(1_000),
        network_us=times[0],
        inference_us=times[1],
        state_us=times[2],
        ttft_us=times[3],
        endpoint=random.choice(("here", "there")),
        http_status=random.choice((None, 200, 429)),
        run_id=None if run is None else run.run_id,
        tags=random.choice(({}, {"team": "x"}, {"team": "", "app": "y"})),
    )


def _bucket(random: Random, import_id: str) -> UsageBucket:
    start_us = round(_at(random).replace(hour=0, microsecond=0).timestamp() * 10**6)
    requests = random.choice((None, 7))
    usage = _usage(random)
    return UsageBucket(
        new_id(), import_id, start_us, start_us + 86_400_000_000, "there", "vendor", "gpt-4.1", "unknown",
        model_served="gpt-4.1-2025-04-14", requests=requests, usage=usage, tenant=random.choice(NAMES),
    )  # fmt: skip


def run_ids(records: list[Record]) -> Iterator[str]:
    """Yield the ids of the runs among records."""
    yield from (each.run_id for each in records if isinstance(each, RunStarted))
