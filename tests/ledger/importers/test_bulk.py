"""Many rows at once are held to the same rules as one: every constraint of the table, seen to refuse."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from pricing.usage import BUCKETS
from router.errors import LedgerError
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.bulk_insert import Same, insert_columns
from router.ledger.importers.instants import plain_instants
from router.ledger.importers.record import BadRecordError
from router.ledger.importers.tally import ImportResult
from router.ledger.importers.values import instant
from router.ledger.tables import attempts, imports

BOTH = pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
OCTOBER_US = 1_790_812_800_000_000
IMPORT_ID = "00000000-0000-4000-8000-000000000001"
SIZE = 7

Take = Callable[..., ImportResult]
Write = Callable[..., Path]


def _columns(**changes: Any) -> dict[str, Any]:
    """Return the columns of seven sound rows; a change holds for the row in the middle."""
    ids = [new_id() for _ in range(SIZE)]
    plain: dict[str, Any] = {
        "call_key": "",
        "number": 1,
        "origin": "imported",
        "import_id": IMPORT_ID,
        "role": "single",
        "endpoint": "theirs",
        "price_list": "openai",
        "model_asked": "gpt-4.1",
        "status": "succeeded",
        "started_us": OCTOBER_US,
        "day": OCTOBER_US // 86_400_000_000,
        "quarter_hour": OCTOBER_US // 900_000_000,
        "queue_us": 0,
        **dict.fromkeys(BUCKETS, 5),
        "usage_estimated": False,
        "cost_status": "exact",
        "possibly_billed": False,
        **{f"{name}_currency": "USD" for name in ("cost", "settled")},
        **{f"{name}_{part}": 0 for name in ("cost", "settled", "reported_usd") for part in ("micro", "pico")},
    }
    columns = {name: [value] * SIZE for name, value in plain.items()} | {"attempt_id": ids}
    columns["call_key"] = [f"import:{each}" for each in ids]
    for name, value in changes.items():
        columns.setdefault(name, [None] * SIZE)[SIZE // 2] = value
    return columns


def _put(ledger: Ledger, columns: dict[str, Any]) -> int:
    def job(connection: sa.Connection) -> int:
        names = ("format", "file_name", "file_sha256", "model", "price_list")
        row = {"import_id": IMPORT_ID, "start_us": 0, **dict.fromkeys(names, "x")}
        if not connection.execute(sa.select(imports.c.import_id)).first():
            connection.execute(sa.insert(imports), row)
        return insert_columns(connection, columns)

    return ledger.transact(job)


BROKEN: dict[str, dict[str, Any]] = {
    "ck_attempts_status": {"status": "lost"},
    "ck_attempts_role": {"role": "boss"},
    "ck_attempts_cost_status": {"cost_status": "guessed"},
    "ck_attempts_origin": {"origin": "dreamt"},
    "ck_attempts_number": {"number": 0},
    "ck_attempts_completed": {"cost_status": None},
    "ck_attempts_import": {"import_id": None},
    "ck_attempts_usage": {"plain_output_tokens": -1},
    "ck_attempts_whole_usage": {"reasoning_tokens": None},
    "ck_attempts_cost": {"cost_pico": 1_000_000},
    "ck_attempts_settled": {"settled_micro": -1},
    "ck_attempts_reported_usd": {"reported_usd_pico": None},
    "ck_attempts_reserved_usd": {"reserved_usd_micro": 1},
    "ck_attempts_cost_currency": {"cost_currency": None},
    "ck_attempts_settled_currency": {"settled_currency": None},
    "fk_attempts_imports": {"import_id": new_id()},
    "fk_attempts_runs": {"run_id": new_id()},
    "fk_attempts_price_sets": {"price_set_id": "none of that name"},
    "fk_attempts_tag_sets": {"tags_id": "none of that name"},
    "fk_attempts_plan_steps": {"run_id": new_id(), "step_id": "1"},
    "not null": {"endpoint": None},
}


def test_every_rule_of_the_table_has_a_row_that_breaks_it() -> None:
    rules = {str(rule.name) for rule in attempts.constraints if isinstance(rule, sa.CheckConstraint)}
    keys = {str(rule.name) for rule in attempts.constraints if isinstance(rule, sa.ForeignKeyConstraint)}
    assert rules | keys <= BROKEN.keys()


@BOTH
@pytest.mark.parametrize("rule", BROKEN)
def test_one_row_among_many_that_breaks_a_rule_lets_none_in(ledger: Ledger, rule: str) -> None:
    with pytest.raises(LedgerError, match="constraint"):
        _put(ledger, _columns(**BROKEN[rule]))
    assert ledger.transact(lambda connection: connection.execute(sa.select(attempts)).all()) == []
    assert _put(ledger, _columns()) == SIZE


@given(st.sampled_from([name for name in BROKEN if name.startswith("ck_")]), st.integers(1, 2_500), st.data())
def test_a_row_that_breaks_a_rule_is_found_wherever_it_stands(rule: str, size: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, size - 1))
    [columns] = [{name: [column[0]] * size for name, column in _columns().items()}]
    columns["attempt_id"] = [new_id() for _ in range(size)]
    columns["call_key"] = [f"import:{each}" for each in columns["attempt_id"]]
    for name, value in BROKEN[rule].items():
        columns.setdefault(name, [None] * size)[place] = value
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        for table in attempts.metadata.sorted_tables:
            table.create(connection)
        with pytest.raises((sqlite3.IntegrityError, sa.exc.IntegrityError), match=rule):
            insert_columns(connection, columns)


@BOTH
def test_a_constant_column_is_the_same_as_one_with_equal_values(ledger: Ledger) -> None:
    columns = _columns()
    constants = {name: Same(column[0]) if len(set(column)) == 1 else column for name, column in columns.items()}
    assert _put(ledger, constants) == SIZE
    assert _put(ledger, columns) == 0  # the same ids
    rows = ledger.transact(lambda connection: connection.execute(sa.select(attempts)).mappings().all())
    assert {tuple((name, row[name]) for name in ("endpoint", "number", "role", "usage_estimated")) for row in rows} == {
        (("endpoint", "theirs"), ("number", 1), ("role", "single"), ("usage_estimated", False))
    }
    assert sorted(row["attempt_id"] for row in rows) == sorted(columns["attempt_id"])


def test_a_column_that_does_not_exist_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="column 'x; DROP TABLE attempts': attempts have none of that name"):
        _put(ledger, {"x; DROP TABLE attempts": Same(1), **_columns()})


def test_after_an_import_the_database_is_sound(url: str, take: Take, write: Write) -> None:
    """Every rule is looked at again by SQLite itself, apart from the insert; 2,345 rows are no whole statement."""
    head = "id,started,model,input_tokens,cache_read_tokens,output_tokens,tenant,latency_ms,status,cost_usd\n"
    lines = [
        f"r{n},2026-10-{n % 28 + 1:02}T00:00:00Z,{('gpt-4.1', 'gpt-5', 'unheard of')[n % 3]},{n},{n // 2},{n * 3},"
        f"Zürich {n % 5},{n},{('succeeded', 'failed', 'timed_out')[n % 3]},{n / 1000}\n"
        for n in range(2_345)
    ]
    with open_ledger(url) as ledger:
        assert take(ledger, "generic", write(head + "".join(lines))).added == 2_345
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]  # indexes, NOT NULL, UNIQUE, CHECK
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        for rule in attempts.constraints:
            if isinstance(rule, sa.CheckConstraint):
                broken = f"SELECT count(*) FROM attempts WHERE NOT ({rule.sqltext})"  # noqa: S608 - our own rules
                assert connection.execute(broken).fetchone() == (0,), rule.name


FORMS = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%fZ", "%Y-%m-%dT%H:%M:%S.%f+00:00"]
ODD = ["2026-02-30T00:00:00Z", "2026-10-01T24:00:00Z", "2026-10-01T00:60:00Z", "2026-1O-01T00:00:00Z", "", "now", "NaT"]
INSTANTS = st.datetimes(datetime(1999, 12, 31), datetime(2200, 1, 2))  # noqa: DTZ001 - written in UTC


@given(
    st.one_of(
        st.tuples(st.lists(INSTANTS, min_size=1, max_size=9), st.sampled_from(FORMS)).map(
            lambda drawn: [f"{at:{drawn[1]}}" for at in drawn[0]]
        ),
        st.lists(st.sampled_from([*ODD, "2026-10-01T00:00:00Z", "2026-10-01T00:00:01Z"]), min_size=1, max_size=3),
        st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3),
        st.lists(st.integers(1_700_000_000, 1_800_000_000).map(str), min_size=1, max_size=5),
    ),
    st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30))]),
)
def test_instants_together_are_what_each_is_alone(values: Sequence[Any], zone: Any) -> None:
    found = plain_instants(values, zone)
    if found is not None:
        assert found == [instant(value, "started", zone) for value in values]


def test_instants_of_one_form_are_read_together() -> None:
    assert plain_instants(["2026-10-01T00:00:00.500Z"] * 2, None) == [OCTOBER_US + 500_000] * 2
    assert plain_instants(["2026-10-01 00:00:00"], UTC) == [OCTOBER_US]
    assert plain_instants(["1790812800000"], None) == plain_instants([1_790_812_800], None) == [OCTOBER_US]
    for value in ("2026-10-01 00:00:00", *ODD):
        assert plain_instants([value], None) is None
    with pytest.raises(BadRecordError):
        instant("2026-02-30T00:00:00Z", "started")
