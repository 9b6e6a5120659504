"""The seam to every model: one request in, one answer or one `EndpointError` out.

In: a `WireRequest` (our names). Out: a `WireResponse`, or `TextDelta`s ending in one.
Invariant: an endpoint sends exactly one request to the model per `send` or `stream`, never retries, never touches the
ledger, and raises nothing but `EndpointError` (and CancelledError).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from pricing.quick import quick
from pricing.usage import Usage

ERROR_KINDS = (
    "refused",  # no connection: unknown host, refused, TLS; nothing was sent
    "connect_timeout",  # no connection in time; nothing was sent
    "idle",  # a stream in which no token came for longer than the caller waits; possibly billed
    "timeout",  # no answer, or no next chunk, in time; possibly billed
    "dropped",  # the connection broke after the request was sent; possibly billed
    "cut",  # a stream ended without its end marker; possibly billed
    "rate_limited",  # 429
    "overloaded",  # 503, 529
    "server_error",  # other 5xx; possibly billed
    "unauthorized",  # 401, 403
    "not_found",  # 404: unknown model or path
    "rejected",  # other 4xx: the request itself is wrong
    "malformed",  # 2xx, but not an answer of the documented shape; possibly billed
)


@quick
@dataclass(frozen=True, slots=True)
class WireRequest:
    """One request to a model.

    Args:
        model: the id the endpoint knows the model by.
        messages: OpenAI-style messages.
        parameters: every further body field, as it stands: max_tokens, temperature, response_format, tools,
            tool_choice, and any vendor's extra (thinking, reasoning_effort …), those set for the endpoint included.
        headers: further HTTP headers; never logged.
    """

    model: str
    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@quick
@dataclass(frozen=True, slots=True)
class Timings:
    """Where an attempt's time went, in whole microseconds.

    Args:
        latency_us: from the request's start to the end of its answer.
        ttft_us: from the start to the first token of a stream; None where not streamed.
        network_us: connecting, sending, and reading a body that was already there.
        inference_us: waiting for the model; `network_us + inference_us = latency_us`.
    """

    latency_us: int
    ttft_us: int | None = None
    network_us: int = 0
    inference_us: int = 0


@quick
@dataclass(frozen=True, slots=True)
class WireResponse:
    """One answer.

    Args:
        text: the answer's text; empty where the model only called tools.
        message: the assistant message as given (role, content, tool_calls …).
        served_model: the model's name in the answer; None where the upstream named none. This name and the three
            below are cut to 200 characters, and "?" stands for what cannot be printed.
        upstream_id: the upstream's id; not unique, may be None.
        finish_reason: "stop", "length", "tool_calls" …, or None.
        usage: the usage in disjoint buckets; None where none was reported, or none that can be right.
        usage_error: why a reported usage was refused; None otherwise.
        raw_usage: the upstream's usage object as it came.
        reported_cost_usd: the cost the upstream itself states (OpenRouter `usage.cost`, with what the user's own key
            is billed for), or None.
        service_tier: the tier the upstream says it served, or None.
        timings: where the time went.
        http_status: the HTTP status.
    """

    text: str
    message: Mapping[str, Any]
    served_model: str | None
    upstream_id: str | None
    finish_reason: str | None
    usage: Usage | None
    timings: Timings
    usage_error: str | None = None
    raw_usage: Mapping[str, Any] | None = None
    reported_cost_usd: Decimal | None = None
    service_tier: str | None = None
    http_status: int = 200


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of streamed text; an empty one is a sign of life: a token without any (reasoning, a tool call)."""

    text: str


class Endpoint(Protocol):
    """One base URL with one key."""

    async def send(self, request: WireRequest) -> WireResponse:
        """Send one request and return its whole answer.

        Raises:
            EndpointError: the attempt failed; its `kind` says how.
        """
        ...

    def stream(self, request: WireRequest, lull_s: float = 0.0) -> AsyncIterator[TextDelta | WireResponse]:
        """Send one request and yield its text as it comes, then exactly one WireResponse.

        Args:
            request: what is asked.
            lull_s: how long the text may gather after a token before it is read on, seconds, for a caller who only
                wants to know that tokens come: what comes meanwhile is one delta, at a fraction of the work. The
                answer's end ends it, so that none is late. 0: each token as it comes.

        Raises:
            EndpointError: the attempt failed, also in mid-stream; a stream without its end marker is an error.
        """
        ...

    async def models(self) -> tuple[str, ...]:
        """Return the model ids the endpoint says it has (GET /models), to check reachability and key.

        Raises:
            EndpointError: unreachable, or the key is refused.
        """
        ...

    async def aclose(self) -> None:
        """Close kept connections; a second call does nothing."""
        ...
