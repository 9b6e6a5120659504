"""A sample MCP server: questions to one SQLite database, which cannot be changed through it.

In: the path of a database file, as the one argument; MCP on standard input and output. Out: its tables, and the rows
of one SELECT a call. Invariant: nothing is written, whatever SQL is sent, because five doors are shut, each alone
enough for what it guards:

- the file is opened with `mode=ro`: SQLite itself refuses to write it;
- an authorizer lets a statement select, read and call harmless functions, and nothing else: no ATTACH, no PRAGMA;
- one statement is run a call; a second one is refused;
- a statement that takes too long is stopped, and so is one that makes a value too large;
- the rows that are returned, and the length of each value, have a cap.

Start: python sqlite_server.py shop.db
"""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

MOST_ROWS = 200
MOST_SECONDS = 5.0
MOST_VALUE_BYTES = 1_000_000
MOST_SHOWN_CHARACTERS = 2_000
INSTRUCTIONS_PER_LOOK = 10_000
"""How many of SQLite's own instructions pass between two looks at the clock."""

_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_FORBIDDEN_FUNCTIONS = {"edit", "fts3_tokenizer", "load_extension", "readfile", "writefile"}


class Rows(TypedDict):
    """What a query gives: names of columns, rows, and whether there were more rows than are shown."""

    columns: list[str]
    rows: list[list[Any]]
    has_more: bool


def serve(database: Path) -> MCPServer:
    """Return a server of one database file, which must be there."""
    server = MCPServer("sqlite-read-only")

    @server.tool()
    def list_tables() -> list[str]:
        """Return the SQL that made each table and view of the database."""
        query = "SELECT sql FROM sqlite_master WHERE type IN ('table', 'view') AND sql IS NOT NULL ORDER BY name"
        return [str(row[0]) for row in run(database, query)["rows"]]

    @server.tool()
    def query(sql: str, parameters: list[str | int | float | None] | None = None) -> Rows:
        """Run one SELECT statement of SQLite and return its first 200 rows; put values as ? and give parameters."""
        return run(database, sql, parameters or [])

    return server


def run(database: Path, sql: str, parameters: list[Any] | None = None) -> Rows:
    """Run one statement and return its rows.

    Args:
        database: the file.
        sql: one statement.
        parameters: values for its question marks.

    Raises:
        ToolError: the statement is not allowed, is wrong, or takes too long.
    """
    with closing(connected(database)) as connection:
        try:
            cursor = connection.execute(sql, parameters or [])
            found = cursor.fetchmany(MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise ToolError(_reason(error)) from None  # the words of another error would not be handed on
        columns = [column[0] for column in cursor.description or ()]
    rows = [[_shown(value) for value in row] for row in found[:MOST_ROWS]]
    return {"columns": columns, "rows": rows, "has_more": len(found) > MOST_ROWS}


def connected(database: Path) -> sqlite3.Connection:
    """Open the file for reading alone, with every limit set."""
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 100_000)
    connection.set_authorizer(_may)
    until_s = time.monotonic() + MOST_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > until_s, INSTRUCTIONS_PER_LOOK)
    return connection


def _may(action: int, _first: str | None, second: str | None, _database: str | None, _source: str | None) -> int:
    """Say whether a statement may do something: select, read, and call functions that touch nothing outside."""
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_DENY if (second or "").lower() in _FORBIDDEN_FUNCTIONS else sqlite3.SQLITE_OK
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _reason(error: Exception) -> str:
    words = str(error)
    if words == "interrupted":
        return f"the statement was stopped after {MOST_SECONDS:g} s"
    if words in ("not authorized", "authorization denied"):
        return "only SELECT is allowed"
    return words


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, str) and len(value) > MOST_SHOWN_CHARACTERS:
        return f"{value[:MOST_SHOWN_CHARACTERS]}… <{len(value)} characters>"
    return value


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python sqlite_server.py DATABASE: the path of a SQLite file that is there")
    serve(Path(sys.argv[1])).run()
