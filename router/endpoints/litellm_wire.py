"""Every vendor that is not OpenAI-compatible, by way of litellm.

In: a `WireRequest`. Out: a `WireResponse`, text deltas, or an `EndpointError`.
Invariant: one request per call (`max_retries=0`; `num_retries`, which multiplies with it, is never passed).
litellm loads when the first request is made, takes seconds for it, and is kept quiet: no telemetry, no prints, no
prices fetched. It hides the end markers of streams; a finish reason of the upstream stands for them here.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any

from router.endpoints import failures
from router.endpoints.failures import Sender, reading
from router.endpoints.openai_format import StreamedAnswer, whole_answer
from router.endpoints.protocol import TextDelta, Timings, WireRequest, WireResponse
from router.errors import EndpointError, RouterError
from router.settings import EndpointSettings

# Names of litellm's exceptions whose status does not say what they are.
_KINDS = {
    "Timeout": "timeout",
    "APITimeoutError": "timeout",
    "APIConnectionError": "dropped",
    "ServiceUnavailableError": "overloaded",
    "AuthenticationError": "unauthorized",
    "PermissionDeniedError": "unauthorized",
    "NotFoundError": "not_found",
    "RateLimitError": "rate_limited",
    "APIResponseValidationError": "malformed",
    "LiteLLMUnknownProvider": "rejected",
}
# litellm reports every broken connection as InternalServerError, status 500; only the chain of causes (httpx's or
# aiohttp's exceptions, by name) tells whether anything had been sent.
_CAUSES = {
    "ConnectTimeout": "connect_timeout",
    "ConnectionTimeoutError": "connect_timeout",
    "ConnectError": "refused",
    "ClientConnectorError": "refused",
    "ConnectionRefusedError": "refused",
    "ReadTimeout": "timeout",
    "SocketTimeoutError": "timeout",
    "RemoteProtocolError": "dropped",
    "ReadError": "dropped",
    "WriteError": "dropped",
    "ClientConnectionError": "dropped",
    "JSONDecodeError": "malformed",
}
_WITHOUT_ANSWER = frozenset({"refused", "connect_timeout", "timeout", "dropped", "malformed"})
_DEEPEST_CAUSE = 12


class LitellmEndpoint:
    """One vendor's account, spoken to through `litellm.acompletion`.

    Args:
        name: the endpoint's name, for messages.
        settings: time-outs, key's variable; `base_url` goes to litellm as `api_base`.
        key: returns the key, or None where it is not set: without `settings.key_env` litellm then looks for the
            vendor's own variables.

    Raises:
        RouterError: litellm is not installed.
    """

    def __init__(self, name: str, settings: EndpointSettings, key: Callable[[], str | None]) -> None:
        if importlib.util.find_spec("litellm") is None:
            message = f"endpoint {name}: kind 'litellm' needs the litellm package, which is not installed"
            raise RouterError(message, hint="pip install 'farebox[litellm]'")
        self.name = name
        self._settings = settings
        self._key = key

    def __repr__(self) -> str:
        """Return the name, nothing secret."""
        return f"LitellmEndpoint({self.name!r})"

    async def send(self, request: WireRequest) -> WireResponse:
        """Send one request and return its whole answer.

        Raises:
            EndpointError: the attempt failed; its `kind` says how.
        """
        arguments, sender = self._arguments(request, streamed=False)
        await asyncio.to_thread(_load)
        started_s = perf_counter()
        answer = await self._call(arguments, sender)
        latency_us = int((perf_counter() - started_s) * 1_000_000)
        response = reading(sender, lambda: _whole(answer, Timings(latency_us, None, 0, latency_us)))
        if response is None:
            raise sender.failure("malformed", "an answer without choices")
        return response

    async def stream(
        self,
        request: WireRequest,
        lull_s: float = 0.0,  # noqa: ARG002 - litellm hands out its chunks one by one, whoever waits
    ) -> AsyncGenerator[TextDelta | WireResponse, None]:
        """Send one request and yield its text as it comes, then exactly one WireResponse.

        Raises:
            EndpointError: the attempt failed, also in mid-stream; a stream without a finish reason is an error.
        """
        arguments, sender = self._arguments(request, streamed=True)
        await asyncio.to_thread(_load)
        started_s = perf_counter()
        chunks = await self._call(arguments, sender)
        answer, first_token_s = StreamedAnswer(), None
        try:
            while (chunk := await self._next(chunks, sender)) is not None:
                size = answer.size
                text = reading(sender, partial(_take, answer, chunk, chunks))
                if first_token_s is None and answer.has_tokens:
                    first_token_s = perf_counter()
                if answer.size > size:
                    yield TextDelta(text)
            _refuse_cut(chunks, sender)
            latency_us = int((perf_counter() - started_s) * 1_000_000)
            ttft_us = None if first_token_s is None else int((first_token_s - started_s) * 1_000_000)
            yield reading(sender, lambda: answer.finish(Timings(latency_us, ttft_us, 0, latency_us), 200))
        finally:
            await _close(chunks)

    async def models(self) -> tuple[str, ...]:
        """Return nothing: litellm lists what it knows, not what an account has; a missing key is told.

        Raises:
            EndpointError: the key's variable is not set.
        """
        self._sender_and_key(())
        return ()

    async def aclose(self) -> None:
        """Do nothing: litellm keeps its own connections."""

    def _sender_and_key(self, headers: tuple[tuple[str, str], ...]) -> tuple[Sender, str | None]:
        key = (self._key() or "").strip() or None
        settings = self._settings
        where = settings.base_url or "litellm"
        sender = Sender(self.name, where, settings.key_env, failures.secrets_in(key, headers))
        if key is None and settings.key_env:
            raise failures.no_key(sender)
        return sender, key

    def _arguments(self, request: WireRequest, *, streamed: bool) -> tuple[dict[str, Any], Sender]:
        sender, key = self._sender_and_key(tuple(request.headers.items()))
        settings = self._settings
        arguments: dict[str, Any] = dict(request.parameters)
        options = arguments.pop("stream_options", None)
        for ours in ("stream", "num_retries", "fallbacks", "mock_response"):
            arguments.pop(ours, None)
        arguments |= {"model": request.model, "messages": [dict(message) for message in request.messages]}
        arguments |= {"max_retries": 0, "timeout": settings.read_timeout_s}
        if streamed:
            arguments |= {"stream": True, "stream_options": {**(options or {}), "include_usage": True}}
        given = {"api_key": key, "api_base": settings.base_url, "extra_headers": dict(request.headers) or None}
        return arguments | {name: value for name, value in given.items() if value is not None}, sender

    async def _call(self, arguments: Mapping[str, Any], sender: Sender) -> Any:
        litellm = _load()
        try:
            return await litellm.acompletion(**arguments)
        except Exception as error:  # noqa: BLE001 - whatever litellm raises has one outcome
            failure = _failure(sender, error)
        raise failure  # outside the handler: the cause may carry the request's headers

    @staticmethod
    async def _next(chunks: Any, sender: Sender) -> Any:
        """Return the stream's next chunk, or None at its end."""
        try:
            return await anext(chunks, None)
        except Exception as error:  # noqa: BLE001 - as above
            failure = _failure(sender, error)
            if failure.kind in ("dropped", "server_error", "malformed"):
                failure = sender.failure("cut", f"the stream broke off: {error}")
        raise failure


