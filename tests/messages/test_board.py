"""Topics: one order for all, cursors that remember, filters, priorities, fan-in, replies, wake-up; on each database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from router.errors import CursorTaken, MessageTimeout, RouterError, WrongUsage
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.bell import LOOK_S
from router.ledger.database import make_engine, parse_url
from router.ledger.message_records import Changed, MessagePublished, Placed, StateChanged
from router.ledger.records import ANSWER_KEPT_US, RunEnded, RunStarted
from router.ledger.rows import rows_of
from router.ledger.statements import execute_rows
from router.messages import Board, Draft, Subscription
from router.messages.lane import MOST_OPEN
from router.messages.names import MOST_BODY_BYTES
from tests.new_ledger import new_ledger


async def bodies(subscription: Subscription, count: int) -> list[Any]:
    """Return the bodies of the next messages."""
    found: list[Any] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += [each.body for each in await subscription.take(count - len(found))]
    return found


def nested(levels: int) -> Any:
    """Return lists within one another, so many."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_a_message_is_on_record_as_it_was_said(board: Board, topic: str) -> None:
    said = await board.publish(
        topic, {"é": [1, None, "\x00☂"]}, sender="a", headers={"kind": "x"}, priority=3, reply_to="back", key="k"
    )
    async with board.subscribe(topic, "s") as subscription:
        (read,) = await subscription.take()
    assert (read.topic, read.seq, read.body) == (topic, 1, {"é": [1, None, "\x00☂"]})
    assert (read.sender, dict(read.headers), read.priority, read.reply_to, read.key) == (
        "a",
        {"kind": "x"},
        3,
        "back",
        "k",
    )
    assert read == said


async def test_any_number_may_be_asked_for_and_what_may_be_nested_is_read(board: Board, topic: str) -> None:
    await board.publish(topic, nested(100))
    async with asyncio.timeout(10), board.subscribe(topic) as subscription:
        (read,) = await subscription.take(10**15)  # it is handed what is there, and counts no further
    assert read.body == nested(100)


async def test_numbers_have_no_gaps_and_a_key_is_published_once(board: Board, topic: str) -> None:
    first = await board.publish(topic, 1, key="a")
    many = await board.publish_many(
        [Draft(topic, 2), Draft(topic, 3, key="a"), Draft(topic, 4, key="b"), Draft(topic, 5, key="b")]
    )
    again = await board.publish(topic, 6, key="b")
    # 1, 2 and 4 are written; what has their key is what they are.
    assert [each.seq for each in (first, *many, again)] == [1, 2, 1, 3, 3, 3]
    assert [each.body for each in (*many, again)] == [2, 1, 4, 4, 4]
    assert many[1].id == first.id
    assert (await board.publish(topic, 7)).seq == 4


async def test_all_or_nothing(board: Board, topic: str) -> None:
    with pytest.raises(WrongUsage, match=r"body: cannot be written as JSON: Out of range float"):
        await board.publish_many([Draft(topic, 1), Draft(topic, float("nan"))])
    assert (await board.publish(topic, 2)).seq == 1


async def test_each_subscriber_has_a_cursor_that_remembers(board: Board, topic: str) -> None:
    await board.publish_many([Draft(topic, number) for number in range(4)])
    async with board.subscribe(topic, "a") as one, board.subscribe(topic, "b") as other:
        taken = await one.take()
        assert [each.body for each in taken] == [0, 1, 2, 3]
        await one.ack(taken[0], taken[2])
        await taken[2].ack()  # again: it changes nothing
        assert await bodies(other, 4) == [0, 1, 2, 3]
    async with board.subscribe(topic, "a") as one:  # 1 and 3 were not acknowledged
        assert await bodies(one, 2) == [1, 3]
        assert await one.take(timeout_s=0) == ()
    async with board.subscribe(topic, "b") as other:
        assert await bodies(other, 4) == [0, 1, 2, 3]
    async with board.subscribe(topic, "late", from_start=False) as late:
        await board.publish(topic, 4)
        assert await bodies(late, 1) == [4]
    async with board.subscribe(topic) as nobody:
        assert await bodies(nobody, 5) == [0, 1, 2, 3, 4]


