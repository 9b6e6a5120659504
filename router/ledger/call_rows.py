"""The rows that every call writes: its run's start and end, its attempt's start and end.

In: values of `router.ledger.records`. Out: columns. Invariant: as of `router.ledger.rows`. A call makes four of these
and little else, so each is one display, without a detour.
"""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter
from typing import Any

from pricing.cost import context_tier
from pricing.money import split_amount
from pricing.terms import NO_TERMS
from pricing.usage import BUCKETS, COUNTS
from router.ledger import records
from router.ledger.digests import STARTED_DIGEST, end_digest, start_digest
from router.ledger.latency import latency_bucket
from router.ledger.row_values import DAY_US, QUARTER_HOUR_US, checked_id, split_or_none, tags_id, tags_text

_NOTHING = (None, None)
_NO_USAGE = dict.fromkeys(BUCKETS)
_AS_TOLD = (
    *("status", "model_served", "error_kind", "http_status", "upstream_id", "finish_reason", "service_tier"),
    *("usage_estimated", "price_set_id", "cost_status", "possibly_billed", "latency_us", "ttft_us", "network_us"),
    *("inference_us", "state_us"),
)
_told = attrgetter(*_AS_TOLD)


def run_row(run: records.RunStarted) -> dict[str, Any]:
    """Return the columns of a run that starts."""
    micro, pico = split_or_none(run.budget_usd)
    return {
        "run_id": checked_id(run.run_id),
        "run_key": run.run_key,
        "request_hash": run.request_hash,
        "configuration": run.configuration,
        "policy_version": run.policy_version,
        "task_class": run.task_class,
        "tenant": run.tenant,
        "tags": tags_text(run.tags),
        "status": "running",
        "started_us": run.started_us,
        "budget_usd_micro": micro,
        "budget_usd_pico": pico,
        "prompt": run.prompt,
        "owner": run.owner,
        "lease_until_us": run.lease_until_us,
        "expected_low_usd_nano": _nano(run.expected_low_usd),
        "expected_usd_nano": _nano(run.expected_usd),
        "expected_high_usd_nano": _nano(run.expected_high_usd),
        "experience_us": run.experience_us,
    }


def _nano(amount: Decimal | None) -> int | None:
    """Return an amount in 1e-9 units, rounded."""
    return None if amount is None else round(amount.scaleb(9))


def run_end_row(run: records.RunEnded) -> dict[str, Any]:
    """Return the columns of a run that ends, with its key."""
    return {
        "key_run_id": checked_id(run.run_id),
        "key_owner": run.owner,
        "status": run.status,
        "ended_us": run.ended_us,
        "error": run.error,
    }


def attempt_row(attempt: records.AttemptStarted, origin: records.Origin = "routed") -> dict[str, Any]:
    """Return the columns of an attempt that starts."""
    micro, pico = split_or_none(attempt.reserved_usd)
    started_us = attempt.started_us
    row: dict[str, Any] = {
        "attempt_id": checked_id(attempt.attempt_id),
        "run_id": checked_id(attempt.run_id),
        "step_id": attempt.step_id,
        "call_key": attempt.call_key,
        "number": attempt.number,
        "origin": origin,
        "role": attempt.role,
        "configuration": attempt.configuration,
        "task_class": attempt.task_class,
        "tenant": attempt.tenant,
        "endpoint": attempt.endpoint,
        "price_list": attempt.price_list,
        "model_asked": attempt.model_asked,
        "status": "started",
        "started_us": started_us,
        "day": started_us // DAY_US,
        "quarter_hour": started_us // QUARTER_HOUR_US,
        "queue_us": attempt.queue_us,
        "reserved_usd_micro": micro,
        "reserved_usd_pico": pico,
        "usage_estimated": False,
        "possibly_billed": False,
        "tags_id": tags_id(attempt.tags),
        "end_digest": STARTED_DIGEST,
        "script": attempt.script,
        "estimated_input_tokens": attempt.estimated_input_tokens,
        "expected_input_tokens": attempt.expected_input_tokens,
        "expected_output_low_tokens": attempt.expected_output_low_tokens,
        "expected_output_tokens": attempt.expected_output_tokens,
        "expected_output_high_tokens": attempt.expected_output_high_tokens,
    }
    row["start_digest"] = start_digest(row)
    return row


def attempt_end_row(attempt: records.AttemptEnded) -> dict[str, Any]:
    """Return the columns of an attempt that ends, without its key."""
    usage, latency_us, cost, settled = attempt.usage, attempt.latency_us, attempt.list_cost, attempt.settled_cost
    row: dict[str, Any] = dict(zip(_AS_TOLD, _told(attempt)))  # noqa: B905 - both are as long
    row.update(_NO_USAGE if usage is None else zip(BUCKETS, COUNTS(usage)))  # noqa: B905 - as above
    row["context_tier"] = None if usage is None else context_tier(usage.input_tokens)
    row["latency_bucket"] = None if latency_us is None else latency_bucket(latency_us)
    row["cost_currency"] = None if cost is None else cost.currency
    row["cost_micro"], row["cost_pico"] = _NOTHING if cost is None else split_amount(cost.value)
    row["settled_currency"] = None if settled is None else settled.currency
    row["settled_micro"], row["settled_pico"] = _NOTHING if settled is None else split_amount(settled.value)
    row["reported_usd_micro"], row["reported_usd_pico"] = split_or_none(attempt.reported_cost_usd)
    has_terms = attempt.terms is not NO_TERMS and attempt.terms != NO_TERMS
    row["end_digest"] = end_digest({**row, "terms_id": attempt.terms.id} if has_terms else row)
    return row
