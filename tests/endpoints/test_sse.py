"""Events are the same however the network cuts them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.endpoints.sse import DONE, EventBuffer


def read(chunks: list[bytes]) -> list[bytes]:
    buffer = EventBuffer(1_000_000)
    return [event for chunk in chunks for event in buffer.feed(chunk)] + list(buffer.end())


@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),  # one space belongs to the format, the second to the data
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r\n", [b"a", b"b"]),
        (b": OPENROUTER PROCESSING\n\ndata: a\n\n", [b"a"]),
        (b"event: message\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
        (b"data\n\n", [b""]),
        (b"\n\n\ndata: a\n\n\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: a\n", []),  # not ended: not an event
        (b"data: [DONE]\n\n", [DONE]),
        (b"data:[DONE]\n\n", [DONE]),
        (b"data: [DONE]\n", [DONE]),
        (b"data: [DONE]", [DONE]),
        (b"data: [DON", []),
        (b'data: "[DONE]"\n\n', [b'"[DONE]"']),
    ],
)
def test_what_an_event_is(sent: bytes, events: list[bytes]) -> None:
    assert read([sent]) == events
    assert read([sent[at : at + 1] for at in range(len(sent))]) == events, "byte by byte"


@given(
    texts=st.lists(st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), min_size=1), max_size=6),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    comments=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_law_splitting_anywhere_changes_nothing(
    texts: list[str], newline: bytes, *, comments: bool, cuts: list[int]
) -> None:
    """Law: the events depend on the bytes, not on where chunks begin (also inside a character, or a CR LF)."""
    data = [b"x" + text.encode() for text in texts]  # x: never the end marker, never empty
    comment = b": still here" + newline if comments else b""
    sent = b"".join(comment + b"data: " + item + newline + newline for item in data) + b"\n"
    edges = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    assert read([sent[start:end] for start, end in pairwise(edges)]) == data


def test_an_event_without_end_is_refused_at_the_bound() -> None:
    buffer = EventBuffer(100)
    with pytest.raises(ValueError, match="longer than 100 bytes"):
        for _ in range(20):
            list(buffer.feed(b"data: 0123456789\n"))
