"""OpenAI's chat format, in both directions: our request → its body; its answer or chunks → our `WireResponse`.

In: `WireRequest`, and JSON as it came. Out: bytes to send, and `WireResponse`.
Invariant: nothing is guessed. What the upstream does not name is None; a usage report that contradicts itself leaves
`usage` None and says so in `usage_error`. Pure: no network, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from pricing.errors import UsageError
from pricing.extract import extract_usage
from router.endpoints.protocol import Timings, WireRequest, WireResponse

Json = Mapping[str, Any]


def request_body(request: WireRequest, extra: Json, *, streamed: bool) -> bytes:
    """Return the JSON body of a request.

    Args:
        request: what to ask.
        extra: body fields set for the endpoint; the request's own win.
        streamed: whether to ask for a stream; its usage is always asked for, since a stream without it has no cost.

    Raises:
        ValueError: a parameter cannot be written as JSON.
    """
    body = {**extra, **request.parameters, "model": request.model, "messages": request.messages}
    options = body.pop("stream_options", None)
    body.pop("stream", None)
    if streamed:
        body["stream"] = True
        body["stream_options"] = {**(options or {}), "include_usage": True}
    try:
        return _dump(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair in a text: only its escape can be sent
        return _dump(body, ensure_ascii=True).encode()
    except TypeError as error:
        message = f"parameters: {error}"
        raise ValueError(message) from None


def _dump(body: Json, *, ensure_ascii: bool) -> str:
    return json.dumps(body, ensure_ascii=ensure_ascii, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Return what JSON can write of a value that it does not know: sequences and mappings of any kind, decimals."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        return float(value)  # a sampling parameter, never money
    message = f"a value of type {type(value).__name__} cannot be written as JSON"
    raise TypeError(message)


def whole_answer(payload: Json, raw: bytes, timings: Timings, status: int) -> WireResponse | None:
    """Return the response of an answer that was not streamed, or None where it is not of the documented shape.

    Args:
        payload: the answer.
        raw: the same as it came, from which a stated cost is read digit by digit.
        timings: where the time went.
        status: the HTTP status.
    """
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        return None
    return _response(payload, message, choice.get("finish_reason"), payload.get("usage"), raw, timings, status)


class StreamedAnswer:
    """Puts the chunks of a stream together, first choice only."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._text: list[str] = []
        self._strings: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_at: dict[object, dict[str, Any]] = {}
        self._named: dict[str, Any] = {}
        self._usage: object = None
        self._usage_raw = b""
        self.finish_reason: str | None = None
        self.has_chunks = False
        self.has_tokens = False

    def take(self, chunk: Json, raw: bytes) -> str:
        """Take one chunk, and return the text it adds; `raw` is the chunk as it came."""
        self.has_chunks = True
        for key in ("id", "model", "service_tier"):
            if chunk.get(key):
                self._named.setdefault(key, chunk[key])
        self._take_usage(chunk.get("usage"), raw)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and choice.get("index", 0) == 0:
                return self._take_choice(choice, raw)
        return ""

    def _take_usage(self, usage: object, raw: bytes) -> None:
        if isinstance(usage, Mapping) and usage:
            self._usage, self._usage_raw = usage, raw

    def _take_choice(self, choice: Json, raw: bytes) -> str:
        self._take_usage(choice.get("usage"), raw)  # Moonshot writes it here
        if choice.get("finish_reason"):
            self.finish_reason = str(choice["finish_reason"])
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        for key, value in delta.items():
            if key not in ("content", "tool_calls"):
                self._take_other(key, value)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self.has_tokens = True
                self._take_call(call)
        text = text_of(delta.get("content"))
        if text:
            self.has_tokens = True
            self._text.append(text)
        return text

    def _take_other(self, key: str, value: object) -> None:
        """Take a field beside content and calls: texts (reasoning_content …) and lists grow, others replace."""
        if key == "role" or value is None:
            return
        if isinstance(value, str):
            self.has_tokens = self.has_tokens or bool(value)
            self._strings.setdefault(key, []).append(value)
        elif isinstance(value, list):
            self._message[key] = [*self._message.get(key, ()), *value]
        else:
            self._message[key] = value

    def _take_call(self, piece: Json) -> None:
        call = self._call_for(piece)
        function = piece.get("function")
        if not isinstance(function, Mapping):
            return
        name, arguments = function.get("name"), function.get("arguments")
        whole = call["function"]
        if isinstance(name, str) and name != whole["name"]:  # some servers repeat the name in every piece
            whole["name"] += name
        if isinstance(arguments, str):
            whole["arguments"] += arguments
        elif isinstance(arguments, Mapping):
            whole["arguments"] = json.dumps(arguments)

    def _call_for(self, piece: Json) -> dict[str, Any]:
        """Return the call a piece belongs to: by its index, but a new id always opens a new call."""
        index, call_id = piece.get("index"), piece.get("id")
        call = self._call_at.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (call_id and call["id"] and call_id != call["id"]):
            call = {"id": call_id, "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            self._call_at[index] = call
        elif call_id:
            call["id"] = call_id
        return call

    def finish(self, timings: Timings, status: int) -> WireResponse:
        """Return the whole response; to be called once, after the end marker."""
        message = self._message
        if self._text:
            message["content"] = "".join(self._text)
        message |= {key: "".join(parts) for key, parts in self._strings.items()}
        if self._calls:
            message["tool_calls"] = self._calls
        return _response(self._named, message, self.finish_reason, self._usage, self._usage_raw, timings, status)


def _response(
    named: Json, message: Json, finish_reason: object, usage: object, raw: bytes, timings: Timings, status: int
) -> WireResponse:
    raw_usage = usage if isinstance(usage, Mapping) and usage else None
    counted, usage_error = None, None
    try:
        counted = extract_usage("openai_chat", raw_usage)
    except UsageError as error:
        usage_error = str(error)
    tier = named.get("service_tier")
    return WireResponse(
        text=text_of(message.get("content")),
        message=message,
        served_model=_name(named.get("model")),
        upstream_id=_name(named.get("id")),
        finish_reason=_name(finish_reason),
        usage=counted,
        timings=timings,
        usage_error=usage_error,
        raw_usage=raw_usage,
        reported_cost_usd=_reported_cost(raw_usage, raw),
        service_tier=tier if isinstance(tier, str) else None,
        http_status=status,
    )


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts of which the texts count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text")
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _name(value: object) -> str | None:
    """Return a name as text; None for null, "" and whatever is not a name."""
    return str(value) if value and isinstance(value, str | int) else None


def _reported_cost(usage: Json | None, raw: bytes) -> Decimal | None:
    """Return the cost the upstream states (`usage.cost`, OpenRouter), to the last digit; None where it states none."""
    if usage is None or usage.get("cost") is None:
        return None
    payload: Any = json.loads(raw, parse_float=Decimal)
    choices = payload.get("choices") or [{}]
    exact = payload.get("usage") or choices[0].get("usage")
    try:
        cost = Decimal(str(exact["cost"]))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and cost >= 0 else None
