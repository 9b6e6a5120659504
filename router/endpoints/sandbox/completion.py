"""One chat completion of the stand-in server, from the request's arrival to its end.

In: an HTTP request. Out: an HTTP response, or whatever the fault that strikes makes of it.
Invariant: the request is in the log before anything else happens to it, and is completed there however it ends.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from aiohttp import web

from router.endpoints.sandbox import wire
from router.endpoints.sandbox.answers import Answer, answer
from router.endpoints.sandbox.faults import NO_FAULT, Fault, FaultBook, Rule, steady_now_s
from router.endpoints.sandbox.log import LogEntry, RequestLog
from router.endpoints.sandbox.prompts import PrefixCache, Prompt, read_prompt

# After so many chunks the server lets others run, so that a client in the same loop can read, and leave.
_CHUNKS_PER_TURN = 4


@dataclass(slots=True)
class State:
    """What a server knows: names, key, rules, cache, log. `models` None: every name is answered to."""

    models: tuple[str, ...] | None
    key: str | None
    book: FaultBook
    cache: PrefixCache
    log: RequestLog


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request in the making: what was asked, its log row, the fault that strikes it and the lasting one."""

    request: web.Request
    body: Mapping[str, Any]
    prompt: Prompt
    entry: LogEntry
    fault: Fault
    failing: Fault

    @property
    def is_streamed(self) -> bool:
        """Whether a stream was asked for."""
        return self.entry.streamed


async def complete(state: State, request: web.Request) -> web.StreamResponse:
    """Answer POST /v1/chat/completions."""
    raw = await request.read()
    body = _parse(raw)
    entry = state.log.received(
        str(body.get("model", "")),
        streamed=body.get("stream") is True,
        body_hash=blake2b(raw, digest_size=8).hexdigest(),
        idempotency_key=request.headers.get("Idempotency-Key"),
        now_s=steady_now_s(),
        fields={name: value for name, value in body.items() if name not in ("messages", "tools")},
    )
    has_stayed = False
    try:
        response = await _checked(state, request, body, entry)
        has_stayed = True
        return response
    finally:
        state.log.ended(entry, client_stayed=has_stayed, now_s=steady_now_s())


