"""Rows as records again: the inverse of `router.ledger.rows`.

In: a row of `runs`, `fx_rates`, or `attempts` with its terms. Out: the records it was written from. Invariant: a record
that was written is read back equal (texts in the form every database can hold).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from pricing.fx import FxRate
from pricing.money import join_amount
from pricing.terms import NO_TERMS, terms_from_json
from pricing.usage import BUCKETS, Usage
from router.ledger.records import (
    Amount,
    AttemptEnded,
    AttemptRow,
    AttemptStarted,
    RunEnded,
    RunRow,
    RunStarted,
    StepRow,
)
from router.ledger.tables import EXPECTED_COST, EXPECTED_TOKENS

Columns = Mapping[str, Any]
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def _plain(row: Columns, *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _money(row: Columns, name: str) -> Decimal | None:
    micro, pico = row[f"{name}_micro"], row[f"{name}_pico"]
    return None if micro is None else join_amount(micro, pico)


def _amount(row: Columns, name: str) -> Amount | None:
    value = _money(row, name)
    return None if value is None else Amount(row[f"{name}_currency"], value)


def _from_nano(amount: int | None) -> Decimal | None:
    return None if amount is None else Decimal(amount).scaleb(-9)


def attempt_row(row: Columns) -> AttemptRow:
    """Return an attempt from its row, with the documents of its terms and labels, or None."""
    ended = None if row["status"] == "started" else _attempt_ended(row)
    return AttemptRow(_attempt_started(row), ended, row["origin"], row["import_id"])


def _attempt_started(row: Columns) -> AttemptStarted:
    names = ("attempt_id", "run_id", "step_id", "call_key", "number", "role", "configuration", "task_class", "tenant")
    more = ("endpoint", "price_list", "model_asked", "started_us", "queue_us", "script", *EXPECTED_TOKENS)
    tags = {} if row["tags_document"] is None else json.loads(row["tags_document"])
    return AttemptStarted(**_plain(row, *names, *more), reserved_usd=_money(row, "reserved_usd"), tags=tags)


def _attempt_ended(row: Columns) -> AttemptEnded:
    names = ("attempt_id", "status", "cost_status", "model_served", "error_kind", "http_status", "upstream_id")
    more = ("finish_reason", "service_tier", "usage_estimated", "price_set_id", "possibly_billed")
    times = ("latency_us", "ttft_us", "network_us", "inference_us", "state_us")
    return AttemptEnded(
        **_plain(row, *names, *more, *times),
        usage=None if row[BUCKETS[0]] is None else Usage(**_plain(row, *BUCKETS)),
        list_cost=_amount(row, "cost"),
        settled_cost=_amount(row, "settled"),
        reported_cost_usd=_money(row, "reported_usd"),
        terms=NO_TERMS if row["terms_document"] is None else terms_from_json(row["terms_document"]),
    )


def run_row(row: Columns) -> RunRow:
    """Return a run from its row."""
    names = ("run_id", "run_key", "request_hash", "configuration", "policy_version", "task_class", "tenant")
    more = ("started_us", "prompt", "owner", "lease_until_us", "experience_us")
    tags, budget = json.loads(row["tags"]), _money(row, "budget_usd")
    expected: dict[str, Any] = {name.removesuffix("_nano"): _from_nano(row[name]) for name in EXPECTED_COST}
    started = RunStarted(**_plain(row, *names, *more), tags=tags, budget_usd=budget, **expected)
    ended = None
    if row["status"] != "running":
        ended = RunEnded(row["run_id"], row["status"], row["ended_us"], row["error"])
    return RunRow(started, ended)


def step_row(row: Columns) -> StepRow:
    """Return a plan's step, with its present status, from its row."""
    names = ("run_id", "step_id", "position", "task_class", "status")
    return StepRow(**_plain(row, *names), depends_on=tuple(json.loads(row["depends_on"])))


def fx_rate(row: Sequence[Any]) -> FxRate:
    """Return an exchange rate from its row: the columns of `fx_rates` in their order."""
    identity, base, quote, rate, day, source = row
    return FxRate(identity, base, quote, Decimal(rate), date.fromordinal(day + _EPOCH_ORDINAL), source)