async def test_the_later_one_of_two_subscriptions_has_the_cursor(board: Board, topic: str) -> None:
    await board.publish_many([Draft(topic, number) for number in range(2)])
    earlier, later = board.subscribe(topic, "s"), board.subscribe(topic, "s")
    (message, _) = await earlier.take()
    assert await bodies(later, 1) == [0]
    with pytest.raises(CursorTaken, match=r"subscriber 's': another subscription has taken its cursor on 'test_the"):
        await message.ack()
    assert len(await board.subscribe(topic, "s").take()) == 2  # nothing was acknowledged


async def test_higher_priorities_overtake_what_waits(board: Board, topic: str) -> None:
    drafts = [
        Draft(topic, number, priority=9 if number == 290 else 2 if number % 100 == 0 else 0) for number in range(300)
    ]
    await board.publish_many(drafts)
    async with board.subscribe(topic, "s") as subscription:
        assert await bodies(subscription, 6) == [290, 0, 100, 200, 1, 2]
        await board.publish(topic, "now", priority=1)
        assert await bodies(subscription, 2) == ["now", 3]
    async with board.subscribe(topic, "s") as subscription:
        messages = await subscription.take(4)
        assert [each.body for each in messages] == [290, 0, 100, 200]
        await subscription.ack(*messages)
    async with board.subscribe(topic, "s") as subscription:  # what overtook is not given again
        assert await bodies(subscription, 3) == ["now", 1, 2]


async def test_filters_and_fan_in_of_topics_in_turn(board: Board, topic: str) -> None:
    one, two = f"{topic} 1", f"{topic} 2"
    await board.publish_many([Draft(one, f"a{number}", headers={"kind": "ab"[number % 2]}) for number in range(6)])
    await board.publish_many([Draft(two, f"b{number}", headers={"kind": "a"}) for number in range(2)])
    async with board.subscribe([one, two], "s", where={"kind": "a"}) as subscription:
        messages = await subscription.take()
        assert [each.body for each in messages] == ["a0", "b0", "a2", "b1", "a4"]
        await subscription.ack(*messages)
    assert [row.acked_seq for name in (one, two) for row in board.ledger.messages.cursors(name)] == [6, 2]


async def test_gather_waits_for_so_many_and_says_what_is_missing(board: Board, topic: str) -> None:
    async def speak(number: int) -> None:
        await board.publish(topic, number, headers={"kind": "result"})

    await speak(0)
    await board.publish(topic, "noise")
    _, _, found = await asyncio.gather(speak(1), speak(2), board.gather(topic, 3, 20, where={"kind": "result"}))
    assert sorted(each.body for each in found) == [0, 1, 2]
    assert [each.seq for each in found] == sorted(each.seq for each in found)
    with pytest.raises(MessageTimeout, match=r"'test_gather.*': 3 of 4 messages within 0.05 s"):
        await board.gather(topic, 4, 0.05, where={"kind": "result"})


async def test_a_question_has_its_own_reply_or_a_clear_time_out(board: Board, topic: str) -> None:
    async def answer() -> None:
        async for message in board.subscribe(topic, "worker"):
            await board.reply(message, message.body * 2, sender="worker")
            await board.reply(message, "too late")
            await message.ack()

    worker = asyncio.create_task(answer())
    replies = await asyncio.gather(*(board.ask(topic, number, timeout_s=20, key=f"q{number}") for number in range(5)))
    assert [each.body for each in replies] == [0, 2, 4, 6, 8]
    worker.cancel()
    again = await board.ask(topic, 3, timeout_s=20, key="q3")  # nobody is asked again
    assert (again.body, again.sender) == (6, "worker")
    with pytest.raises(MessageTimeout, match=rf"topic '{topic[:20]}.*': no reply to message 6 within 0.02 s") as caught:
        await board.ask(topic, 9, timeout_s=0.02)
    assert caught.value.hint is not None
    assert "/replies" in caught.value.hint
    with pytest.raises(WrongUsage, match=r"message 1 asks for no reply: it has no reply_to"):
        await board.reply(await board.publish(f"{topic} plain", 1), 2)


