"""OpenAI's chat format, in both directions: our request → its body; its answer or chunks → our `WireResponse`.

In: `WireRequest`, and JSON as it came. Out: bytes to send, and `WireResponse`.
Invariant: nothing is guessed. What the upstream does not name is None; a usage report that cannot be right leaves
`usage` None and says so in `usage_error`. Pure: no network, no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from pricing.errors import UsageError
from pricing.extract import extract_usage, reported_cost_usd
from pricing.usage import Usage
from router.endpoints.protocol import Timings, WireRequest, WireResponse

MOST_TEXT_CHARACTERS = 64 * 1024 * 1024
MOST_NAME_CHARACTERS = 200
_NAMES = ("id", "model", "service_tier")

Json = Mapping[str, Any]


def request_body(request: WireRequest, *, streamed: bool) -> bytes:
    """Return the JSON body of a request.

    Args:
        request: what to ask.
        streamed: whether to ask for a stream; its usage is always asked for, since a stream without it has no cost.

    Raises:
        ValueError: a parameter cannot be written as JSON.
    """
    body = {**request.parameters, "model": request.model, "messages": request.messages}
    options = body.pop("stream_options", None)
    body.pop("stream", None)
    if streamed:
        body["stream"] = True
        body["stream_options"] = {**(options or {}), "include_usage": True}
    try:
        return _encode(body).encode()
    except UnicodeEncodeError:  # half a surrogate pair in a text: only its escape can be sent
        return _encode_ascii(body).encode()
    except TypeError as error:
        message = f"parameters: {error}"
        raise ValueError(message) from None


def _plain(value: object) -> object:
    """Return what JSON can write of a value that it does not know: sequences and mappings of any kind, decimals."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal):
        return float(value)  # a sampling parameter, never money
    message = f"a value of type {type(value).__name__} cannot be written as JSON"
    raise TypeError(message)


def _encoder(*, ensure_ascii: bool) -> Callable[[object], str]:
    return json.JSONEncoder(ensure_ascii=ensure_ascii, separators=(",", ":"), allow_nan=False, default=_plain).encode


_encode, _encode_ascii = (
    _encoder(ensure_ascii=False),
    _encoder(ensure_ascii=True),
)  # to make one costs as much as a body


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
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    return _response(payload, message, choice.get("finish_reason"), _usage_in(payload), raw, timings, status)


def _first_choice(payload: Json) -> Json | None:
    """Return the choice of index 0, wherever it stands among the others."""
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:  # JSON as it was read: `Mapping` takes long to ask
            return choice
    return None


def _usage_in(payload: Json) -> Json | None:
    """Return the usage object of an answer or chunk; Moonshot writes it into the choice."""
    return _usage_of(payload, _first_choice(payload))


def _usage_of(payload: Json, choice: Json | None) -> Json | None:
    for place in (payload, choice):
        usage = place.get("usage") if place else None
        if usage and isinstance(usage, dict):
            return usage
    return None


def _reports_tokens(usage: Json) -> bool:
    return any(usage.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))


