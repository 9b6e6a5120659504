"""The file of rejected lines: file, line, reason and the line itself, as CSV.

In: rejected lines. Out: a file that is there only if there were any. Invariant: a file that was there before is never
written over; the lines are in the file when the import ends, however it ends.
"""

from __future__ import annotations

import csv
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from router.errors import RouterError, WrongUsage
from router.ledger.importers.record import Rejected

_LONGEST_TEXT = 10_000


class RejectsFile:
    """Writes rejected lines; the file is made at the first one.

    Args:
        path: where, if there are any.
        is_optional: nobody asked for it by name: where it cannot be made, the lines are only counted.
        is_off: write nothing.

    Raises:
        WrongUsage: there is something at that path, or no folder for it.
    """

    def __init__(self, path: Path, *, is_optional: bool = False, is_off: bool = False) -> None:
        self.path = path
        self.lines = 0
        self._is_optional, self._is_off = is_optional, is_off
        self._file: IO[str] | None = None
        self._writer: Any = None
        if not path.parent.is_dir():
            raise WrongUsage(f"--rejects: folder {str(path.parent)!r} does not exist", hint="make it, or name another")
        if path.exists():
            raise WrongUsage(f"--rejects: {str(path)!r} is there already", hint="name a file that is not there yet")

    def put(self, file: str, rejected: Rejected) -> None:
        """Write a line.

        Args:
            file: the file it stands in.
            rejected: the line.

        Raises:
            RouterError: the file cannot be written.
        """
        if self._is_off:
            return
        try:
            if self._file is None:
                self._file = self.path.open("x", encoding="utf-8", newline="")
                self._writer = csv.writer(self._file)
                self._writer.writerow(("file", "line", "reason", "text"))
            text = rejected.text[:_LONGEST_TEXT].encode("utf-8", "replace").decode()
            self._writer.writerow((file, rejected.line, rejected.reason, text))
            self.lines += 1
        except OSError as error:
            if self._is_optional:
                self._is_off = True
                return
            message = f"--rejects: {str(self.path)!r} cannot be written: {error.strerror}"
            raise RouterError(message, hint="name another file: --rejects FILE") from None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def free_path(file: Path) -> Path:
    """Return where rejected lines of a file go if nobody says: `NAME.rejects.csv` beside it, or the first free number.

    Args:
        file: the file that is imported.
    """
    numbers = (f"{file.name}.rejects{'' if number == 1 else f'-{number}'}.csv" for number in count(1))
    return next(path for name in numbers if not (path := file.with_name(name)).exists())
