"""What only a database server does to a ledger: upgrades at once, lost connections, rights, schemas, encodings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from pricing import load_catalog
from router.errors import LedgerError
from router.ledger import Ledger, open_ledger
from router.ledger.database import for_writing, make_engine, parse_url
from router.ledger.migrate import ADVISORY_LOCK, HEAD, VERSION_TABLE, upgrade
from router.ledger.prune import prune
from router.ledger.reader import instant_at
from router.ledger.records import Import, ImportedAttempt
from router.ledger.rows import DAY_US, rows_of
from router.ledger.statements import execute_rows
from router.ledger.tables import metadata
from tests.ledger.openings import open_at_once

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
ALL = (0, 2**62)
OWN_SCHEMA = "&options=-csearch_path%3Dfarebox"
Administer: TypeAlias = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def administer(postgres_url: str) -> Iterator[Administer]:
    """Return a function that runs a statement on the test's database as its superuser, and gives its rows."""
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection:

        def run(statement: str) -> list[tuple[Any, ...]]:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

        yield run


@pytest.fixture
def role(administer: Administer) -> Iterator[str]:
    """Give the name of a role that may log in and nothing else."""
    administer("CREATE ROLE visitor LOGIN")
    yield "visitor"
    administer("DROP OWNED BY visitor CASCADE")
    administer("DROP ROLE visitor")


def as_role(url: str, role: str) -> str:
    return url.replace("postgres:@", f"{role}:@")


def lose_connections(administer: Administer) -> None:
    """End every other session of the database, as a restarted server does."""
    end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
    administer(f"{end}WHERE datname = current_database() AND pid <> pg_backend_pid()")


def failure(act: Callable[[], object]) -> LedgerError:
    """Return the error of an act, which is one line and holds no secret."""
    with pytest.raises(LedgerError) as caught:
        act()
    assert "\n" not in str(caught.value)
    assert "secret" not in f"{caught.value}{caught.value.hint}"
    return caught.value


# ---- upgrades


def test_an_upgrade_waits_for_the_one_that_has_begun(postgres_url: str) -> None:
    engine = make_engine(parse_url(postgres_url))
    opened: list[str] = []

    def open_it() -> None:
        open_ledger(postgres_url).close()
        opened.append(HEAD)

    opening = threading.Thread(target=open_it)
    with engine.connect() as connection:
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK)))
        opening.start()
        _wait_for_a_waiter(connection)
        assert (opened, sa.inspect(engine).get_table_names()) == ([], [])
        connection.rollback()
    opening.join(60)
    assert opened == [HEAD]
    engine.dispose()


def test_sixteen_processes_open_the_same_fresh_database_at_once(postgres_url: str, administer: Administer) -> None:
    done = open_at_once(16, postgres_url)
    assert (done.stdout, done.stderr) == (f"{[0] * 16}\n", "")
    assert administer("SELECT version_num FROM router_version") == [(HEAD,)]


def test_the_migrations_make_the_tables_of_the_code(postgres_url: str, administer: Administer) -> None:
    engine = make_engine(parse_url(postgres_url))
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    administer("CREATE SCHEMA plain")
    plain = make_engine(parse_url(f"{postgres_url}&options=-csearch_path%3Dplain"))
    metadata.create_all(plain)
    # alembic compares no CHECK constraint; PostgreSQL tells the text of every constraint and index.
    constraints = (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint "
        "WHERE connamespace = '{}'::regnamespace AND conrelid::regclass::text NOT LIKE '%router_version' ORDER BY 1, 2"
    )
    made = {tuple(row) for row in administer(constraints.format("public"))}
    created = {(table.removeprefix("plain."), *rest) for table, *rest in administer(constraints.format("plain"))}
    assert {tuple(text.replace("plain.", "") for text in row) for row in created} == made
    for each in (engine, plain):
        each.dispose()


# ---- whose database it is


def test_a_database_with_tables_of_another_program_is_shared(postgres_url: str, administer: Administer) -> None:
    administer("CREATE TABLE orders (id int)")
    administer("INSERT INTO orders VALUES (7)")
    open_ledger(postgres_url).close()
    assert administer("SELECT id FROM orders") == [(7,)]


