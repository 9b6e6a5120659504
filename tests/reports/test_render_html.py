"""The HTML page: it needs nothing from outside, hostile names do nothing, and it says what the JSON says."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from pricing import Catalog
from reports import Chart, Column, Fact, Kind, Money, Note, Page, Panel, Split, Table
from reports.render import render
from reports.render.headline import headline
from reports.render.html import render_html
from reports.render.numbers import format_brief
from tests.reports.drawings import bars, every_kind, usd
from tests.reports.test_compare import FOUR, by_hand

VOID = {"meta"}
HOSTILE = (
    '<script>alert("x")</script>',
    '"><img src=x onerror=alert(1)>',
    "</style><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202eevil\u202c\u2066",
    "\x00\x1b[31m",
    "x" * 300,
    "深度求索模型" * 20,
    "نموذج عربي 42",
)


class Document(HTMLParser):
    """A document's elements, with the texts of those that are asked for; it fails on a tag that closes another."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.tables: list[tuple[str, list[list[tuple[str, str | None]]]]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag == "table":
            self.tables.append((given["data-table"] or "", []))
        if tag == "tr":
            self.tables[-1][1].append([])
        if tag in ("td", "th"):
            self.tables[-1][1][-1].append(("", given.get("data-value", given.get("data-key"))))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            text, value = self.tables[-1][1][-1][-1]
            self.tables[-1][1][-1][-1] = (text + data, value)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [given for name, given in self.elements if name == tag]


def page_with(text: str) -> Page:
    """Return a page that has a text wherever a user's can stand."""
    page = bars((text, usd(100)), ("b", usd(50)))
    return replace(
        page,
        title=f"Title {text}",
        parameters=(Fact("tenant", "tenant", text),),
        notes=(Note("warning", "{model} answered", {"model": (text, "text")}), Note("note", f"about {text}")),
        footer=(Fact("source", "source", text),),
    )


def test_it_is_one_document_that_asks_for_nothing() -> None:
    document = Document(render(every_kind(), "html"))
    tags = {tag for tag, _ in document.elements}
    assert not tags & {"script", "img", "link", "iframe", "object", "embed", "base", "form", "audio", "video"}
    for _, given in document.elements:
        assert not {"style", "src", "srcset", "action", "background"} & set(given)
        assert not [name for name in given if name.startswith("on")]
        assert given.get("href", "#").startswith("#")  # type: ignore[union-attr]


