"""Renderers: golden files of two whole pages, and texts that must not act on a terminal, a table or a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from pricing import Catalog, FxTable, Terms, Usage
from reports import Column, Fact, Money, Note, Page, Panel, Split, Table, month_report
from reports.render import FORMATS, Format, render
from router.errors import WrongUsage
from router.ledger import Ledger
from tests.reports.drawings import bars, usd
from tests.reports.scenes import Scene, write
from tests.reports.test_compare import FOUR, by_hand

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENDINGS: dict[Format, str] = {"text": "txt", "json": "json", "csv": "csv", "markdown": "md"}


@pytest.fixture
def month_page(ledger: Ledger, catalog: Catalog, fx: FxTable) -> Page:
    """Return a month that has a bit of everything."""
    day = datetime(2026, 10, 14, 9, 30, tzinfo=UTC)
    usage = Usage(uncached_input_tokens=1_200, cache_read_tokens=1_024, plain_output_tokens=300, reasoning_tokens=20)
    answered = Scene(
        at=day,
        usage=usage,
        latency_us=1_234_567,
        queue_us=2_500,
        network_us=38_000,
        inference_us=1_190_000,
        state_us=900,
    )
    relay = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    write(
        ledger,
        catalog,
        answered,
        replace(answered, model="kimi-k2", price_list="relay", terms=relay),
        replace(answered, model="gpt-4o", served="gpt-4o-mini", reported_usd=Decimal("0.0003")),
        Scene(at=day, usage=usage, model="deepseek-v3.2", estimated=True, status="stopped", latency_us=400_000),
        Scene(at=day, status="failed", model="gpt-4.1", latency_us=3_000),
        Scene(at=day, status="timed_out", model="gpt-4.1", possibly_billed=True, reserved_usd=Decimal("0.02")),
    )
    return month_report(
        ledger.reader,
        month="2026-10",
        by="model",
        currency="USD",
        time_zone_name="Europe/Berlin",
        fx=fx,
        catalog=catalog,
        now=NOW,
    )


@pytest.mark.parametrize("form", ENDINGS)
def test_the_month_in_every_format(
    form: Format, month_page: Page, golden: Callable[[Path, str], None], golden_folder: Path
) -> None:
    golden(golden_folder / f"month.{ENDINGS[form]}", render(month_page, form))


@pytest.mark.parametrize("form", ENDINGS)
def test_a_comparison_in_every_format(
    form: Format, catalog: Catalog, golden: Callable[[Path, str], None], golden_folder: Path
) -> None:
    page = by_hand(FOUR, catalog, input_tokens=8_000_000, split=Split(1, 5), currency="CNY")
    golden(golden_folder / f"compare.{ENDINGS[form]}", render(page, form))


def test_a_comparison_with_unpriced_parts(
    catalog: Catalog, golden: Callable[[Path, str], None], golden_folder: Path
) -> None:
    page = by_hand(FOUR, catalog, input_tokens=8_000_000, split=Split(1, 5), price_list="relay")
    golden(golden_folder / "compare_unpriced.txt", render(page, "text"))


def page_of(label: str, *values: Fraction | None) -> Page:
    columns = (Column("name", "Name", "text"), *(Column(f"c{at}", f"C{at}", "money") for at in range(len(values))))
    cells = tuple(None if value is None else Money(value, "USD") for value in values)
    table = Table("main", "Main", columns, ((label, *cells),))
    return Page(
        "test", "Title", (), (table,), (Note("note", f"about {label}"),), (Fact("rows_counted", "rows counted", 1),)
    )


def test_colour_is_only_where_it_is_asked_for() -> None:
    page = page_of("a", Fraction(1))
    assert "\x1b[" in render(page, "text", color=True)
    assert "\x1b" not in render(page, "text")


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_name_can_do_nothing_to_a_terminal(form: Format) -> None:
    text = render(page_of("\x1b[31mred\x1b]0;title\x07\r\n[bold]x[/bold] :smile: {0} {name}", Fraction(1)), form)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\r" not in text
    assert "smile" in text
    assert "{name}" in text


def test_a_name_cannot_end_a_markdown_cell() -> None:
    text = render(page_of("a|b\\|c", Fraction(1)), "markdown")
    assert "| a\\|b\\\\\\|c | 1.00 |" in text


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_name_is_no_formula_in_a_spreadsheet(label: str) -> None:
    rows = list(csv.DictReader(io.StringIO(render(page_of(label, Fraction("-1.5")), "csv"))))
    assert rows == [{"row": "line", "name": f"'{label}", "c0": "-1.5", "lower_bounds": ""}]


def test_any_table_can_be_csv_and_one_that_is_not_there_is_named_with_those_that_are() -> None:
    page = page_of("a", Fraction(1))
    other = Table("other", "Other", (Column("n", "N", "count"),), ((7,),))
    page = replace(page, tables=(*page.tables, other))
    assert render(page, "csv", table="other") == "row,n,lower_bounds\nline,7,\n"
    with pytest.raises(WrongUsage, match="table: 'othr' does not exist; did you mean other") as error:
        render(page, "csv", table="othr")
    assert error.value.hint == "tables of this page: main, other"


def test_json_says_what_can_be_drawn() -> None:
    (chart,) = json.loads(render(bars(("a", usd(1))), "json"))["charts"]
    assert chart["table"] == "main"
    assert (chart["kind"], chart["x"], chart["y"], chart["group"]) == ("bars", "name", ["cost"], None)


def test_csv_quotes_what_must_be_quoted() -> None:
    rows = list(csv.DictReader(io.StringIO(render(page_of('a,"b"\nc', None), "csv"))))
    assert rows == [{"row": "line", "name": 'a,"b"\nc', "c0": "", "lower_bounds": ""}]


def test_json_carries_exact_amounts_and_marks_what_is_rounded_or_a_lower_bound() -> None:
    columns = (Column("name", "Name", "text"), Column("cost", "Cost", "money"), Column("share", "Share", "share"))
    rows = (
        ("exact", Money(Fraction("322.564030"), "USD"), Fraction(1, 4)),
        ("rounded", Money(Fraction(184, 75), "USD", lower_bound=True), None),
    )
    page = Page("test", "Title", (), (Table("main", "Main", columns, rows),), (), ())
    found = json.loads(render(page, "json"))["tables"]["main"]["rows"]
    assert found == [
        {"name": "exact", "cost": "322.56403", "share": 0.25},
        {"name": "rounded", "cost": "2.453333333333", "share": None, "lower_bounds": ["cost"], "rounded": ["cost"]},
    ]


def test_a_panel_without_anything_is_left_out_of_text_and_kept_in_json() -> None:
    columns = (
        Column("name", "Name", "text"),
        Column("cost", "Cost", "money", optional=True),
        Column("n", "N", "count"),
    )
    panels = (Panel("Money", ("cost",)), Panel("Counts", ("n",)))
    page = Page("test", "Title", (), (Table("main", "Main", columns, (("a", None, 1),), panels=panels),), (), ())
    text = render(page, "text")
    assert "Money" not in text
    assert "Counts" in text
    assert json.loads(render(page, "json"))["tables"]["main"]["rows"] == [{"name": "a", "cost": None, "n": 1}]


def test_a_page_without_rows_is_still_a_page() -> None:
    page = Page("test", "Title", (), (Table("main", "Main", (Column("n", "N", "count"),), ()),), (), ())
    assert all(render(page, form) for form in FORMATS)


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a row has 1 cells for 2 columns"):
        Table("main", "Main", (Column("a", "A", "text"), Column("b", "B", "text")), (("a",),))