def _parse(raw: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


async def _checked(state: State, request: web.Request, body: Mapping[str, Any], entry: LogEntry) -> web.StreamResponse:
    if state.key is not None and request.headers.get("Authorization") != f"Bearer {state.key}":
        return refuse(entry, 401, "Incorrect API key provided.")
    if not entry.model:
        return refuse(entry, 400, "model: a JSON object with a model name is required")
    if state.models is not None and entry.model not in state.models:
        return refuse(entry, 404, f"The model `{entry.model}` does not exist or you do not have access to it.")
    try:
        prompt = read_prompt(body)
    except ValueError as error:
        return refuse(entry, 400, str(error))
    entry.input_tokens = prompt.input_tokens
    entry.cached_tokens = state.cache.cached_tokens(entry.model, prompt)  # as of now: what is in flight is not cached
    rule = state.book.rule(entry.model, prompt.all_text)
    if rule.is_too_much(steady_now_s()):
        entry.fault = "rate_limit"
        return refuse(entry, 429, "Rate limit reached for requests.", rule.fault.retry_after_s)
    rule.in_flight += 1
    try:
        return await _ruled(state, rule, Exchange(request, body, prompt, entry, rule.fault, _failing(rule)))
    finally:
        rule.in_flight -= 1


def _failing(rule: Rule) -> Fault:
    return rule.fault if rule.strikes() else NO_FAULT


def refuse(entry: LogEntry, status: int, message: str, retry_after_s: float | None = None) -> web.Response:
    """Return an error answer, noted in the log row."""
    entry.status = status
    headers = {} if retry_after_s is None else {"Retry-After": f"{retry_after_s:g}"}
    body = json.dumps(wire.error(status, message)).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


async def _ruled(state: State, rule: Rule, exchange: Exchange) -> web.StreamResponse:
    """Return the answer, or let the fault that strikes have its way before there is one."""
    entry, failing = exchange.entry, exchange.failing
    started_s = time.perf_counter()
    wait_s = rule.wait_s()
    if wait_s:
        await asyncio.sleep(wait_s)
    if failing.hang:
        entry.fault = "hang"
        await asyncio.Event().wait()
    if failing.drop:
        entry.fault = "drop"
        return _drop(exchange.request)
    if failing.status is not None:
        entry.fault = "status"
        return refuse(entry, failing.status, f"The stand-in server was told to say {failing.status}.",
                      failing.retry_after_s)  # fmt: skip
    if failing.malformed:
        entry.fault, entry.status = "malformed", 200
        return web.Response(body=b'{"id": "chatcmpl-1", "choices": [{"mess', content_type="application/json")
    reply = _reply(exchange)
    if exchange.is_streamed:
        response: web.StreamResponse = await _stream(exchange, reply)
    else:
        response = await _whole(exchange, reply, started_s)
    state.cache.remember(entry.model, exchange.prompt)
    return response


def _drop(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def _reply(exchange: Exchange) -> wire.Reply:
    entry, fault = exchange.entry, exchange.fault
    said = _spoiled(answer(entry.model, exchange.body, exchange.prompt), exchange)
    counted = wire.usage(entry.input_tokens, entry.cached_tokens, wire.output_tokens(said))
    has_own_id = "upstream_id" in fault.model_fields_set
    upstream_id = fault.upstream_id if has_own_id else f"chatcmpl-{entry.body_hash}{entry.sequence:08d}"
    entry.served_model = fault.served_model or entry.model
    return wire.Reply(said, entry.served_model, upstream_id, int(time.time()), None if fault.omit_usage else counted)


def _spoiled(said: Answer, exchange: Exchange) -> Answer:
    how = exchange.failing.bad_plan
    if how is None or not said.is_plan:
        return said
    exchange.entry.fault = "bad_plan"
    if how == "fenced":
        text = f"```json\n{said.text}\n```"
    elif how == "prose":
        text = f"Here is the plan {{as asked}}:\n\n{said.text}\n\nLet me know if it should change."
    else:
        text = said.text[: len(said.text) * 3 // 5]
    return replace(said, text=text)


async def _whole(exchange: Exchange, reply: wire.Reply, started_s: float) -> web.Response:
    entry = exchange.entry
    tokens = wire.output_tokens(reply.answer)
    if exchange.fault.per_token_ms:
        await asyncio.sleep(tokens * exchange.fault.per_token_ms / 1000)
    entry.status, entry.output_tokens = 200, tokens
    elapsed_ms = round((time.perf_counter() - started_s) * 1000)
    headers = {"openai-processing-ms": str(elapsed_ms)}
    body = json.dumps(wire.completion(reply), ensure_ascii=False).encode("utf-8", "replace")
    return web.Response(body=body, content_type="application/json", headers=headers)


async def _stream(exchange: Exchange, reply: wire.Reply) -> web.StreamResponse:
    entry, failing = exchange.entry, exchange.failing
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(exchange.request)
    entry.status = 200
    await _event(response, wire.opening_chunk(reply))
    for sent, chunk in enumerate(wire.piece_chunks(reply)):
        if await _is_ended_by_fault(response, failing, sent, entry):
            return response
        await _event(response, chunk)
        entry.output_tokens = sent + 1
        if exchange.fault.per_token_ms or sent % _CHUNKS_PER_TURN == 0:
            await asyncio.sleep(exchange.fault.per_token_ms / 1000)
    entry.output_tokens = wire.output_tokens(reply.answer)
    options = exchange.body.get("stream_options")
    include_usage = isinstance(options, dict) and options.get("include_usage") is True
    for chunk in wire.closing_chunks(reply, include_usage=include_usage):
        await _event(response, chunk)
    await response.write(b"data: [DONE]\n\n")
    return response


async def _is_ended_by_fault(response: web.StreamResponse, failing: Fault, sent: int, entry: LogEntry) -> bool:
    """Let a fault of the stream strike before piece number `sent` (from 0), and return whether it ended the stream."""
    if failing.stall_after == sent:
        entry.fault = "stall_after"
        await asyncio.Event().wait()
    if failing.cut_after == sent:
        entry.fault = "cut_after"
        return True
    if failing.error_after == sent:
        entry.fault = "error_after"
        await _event(response, wire.error(500, "The server had an error while processing your request."))
        return True
    return False


async def _event(response: web.StreamResponse, payload: Mapping[str, Any]) -> None:
    text = json.dumps(payload, ensure_ascii=False)
    await response.write(f"data: {text}\n\n".encode("utf-8", "replace"))
