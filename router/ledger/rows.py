"""Records as rows: pure functions from what the ledger is told to the columns that are written.

In: the values of `router.ledger.records`, `PriceSet` and `FxRate`. Out: (kind, columns) pairs to write.
Invariant: equal records give equal rows, and every derived column (`day`, `quarter_hour`, `latency_bucket`,
`context_tier`, the two integers of an amount, the digests) is made here and nowhere else (and, of many imported rows at
once, in `bulk_insert`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import ROUND_CEILING, Decimal
from enum import IntEnum
from typing import Any

from pricing.fx import FxRate
from pricing.money import plain
from pricing.prices import PriceSet, price_set_to_json
from pricing.terms import NO_TERMS, terms_to_json
from pricing.usage import BUCKETS
from router.errors import LedgerError
from router.ledger import budget_records, message_records, records, tool_records
from router.ledger.call_rows import attempt_end_row, attempt_row, run_end_row, run_row
from router.ledger.message_rows import cursor_row, message_row, value_row
from router.ledger.row_values import (
    DAY_US,
    QUARTER_HOUR_US,
    checked_id,
    is_id,
    split_or_none,
    storable_text,
    tags_document,
    tags_id,
    to_json,
)

__all__ = [
    "DAY_US",
    "NANO",
    "QUARTER_HOUR_US",
    "Kind",
    "Record",
    "Row",
    "is_id",
    "rows_of",
    "storable_text",
    "tags_document",
    "tags_id",
    "to_nano",
]

NANO = 1_000_000_000
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


class Kind(IntEnum):
    """What is done with a row, in the order of one transaction: nothing comes before what it refers to."""

    PRICE_SET = 0
    PRICE_ROW = 1
    FX_RATE = 2
    TERMS = 3
    TAG_SET = 4
    IMPORT = 5
    BUDGET_USE = 6
    RUN = 7
    STEP = 8
    ATTEMPT = 9
    IMPORTED_ATTEMPT = 10
    USAGE_BUCKET = 11
    ANSWER = 12
    RUN_REQUEST = 13
    TOOL_CALL = 14
    ATTEMPT_END = 15
    ATTEMPT_TERMS = 16
    TOOL_CALL_END = 17
    OUTCOME = 18
    STEP_END = 19
    RUN_END = 20
    MESSAGE = 21
    CURSOR = 22
    STATE = 23


Record = (
    records.RunStarted
    | records.RunEnded
    | records.StepRow
    | records.StepEnded
    | records.AttemptStarted
    | records.AttemptEnded
    | records.Answer
    | records.RunRequest
    | tool_records.ToolCallStarted
    | tool_records.ToolCallEnded
    | records.Outcome
    | budget_records.BudgetUse
    | records.Import
    | records.ImportedAttempt
    | records.UsageBucket
    | message_records.MessagePublished
    | message_records.CursorMoved
    | message_records.StateChanged
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
            for kind, row in make(record):
                found.append((kind, _storable(row)))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise LedgerError(f"ledger: {type(record).__name__} cannot be written: {error}") from error
    return found


def _storable(row: dict[str, Any]) -> dict[str, Any]:
    for name, value in row.items():
        if type(value) is str and not (value.isascii() and "\x00" not in value):
            row[name] = storable_text(value)
    return row


def _money(name: str, amount: Decimal | None) -> dict[str, int | None]:
    micro, pico = split_or_none(amount)
    return {f"{name}_micro": micro, f"{name}_pico": pico}


def _cost(name: str, amount: records.Amount | None) -> dict[str, int | str | None]:
    if amount is None:
        return {f"{name}_currency": None, **_money(name, None)}
    return {f"{name}_currency": amount.currency, **_money(name, amount.value)}


def _step(step: records.StepRow) -> dict[str, Any]:
    return {
        "run_id": checked_id(step.run_id),
        "step_id": step.step_id,
        "position": step.position,
        "task_class": step.task_class,
        "depends_on": to_json(step.depends_on),
        "status": step.status,
    }


def _step_end(step: records.StepEnded) -> dict[str, Any]:
    return {
        "key_run_id": checked_id(step.run_id),
        "key_step_id": step.step_id,
        "status": step.status,
        "error": step.error,
    }


def _tagged(kind: Kind, row: dict[str, Any], tags: Mapping[str, str]) -> Iterable[Row]:
    """Yield a row after that of its labels."""
    if tags:
        yield Kind.TAG_SET, {"tags_id": row["tags_id"], "document": tags_document(tags)}
    yield kind, row


def _terms(attempt: records.AttemptEnded) -> Iterable[Row]:
    """Yield the rows of an attempt's terms; none where it has none."""
    if attempt.terms is NO_TERMS or attempt.terms == NO_TERMS:
        return
    identity = attempt.terms.id
    yield Kind.TERMS, {"terms_id": identity, "document": terms_to_json(attempt.terms)}
    yield Kind.ATTEMPT_TERMS, {"attempt_id": checked_id(attempt.attempt_id), "terms_id": identity}