def test_its_policy_allows_its_own_style_sheet_alone() -> None:
    html = render(every_kind(), "html")
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    (policy,) = [
        given["content"] for given in Document(html).of("meta") if given.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_does_nothing(text: str) -> None:
    harmless = Document(render(page_with("name"), "html"))
    html = render(page_with(text), "html")
    document = Document(html)
    assert [tag for tag, _ in document.elements] == [tag for tag, _ in harmless.elements]
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", html)
    assert "{{ 7 * 7 }}" in html or "7 * 7" not in text


def test_headings_are_in_order_and_ids_are_the_only_ones() -> None:
    document = Document(render_html([every_kind(), every_kind()], title="Two"))
    levels = [int(tag[1]) for tag, _ in document.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [given["id"] for _, given in document.elements if "id" in given]
    assert len(ids) == len(set(ids))
    links = {(given["href"] or "")[1:] for given in document.of("a")}
    named = {
        given[key] for _, given in document.elements for key in ("aria-labelledby", "aria-describedby") if key in given
    }
    assert (links | named) - set(ids) == set()


def test_it_has_landmarks_and_says_what_every_table_is() -> None:
    document = Document(render(every_kind(), "html"))
    tags = [tag for tag, _ in document.elements]
    assert [tags.count(tag) for tag in ("header", "main", "footer")] == [1, 1, 1]
    assert document.of("html") == [{"lang": "en"}]
    assert tags.count("caption") == tags.count("table")
    assert {given.get("scope") for given in document.of("th")} == {"row", "col"}
    assert all(given.get("tabindex") == "0" for given in document.of("div") if given.get("class") == "scroll")


def test_every_cell_is_the_jsons() -> None:
    page = every_kind()
    tables = json.loads(render(page, "json"))["tables"]
    shown: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    for name, rows in Document(render(page, "html")).tables:
        for at, key in enumerate(value for _, value in rows[0]):
            shown[name, key or ""] = [row[at] for row in rows[1:]]
    assert {name for name, _ in shown} == set(tables)
    for (name, key), cells in shown.items():
        table = tables[name]
        expected = [row[key] for row in (*table["rows"], *([table["total"]] if table["total"] else []))]
        assert len(cells) == len(expected)
        for (text, value), cell in zip(cells, expected, strict=True):
            if value is None:
                assert text == cell
            else:
                assert (value == "") is (cell is None)
                assert cell is None or Decimal(value) == Decimal(str(cell))


def test_what_is_unknown_is_empty_and_a_dash() -> None:
    html = render(bars(("a", None), ("b", usd(50))), "html")
    assert '<td data-value="">–</td>' in html
    assert '<td data-value="0.5">0.50</td>' in html


@pytest.mark.parametrize(
    ("cell", "kind", "value", "text"),
    [
        (Fraction(1, 10**7), "share", "0.0000001", "0.00001 %"),
        (Money(Fraction("0.005472"), "USD", lower_bound=True), "money", "0.005472", "≥ 0.005472"),
        (Money(Fraction(-5), "JPY"), "money", "-5", "−5"),
        (12_345, "count", "12345", "12,345"),
        ("by hand", "count", "by hand", "by hand"),
    ],
)
def test_a_value_stands_beside_its_figure(
    cell: Fraction | Money | int | str, kind: Kind, value: str, text: str
) -> None:
    table = Table("main", "Main", (Column("n", "N", "text"), Column("v", "V", kind)), (("a", cell),))
    html = render(Page("test", "Title", (), (table,), (), ()), "html")
    assert f'<td data-value="{value}">{text}</td>' in html


def test_a_value_in_a_sentence_is_set_apart_and_a_brace_stands() -> None:
    note = Note(
        "warning", "{model} cost {cost} of {nothing}", {"model": ("نموذج", "text"), "cost": (usd(150), "money")}
    )
    html = render(replace(bars(("a", usd(1))), notes=(note,)), "html")
    assert '<bdi>نموذج</bdi> cost <bdi data-value="1.5">1.50</bdi> of {nothing}' in html


def test_warnings_stand_before_every_figure() -> None:
    html = render(page_with("name"), "html")
    assert html.index("Warning:") < html.index('<svg class="wide"') < html.index("<table")


def test_a_table_behind_a_chart_is_folded_once_and_the_main_one_is_open() -> None:
    chart = Chart("again", "Again", "line", "daily", "day", ("settled_cost",))
    page = every_kind()
    document = Document(render(replace(page, charts=(*page.charts, chart)), "html"))
    assert [name for name, _ in document.tables].count("daily") == 1
    assert document.elements.index(("section", {"class": "table", "id": "r1-lines"})) > 0
    assert len(document.of("details")) == 5


def test_a_table_that_text_leaves_out_is_shown_behind_its_chart() -> None:
    page = every_kind()
    hidden = tuple(replace(table, panels=(Panel("", ()),)) if table.name == "daily" else table for table in page.tables)
    page = replace(page, tables=hidden)
    assert "Spend by day and model" not in render(page, "text")
    assert "daily" in [name for name, _ in Document(render(page, "html")).tables]


def test_nothing_to_draw_is_said() -> None:
    assert "Nothing to draw" in render(bars(("a", None)), "html")


def test_two_reports_are_one_document(catalog: Catalog) -> None:
    compared = by_hand(FOUR, catalog, input_tokens=8_000_000, split=Split(1, 5), currency="CNY")
    html = render_html([every_kind(), compared], title="October and the switch")
    document = Document(html)
    reports = [given["data-report"] for given in document.of("section") if "data-report" in given]
    assert reports == ["month", "compare"]
    assert "<title>October and the switch</title>" in html
    assert len(html.encode()) < 200_000


def test_of_a_very_long_table_the_first_rows_are_written_and_the_rest_is_said() -> None:
    columns = (Column("tenant", "Tenant", "text"), Column("calls", "Calls", "count"))
    rows = tuple((f"tenant-{number:04}", number) for number in range(1_200))
    page = Page("month", "Title", (), (Table("lines", "By tenant", columns, rows, ("total", 719_400)),), (), ())
    html = render(page, "html")
    assert ("tenant-0249" in html, "tenant-0250" in html) == (True, False)
    assert "The first 250 of 1,200 rows; all of them are in the report as JSON or CSV." in html
    assert 'data-value="719400">719,400<' in html
    short = replace(page, tables=(replace(page.tables[0], rows=rows[:250]),))
    assert "The first" not in render(short, "html")


def test_cards_are_cells_of_the_page() -> None:
    columns = (
        Column("measure", "Measure", "text"),
        Column("key", "Key", "text"),
        Column("this_period", "2026-10", "money"),
        Column("period_before", "2026-09", "money"),
        Column("change", "Change", "change"),
    )
    rows = (
        ("Settled", "settled_cost", usd(120), usd(100), Fraction(1, 5)),
        ("List", "list_cost", usd(240), None, None),
        ("Settled per task", "cost_per_task", None, usd(5), None),
    )
    page = Page("month", "Title", (), (Table("summary", "Summary", columns, rows),), (), ())
    assert [(card.label, card.text, card.unit, card.exact, card.detail) for card in headline(page)] == [
        ("Settled", "1.20", "USD", "1.2", "+20.0 % against 2026-09"),
        ("List price", "2.40", "USD", "2.4", ""),
    ]
    assert '<dd class="figure" data-value="1.2"><span>1.20</span> <small>USD</small></dd>' in render(page, "html")
    assert headline(replace(page, name="other")) == ()


def test_a_list_price_that_is_what_was_paid_has_no_card_of_its_own() -> None:
    columns = (Column("key", "Key", "text"), Column("this_period", "2026-10", "money"))
    table = Table("summary", "Summary", columns, (("settled_cost", usd(120)), ("list_cost", usd(120))))
    assert [card.label for card in headline(Page("month", "Title", (), (table,), (), ()))] == ["Settled"]


def test_a_long_table_is_folded_unless_it_is_the_main_one() -> None:
    columns = (Column("name", "Name", "text"), Column("n", "N", "count"))
    rows = tuple((f"row {at}", at) for at in range(41))
    tables = (Table("main", "Main", columns, rows), Table("more", "More", columns, rows))
    html = render(Page("test", "Title", (), tables, (), ()), "html")
    assert html.count("<details>") == 1
    assert "<details><summary><h2>More</h2> 41 rows</summary>" in html


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (usd(123_456), "1,234.56 USD"),
        (Money(Fraction("1234.5678"), "USD", lower_bound=True), "≥ 1,234.57 USD"),
        (Money(Fraction("0.00081"), "USD"), "0.000810 USD"),
        (Money(Fraction("-98765.4"), "JPY"), "−98,765 JPY"),
        (None, "–"),
    ],
)
def test_an_amount_beside_a_bar_has_its_currencys_digits(cell: Money | None, text: str) -> None:
    assert format_brief(cell, "money") == text
