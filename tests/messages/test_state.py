"""State: compare-and-set, versions that only grow, snapshots; on each database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from router.errors import StaleVersion, WrongUsage
from router.ledger import Ledger
from router.messages import Board, State
from router.messages.names import MOST_KEY_CHARS, MOST_VALUE_BYTES


@pytest.fixture
def state(board: Board, topic: str) -> State:
    """Return the state of a namespace that no other test uses."""
    return board.state.of(topic)


async def test_a_value_is_changed_by_who_has_seen_the_last_one(state: State) -> None:
    assert await state.get("k") is None
    version = await state.put("k", {"a": [1, "☂"]})
    assert await state.get("k") == ({"a": [1, "☂"]}, version)
    newer = await state.put("k", None, version)
    assert newer > version
    assert await state.get("k") == (None, newer)
    with pytest.raises(StaleVersion, match=rf"key 'k': version {version} was given; {newer} is on record") as caught:
        await state.put("k", 2, version)
    assert caught.value.version == newer
    with pytest.raises(StaleVersion, match=rf"version none \(the key must be new\) was given; {newer} is on record"):
        await state.put("k", 2)
    with pytest.raises(StaleVersion, match=r"key 'other': version 7 was given; there is no value; nothing was written"):
        await state.put("other", 2, 7)
    assert await state.get("k") == (None, newer)
    assert await state.put("k", 3, "any") > newer


async def test_a_key_that_was_deleted_and_made_again_is_not_taken_for_the_old_one(state: State) -> None:
    version = await state.put("k", 1)
    with pytest.raises(StaleVersion):
        await state.delete("k", version + 1)
    assert await state.delete("k", version)
    assert not await state.delete("k")
    assert await state.put("k", 1) > version
    with pytest.raises(StaleVersion):
        await state.put("k", 2, version)


async def test_tasks_that_add_at_once_lose_no_addition(state: State) -> None:
    await asyncio.gather(*(state.update("n", lambda value: (value or 0) + 1) for _ in range(12)))
    assert await state.get("n") == (12, 12)


async def test_a_stale_write_harms_none_that_is_committed_with_it(state: State) -> None:
    version = await state.put("k", 0)
    done = await asyncio.gather(*(state.put("k", number, version) for number in range(6)), return_exceptions=True)
    won = [number for number, each in enumerate(done) if not isinstance(each, BaseException)]
    assert len(won) == 1
    assert {type(each) for number, each in enumerate(done) if number not in won} == {StaleVersion}
    assert await state.get("k") == (won[0], version + 1)


async def test_the_longest_key_that_may_be_written_may_be_read(state: State) -> None:
    key = "k" * MOST_KEY_CHARS
    await state.put(key, 1)
    assert (await state.update(key, lambda value: value + 1)).value == 2
    with pytest.raises(WrongUsage, match="1 to 500 characters"):
        await state.get(f"{key}k")


async def test_keys_of_a_namespace_by_prefix(state: State, board: Board) -> None:
    for key in ("b/2", "a/1", "b/1", "b%"):
        await state.put(key, key)
    await board.state.of(f"{state.namespace} other").put("b/3", 1)
    assert await state.keys() == ("a/1", "b%", "b/1", "b/2")
    assert await state.keys("b/") == ("b/1", "b/2")
    assert await state.keys("b%") == ("b%",)
    assert {key: entry.value for key, entry in (await state.items("a")).items()} == {"a/1": "a/1"}


async def test_a_snapshot_is_of_one_instant_and_a_restore_makes_what_was_read_stale(state: State) -> None:
    await state.put("a", 1)
    await state.put("b", 2)
    taken = await state.snapshot("before")
    assert (taken.name, taken.version, taken.keys) == ("before", 2, 2)
    await state.delete("a")
    version = await state.put("b", 3, 2)
    await state.put("c", 4)
    assert {key: entry.value for key, entry in (await state.items(snapshot="before")).items()} == {"a": 1, "b": 2}
    restored = await state.restore("before")
    assert restored == 6  # two values, a snapshot at 2, three changes, and this
    assert await state.items() == {"a": (1, 6), "b": (2, 6)}
    with pytest.raises(StaleVersion):
        await state.put("b", 5, version)
    assert [each.name for each in await state.snapshots()] == ["before"]
    with pytest.raises(WrongUsage, match=r"snapshot 'before': namespace .* has one of that name already"):
        await state.snapshot("before")
    with pytest.raises(WrongUsage, match=r"snapshot: 'befor' does not exist; did you mean before\?"):
        await state.restore("befor")
    assert await state.drop_snapshot("before")
    assert not await state.drop_snapshot("before")


async def test_what_changes_nothing_makes_no_namespace(state: State, ledger: Ledger) -> None:
    with pytest.raises(WrongUsage, match=r"snapshot: 'before' does not exist"):
        await state.restore("before")
    assert not await state.delete("k")
    with pytest.raises(StaleVersion, match=r"version 1 was given; there is no value; nothing was written"):
        await state.put("k", 1, 1)
    assert not await state.drop_snapshot("before")
    assert state.namespace not in ledger.messages.namespaces()

    deleted, made = await asyncio.gather(state.delete("k"), state.put("k", 1))  # in one transaction, or in two
    assert (deleted, made) == (False, 1)
    assert state.namespace in ledger.messages.namespaces()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda state: state.get(""), r"key: '' is not allowed"),
        (lambda state: state.put("a\tb", 1), r"key: 'a\\tb' is not allowed"),
        (lambda state: state.put("k", {1, 2}), r"key 'k': value: cannot be written as JSON"),
        (
            lambda state: state.put("k", "x" * MOST_VALUE_BYTES),
            r"1,048,578 bytes of JSON; at most 1,048,576 are allowed",
        ),
        (lambda state: state.put("k", 1, 0), r"version 0 is not allowed; one that was read, None or 'any' is"),
        (lambda state: state.put("k", 1, True), r"version True is not allowed"),
        (lambda state: state.delete("k", None), r"version None is not allowed to delete"),
    ],
)
async def test_what_is_wrong_is_one_line(act: Callable[[State], Any], message: str, sqlite_ledger: Ledger) -> None:
    with pytest.raises(WrongUsage, match=message):
        await act(State(sqlite_ledger))


def test_a_namespace_of_a_run_needs_its_id(sqlite_ledger: Ledger) -> None:
    with pytest.raises(WrongUsage, match=r"namespace: 'run/x' is not allowed: run/ is for runs"):
        State(sqlite_ledger, "run/x")
