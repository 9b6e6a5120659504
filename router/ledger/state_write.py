"""Writes agents' state: values by compare-and-set, snapshots, restores.

In: rows of `router.ledger.rows`, names. Out: new versions. Invariant: a namespace's versions only grow, under the lock
of its row: of two that expect one version, one is told that it is stale, and nothing of its is written. A version is
never given twice, not even to a key that was deleted in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from router.ledger.driver import fetch, insert_if_absent, insert_into, once_for_each, prepare, prepare_named, run
from router.ledger.message_records import ANY, Changed, SnapshotRow
from router.ledger.message_tables import state, state_snapshot_entries, state_snapshots, state_spaces
from router.ledger.message_write import Written, named

_SPACE_COLUMNS = tuple(column.name for column in state_spaces.columns)
_VALUE_COLUMNS = tuple(column.name for column in state.columns)


class _Statements:
    """What is run, in the words of one database."""

    def __init__(self, dialect: sa.Dialect) -> None:
        namespace = named("namespace")
        of_space = state_spaces.c.namespace == namespace
        of_key = (state.c.namespace == namespace, state.c.key == named("key"))
        self.lock = prepare_named(sa.select(state_spaces.c.last_version).where(of_space).with_for_update(), dialect)
        self.make = prepare(insert_if_absent(dialect.name, state_spaces), dialect, _SPACE_COLUMNS)
        self.find = prepare_named(sa.select(state.c.version).where(*of_key), dialect)
        insert = insert_into(dialect.name, state)
        new = {name: getattr(insert.excluded, name) for name in ("version", "value", "changed_us")}
        upsert = insert.on_conflict_do_update(index_elements=list(state.primary_key), set_=new)
        self.put = prepare(upsert, dialect, _VALUE_COLUMNS)
        self.delete = prepare_named(sa.delete(state).where(*of_key), dialect)
        last = named("last")
        self.count = prepare_named(sa.update(state_spaces).where(of_space).values(last_version=last), dialect)


_statements = once_for_each(_Statements)


def change(connection: sa.Connection, rows: Sequence[Written]) -> int:
    """Write values whose expected version is the one on record; return how many were. Each slip says what came of it.

    Args:
        connection: in a transaction.
        rows: as `router.ledger.rows` makes them; those of one namespace are written in their order.
    """
    by_space: defaultdict[str, list[Written]] = defaultdict(list)
    for row in rows:
        by_space[row["namespace"]].append(row)
    return sum(_change(connection, namespace, by_space[namespace]) for namespace in sorted(by_space))


def _change(connection: sa.Connection, namespace: str, rows: Sequence[Written]) -> int:
    statements = _statements(connection)
    is_made = any(row["value"] is not None and row["expected"] in (ANY, None) for row in rows)
    known = _lock(connection, namespace, rows[0]) if is_made else _locked(connection, namespace)
    last = first = known or 0
    for row in rows:
        found = fetch(connection, statements.find, row)
        version = int(found[0][0]) if found else None
        changed: Changed = row["changed"]
        changed.version, is_deleted = version, row["value"] is None
        changed.is_changed = row["expected"] in (ANY, version) and not (is_deleted and version is None)
        if not changed.is_changed:
            continue
        last += 1
        changed.version = None if is_deleted else last
        if is_deleted:
            run(connection, statements.delete, [row])
        else:
            run(connection, statements.put, [{**{name: row.get(name) for name in _VALUE_COLUMNS}, "version": last}])
    if last > first:
        run(connection, statements.count, [{"namespace": namespace, "last": last}])
    return last - first


def _lock(connection: sa.Connection, namespace: str, row: Written) -> int:
    """Make a namespace where there is none, keep others from it until the commit, and return its last version."""
    made = {"namespace": namespace, "last_version": 0, "run_id": row["run_id"], "expires_us": row["expires_us"]}
    while (last := _locked(connection, namespace)) is None:  # mostly once: it may be deleted as it is made
        run(connection, _statements(connection).make, [made])
    return last


def _locked(connection: sa.Connection, namespace: str) -> int | None:
    """Keep others from a namespace until the commit, and return its last version; None: there is none."""
    found = fetch(connection, _statements(connection).lock, {"namespace": namespace})
    return int(found[0][0]) if found else None


def take_snapshot(connection: sa.Connection, namespace: str, name: str, made: Written) -> SnapshotRow | None:
    """Copy a namespace as it is at one instant, under a name; return None where the name is taken.

    Args:
        connection: in a transaction of its own.
        namespace: which.
        name: of the snapshot.
        made: `run_id` and `expires_us` of a namespace that is not there yet, and the instant, `changed_us`.
    """
    version = _lock(connection, namespace, made)
    if _snapshot(connection, namespace, name) is not None:
        return None
    head = {"namespace": namespace, "name": name, "version": version, "taken_us": made["changed_us"]}
    connection.execute(sa.insert(state_snapshots), head)
    names = ("namespace", "name", "key", "version", "value")
    values = sa.select(state.c.namespace, sa.literal(name), state.c.key, state.c.version, state.c.value)
    copied = sa.insert(state_snapshot_entries).from_select(names, values.where(state.c.namespace == namespace))
    keys = connection.execute(copied.execution_options(preserve_rowcount=True)).rowcount
    return SnapshotRow(namespace, name, version, made["changed_us"], keys)


def _snapshot(connection: sa.Connection, namespace: str, name: str) -> sa.RowMapping | None:
    of_name = (state_snapshots.c.namespace == namespace, state_snapshots.c.name == name)
    return connection.execute(sa.select(state_snapshots).where(*of_name)).mappings().one_or_none()


def restore_snapshot(connection: sa.Connection, namespace: str, name: str, made: Written) -> int | None:
    """Put a namespace back to a snapshot of it, with a new version; return it, or None: there is no such snapshot.

    Args:
        connection: in a transaction of its own.
        namespace: which.
        name: of the snapshot.
        made: as for `take_snapshot`.
    """
    last = _locked(connection, namespace)
    if last is None or _snapshot(connection, namespace, name) is None:
        return None
    version = last + 1
    connection.execute(sa.delete(state).where(state.c.namespace == namespace))
    entries = state_snapshot_entries
    fixed = (sa.literal(version, sa.BigInteger), sa.literal(made["changed_us"], sa.BigInteger))
    values = sa.select(entries.c.namespace, entries.c.key, entries.c.value, *fixed)
    values = values.where(entries.c.namespace == namespace, entries.c.name == name)
    names = ("namespace", "key", "value", "version", "changed_us")
    connection.execute(sa.insert(state).from_select(names, values))
    of_space = state_spaces.c.namespace == namespace
    connection.execute(sa.update(state_spaces).where(of_space).values(last_version=version))
    return version


def drop_snapshot(connection: sa.Connection, namespace: str, name: str) -> bool:
    """Delete a snapshot; return whether there was one."""
    entries, table = state_snapshot_entries, state_snapshots
    connection.execute(sa.delete(entries).where(entries.c.namespace == namespace, entries.c.name == name))
    deleted = connection.execute(sa.delete(table).where(table.c.namespace == namespace, table.c.name == name))
    return deleted.rowcount > 0