def _imported(attempt: records.ImportedAttempt) -> dict[str, Any]:
    if attempt.started.attempt_id != attempt.ended.attempt_id:
        message = f"its start is of {attempt.started.attempt_id} and its end of {attempt.ended.attempt_id}"
        raise ValueError(message)
    row = attempt_row(attempt.started, "imported") | attempt_end_row(attempt.ended)
    return row | {"import_id": checked_id(attempt.import_id)}


def _usage_bucket(bucket: records.UsageBucket) -> dict[str, Any]:
    plain_names = ("start_us", "end_us", "role", "configuration", "task_class", "tenant", "endpoint", "price_list")
    more = ("model_asked", "model_served", "service_tier", "requests", "usage_estimated", "price_set_id", "cost_status")
    return {
        "bucket_id": checked_id(bucket.bucket_id),
        "import_id": checked_id(bucket.import_id),
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
        "run_id": checked_id(answer.run_id),
        "message": to_json(answer.message),
        "finish_reason": answer.finish_reason,
        "expires_us": answer.expires_us,
    }


def _budget_use(use: budget_records.BudgetUse) -> dict[str, Any]:
    names = ("scope", "name", "month_start_us", "currency", "is_start")
    limit_nano = None if use.limit is None else int(use.limit * NANO)
    return {**{name: getattr(use, name) for name in names}, "add_nano": to_nano(use.add), "limit_nano": limit_nano}


def to_nano(amount: Decimal) -> int:
    """Return an amount in 1e-9 units, rounded up: a budget never counts less than was paid."""
    return int((amount * NANO).to_integral_value(rounding=ROUND_CEILING))


def _run_request(request: records.RunRequest) -> dict[str, Any]:
    return {"run_id": checked_id(request.run_id), "document": request.document, "expires_us": request.expires_us}


def _tool_call(call: tool_records.ToolCallStarted) -> dict[str, Any]:
    names = ("step_id", "call_key", "position", "number", "server", "tool", "started_us", "queue_us", "argument_bytes")
    ids = {"tool_call_id": checked_id(call.tool_call_id), "run_id": checked_id(call.run_id)}
    return {**ids, **{name: getattr(call, name) for name in names}, "status": "started", "is_raw": False}


def _tool_call_end(call: tool_records.ToolCallEnded) -> dict[str, Any]:
    names = ("status", "latency_us", "result_bytes", "is_raw", "error")
    return {"key_tool_call_id": checked_id(call.tool_call_id), **{name: getattr(call, name) for name in names}}


def _outcome(outcome: records.Outcome) -> dict[str, Any]:
    names = ("step_id", "call_key", "task_class", "model", "scorer", "at_us")
    ids = {"outcome_id": checked_id(outcome.outcome_id), "run_id": checked_id(outcome.run_id)}
    score_ppm = round(outcome.score_share * 1_000_000)
    return {**ids, **{name: getattr(outcome, name) for name in names}, "score_ppm": score_ppm}


def _import(taken: records.Import) -> dict[str, Any]:
    names = ("format", "file_name", "file_sha256", "model", "price_list", "configuration", "start_us")
    return {"import_id": checked_id(taken.import_id), **{name: getattr(taken, name) for name in names}}


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
    records.AttemptStarted: lambda attempt: _tagged(Kind.ATTEMPT, attempt_row(attempt), attempt.tags),
    records.ImportedAttempt: lambda attempt: [
        *_tagged(Kind.IMPORTED_ATTEMPT, _imported(attempt), attempt.started.tags),
        *_terms(attempt.ended),
    ],
    records.UsageBucket: lambda bucket: _tagged(Kind.USAGE_BUCKET, _usage_bucket(bucket), bucket.tags),
    records.Answer: lambda answer: [(Kind.ANSWER, _answer(answer))],
    records.AttemptEnded: lambda attempt: [
        (Kind.ATTEMPT_END, {"key_attempt_id": checked_id(attempt.attempt_id), **attempt_end_row(attempt)}),
        *_terms(attempt),
    ],
    budget_records.BudgetUse: lambda use: [(Kind.BUDGET_USE, _budget_use(use))],
    records.RunRequest: lambda request: [(Kind.RUN_REQUEST, _run_request(request))],
    tool_records.ToolCallStarted: lambda call: [(Kind.TOOL_CALL, _tool_call(call))],
    tool_records.ToolCallEnded: lambda call: [(Kind.TOOL_CALL_END, _tool_call_end(call))],
    records.Outcome: lambda outcome: [(Kind.OUTCOME, _outcome(outcome))],
    records.StepEnded: lambda step: [(Kind.STEP_END, _step_end(step))],
    records.RunEnded: lambda run: [(Kind.RUN_END, run_end_row(run))],
    message_records.MessagePublished: lambda message: [(Kind.MESSAGE, message_row(message))],
    message_records.CursorMoved: lambda move: [(Kind.CURSOR, cursor_row(move))],
    message_records.StateChanged: lambda change: [(Kind.STATE, value_row(change))],
}
