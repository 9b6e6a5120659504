"""Renderers: one `Page` in, text, Markdown, JSON, CSV or HTML out. They format and compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from reports.page import Page

Format: TypeAlias = Literal["text", "json", "csv", "markdown", "html"]
FORMATS: tuple[Format, ...] = ("text", "json", "csv", "markdown", "html")

__all__ = ["FORMATS", "Format", "render"]


def render(page: Page, form: Format, *, width: int = 80, color: bool = False, table: str | None = None) -> str:
    """Return the page in one format, ending with a line feed.

    Args:
        page: the page.
        form: text, json, csv, markdown or html.
        width: text only: columns to fit into where the figures allow it.
        color: text only: whether headings may carry terminal codes.
        table: csv only: the name of the table; None: the page's first.

    Raises:
        WrongUsage: the page has no such table.
    """
    if form == "text":
        from reports.render.text import render_text

        return render_text(page, width=width, color=color)
    if form == "csv":
        from reports.render.csv import render_csv

        return render_csv(page, table)
    return _plain_renderer(form)(page)


def _plain_renderer(form: Format) -> Callable[[Page], str]:
    if form == "json":
        from reports.render.json import render_json

        return render_json
    if form == "html":
        from reports.render.html import render_html

        return lambda page: render_html((page,))
    from reports.render.markdown import render_markdown

    return render_markdown
