"""Writing: every acknowledged row is there, whatever happens to the process; a bad record fails alone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pricing import Usage
from router.errors import LedgerError
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.database import make_engine, parse_url
from router.ledger.records import Amount, Answer, RunEnded, StepEnded, StepRow
from router.ledger.rows import Record

ALL = (0, 2**62)


async def test_a_thousand_attempts_of_64_tasks_are_all_there(ledger: Ledger, sample: Any) -> None:
    gate = asyncio.Semaphore(64)

    async def attempt() -> None:
        async with gate:
            started = sample.started()
            await ledger.write(started)
            await ledger.write(sample.ended(started, list_cost=Amount("USD", Decimal("0.000000000001"))))

    await asyncio.gather(*(attempt() for _ in range(1_000)))
    [group] = ledger.reader.usage_groups(*ALL)
    # 1,000 × (10 + 2) tokens; 1,000 × 1e-12 USD is 1,000 pico.
    wanted = {"attempts": 1_000, "succeeded": 1_000, "uncached_input_tokens": 10_000, "plain_output_tokens": 2_000}
    assert wanted.items() <= group.sums.items()
    assert (group.sums["cost_micro"], group.sums["cost_pico"]) == (0, 1_000)


async def test_an_attempt_is_read_back_as_it_was_written(ledger: Ledger, sample: Any) -> None:
    run = sample.run(run_key="k", tags={"team": "a"}, budget_usd=Decimal("0.5"), tenant="acme", prompt="hello")
    started = sample.started(run_id=run.run_id, step_id="s1", role="worker", reserved_usd=Decimal("0.25"), queue_us=7)
    ended = sample.ended(
        started,
        status="failed",
        cost_status="exact",
        usage=Usage(*range(1, 12)),
        list_cost=Amount("CNY", Decimal("12.345678901234")),
        settled_cost=Amount("USD", Decimal("1.5")),
        reported_cost_usd=Decimal("1.25"),
        http_status=500,
        error_kind="server_error",
        model_served="gpt-4.1-mini",
        upstream_id="",
        finish_reason="stop",
        service_tier="flex",
        possibly_billed=True,
        ttft_us=1,
        network_us=2,
        inference_us=3,
        state_us=4,
    )
    step = StepRow(run.run_id, "s1", 0, "extract", ("s0",))
    await ledger.write(run, step, started)
    assert await ledger.in_flight(run.run_id) == ledger.reader.attempts(run.run_id)
    await ledger.write(ended, StepEnded(run.run_id, "s1", "failed", "why"), RunEnded(run.run_id, "failed", 5, "no"))
    row = ledger.reader.attempt(started.attempt_id)
    assert row is not None
    assert (row.started, row.ended, row.origin) == (started, ended, "routed")
    assert await ledger.in_flight(run.run_id) == ()
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert (found.started, found.ended) == (run, RunEnded(run.run_id, "failed", 5, "no"))
    assert [each.status for each in ledger.reader.steps(run.run_id)] == ["failed"]


async def test_an_attempt_is_completed_exactly_once(ledger: Ledger, sample: Any) -> None:
    started = sample.started()
    await ledger.write(started, sample.ended(started, status="failed"))
    with pytest.raises(LedgerError, match="has not been started, or is completed already"):
        await ledger.write(sample.ended(started))
    with pytest.raises(LedgerError, match="has not been started"):
        await ledger.write(sample.ended(sample.started()))
    row = ledger.reader.attempt(started.attempt_id)
    assert row is not None
    assert row.ended is not None
    assert row.ended.status == "failed"


async def test_the_same_attempt_of_a_call_is_never_started_twice(ledger: Ledger, sample: Any) -> None:
    await ledger.write(sample.started(call_key="k"), sample.started(call_key="k", number=2))
    with pytest.raises(
        LedgerError, match=r"UNIQUE constraint failed: attempts\.call_key, attempts\.number|uq_attempts_call_key"
    ):
        await ledger.write(sample.started(call_key="k", number=2))
    assert (await ledger.last_number("k"), await ledger.last_number("other")) == (2, 0)


async def test_a_bad_record_fails_alone_in_a_full_batch(ledger: Ledger, sample: Any) -> None:
    good = [sample.started() for _ in range(50)]
    bad: list[Record] = [
        sample.started(run_id=new_id()),  # no such run
        sample.started(role="boss"),  # no such role
        sample.started(number=0),
        sample.started(number=2**63),  # more than a column holds
        sample.ended(sample.started()),  # never started
        Answer("k", new_id(), {}, None, None),
    ]
    writes = [ledger.write(record) for pair in zip(good, bad * 9, strict=False) for record in pair]
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(end) for end in ends[::2]] == [type(None)] * 50
    assert [type(end) for end in ends[1::2]] == [LedgerError] * 50
    assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 50


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attempt_id": "1"}, "id '1'; a UUID of 36 lower-case characters is allowed"),
        ({"reserved_usd": Decimal(-1)}, "amount: -1 cannot be stored"),
        ({"reserved_usd": Decimal("NaN")}, "amount: NaN cannot be stored"),
        ({"started_us": "today"}, "AttemptStarted cannot be written"),
    ],
)
async def test_a_value_no_row_can_hold_is_refused_at_once(
    ledger: Ledger, sample: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(LedgerError, match=message):
        await ledger.write(sample.started(**changes))


async def test_what_one_write_is_given_is_written_whole_or_not_at_all(ledger: Ledger, sample: Any) -> None:
    good, bad = sample.started(), sample.started(role="boss")
    with pytest.raises(LedgerError, match="role"):
        await ledger.write(good, bad)
    assert ledger.reader.attempt(good.attempt_id) is None


async def test_what_is_no_record_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="str is not a record"):
        await ledger.write("attempt")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["'); DROP TABLE attempts; --", "🦊 研究", "line\nline\ttab", "x" * 1_000_000, "%s %(a)s ? :name", ""],
    ids=["injection", "emoji", "lines", "megabyte", "placeholders", "empty"],
)
@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)  # PostgreSQL's indexes take no key of a megabyte
async def test_texts_come_back_as_they_went_in(ledger: Ledger, sample: Any, text: str) -> None:
    run = sample.run(prompt=text, tenant=text, tags={text: text})
    started = sample.started(run_id=run.run_id, model_asked=text or "m", call_key=text)
    message = {"content": text, "tool_calls": [text]}
    await ledger.write(run, started, Answer(text, run.run_id, message, text, None))
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert found.started == run
    assert ledger.reader.attempts(run.run_id)[0].started == started
    answer = await ledger.find_answer(text)
    assert answer is not None
    assert answer.message == message


async def test_nul_and_lone_surrogates_are_replaced_where_no_database_could_hold_them(
    ledger: Ledger, sample: Any
) -> None:
    run = sample.run(prompt="a\x00b\ud800c", run_key="\x00")
    await ledger.write(run, Answer("k\x00", run.run_id, {"content": "a\x00b\ud800c"}, None, None))
    found = ledger.reader.run(run.run_id)
    assert found is not None
    assert found.started.prompt == "a\ufffdb\ufffdc"
    answer = await ledger.find_answer("k\x00")
    assert answer is not None
    assert answer.message == {"content": "a\x00b\ud800c"}  # a message is JSON: it keeps everything


async def test_cancelling_the_one_who_waits_does_not_lose_the_row(ledger: Ledger, sample: Any) -> None:
    all_started = [sample.started() for _ in range(20)]
    tasks = [asyncio.create_task(ledger.write(started)) for started in all_started]
    await asyncio.sleep(0)  # every task has handed its row over and waits
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    await ledger.write(sample.started())  # queued behind them
    assert {type(end) for end in ends} == {asyncio.CancelledError}
    assert all(ledger.reader.attempt(started.attempt_id) for started in all_started)


def test_threads_with_event_loops_of_their_own_write_at_once(ledger: Ledger, sample: Any) -> None:
    async def many() -> None:
        await asyncio.gather(*(ledger.write(sample.started()) for _ in range(50)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    ledger.write_now(sample.started())
    for thread in threads:
        thread.join()
    assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 201


async def test_a_closed_ledger_says_so(ledger: Ledger, sample: Any) -> None:
    await ledger.aclose()
    ledger.close()
    with pytest.raises(LedgerError, match="it is closed"):
        await ledger.write(sample.started())


_WRITE = """
import asyncio, sys
from router.ledger import new_id, open_ledger
from router.ledger.records import AttemptEnded, AttemptStarted
ledger = open_ledger(sys.argv[1])
def started():
    key = new_id()
    return AttemptStarted(key, key, 1, None, "sandbox", "openai", "gpt-4.1", 1_790_812_800_000_000)