def _load() -> Any:
    """Return the litellm module, loaded on first use without network access and kept quiet."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


def _plain(answer: Any) -> Mapping[str, Any]:
    """Return litellm's answer object as the mapping it stands for, without the fields it left empty."""
    payload: dict[str, Any] = answer.model_dump(exclude_none=True)
    return payload


def _whole(answer: Any, timings: Timings) -> WireResponse | None:
    payload = _plain(answer)
    return whole_answer(payload, _raw(payload), timings, 200)


def _take(answer: StreamedAnswer, chunk: Any, chunks: Any) -> str:
    """Return the text that a chunk adds to an answer."""
    payload = _reported(_plain(chunk), chunks)
    return answer.take(payload, _raw(payload))


def _reported(payload: Mapping[str, Any], chunks: Any) -> Mapping[str, Any]:
    """Return a chunk without a usage that no chunk of the upstream reported: litellm's own estimate is none."""
    came = getattr(chunks, "chunks", None)
    if payload.get("usage") and came is not None and not any(getattr(chunk, "usage", None) for chunk in came):
        return {key: value for key, value in payload.items() if key != "usage"}
    return payload


def _raw(payload: Mapping[str, Any]) -> bytes:
    """Return the usage as JSON, where it states a cost that must be read digit by digit."""
    usage = payload.get("usage")
    if not isinstance(usage, Mapping) or usage.get("cost") is None:
        return b""
    return json.dumps({"usage": usage}, default=str).encode()


def _refuse_cut(chunks: Any, sender: Sender) -> None:
    """Raise if the upstream gave no finish reason: litellm makes one up ("stop") where a stream was cut."""
    given = getattr(chunks, "received_finish_reason", None) or getattr(chunks, "intermittent_finish_reason", None)
    if given is None:
        raise sender.failure("cut", "the stream ended in mid-answer, without a finish reason")


async def _close(chunks: Any) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()


def _failure(sender: Sender, error: Exception) -> EndpointError:
    """Return our error for one of litellm's."""
    status = getattr(error, "status_code", None)
    text = str(getattr(error, "message", None) or error).removeprefix("litellm.")
    kind = _named(error, _KINDS)
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    if kind is None or status == 500:
        kind = _cause(error) or kind
    if isinstance(status, int) and status >= 400 and kind not in _WITHOUT_ANSWER:
        return failures.from_status(sender, status, headers, text, datetime.now(UTC))
    return sender.failure(kind or "server_error", text)


def _named(error: BaseException, kinds: Mapping[str, str]) -> str | None:
    return next((kinds[cls.__name__] for cls in type(error).__mro__ if cls.__name__ in kinds), None)


def _cause(error: BaseException) -> str | None:
    """Return the kind that the chain of causes tells; the deepest one that is known has seen it happen."""
    kind, cause, depth = None, error.__cause__ or error.__context__, 0
    while cause is not None and depth < _DEEPEST_CAUSE:
        kind = _named(cause, _CAUSES) or kind
        cause, depth = cause.__cause__ or cause.__context__, depth + 1
    return kind
