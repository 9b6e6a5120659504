"""Axes: marks at 1, 2 or 5 times a power of ten, and how they are written."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import Kind
from reports.render.numbers import format_marks
from reports.render.scales import MARKS, Scale, marks_of

ANY = st.lists(st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**9), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([], [0, Fraction(1, 5), Fraction(2, 5), Fraction(3, 5), Fraction(4, 5), 1]),
        ([0, 0], [0, Fraction(1, 5), Fraction(2, 5), Fraction(3, 5), Fraction(4, 5), 1]),
        ([10], [0, 2, 4, 6, 8, 10]),
        ([312], [0, 100, 200, 300, 400]),
        ([317, -420], [-600, -400, -200, 0, 200, 400]),
        ([Fraction("0.0042")], [Fraction(at, 1000) for at in range(6)]),
    ],
)
def test_marks_are_round_and_enclose_the_values(values: list[Fraction], marks: list[Fraction]) -> None:
    assert list(marks_of([Fraction(value) for value in values])) == marks


@pytest.mark.parametrize("from_zero", [True, False])
@settings(max_examples=40)
@given(values=ANY)
def test_law_every_value_is_between_the_marks_and_every_step_is_round(
    *, values: list[Fraction], from_zero: bool
) -> None:
    marks = marks_of(values, from_zero=from_zero)
    assert marks[0] <= min(values)
    assert max(values) <= marks[-1]
    assert 2 <= len(marks) <= MARKS + 2
    (step,) = {after - before for before, after in pairwise(marks)}
    while step >= 10:
        step /= 10
    while step < 1:
        step *= 10
    assert step in (1, 2, 5)
    assert not from_zero or 0 in marks


@settings(max_examples=40)
@given(ANY)
def test_law_nothing_is_drawn_outside_its_plot(values: list[Fraction]) -> None:
    scale = Scale(marks_of(values), 250.0, 20.0)
    assert all(19.999 <= scale.at(value) <= 250.001 for value in values)


@pytest.mark.parametrize(
    ("marks", "kind", "texts"),
    [
        (["0", "0.5", "1"], "money", ["0", "0.5", "1.0"]),
        (["0", "2000", "4000"], "money", ["0", "2,000", "4,000"]),
        (["0", "5000", "10000"], "count", ["0", "5k", "10k"]),
        (["0", "2500000", "5000000"], "tokens", ["0", "2,500k", "5,000k"]),
        (["0", "20000000"], "tokens", ["0", "20M"]),
        (["-0.05", "0", "0.05"], "share", ["−5 %", "0 %", "5 %"]),
        (["0.902", "0.904"], "share", ["90.2 %", "90.4 %"]),
    ],
)
def test_marks_have_equally_many_decimals(marks: list[str], kind: Kind, texts: list[str]) -> None:
    assert format_marks([Fraction(mark) for mark in marks], kind) == texts