async def test_who_waits_is_woken_by_the_commit_within_a_process(tmp_path: Path, topic: str) -> None:
    """Without anybody who looks into the file."""
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as ledger:
        ledger.bell.close()
        board = Board(ledger)
        async with board.subscribe(topic, "s") as subscription:
            waiting = asyncio.create_task(subscription.take())
            await asyncio.sleep(0.05)  # it waits by now, or it is told before it does
            assert not waiting.done()
            await board.publish(topic, "news")
            async with asyncio.timeout(10):
                assert [each.body for each in await waiting] == ["news"]
            assert await subscription.take(timeout_s=0.01) == ()


async def test_nobody_looks_into_a_file_while_nobody_waits(tmp_path: Path, topic: str) -> None:
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as ledger:
        looks: list[str] = []
        sa.event.listen(
            ledger._engine,  # noqa: SLF001 - what is asked of it
            "checkout",
            lambda connection, *_: connection.set_trace_callback(looks.append),
        )
        async with Board(ledger).subscribe(topic, from_start=False) as subscription:
            await subscription.take(timeout_s=5 * LOOK_S)
            waited = sum("data_version" in each for each in looks)
            await asyncio.sleep(5 * LOOK_S)
            idle = sum("data_version" in each for each in looks) - waited
    assert waited >= 1
    assert idle <= 1  # one may have been under way


async def test_who_waits_is_woken_by_another_ledger_too(ledger: Ledger, topic: str) -> None:
    """Another connection to the same database is what another process has."""
    url = str(ledger._engine.url.render_as_string(hide_password=False))  # noqa: SLF001 - as another process has it
    other = await asyncio.to_thread(open_ledger, url)
    async with Board(ledger).subscribe(topic, "s") as subscription:
        waiting = asyncio.create_task(subscription.take())
        await asyncio.sleep(4 * LOOK_S)
        await Board(other).publish(topic, "news")
        async with asyncio.timeout(10):
            assert [each.body for each in await waiting] == ["news"]
    await other.aclose()


async def test_two_tasks_share_a_subscription_and_each_message_is_one_s(board: Board, topic: str) -> None:
    await board.publish_many([Draft(topic, number) for number in range(250)])
    async with board.subscribe(topic, "s") as subscription:

        async def work() -> list[int]:
            found: list[int] = []
            while messages := await subscription.take(7, timeout_s=0.05):
                found += [each.body for each in messages]
                await subscription.ack(*messages)
            return found

        done = await asyncio.gather(work(), work(), work())
    assert sorted(number for each in done for number in each) == list(range(250))
    assert [row.acked_seq for row in board.ledger.messages.cursors(topic)] == [250]


async def test_closing_a_subscription_lets_go_who_waits_for_it(board: Board, topic: str) -> None:
    found: list[Any] = []
    subscription, has_one = board.subscribe(topic, "s"), asyncio.Event()

    async def read() -> None:
        async for message in subscription:
            found.append(message.body)
            has_one.set()

    reading = [asyncio.create_task(read()), asyncio.create_task(read())]
    async with asyncio.timeout(10):
        await board.publish(topic, 1)
        await has_one.wait()
        await subscription.aclose()
        await asyncio.gather(*reading)
    assert found == [1]
    assert subscription._ear is None  # noqa: SLF001 - nobody has opened it anew
    async with subscription:  # opened anew, it has what was not acknowledged
        assert await bodies(subscription, 1) == [1]


async def test_too_many_that_are_not_acknowledged_is_one_line(sqlite_ledger: Ledger, topic: str) -> None:
    board = Board(sqlite_ledger)
    await board.publish_many([Draft(topic, number) for number in range(MOST_OPEN + 1)])
    async with board.subscribe(topic, "s") as subscription:
        messages = []
        with pytest.raises(RouterError, match=r"subscriber 's': 1,000 messages were handed out and not acknowledged"):
            async for message in subscription:
                messages.append(message)  # noqa: PERF401 - it ends with an error
        await messages[-1].ack()
        assert await bodies(subscription, 1) == [MOST_OPEN]


