"""How long the disk takes for one commit, so that times that hold commits can be told from the disk's own.

In: a folder. Out: seconds. Invariant: the commit is as durable as the ledger's: WAL, synchronous=FULL.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Generator
from itertools import count, islice
from pathlib import Path

COMMITS = 200


def bare_commit_s(folder: Path) -> float:
    """Return the median time of one commit of one short row, seconds.

    Args:
        folder: on the disk that is measured.
    """
    return statistics.median(islice(commit_times(folder / "bare.db"), COMMITS))


def commit_times(path: Path) -> Generator[float, None, None]:
    """Yield the times of commits of one short row each, made as they are asked for, seconds.

    Args:
        path: a file on the disk that is measured; it is made where it is not there.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (number INTEGER PRIMARY KEY, text TEXT)")
    try:
        for number in count():
            begun = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO t (text) VALUES (?)", (f"row {number}",))
            connection.execute("COMMIT")
            yield time.perf_counter() - begun
    finally:
        connection.close()
