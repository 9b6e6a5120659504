"""Charts: what is drawn is what the table says, to the pixel where that can be said by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports import Cell, Chart, Page
from reports.render.charts import Picture, picture
from reports.render.svg import fitted, width_of
from tests.reports.drawings import bars, daily_rows, day, every_kind, fan_rows, one, usd

BOX = re.compile(r"M([\d.-]+) ([\d.-]+)h([\d.-]+)v([\d.-]+)h")


def draw(page: Page) -> Picture:
    return picture(page, page.charts[0])


def elements(svg: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter())  # noqa: S314 — our own mark-up


def texts(svg: str, tag: str = "text") -> list[str]:
    return [each.text or "" for each in elements(svg) if each.tag == tag]


def boxes(svg: str, paint: str) -> list[tuple[float, float, float, float]]:
    """Return (left, top, width, height) of the bars of one colour."""
    found = []
    for each in elements(svg):
        marks = [each, *each] if each.get("class") == paint else []
        found += [BOX.findall(mark.get("d") or "") for mark in marks]
    return [tuple(map(float, box)) for path in found for box in path]  # type: ignore[misc]


def test_lying_bars_are_as_long_as_their_figures() -> None:
    svg = draw(bars(("gpt-4.1", usd(20_000)), ("kimi-k2", usd(5_000)), ("free", usd(0)))).wide
    (first, second, third) = boxes(svg, "f1")
    assert first[0] == second[0] == third[0]
    assert first[2] == pytest.approx(4 * second[2], abs=0.2)
    assert third[2] == 0
    assert texts(svg) == ["gpt-4.1", "200.00 USD", "kimi-k2", "50.00 USD", "free", "0.00 USD"]


def test_what_is_unknown_has_a_dash_and_no_bar() -> None:
    svg = draw(bars(("a", usd(100)), ("b", None))).wide
    assert len(boxes(svg, "f1")) == 1
    assert texts(svg) == ["a", "1.00 USD", "b", "–"]


def test_a_lower_bound_says_so() -> None:
    drawn = draw(bars(("a", usd(100, bound=True)), ("b", usd(50)))).wide
    assert "≥ 1.00 USD" in texts(drawn)
    assert "a, COST: ≥ 1.00 USD" in texts(drawn, "title")


def test_negative_bars_go_the_other_way() -> None:
    svg = draw(bars(("price", usd(-300)), ("volume", usd(600)))).wide
    down, up = boxes(svg, "f1")
    assert down[0] + down[2] == pytest.approx(up[0], abs=0.11)
    assert up[2] == pytest.approx(2 * down[2], abs=0.2)


def test_stacked_bars_stand_on_each_other_and_days_where_the_calendar_has_them() -> None:
    rows = [(day(0), "a", usd(100)), (day(0), "b", usd(300)), (day(3), "a", usd(200))]
    chart = Chart("c", "Spend", "stacked_bars", "main", "day", ("cost",), "model")
    columns = (("day", "Day", "text"), ("model", "Model", "text"), ("cost", "Cost", "money"))
    drawn = draw(one(chart, columns, rows))  # type: ignore[arg-type]
    (low, later), (high,) = boxes(drawn.narrow, "f1"), boxes(drawn.narrow, "f2")
    assert high[0] == low[0]
    assert high[1] + high[3] == pytest.approx(low[1], abs=0.11)
    assert high[3] == pytest.approx(3 * low[3], abs=0.2)
    assert later[3] == pytest.approx(2 * low[3], abs=0.2)
    band = low[2] / 0.8
    assert later[0] - low[0] == pytest.approx(3 * band, abs=0.3)
    assert [entry.name for entry in drawn.legend] == ["a", "b"]
    assert texts(drawn.wide, "title")[1:] == [
        f"{day(0)}, a: 1.00 USD",
        f"{day(3)}, a: 2.00 USD",
        f"{day(0)}, b: 3.00 USD",
    ]


def test_a_line_is_broken_where_a_value_is_unknown() -> None:
    chart = Chart("c", "Share", "line", "main", "day", ("share",))
    shares = [Fraction(1, 2), Fraction(1, 4), None, Fraction(1), Fraction(1, 2), None, Fraction(0)]
    rows = [(day(at), share) for at, share in enumerate(shares)]
    svg = draw(one(chart, (("day", "Day", "text"), ("share", "Share", "share")), rows)).narrow
    (path,) = [each.get("d") or "" for each in elements(svg) if each.get("class") == "l1"]
    assert path.count("M") == 2
    assert path.count("L") == 2
    assert sum(each.tag == "circle" for each in elements(svg)) == 1  # the last, alone


def test_a_day_that_is_not_in_the_table_breaks_the_line() -> None:
    chart = Chart("c", "Share", "line", "main", "day", ("share",))
    rows = [(day(at), Fraction(1, 2)) for at in (0, 1, 5, 6)]
    svg = draw(one(chart, (("day", "Day", "text"), ("share", "Share", "share")), rows)).narrow
    (path,) = [each.get("d") or "" for each in elements(svg) if each.get("class") == "l1"]
    assert path.count("M") == 2


def test_a_line_over_numbers_stands_where_the_numbers_are_and_is_whole() -> None:
    chart = Chart("c", "Saved", "line", "main", "month", ("saved",))
    rows = [(month, usd(month * 100)) for month in (0, 1, 2, 12)]
    svg = draw(one(chart, (("month", "Month", "count"), ("saved", "Saved", "money")), rows)).narrow
    (path,) = [each.get("d") or "" for each in elements(svg) if each.get("class") == "l1"]
    (x0, _), (x1, _), (x2, _), (x12, _) = (
        [float(part) for part in point.split()] for point in re.split("[ML]", path)[1:]
    )
    assert x2 - x0 == pytest.approx(2 * (x1 - x0), abs=0.2)
    assert x12 - x0 == pytest.approx(12 * (x1 - x0), abs=0.7)


def test_series_are_in_the_tables_order_though_the_first_day_lacks_one() -> None:
    rows = [
        (day(0), "a", usd(1)),
        (day(0), "other", usd(2)),
        (day(1), "a", usd(1)),
        (day(1), "b", usd(3)),
        (day(1), "other", usd(1)),
    ]
    chart = Chart("c", "Spend", "stacked_bars", "main", "day", ("cost",), "model")
    columns = (("day", "Day", "text"), ("model", "Model", "text"), ("cost", "Cost", "money"))
    assert [entry.name for entry in draw(one(chart, columns, rows)).legend] == ["a", "b", "other"]  # type: ignore[arg-type]


def test_a_group_of_points_is_named_by_its_column_and_left_out_where_it_has_none() -> None:
    chart = Chart("c", "Frontier", "points", "main", "cost", ("quality",), "best", "name")
    columns = (
        ("name", "Name", "text"),
        ("best", "Frontier", "text"),
        ("cost", "Cost", "money"),
        ("quality", "Q", "share"),
    )
    rows = [("a", "yes", usd(1), Fraction(1)), ("b", "no", usd(2), Fraction(1, 2)), ("c", None, usd(3), None)]
    drawn = draw(one(chart, columns, rows))  # type: ignore[arg-type]
    assert [entry.name for entry in drawn.legend] == ["Frontier: yes", "Frontier: no"]


def test_rows_of_one_place_are_added_up_and_an_unknown_part_makes_the_sum_unknown() -> None:
    svg = draw(bars(("a", usd(100)), ("a", usd(250)), ("b", usd(1)), ("b", None))).wide
    assert texts(svg) == ["a", "3.50 USD", "b", "–"]


@pytest.mark.parametrize(("kind", "dashes"), [("bars", 1), ("stacked_bars", 1)])
def test_an_upright_bar_that_is_unknown_has_a_dash_and_a_day_without_a_row_has_none(kind: str, dashes: int) -> None:
    svg = draw(bars((day(0), usd(100)), (day(1), None), (day(3), usd(50)), kind=kind)).wide
    assert texts(svg).count("–") == dashes
    assert "2026-10-02, COST: –" in texts(svg, "title")


def test_a_fan_has_an_area_for_each_interval_and_is_dashed_ahead() -> None:
    names = ("middle", "low_80", "high_80", "low_95", "high_95")
    titles = ("Total", "80 % low, USD", "80 % high, USD", "95 % low, USD", "95 % high, USD")
    columns = (("day", "Day", "text"), *((name, title, "money") for name, title in zip(names, titles, strict=True)))
    page = one(Chart("c", "Projection", "fan", "main", "day", names), columns, fan_rows())  # type: ignore[arg-type]
    drawn = draw(page)
    classes = [each.get("class") for each in elements(drawn.wide)]
    assert classes.index("a2") < classes.index("a1") < classes.index("l1") < classes.index("l1 ahead")
    assert [(entry.paint, entry.name) for entry in drawn.legend] == [
        ("f1", "Total"),
        ("a1", "80 % interval"),
        ("a2", "95 % interval"),
    ]


def test_an_interval_of_one_day_can_be_seen() -> None:
    names = ("middle", "low_80", "high_80", "low_95", "high_95")
    columns = (("day", "Day", "text"), *((name, name, "money") for name in names))
    page = one(Chart("c", "Projection", "fan", "main", "day", names), columns, fan_rows(10, 9))  # type: ignore[arg-type]
    (area,) = [each.get("d") or "" for each in elements(draw(page).wide) if each.get("class") == "a1"]
    # from the ninth day's total, up and down to the tenth day's bounds, and back
    (x0, y0), (x1, high), (x2, low), (x3, y3) = (
        tuple(map(float, part.rstrip("z").split())) for part in re.split("[ML]", area)[1:]
    )
    assert (x0, y0) == (x3, y3)
    assert x1 == x2 > x0
    assert high < low


def test_points_are_named_and_those_without_both_numbers_are_not_drawn() -> None:
    chart = Chart("c", "Frontier", "points", "main", "cost", ("quality",), label="name")
    columns = (("name", "Name", "text"), ("cost", "Cost", "money"), ("quality", "Quality", "share"))
    rows = [("a", usd(100), Fraction(9, 10)), ("b", usd(100), Fraction(8, 10)), ("c", usd(1), None)]
    svg = draw(one(chart, columns, rows)).wide  # type: ignore[arg-type]
    circles = [each for each in elements(svg) if each.tag == "circle"]
    assert len(circles) == 2  # both of one cost: neither is added to the other
    assert {"a", "b"} <= set(texts(svg))
    assert "c" not in texts(svg)
    assert "a: Cost 1.00 USD, Quality 90.0 %" in texts(svg, "title")


@pytest.mark.parametrize("kind", ["bars", "stacked_bars", "fan", "line"])
@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(day(0), None)],
        [(day(0), usd(0))],
        [(day(0), usd(0)), (day(1), usd(0))],
        [(day(0), usd(-5))],
        [(None, usd(5))],
    ],
)
def test_little_or_nothing_is_drawn_without_an_error(kind: str, rows: list[tuple[Cell, ...]]) -> None:
    chart = Chart("c", "Costs", kind, "main", "name", ("cost",))  # type: ignore[arg-type]
    drawn = draw(one(chart, (("name", "Name", "text"), ("cost", "Cost", "money")), rows))
    assert bool(drawn.wide) == any(cost is not None for _, cost in rows)
    for svg in filter(None, (drawn.wide, drawn.narrow)):
        assert elements(svg)
        assert "nan" not in svg
        assert "inf" not in svg


def test_a_list_of_a_thousand_draws_thirty_and_says_so() -> None:
    drawn = draw(bars(*((f"tenant {at}", usd(5_000 - at)) for at in range(1_000))))
    assert len(boxes(drawn.wide, "f1")) == 30
    assert drawn.remark == "The first 30 of 1,000; the table has them all."


def test_every_picture_is_named_for_those_who_cannot_see_it() -> None:
    page = every_kind()
    for chart in page.charts:
        for svg in (picture(page, chart, "p1-").wide, picture(page, chart, "p1-").narrow):
            root = ET.fromstring(svg)  # noqa: S314
            ids = {each.get("id"): each.text for each in root.iter() if each.get("id")}
            assert root.get("role") == "img"
            assert ids[root.get("aria-labelledby")] == chart.title
            assert ids[root.get("aria-describedby")] == chart.description


@pytest.mark.parametrize("name", ['<script>alert("x")</script>', "\u202egnp.exe", "x" * 300, "模型" * 40, "a&b", ""])
def test_a_name_cannot_break_out_of_its_picture(name: str) -> None:
    svg = draw(bars((name, usd(100)), ("b", usd(50)))).wide
    assert "<script" not in svg
    assert "\u202e" not in svg
    longest = max((each for each in elements(svg) if each.tag == "text"), key=lambda each: width_of(each.text or ""))
    assert width_of(longest.text or "") <= 600


@settings(max_examples=40)
@given(st.text(max_size=60), st.integers(min_value=10, max_value=300))
def test_law_a_fitted_label_is_no_wider_than_its_room(text: str, room: int) -> None:
    assert width_of(fitted(text, room)) <= max(room, 2 * width_of("…") + 7)


@pytest.mark.parametrize("days", [1, 2, 31, 400])
def test_labels_below_do_not_run_into_each_other(days: int) -> None:
    chart = Chart("c", "Spend", "stacked_bars", "main", "day", ("cost",), "model")
    columns = (("day", "Day", "text"), ("model", "Model", "text"), ("cost", "Cost", "money"))
    drawn = draw(one(chart, columns, daily_rows(days)))  # type: ignore[arg-type]
    for svg in (drawn.wide, drawn.narrow):
        below = [each for each in elements(svg) if each.get("class") == "m" and each.text != "–"]
        spans = sorted((float(each.get("x") or 0), width_of(each.text or "")) for each in below)
        assert spans
        for (x, width), (after, wide) in pairwise(spans):
            assert x + width / 2 <= after - wide / 2


def test_all_kinds_as_pictures(golden: Callable[[Path, str], None], golden_folder: Path) -> None:
    page = every_kind(8)
    for chart in page.charts:
        drawn = picture(page, replace(chart, name=f"c-{chart.name}"))
        golden(golden_folder / "charts" / f"{chart.name}.svg", f"{drawn.narrow}\n")
