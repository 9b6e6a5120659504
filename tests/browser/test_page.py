"""The HTML page in a real browser: it asks for nothing, its figures are the JSON's, and everyone can read it."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing import load_catalog
from reports import Page, Split
from reports.render import render
from reports.render.html import render_html
from tests.browser.window import Window
from tests.reports.drawings import bars, every_kind, usd
from tests.reports.test_compare import FOUR, by_hand

WIDTHS = (1280, 800, 360)
Show = Callable[[Page | tuple[Page, ...]], Path]

CELLS = """
return [...document.querySelectorAll('section.page')].map(page => [page.dataset.report,
  [...page.querySelectorAll('table')].map(table => ({
    name: table.dataset.table,
    keys: [...table.tHead.rows[0].cells].map(cell => cell.dataset.key),
    rows: [...table.tBodies[0].rows, ...(table.tFoot ? table.tFoot.rows : [])].map(row =>
      [...row.cells].map(cell => [cell.textContent, cell.dataset.value ?? null])),
  }))]);
"""
FACES = """
const clear = colour => /^rgba\\(.*, 0\\)$/.test(colour) || colour === 'transparent';
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!clear(colour)) return colour;
  }
  return 'rgb(255, 255, 255)';
}
const found = new Set();
for (const element of document.querySelectorAll('body *')) {
  const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
  if (!own || !element.checkVisibility() || ['TITLE', 'DESC', 'title', 'desc'].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  found.add(JSON.stringify([element instanceof SVGElement ? style.fill : style.color, ground(element)]));
}
return [...found].map(JSON.parse);
"""
CUT = """
return [...document.querySelectorAll('svg')].filter(svg => svg.checkVisibility()).flatMap(svg => {
  const box = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 2 || own.right > box.right + 2 || own.bottom > box.bottom + 2;
  }).map(text => text.textContent);
});
"""


@pytest.fixture
def show(window: Window, tmp_path: Path) -> Show:
    """Return a function that writes a page and opens it."""

    def write(pages: Page | tuple[Page, ...]) -> Path:
        path = tmp_path / "page.html"
        path.write_text(render_html(pages if isinstance(pages, tuple) else (pages,)), encoding="utf-8")
        window.open(path)
        return path

    return write


def both() -> tuple[Page, ...]:
    """Return a month with a chart of every kind, and a comparison."""
    return every_kind(), by_hand(FOUR, load_catalog(), input_tokens=8_000_000, split=Split(1, 5), currency="CNY")


def test_it_asks_for_nothing_and_has_nothing_to_complain_of(window: Window, show: Show) -> None:
    path = show(both())
    assert window.requested() == []
    assert window.log() == []
    assert path.stat().st_size < 200_000


def test_its_policy_stops_what_is_not_its_own(window: Window, show: Show) -> None:
    path = show(both())
    path.write_text(path.read_text(encoding="utf-8").replace("</main>", '<img src="https://example.org/x.png"></main>'))
    window.open(path)
    assert any("Content Security Policy" in line for line in window.log())


def test_every_figure_is_the_jsons_and_reads_as_the_renderer_writes_it(window: Window, show: Show) -> None:
    pages = both()
    show(pages)
    found = window.ask(CELLS)
    assert [name for name, _ in found] == [page.name for page in pages]
    for page, (_, tables) in zip(pages, found, strict=True):
        written = json.loads(render(page, "json"))["tables"]
        assert {table["name"] for table in tables} == set(written)
        for table in tables:
            check(table, written[table["name"]])


def check(shown: dict[str, Any], written: dict[str, Any]) -> None:
    """Compare one table of the page with the JSON's."""
    rows = [*written["rows"], *([written["total"]] if written["total"] else [])]
    assert len(shown["rows"]) == len(rows)
    for cells, row in zip(shown["rows"], rows, strict=True):
        for key, (text, value) in zip(shown["keys"], cells, strict=True):
            if value is None:
                assert text == row[key]
            elif value == "":
                assert (row[key], text) == (None, "–")
            else:
                assert Decimal(value) == Decimal(str(row[key]))
                assert ("≥" in text) is (key in row.get("lower_bounds", ()))


