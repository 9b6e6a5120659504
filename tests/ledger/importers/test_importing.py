"""What every import holds to: rows as our own, again is nothing, whole or not at all, and taken back whole."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from pricing import Catalog, PricingError, Terms, Usage, load_catalog
from router.errors import RouterError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.importers.booking import Booking
from router.ledger.importers.importing import Origin, Watch, import_of, import_records
from router.ledger.importers.record import Counts, Record, Rejected
from router.ledger.importers.source import Found, ReadOptions, Source
from router.ledger.importers.tally import ImportResult
from router.ledger.imports import find_import, list_imports, undo_import
from router.ledger.records import Amount, ImportedAttempt
from router.ledger.rows import rows_of
from router.ledger.tables import attempts, usage_buckets

OCTOBER_US = 1_790_812_800_000_000
DAY_US = 86_400_000_000
ALL = (0, 2**60)
BOTH = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
SOURCE = Source("test", "test", bool, "anything", lambda _, __: iter(()))

Import = Callable[..., ImportResult]


def _record(number: int = 0, **changes: Any) -> Record:
    counts = Counts(1_000, plain_output_tokens=100)
    plain: dict[str, Any] = {"line": number + 1, "at_us": OCTOBER_US + number, "model": "gpt-4.1", "counts": counts}
    return Record(**{**plain, "identity": f"r{number}", **changes})


@pytest.fixture
def put(ledger: Ledger, catalog: Catalog) -> Import:
    """Return a function that imports records as if they stood in a file."""

    def put(
        found: Iterable[Found],
        *,
        file: str = "file",
        to: Ledger | None = ledger,
        prices: Catalog = catalog,
        **stated: Any,
    ) -> ImportResult:
        listed = list(found)
        named = {"now_us": None, "allow_open": False, "in_one_transaction": 250_000, "watch": None}
        how = {name: stated.pop(name, value) for name, value in named.items()}
        booking = Booking(**{"endpoint": "theirs", **stated})
        origin = Origin(file, file, lambda: iter(listed), how["now_us"], how["allow_open"])
        taken = import_of(SOURCE, origin, booking, ReadOptions(now_us=0))
        return import_records(to, origin, taken, booking, prices, how["watch"], how["in_one_transaction"])

    return put


def _stored(ledger: Ledger, table: sa.Table = attempts) -> list[dict[str, Any]]:
    return [
        dict(row) for row in ledger.transact(lambda connection: connection.execute(sa.select(table)).mappings().all())
    ]


FULL = _record(
    1,
    counts=Counts(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    reported_usd=Decimal("0.1234567"),
    provider="openai",
    model_asked="gpt-4.1-mini",
    tenant="Zürich \x00",
    task_class="code",
    configuration="theirs",
    role="worker",
    tags=(("team", "red"),),
    status="failed",
    error_kind="server_error",
    http_status=500,
    finish_reason="length",
    service_tier="flex",
    upstream_id="chatcmpl-1",
    latency_us=1_234_567,
    ttft_us=1_000,
    estimated=True,
)


@pytest.mark.parametrize(
    "record",
    [
        _record(),
        FULL,
        _record(2, counts=None, status="timed_out"),
        _record(3, model="no such model"),
        _record(4, counts=Counts(300_000, plain_output_tokens=1), model="gemini-2.5-pro"),
        _record(5, counts=Counts()),
    ],
)
@pytest.mark.parametrize("terms", [(), ((0, Terms(discount_share=Decimal("0.15"))),)])
def test_a_row_is_what_the_ledger_makes_of_the_same_attempt(
    ledger: Ledger, put: Import, record: Record, terms: tuple[tuple[int, Terms], ...]
) -> None:
    put([record], terms=terms)
    [stored] = _stored(ledger)
    attempt = ledger.reader.attempt(stored["attempt_id"])
    assert attempt is not None
    assert attempt.ended is not None
    [*_, made] = [
        row
        for _, row in rows_of([ImportedAttempt(str(attempt.import_id), attempt.started, attempt.ended)])
        if "call_key" in row
    ]
    assert {name: made.get(name) for name in stored} == stored


def test_a_request_that_ran_out_of_time_with_unknown_usage_is_possibly_billed(ledger: Ledger, put: Import) -> None:
    put([_record(0), _record(1, status="timed_out"), _record(2, status="timed_out", counts=None)])
    assert [row["possibly_billed"] for row in sorted(_stored(ledger), key=lambda row: row["started_us"])] == [
        False,
        False,
        True,
    ]
    assert ledger.reader.usage_groups(*ALL)[0].sums["unsettled"] == 1


@BOTH
def test_what_a_record_says_is_in_the_ledger(ledger: Ledger, put: Import) -> None:
    put([FULL], tenant="everybody", task_class="chat")
    [row] = _stored(ledger)
    attempt = ledger.reader.attempt(row["attempt_id"])
    assert attempt is not None
    started, ended = attempt.started, attempt.ended
    assert ended is not None
    assert (started.endpoint, started.model_asked, started.tenant) == ("theirs", "gpt-4.1-mini", "Zürich \ufffd")
    assert (started.task_class, started.configuration, started.role) == ("code", "theirs", "worker")
    assert (dict(started.tags), started.started_us) == ({"team": "red"}, OCTOBER_US + 1)
    assert (ended.status, ended.error_kind, ended.http_status) == ("failed", "server_error", 500)
    assert (ended.model_served, ended.service_tier, ended.upstream_id) == ("gpt-4.1", "flex", "chatcmpl-1")
    assert (ended.latency_us, ended.ttft_us, ended.reported_cost_usd) == (1_234_567, 1_000, Decimal("0.1234567"))
    assert ended.usage == Usage(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
    assert (row["origin"], row["day"], row["latency_bucket"] is not None) == ("imported", 20_727, True)


def test_what_is_stated_holds_where_a_record_says_nothing(ledger: Ledger, put: Import) -> None:
    put([_record(1), _record(2, tenant="own")], tenant="stated", configuration="all-gpt-4.1", role="single")
    rows = sorted(_stored(ledger), key=lambda row: int(row["started_us"]))
    assert [row["tenant"] for row in rows] == ["stated", "own"]
    assert {(row["configuration"], row["role"]) for row in rows} == {("all-gpt-4.1", "single")}


def test_counts_and_costs_are_added_up(put: Import) -> None:
    result = put([_record(1), _record(2, counts=None), _record(3, model="gpt-9", reported_usd=Decimal("0.5"))])
    # gpt-4.1 costs 2.00 and 8.00 per Mtok: 1,000 × 2e-6 + 100 × 8e-6 = 0.0028.
    assert result.list_cost == (Amount("USD", Decimal("0.0028")),)
    assert (result.rows, result.added, result.unpriced, result.usage_unknown) == (3, 3, 2, 1)
    assert (result.input_tokens, result.output_tokens, result.reported_cost_usd) == (2_000, 200, Decimal("0.5"))
    assert result.unpriced_models == {"gpt-9": 1}


@BOTH
def test_again_is_nothing_whatever_the_file(ledger: Ledger, put: Import) -> None:
    assert put([_record(n) for n in range(10)]).added == 10
    again = put([_record(n) for n in range(10)])
    assert (again.added, again.skipped, again.differing) == (0, 10, 0)
    overlapping = put([_record(n) for n in range(5, 15)], file="other")
    assert (overlapping.added, overlapping.skipped) == (5, 5)
    assert len(_stored(ledger)) == 15


def test_an_instant_that_was_rounded_is_the_same_request(put: Import) -> None:
    put([_record(7, at_us=OCTOBER_US + 1_999_999)])
    assert put([_record(7, at_us=OCTOBER_US + 1_000_000)], file="rounded").added == 0


def test_a_request_that_stands_there_twice_is_one(ledger: Ledger, put: Import) -> None:
    result = put([_record(1), _record(1), _record(2)])
    assert (result.rows, result.added, result.skipped) == (3, 2, 1)
    assert len(_stored(ledger)) == 2


def test_without_a_name_a_line_of_a_file_is_one_request(put: Import) -> None:
    lines = [_record(n, identity=None) for n in range(3)]
    assert put([*lines, *(line._replace(line=line.line + 3) for line in lines)]).added == 6
    assert put([*lines, *(line._replace(line=line.line + 3) for line in lines)]).added == 0
    assert put(lines, file="other").added == 3


def test_two_accounts_are_two_endpoints(put: Import) -> None:
    assert put([_record(1)], endpoint="one").added == 1
    assert put([_record(1)], endpoint="two", file="export of two").added == 1


@BOTH
def test_other_counts_of_what_is_there_are_said(ledger: Ledger, put: Import) -> None:
    put([_record(1), _record(2)])
    result = put([_record(1), _record(2, counts=Counts(5)), _record(3, counts=None)], file="later")
    assert (result.added, result.skipped, result.differing) == (1, 2, 1)
    assert sum(int(row["uncached_input_tokens"] or 0) for row in _stored(ledger)) == 2_000


def test_the_same_file_with_other_options_is_refused(ledger: Ledger, put: Import) -> None:
    put([_record(1, identity=None)])
    for changes in ({"endpoint": "other"}, {"tenant": "x"}, {"price_list": "openai"}, {"model_map": {"a": "b"}}):
        with pytest.raises(WrongUsage, match="file file: was imported already, as file, with other options"):
            put([_record(1, identity=None)], **changes)
    assert len(_stored(ledger)) == 1


def test_a_bad_count_costs_nothing_but_itself(put: Import) -> None:
    told: list[Rejected] = []
    bad, bad_bucket = _record(2, counts=Counts(-1, 5)), _record(3, counts=Counts(-2), end_us=OCTOBER_US + DAY_US)
    lines = [bad, bad_bucket, Rejected(9, "is odd", "text"), _record(4, end_us=OCTOBER_US)]
    result = put([_record(1), *lines], watch=Watch(on_reject=told.append))
    assert (result.added, result.rejected_rows) == (1, 4)
    assert {line.line for line in told} == {3, 4, 5, 9}
    assert Rejected(5, "is a bucket that ends before it begins", "gpt-4.1") in told
    assert Rejected(3, "has a negative count: -1") in told


def test_lines_that_are_all_rejected_are_an_error_and_none_at_all_too(ledger: Ledger, put: Import) -> None:
    with pytest.raises(RouterError, match="all 1 lines were rejected; line 9: is odd") as caught:
        put([Rejected(9, "is odd")])
    assert caught.value.exit_code == 1
    with pytest.raises(WrongUsage, match="has no record in it"):
        put([])
    assert _stored(ledger) == []


def test_a_dry_run_writes_nothing(ledger: Ledger, put: Import) -> None:
    result = put([_record(1)], to=None)
    assert (result.rows, result.added, result.skipped) == (1, 0, 0)
    assert result.list_cost == (Amount("USD", Decimal("0.0028")),)
    assert _stored(ledger) == []


def test_a_list_that_does_not_exist_is_refused(put: Import) -> None:
    with pytest.raises(PricingError, match="'opanai' does not exist; did you mean 'openai'"):
        put([_record(1)], price_list="opanai")


@pytest.mark.parametrize(
    ("record", "stated", "expected"),
    [
        (_record(model="gpt-4.1-2025-04-14"), {}, ("openai", "gpt-4.1", "exact")),
        (_record(model="mine"), {"model_map": {"mine": "gpt-4.1"}}, ("openai", "gpt-4.1", "exact")),
        (_record(model="mine"), {}, ("vendor", "mine", "unknown")),
        (_record(provider="openai"), {}, ("openai", "gpt-4.1", "exact")),
        (_record(provider="OpenAI"), {}, ("openai", "gpt-4.1", "exact")),
        (_record(provider="azure"), {}, ("vendor", "gpt-4.1", "unknown")),
        (_record(provider="azure"), {"price_list": "openai"}, ("openai", "gpt-4.1", "exact")),
        (_record(provider="anthropic"), {}, ("anthropic", "gpt-4.1", "unknown")),
        (_record(model="kimi-k2"), {}, ("moonshot", "kimi-k2", "unknown")),  # retired on 2026-05-25
        (_record(model="kimi-k2"), {"last_list": True}, ("moonshot", "kimi-k2", "exact")),
        (_record(estimated=True), {}, ("openai", "gpt-4.1", "estimated")),
        (_record(service_tier="no such tier"), {}, ("openai", "gpt-4.1", "unknown")),
    ],
)
def test_who_sold_it_is_stated_or_recorded_and_never_guessed(
    ledger: Ledger, put: Import, record: Record, stated: dict[str, Any], expected: tuple[str, ...]
) -> None:
    put([record], **stated)
    [row] = _stored(ledger)
    assert (row["price_list"], row["model_served"], row["cost_status"]) == expected


@pytest.fixture
def dated() -> Catalog:
    """Return prices that change at noon of 2026-10-01, and a model that is dearer above 200,000 tokens."""
    noon = datetime(2026, 10, 1, 12, tzinfo=UTC)
    common = {"url": "https://example.com/prices", "source": "contract", "checked": noon.date()}
    prices = [
        {**common, "model": "gpt-4.1", "input": "1", "output": "1", "effective_to": noon},
        {**common, "model": "gpt-4.1", "input": "3", "output": "3", "effective_from": noon},
        {**common, "model": "long", "input": "1", "output": "1"},
        {**common, "model": "long", "input": "2", "output": "2", "when": {"above_input_tokens": 200_000}},
    ]
    meta = {"list": "contract", "kind": "relay", "currency": "USD"}
    return load_catalog(inline={"meta": meta, "models": [{"id": "gpt-4.1"}, {"id": "long"}], "prices": prices})


def test_a_price_is_that_of_the_records_own_instant(put: Import, dated: Catalog) -> None:
    records = [_record(n, at_us=OCTOBER_US + n * DAY_US // 4) for n in range(4)]  # at 0, 6, 12 and 18 o'clock
    result = put(records, price_list="contract", prices=dated)
    # 1,100 tokens each: two at 1 per Mtok, two at 3.
    assert result.list_cost == (Amount("USD", Decimal("0.0088")),)


MILLION = Counts(900_000, plain_output_tokens=100_000)


@pytest.mark.parametrize(
    ("changes", "status", "cost"),
    [
        ({"requests": 10}, "estimated", "1"),  # 90,000 a request, on the average: 1 per Mtok
        ({"requests": 3}, "estimated", "2"),  # 300,000 a request: 2 per Mtok
        ({"requests": 1}, "exact", "2"),
        ({"requests": 3, "context_tokens": 150_000}, "exact", "1"),
        ({"context_tokens": 200_001}, "exact", "2"),
        ({}, "estimated", "1"),
        ({"counts": Counts(200_000, plain_output_tokens=800_000), "requests": 9}, "exact", "1"),  # none can be above
        ({"counts": None}, "unknown", None),
    ],
)
def test_a_bucket_is_exact_only_where_all_its_requests_would_be_priced_alike(
    ledger: Ledger, put: Import, dated: Catalog, changes: dict[str, Any], status: str, cost: str | None
) -> None:
    bucket = _record(1, **{"model": "long", "counts": MILLION, "end_us": OCTOBER_US + DAY_US, **changes})
    result = put([bucket], price_list="contract", prices=dated)
    [row] = _stored(ledger, usage_buckets)
    assert row["cost_status"] == status
    assert result.list_cost == (() if cost is None else (Amount("USD", Decimal(cost)),))
    assert (result.buckets, result.requests_unknown) == (1, int("requests" not in changes))


def test_a_bucket_in_which_the_price_changes_is_estimated_at_its_start(
    ledger: Ledger, put: Import, dated: Catalog
) -> None:
    bucket = _record(1, counts=MILLION, end_us=OCTOBER_US + DAY_US, requests=1_000)
    result = put([bucket], price_list="contract", prices=dated)
    assert _stored(ledger, usage_buckets)[0]["cost_status"] == "estimated"
    assert result.list_cost == (Amount("USD", Decimal(1)),)


@BOTH
def test_a_bucket_that_is_not_over_is_rejected_unless_it_is_wanted(put: Import) -> None:
    bucket = _record(1, end_us=OCTOBER_US + DAY_US, requests=5)
    noon = OCTOBER_US + DAY_US // 2
    with pytest.raises(RouterError, match="is a bucket that ends at 2026-10-02 00:00Z and is not over yet"):
        put([bucket], now_us=noon)
    assert put([bucket], now_us=noon, allow_open=True).added == 1
    grown = bucket._replace(counts=Counts(9_000), requests=50)
    assert (put([grown], file="later").added, put([grown], file="later").differing) == (0, 1)


def test_a_request_of_the_future_is_rejected(put: Import) -> None:
    with pytest.raises(RouterError, match="is of 2026-10-01 00:00Z, which is in the future"):
        put([_record(1)], now_us=OCTOBER_US - DAY_US)
    assert put([_record(1)], now_us=OCTOBER_US - 60_000_000).added == 1  # clocks differ


@BOTH
def test_what_was_bought_under_terms_is_settled_so(ledger: Ledger, put: Import) -> None:
    relay = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
    terms = ((0, Terms()), (OCTOBER_US + DAY_US, relay))
    records = [_record(1), _record(2, at_us=OCTOBER_US + DAY_US), _record(3, end_us=OCTOBER_US + DAY_US, requests=2)]
    assert put(records, terms=terms).added == 3
    # One dollar of list price is one yuan from the second day on: 0.0028 USD become 0.0028 CNY.
    rows = sorted(_stored(ledger), key=lambda row: int(row["started_us"]))
    assert [(row["settled_currency"], row["settled_micro"]) for row in rows] == [("USD", 2_800), ("CNY", 2_800)]
    found = [ledger.reader.attempt(row["attempt_id"]) for row in rows]
    assert [attempt.ended.terms for attempt in found if attempt and attempt.ended] == [Terms(), relay]
    assert put(records, terms=terms).added == 0


@BOTH
def test_an_import_is_taken_back_whole(ledger: Ledger, put: Import) -> None:
    first = put([_record(n) for n in range(4)], terms=((0, Terms(discount_share=Decimal("0.5"))),))
    second = put([_record(n) for n in range(2, 6)] + [_record(9, end_us=OCTOBER_US + DAY_US)], file="other")
    found = ledger.transact(list_imports)
    assert {(row.file_name, row.rows) for row in found} == {("file", 4), ("other", 3)}
    assert find_import(found, "file", None).import_id == first.import_id
    assert find_import(found, "renamed", "other").import_id == second.import_id
    with pytest.raises(WrongUsage, match="'nothing' is not on record") as caught:
        find_import(found, "nothing", None)
    assert first.import_id in str(caught.value.hint)
    [group] = ledger.reader.usage_groups(*ALL)
    assert (group.sums["attempts"], group.sums["records"]) == (6, 7)
    assert ledger.transact(lambda connection: undo_import(connection, first.import_id)) == 4
    [group] = ledger.reader.usage_groups(*ALL)
    assert (group.sums["attempts"], group.sums["uncached_input_tokens"]) == (2, 3_000)
    assert put([_record(n) for n in range(4)]).added == 4


def test_a_file_killed_between_two_transactions_is_completed_by_the_next(url: str, put: Import) -> None:
    code = """