async def test_pruned_messages_leave_numbers_and_cursors_as_they_are(board: Board, topic: str) -> None:
    await board.publish_many([Draft(topic, number) for number in range(5)])
    async with board.subscribe(topic, "s") as subscription:
        await subscription.ack(*(await subscription.take(2)))
    done = await board.prune(datetime.now(UTC) + timedelta(seconds=1), topic)
    assert (done.messages, done.topics, done.unread) == (5, 1, 3)
    assert (await board.publish(topic, 5)).seq == 6
    assert (await board.prune(datetime(2026, 1, 1, tzinfo=UTC), topic)).messages == 0
    async with board.subscribe(topic, "s") as subscription:
        (message,) = await subscription.take()
        await message.ack()
    (row,) = board.ledger.messages.topics(topic)
    assert (row.first_seq, row.last_seq, row.messages, row.subscribers) == (6, 6, 1, 1)
    assert [each.acked_seq for each in board.ledger.messages.cursors(topic)] == [6]


async def test_a_run_s_messages_and_state_go_with_its_answers(board: Board, ledger: Ledger, topic: str) -> None:
    now_us = time.time_ns() // 1000
    run_id, going = new_id(), new_id()
    for each, lease_until_us in ((run_id, None), (going, now_us + 2 * ANSWER_KEPT_US)):
        await ledger.write(RunStarted(each, "one", "1", now_us, lease_until_us=lease_until_us))
        await board.publish(f"run/{each}", 1)
        await board.publish(f"run/{each}/notes", 2)
        await board.subscribe(f"run/{each}", "s").take()
        state = board.state.of(f"run/{each}/agent")
        await state.put("k", 1)
        await state.snapshot("first")
    await board.publish(topic, 3)
    await ledger.write(RunEnded(run_id, "succeeded", now_us))
    await ledger.prune(now_us + ANSWER_KEPT_US - 1)
    assert len(ledger.messages.topics(f"run/{run_id}")) == 1
    await ledger.prune(now_us + ANSWER_KEPT_US + 60_000_000)
    names = {row.topic for row in ledger.messages.topics()}
    assert not {name for name in names if run_id in name}
    assert {topic, f"run/{going}", f"run/{going}/notes"} <= names
    assert f"run/{run_id}/agent" not in ledger.messages.namespaces()
    assert f"run/{going}/agent" in ledger.messages.namespaces()


@pytest.mark.parametrize("kind", ["topic", "namespace"])
async def test_what_is_written_in_the_instant_its_time_is_over_goes_along(postgres_ledger_url: str, kind: str) -> None:
    now_us = time.time_ns() // 1000
    run_id = new_id()
    name = f"run/{run_id}"
    engine = make_engine(parse_url(postgres_ledger_url))
    async with Board(postgres_ledger_url) as board:
        await board.ledger.write(RunStarted(run_id, "one", "1", now_us), RunEnded(run_id, "succeeded", now_us))
        await board.publish(name, "first")
        await board.state.of(name).put("k", "first")
        late: MessagePublished | StateChanged = (
            MessagePublished(name, '"late"', Placed(new_id(), now_us), run_id=run_id, expires_us=now_us)
            if kind == "topic"
            else StateChanged(name, "other", '"late"', None, now_us, Changed(), run_id, now_us)
        )
        with engine.begin() as writer:
            execute_rows(writer, rows_of([late]))
            pruning = asyncio.create_task(board.ledger.prune(now_us + 2 * ANSWER_KEPT_US))
            await asyncio.to_thread(wait_for_a_lock, engine)
        await pruning
        assert name not in {*board.ledger.messages.namespaces(), *(row.topic for row in board.ledger.messages.topics())}
        assert (await board.publish(name, "again")).seq == 1
        assert await board.state.of(name).put("k", "again") == 1
    engine.dispose()


