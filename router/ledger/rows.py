"""Records as rows: pure functions from what the ledger is told to the columns that are written.

In: the values of `router.ledger.records`, `PriceSet` and `FxRate`. Out: (kind, columns) pairs to write.
Invariant: equal records give equal rows, and every derived column (`day`, `quarter_hour`, `latency_bucket`,
`context_tier`, the two integers of an amount, the digests) is made here and nowhere else (and, of many imported rows at
once, in `bulk_insert`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from enum import IntEnum
from typing import Any

from pricing.cost import context_tier
from pricing.fx import FxRate
from pricing.money import plain, split_amount
from pricing.prices import PriceSet, price_set_to_json
from pricing.terms import NO_TERMS, terms_to_json
from pricing.usage import BUCKETS
from router.errors import LedgerError
from router.ledger import records
from router.ledger.digests import STARTED_DIGEST, end_digest, start_digest
from router.ledger.latency import latency_bucket

DAY_US = 86_400_000_000
QUARTER_HOUR_US = 900_000_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


class Kind(IntEnum):
    """What is done with a row, in the order of one transaction: nothing comes before what it refers to."""

    PRICE_SET = 0
    PRICE_ROW = 1
    FX_RATE = 2
    TERMS = 3
    TAG_SET = 4
    IMPORT = 5
    RUN = 6
    STEP = 7
    ATTEMPT = 8
    IMPORTED_ATTEMPT = 9
    USAGE_BUCKET = 10
    ANSWER = 11
    RUN_REQUEST = 12
    TOOL_CALL = 13
    ATTEMPT_END = 14
    ATTEMPT_TERMS = 15
    TOOL_CALL_END = 16
    OUTCOME = 17
    STEP_END = 18
    RUN_END = 19


Record = (
    records.RunStarted
    | records.RunEnded
    | records.StepRow
    | records.StepEnded
    | records.AttemptStarted
    | records.AttemptEnded
    | records.Answer
    | records.RunRequest
    | records.ToolCallStarted
    | records.ToolCallEnded
    | records.Outcome
    | records.Import
    | records.ImportedAttempt
    | records.UsageBucket
    | PriceSet
    | FxRate
)
Row = tuple[Kind, dict[str, Any]]


def rows_of(written: Iterable[Record]) -> list[Row]:
    """Return the rows of some records, in their order.

    Args:
        written: records of any kinds.

    Raises:
        LedgerError: a value that no row can hold, for instance an id that is not a UUID or a negative amount.
    """
    found: list[Row] = []
    for record in written:
        make = _MAKERS.get(type(record))
        if make is None:
            raise LedgerError(f"ledger: {type(record).__name__} is not a record it can write")
        try:
            found.extend((kind, _storable(row)) for kind, row in make(record))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise LedgerError(f"ledger: {type(record).__name__} cannot be written: {error}") from error
    return found


def storable_text(text: str) -> str:
    """Return a text as every database can hold it: NUL and lone surrogates become U+FFFD, all else stays."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable(row: dict[str, Any]) -> dict[str, Any]:
    for name, value in row.items():
        if type(value) is str and not (value.isascii() and "\x00" not in value):
            row[name] = storable_text(value)
    return row


def _id(value: str | None) -> str | None:
    if value is not None and _UUID.fullmatch(value) is None:
        message = f"id {value[:60]!r}; a UUID of 36 lower-case characters is allowed (router.ledger.new_id makes one)"
        raise ValueError(message)
    return value


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _money(name: str, amount: Decimal | None) -> dict[str, int | None]:
    micro, pico = (None, None) if amount is None else split_amount(amount)
    return {f"{name}_micro": micro, f"{name}_pico": pico}


def _cost(name: str, amount: records.Amount | None) -> dict[str, int | str | None]:
    if amount is None:
        return {f"{name}_currency": None, **_money(name, None)}
    return {f"{name}_currency": amount.currency, **_money(name, amount.value)}


def run_row(run: records.RunStarted) -> dict[str, Any]:
    """Return the columns of a run that starts."""
    return {
        "run_id": _id(run.run_id),
        "run_key": run.run_key,
        "request_hash": run.request_hash,
        "configuration": run.configuration,
        "policy_version": run.policy_version,
        "task_class": run.task_class,
        "tenant": run.tenant,
        "tags": _json(dict(run.tags)),
        "status": "running",
        "started_us": run.started_us,
        **_money("budget_usd", run.budget_usd),
        "prompt": run.prompt,
        "owner": run.owner,
        "lease_until_us": run.lease_until_us,
    }


def _run_end(run: records.RunEnded) -> dict[str, Any]:
    keys = {"key_run_id": _id(run.run_id), "key_owner": run.owner}
    return {**keys, "status": run.status, "ended_us": run.ended_us, "error": run.error}


