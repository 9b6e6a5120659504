"""State that agents share: values with versions, changed by compare-and-set, and snapshots of them.

In: keys, JSON values, the version that was read. Out: the new version. Invariant: no change is lost: who writes says
which version it has seen, and is refused where another one is on record. Versions of a namespace only grow, and none is
given twice, so a key that was deleted and made again is never taken for the old one.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from router.errors import RouterError, StaleVersion, WrongUsage, unknown_name
from router.ledger import Ledger
from router.ledger.message_records import ANY, Changed, Expected, SnapshotRow, StateChanged, ValueRow
from router.ledger.records import ANSWER_KEPT_US
from router.ledger.state_write import drop_snapshot, restore_snapshot, take_snapshot
from router.messages.names import MOST_KEY_CHARS, MOST_VALUE_BYTES, checked_name, json_text, run_of

DEFAULT_NAMESPACE: Final = "shared"
UPDATE_TRIES: Final = 100
_PAUSE_S: Final = 0.002


class Entry(NamedTuple):
    """A value and its version: a whole number that grows with every change of its namespace."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A namespace as it was at one instant.

    Args:
        name: its name.
        version: the namespace's version then.
        taken_us: when, microseconds since 1970 UTC.
        keys: how many keys there were.
    """

    name: str
    version: int
    taken_us: int
    keys: int


class State:
    """The values of one namespace; `of` gives another one's. `Board.state` is that of `shared`.

    Args:
        ledger: where they are.
        namespace: which; one that begins with `run/` and a run's id is deleted with that run's answers.

    Raises:
        WrongUsage: the namespace's name is not allowed.
    """

    def __init__(self, ledger: Ledger, namespace: str = DEFAULT_NAMESPACE) -> None:
        self.namespace: Final = checked_name("namespace", namespace)
        self._ledger = ledger
        self._run_id = run_of("namespace", namespace)

    def __repr__(self) -> str:
        return f"State({self.namespace!r})"

    def of(self, namespace: str) -> State:
        """Return the state of another namespace, for instance of one agent or of one run."""
        return State(self._ledger, namespace)

    async def get(self, key: str) -> Entry | None:
        """Return a key's value and version, or None.

        Raises:
            WrongUsage: the key is not allowed.
            LedgerError: the database cannot be read.
        """
        row = await asyncio.to_thread(self._ledger.messages.value, self.namespace, _checked_key(key))
        return None if row is None else _entry(row)

    async def put(self, key: str, value: Any, version: Expected = None) -> int:
        """Write a value, if nobody else has meanwhile; return its version once it is committed.

        Args:
            key: 1 to 500 characters that can be printed.
            value: any JSON value, at most 1 MiB of it.
            version: the one that was read; None: the key must have no value yet; "any": whatever it has, it is lost.

        Raises:
            StaleVersion: another version is on record; nothing was written.
            WrongUsage: the key, the value or the version is not allowed.
            LedgerError: the database cannot be written.
        """
        text = json_text(f"key {key!r}: value", value, MOST_VALUE_BYTES)
        return (await self._change(key, text, version)).version or 0

    async def delete(self, key: str, version: int | str = ANY) -> bool:
        """Delete a key, if nobody else has changed it meanwhile; return whether it had a value.

        Args:
            key: which.
            version: the one that was read; "any": whatever it has.

        Raises:
            StaleVersion: another version is on record; nothing was deleted.
            WrongUsage: the key or the version is not allowed.
            LedgerError: the database cannot be written.
        """
        if version is None:
            raise WrongUsage(f"key {key!r}: version None is not allowed to delete; a version or {ANY!r} is")
        return (await self._change(key, None, version)).is_changed

    async def update(self, key: str, change: Callable[[Any], Any]) -> Entry:
        """Read a value, change it, and write it, again where somebody else came first; return what is on record.

        Args:
            key: which.
            change: makes the new value of the old one, None where there is none; it may be called more than once.

        Raises:
            RouterError: others came first a hundred times.
            WrongUsage: the key or the new value is not allowed.
            LedgerError: the database cannot be read or written.
        """
        for _ in range(UPDATE_TRIES):
            entry = await self.get(key)
            value, version = (None, None) if entry is None else entry
            new = change(value)
            try:
                return Entry(new, await self.put(key, new, version))
            except StaleVersion:
                await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - so that two do not meet again
        raise RouterError(
            f"key {key!r}: others have changed it first {UPDATE_TRIES} times", hint="change it less often"
        )

    async def _change(self, key: str, text: str | None, version: Any) -> Changed:
        _checked_key(key)
        if not (version is None or version == ANY or (type(version) is int and version >= 1)):
            message = f"key {key!r}: version {version!r} is not allowed; one that was read, None or {ANY!r} is"
            raise WrongUsage(message, hint="await state.get(key) gives value and version")
        changed = Changed()
        now_us = _now_us()
        of_run = (self._run_id, self._expires_us(now_us))
        await self._ledger.write(StateChanged(self.namespace, key, text, version, now_us, changed, *of_run))
        if not changed.is_changed and version != ANY:
            raise self._stale(key, version, changed.version)
        return changed

    def _stale(self, key: str, given: int | None, on_record: int | None) -> StaleVersion:
        shown = "none (the key must be new)" if given is None else str(given)
        there = "there is no value" if on_record is None else f"{on_record} is on record"
        message = f"state {self.namespace!r}: key {key!r}: version {shown} was given; {there}; nothing was written"
        return StaleVersion(message, on_record, hint="get it, and put with the version that it has")

    async def keys(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys that begin with a prefix, in their order.

        Raises:
            LedgerError: the database cannot be read.
        """
        return tuple(await self.items(prefix))

    async def items(self, prefix: str = "", snapshot: str | None = None) -> dict[str, Entry]:
        """Return values and versions at one instant, by key, in the order of the keys.

        Args:
            prefix: what the keys begin with.
            snapshot: as they were in a snapshot; None: as they are.

        Raises:
            WrongUsage: there is no such snapshot.
            LedgerError: the database cannot be read.
        """
        if snapshot is not None and snapshot not in (names := [each.name for each in await self.snapshots()]):
            raise unknown_name("snapshot", snapshot, names)
        rows = await asyncio.to_thread(self._ledger.messages.values, self.namespace, prefix, snapshot)
        return {row.key: _entry(row) for row in rows}

    async def snapshot(self, name: str) -> Snapshot:
        """Keep all values as they are at this instant, under a name; return it once that is committed.

        Raises:
            WrongUsage: the name is taken, or not allowed.
            LedgerError: the database cannot be written.
        """
        checked_name("snapshot", name)
        row = await self._job(take_snapshot, name)
        if row is None:
            message = f"snapshot {name!r}: namespace {self.namespace!r} has one of that name already"
            raise WrongUsage(message, hint="choose another name, or drop_snapshot first")
        return _snapshot(row)

    async def restore(self, name: str) -> int:
        """Put all values back to a snapshot; return their version, which is a new one: what was read before is stale.

        Raises:
            WrongUsage: there is no such snapshot.
            LedgerError: the database cannot be written.
        """
        version: int | None = await self._job(restore_snapshot, name)
        if version is None:
            raise unknown_name("snapshot", name, [each.name for each in await self.snapshots()])
        return version

    async def snapshots(self) -> tuple[Snapshot, ...]:
        """Return the snapshots, the oldest first.

        Raises:
            LedgerError: the database cannot be read.
        """
        rows = await asyncio.to_thread(self._ledger.messages.snapshots, self.namespace)
        return tuple(map(_snapshot, rows))

    async def drop_snapshot(self, name: str) -> bool:
        """Delete a snapshot; return whether there was one.

        Raises:
            LedgerError: the database cannot be written.
        """
        dropping: Future[bool] = self._ledger.begin(lambda connection: drop_snapshot(connection, self.namespace, name))
        return await asyncio.wrap_future(dropping)

    def _expires_us(self, now_us: int) -> int | None:
        """When a namespace that is made now may be deleted, microseconds since 1970 UTC; None: never."""
        return now_us + ANSWER_KEPT_US if self._run_id else None

    async def _job(self, act: Callable[..., Any], name: str) -> Any:
        now_us = _now_us()
        made = {"run_id": self._run_id, "expires_us": self._expires_us(now_us), "changed_us": now_us}
        return await asyncio.wrap_future(
            self._ledger.begin(lambda connection: act(connection, self.namespace, name, made))
        )


def _checked_key(key: str) -> str:
    return checked_name("key", key, MOST_KEY_CHARS)


def _now_us() -> int:
    return time.time_ns() // 1000


def _entry(row: ValueRow) -> Entry:
    return Entry(json.loads(row.value), row.version)


def _snapshot(row: SnapshotRow) -> Snapshot:
    return Snapshot(row.name, row.version, row.taken_us, row.keys)
