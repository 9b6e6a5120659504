"""How long the disk takes for one commit, so that times that hold commits can be told from the disk's own.

In: a folder. Out: seconds. Invariant: the commit is as durable as the ledger's: WAL, synchronous=FULL.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from pathlib import Path

COMMITS = 200


def bare_commit_s(folder: Path) -> float:
    """Return the median time of one commit of one short row, seconds.

    Args:
        folder: on the disk that is measured.
    """
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, text TEXT)")
    times = []
    for number in range(COMMITS):
        begun = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO t (text) VALUES (?)", (f"row {number}",))
        connection.execute("COMMIT")
        times.append(time.perf_counter() - begun)
    connection.close()
    return statistics.median(times)
