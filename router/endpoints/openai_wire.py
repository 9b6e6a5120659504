"""OpenAI-compatible endpoints, spoken to directly over aiohttp.

In: a `WireRequest`. Out: a `WireResponse`, text deltas, or an `EndpointError`.
Invariant: one POST per call. A stream ends well only with `data: [DONE]`: a server that closes without it, even after a
finish reason, has cut the stream, because nothing else tells a whole answer from a lost tail (usage included). Every
vendor among the presets sends it. Comments keep no stream alive: the read time-out runs from event to event.
The key is read when a request is made, goes into its header, and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from yarl import URL

from pricing.errors import Fault
from router.endpoints import failures
from router.endpoints.failures import Sender, reading
from router.endpoints.line import Reply, head
from router.endpoints.openai_format import StreamedAnswer, name_of, request_body, whole_answer
from router.endpoints.payload import parse
from router.endpoints.protocol import TextDelta, Timings, WireRequest, WireResponse
from router.endpoints.sse import DONE, EventBuffer
from router.endpoints.transport import Lull, Transport, Watch, broken, drain, read_bounded, reason
from router.errors import ConfigError, EndpointError
from router.settings import EndpointSettings

MOST_BODY_BYTES = 64 * 1024 * 1024
MOST_EVENT_BYTES = 16 * 1024 * 1024
MOST_STREAM_BYTES = 256 * 1024 * 1024  # some 400 bytes of frame come with each token
MOST_ERROR_BYTES = 64 * 1024
KEEPALIVE_S = 15.0
_MANY_BYTES = 16 * 1024  # so many at once come from a server that is not waited for: more stand behind them
_PROCESSING_HEADER = "openai-processing-ms"


class _Credentials(NamedTuple):
    """What is sent with each request under one key, and who sends it; it holds the key, so its repr is that of none."""

    key: str | None
    sender: Sender
    headers: dict[str, str]
    head: bytes

    def __repr__(self) -> str:
        return "_Credentials()"


@dataclass(slots=True, repr=False)
class _Outgoing:
    """One request ready to go; it holds the key, so it has no repr. `head`: of a plain request; None: it is none."""

    headers: dict[str, str]
    body: bytes
    sender: Sender
    model: str
    head: bytes | None


class OpenAIEndpoint:
    """One base URL with one key, spoken to in OpenAI's chat format.

    Args:
        name: the endpoint's name, for messages.
        settings: base URL, time-outs, concurrency; further body fields are the caller's to add.
        key: returns the key, or None where it is not set.
        keepalive_s: how long an idle connection is kept, seconds.

    Raises:
        ConfigError: the settings have no usable base URL.
    """

    def __init__(
        self,
        name: str,
        settings: EndpointSettings,
        key: Callable[[], str | None],
        keepalive_s: float = KEEPALIVE_S,
    ) -> None:
        self.name = name
        self._settings = settings
        self._key = key
        base = _base_url(name, settings.base_url)
        self._completions = _below(base, "chat/completions")
        self._models = _below(base, "models")
        self._where = str(base.origin())
        self._transport = Transport(self._completions, settings.concurrency, keepalive_s, settings.read_timeout_s)
        self._known: _Credentials | None = None

    def __repr__(self) -> str:
        """Return name and server, nothing secret."""
        return f"OpenAIEndpoint({self.name!r}, {self._where!r})"

    async def send(self, request: WireRequest) -> WireResponse:
        """Send one request and return its whole answer.

        Raises:
            EndpointError: the attempt failed; its `kind` says how.
        """
        outgoing = self._outgoing(request, streamed=False)
        watch = self._watch()
        reply, raw = await self._exchange(outgoing.sender, self._begun(outgoing, watch), watch, outgoing.model)
        timings = watch.timings(perf_counter(), reply.headers.get(_PROCESSING_HEADER), None, streamed=False)
        return reading(outgoing.sender, lambda: _whole(outgoing.sender, raw, timings, reply.status))

    async def stream(self, request: WireRequest, lull_s: float = 0.0) -> AsyncGenerator[TextDelta | WireResponse, None]:
        """Send one request and yield its text as it comes, then exactly one WireResponse.

        Leaving early (`aclose`, or cancelling) closes the connection, which tells the upstream to stop.

        Args:
            request: what is asked.
            lull_s: how long the text may gather after a token before it is read on, seconds; 0: not at all.

        Raises:
            EndpointError: the attempt failed, also in mid-stream; a stream without its end marker is an error.
        """
        outgoing = self._outgoing(request, streamed=True)
        watch = self._watch()
        response = await self._open(outgoing, watch)
        try:
            if response.content_type == "application/json":
                whole = await self._unstreamed(response, outgoing.sender, watch)
                if whole.text:
                    yield TextDelta(whole.text)
                yield whole
                return
            answer = StreamedAnswer()
            first_token_s = None
            async for events in self._events(response, outgoing.sender, watch, answer, lull_s):
                size = answer.size
                text = reading(outgoing.sender, partial(_take, answer, outgoing.sender, events))
                if first_token_s is None and answer.has_tokens:
                    first_token_s = perf_counter()
                if answer.size > size:
                    yield TextDelta(text)
            ended_s = perf_counter()
            if not answer.has_chunks:
                raise outgoing.sender.failure("malformed", "a stream with nothing but its end marker")
            await drain(response)
            stated_ms = response.headers.get(_PROCESSING_HEADER)
            timings = watch.timings(ended_s, stated_ms, first_token_s, streamed=True)
            yield reading(outgoing.sender, lambda: answer.finish(timings, response.status))
        finally:
            response.close()  # of no effect where the body was read to its end: the connection is kept then

    async def models(self) -> tuple[str, ...]:
        """Return the model ids the endpoint says it has (GET /models), to check reachability and key.

        Raises:
            EndpointError: unreachable, or the key is refused.
        """
        sender, watch = (known := self._credentials()).sender, self._watch()
        _, raw = await self._exchange(
            sender, self._transport.open("GET", self._models, known.headers, None, watch), watch, None
        )
        payload = _json(raw)
        rows = payload.get("data") if isinstance(payload, Mapping) else payload
        if not isinstance(rows, list):
            raise sender.failure("malformed", f"a list of models was expected: {_quoted(raw)}")
        names = (row.get("id") if isinstance(row, Mapping) else row for row in rows)
        return tuple(name for name in map(name_of, names) if name is not None)

    async def aclose(self) -> None:
        """Close kept connections; a second call does nothing."""
        await self._transport.aclose()

    def _watch(self) -> Watch:
        return Watch(self._settings.connect_timeout_s, self._settings.read_timeout_s)

    def _sender(self, key: str | None, headers: Mapping[str, str]) -> Sender:
        return Sender(self.name, self._where, self._settings.key_env, failures.secrets_in(key, headers.items()))

    def _checked_key(self) -> str | None:
        """Return the key, or None where the endpoint needs none.

        Raises:
            EndpointError: it needs one that is not set, or that no header can carry; nothing is sent.
        """
        key = (self._key() or "").strip()
        if not key and self._settings.key_env:
            raise failures.no_key(self._sender(None, {}))
        if not key.isprintable():
            raise failures.unusable_key(self._sender(key, {}))
        return key or None

    def _credentials(self) -> _Credentials:
        """Return what goes with each request; it is made anew only where the key has changed.

        Raises:
            EndpointError: as of `_checked_key`.
        """
        key, known = self._checked_key(), self._known
        if known is None or known.key != key:
            headers = _headers(key, {})
            known = self._known = _Credentials(key, self._sender(key, {}), headers, head(self._completions, headers))
        return known

    def _outgoing(self, request: WireRequest, *, streamed: bool) -> _Outgoing:
        known = self._credentials()
        sender, headers = known.sender, known.headers
        if request.headers:
            sender, headers = self._sender(known.key, request.headers), _headers(known.key, request.headers)
        for name, value in request.headers.items():
            if not (name.isprintable() and value.isprintable()):
                raise sender.failure("rejected", f"nothing was sent: header {name!r} has a control character in it")
        try:
            body = request_body(request, streamed=streamed)
        except ValueError as error:
            failure = sender.failure("rejected", f"nothing was sent: {error}")
        else:
            is_plain = not request.headers and not self._transport.has_proxy
            return _Outgoing(headers, body, sender, request.model, known.head if is_plain else None)
        raise failure

    def _begun(self, outgoing: _Outgoing, watch: Watch) -> Awaitable[Reply]:
        """Return what sends a request: by the short way where it has nothing of its own."""
        body = outgoing.body
        if outgoing.head is None:
            return self._transport.open("POST", self._completions, outgoing.headers, body, watch)
        return self._transport.post(b"%b%d\r\n\r\n%b" % (outgoing.head, len(body), body), watch)

    async def _exchange(
        self, sender: Sender, begun: Awaitable[Reply], watch: Watch, model: str | None
    ) -> tuple[Reply, bytes]:
        """Return the reply and the body of a 2xx answer, all within the time-outs."""
        try:
            reply = await begun
            try:
                raw = await read_bounded(reply, MOST_BODY_BYTES if reply.status < 300 else MOST_ERROR_BYTES)
            finally:
                reply.close()
        except Exception as error:  # noqa: BLE001 - whatever breaks an exchange has one outcome
            failure = broken(sender, error, watch)
        else:
            _check(reply, raw, sender, model)
            if raw is None:
                raise _too_long(sender)
            return reply, raw
        raise failure  # outside the handler: the cause may carry the request's headers

    async def _open(self, outgoing: _Outgoing, watch: Watch) -> Reply:
        """Send a request and return its reply as soon as a 2xx status is there; of others the body is read, too."""
        try:
            reply = await self._begun(outgoing, watch)
            if 200 <= reply.status < 300:
                reply.untimed()
                return reply
            try:
                raw = await read_bounded(reply, MOST_ERROR_BYTES)
            finally:
                reply.close()
        except Exception as error:  # noqa: BLE001 - as above
            failure = broken(outgoing.sender, error, watch)
        else:
            _check(reply, raw, outgoing.sender, outgoing.model)
            failure = outgoing.sender.failure("malformed", f"HTTP {reply.status}")
        raise failure

    async def _unstreamed(self, response: Reply, sender: Sender, watch: Watch) -> WireResponse:
        """Return the answer of a server that sent one JSON object in place of a stream."""
        try:
            async with asyncio.timeout(self._settings.read_timeout_s):
                raw = await read_bounded(response, MOST_BODY_BYTES)
        except Exception as error:  # noqa: BLE001 - as above
            failure = broken(sender, error, watch)
        else:
            if raw is None:
                raise _too_long(sender)
            timings = watch.timings(perf_counter(), response.headers.get(_PROCESSING_HEADER), None, streamed=False)
            return reading(sender, lambda: _whole(sender, raw, timings, response.status))
        raise failure

    async def _events(
        self, response: Reply, sender: Sender, watch: Watch, answer: StreamedAnswer, lull_s: float
    ) -> AsyncGenerator[tuple[bytes, ...], None]:
        """Yield the data of the events up to the end marker, one by one, or with lulls those that came together.

        A stream that ends without the marker raises.
        """
        buffer = EventBuffer(MOST_EVENT_BYTES)
        read_timeout_s = self._settings.read_timeout_s
        lull = Lull(response, min(lull_s, read_timeout_s / 8)) if lull_s > 0 else None
        since_s, size = _now(), 0
        while True:
            chunk = await _read(response, sender, watch, since_s)
            size += len(chunk)
            if size > MOST_STREAM_BYTES:
                raise sender.failure("malformed", f"a stream longer than {MOST_STREAM_BYTES} bytes")
            came = reading(sender, partial(tuple, buffer.feed(chunk) if chunk else buffer.end()))
            events = came[: came.index(DONE)] if DONE in came else came
            for group in (events,) if lull else zip(events):
                yield group
            if len(events) < len(came):
                return
            if not chunk:
                after = "after a finish reason" if answer.finish_reason else "in mid-answer"
                raise sender.failure("cut", f"the stream ended {after}, without its end marker [DONE]")
            if events:
                since_s = _now()
                if lull and answer.has_tokens and len(chunk) < _MANY_BYTES:
                    await lull.last()


async def _read(reply: Reply, sender: Sender, watch: Watch, since_s: float) -> bytes:
    """Return the next bytes of a stream, b"" at its end; its time-out began at an instant of the loop."""
    reply.timed(since_s)
    try:
        chunk: bytes = await reply.content.readany()
    except TimeoutError as error:
        failure = broken(sender, error, watch)
    except Exception as error:  # noqa: BLE001 - whatever breaks a stream has one outcome
        failure = sender.failure("cut", f"the stream broke off: {reason(error)}")
    else:
        reply.untimed()  # whoever hears the text may take his time
        return chunk
    raise failure


def _now() -> float:
    return asyncio.get_running_loop().time()


def _check(reply: Reply, raw: bytes | None, sender: Sender, model: str | None) -> None:
    """Raise the error of a status that is not 2xx."""
    if not 200 <= reply.status < 300:
        text = (raw or b"").decode("utf-8", "replace")
        raise failures.from_status(sender, reply.status, reply.headers, text, datetime.now(UTC), model)


def _base_url(name: str, text: str | None) -> URL:
    problem = "is not set"
    if text:
        try:
            url = URL(text)
        except ValueError:
            problem = "is not a URL"
        else:
            if url.scheme in ("http", "https") and url.host and not url.user and not url.password:
                return url
            problem = "must be http:// or https://, with a host and without a user name"
    raise ConfigError((Fault("router.toml", None, f"endpoints.{name}.base_url {problem}"),))


def _below(base: URL, path: str) -> URL:
    return base.with_path(f"{base.raw_path.rstrip('/')}/{path}", encoded=True)


def _headers(key: str | None, more: Mapping[str, str]) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "farebox"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if more:
        given = {name.lower() for name in more}
        headers = {name: value for name, value in headers.items() if name.lower() not in given} | dict(more)
    return headers


def _json(raw: bytes) -> Any:
    try:
        return parse(raw)
    except ValueError:
        return None


def _too_long(sender: Sender) -> EndpointError:
    return sender.failure("malformed", f"an answer longer than {MOST_BODY_BYTES} bytes")


def _whole(sender: Sender, raw: bytes, timings: Timings, status: int) -> WireResponse:
    """Return the response of a 2xx answer that was not streamed, or raise the error it is."""
    response = whole_answer(_payload(sender, raw), raw, timings, status)
    if response is None:
        raise sender.failure("malformed", f"an answer without choices: {_quoted(raw)}")
    return response


def _take(answer: StreamedAnswer, sender: Sender, events: Iterable[bytes]) -> str:
    """Return the text that events add to an answer, or raise the error that one of them is."""
    return "".join([answer.take(_payload(sender, event), event) for event in events])


def _payload(sender: Sender, raw: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a 2xx answer, or raise the error it is or holds."""
    payload = _json(raw)
    if not isinstance(payload, dict):
        raise sender.failure("malformed", f"a JSON object was expected: {_quoted(raw)}")
    if payload.get("error") and not payload.get("choices"):
        raise failures.from_error_object(sender, payload["error"])
    return payload


def _quoted(raw: bytes) -> str:
    return repr(raw[: failures.MOST_QUOTED_CHARACTERS].decode("utf-8", "replace"))
