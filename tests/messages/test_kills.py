"""Many processes on the same topics and the same state, and one of them killed: one order, none lost, none twice."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path

import pytest

from router.ledger import open_ledger
from tests.messages.conftest import Party
from tests.messages.party import Job
from tests.new_ledger import new_ledger

WRITERS = ("w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7")
TOPICS = ("t0", "t1")


@pytest.mark.parametrize(("kind", "each"), [("sqlite", 1250), ("postgresql", 126)])
def test_eight_writers_four_subscribers_and_a_kill(
    kind: str, each: int, party: Party, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """10,000 messages, 1,008 on PostgreSQL; a process of four writers and two subscribers is killed in the middle."""
    url = new_ledger(tmp_path / "ledger.db") if kind == "sqlite" else request.getfixturevalue("postgres_ledger_url")
    total = len(WRITERS) * each
    with open_ledger(url) as ledger:
        killed = Job(WRITERS[:4], ("s0", "s1"), each, total)
        jobs = [killed, Job(WRITERS[4:], (), each, total), Job((), ("s2", "s3"), each, total)]
        victim, *others = [party.start(url, tmp_path, job) for job in jobs]
        until_s = time.monotonic() + 60
        while sum(ledger.messages.last_seqs(TOPICS).values()) < total // 4:
            assert time.monotonic() < until_s
            time.sleep(0.005)
        party.kill(victim)
        before = sum(ledger.messages.last_seqs(TOPICS).values())
        assert before < total  # it was in the middle
        ended = [party.status(child) for child in (party.start(url, tmp_path, killed), *others)]
        assert (ended, party.complaints()) == ([0, 0, 0], "")
        on_record = {
            topic: {row.seq: row.message_id for row in ledger.messages.ordinary(topic, 0, total)} for topic in TOPICS
        }
        keys = [row.key for topic in TOPICS for row in ledger.messages.ordinary(topic, 0, total)]
    # Each message once, whoever was killed: each has a key of its own.
    assert sorted(map(str, keys)) == sorted(f"{name} {number}" for name in WRITERS for number in range(each))
    for topic in TOPICS:
        assert list(on_record[topic]) == list(range(1, total // 2 + 1))  # a number each, no gaps
    for name in ("s0", "s1", "s2", "s3"):
        check_deliveries((tmp_path / f"{name}.log").read_text().splitlines(), on_record)


def check_deliveries(log: list[str], on_record: dict[str, dict[int, str]]) -> None:
    """Check what one subscriber was given: every message, in the one order, and none again that it had acknowledged."""
    first: dict[str, list[int]] = defaultdict(list)
    acked: set[tuple[str, int]] = set()
    for line in log:
        word, topic, number, identity = line.split()
        seq = int(number)
        assert on_record[topic][seq] == identity
        if word == "acked":
            acked.add((topic, seq))
            continue
        assert (topic, seq) not in acked
        if not first[topic] or seq > first[topic][-1]:
            first[topic].append(seq)
        else:  # given again, since the process was killed before it had said that it acknowledged it
            assert seq in first[topic]
    for topic, messages in on_record.items():
        assert first[topic] == list(messages)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_two_processes_that_add_lose_no_addition(
    kind: str, party: Party, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = new_ledger(tmp_path / "ledger.db") if kind == "sqlite" else request.getfixturevalue("postgres_ledger_url")
    with open_ledger(url) as ledger:
        children = [party.start(url, tmp_path, Job(additions=40)) for _ in range(2)]
        assert ([party.status(child) for child in children], party.complaints()) == ([0, 0], "")
        row = ledger.messages.value("shared", "sum")
    assert row is not None
    assert (row.value, row.version) == ("80", 80)