def _step(step: records.StepRow) -> dict[str, Any]:
    return {
        "run_id": _id(step.run_id),
        "step_id": step.step_id,
        "position": step.position,
        "task_class": step.task_class,
        "depends_on": _json(step.depends_on),
        "status": step.status,
    }


def _step_end(step: records.StepEnded) -> dict[str, Any]:
    return {"key_run_id": _id(step.run_id), "key_step_id": step.step_id, "status": step.status, "error": step.error}


def tags_document(tags: Mapping[str, str]) -> str:
    """Return labels as the JSON text that stands for them, whatever their order."""
    return json.dumps(dict(tags), separators=(",", ":"), sort_keys=True)


def tags_id(tags: Mapping[str, str]) -> str | None:
    """Return the id of a set of labels: a digest of their text; None for none."""
    return hashlib.sha256(tags_document(tags).encode()).hexdigest()[:32] if tags else None


def _tagged(kind: Kind, row: dict[str, Any], tags: Mapping[str, str]) -> Iterable[Row]:
    """Yield a row after that of its labels."""
    if tags:
        yield Kind.TAG_SET, {"tags_id": row["tags_id"], "document": tags_document(tags)}
    yield kind, row


def _attempt(attempt: records.AttemptStarted, origin: records.Origin = "routed") -> dict[str, Any]:
    row = {
        "attempt_id": _id(attempt.attempt_id),
        "run_id": _id(attempt.run_id),
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
        "started_us": attempt.started_us,
        "day": attempt.started_us // DAY_US,
        "quarter_hour": attempt.started_us // QUARTER_HOUR_US,
        "queue_us": attempt.queue_us,
        **_money("reserved_usd", attempt.reserved_usd),
        "usage_estimated": False,
        "possibly_billed": False,
        "tags_id": tags_id(attempt.tags),
        "end_digest": STARTED_DIGEST,
    }
    return row | {"start_digest": start_digest(row)}


def _attempt_end(attempt: records.AttemptEnded) -> dict[str, Any]:
    usage, latency_us = attempt.usage, attempt.latency_us
    row = {
        "status": attempt.status,
        "model_served": attempt.model_served,
        "error_kind": attempt.error_kind,
        "http_status": attempt.http_status,
        "upstream_id": attempt.upstream_id,
        "finish_reason": attempt.finish_reason,
        "service_tier": attempt.service_tier,
        **{bucket: None if usage is None else getattr(usage, bucket) for bucket in BUCKETS},
        "usage_estimated": attempt.usage_estimated,
        "context_tier": None if usage is None else context_tier(usage.input_tokens),
        "price_set_id": attempt.price_set_id,
        "cost_status": attempt.cost_status,
        **_cost("cost", attempt.list_cost),
        **_cost("settled", attempt.settled_cost),
        **_money("reported_usd", attempt.reported_cost_usd),
        "possibly_billed": attempt.possibly_billed,
        "latency_us": latency_us,
        "latency_bucket": None if latency_us is None else latency_bucket(latency_us),
        "ttft_us": attempt.ttft_us,
        "network_us": attempt.network_us,
        "inference_us": attempt.inference_us,
        "state_us": attempt.state_us,
    }
    terms_id = None if attempt.terms == NO_TERMS else attempt.terms.id
    return row | {"end_digest": end_digest(row | {"terms_id": terms_id})}


def _terms(attempt: records.AttemptEnded) -> Iterable[Row]:
    """Yield the rows of an attempt's terms; none where it has none."""
    if attempt.terms == NO_TERMS:
        return
    identity = attempt.terms.id
    yield Kind.TERMS, {"terms_id": identity, "document": terms_to_json(attempt.terms)}
    yield Kind.ATTEMPT_TERMS, {"attempt_id": _id(attempt.attempt_id), "terms_id": identity}


def _imported(attempt: records.ImportedAttempt) -> dict[str, Any]:
    if attempt.started.attempt_id != attempt.ended.attempt_id:
        message = f"its start is of {attempt.started.attempt_id} and its end of {attempt.ended.attempt_id}"
        raise ValueError(message)
    row = _attempt(attempt.started, "imported") | _attempt_end(attempt.ended)
    return row | {"import_id": _id(attempt.import_id)}


def _usage_bucket(bucket: records.UsageBucket) -> dict[str, Any]:
    plain_names = ("start_us", "end_us", "role", "configuration", "task_class", "tenant", "endpoint", "price_list")
    more = ("model_asked", "model_served", "service_tier", "requests", "usage_estimated", "price_set_id", "cost_status")
    return {
        "bucket_id": _id(bucket.bucket_id),
        "import_id": _id(bucket.import_id),
        **{name: getattr(bucket, name) for name in (*plain_names, *more)},
        "day": bucket.start_us // DAY_US,
        "quarter_hour": bucket.start_us // QUARTER_HOUR_US,
        "tags_id": tags_id(bucket.tags),
        **{name: None if bucket.usage is None else getattr(bucket.usage, name) for name in BUCKETS},
        **_cost("cost", bucket.list_cost),
        **_cost("settled", bucket.settled_cost),
        **_money("reported_usd", bucket.reported_cost_usd),
    }


