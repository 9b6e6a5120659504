"""What one subscriber has acknowledged, and what it is handed next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.messages.acks import Acks
from router.messages.lane import MOST_URGENT, Lane
from router.messages.message import Message


def test_numbers_out_of_order_are_kept_as_spans_until_the_gap_is_closed() -> None:
    acks = Acks()
    for seq in (1, 3, 4, 7):
        acks.add(seq)
    # 1 is the mark; 2, 5 and 6 are open.
    assert (acks.low, acks.text(), acks.spans) == (1, "[[3,4],[7,7]]", 2)
    assert [seq for seq in range(9) if seq in acks] == [0, 1, 3, 4, 7]
    acks.add(2)
    assert (acks.low, acks.text()) == (4, "[[7,7]]")
    acks.add(6)
    acks.add(5)
    assert (acks.low, acks.text()) == (7, None)


def test_what_was_pruned_meanwhile_is_forgotten() -> None:
    assert (Acks(5, "[[3,4],[7,9]]").low, Acks(5, "[[3,4],[7,9]]").text()) == (5, "[[7,9]]")
    assert Acks(5, "[[4,8]]").low == 8
    assert Acks(6, "[[7,9]]").low == 9


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(0, 10))
def test_law_spans_hold_exactly_what_was_acknowledged(seqs: list[int], low: int) -> None:
    acks, model = Acks(low), set(range(low + 1))
    for seq in seqs:
        acks.add(seq)
        model.add(seq)
        again = Acks(acks.low, acks.text())
        assert {number for number in range(45) if number in acks} == model
        assert (again.low, again.text()) == (acks.low, acks.text())
        assert acks.low + 1 not in model  # the mark is as high as it can be


def message(seq: int, priority: int = 0, kind: str = "a") -> Message:
    return Message("t", seq, f"id {seq}", None, 0, headers={"kind": kind}, priority=priority)


def test_the_highest_priority_comes_first_then_the_lowest_number() -> None:
    lane = Lane("t", Acks(), 0, None)
    lane.take_in([message(3, 2), message(5, 9), message(6, 2), message(1), message(2), message(4)])
    assert [lane.pop().seq for _ in range(6)] == [5, 3, 6, 1, 2, 4]
    assert lane.priority == -1
    assert (lane.ordinary_seq, lane.urgent_seq) == (4, 6)


def test_what_does_not_fit_is_passed_over_and_counts_as_acknowledged() -> None:
    lane = Lane("t", Acks(), 0, {"kind": ("b", "c")})
    lane.take_in([message(1), message(2, kind="b"), message(3), message(4, kind="c")])
    assert [lane.pop().seq for _ in range(2)] == [2, 4]
    assert lane.acks is not None
    assert (lane.acks.low, lane.acks.text(), lane.passed_over) == (1, "[[3,3]]", 2)
    other = Lane("t", None, 0, {"kind": "b"})
    other.take_in([message(1), message(2, kind="b")])
    assert other.pop().seq == 2


def test_none_overtakes_any_more_where_too_many_are_acknowledged_out_of_order() -> None:
    lane = Lane("t", Acks(), 0, None)
    assert lane.acks is not None
    for seq in range(2, 2 * MOST_URGENT + 2, 2):
        lane.acks.add(seq)
    assert (lane.acks.spans, lane.is_wide, lane.urgent_room) == (MOST_URGENT, False, MOST_URGENT)
    lane.acks.add(2 * MOST_URGENT + 2)
    assert (lane.is_wide, lane.urgent_room) == (True, 0)
