"""The dearest runs of busy quarter hours are found without handing the others over, and none is missed."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from router.ledger import Ledger
from router.ledger.records import Amount
from router.ledger.rollup_runs import DEAREST, dearest_of_runs
from router.ledger.rollup_tables import dearest_runs
from router.ledger.rows import Record

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
QUARTER_US = 900_000_000
SCALES = (Decimal(40), Decimal(90), Decimal(1), Decimal("0.000001"), Decimal(0), Decimal(7))
"""What a run of each quarter hour costs at most, USD: a bound from the one before is met, or too high."""


def test_a_bound_from_the_quarter_hour_before_leaves_out_none_of_the_dearest(ledger: Ledger, sample: Any) -> None:
    drawn = random.Random(3)
    records: list[Record] = []
    costs: dict[tuple[int, str], dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for quarter, most in enumerate(SCALES):
        for number in range(20):  # the last ones cost a hundredth, in one currency or the other
            run = sample.run(started_us=OCTOBER_US + quarter * QUARTER_US + number)
            records.append(run)
            for _ in range(drawn.choice((1, 2, 3))):
                currency = "USD" if number < 14 else drawn.choice(("USD", "JPY"))
                # 999,999 of 1e-12 twice is more than one of 1e-6, which has to be carried over.
                value = (most * drawn.choice((1, 2, 3, 9)) / (9 if number < 14 else 900)).quantize(
                    Decimal("1e-12")
                ) + Decimal("0.000000999999")
                started = sample.started(run_id=run.run_id, started_us=run.started_us)
                records += (started, sample.ended(started, settled_cost=Amount(currency, value), cost_status="unknown"))
                costs[OCTOBER_US // QUARTER_US + quarter, currency][run.run_id] += value
    ledger.write_now(*records)
    spans = [{"low": OCTOBER_US + at * QUARTER_US, "high": OCTOBER_US + (at + 1) * QUARTER_US} for at in range(6)]
    with ledger._engine.connect() as connection:  # noqa: SLF001 - what a refresh of a busy month reads with
        found = list(dearest_of_runs(connection, spans))
    assert len(found) > 6 * DEAREST
    expected = {
        key: sorted(each.items(), key=lambda pair: (-pair[1], pair[0]))[:DEAREST] for key, each in costs.items()
    }
    assert costs_of(found) == expected
    ledger.refresh()
    with ledger._engine.connect() as connection:  # noqa: SLF001 - what is on record
        kept = [dict(row) for row in connection.execute(sa.select(dearest_runs)).mappings()]
    assert costs_of(kept) == expected


def costs_of(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[int, str], list[tuple[str, Decimal]]]:
    """Return the costs of runs by quarter hour and currency, the dearest first."""
    told: dict[tuple[int, str], list[tuple[str, Decimal]]] = defaultdict(list)
    for row in rows:
        value = row["settled_micro"] * Decimal("1e-6") + row["settled_pico"] * Decimal("1e-12")
        told[row["quarter_hour"], row["currency"]].append((row["run_id"], value))
    return {key: sorted(each, key=lambda pair: (-pair[1], pair[0])) for key, each in told.items()}
