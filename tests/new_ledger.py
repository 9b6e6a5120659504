"""A ledger with nothing in it, at once.

In: where its file shall be. Out: its URL. Invariant: the file is what `open_ledger` makes, which is run once a process
and then copied: its migrations take twenty times as long as a copy, and longer than most tests here. Tests of the
making itself, and of databases that are not there yet, use none of this.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from router.ledger import open_ledger


def new_ledger(path: Path | str) -> str:
    """Put an empty ledger at a path where no file is; its folder is made, too. Return its database URL."""
    file = Path(path)
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_empty())
    return f"sqlite:///{file}"


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory(prefix="farebox-ledger-") as folder:
        open_ledger(f"sqlite:///{folder}/ledger.db").close()
        assert [each.name for each in Path(folder).iterdir()] == ["ledger.db"]  # all is in this one file
        return (Path(folder) / "ledger.db").read_bytes()
