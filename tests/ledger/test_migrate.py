"""Migrations: the tables of the code, once, whoever else is upgrading; anything else is one clear line."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import alembic
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from router.errors import LedgerError
from router.ledger import open_ledger
from router.ledger.database import for_writing, make_engine, parse_url
from router.ledger.migrate import HEAD, REVISIONS, VERSION_TABLE, alembic_config, migrations_folder, upgrade
from router.ledger.tables import metadata
from tests.ledger.openings import open_at_once


def test_import_alembic_is_the_library_not_the_folder_of_migrations(project: Path) -> None:
    assert "site-packages" in str(alembic.__file__)
    assert not (project / "alembic" / "__init__.py").exists()


def test_the_known_revisions_are_alembics_own() -> None:
    with migrations_folder() as folder:
        scripts = ScriptDirectory.from_config(alembic_config(folder))
        assert scripts.get_current_head() == HEAD
        assert tuple(script.revision for script in reversed(list(scripts.walk_revisions()))) == REVISIONS


def test_the_migrations_make_the_tables_of_the_code(url: str) -> None:
    engine = make_engine(parse_url(url))
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        migrated = _definitions(connection)
    plain = sa.create_engine("sqlite://")
    metadata.create_all(plain)
    with plain.connect() as connection:
        created = _definitions(connection)
    engine.dispose()
    plain.dispose()
    # alembic does not compare CHECK constraints; this does.
    assert created == {name: table for name, table in migrated.items() if name != VERSION_TABLE}


def _definitions(connection: sa.Connection) -> dict[str, dict[str, set[str]]]:
    """Return what each table is made of, in any order: a column that was added later stands last in its table."""
    inspector = sa.inspect(connection)
    return {
        table: {
            "columns": {f"{each['name']} {each['type']} {each['nullable']}" for each in inspector.get_columns(table)},
            "checks": {f"{each['name']}: {each['sqltext']}" for each in inspector.get_check_constraints(table)},
            "keys": {
                f"{each['constrained_columns']} of {each['referred_table']} {each['referred_columns']}"
                for each in inspector.get_foreign_keys(table)
            },
            "unique": {str(each["column_names"]) for each in inspector.get_unique_constraints(table)},
            "indexes": {f"{each['name']} {each['column_names']}" for each in inspector.get_indexes(table)},
            "primary": {str(inspector.get_pk_constraint(table)["constrained_columns"])},
        }
        for table in inspector.get_table_names()
    }


def test_a_second_opening_does_not_load_alembic(url: str) -> None:
    open_ledger(url).close()
    code = f"import sys; from router.ledger import open_ledger; open_ledger({url!r}); print('alembic' in sys.modules)"
    assert _python(code).stdout == "False\n"


def test_eight_processes_open_the_same_fresh_file_at_once(url: str) -> None:
    done = open_at_once(8, url)
    assert (done.stdout, done.stderr) == (f"{[0] * 8}\n", "")


def test_an_upgrade_that_fails_leaves_nothing_behind(url: str) -> None:
    engine = make_engine(parse_url(url))
    with for_writing(engine).begin() as connection:
        connection.exec_driver_sql(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL)")
        connection.exec_driver_sql("CREATE TABLE attempts (mine TEXT)")  # the last table made: all others come before
    with pytest.raises(LedgerError, match="cannot set up: table attempts already exists"):
        upgrade(engine)
    assert sa.inspect(engine).get_table_names() == ["attempts", VERSION_TABLE]
    engine.dispose()


@pytest.mark.parametrize("made", ["CREATE TABLE attempts (mine TEXT)", "CREATE TABLE shop (mine TEXT)"])
def test_another_programs_database_is_refused_and_left_as_it_is(tmp_path: Path, made: str) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute(made)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(
        LedgerError, match=r"is another program's, with a table '(attempts|shop)'; nothing was"
    ) as caught:
        open_ledger(f"sqlite:///{path}")
    assert caught.value.hint == "set ROUTER_DATABASE_URL to a file of its own"
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["shop.db"]


def test_a_newer_database_is_refused_and_left_as_it_is(url: str) -> None:
    open_ledger(url).close()
    path = Path(url.removeprefix("sqlite:///"))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE router_version SET version_num = '0999'")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="revision '0999' is newer than this version of farebox") as caught:
        open_ledger(url)
    assert caught.value.hint is not None
    assert "upgrade farebox" in caught.value.hint
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("These are my notes, and no database.\n" * 100)
    with pytest.raises(LedgerError, match="the file is not a SQLite database"):
        open_ledger(f"sqlite:///{path}")
    assert path.read_text() == "These are my notes, and no database.\n" * 100


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ledger.db", "no scheme is not supported"),
        ("mysql://root:secret@host/db", "'mysql' is not supported; sqlite:///PATH and postgresql"),
        ("sqlite+aiosqlite:///x.db", r"'sqlite\+aiosqlite' is not supported"),
        ("sqlite://", "a SQLite ledger is a file"),
        ("sqlite:///~no-such-user/x.db", "'~no-such-user/x.db' has no home folder to begin in"),
        ("sqlite:///a\0b.db", "it holds a character that cannot be printed"),
        ("sqlite:///:memory:", "a SQLite ledger is a file"),
        ("sqlite://host/x.db", "a SQLite ledger is a file"),
        ("postgresql://user:secret@host:port/db", "what follows postgresql:// cannot be read"),
        ("sqlite:///{tmp}", "is a folder, a file is needed"),
        ("sqlite:///{tmp}/file/ledger.db", "its folder cannot be made"),
        ("sqlite:////proc/farebox/ledger.db", "its folder cannot be made"),
    ],
)
def test_a_wrong_url_is_one_line_with_a_hint_and_no_secret(url: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerError, match=message) as caught:
        open_ledger(url.format(tmp=tmp_path))
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    assert "secret" not in f"{caught.value!r}{caught.value.hint}{caught.value.__cause__!r}"


_AS_NOBODY = """
import os, sys
from router.errors import LedgerError
from router.ledger import open_ledger
open_ledger(sys.argv[1]).close()  # loads everything while it may
if os.geteuid() == 0:
    os.setuid(65534)  # the superuser may write anywhere
try:
    open_ledger("sqlite:////usr/share/farebox-test.db")
except LedgerError as error:
    print(error, "|", error.hint)
"""


def test_a_folder_that_cannot_be_written_is_one_line_with_a_hint(url: str) -> None:
    done = _python(_AS_NOBODY, url)
    assert done.stdout.startswith(
        "database /usr/share/farebox-test.db: cannot open: unable to open database file | check the permissions"
    )


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
