"""What an exported file's columns are: name, kind, what they say; and those of the ledger's records, one by one.

In: nothing. Out: `ExportColumn`, `RECORD_COLUMNS`. Invariant: the kind decides how a value is written, alike in every
format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pricing.usage import BUCKETS

ExportKind: TypeAlias = Literal[
    "text", "json", "count", "quantity", "money", "price", "instant", "moment", "flag", "number"
]
"""`instant` has whole seconds, `moment` microseconds, both UTC; `money` has 12 decimals at most, `price` 22, `quantity`
6; `number` is a float."""


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """One column.

    Args:
        name: its heading.
        kind: how its values are written.
        says: what they mean, with the unit.
    """

    name: str
    kind: ExportKind
    says: str


_Column = ExportColumn

RECORD_COLUMNS: tuple[ExportColumn, ...] = (
    _Column("record_id", "text", "the ledger's own id of the attempt, or of the bucket"),
    _Column("origin", "text", "routed, imported, or aggregated: a bucket of usage that somebody else added up"),
    _Column("started_at", "moment", "start of the attempt, or of the bucket"),
    _Column("ended_at", "moment", "end of a bucket"),
    _Column("run_id", "text", "the run, or none"),
    _Column("step_id", "text", "the step of its plan, or none"),
    _Column("number", "count", "which attempt of its call, from 1"),
    _Column("requests", "count", "1; of a bucket, how many it adds up, if it says"),
    _Column("import_id", "text", "the import it came with"),
    _Column("role", "text", "single, orchestrator, worker, …"),
    _Column("configuration", "text", "the configuration"),
    _Column("task_class", "text", "the class of the task"),
    _Column("tenant", "text", "the tenant"),
    _Column("tags", "json", "the labels, a JSON object"),
    _Column("endpoint", "text", "the endpoint"),
    _Column("price_list", "text", "the price list"),
    _Column("model_asked", "text", "the model that was asked for"),
    _Column("model_served", "text", "the model that answered"),
    _Column("status", "text", "started, succeeded, failed, timed_out or stopped"),
    _Column("error_kind", "text", "what went wrong"),
    _Column("http_status", "count", "the HTTP status"),
    _Column("finish_reason", "text", "as the upstream gave it"),
    _Column("service_tier", "text", "the tier that was served"),
    _Column("upstream_id", "text", "the upstream's id; it may repeat"),
    *(_Column(bucket, "count", "see the vocabulary; none: not known") for bucket in BUCKETS),
    _Column("usage_estimated", "flag", "whether the token counts are estimates"),
    _Column("context_tier", "count", "index of its input size among the catalogue's thresholds"),
    _Column("price_set_id", "text", "the immutable price set it was priced with"),
    _Column("terms_id", "text", "the endpoint's terms"),
    _Column("cost_status", "text", "exact, estimated, partial (a lower bound) or unknown"),
    _Column("list_currency", "text", "ISO 4217 code of list_cost"),
    _Column("list_cost", "money", "catalogue price × usage; none: not known"),
    _Column("settled_currency", "text", "ISO 4217 code of settled_cost"),
    _Column("settled_cost", "money", "what is paid; none: not known"),
    _Column("reported_cost_usd", "money", "the upstream's own figure, US dollars"),
    _Column("reserved_usd", "money", "what was held against the budget, US dollars"),
    _Column("possibly_billed", "flag", "whether it may be billed though its usage is not known"),
    _Column("queue_us", "count", "time at our own gates, microseconds"),
    _Column("network_us", "count", "time on the wire, microseconds"),
    _Column("inference_us", "count", "time at the model, microseconds"),
    _Column("state_us", "count", "time at the ledger, microseconds"),
    _Column("latency_us", "count", "the whole attempt, microseconds"),
    _Column("ttft_us", "count", "time to the first token, microseconds"),
)
"""One row an attempt or bucket."""
