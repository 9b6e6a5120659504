"""SVG in text: elements, paths, and how wide a label is.

In: names, attributes, pixels. Out: mark-up. Invariant: every text and attribute is escaped; colours are classes of the
style sheet, since a content policy forbids styles in elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len, set_cell_size

from reports.render.numbers import printable

CHARACTER = 7.6
"""Pixels of a digit at the style sheet's 12 pixels in the widest usual font, DejaVu Sans; wide characters take two."""


@dataclass(frozen=True, slots=True)
class Size:
    """A canvas.

    Args:
        width: pixels.
        height: pixels; a chart of horizontal bars is as high as its bars.
        has_tips: whether marks carry tooltips; without, a series is one path.
    """

    width: int
    height: int
    has_tips: bool


WIDE, NARROW = Size(600, 270, has_tips=True), Size(340, 230, has_tips=False)
"""Canvases of a desk and of a telephone: scaled down, the labels of the first could not be read on the second."""


def element(name: str, content: str = "", /, **attributes: str | float | None) -> str:
    """Return an element; `class_` is `class`, `_` is `-`, and None leaves an attribute out.

    Args:
        name: its name.
        content: mark-up inside it, already escaped.
        attributes: texts or pixels.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def words(text: str) -> str:
    """Return a text as mark-up, without what would act on a reader."""
    return escape(printable(text), quote=False)


def label(text: str, x: float, y: float, class_: str | None = None) -> str:
    """Return a label; its class says where it is anchored. `x` and `y` are in pixels from the top left."""
    return element("text", words(text), x=x, y=y, class_=class_)


def tip(text: str) -> str:
    """Return a tooltip, to stand inside a mark."""
    return element("title", words(text))


def box(left: float, top: float, width: float, height: float) -> str:
    """Return the path of a rectangle, all in pixels."""
    return f"M{pixels(left)} {pixels(top)}h{pixels(width)}v{pixels(height)}h{pixels(-width)}z"


def line(points: Iterable[tuple[float, float]]) -> str:
    """Return the path through the points."""
    return "".join(f"{'L' if at else 'M'}{pixels(x)} {pixels(y)}" for at, (x, y) in enumerate(points))


def pixels(value: float) -> str:
    """Return pixels with at most one decimal."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def width_of(text: str) -> float:
    """Return about how many pixels a label takes."""
    return cell_len(text) * CHARACTER


def fitted(text: str, width: float) -> str:
    """Return the text, cut to the width and ended by `…` where it is wider."""
    if width_of(text) <= width:
        return text
    return set_cell_size(text, max(1, int(width / CHARACTER) - 1)).rstrip() + "…"


def _attribute(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else pixels(value)