def test_every_text_stands_out_from_its_ground_in_light_and_dark(window: Window, show: Show) -> None:
    show(both())
    seen: dict[str, set[tuple[str, str]]] = {"light": set(), "dark": set()}
    for scheme, faces in seen.items():
        for width in WIDTHS:
            window.show(width, scheme)  # type: ignore[arg-type]
            found = window.ask(FACES)
            assert len(found) > 4
            assert [(face, ground) for face, ground in found if contrast(face, ground) < 4.5] == []
            faces |= {(face, ground) for face, ground in found}
    assert not seen["light"] & seen["dark"]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, relative luminance)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("rgb(0, 0, 0)", "rgb(255, 255, 255)") == pytest.approx(21)
    assert contrast("rgb(118, 118, 118)", "rgb(255, 255, 255)") == pytest.approx(4.54, abs=0.01)


def test_nothing_runs_out_at_the_side(window: Window, show: Show) -> None:
    names = ("gpt-4.1", "x" * 300, "深度求索模型" * 20, "نموذج عربي " * 12)
    hostile = (replace(bars((name, usd(123_456)), ("b", usd(50))), title=f"Title {name}") for name in names)
    show((*both(), *hostile))
    window.ask("document.querySelectorAll('details').forEach(each => { each.open = true })")
    for width in WIDTHS:
        window.show(width)
        assert window.ask("return document.documentElement.scrollWidth") == width
        assert window.ask(CUT) == []


def test_one_picture_of_each_chart_is_seen(window: Window, show: Show) -> None:
    pages = both()
    show(pages)
    for width, seen in ((1280, "wide"), (800, "wide"), (360, "narrow")):
        window.show(width)
        classes = window.ask(
            "return [...document.querySelectorAll('figure > svg')].filter(e => e.checkVisibility())"
            ".map(e => e.getAttribute('class'))"
        )
        assert classes == [seen] * sum(len(page.charts) for page in pages)


def test_it_prints_in_light_with_every_table_open(window: Window, show: Show) -> None:
    show(both())
    window.print_media()
    assert window.ask("return [...document.querySelectorAll('table')].filter(e => !e.checkVisibility()).length") == 0
    faces = window.ask(FACES)
    assert len(faces) > 2
    assert [(face, ground) for face, ground in faces if contrast(face, "rgb(255, 255, 255)") < 4.5] == []
    data = b64decode(window.pdf())
    assert data.startswith(b"%PDF")
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") + data.count(b"/Type /Page/") >= 3


def test_the_keyboard_reaches_every_fold_and_every_table(window: Window, show: Show) -> None:
    show(both())
    wanted = window.ask("return document.querySelectorAll('summary, a, .scroll').length")
    closed = window.ask("return document.querySelectorAll('details .scroll').length")
    reached = []
    for _ in range(wanted + 2):
        window.press_tab()
        reached.append(
            window.ask(
                "const e = document.activeElement; return [e.tagName, getComputedStyle(e).outlineStyle, e.className]"
            )
        )
    assert reached[0][2] == "skip"
    assert sum(tag == "SUMMARY" for tag, _, _ in reached[: wanted - closed]) == len(
        {"daily", "projection", "cache", "frontier", "bridge"}
    )
    assert sum(name == "scroll" for _, _, name in reached[: wanted - closed]) >= 4
    assert {style for tag, style, _ in reached[: wanted - closed] if tag != "BODY"} == {"solid"}


def test_a_tooltip_says_the_figure(window: Window, show: Show) -> None:
    show(bars(("gpt-4.1", usd(12_345)), ("kimi-k2", usd(50))))
    assert "gpt-4.1, COST: 123.45 USD" in window.ask(
        "return [...document.querySelectorAll('svg.wide title')].map(e => e.textContent)"
    )