import os, signal, sys
from pricing import load_catalog
from router.ledger import open_ledger
from router.ledger.importers.booking import Booking
from router.ledger.importers.importing import *
from router.ledger.importers.record import Counts, Record
from router.ledger.importers.source import ReadOptions, Source
records = [Record(n + 1, 1_790_812_800_000_000 + n, "gpt-4.1", Counts(n)) for n in range(35_000)]
pieces = []
def kill(done, total):
    pieces.append(done)
    if len(pieces) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
booking = Booking("theirs")
origin = Origin("file", "file", lambda: iter(records))
source = Source("test", "test", bool, "", None)
taken = import_of(source, origin, booking, ReadOptions(now_us=0))
import_records(open_ledger(sys.argv[1]), origin, taken, booking, load_catalog(), Watch(kill), in_one_transaction=20_000)
"""
    ended = subprocess.run([sys.executable, "-c", code, url], check=False, timeout=60, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    records = [Record(n + 1, OCTOBER_US + n, "gpt-4.1", Counts(n)) for n in range(35_000)]
    with open_ledger(url) as ledger:
        [group] = ledger.reader.usage_groups(*ALL)
        assert group.sums["attempts"] == 20_000  # the first transaction, whole
        result = put(records, to=ledger)
        assert (result.rows, result.added, result.skipped) == (35_000, 15_000, 20_000)
        [group] = ledger.reader.usage_groups(*ALL)
        assert group.sums["uncached_input_tokens"] == 35_000 * 34_999 // 2


@BOTH
def test_a_file_that_fails_half_way_rolls_the_transaction_back(ledger: Ledger, put: Import) -> None:
    def broken() -> Iterable[Found]:
        yield from (_record(n) for n in range(10_000))
        raise WrongUsage("the file is gone")

    booking = Booking("theirs")
    origin = Origin("gone", "gone", lambda: iter(broken()))
    taken = import_of(SOURCE, origin, booking, ReadOptions(now_us=0))
    with pytest.raises(WrongUsage, match="the file is gone"):
        import_records(ledger, origin, taken, booking, load_catalog())
    assert _stored(ledger) == []
    assert ledger.transact(list_imports) == ()
    assert put([_record(1)]).added == 1


def test_ids_sort_by_day_and_are_the_same_everywhere(ledger: Ledger, put: Import) -> None:
    put([_record(n, at_us=OCTOBER_US + (3 - n) * DAY_US) for n in range(3)])
    rows = sorted(_stored(ledger), key=lambda row: str(row["attempt_id"]))
    assert [row["day"] for row in rows] == [20_728, 20_729, 20_730]
    # The day's start in milliseconds as 12 hexadecimal digits; the version is 8, the variant 8 (binary 10).
    first = rows[0]["attempt_id"]
    assert first.startswith(f"{20_728 * 86_400_000:012x}"[:8] + "-" + f"{20_728 * 86_400_000:012x}"[8:] + "-8")
    assert first[19] == "8"
