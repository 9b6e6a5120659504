"""The OpenAI shapes that the stand-in server sends: completions, chunks, usage, errors.

In: an `Answer` and its counts. Out: mappings ready for JSON. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from router.endpoints.sandbox.answers import Answer
from router.endpoints.sandbox.prompts import CHARACTERS_PER_TOKEN, count_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer with what goes around it.

    Args:
        answer: what is said.
        model: the model name it carries.
        upstream_id: the id it carries.
        created_s: seconds since 1970 UTC.
        usage: the usage object, or None where none is reported.
    """

    answer: Answer
    model: str
    upstream_id: str | None
    created_s: int
    usage: Mapping[str, Any] | None


def output_tokens(answer: Answer) -> int:
    """Return the tokens of an answer: its text, or the arguments of its tool calls."""
    if answer.tool_calls:
        return sum(count_tokens(call["function"]["arguments"]) + 8 for call in answer.tool_calls)
    return count_tokens(answer.text)


def usage(input_tokens: int, cached_tokens: int, generated_tokens: int) -> Mapping[str, Any]:
    """Return OpenAI's usage object; cached tokens are inside the prompt's."""
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": generated_tokens,
        "total_tokens": input_tokens + generated_tokens,
        "prompt_tokens_details": {"cached_tokens": cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def completion(reply: Reply) -> Mapping[str, Any]:
    """Return the body of an answer that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.answer.text, "refusal": None}
    if reply.answer.tool_calls:
        message |= {"content": None, "tool_calls": list(reply.answer.tool_calls)}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reply.answer.finish_reason}
    body = _frame(reply, "chat.completion", [choice])
    return body if reply.usage is None else {**body, "usage": reply.usage}


def opening_chunk(reply: Reply) -> Mapping[str, Any]:
    """Return a stream's first chunk, which carries the role only."""
    return _chunk(reply, {"role": "assistant", "content": ""})


def piece_chunks(reply: Reply) -> Iterator[Mapping[str, Any]]:
    """Yield the chunks that carry text, one token each, or tool calls in two parts."""
    text = reply.answer.text
    for start in range(0, len(text), CHARACTERS_PER_TOKEN):
        yield _chunk(reply, {"content": text[start : start + CHARACTERS_PER_TOKEN]})
    for index, call in enumerate(reply.answer.tool_calls):
        function = call["function"]
        head = {"index": index, "id": call["id"], "type": "function"}
        yield _chunk(reply, {"tool_calls": [{**head, "function": {"name": function["name"], "arguments": ""}}]})
        tail = {"index": index, "function": {"arguments": function["arguments"]}}
        yield _chunk(reply, {"tool_calls": [tail]})


def closing_chunks(reply: Reply, *, include_usage: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the chunk with the finish reason, then the one with the usage where it was asked for."""
    yield _chunk(reply, {}, reply.answer.finish_reason)
    if include_usage and reply.usage is not None:
        yield {**_frame(reply, "chat.completion.chunk", []), "usage": reply.usage}


def _chunk(reply: Reply, delta: Mapping[str, Any], finish_reason: str | None = None) -> Mapping[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _frame(reply, "chat.completion.chunk", [choice])


def _frame(reply: Reply, kind: str, choices: list[Any]) -> dict[str, Any]:
    return {
        "id": reply.upstream_id,
        "object": kind,
        "created": reply.created_s,
        "model": reply.model,
        "choices": choices,
    }


_ERROR_KINDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    503: ("server_error", "overloaded"),
    529: ("server_error", "overloaded"),
}


def error(status: int, message: str) -> Mapping[str, Any]:
    """Return OpenAI's error object for a status."""
    default = ("server_error", None) if status >= 500 else ("invalid_request_error", None)
    kind, code = _ERROR_KINDS.get(status, default)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
