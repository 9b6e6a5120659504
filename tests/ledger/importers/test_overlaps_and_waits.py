"""Hours and the day they are in do not count twice; an import waits for another process's, and says so."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from pricing import load_catalog
from router.errors import LedgerError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.importers.booking import Booking
from router.ledger.importers.importing import Origin, Watch, import_of, import_records
from router.ledger.importers.record import Counts, Record
from router.ledger.importers.source import ReadOptions, Source
from router.ledger.importers.tally import ImportResult
from router.ledger.imports import list_imports, undo_import
from router.ledger.tables import attempts, usage_buckets

OCTOBER_S = 1_790_812_800
HOUR_S, DAY_S = 3_600, 86_400
BOTH = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)

Take = Callable[..., ImportResult]
Write = Callable[..., Path]


def _page(*buckets: tuple[int, int, dict[str, Any]]) -> str:
    """Return a page of OpenAI's usage API with buckets of (start, seconds, what is other than the plain result)."""
    plain = {
        "object": "organization.usage.completions.result",
        "input_tokens": 1_000,
        "output_tokens": 100,
        "num_model_requests": 5,
        "model": "gpt-4.1",
    }
    data = [
        {"object": "bucket", "start_time": start, "end_time": start + width, "results": [{**plain, **changes}]}
        for start, width, changes in buckets
    ]
    return json.dumps({"object": "page", "data": data, "has_more": False, "next_page": None})


HOURS = _page(*((OCTOBER_S + hour * HOUR_S, HOUR_S, {}) for hour in range(24)))
DAY = _page((OCTOBER_S, DAY_S, {}))


def _rows(ledger: Ledger) -> int:
    query = sa.select(sa.func.count()).select_from(usage_buckets)
    return int(ledger.transact(lambda connection: connection.execute(query).scalar_one()))


@BOTH
def test_a_day_beside_its_hours_is_refused_until_they_are_taken_back(ledger: Ledger, take: Take, write: Write) -> None:
    hours, day = write(HOURS, "hours.json"), write(DAY, "day.json")
    first = take(ledger, "openai", hours)
    with pytest.raises(WrongUsage) as caught:
        take(ledger, "openai", day)
    assert str(caught.value).startswith(
        "file day.json: has gpt-4.1 for 1 day from 2026-10-01 00:00Z, and hours.json for 1 hour from 2026-10-01 00:00Z:"
        " the same usage would count twice; it was not imported"
    )
    assert caught.value.hint == "import one width of buckets, or take the other back: router import undo hours.json"
    assert (_rows(ledger), len(ledger.transact(list_imports))) == (24, 1)
    assert take(ledger, "openai", hours).added == 0
    ledger.transact(lambda connection: undo_import(connection, first.import_id))
    assert take(ledger, "openai", day).added == 1
    with pytest.raises(WrongUsage, match=r"has gpt-4\.1 for 1 hour from 2026-10-01 00:00Z, and day.json for 1 day"):
        take(ledger, "openai", hours)


def test_both_in_one_file_are_refused(ledger: Ledger, take: Take, write: Write) -> None:
    both = write(_page((OCTOBER_S, DAY_S, {}), (OCTOBER_S + 5 * HOUR_S, HOUR_S, {})))
    with pytest.raises(WrongUsage, match=r"and itself for 1 (day|hour) from"):
        take(ledger, "openai", both)
    assert _rows(ledger) == 0


@pytest.mark.parametrize(
    ("first", "second", "is_let_in"),
    [
        ((0, DAY_S, {}), (DAY_S, HOUR_S, {}), True),  # they touch, and do not overlap
        ((0, DAY_S, {}), (DAY_S - HOUR_S, HOUR_S, {}), False),
        ((0, DAY_S, {}), (DAY_S, DAY_S, {}), True),
        ((0, DAY_S, {}), (0, HOUR_S, {"model": "gpt-5"}), True),
        ((0, DAY_S, {"project_id": "a"}), (0, HOUR_S, {"project_id": "b"}), True),
        ((0, DAY_S, {"project_id": "a"}), (0, HOUR_S, {"project_id": "a"}), False),
        ((0, DAY_S, {"project_id": "a"}), (0, HOUR_S, {}), False),  # grouped otherwise, it may be the same
        ((0, DAY_S, {"api_key_id": "a"}), (0, HOUR_S, {"api_key_id": "b"}), True),
        ((0, DAY_S, {"service_tier": "flex"}), (0, HOUR_S, {"service_tier": "priority"}), True),
    ],
)
def test_what_cannot_be_the_same_usage_is_let_in(
    ledger: Ledger, take: Take, write: Write, first: Any, second: Any, *, is_let_in: bool
) -> None:
    for number, (start, *bucket) in enumerate((first, second)):
        path = write(_page((OCTOBER_S + start, *bucket)), f"{number}.json")
        if number and not is_let_in:
            with pytest.raises(WrongUsage, match="the same usage would count twice"):
                take(ledger, "openai", path)
        else:
            assert take(ledger, "openai", path).added == 1