def _answer(answer: records.Answer) -> dict[str, Any]:
    return {
        "call_key": answer.call_key,
        "run_id": _id(answer.run_id),
        "message": _json(answer.message),
        "finish_reason": answer.finish_reason,
        "expires_us": answer.expires_us,
    }


def _run_request(request: records.RunRequest) -> dict[str, Any]:
    return {"run_id": _id(request.run_id), "document": request.document, "expires_us": request.expires_us}


def _tool_call(call: records.ToolCallStarted) -> dict[str, Any]:
    names = ("step_id", "call_key", "position", "number", "server", "tool", "started_us", "queue_us", "argument_bytes")
    ids = {"tool_call_id": _id(call.tool_call_id), "run_id": _id(call.run_id)}
    return {**ids, **{name: getattr(call, name) for name in names}, "status": "started", "is_raw": False}


def _tool_call_end(call: records.ToolCallEnded) -> dict[str, Any]:
    names = ("status", "latency_us", "result_bytes", "is_raw", "error")
    return {"key_tool_call_id": _id(call.tool_call_id), **{name: getattr(call, name) for name in names}}


def _outcome(outcome: records.Outcome) -> dict[str, Any]:
    names = ("step_id", "call_key", "task_class", "model", "scorer", "at_us")
    ids = {"outcome_id": _id(outcome.outcome_id), "run_id": _id(outcome.run_id)}
    score_ppm = round(outcome.score_share * 1_000_000)
    return {**ids, **{name: getattr(outcome, name) for name in names}, "score_ppm": score_ppm}


def _import(taken: records.Import) -> dict[str, Any]:
    names = ("format", "file_name", "file_sha256", "model", "price_list", "configuration", "start_us")
    return {"import_id": _id(taken.import_id), **{name: getattr(taken, name) for name in names}}


def _price_set(prices: PriceSet) -> Iterable[Row]:
    head = {"price_list": prices.price_list, "model": prices.model, "currency": prices.currency}
    yield Kind.PRICE_SET, {"price_set_id": prices.id, **head, "document": price_set_to_json(prices)}
    for position, row in enumerate(prices.rows):
        yield (
            Kind.PRICE_ROW,
            {
                "price_set_id": prices.id,
                "price_row_id": row.id,
                "position": position,
                "component": row.component,
                "unit": row.unit,
                "amount": plain(row.amount),
                "url": row.url,
                "source": row.source,
                "checked": row.checked.isoformat(),
            },
        )


def _fx_rate(rate: FxRate) -> dict[str, Any]:
    return {
        "fx_rate_id": rate.id,
        "base": rate.base,
        "quote": rate.quote,
        "rate": plain(rate.rate),
        "as_of_day": rate.as_of.toordinal() - _EPOCH_ORDINAL,
        "source": rate.source,
    }


_MAKERS: Mapping[type, Callable[[Any], Iterable[Row]]] = {
    PriceSet: _price_set,
    FxRate: lambda rate: [(Kind.FX_RATE, _fx_rate(rate))],
    records.Import: lambda taken: [(Kind.IMPORT, _import(taken))],
    records.RunStarted: lambda run: [(Kind.RUN, run_row(run))],
    records.StepRow: lambda step: [(Kind.STEP, _step(step))],
    records.AttemptStarted: lambda attempt: _tagged(Kind.ATTEMPT, _attempt(attempt), attempt.tags),
    records.ImportedAttempt: lambda attempt: [
        *_tagged(Kind.IMPORTED_ATTEMPT, _imported(attempt), attempt.started.tags),
        *_terms(attempt.ended),
    ],
    records.UsageBucket: lambda bucket: _tagged(Kind.USAGE_BUCKET, _usage_bucket(bucket), bucket.tags),
    records.Answer: lambda answer: [(Kind.ANSWER, _answer(answer))],
    records.AttemptEnded: lambda attempt: [
        (Kind.ATTEMPT_END, {"key_attempt_id": _id(attempt.attempt_id), **_attempt_end(attempt)}),
        *_terms(attempt),
    ],
    records.RunRequest: lambda request: [(Kind.RUN_REQUEST, _run_request(request))],
    records.ToolCallStarted: lambda call: [(Kind.TOOL_CALL, _tool_call(call))],
    records.ToolCallEnded: lambda call: [(Kind.TOOL_CALL_END, _tool_call_end(call))],
    records.Outcome: lambda outcome: [(Kind.OUTCOME, _outcome(outcome))],
    records.StepEnded: lambda step: [(Kind.STEP_END, _step_end(step))],
    records.RunEnded: lambda run: [(Kind.RUN_END, _run_end(run))],
}
