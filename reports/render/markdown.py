"""A page as GitHub-flavoured Markdown.

In: a `Page`. Out: headings, pipe tables and lists. Invariant: no cell's text can end its cell or start markup.
"""

from __future__ import annotations

import re

from reports.page import Cell, Page
from reports.render.numbers import format_cell, printable
from reports.render.sections import Section, fact_text, fill, sections

_MARKUP = re.compile(r"([\\`*_|<>\[\]#~])")


def render_markdown(page: Page) -> str:
    """Return the page as Markdown that ends with a line feed.

    Args:
        page: the page.
    """
    lines = [f"# {escape(page.title)}"]
    for table in page.tables:
        for section in sections(table):
            lines += ["", f"## {escape(section.title)}", "", *_grid(section)]
    if page.notes:
        lines += [
            "",
            *(f"- {'**warning**' if note.kind == 'warning' else 'note'}: {escape(fill(note))}" for note in page.notes),
        ]
    lines += ["", "---", "", *(f"- {escape(fact_text(fact))}" for fact in page.footer)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return the text on one line with every character that Markdown would act on escaped."""
    return _MARKUP.sub(r"\\\1", printable(text))


def _grid(section: Section) -> list[str]:
    heads = [escape(column.title) for column in section.columns]
    rules = [":--" if column.kind == "text" else "--:" for column in section.columns]
    body = [_row(section, row) for row in section.rows]
    if section.total is not None:
        body.append([f"**{text}**" for text in _row(section, section.total)])
    return [f"| {' | '.join(cells)} |" for cells in (heads, rules, *body)]


def _row(section: Section, row: tuple[Cell, ...]) -> list[str]:
    return [escape(format_cell(cell, column.kind)) for cell, column in zip(row, section.columns, strict=True)]