def test_buckets_of_single_batches_may_lie_side_by_side(ledger: Ledger) -> None:
    batch = Record(1, OCTOBER_S * 10**6, "gpt-4.1", Counts(5), identity="a", end_us=(OCTOBER_S + 7) * 10**6)
    other = batch._replace(line=2, identity="b", end_us=(OCTOBER_S + 9) * 10**6)
    assert _import(ledger, [batch, other], "litellm").added == 2


@pytest.mark.parametrize("tokens", [name for name in Counts._fields if name != "web_searches"])
def test_searches_with_tokens_of_any_kind_are_no_bare_searches(ledger: Ledger, tokens: str) -> None:
    """A bucket of searches alone may lie beside one of tokens: both are reported apart; one that has tokens may not."""
    hour = Record(1, OCTOBER_S * 10**6, "gpt-4.1", Counts(5), identity="h", end_us=(OCTOBER_S + HOUR_S) * 10**6)
    day = hour._replace(identity="d", end_us=(OCTOBER_S + DAY_S) * 10**6)
    assert _import(ledger, [hour], "openai").added == 1
    with pytest.raises(WrongUsage, match="the same usage would count twice"):
        _import(ledger, [day._replace(counts=Counts(web_searches=3, **{tokens: 7}))], "openai")
    assert _import(ledger, [day._replace(counts=Counts(web_searches=3))], "openai").added == 1


def _import(
    ledger: Ledger, records: list[Record], name: str = "test", watch: Watch | None = None, at_once: int = 10**6
) -> ImportResult:
    booking = Booking("theirs")
    source = Source(name, name, bool, "", lambda _, __: iter(()))
    origin = Origin("file", "file", lambda: iter(records))
    taken = import_of(source, origin, booking, ReadOptions(now_us=0))
    return import_records(ledger, origin, taken, booking, load_catalog(), watch, at_once)


def _records(size: int) -> list[Record]:
    return [Record(n + 1, OCTOBER_S * 10**6 + n, "gpt-4.1", Counts(n)) for n in range(size)]


def test_an_import_waits_for_another_process_and_says_so(url: str, ledger: Ledger) -> None:
    ledger.transact(lambda _: None)
    path = url.removeprefix("sqlite:///")
    held = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    said: list[float] = []
    began = time.monotonic()
    release = threading.Timer(3.0, held.rollback)
    release.start()
    result = _import(ledger, _records(5), watch=Watch(on_wait=lambda: said.append(time.monotonic() - began)))
    release.join()
    held.close()
    assert result.added == 5
    assert len(said) == 1
    assert 2.0 <= said[0] < 3.0


def test_a_lock_that_outlasts_the_databases_patience_is_waited_for(url: str, ledger: Ledger) -> None:
    """The database gives up after a time-out of its own, here 0.3 s; the import begins again."""
    engine = ledger._engine  # noqa: SLF001 - nobody else needs to be so impatient
    engine.dispose()
    sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout = 300"))
    held = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False, isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="another process kept it locked"):
        ledger.transact(lambda _: None)
    release = threading.Timer(1.5, held.rollback)
    release.start()
    assert _import(ledger, _records(5)).added == 5
    release.join()
    held.close()


def test_two_processes_import_at_once_and_both_end_well(tmp_path: Path, url: str) -> None:
    lines = "".join(f"r{n},2026-10-01T00:00:00Z,gpt-4.1,{n},1\n" for n in range(60_000))
    path = tmp_path / "calls.csv"
    path.write_text(f"id,started,model,input_tokens,output_tokens\n{lines}", encoding="utf-8")
    code = """
import sys
from pathlib import Path
from pricing import load_catalog
from router.ledger import open_ledger
from router.ledger.importers.booking import Booking
from router.ledger.importers.door import origin_of
from router.ledger.importers.formats import source_named
from router.ledger.importers.importing import import_of, import_records
from router.ledger.importers.source import ReadOptions
source, how, booking = source_named("generic"), ReadOptions(now_us=2**60), Booking("theirs")
origin = origin_of(source, sys.argv[1], how)
with open_ledger(sys.argv[2]) as ledger:
    taken = import_of(source, origin, booking, how)
    found = import_records(ledger, origin, taken, booking, load_catalog(), None, 10_000)
print(found.rows, found.added)
"""
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path), url], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [process.communicate(timeout=120)[0].split() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert [int(rows) for rows, _ in told] == [60_000] * 2
    assert sum(int(added) for _, added in told) == 60_000
    with open_ledger(url) as ledger:
        query = sa.select(sa.func.count()).select_from(attempts)
        assert ledger.transact(lambda connection: connection.execute(query).scalar_one()) == 60_000
