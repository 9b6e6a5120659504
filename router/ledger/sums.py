"""The words that attempts are added up in: what they are grouped by, and what is summed.

In: nothing. Out: names, the same for the raw rows (`queries`), the rollups and their tables. Invariant: every sum is a
whole number that adds up over any partition of the rows.
"""

from __future__ import annotations

from pricing.usage import BUCKETS

START_COLUMNS = (
    *("role", "task_class", "configuration", "tenant", "tags_id", "endpoint", "price_list", "model_asked", "origin"),
)
"""What an attempt's start says of what it is added up by."""
END_COLUMNS = (
    *("model_served", "service_tier", "context_tier", "price_set_id", "terms_id", "cost_status", "cost_currency"),
    *("settled_currency", "usage_estimated", "possibly_billed", "status", "error_kind", "http_status"),
)
"""What its end says."""
KEY_COLUMNS = (*START_COLUMNS, *END_COLUMNS)
"""What a row of a rollup is of, but for its time."""

GROUP_COLUMNS = ("day", "quarter_hour", *KEY_COLUMNS)
"""What attempts can be grouped by. `day` counts days, and `quarter_hour` quarter hours, since 1970-01-01 00:00 UTC.
`origin` is routed, imported, or aggregated: added up by somebody else, so that status, error and context tier are not
known (None), and its time is that of the bucket's start. `tags_id` and `terms_id` name documents; None: none."""

AGGREGATED = "aggregated"
"""The origin of usage that somebody else has added up."""

COUNTED = (
    "calls",
    "succeeded",
    "usage_unknown",
    "cost_unknown",
    "reported",
    "timed",
    "streamed",
    "inference_timed",
    "network_timed",
    "state_timed",
)
SUMMED = (
    *BUCKETS,
    "cost_micro",
    "cost_pico",
    "settled_micro",
    "settled_pico",
    "reported_usd_micro",
    "reported_usd_pico",
    "queue_us",
    "state_us",
    "network_us",
    "inference_us",
    "latency_us",
    "ttft_us",
)
SUM_NAMES = (
    *("records", "attempts", "requests", "requests_unknown"),
    *COUNTED,
    *("unsettled", "unsettled_usd_micro", "unsettled_usd_pico"),
    *("retried_settled_micro", "retried_settled_pico"),
    *SUMMED,
)
"""The sums of every group, all whole numbers.

    records             rows of the ledger: attempts, and usage buckets of origin `aggregated`
    attempts            requests on the wire (or imported records of them), each of which is known
    requests            attempts, and the requests of usage buckets that say how many they are of
    requests_unknown    usage buckets that do not say
    calls               attempts that are first ones, so logical calls
    succeeded           attempts that were answered
    usage_unknown       records without token counts
    cost_unknown        records without a list cost
    reported            records with a cost stated by the upstream (`reported_usd_*` sums those)
    timed, streamed     attempts with a latency, with a time to first token (those `latency_us`, `ttft_us` sum)
    inference_timed, network_timed, state_timed   attempts with that time (those `inference_us` … sum)
    unsettled           attempts possibly billed: ended without usage after the request was sent, or never ended at all
    unsettled_usd_*     what was reserved for those
    retried_settled_*   settled cost of attempts that are a call's second or a later one, part of `settled_*`
    *_tokens, web_searches   usage by bucket, over records whose usage is known
    cost_*, settled_*   list and settled cost: `pricing.money.join_amount(micro, pico)`, in the group's currency, so
                        group by `cost_currency` or `settled_currency` where there may be several
    *_us                microseconds
"""
