"""Everything that is written: data on standard output or in a file that is replaced whole, talk on standard error.

In: text, rendered pages. Out: text on stdout or in a file; with CSV, notes and footer on stderr. Invariant: a file that
was there stays as it is until the new one is written whole; what stdout cannot take is one line, and what stderr cannot
take is dropped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Literal, TextIO

from router.cli.replaced import replaced_file

if TYPE_CHECKING:
    from pathlib import Path

    from reports.page import Page
    from reports.render import Format


def put_page(page: Page, form: Format | Literal["parquet"], output: Path | None, table: str | None = None) -> None:
    """Render a page and print it, or write it to a file.

    Args:
        page: the page.
        form: text, json, csv, markdown, html or parquet.
        output: the file; None: standard output, which takes no Parquet.
        table: csv and parquet only: the name of the table; None: the page's first.

    Raises:
        WrongUsage: the page has no such table, the file's folder does not exist, or the file is a folder.
        RouterError: the file cannot be written.
    """
    if form == "parquet":
        _put_parquet(page, output, table)
        return
    from reports.render import render

    color = output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((80, 24)).columns if output is None else 80
    text = render(page, form, width=max(width, 40), color=color, table=table)
    if output is None:
        put(text, is_json=form == "json")
    else:
        write_whole(output, text)
    if form == "csv":
        _print_words(page)


def _put_parquet(page: Page, output: Path | None, table: str | None) -> None:
    from reports.render.parquet import render_parquet
    from router.cli.page_options import require_parquet_file

    with replaced_file(require_parquet_file(output)) as file:
        render_parquet(page, file, table)
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
    with replaced_file(path, option) as file:
        file.write(text.encode())


_NEAREST = {"−": "-", "–": "-", "—": "-", "≥": ">", "≤": "<", "…": ".", "×": "x", "→": ">", "·": ".", "\xa0": " "}
"""What stands for a sign of ours, as wide, where an encoding lacks it: a loss of 5 must not read "?5"."""


def printable_on(stream: TextIO, text: str) -> str:
    """Return the text as the stream's encoding can write it: what it lacks becomes the nearest sign, or `?`."""
    encoding = stream.encoding or "utf-8"
    try:
        return text.encode(encoding).decode(encoding)
    except UnicodeEncodeError:
        lacking = {ord(sign): near for sign, near in _NEAREST.items() if not _has(encoding, sign)}
        return text.translate(lacking).encode(encoding, errors="replace").decode(encoding)


def _has(encoding: str, sign: str) -> bool:
    try:
        return bool(sign.encode(encoding))
    except UnicodeEncodeError:
        return False


def one_line(text: str) -> str:
    """Return the text of others on one line, with what a terminal would act on made visible as `?`."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def put(text: str, *, is_json: bool = False) -> None:
    """Write data to standard output, at once.

    Args:
        text: the text, its last line feed included.
        is_json: whether it is JSON, where a character that the stream cannot take is escaped and none is lost.

    Raises:
        BrokenPipeError: the reader has left.
        RouterError: it cannot be written.
    """
    shown = _escaped_for(sys.stdout, text) if is_json else printable_on(sys.stdout, text)
    try:
        sys.stdout.write(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from router.errors import RouterError

        abandon(sys.stdout)
        hint = "free some space, or send it to a file that can be written: … > FILE"
        raise RouterError(f"standard output: cannot be written: {error.strerror}", hint=hint) from error


def say(text: str) -> None:
    """Write talk to standard error; where that cannot be written, it is dropped.

    Args:
        text: one line or several; what of it a terminal would act on is shown as `?`.
    """
    shown = "\n".join(one_line(line.expandtabs()) for line in text.split("\n"))
    try:
        sys.stderr.write(f"{printable_on(sys.stderr, shown)}\n")
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)


def require_stdout() -> None:
    """Refuse to start what is paid for where its answer could not be written.

    Raises:
        RouterError: standard output is closed, or its disk is full.
    """
    from router.errors import RouterError

    try:
        os.write(sys.stdout.fileno(), b"")  # nothing, to see whether it would be taken
    except UnsupportedOperation:  # it is no file of the system's
        return
    except OSError as error:
        hint = "send the answer to a file that can be written: … > FILE"
        raise RouterError(
            f"standard output: cannot be written: {error.strerror}; nothing was sent", hint=hint
        ) from error


def abandon(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, so that the interpreter does not complain of it at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def open_closed_streams() -> None:
    """Put something in the place of standard streams that the caller has closed.

    Else the next file that is opened, for instance the ledger, would get the number of one and be written over. To
    read or write what stands there is an error that is met where it happens; talk goes nowhere.
    """
    for number, (name, mode, flags) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, flags)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


_STREAMS = (("stdin", "r", os.O_WRONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
"""Name and mode, and how the null device is opened in its place: wrongly for those whose loss must be seen."""


def _escaped_for(stream: TextIO, text: str) -> str:
    if printable_on(stream, text) == text:
        return text
    import json

    return "".join(sign if sign.isascii() else json.dumps(sign)[1:-1] for sign in text)


def _print_words(page: Page) -> None:
    """Print to stderr what rows have no place for."""
    from reports.render.sections import fact_text, fill

    lines = [*(f"{note.kind}: {fill(note)}" for note in page.notes), *(fact_text(fact) for fact in page.footer)]
    say("\n".join(lines))
