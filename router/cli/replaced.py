"""A file that grows while the old one stays: written beside it, then put in its place.

In: a path. Out: an open binary file. Invariant: whoever looks sees the old file or the whole new one; where writing
fails, the old one stays and nothing is left beside it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replaced_file(path: Path, option: str = "--output") -> Iterator[IO[bytes]]:
    """Open a file for binary writing that takes the place of another once it is whole.

    Args:
        path: the file.
        option: the option that named it, for messages.

    Raises:
        WrongUsage: its folder does not exist, or the path is a folder.
        RouterError: it cannot be written.
    """
    from router.errors import RouterError

    try:
        require_folder(path, option)
        if path.exists() and not path.is_file():  # a pipe or a device: nothing to keep whole
            with path.open("wb") as file:
                yield file
        else:
            with _beside(_resolved(path)) as file:
                yield file
    except OSError as error:
        hint = "free some space, or name a file in another folder"
        raise RouterError(f"{option}: {str(path)[:200]!r} cannot be written: {error.strerror}", hint=hint) from error


def require_folder(path: Path, option: str) -> None:
    """Refuse a file that cannot be written where it is named, before any work is done for it.

    Args:
        path: the file.
        option: the option that named it, for messages.

    Raises:
        WrongUsage: its folder does not exist, or the path is a folder.
    """
    from router.errors import WrongUsage

    if not path.parent.is_dir():
        raise WrongUsage(f"{option}: folder {str(path.parent)!r} does not exist", hint="make it, or name another")
    if path.is_dir():
        raise WrongUsage(f"{option}: {str(path)!r} is a folder; a file is allowed", hint=f"{path}/report.txt")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "its links lead in a circle") from error


@contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    import tempfile  # here: it loads the makers of random numbers, which the help has no need of

    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
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
