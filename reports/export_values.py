"""How one value of an exported file is written.

In: a value and its column's kind. Out: text, a JSON value. Invariant: a number keeps every digit; what is unknown is
None, never 0 and never an empty text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.money import plain
from reports.export_columns import ExportColumn, ExportKind

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a spreadsheet takes for the beginning of a formula (OWASP, CSV injection)."""


def text_of(value: Any, kind: ExportKind) -> str:
    """Return a value as it stands in CSV; None is an empty field.

    Args:
        value: the value.
        kind: its column's.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, datetime):
        return instant_text(value, kind)
    return str(value)


def decimal_text(value: Decimal) -> str:
    """Return a number with a decimal point, so that who guesses a column's type takes it for a decimal one."""
    text = plain(value)
    return text if "." in text else f"{text}.0"


def guarded(value: Any, kind: ExportKind) -> str:
    """Return the same with an apostrophe before a text that a spreadsheet would run as a formula."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) else value
    return text_of(value, kind)


def json_of(value: Any, kind: ExportKind) -> Any:
    """Return a value as JSON takes it: amounts as decimal strings, labels as an object."""
    if value is None or isinstance(value, bool | int):
        return value
    if kind == "json":
        import json

        return json.loads(value)
    return text_of(value, kind)


def instant_text(instant: datetime, kind: ExportKind) -> str:
    """Return an aware UTC instant in ISO 8601, with `Z`; microseconds only where the kind has them."""
    parts = "microseconds" if kind == "moment" else "seconds"
    return f"{instant.replace(tzinfo=None).isoformat(timespec=parts)}Z"


def objects_of(columns: Sequence[ExportColumn], row: Sequence[Any]) -> dict[str, Any]:
    """Return a row as a JSON object."""
    return {column.name: json_of(value, column.kind) for column, value in zip(columns, row, strict=True)}