def test_a_table_of_the_same_name_is_left_alone_and_a_schema_of_its_own_is_the_way_out(
    postgres_url: str, administer: Administer, sample: Any
) -> None:
    administer("CREATE TABLE runs (mine text)")
    error = failure(lambda: open_ledger(postgres_url))
    assert str(error).endswith('cannot set up: relation "runs" already exists')
    assert error.hint == (
        "another program's table has that name; give the ledger a schema of its own: "
        "…?options=-csearch_path%3Dfarebox at the end of its URL"
    )
    assert administer("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("runs",)]
    error = failure(lambda: open_ledger(postgres_url + OWN_SCHEMA))
    assert str(error).endswith("cannot set up: no schema has been selected to create in")
    assert error.hint == "make the schema that search_path names: CREATE SCHEMA farebox"
    administer("CREATE SCHEMA farebox")
    for _ in range(2):  # the second time it is there
        with open_ledger(postgres_url + OWN_SCHEMA) as ledger:
            started = sample.started()
            ledger.write_now(started, sample.ended(started))
    with open_ledger(postgres_url + OWN_SCHEMA) as ledger:
        assert ledger.reader.usage_groups(*ALL)[0].sums["succeeded"] == 2
        assert ledger.verify(*ALL).found == 0
    assert administer("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == [("runs",)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(
    encoding: str, postgres_url: str, administer: Administer
) -> None:
    name = f"other_{encoding.lower()}"
    administer(f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    try:
        head, _, query = postgres_url.partition("?")
        error = failure(lambda: open_ledger(f"{head.rpartition('/')[0]}/{name}?{query}"))
        assert f"its encoding is {encoding}; UTF8 is needed" in str(error)
        assert "ENCODING 'UTF8'" in str(error.hint)
    finally:
        administer(f"DROP DATABASE {name} WITH (FORCE)")


def test_what_server_role_and_environment_have_set_makes_no_difference(
    postgres_url: str, administer: Administer, sample: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    name = administer("SELECT current_database()")[0][0]
    for setting in (
        "default_transaction_isolation = 'serializable'",
        "bytea_output = 'escape'",
        "timezone = 'Asia/Tokyo'",
    ):
        administer(f"ALTER DATABASE {name} SET {setting}")
    with open_ledger(postgres_url) as ledger:
        started = sample.started(model_asked="日本語モデル")
        ledger.write_now(started, sample.ended(started, latency_us=1_000, ttft_us=150))
        assert [group.key for group in ledger.reader.usage_groups(*ALL, ("model_asked",))] == [("日本語モデル",)]
        assert [len(group.counts) for group in ledger.reader.latency_histogram(*ALL)] == [1]
        with ledger._engine.connect() as connection:  # noqa: SLF001 - what its transactions are
            assert connection.execute(sa.text("SHOW transaction_isolation")).scalar() == "read committed"


# ---- rights


def test_a_role_that_may_not_create_tables_is_told_so(postgres_url: str, administer: Administer, role: str) -> None:
    administer("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    error = failure(lambda: open_ledger(as_role(postgres_url, role)))
    assert str(error).endswith("cannot set up: permission denied for schema public")
    assert str(error.hint).startswith("GRANT CREATE ON SCHEMA … TO the role, or give the ledger a schema of its own")
    assert administer("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == []


def test_a_role_that_may_only_read_gets_its_reports_from_the_raw_rows(
    postgres_url: str, administer: Administer, role: str, sample: Any
) -> None:
    with open_ledger(postgres_url) as ledger:
        started = [sample.started(role="worker"), sample.started()]
        ledger.write_now(*started, sample.ended(started[0], latency_us=7_000))
        administer(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
        with open_ledger(as_role(postgres_url, role)) as other:
            raw = {group.key: dict(group.sums) for group in other.reader.usage_groups(*ALL, ("role", "status"))}
            assert {key: sums["attempts"] for key, sums in raw.items()} == {
                ("worker", "succeeded"): 1,
                (None, "started"): 1,
            }
            assert len(other.reader.latency_histogram(*ALL)) == 1
            error = failure(lambda: other.reader.run_counts(*ALL))
            assert "its sums are not up to date, and it cannot be written" in str(error)
            error = failure(lambda: other.write_now(sample.started()))
            assert str(error).endswith("cannot write: permission denied for table attempts")
            assert error.hint == "grant the role the right, or name another role in ROUTER_DATABASE_URL"
            ledger.refresh()
            summed = {group.key: dict(group.sums) for group in other.reader.usage_groups(*ALL, ("role", "status"))}
            assert summed == raw
            assert other.reader.run_counts(*ALL) == {}


def test_a_session_that_only_reads_gets_its_reports_too(postgres_url: str, sample: Any) -> None:
    with open_ledger(postgres_url) as ledger:
        ledger.write_now(sample.started())
    with open_ledger(f"{postgres_url}&options=-cdefault_transaction_read_only%3Don") as ledger:
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 1


# ---- connections


def test_the_next_statement_after_lost_connections_is_as_if_nothing_had_been(
    postgres_url: str, administer: Administer, sample: Any
) -> None:
    with open_ledger(postgres_url) as ledger:
        ledger.write_now(sample.started())
        ledger.reader.usage_groups(*ALL)
        lose_connections(administer)
        ledger.write_now(sample.started())
        lose_connections(administer)
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 2


_READS: dict[str, Callable[[Ledger], object]] = {
    "usage": lambda ledger: ledger.reader.usage_groups(*ALL),
    "latency": lambda ledger: ledger.reader.latency_histogram(*ALL),
    "runs": lambda ledger: ledger.reader.run_counts(*ALL),
    "dearest": lambda ledger: ledger.reader.dearest_runs(*ALL),
    "months": lambda ledger: ledger.reader.months_present(),
    "rates": lambda ledger: ledger.reader.fx_rates(),
    "budgets": lambda ledger: ledger.reader.budgets(),
    "refresh": lambda ledger: ledger.refresh(),
    "rebuild": lambda ledger: ledger.rebuild(),
    "verify": lambda ledger: ledger.verify(*ALL),
    "prune": lambda ledger: ledger.prune_rows(OCTOBER_US + 3 * DAY_US, OCTOBER_US + 30 * DAY_US),
}
OTHER = "00000000-0000-7000-8000-000000000002"


def test_a_connection_lost_within_a_statement_is_one_line(
    postgres_url: str, administer: Administer, sample: Any
) -> None:
    with open_ledger(postgres_url) as ledger:
        ledger.write_now(sample.run(), sample.started())

        def lose(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if "rollup_marks" not in statement and "version" not in statement:
                lose_connections(administer)

        for name, act in _READS.items():
            sa.event.listen(ledger._engine, "before_cursor_execute", lose)  # noqa: SLF001 - at the worst moment
            try:
                error = failure(lambda act=act: act(ledger))  # type: ignore[misc]
            finally:
                sa.event.remove(ledger._engine, "before_cursor_execute", lose)  # noqa: SLF001
            assert "terminating connection due to administrator command" in str(error), name
        for act in _READS.values():
            act(ledger)


def test_a_connection_lost_before_rows_are_written_is_one_line(postgres_url: str, administer: Administer) -> None:
    rows = rows_of([Import(OTHER, "f", "n", "s", "m", "l", None, 0)])

    def lose_and_write(connection: sa.Connection) -> None:
        lose_connections(administer)
        execute_rows(connection, rows)

    with open_ledger(postgres_url) as ledger:
        ledger.write_now(Import(OTHER[:-1] + "0", "f", "n", "s", "m", "l", None, 0))
        error = failure(lambda: ledger.transact(lose_and_write))
        assert "cannot write: terminating connection due to administrator command" in str(error)
        assert ledger.transact(lambda connection: execute_rows(connection, rows)) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:secret@127.0.0.1:1/db", "u:***@127.0.0.1:1/db: cannot open: connection failed"),
        ("postgres://u@127.0.0.1:1/db?password=secret", "u@127.0.0.1:1/db: cannot open: connection failed"),
        ("postgresql://u@127.0.0.1:1/db?sslpassword=secret", "u@127.0.0.1:1/db: cannot open: connection failed"),
        ("postgresql://u:secret@no.such.host.invalid/db", "cannot open: failed to resolve host 'no.such.host.invalid'"),
        ("postgresql://u:p@secret/word@127.0.0.1:1/db", "what follows postgresql:// cannot be read"),
        ("postgresql://u:p@secret@127.0.0.1:1/db", "what follows postgresql:// cannot be read"),
    ],
)
def test_a_server_that_cannot_be_reached_is_one_line_without_a_secret(url: str, message: str) -> None:
    error = failure(lambda: open_ledger(url))
    assert message in str(error)
    assert error.hint


def test_a_database_that_is_not_there_is_one_line(postgres_url: str) -> None:
    error = failure(lambda: open_ledger(postgres_url.replace("/ledger_", "/nowhere_")))
    assert 'FATAL:  database "nowhere_' in str(error)
    assert str(error.hint).startswith("check ROUTER_DATABASE_URL")


# ---- several at once


def _wait_for_a_waiter(connection: sa.Connection) -> None:
    """Return once some session waits for a lock; fail after half a minute."""
    for _ in range(3_000):
        if connection.execute(sa.text("SELECT 1 FROM pg_locks WHERE NOT granted")).first():
            return
        time.sleep(0.01)
    pytest.fail("nobody waits for a lock")


def test_rows_that_may_be_there_are_written_in_one_order_whatever_they_came_in(postgres_ledger_url: str) -> None:
    """Immutable rows may come from every process at once; in one order, two of them never wait for each other."""
    catalog = load_catalog()
    at = instant_at(OCTOBER_US)
    found = (catalog.price_set(model, "vendor", at) for model in list(catalog.models("vendor"))[:5])
    sets = [each for each in found if each is not None]
    low, *_, high = sorted(sets, key=lambda each: each.id)
    insert = sa.text("INSERT INTO price_sets VALUES (:id, 'vendor', 'm', 'USD', '{}')")
    other = make_engine(parse_url(postgres_ledger_url))
    with open_ledger(postgres_ledger_url) as ledger:
        with other.connect() as connection:
            connection.execute(sa.text("SET lock_timeout = '5s'"))
            connection.execute(insert, {"id": low.id})
            writing = ledger._writer.submit(rows_of([high, low]))  # noqa: SLF001
            _wait_for_a_waiter(connection)
            connection.execute(insert, {"id": high.id})  # waits in vain if the writer has begun with it
            connection.rollback()
        writing.result(30)
        assert set(ledger.reader.price_sets([low.id, high.id])) == {low.id, high.id}
    other.dispose()


def test_rows_that_met_a_deadlock_are_written_again(postgres_ledger_url: str, sample: Any) -> None:
    """A transaction that PostgreSQL ends for another one's sake is tried again, not lost."""
    first, second = sample.started(), sample.started()
    with open_ledger(postgres_ledger_url) as ledger:
        ledger.write_now(first, second)
        other = make_engine(parse_url(postgres_ledger_url))
        with other.begin() as connection:
            connection.execute(sa.text("SET deadlock_timeout = '30s'"))  # so that the writer is the one to be ended
            touch = "UPDATE attempts SET queue_us = queue_us WHERE attempt_id = CAST(:id AS uuid)"
            connection.execute(sa.text(touch), {"id": second.attempt_id})
            waiting = ledger._writer.submit(rows_of([sample.ended(first), sample.ended(second)]))  # noqa: SLF001
            _wait_for_a_waiter(connection)
            connection.execute(sa.text(touch), {"id": first.attempt_id})
        waiting.result(30)
        other.dispose()
        assert ledger.reader.usage_groups(*ALL)[0].sums["succeeded"] == 2


@pytest.mark.parametrize("database", ["url", "postgres_ledger_url"])
def test_verify_finds_nothing_beside_a_writer(database: str, request: pytest.FixtureRequest, sample: Any) -> None:
    url = request.getfixturevalue(database)
    with open_ledger(url) as writing, open_ledger(url) as ledger:
        writing.write_now(sample.run(), *(sample.started() for _ in range(3)))
        ledger.refresh()
        seen: list[str] = []

        def write(_connection: object, _cursor: object, statement: str, *_: object) -> None:
            if seen or "price_sets" in statement:  # between any two statements of the check, which this one begins
                seen.append(statement)
                started = sample.started(started_us=OCTOBER_US + len(seen))
                writing.write_now(sample.run(), started)
                writing.write_now(sample.ended(started))

        sa.event.listen(ledger._engine, "before_cursor_execute", write)  # noqa: SLF001
        found = ledger.verify(*ALL)
        sa.event.remove(ledger._engine, "before_cursor_execute", write)  # noqa: SLF001
        assert len(seen) > 10
        assert found.findings == ()
        assert found.being_written == 1
        found = ledger.verify(*ALL)
        assert (found.findings, found.being_written, found.quarter_hours) == ((), 0, 1)


def test_a_row_committed_while_its_day_is_pruned_is_not_lost(postgres_ledger_url: str, sample: Any) -> None:
    taken = Import(OTHER, "f", "n", "s", "m", "l", None, 0)
    with open_ledger(postgres_ledger_url) as ledger:
        ledger.write_now(taken, sample.started())
        late = sample.started(number=1)
        rows = rows_of([ImportedAttempt(taken.import_id, late, sample.ended(late))])
        engine = make_engine(parse_url(postgres_ledger_url))
        pruning = make_engine(parse_url(postgres_ledger_url))
        committed = threading.Event()
        with for_writing(engine).connect() as connection:
            execute_rows(connection, rows)  # before the day was pruned, so it is not refused

            def commit(_connection: object, _cursor: object, statement: str, *_: object) -> None:
                if statement.startswith("DELETE FROM attempt_terms") and not committed.is_set():
                    connection.commit()
                    committed.set()

            sa.event.listen(pruning, "before_cursor_execute", commit)
            done: list[Any] = []
            thread = threading.Thread(
                target=lambda: done.append(prune(pruning, (OCTOBER_US // DAY_US) + 1, OCTOBER_US + 30 * DAY_US))
            )
            thread.start()
            thread.join(1)  # it waits for the import, or else it has passed the place where it would lose the row
            if not committed.is_set():
                committed.set()
                connection.commit()
            thread.join(30)
        assert done[0].attempts == 2
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 2
        assert ledger.verify(*ALL).found == 0
        for each in (engine, pruning):
            each.dispose()