def wait_for_a_lock(engine: sa.Engine) -> None:
    """Return once a transaction waits for another one's lock."""
    waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    for _ in range(500):
        with engine.connect() as connection:
            if connection.execute(waits).scalar_one():
                return
        time.sleep(0.01)
    raise AssertionError("nobody waits")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda board: board.publish("", 1), r"topic: '' is not allowed; 1 to 200 characters that can be printed are"),
        (lambda board: board.publish("a\nb", 1), r"topic: 'a\\nb' is not allowed"),
        (lambda board: board.publish("x" * 201, 1), r"topic: 'xxx.* is not allowed"),
        (lambda board: board.publish("run/mine", 1), r"topic: 'run/mine' is not allowed: run/ is for runs"),
        (
            lambda board: board.publish("t", object()),
            r"topic 't': body: cannot be written as JSON: Object of type object",
        ),
        (lambda board: board.publish("t", "x" * MOST_BODY_BYTES), r"body: 262,146 bytes of JSON; at most 262,144 are"),
        (lambda board: board.publish("t", 1, priority=10), r"priority 10 is not allowed; 0 to 9 is"),
        (lambda board: board.publish("t", 1, headers={"a": ""}), r"header 'a': '' is not allowed"),
        (lambda board: board.publish("t", 1, headers={str(n): "x" for n in range(21)}), r"21 headers; at most 20 are"),
        (lambda board: board.publish("t", 1, key="\x00"), r"topic 't': key: '\\x00' is not allowed"),
        (lambda board: board.publish_many([Draft("t", 1)] * 10_001), r"10,001 messages at once; at most 10,000 are"),
        (
            lambda board: board.publish("t", {1: "a", "1": "b"}),
            r"body: cannot be written as JSON: key 1 is of type int",
        ),
        (lambda board: board.publish("t", nested(101)), r"body: .* it is nested too deeply; 100 levels are allowed"),
        (lambda board: board.publish("t", nested(5000)), r"body: cannot be written as JSON: it is nested too deeply"),
        (lambda board: board.publish("t", 1, headers=[("a", "b")]), r"topic 't': headers of type list are not allowed"),
        (lambda board: board.subscribe(5).take(), r"subscribe: topics of type int are not allowed; names are"),
        (lambda board: board.subscribe("t", where=["a"]).take(), r"subscribe: where of type list is not allowed"),
        (lambda board: board.subscribe("t", after_seq=True).take(), r"subscribe: after_seq True is not allowed; 0 or"),
        (lambda board: board.subscribe("t").take(1.5), r"take: most 1.5 is not allowed; 1 or more is"),
        (lambda board: board.subscribe("t").take(1, float("nan")), r"take: timeout_s nan is not allowed; a number of"),
        (lambda board: board.ask("t", 1, timeout_s="1"), r"ask: timeout_s 1 is not allowed; a number of seconds is"),
        (lambda board: board.gather("t", 1, float("nan")), r"gather: timeout_s nan is not allowed"),
        (lambda board: board.gather("t", 0), r"gather: count 0 is not allowed; 1 or more is"),
        (lambda board: board.prune(datetime(2026, 1, 1)), r"before: 2026-01-01T00:00:00 has no time zone"),  # noqa: DTZ001
        (lambda board: board.require_topic("order"), r"topic: 'order' does not exist; did you mean orders\?"),
    ],
)
async def test_what_is_wrong_is_one_line(act: Callable[[Board], Any], message: str, sqlite_ledger: Ledger) -> None:
    board = Board(sqlite_ledger)
    await board.publish("orders", 1)
    with pytest.raises(WrongUsage, match=message) as caught:
        await act(board)
    assert "\n" not in str(caught.value)


async def test_a_board_that_is_not_open_says_so() -> None:
    with pytest.raises(WrongUsage, match=r"board: it is not open"):
        await Board().publish("t", 1)


async def test_a_board_that_is_opened_again_has_the_ledger_it_was_given(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    board = Board(sqlite_ledger)
    for _ in range(2):
        async with board:
            assert board.ledger is sqlite_ledger
    own = Board(new_ledger(tmp_path / "own.db"))
    for number in range(2):
        async with own:
            await own.state.put(f"k{number}", number)


async def test_of_topics_nobody_waits_for_any_more_nothing_is_kept(tmp_path: Path) -> None:
    with open_ledger(new_ledger(tmp_path / "ledger.db")) as ledger:
        for topic in ("first", "second"):
            async with Board(ledger).subscribe(topic) as subscription:
                waiting = asyncio.create_task(subscription.take())
                await Board(ledger).publish(topic, 1)
                await waiting
                async with asyncio.timeout(10):
                    while topic not in ledger.bell._seen:  # noqa: SLF001 - what is kept shows nowhere else
                        await subscription.take(timeout_s=LOOK_S)
            del subscription
        assert ledger.bell._seen.keys() == {"second"}  # noqa: SLF001