"""
_WITHOUT_END = f"""{_WRITE}
import os
async def worker():
    while True:
        row = started()
        await ledger.write(row)
        await ledger.write(AttemptEnded(row.attempt_id, "succeeded", "unknown", 1))
        print(row.attempt_id, flush=True)
async def main():
    await asyncio.gather(*(worker() for _ in range(16)))
ledger.close()
for _ in sys.stdin:  # a fresh writer for every line, forked from here so that nothing is loaded ten times
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        ledger = open_ledger(sys.argv[1])
        asyncio.run(main())
    os.waitpid(child, 0)
    print("\\ndead", flush=True)  # on a line of its own: the kill may have come before the end of one
"""


def test_kill_9_ten_times_loses_no_acknowledged_row(url: str) -> None:
    acknowledged: set[str] = set()
    command = [sys.executable, "-c", _WITHOUT_END, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as children:
        assert children.stdin is not None
        assert children.stdout is not None
        for turn in range(10):
            children.stdin.write("another\n")
            lines: list[str] = []
            while len(lines) < 11 + 17 * turn and "dead" not in lines:  # a different point each time
                lines.append(children.stdout.readline().strip())
            assert "dead" not in lines, "the writer died of itself"
            os.kill(int(lines[0]), signal.SIGKILL)
            lines += iter(lambda: children.stdout.readline().strip(), "dead")  # type: ignore[union-attr]
            acknowledged.update(line for line in lines if len(line) == 36)
        children.stdin.close()
    with open_ledger(url) as ledger:
        rows = {key: ledger.reader.attempt(key) for key in acknowledged}
    assert len(acknowledged) >= sum(10 + 17 * turn for turn in range(10))
    assert [key for key, row in rows.items() if row is None or row.ended is None] == []


def test_two_processes_write_at_once(url: str) -> None:
    code = f"""{_WRITE}
