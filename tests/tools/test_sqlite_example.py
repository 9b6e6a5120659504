"""The sample server: it answers SELECTs, and nothing that is sent to it changes a byte of the database."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError

EXAMPLES = Path(__file__).parent.parent.parent / "docs" / "examples"
ATTACKS = (
    "DELETE FROM sale",
    "UPDATE sale SET amount = 0",
    "INSERT INTO sale VALUES ('x', 'y', 1)",
    "DROP TABLE sale",
    "CREATE TABLE mine (x)",
    "CREATE TEMP TABLE mine AS SELECT * FROM sale",
    "ALTER TABLE sale RENAME TO gone",
    "SELECT 1; DELETE FROM sale",
    "SELECT 1; --\nDROP TABLE sale",
    "WITH x AS (SELECT 1) DELETE FROM sale",
    "WITH x AS (SELECT 1) INSERT INTO sale SELECT 'a', 'b', 1 FROM x",
    "DELETE FROM sale RETURNING *",
    "REPLACE INTO sale VALUES ('tea', '2026-03', 0)",
    "ATTACH DATABASE 'other.db' AS other",
    "ATTACH DATABASE ':memory:' AS other",
    "VACUUM INTO 'copy.db'",
    "VACUUM",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "SELECT load_extension('evil')",
    "SELECT writefile('evil', 'x')",
    "BEGIN IMMEDIATE",
    "ANALYZE",
    "EXPLAIN DELETE FROM sale",
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sale (product TEXT, month TEXT, amount INTEGER)")
        connection.executemany(
            "INSERT INTO sale VALUES (?, ?, ?)", [("tea", "2026-03", 40), ("rum", "2026-03", 95), ("tea", "2026-04", 7)]
        )
        connection.commit()
    return path


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sqlite_server", EXAMPLES / "sqlite_server.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def state(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def test_it_answers_a_select(example: ModuleType, database: Path) -> None:
    found = example.run(database, "SELECT product, amount FROM sale WHERE month = ? ORDER BY amount", ["2026-03"])
    assert found == {"columns": ["product", "amount"], "rows": [["tea", 40], ["rum", 95]], "has_more": False}


@pytest.mark.parametrize("sql", ATTACKS)
def test_nothing_changes_the_database(example: ModuleType, database: Path, sql: str) -> None:
    before = state(database.parent)
    with pytest.raises(ToolError, match=r"only SELECT|one statement|not authorized|no such|readonly|prohibited"):
        example.run(database, sql)
    assert state(database.parent) == before
    assert example.run(database, "SELECT count(*) FROM sale")["rows"] == [[3]]


@pytest.mark.parametrize("shut", ["mode=ro", "authorizer", "query_only"])
def test_each_door_holds_alone(example: ModuleType, database: Path, shut: str) -> None:
    """Two of the three doors are opened: the one that is left still keeps a DELETE out."""
    connection = example.connected(database)
    if shut != "mode=ro":
        connection.close()
        connection = sqlite3.connect(database)
    if shut == "query_only":
        connection.execute("PRAGMA query_only = ON")
    if shut == "authorizer":
        connection.set_authorizer(example._may)  # noqa: SLF001 — the door itself
    elif shut == "mode=ro":
        connection.set_authorizer(None)
        connection.execute("PRAGMA query_only = OFF")
    with closing(connection), pytest.raises(sqlite3.DatabaseError, match=r"readonly|not authorized|attempt to write"):
        connection.execute("DELETE FROM sale")
    assert example.run(database, "SELECT count(*) FROM sale")["rows"] == [[3]]


def test_rows_values_and_time_have_caps(example: ModuleType, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
    many = example.run(database, endless + "i FROM n")
    assert len(many["rows"]) == example.MOST_ROWS == 200
    assert many["has_more"] is True
    with pytest.raises(ToolError, match="too big"):
        example.run(database, "SELECT length(zeroblob(1000000000))")
    long = example.run(database, "SELECT hex(zeroblob(100000)), zeroblob(10)")
    assert [len(long["rows"][0][0]) < 2100, long["rows"][0][1]] == [True, "<10 bytes>"]
    monkeypatch.setattr(example, "MOST_SECONDS", 0.2)
    begun_s = time.monotonic()
    with pytest.raises(ToolError, match=r"stopped after 0\.2 s"):
        example.run(database, endless + "count(*) FROM n")
    assert time.monotonic() - begun_s < 5


async def test_a_model_s_tools_reach_it_over_mcp(talk: Callable[..., Awaitable[Any]], database: Path) -> None:
    server = {
        "command": sys.executable,
        "args": [str(EXAMPLES / "sqlite_server.py"), str(database)],
        "allow": ["list_tables", "query"],
        "idempotent": ["list_tables", "query"],
    }
    made = await talk({"shop": server})
    select = {"sql": "SELECT amount FROM sale WHERE product = ?", "parameters": ["rum"]}
    orders = [
        f"Call tool shop__query with {json.dumps(select)}",
        'Call tool shop__query with {"sql": "DELETE FROM sale"}',
        "Call tool shop__list_tables with {}",
    ]
    ended = await made.converse("\n".join(orders), "shop__*")
    told = [message["content"] for message in ended.messages if message["role"] == "tool"]
    assert json.loads(told[0]) == {"columns": ["amount"], "rows": [[95]], "has_more": False}
    assert told[1].startswith("[tool error]")
    assert "only SELECT is allowed" in told[1]
    assert "CREATE TABLE sale" in told[2]