@dataclass(slots=True)
class _Call:
    """One tool call, as its pieces come."""

    id: object
    name: str = ""
    arguments: list[str] = field(default_factory=list)

    def whole(self) -> dict[str, Any]:
        """Return it as OpenAI writes it."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.arguments)},
        }


class StreamedAnswer:
    """Puts the chunks of a stream together, first choice only."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._text: list[str] = []
        self._strings: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._calls: list[_Call] = []
        self._call_at: dict[object, _Call] = {}
        self._named: dict[str, Any] = {}
        self._kept = 0
        self._usage: Json | None = None
        self._usage_raw = b""
        self.finish_reason: str | None = None
        self.has_chunks = False
        self.has_tokens = False

    @property
    def size(self) -> int:
        """How much has come, in characters, text or not (reasoning, tool calls): it grows with every token."""
        return self._kept

    def take(self, chunk: Json, raw: bytes) -> str:
        """Take one chunk, and return the text it adds; `raw` is the chunk as it came.

        Raises:
            ValueError: the answer has become longer than any answer is.
        """
        self.has_chunks = True
        for key in _NAMES:
            if key not in self._named and chunk.get(key):
                self._named[key] = chunk[key]
        choice = _first_choice(chunk)
        usage = _usage_of(chunk, choice)
        if usage is not None and (self._usage is None or _reports_tokens(usage)):  # zeros take no counts back
            self._usage, self._usage_raw = usage, raw
        text = "" if choice is None else self._take_choice(choice)
        if self._kept > MOST_TEXT_CHARACTERS:
            message = f"a text longer than {MOST_TEXT_CHARACTERS} characters"
            raise ValueError(message)
        return text

    def _take_choice(self, choice: Json) -> str:
        if choice.get("finish_reason"):
            self.finish_reason = name_of(choice["finish_reason"]) or self.finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return ""
        content = delta.get("content")
        if content is None or len(delta) > 1:  # most have a content and nothing else
            self._take_others(delta)
        text = text_of(content)
        if text:
            self.has_tokens = True
            self._text.append(text)
            self._kept += len(text)
        return text

    def _take_others(self, delta: Json) -> None:
        for key, value in delta.items():
            if key not in ("content", "tool_calls"):
                self._take_other(key, value)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self.has_tokens = True
                self._take_call(call)
                self._kept += _size(call)

    def _take_other(self, key: str, value: object) -> None:
        """Take a field beside content and calls: texts (reasoning_content …) and lists grow, others replace."""
        if key == "role" or value is None:
            return
        if isinstance(value, str):
            self.has_tokens = self.has_tokens or bool(value)
            self._strings.setdefault(key, []).append(value)
            self._kept += len(value)
        elif isinstance(value, list):
            self._lists.setdefault(key, []).extend(value)
            self._kept += _size(value)
        else:
            self._message[key] = value

    def _take_call(self, piece: Json) -> None:
        call = self._call_for(piece)
        function = piece.get("function")
        if not isinstance(function, Mapping):
            return
        name, arguments = function.get("name"), function.get("arguments")
        if isinstance(name, str) and name != call.name:  # some servers repeat the name in every piece
            call.name += name
        if isinstance(arguments, str):
            call.arguments.append(arguments)
        elif isinstance(arguments, Mapping):
            call.arguments = [json.dumps(arguments)]

    def _call_for(self, piece: Json) -> _Call:
        """Return the call a piece belongs to: by its index, but a new id always opens a new call."""
        index, call_id = piece.get("index"), piece.get("id")
        if not isinstance(index, int | float | str):  # a list or an object is no index
            index = None
        call = self._call_at.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (call_id and call.id and call_id != call.id):
            call = _Call(call_id)
            self._calls.append(call)
            self._call_at[index] = call
        elif call_id:
            call.id = call_id
        return call

    def finish(self, timings: Timings, status: int) -> WireResponse:
        """Return the whole response; to be called once, after the end marker."""
        message = self._message
        if self._text:
            message["content"] = "".join(self._text)
        message |= self._lists
        message |= {key: "".join(parts) for key, parts in self._strings.items()}
        if self._calls:
            message["tool_calls"] = [call.whole() for call in self._calls]
        return _response(self._named, message, self.finish_reason, self._usage, self._usage_raw, timings, status)


def _response(
    named: Json, message: Json, finish_reason: object, usage: Json | None, raw: bytes, timings: Timings, status: int
) -> WireResponse:
    counted, usage_error = _counted(usage)
    tier = named.get("service_tier")
    return WireResponse(
        text=text_of(message.get("content")),
        message=message,
        served_model=name_of(named.get("model")),
        upstream_id=name_of(named.get("id")),
        finish_reason=name_of(finish_reason),
        usage=counted,
        timings=timings,
        usage_error=usage_error,
        raw_usage=usage,
        reported_cost_usd=_reported_cost(usage, raw),
        service_tier=name_of(tier) if isinstance(tier, str) else None,
        http_status=status,
    )


def _counted(usage: Json | None) -> tuple[Usage | None, str | None]:
    """Return a usage report's buckets, or why they are not used.

    A report without any token is none: no answer takes no input, and servers and litellm write zeros where they do not
    know.
    """
    try:
        counted = extract_usage("openai_chat", usage)
    except UsageError as error:
        return None, str(error)
    if counted is not None and not counted.input_tokens and not counted.output_tokens:
        return None, "usage: reports no token at all"
    return counted, None


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or a list of parts of which the texts count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping) and part.get("type") == "text")
        return "".join(part for part in parts if isinstance(part, str))
    return ""


def _size(value: object) -> int:
    return len(json.dumps(value, default=str))


def name_of(value: object) -> str | None:
    """Return a name as text that is safe to show and to store; None for null, "" and whatever is not a name."""
    if not value or not isinstance(value, str | int):
        return None
    name = str(value)[:MOST_NAME_CHARACTERS]
    return name if name.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in name)


def _reported_cost(usage: Json | None, raw: bytes) -> Decimal | None:
    """Return the cost the upstream states (OpenRouter), to the last digit; None where it states none that can be."""
    if usage is None or usage.get("cost") is None:
        return None
    try:
        return reported_cost_usd(_usage_in(json.loads(raw, parse_float=Decimal)))
    except (UsageError, ArithmeticError, ValueError):  # numbers that no Decimal can hold, too
        return None
