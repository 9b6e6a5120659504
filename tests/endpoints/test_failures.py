"""Statuses, headers and error objects become errors of the right kind, without secrets."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from multidict import CIMultiDict

from router.endpoints.failures import Sender, from_error_object, from_status, reading, retry_after_s, secrets_in
from router.endpoints.protocol import ERROR_KINDS
from router.errors import EndpointError

NOW = datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)
KEY = "sk-planted-0123456789abcdef"
SENDER = Sender("box", "https://api.example.com", "BOX_KEY", (KEY,))


@pytest.mark.parametrize(
    ("status", "kind", "possibly_billed"),
    [
        (302, "rejected", False),
        (400, "rejected", False),
        (401, "unauthorized", False),
        (402, "rejected", False),
        (403, "unauthorized", False),
        (404, "not_found", False),
        (408, "timeout", True),
        (409, "rejected", False),
        (413, "rejected", False),
        (422, "rejected", False),
        (429, "rate_limited", False),
        (500, "server_error", True),
        (502, "server_error", True),
        (503, "overloaded", False),
        (504, "server_error", True),
        (524, "server_error", True),
        (529, "overloaded", False),
    ],
)
def test_a_status_has_its_kind(status: int, kind: str, possibly_billed: bool) -> None:  # noqa: FBT001 - a column
    error = from_status(SENDER, status, {}, "", NOW)
    assert (error.kind, error.status, error.possibly_billed) == (kind, status, possibly_billed)
    assert kind in ERROR_KINDS


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"Retry-After": "2"}, 2.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:00 GMT"}, 0.0),  # a past date is no wait
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": ""}, None),
        ({"retry-after-ms": "250", "Retry-After": "1"}, 0.25),
        ({"retry-after-ms": "x", "Retry-After": "1"}, 1.0),
    ],
)
def test_retry_after(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(CIMultiDict(headers), NOW) == wait_s
    assert from_status(SENDER, 429, CIMultiDict(headers), "", NOW).retry_after_s == wait_s


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"message": "no such thing", "code": 7}}', "no such thing"),
        ('{"error": "plain"}', "plain"),
        ('{"message": "flat"}', "flat"),
        ('{"detail": [{"loc": ["x"]}]}', '[{"loc": ["x"]}]'),
        ("<html><style>p{}</style><h1>502 Bad Gateway</h1></html>", "502 Bad Gateway"),
        ("one\n\ttwo", "one two"),
        ("", ""),
        ("[1]", "[1]"),
        ("null", "null"),
    ],
)
def test_the_upstreams_words_are_found(body: str, words: str) -> None:
    message = str(from_status(SENDER, 400, {}, body, NOW))
    suffix = f": {words}" if words else ""
    assert message == f"endpoint box (https://api.example.com): HTTP 400{suffix}"


def test_words_are_cut_to_300_characters_on_one_line() -> None:
    message = str(from_status(SENDER, 500, {}, "x\n" * 5000, NOW))
    assert len(message.removeprefix("endpoint box (https://api.example.com): ")) == 300
    assert message.endswith("…")
    assert "\n" not in message


@pytest.mark.parametrize(
    "body",
    [
        f"Incorrect key: {KEY}",
        '{"error": {"message": "bad ' + KEY + '"}}',
        "x" * 270 + KEY,  # the cut would leave its beginning
        "Authorization: Bearer another-secret-of-someone",
        "sk-proj-abcdefghijklmnop was refused",
    ],
)
def test_no_key_is_ever_quoted(body: str) -> None:
    message = str(from_status(SENDER, 401, {}, body, NOW))
    assert "[secret]" in message
    for secret in (KEY, KEY[:12], "another-secret", "abcdefghijklmnop"):
        assert secret not in message


def test_values_of_the_callers_headers_are_secret() -> None:
    found = secrets_in(KEY, [("Authorization", "Basic dXNlcjpwYXNz"), ("X-Key", "value-1")])
    assert set(found) == {KEY, "Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "value-1"}
    assert found[0] == KEY, "longest first, so that no part of it is left over"


def test_a_refused_key_says_which_variable_to_mend() -> None:
    assert from_status(SENDER, 401, {}, "", NOW).hint == (
        "the key in BOX_KEY was refused: mend BOX_KEY in the environment or in .env"
    )
    keyless = Sender("box", "https://api.example.com", None)
    assert "key_env of endpoint box" in (from_status(keyless, 401, {}, "", NOW).hint or "")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "m", "code": 429}, "rate_limited"),
        ({"message": "m", "code": "503"}, "overloaded"),
        ({"message": "m", "code": 401}, "unauthorized"),
        ({"message": "m", "type": "requests", "code": "rate_limit_exceeded"}, "rate_limited"),
        ({"message": "m", "type": "overloaded_error"}, "overloaded"),
        ({"message": "m", "code": None}, "server_error"),
        ("just words", "server_error"),
        ({}, "server_error"),
    ],
)
def test_error_objects_inside_an_answer(error: object, kind: str) -> None:
    assert from_error_object(SENDER, error).kind == kind


@pytest.mark.parametrize("stumble", [TypeError, RecursionError, OverflowError, MemoryError, AssertionError])
def test_whatever_reading_stumbles_over_is_a_malformed_answer(stumble: type[Exception]) -> None:
    def read() -> str:
        raise stumble(f"at {KEY}")

    with pytest.raises(EndpointError, match="an answer that cannot be read") as caught:
        reading(SENDER, read)
    assert (caught.value.kind, caught.value.possibly_billed) == ("malformed", True)
    assert KEY not in str(caught.value)
    assert caught.value.__context__ is None


def test_reading_passes_on_what_is_read_and_our_own_errors() -> None:
    error = SENDER.failure("rate_limited", "slow down")

    def read() -> str:
        raise error

    assert reading(SENDER, lambda: 5) == 5
    with pytest.raises(EndpointError) as caught:
        reading(SENDER, read)
    assert caught.value is error


def test_a_page_in_place_of_a_message_is_read_as_its_text() -> None:
    page = "<html><style>p { color: red }</style><SCRIPT>if (a < b) {}</SCRIPT><p>Bad <b>gateway</b></p> a < b"
    assert "HTTP 502: Bad gateway a < b" in str(from_status(SENDER, 502, {}, page, NOW))
