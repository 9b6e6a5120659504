"""The option of commands whose result is short: as lines for people, or as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class ResultFormat(StrEnum):
    """How the result is written."""

    TEXT = "text"
    JSON = "json"


ResultOption = Annotated[ResultFormat, typer.Option("--format", help="How the result is written.")]
