"""Requests are written, and answers and chunks read, as they stand."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from pricing.usage import Usage
from router.endpoints.openai_format import StreamedAnswer, request_body, whole_answer
from router.endpoints.protocol import Timings, WireRequest, WireResponse

TIMINGS = Timings(1)
ASK = ({"role": "user", "content": "hi"},)


def written(request: WireRequest, *, streamed: bool = False) -> Any:
    return json.loads(request_body(request, streamed=streamed))


def streamed(*chunks: dict[str, Any]) -> tuple[WireResponse, str]:
    answer = StreamedAnswer()
    text = "".join(answer.take(chunk, json.dumps(chunk).encode()) for chunk in chunks)
    return answer.finish(TIMINGS, 200), text


def delta(**fields: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def whole(payload: dict[str, Any]) -> WireResponse:
    response = whole_answer(payload, json.dumps(payload).encode(), TIMINGS, 200)
    assert response is not None
    return response


def answer(**more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
    return {"id": "c1", "model": "m", "choices": [choice], **more}


def test_parameters_pass_through_but_do_not_win_over_the_model() -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    parameters = {"temperature": 0, "tools": tools, "thinking": {"budget": 5}, "model": "other", "stream": True}
    assert written(WireRequest("m", ASK, parameters)) == {
        "temperature": 0,
        "tools": tools,
        "thinking": {"budget": 5},
        "model": "m",
        "messages": list(ASK),
    }


def test_a_stream_always_asks_for_its_usage() -> None:
    body = written(WireRequest("m", ASK, {"stream_options": {"x": 1, "include_usage": False}}), streamed=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"x": 1, "include_usage": True}


def test_any_text_can_be_sent() -> None:
    text = "naïve 漢字 🚢 \ud800 half a pair"
    assert written(WireRequest("m", ({"role": "user", "content": text},)))["messages"][0]["content"] == text


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}])
def test_what_json_cannot_write_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"JSON|Out of range"):
        request_body(WireRequest("m", ASK, {"temperature": value}), streamed=False)


def test_a_whole_answer() -> None:
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 5,
        "total_tokens": 17,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    response = whole(answer(usage=usage, service_tier="flex"))
    assert response.text == "yes"
    assert (response.served_model, response.upstream_id, response.finish_reason) == ("m", "c1", "stop")
    assert response.usage == Usage(uncached_input_tokens=8, cache_read_tokens=4, plain_output_tokens=5)
    assert response.raw_usage == usage
    assert response.service_tier == "flex"


@pytest.mark.parametrize("payload", [{}, {"choices": []}, {"choices": [1]}, {"choices": [{"text": "old"}]}])
def test_an_answer_of_another_shape_is_none(payload: dict[str, Any]) -> None:
    assert whole_answer(payload, b"{}", TIMINGS, 200) is None


@pytest.mark.parametrize("usage", [None, {}, 5, "x"])
def test_no_usage_is_none_and_never_zero(usage: object) -> None:
    response = whole(answer(usage=usage))
    assert response.usage is None
    assert response.usage_error is None


def test_usage_that_contradicts_itself_is_told_and_not_used() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 6}}
    response = whole(answer(usage=usage))
    assert response.usage is None
    assert response.usage_error
    assert response.raw_usage == usage


@pytest.mark.parametrize(
    "zeros",
    [
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
    ],
)
def test_a_usage_without_any_token_is_none(zeros: dict[str, Any]) -> None:
    """No answer takes no input, so zeros stand for what the upstream does not know, and are never a cost of 0."""
    last, _ = streamed(delta(content="x"), {"choices": [], "usage": zeros})
    for response in (whole(answer(usage=zeros)), last):
        assert (response.usage, response.usage_error) == (None, "usage: reports no token at all")
        assert response.raw_usage == zeros


@pytest.mark.parametrize("count", [10**12 + 1, 9 * 10**18])
def test_a_count_that_no_request_has_is_told_and_not_used(count: int) -> None:
    response = whole(answer(usage={"prompt_tokens": count, "completion_tokens": 1}))
    assert response.usage is None
    assert "up to 1000000000000 is allowed" in str(response.usage_error)


def test_a_cost_with_the_users_own_key_counts_what_the_vendor_bills() -> None:
    """OpenRouter's fee of 0.05 and the vendor's 1.2."""
    usage = {
        "prompt_tokens": 1,
        "completion_tokens": 1,
        "cost": 0.05,
        "is_byok": True,
        "cost_details": {"upstream_inference_cost": 1.2},
    }
    assert whole(answer(usage=usage)).reported_cost_usd == Decimal("1.25")
    assert streamed({"choices": [], "usage": usage})[0].reported_cost_usd == Decimal("1.25")


@pytest.mark.parametrize(
    ("given", "cost"),
    [
        ("0.000115200000000000001234", Decimal("0.000115200000000000001234")),  # more digits than a float has
        ("1e-7", Decimal("1E-7")),
        ("0", Decimal(0)),
        ('"0.25"', Decimal("0.25")),
        ("null", None),
        ("-1", None),
        ("NaN", None),
        ('"free"', None),
        ("{}", None),
    ],
)
def test_a_stated_cost_is_kept_to_the_last_digit(given: str, cost: Decimal | None) -> None:
    raw = json.dumps(answer(usage={"prompt_tokens": 1, "completion_tokens": 1, "cost": 0})).replace(
        '"cost": 0', f'"cost": {given}'
    )
    response = whole_answer(json.loads(raw), raw.encode(), TIMINGS, 200)
    assert response is not None
    assert response.reported_cost_usd == cost


@pytest.mark.parametrize("upstream_id", [None, ""])
def test_an_empty_id_is_none(upstream_id: str | None) -> None:
    assert whole(answer(id=upstream_id, model=upstream_id)).upstream_id is None
    assert whole(answer(id=upstream_id, model=upstream_id)).served_model is None


def test_content_in_parts() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    payload = answer()
    payload["choices"][0]["message"]["content"] = parts
    assert whole(payload).text == "ab"
    assert whole(payload).message["content"] == parts


def test_a_stream_is_put_together() -> None:
    response, text = streamed(
        delta(role="assistant", content=""),
        delta(reasoning_content="let me "),
        delta(reasoning_content="see"),
        delta(content="Hel"),
        delta(content="lo"),
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    )
    assert text == response.text == "Hello"
    assert response.message == {"role": "assistant", "content": "Hello", "reasoning_content": "let me see"}
    assert response.finish_reason == "stop"
    assert response.usage == Usage(uncached_input_tokens=3, plain_output_tokens=2)


def test_a_report_without_any_token_takes_none_back_that_was_told_before() -> None:
    told = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}}
    zeros = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
    response, _ = streamed({**delta(content="x"), "usage": zeros["usage"]}, told, zeros)
    assert (response.usage, response.usage_error) == (Usage(uncached_input_tokens=3, plain_output_tokens=2), None)


def test_the_last_usage_of_a_stream_counts_wherever_it_stands() -> None:
    first = {"prompt_tokens": 3, "completion_tokens": 1}
    last = {"prompt_tokens": 3, "completion_tokens": 9, "cost": 0.1}
    in_choice = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": last}]}
    response, _ = streamed({**delta(content="x"), "usage": first}, in_choice, {"choices": [], "usage": None})
    assert response.usage == Usage(uncached_input_tokens=3, plain_output_tokens=9)
    assert response.reported_cost_usd == Decimal("0.1")


def call_piece(**fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[fields])


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}},
                {"index": 0, "function": {"arguments": '{"x"'}},
                {"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
                {"index": 0, "function": {"arguments": ":1}"}},
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}},
                {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="one index for all, name repeated",
        ),
        pytest.param(
            [
                {"id": "a", "function": {"name": "f", "arguments": '{"x"'}},
                {"function": {"arguments": ":1}"}},
                {"id": "b", "function": {"name": "g", "arguments": "{}"}},
            ],
            id="no index",
        ),
    ],
)
def test_tool_calls_are_put_together(pieces: list[dict[str, Any]]) -> None:
    response, text = streamed(*(call_piece(**piece) for piece in pieces))
    assert text == response.text == ""
    assert response.message["content"] is None
    assert response.message["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}},
        {"id": "b", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
