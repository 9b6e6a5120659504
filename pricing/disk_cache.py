"""Texts worth keeping between processes, in the user's cache folder.

In: a key and a text. Out: the same text, or None. Invariant: a text that was damaged, cut short or written by another
user is not returned; nothing here ever raises, because everything in a cache can be made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

_MOST_FILES = 8
_SUFFIX = ".cache"


def read_cached(key: str) -> str | None:
    """Return the text kept under a key; None: there is none, or it is not whole.

    Args:
        key: a digest of everything the text was made from, in hexadecimal.
    """
    try:
        with (_folder() / f"{key}{_SUFFIX}").open("rb") as file:
            if hasattr(os, "getuid") and os.fstat(file.fileno()).st_uid != os.getuid():
                return None
            checksum, _, content = file.read().partition(b"\n")
    except (OSError, RuntimeError):
        return None
    if checksum != _checksum(content):
        return None
    return content.decode()


def write_cached(key: str, text: str) -> None:
    """Keep a text under a key, and forget all but the newest few.

    Args:
        key: a digest of everything the text was made from, in hexadecimal.
        text: the text.
    """
    content = text.encode()
    with contextlib.suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f"{key}.{os.urandom(8).hex()}.draft"
        try:
            draft.write_bytes(_checksum(content) + b"\n" + content)
            draft.replace(folder / f"{key}{_SUFFIX}")
        finally:
            draft.unlink(missing_ok=True)
        _forget_old(folder)


def _folder() -> Path:
    from platformdirs import user_cache_path  # inside: only a catalogue that is loaded needs it

    return user_cache_path("farebox", appauthor=False) / "catalogues"


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _forget_old(folder: Path) -> None:
    newest_first = sorted(folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for file in newest_first[_MOST_FILES:]:
        file.unlink(missing_ok=True)