async def main():
    gate = asyncio.Semaphore(8)
    async def one():
        async with gate:
            await ledger.write(started())
    await asyncio.gather(*(one() for _ in range(300)))
asyncio.run(main())
"""
    children = [_child(code, url) for _ in range(2)]
    assert [child.wait(60) for child in children] == [0, 0]
    for child in children:
        assert child.stdout is not None
        child.stdout.close()
    with open_ledger(url) as ledger:
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 600


def test_an_exit_without_close_writes_what_is_queued_and_does_not_hang(url: str) -> None:
    code = f"""{_WRITE}
from router.ledger.rows import rows_of
for _ in range(500):
    ledger._writer.submit(rows_of([started()]))
"""
    child = _child(code, url)
    assert child.wait(30) == 0
    assert child.stdout is not None
    child.stdout.close()
    with open_ledger(url) as ledger:
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 500


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
def test_a_forked_child_is_told_to_open_the_ledger_again(ledger: Ledger, sample: Any) -> None:
    ledger.write_now(sample.started())
    code = f"""{_WRITE}
import os
ledger.write_now(started())
if not os.fork():
    try:
        ledger.write_now(started())
    except Exception as error:
        print(error)
    sys.exit(0)
os.wait()
"""
    url = f"sqlite:///{ledger.name}"
    done = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=False, timeout=30)
    assert "it was opened by process" in done.stdout
    assert done.returncode == 0


_FULL = f"""{_WRITE}
import json, os, resource
from pathlib import Path
ledger.write_now(started())
size = max(path.stat().st_size for path in Path(ledger.name).parent.iterdir())
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20_000, size + 20_000))
async def main():
    writes = [ledger.write(*(started() for _ in range(100))) for _ in range(20)]
    ends = await asyncio.gather(*writes, return_exceptions=True)
    print(json.dumps([[type(end).__name__, str(end), getattr(end, "hint", None)] for end in ends if end is not None]))
asyncio.run(main())
"""


def test_a_full_disk_is_one_clear_error_and_the_ledger_stays_sound(url: str) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, url], capture_output=True, text=True, check=True, timeout=60)
    path = url.removeprefix("sqlite:///")
    ends = json.loads(done.stdout)
    assert ends  # some early write may have fitted in
    for kind, message, hint in ends:
        assert kind == "LedgerError"
        assert message.startswith(f"database {path}: cannot write: the disk is full or failing")
        assert "\n" not in message
        assert "make room on the disk" in hint
    assert done.stderr == ""
    with open_ledger(url) as ledger, sqlite3.connect(path) as plain:
        assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 1 + 100 * (20 - len(ends))
        assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    plain.close()


def test_a_message_of_an_error_never_holds_what_was_written(ledger: Ledger, sample: Any) -> None:
    with pytest.raises(LedgerError) as caught:
        ledger.write_now(sample.run(prompt="my secret plans"), sample.started(role="boss"))
    assert "secret plans" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
def test_the_database_is_as_durable_as_promised(ledger: Ledger) -> None:
    with ledger._engine.connect() as connection:  # noqa: SLF001 - what this connection is set to is the point
        modes = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
        assert modes == ["wal", 2]  # 2 is FULL
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000


def _child(code: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, text=True)


async def test_between_two_commits_of_several_who_write_there_is_time_for_rows_to_gather(
    tmp_path: Path, sample: Any
) -> None:
    """8 tasks with 25 rows each that come one by one; the disk is not waited for, since that lets them gather, too."""
    engine = make_engine(parse_url(f"sqlite:///{tmp_path}/ledger.db"))
    open_ledger(f"sqlite:///{tmp_path}/ledger.db").close()
    said: list[tuple[str, float]] = []

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")
        connection.set_trace_callback(lambda text: said.append((text, time.monotonic())))

    sa.event.listen(engine, "connect", connected)

    async def write(ledger: Ledger, pause_s: float) -> None:
        for _ in range(25):
            await ledger.write(sample.started())
            await asyncio.sleep(pause_s)

    with Ledger(engine) as ledger:
        await asyncio.gather(*(write(ledger, 0.0002 * number) for number in range(1, 9)))
        begun, over = ([at_s for text, at_s in said if text == word][2:] for word in ("BEGIN IMMEDIATE", "COMMIT"))
        assert len(begun) <= 150  # of 200 rows
        assert min(later - earlier for earlier, later in zip(over, begun[1:], strict=False)) >= 0.001
        said.clear()
        await write(ledger, 0.0)  # who is alone has a commit for each
    assert [text for text, _ in said].count("COMMIT") == 25
