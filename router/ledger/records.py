"""What the ledger is told: frozen values, one per row written.

In: facts of a run. Out: the rows of `router.ledger.tables`. Invariant: an attempt is inserted once, as *started*,
before its request is sent, and completed by exactly one `AttemptEnded`; nothing else ever changes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from pricing.quick import quick
from pricing.terms import NO_TERMS, Terms
from pricing.usage import Usage
from router.task import Role

AttemptStatus = Literal["started", "succeeded", "failed", "timed_out", "stopped"]
RunStatus = Literal["running", "succeeded", "partial", "failed", "stopped"]
StepStatus = Literal["waiting", "running", "succeeded", "failed", "timed_out"]
CostStatusName = Literal["exact", "estimated", "partial", "unknown"]
Origin = Literal["routed", "imported"]
AS_RECORDED = "as recorded"
ANSWER_KEPT_US = 24 * 3600 * 1_000_000
"""How long answers, and the task of a run, are kept for a resume after the run's end, microseconds."""


@quick
@dataclass(frozen=True, slots=True)
class RunStarted:
    """One task taken on.

    Args:
        run_id: our UUIDv7, as text.
        run_key: the caller's own key; unique where given.
        request_hash: hash of task and configuration; a run key re-used for something else is refused by it.
        configuration: the named configuration.
        policy_version: version of the policy that decides.
        task_class: the class the task was given, or None.
        tenant: who is charged, or None.
        tags: free labels of the caller.
        started_us: instant, microseconds since 1970 UTC.
        budget_usd: the run's budget, USD, or None.
        prompt: the task's text, only where `store_prompts` is set.
        owner: who works on it (host, boot id, process).
        lease_until_us: until when the owner may be taken to be alive.
        expected_low_usd, expected_usd, expected_high_usd: what the whole run was expected to cost, USD: the 10 %
            point, the mean, the 90 % point, before `router.experience.Widths`; None where a price was unknown.
        experience_us: as of when the record was that its decisions stand on, microseconds since 1970 UTC; None: none.
    """

    run_id: str
    configuration: str
    policy_version: str
    started_us: int
    run_key: str | None = None
    request_hash: str | None = None
    task_class: str | None = None
    tenant: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    budget_usd: Decimal | None = None
    prompt: str | None = None
    owner: str | None = None
    lease_until_us: int | None = None
    expected_low_usd: Decimal | None = None
    expected_usd: Decimal | None = None
    expected_high_usd: Decimal | None = None
    experience_us: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class RunEnded:
    """How a run ended.

    Args:
        run_id: the run.
        status: how.
        ended_us: instant, microseconds since 1970 UTC.
        error: one line, or None.
        owner: who ended it; where another process has taken the run over since, it cannot. None: nobody else can have.
    """

    run_id: str
    status: RunStatus
    ended_us: int
    error: str | None = None
    owner: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class StepRow:
    """One step of a run's plan, as planned."""

    run_id: str
    step_id: str
    position: int
    task_class: str
    depends_on: tuple[str, ...] = ()
    status: StepStatus = "waiting"


@quick
@dataclass(frozen=True, slots=True)
class StepEnded:
    """How a step ended. `error` is one line, or None."""

    run_id: str
    step_id: str
    status: StepStatus
    error: str | None = None


