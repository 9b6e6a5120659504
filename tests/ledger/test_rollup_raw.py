"""Raw attempts as arrays are what the rows say, whatever their numbers, and sums of them are exact."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from router.errors import LedgerError
from router.ledger import Ledger
from router.ledger.records import Import, ImportedAttempt
from router.ledger.rollup_groups import exact, grouped
from router.ledger.rollup_raw import COLUMNS, COUNTED_BY, HEADS, NULL, raw_attempts
from router.ledger.rows import rows_of
from router.ledger.sums import SUM_NAMES

OCTOBER_US = 1_790_812_800_000_000  # 2026-10-01T00:00:00Z
QUARTER_US = 900_000_000
IMPORT = Import("00000000-0000-7000-8000-000000000001", "f", "n", "s", "m", "l", None, 0)
NUMBERS = (
    *(0, 1, 127, 128, 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xFFFC, 0xFFFD, 0xFFFE, 2**20 - 1, 2**20, 2**20 + 1),
    *(0x10FFFF, 0x110000, 0xFFFD << 20, (0xFFFD << 20) + 0xFFFD, (0x110000 << 20) - 1, 0x110000 << 20, 2**62),
)
"""What a digit may be, around the code points that mean something else, and what has more digits than it is given."""
TIMES = ("queue_us", "state_us", "network_us", "inference_us", "latency_us", "ttft_us")


def written(ledger: Ledger, sample: Any, changes: Sequence[dict[str, Any]]) -> None:
    """Write attempts of one key, a second apart, that differ in some columns."""
    ledger.write_now(IMPORT)
    made = []
    for at in range(len(changes)):
        started = sample.started(started_us=OCTOBER_US + at * 1_000_000, number=1)
        made.append(ImportedAttempt(IMPORT.import_id, started, sample.ended(started, http_status=200)))
    rows = [{**row, **change} for (_, row), change in zip(rows_of(made), changes, strict=True)]
    names = [name for name in rows[0] if not name.endswith("_digest")]
    ledger.insert_attempts(names, [tuple(row[name] for name in names) for row in rows])


def read(ledger: Ledger, rows: int) -> list[tuple[int, ...]]:
    """Return what is read as rows, but for the database's own number of each."""
    with ledger._engine.connect() as connection:  # noqa: SLF001 - behind the reader
        chunks = list(raw_attempts(connection, OCTOBER_US, OCTOBER_US + QUARTER_US, rows))
    return sorted(tuple(row[:-1]) for chunk in chunks for row in chunk.T.tolist())


def said(ledger: Ledger) -> list[tuple[int, ...]]:
    """Return what the rows say, NULL as it is promised."""
    is_marked = {name: name in HEADS or name in COUNTED_BY.values() or name == "latency_bucket" for name in COLUMNS}
    names = COLUMNS[:-1]
    with ledger._engine.connect() as connection:  # noqa: SLF001
        found = connection.execute(sa.text(f"SELECT {', '.join(names)} FROM attempts")).all()  # noqa: S608 - ours
    missing = [NULL if is_marked[name] else 0 for name in names]
    return sorted(
        tuple(none if value is None else value for value, none in zip(row, missing, strict=True)) for row in found
    )


@pytest.mark.parametrize("rows", [1, 10**9], ids=["as one text", "row by row"])
def test_every_number_is_read_as_it_is(ledger: Ledger, sample: Any, rows: int) -> None:
    numbers = [*NUMBERS, None]
    times = [dict.fromkeys(TIMES[1:], value) for value in numbers]
    usage = [{"cache_read_tokens": value, "uncached_input_tokens": value} for value in NUMBERS]
    written(ledger, sample, [*times, *usage, {"queue_us": -5, "ttft_us": -(2**63) + 1}])
    assert read(ledger, rows) == said(ledger)


@pytest.mark.parametrize("value", [*NUMBERS, None, -1])
def test_a_number_alone_is_read_as_it_is(ledger: Ledger, sample: Any, value: int | None) -> None:
    """Nothing else in the stretch asks for a second look."""
    written(ledger, sample, [{"latency_us": value}, {"network_us": value}, {}])
    assert read(ledger, 3) == said(ledger)
    tokens = value if value is None or value >= 0 else 7
    if tokens is not None:
        with ledger._engine.begin() as connection:  # noqa: SLF001 - a column of one digit
            connection.execute(sa.text(f"UPDATE attempts SET plain_output_tokens = {tokens}"))  # noqa: S608 - a number
        assert read(ledger, 3) == said(ledger)


def test_a_stretch_without_attempts_has_none(ledger: Ledger) -> None:
    assert read(ledger, 0) == []
    assert grouped([]).sums.shape == (0, len(SUM_NAMES))


# ---- sums

_ROW = st.fixed_dictionaries(
    {
        "quarter_hour": st.integers(0, 1),
        "start_digest": st.sampled_from([-(2**63) + 1, 0, 2**63 - 1]),
        "number": st.integers(1, 3),
        "latency_us": st.sampled_from([NULL, 0, 5, 2**40]),
        "settled_micro": st.integers(0, 2**60),
    }
)


@settings(max_examples=40)
@given(st.lists(_ROW, max_size=7), st.integers(1, 8))
def test_groups_add_up_whatever_the_chunks(rows: list[dict[str, int]], size: int) -> None:
    """The sums of all chunks are the sums of all rows: of each group, to the last digit."""
    table = np.array([[row.get(name, 0) for name in COLUMNS] for row in rows], np.int64).reshape(-1, len(COLUMNS)).T
    chunks = [table[:, at : at + size].copy() for at in range(0, len(rows), size)]
    found = grouped(chunks)
    told = {
        tuple(head): dict(zip(SUM_NAMES, sums, strict=True))
        for head, sums in zip(found.heads.tolist(), found.sums.tolist(), strict=True)
    }
    expected: dict[tuple[int, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        sums = expected[row["quarter_hour"], row["start_digest"], 0]
        is_timed = row["latency_us"] != NULL
        sums["attempts"] += 1
        sums["calls"] += row["number"] == 1
        sums["timed"] += is_timed
        sums["latency_us"] += row["latency_us"] if is_timed else 0
        sums["settled_micro"] += row["settled_micro"]
        sums["retried_settled_micro"] += row["settled_micro"] if row["number"] > 1 else 0
    assert len(found.heads) == len(told)
    assert {key: {name: sums[name] for name in expected[key]} for key, sums in told.items()} == expected


def test_sums_are_exact_to_the_last_of_64_bits() -> None:
    # 2^62 + (2^62 - 1) is the largest number of 64 bits.
    assert exact(np.array([[2**62, 2**62 - 1, 7]]), np.array([0, 2])).tolist() == [[2**63 - 1, 7]]
    with pytest.raises(LedgerError, match="a sum of a quarter hour is beyond 64 bits"):
        exact(np.array([[2**62, 2**62]]), np.array([0]))
