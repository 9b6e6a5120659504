"""How a page is written and where it goes: the options of every command that makes one.

In: `--format`, `--json`, `--output`. Out: `PageOptions`, which puts a page. Invariant: what could not be written is
refused before anything is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from reports.page import Page


class PageFormat(StrEnum):
    """How a page is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    HTML = "html"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class PageOptions:
    """The options, for `router.cli.shared_options.sharing`.

    Args:
        form: how the page is written.
        as_json: the same as JSON.
        output: the file that is replaced; None: it is printed.

    Raises:
        WrongUsage: two of them contradict each other, the file cannot be written where it is named, or Parquet has no
            file or no package.
    """

    form: Annotated[PageFormat, typer.Option("--format", help="How the page is written.")] = PageFormat.TEXT
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to this file instead of printing.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse what could not be written."""
        if self.as_json and self.form not in (PageFormat.TEXT, PageFormat.JSON):
            from router.errors import WrongUsage

            message = f"--json: not allowed beside --format {self.form.value}"
            raise WrongUsage(message, hint="leave out one of the two")
        if self.form is PageFormat.PARQUET:
            require_parquet_file(self.output)
        if self.output is not None:
            from router.cli.replaced import require_folder

            require_folder(self.output, "--output")

    def put(self, page: Page) -> None:
        """Print a page, or write it to the file.

        Args:
            page: the page.

        Raises:
            RouterError: it cannot be written.
        """
        from router.cli.output import put_page

        put_page(page, (PageFormat.JSON if self.as_json else self.form).value, self.output)


def require_parquet_file(output: Path | None) -> Path:
    """Return the file that Parquet is written to.

    Args:
        output: the value of `--output`.

    Raises:
        WrongUsage: there is none, or Parquet's package is not installed.
    """
    from reports.export_files import require_parquet
    from router.errors import WrongUsage

    require_parquet("--format parquet")
    if output is None:
        raise WrongUsage("--format parquet: is only written to a file", hint="--output october.parquet")
    return output
