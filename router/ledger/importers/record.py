"""What a reader of somebody else's file hands on: one record a request or a bucket, or a line that is none and why.

    file → source.read → Record | Rejected → pricing → rows of the ledger

In: nothing. Out: plain tuples, since millions of them are made. Invariant: a count is a whole number or the usage is
None; nothing is guessed; what a record is called (`identity`) does not depend on the file it was found in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from pricing.usage import BUCKETS
from router.ledger.records import AttemptStatus
from router.task import Role

Tags = tuple[tuple[str, str], ...]
"""Labels as pairs of name and value, sorted by name."""


class Counts(NamedTuple):
    """Disjoint counts of usage, as `pricing.Usage` defines them, unchecked: whoever writes them checks them."""

    uncached_input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    audio_input_tokens: int = 0
    image_input_tokens: int = 0
    plain_output_tokens: int = 0
    reasoning_tokens: int = 0
    audio_output_tokens: int = 0
    image_output_tokens: int = 0
    web_searches: int = 0


if Counts._fields != BUCKETS:  # a bucket added there must be added here
    raise TypeError(f"Counts has {Counts._fields}, usage has {BUCKETS}")


class Record(NamedTuple):
    """One request, or a bucket of requests that somebody else has added up.

    Args:
        line: where it stands in its file, from 1: the line, or the item of a JSON document.
        at_us: when the request was sent, or the bucket's first instant; microseconds since 1970 UTC.
        model: the model that answered, as the source names it.
        counts: disjoint usage; None: unknown.
        identity: the source's own name of it, the same in every export: a request's id, or a bucket's start and what it
            is grouped by. None: it has none, and is known by its file's content and line.
        end_us: a bucket's first instant that is not in it any more. None: this is one request.
        requests: of a bucket, how many it adds up; None: the source does not say.
        context_tokens: of a bucket, the size of one of its requests where the source says (any size of the right
            context tier will do), tokens; None: it is the mean, where `requests` is known.
        estimated: whether `counts` are an estimate.
        reported_usd: what the source says it cost, USD; None: it does not.
        provider: who sold it, as the source names it ("openai", "azure", …); None: it does not say.
        model_asked: the model that was asked for, where the source says so and it may differ; None: `model`.
        tenant: who is charged; None: unknown.
        task_class, configuration, role: as of an attempt; None: what the user states for all, else unknown.
        tags: labels.
        status: how a request ended; of a bucket it is not used.
        error_kind: one of `router.endpoints.protocol.ERROR_KINDS`, or None.
        http_status: of a failed request, or None.
        finish_reason: as the upstream gave it, or None.
        service_tier: the tier that was served, as the vendor names it; "batch" for its batch API; None: the plain one.
        upstream_id: the provider's id of the request, or None.
        latency_us, ttft_us: whole call and time to first token, microseconds; None: not recorded.
    """

    line: int
    at_us: int
    model: str
    counts: Counts | None
    identity: str | None = None
    end_us: int | None = None
    requests: int | None = None
    context_tokens: int | None = None
    estimated: bool = False
    reported_usd: Decimal | None = None
    provider: str | None = None
    model_asked: str | None = None
    tenant: str | None = None
    task_class: str | None = None
    configuration: str | None = None
    role: Role | None = None
    tags: Tags = ()
    status: AttemptStatus = "succeeded"
    error_kind: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    service_tier: str | None = None
    upstream_id: str | None = None
    latency_us: int | None = None
    ttft_us: int | None = None


DEFAULTS: Mapping[str, Any] = {**dict.fromkeys(Record._fields), **Record._field_defaults}
"""The value of each field that a record does not state."""

_NEW_COUNTS = partial(tuple.__new__, Counts)  # what `Counts(…)` ends in, without a call of Python's for each
_NEW_RECORD = partial(tuple.__new__, Record)


@dataclass(frozen=True, slots=True)
class Block:
    """Many single requests, a column each: what a reader hands on that has read them together.

    Args:
        columns: fields of `Record` by name, all of one length; one that is not there has its default in every record.
            `line`, `at_us` and `model` are there, `counts` and `end_us` are not.
        usage: counts by bucket, of the same length; a bucket that is not there is 0. Empty: usage is unknown.
    """

    columns: Mapping[str, Sequence[Any]]
    usage: Mapping[str, Sequence[int]]

    def __len__(self) -> int:
        return len(self.columns["line"])

    def column(self, name: str) -> Sequence[Any]:
        """Return a column, also one that is not there."""
        return self.columns.get(name) or (DEFAULTS[name],) * len(self)

    def records(self) -> Iterator[Record]:
        """Yield its records."""
        size = len(self)
        counts: Sequence[Any] = (None,) * size
        if self.usage:
            counts = list(
                map(_NEW_COUNTS, zip(*(self.usage.get(name) or (0,) * size for name in BUCKETS), strict=True))
            )
        columns = (counts if name == "counts" else self.column(name) for name in Record._fields)
        return map(_NEW_RECORD, zip(*columns, strict=True))


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no record, and why.

    Args:
        line: as of a `Record`.
        reason: what is wrong with it, to be read after "line 12: ".
        text: the line itself, cut; empty where it is of no use.
    """

    line: int
    reason: str
    text: str = ""


class BadRecordError(ValueError):
    """Why a line is no record. `router.ledger.importers.values` raises it, and a reader makes it a `Rejected`."""
