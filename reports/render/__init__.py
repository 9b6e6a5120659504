"""Renderers: one `Page` in, text, Markdown, JSON or CSV out. They format and compute nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from reports.page import Page

Format: TypeAlias = Literal["text", "json", "csv", "markdown"]
FORMATS: tuple[Format, ...] = ("text", "json", "csv", "markdown")

__all__ = ["FORMATS", "Format", "render"]


def render(page: Page, form: Format, *, width: int = 80, color: bool = False) -> str:
    """Return the page in one format, ending with a line feed.

    Args:
        page: the page.
        form: text, json, csv or markdown.
        width: text only: columns to fit into where the tables allow it.
        color: text only: whether headings may carry terminal codes.
    """
    if form == "text":
        from reports.render.text import render_text

        return render_text(page, width=width, color=color)
    return _plain_renderer(form)(page)


def _plain_renderer(form: Format) -> Callable[[Page], str]:
    if form == "json":
        from reports.render.json import render_json

        return render_json
    if form == "csv":
        from reports.render.csv import render_csv

        return render_csv
    from reports.render.markdown import render_markdown

    return render_markdown
