"""Returns: each figure by hand; what is never paid back says so; dearer never looks better."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.page import Money, Page
from reports.render.sections import fill
from reports.roi import LONGEST, RoiInputs, discount_factor, roi_of, sensitivities
from reports.roi_page import Drawn, roi_page
from router.errors import WrongUsage

PLAIN = RoiInputs(Fraction(150), Fraction(50), Fraction(250), Fraction(20), horizon=4)  # 100 saved, 80 net


def page(inputs: RoiInputs, calls: int | None = None) -> Page:
    calls_known = None if calls is None else Fraction(calls)
    return roi_page(("old", "new"), inputs, Drawn("a test", (), (), (), calls=calls_known), "USD")


def notes(shown: Page) -> list[str]:
    return [f"{note.kind}: {fill(note)}" for note in shown.notes]


def test_a_return_by_hand() -> None:
    found = roi_of(PLAIN)
    assert [month.net for month in found.months] == [80, 80, 80, 80]
    assert [month.cumulative for month in found.months] == [-170, -90, -10, 70]
    assert [found.savings, found.cost] == [400, 330]  # 250 + 4 × 20
    assert found.roi == Fraction(70, 330)
    assert [found.npv, found.payback_month] == [70, 4]
    assert found.running_share == Fraction(20, 100)
    assert found.whole_share == Fraction(330, 400)


def test_growth_is_that_of_the_month_before_and_the_first_month_has_the_measured_volume() -> None:
    found = roi_of(replace(PLAIN, growth=Fraction(1, 10)))
    assert [month.savings for month in found.months] == [100, 110, 121, Fraction("133.1")]
    assert found.npv == Fraction("464.1") - 330


def test_present_values_by_hand() -> None:
    # 21 % a year is 10 % in half a year: (1.21)^(6/12) = 1.1
    assert abs(discount_factor(Fraction(21, 100), 6) - 1 / Fraction("1.1")) < Fraction(1, 10**45)
    assert abs(discount_factor(Fraction(21, 100), 12) - 1 / Fraction("1.21")) < Fraction(1, 10**45)
    assert discount_factor(Fraction(0), 7) == 1
    found = roi_of(replace(PLAIN, horizon=12, discount_rate=Fraction(21, 100)))
    assert abs(found.months[5].present_value - 80 / Fraction("1.1")) <= Fraction(1, 10**12)
    by_floats = sum(80 * 1.21 ** (-t / 12) for t in range(1, 13)) - 250
    assert float(found.npv) == pytest.approx(by_floats, abs=1e-9)
    assert found.payback_month == 4  # payback is not discounted


@pytest.mark.parametrize(
    ("inputs", "month", "said"),
    [
        (replace(PLAIN, setup_cost=Fraction(0)), 0, "note: it pays back at once"),
        (PLAIN, 4, "note: it pays back in month 4"),
        (
            replace(PLAIN, setup_cost=Fraction(800)),
            10,
            "warning: it pays back in month 10 only, after the horizon of 4",
        ),
        (
            replace(PLAIN, monthly_cost=Fraction(100)),
            None,
            "warning: it is never paid back: a month saves 100.00 USD and",
        ),
        (replace(PLAIN, configuration=Fraction(151)), None, "warning: it is never paid back: a month saves −1.00 USD"),
        (replace(PLAIN, growth=Fraction(-1, 2)), None, "warning: it is never paid back"),  # 100, 50, 25 … −20 each
        # 20 short at first, then 2, 4, … 10 % more each month: it recovers
        (replace(PLAIN, monthly_cost=Fraction(110), growth=Fraction(1, 2), setup_cost=Fraction(1)), 2, "note: it pays"),
    ],
)
def test_payback(inputs: RoiInputs, month: int | None, said: str) -> None:
    assert roi_of(inputs).payback_month == month
    assert notes(page(inputs))[0].startswith(said)


def test_without_cost_there_is_no_return_on_it() -> None:
    free = replace(PLAIN, setup_cost=Fraction(0), monthly_cost=Fraction(0))
    assert roi_of(free).roi is None
    assert page(free).table("returns").column("roi") == (None,)


def test_break_even_in_calls_is_rounded_up() -> None:
    table = page(PLAIN, calls=1_001).table("break_even")
    assert table.column("volume_share") == (Fraction(1, 5), Fraction(33, 40))
    assert table.column("calls_per_month") == (201, 826)  # 200.2, 825.825
    assert page(PLAIN).table("break_even").column("calls_per_month") == (None, None)


def test_sensitivity_by_hand() -> None:
    found = {each.name: [each.low, each.high] for each in sensitivities(PLAIN)}
    # 4 months of 100 saved, 330 paid; a fifth of 150 is 30, of 50 is 10, of 20 is 4, of 250 is 50
    assert found == {
        "baseline's prices": [70 - 120, 70 + 120],
        "volume": [70 - 80, 70 + 80],
        "set-up cost": [70 + 50, 70 - 50],
        "configuration's prices": [70 + 40, 70 - 40],
        "monthly cost": [70 + 16, 70 - 16],
        "growth": [70, 70],
        "discount rate": [70, 70],
    }
    assert next(iter(found)) == "baseline's prices"  # the strongest first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon: 0 is not allowed; 1 to 600 months are"),
        ({"horizon": LONGEST + 1}, "horizon: 601 is not allowed"),
        ({"setup_cost": Fraction(-1)}, "setup cost: -1 is not allowed; 0 or more is"),
        ({"monthly_cost": Fraction(-5)}, "monthly cost: -5 is not allowed"),
        ({"growth": Fraction(-1)}, "growth: -100 % is not allowed; more than −100 % up to 100 % a month is"),
        ({"growth": Fraction(2)}, "growth: 200 % is not allowed"),
        ({"discount_rate": Fraction(-1, 100)}, "discount rate: -1 % is not allowed"),
    ],
)
def test_what_no_switch_can_have_is_refused(change: dict[str, Fraction], message: str) -> None:
    with pytest.raises(WrongUsage) as caught:
        replace(PLAIN, **change)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert caught.value.hint


def test_the_interval_of_the_savings_carries_through() -> None:
    bounds = (Fraction(90), Fraction(110))
    drawn = Drawn("a test", (), (), (), intervals=((Fraction(80, 100), bounds),))
    table = roi_page(("old", "new"), PLAIN, drawn, "USD").table("returns")
    assert table.column("case") == ("expected", "80 % low", "80 % high")
    assert table.column("npv") == (Money(Fraction(70), "USD"), Money(Fraction(30), "USD"), Money(Fraction(110), "USD"))
    assert table.column("payback_month") == (4, 4, 3)  # 250 / 70, 250 / 90


AMOUNTS = st.fractions(0, 10_000, max_denominator=100)
SHARES = st.fractions(0, 1, max_denominator=20)


@settings(max_examples=40)
@given(AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, st.integers(1, 36), SHARES, SHARES)
def test_law_a_dearer_switch_is_never_worth_more(
    one: Fraction, other: Fraction, setup: Fraction, monthly: Fraction, horizon: int, growth: Fraction, rate: Fraction
) -> None:
    inputs = RoiInputs(one, other, setup, monthly, horizon, growth, rate)
    found = roi_of(inputs)
    assert found.npv == found.months[-1].cumulative_value
    for dearer in (replace(inputs, setup_cost=setup + 1), replace(inputs, monthly_cost=monthly + 1)):
        worse = roi_of(dearer)
        assert worse.npv < found.npv
        before, after = found.payback_month, worse.payback_month
        assert after is None or (before is not None and before <= after)
