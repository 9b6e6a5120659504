"""Text: it fits its terminal, folds names and never a figure, and Chinese and Japanese names align."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from pricing import Catalog
from reports import Chart, Column, Fact, Money, Note, Page, Split, Table
from reports.render import render
from reports.render.sparkline import sparklines
from tests.reports.drawings import day, every_kind, one, usd
from tests.reports.test_compare import FOUR, by_hand


def widths(text: str) -> list[int]:
    return [cell_len(line) for line in text.splitlines()]


def names_page(*names: str, figures: int = 2) -> Page:
    columns = (Column("name", "Name", "text"), *(Column(f"c{at}", f"Cost {at}, USD", "money") for at in range(figures)))
    rows = tuple((name, *(usd(123_456 * 10**at) for at in range(figures))) for name in names)
    return Page("test", "Title", (), (Table("main", "Main", columns, rows),), (), ())


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_page_fits_its_terminal(width: int, catalog: Catalog) -> None:
    assert max(widths(render(every_kind(), "text", width=width))) <= width
    compared = by_hand(FOUR, catalog, input_tokens=8_000_000, split=Split(1, 5), currency="CNY")
    assert max(widths(render(compared, "text", width=max(width, 60)))) <= max(width, 60)


def test_a_name_is_folded_after_a_hyphen_and_a_date_is_not() -> None:
    text = render(names_page("claude-sonnet-4.5-thinking-2026-10-01"), "text", width=46)
    lines = [line.split("  ")[0].strip() for line in text.splitlines()]
    assert lines[lines.index("claude-sonnet-4.5-") :][:2] == ["claude-sonnet-4.5-", "thinking-2026-10-01"]


def test_a_name_that_has_no_hyphen_is_folded_where_it_must_and_nothing_is_lost() -> None:
    text = render(names_page("x" * 200), "text", width=60)
    assert max(widths(text)) <= 60
    assert text.count("x") == 200


def test_a_table_that_is_too_wide_is_cut_into_blocks_that_repeat_its_first_column() -> None:
    text = render(names_page("alpha", "beta", figures=8), "text", width=60)
    assert max(widths(text)) <= 60
    assert text.count("alpha") == text.count("Main, continued") + 1 > 1
    assert [text.count(f"{123_456 * 10**at / 100:,.2f}") for at in range(8)] == [2] * 8


def test_no_figure_is_ever_cut() -> None:
    text = render(names_page("a", figures=1), "text", width=12)
    assert "1,234.56" in text


def test_wide_names_align() -> None:
    text = render(names_page("gpt-4.1", "通义千问-最大", "ひらがなモデル", "한국어"), "text")
    lines = [line for line in text.splitlines() if line.endswith("12,345.60")]
    assert len(lines) == 4
    assert len({cell_len(line) for line in lines}) == 1
    assert len({cell_len(line[: line.index("1,234.56")]) for line in lines}) == 1


def test_wide_names_are_folded_by_the_columns_they_take() -> None:
    text = render(names_page("深度求索" * 6), "text", width=60)
    assert max(widths(text)) <= 60
    assert sum(text.count(character) for character in "深度求索") == 24


@settings(max_examples=40)
@given(
    st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=5),
    st.integers(min_value=1, max_value=6),
    st.integers(min_value=40, max_value=120),
)
def test_law_whatever_the_names_and_the_terminal_the_page_fits(names: list[str], figures: int, width: int) -> None:
    assert max(widths(render(names_page(*names, figures=figures), "text", width=width))) <= width


def test_spend_by_day_is_one_line() -> None:
    chart = Chart("c", "Spend by day, USD", "stacked_bars", "main", "day", ("cost",), "model")
    columns = (("day", "Day", "text"), ("model", "Model", "text"), ("cost", "Cost, USD", "money"))
    rows = [
        (day(0), "a", usd(100)),
        (day(0), "b", usd(300)),
        (day(1), "a", usd(800)),
        (day(3), "a", usd(1)),
        (day(4), "a", None),
        (day(5), "a", usd(0)),
    ]
    page = one(chart, columns, rows)  # type: ignore[arg-type]
    # 4.00, 8.00, no row, 0.01, unknown, 0.00: a half is the fourth of eight marks, a hundredth the first
    assert sparklines(page) == (
        "Spend by day, USD: total ≥ 12.01, most 8.00 on 2026-10-02; 2026-10-01 to 2026-10-06",
        "▄█_▁·_",
    )
    assert "▄█_▁·_\n" in render(page, "text")


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(day(0), usd(5))],
        [(day(0), usd(-5)), (day(1), usd(5))],
        [(day(0), None), (day(1), None)],
        [("a", usd(5)), ("b", usd(6))],
    ],
)
def test_without_days_to_show_there_is_no_line(rows: list[tuple[str, Money | None]]) -> None:
    page = one(Chart("c", "C", "bars", "main", "day", ("cost",)), (("day", "D", "text"), ("cost", "C", "money")), rows)
    assert sparklines(page) == ()


def test_days_without_spend_are_a_flat_line() -> None:
    rows = [(day(0), usd(0)), (day(1), usd(0))]
    page = one(Chart("c", "C", "bars", "main", "day", ("cost",)), (("day", "D", "text"), ("cost", "C", "money")), rows)
    assert sparklines(page)[1] == "__"


def test_notes_and_facts_are_wrapped_too() -> None:
    page = replace(
        names_page("a"),
        notes=(Note("warning", "word " * 40), Note("note", "y" * 100)),
        footer=(Fact("rates", "exchange rates", "z" * 100),),
    )
    assert max(widths(render(page, "text", width=40))) <= 40


def test_a_share_is_no_money() -> None:
    chart = Chart("c", "Success", "bars", "main", "day", ("share",))
    rows = [(day(0), Fraction(1, 2)), (day(1), Fraction(1, 4))]
    page = one(chart, (("day", "D", "text"), ("share", "S", "share")), rows)
    assert sparklines(page)[0] == "Success: most 50.0 % on 2026-10-01; 2026-10-01 to 2026-10-02"
