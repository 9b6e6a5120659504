"""Texts that the user names by their file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def text_in(path: Path, option: str) -> str:
    """Return the text in a file, without a byte order mark.

    Args:
        path: the file.
        option: the option that names it, for the message.

    Raises:
        WrongUsage: it cannot be read, or not as UTF-8.
    """
    from router.errors import WrongUsage

    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"{option}: {str(path)!r} cannot be read: {error.strerror}"
        raise WrongUsage(message, hint="name a readable file") from None
    except UnicodeDecodeError:
        raise WrongUsage(f"{option}: {str(path)!r} is not UTF-8 text", hint="save it as UTF-8") from None