@quick
@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One request about to go on the wire.

    Args:
        attempt_id: our UUIDv7, as text (name-based for imported rows).
        run_id: its run; None for imported rows.
        step_id: its plan step, or None.
        call_key: key of the logical call (run, step, sample, hash of the request).
        number: 1 for a call's first attempt, 2 for the first retry …
        role: single, orchestrator or worker; None where an imported record does not say.
        configuration, task_class, tenant: as of the run (a worker's class is its step's).
        endpoint: the endpoint's name.
        price_list: the price list the endpoint sells at.
        model_asked: our model id that was asked for.
        started_us: instant of the request, microseconds since 1970 UTC.
        queue_us: time the call waited at our own gates before it, microseconds.
        reserved_usd: amount held against budgets until the attempt ends; None where no price is known.
        tags: free labels, as of the run.
        script: what its text is mostly written in (`router.tokens.SCRIPTS`); None: its size was not estimated.
        estimated_input_tokens: size of its input by the text alone, tokens; None: it was not estimated.
        expected_input_tokens: the same as its model's record corrects it, or as the caller gave it, tokens.
        expected_output_low_tokens, expected_output_tokens, expected_output_high_tokens: the forecast of its answer.
    """

    attempt_id: str
    call_key: str
    number: int
    configuration: str | None
    endpoint: str
    price_list: str
    model_asked: str
    started_us: int
    run_id: str | None = None
    step_id: str | None = None
    role: Role | None = None
    task_class: str | None = None
    tenant: str | None = None
    queue_us: int = 0
    reserved_usd: Decimal | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    script: str | None = None
    estimated_input_tokens: int | None = None
    expected_input_tokens: int | None = None
    expected_output_low_tokens: int | None = None
    expected_output_tokens: int | None = None
    expected_output_high_tokens: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Amount:
    """An exact amount of money: `value` in units of `currency` (an ISO 4217 code)."""

    currency: str
    value: Decimal


@quick
@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """How an attempt ended: its one update.

    Args:
        attempt_id: the started row.
        status: succeeded, failed, timed_out or stopped (the consumer left).
        model_served: our id of the model that answered where the catalogue knows it, else the name as given.
        error_kind: one of `router.endpoints.protocol.ERROR_KINDS`, or None.
        http_status: or None where there was no answer.
        usage: in disjoint buckets; None where none is known.
        usage_estimated: whether `usage` is our estimate.
        cost_status: exact, estimated, partial or unknown (design: pricing.cost).
        list_cost: catalogue price × usage; None where unknown.
        settled_cost: what is really paid after discount and settlement rate; None where unknown.
        reported_cost_usd: the upstream's own figure, or None.
        price_set_id: the immutable price set used, or None.
        terms: the endpoint's terms that `settled_cost` was made with.
        possibly_billed: ended without usage after the request was sent.
        latency_us, ttft_us, network_us, inference_us: see `router.endpoints.protocol.Timings`; None only where an
            imported record does not say.
        state_us: time spent waiting for the ledger for this attempt, microseconds.
    """

    attempt_id: str
    status: AttemptStatus
    cost_status: CostStatusName
    latency_us: int | None
    model_served: str | None = None
    error_kind: str | None = None
    http_status: int | None = None
    upstream_id: str | None = None
    finish_reason: str | None = None
    service_tier: str | None = None
    usage: Usage | None = None
    usage_estimated: bool = False
    list_cost: Amount | None = None
    settled_cost: Amount | None = None
    reported_cost_usd: Decimal | None = None
    price_set_id: str | None = None
    terms: Terms = NO_TERMS
    possibly_billed: bool = False
    ttft_us: int | None = None
    network_us: int | None = None
    inference_us: int | None = None
    state_us: int | None = None


@quick
@dataclass(frozen=True, slots=True)
class Answer:
    """A finished call's answer, kept so that a resumed run never pays for it again.

    Args:
        call_key: the logical call.
        run_id: its run.
        message: the assistant message.
        finish_reason: as the upstream gave it.
        expires_us: when it may be deleted, microseconds since 1970 UTC; None: it is kept for good.
    """

    call_key: str
    run_id: str
    message: Mapping[str, Any]
    finish_reason: str | None
    expires_us: int | None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run's task, kept so that the run can be resumed by its id.

    Args:
        run_id: the run.
        document: the task as JSON text.
        expires_us: when it may be deleted, microseconds since 1970 UTC; None: it is kept for good.
    """

    run_id: str
    document: str
    expires_us: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an answer was judged to be worth.

    Args:
        outcome_id: our UUIDv7, as text.
        run_id: its run.
        call_key: the call that gave the answer.
        score_share: 0 to 1.
        scorer: who judged: "judge:<model>", "exact", a caller's own name.
        at_us: instant, microseconds since 1970 UTC.
        step_id, task_class, model: of the call, or None.
    """

    outcome_id: str
    run_id: str
    call_key: str
    score_share: float
    scorer: str
    at_us: int
    step_id: str | None = None
    task_class: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Import:
    """One file of records taken in.

    Args:
        import_id: name-based UUID of digest, model, list and start, so that the same import is the same row.
        format: the format found in the file.
        file_name: the file's name, without its folder.
        file_sha256: digest of the file's bytes, hexadecimal.
        model: the model the rows were priced as; `AS_RECORDED` where each names its own.
        price_list: the price list they were priced at; `AS_RECORDED` where each names its own.
        configuration: the configuration they are booked under, or None.
        start_us: the instant the file's first moment was mapped to, microseconds since 1970 UTC; 0 where its rows have
            their own.
    """

    import_id: str
    format: str
    file_name: str
    file_sha256: str
    model: str
    price_list: str
    configuration: str | None
    start_us: int


@dataclass(frozen=True, slots=True)
class ImportedAttempt:
    """An attempt that somebody else recorded: start and end in one, written once.

    Args:
        import_id: the `Import` it came with.
        started: its start; `attempt_id` and `call_key` are name-based.
        ended: its end; its `latency_us` is None where the record has none.
    """

    import_id: str
    started: AttemptStarted
    ended: AttemptEnded


@dataclass(frozen=True, slots=True)
class UsageBucket:
    """Requests of a span of time that somebody else has added up, written once.

    Args:
        bucket_id: name-based UUID, so that the same bucket of the same source is the same row.
        import_id: the `Import` it came with.
        start_us, end_us: the span, half-open, microseconds since 1970 UTC.
        endpoint, price_list, model_asked, model_served, service_tier: as of an attempt.
        requests: how many requests it adds up; None where the source does not say.
        usage: their tokens; None where not known.
        usage_estimated: whether `usage` is an estimate.
        cost_status, list_cost, settled_cost, price_set_id, reported_cost_usd: as of an attempt. Where a price depends
            on the size of each request, the cost is `estimated` at the mean size.
        role, configuration, task_class, tenant, tags: as of an attempt.
    """

    bucket_id: str
    import_id: str
    start_us: int
    end_us: int
    endpoint: str
    price_list: str
    model_asked: str
    cost_status: CostStatusName
    model_served: str | None = None
    service_tier: str | None = None
    requests: int | None = None
    usage: Usage | None = None
    usage_estimated: bool = False
    list_cost: Amount | None = None
    settled_cost: Amount | None = None
    reported_cost_usd: Decimal | None = None
    price_set_id: str | None = None
    role: Role | None = None
    configuration: str | None = None
    task_class: str | None = None
    tenant: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt as the ledger has it: what it started with and, once it has ended, how.

    Args:
        started: the facts it was inserted with.
        ended: its one completion; None while it is in flight, or was when its process died.
        origin: "routed" by us, or "imported".
        import_id: the import it came with, or None.
    """

    started: AttemptStarted
    ended: AttemptEnded | None
    origin: Origin
    import_id: str | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the ledger has it: what it started with and, once it has ended, how."""

    started: RunStarted
    ended: RunEnded | None
