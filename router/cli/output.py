"""Where a report goes: standard output, or a file that is replaced whole.

In: a rendered page. Out: text on stdout or in a file; with CSV, notes and footer on stderr. Invariant: a file that was
there stays as it is until the new one is written whole.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from reports.page import Page
    from reports.render import Format


def put_page(page: Page, form: Format, output: Path | None) -> None:
    """Render a page and print it, or write it to a file.

    Args:
        page: the page.
        form: text, json, csv or markdown.
        output: the file; None: standard output.

    Raises:
        WrongUsage: the file's folder does not exist, or the file is a folder.
        RouterError: the file cannot be written.
    """
    from reports.render import render

    color = output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((80, 24)).columns if output is None else 80
    text = render(page, form, width=max(width, 40), color=color)
    if output is None:
        _print(text)
    else:
        write_whole(output, text)
    if form == "csv":
        _print_words(page)


def write_whole(path: Path, text: str, option: str = "--output") -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    Args:
        path: the file.
        text: its content, written as UTF-8.
        option: the option that named it, for messages.

    Raises:
        WrongUsage: its folder does not exist, or the path is a folder.
        RouterError: it cannot be written.
    """
    from router.errors import RouterError, WrongUsage

    try:
        if not path.parent.is_dir():
            raise WrongUsage(f"{option}: folder {str(path.parent)!r} does not exist", hint="make it, or name another")
        if path.is_dir():
            raise WrongUsage(f"{option}: {str(path)!r} is a folder; a file is allowed", hint=f"{path}/report.txt")
        if path.exists() and not path.is_file():  # a pipe or a device: nothing to keep whole
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        hint = "free some space, or name a file in another folder"
        raise RouterError(f"{option}: {str(path)[:200]!r} cannot be written: {error.strerror}", hint=hint) from error


def _replace(path: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the process's mask of new files' permissions, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def printable_on(stream: TextIO, text: str) -> str:
    """Return the text as the stream's encoding can write it: a character it does not have becomes `?`."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, errors="replace").decode(encoding)


def _print(text: str) -> None:
    sys.stdout.write(printable_on(sys.stdout, text))
    sys.stdout.flush()


def _print_words(page: Page) -> None:
    """Print to stderr what CSV has no place for."""
    from reports.render.sections import fact_text, fill

    lines = [*(f"{note.kind}: {fill(note)}" for note in page.notes), *(fact_text(fact) for fact in page.footer)]
    sys.stderr.write(printable_on(sys.stderr, "\n".join(lines) + "\n"))
