"""Values of other people's files: read exactly, or refused with the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from router.ledger.importers.record import BadRecordError
from router.ledger.importers.values import cost, counts, instant, part_of, plain_counts, whole

OCTOBER_US = 1_790_812_800_000_000


@pytest.mark.parametrize(
    ("value", "thousands", "expected"),
    [
        (12, None, 12),
        ("12", None, 12),
        ("12.0", None, 12),
        (Decimal(12), None, 12),
        (12.0, None, 12),
        ("1e3", None, 1000),
        (" 7 ", None, 7),
        ("1,234", "comma", 1234),
        ("1,234,567", "comma", 1_234_567),
        ("1.234", "dot", 1234),
        ("1.234.567", "dot", 1_234_567),
        ("1 234", "space", 1234),
        ("1\u202f234\u00a0567", "space", 1_234_567),
        ("12", "comma", 12),
    ],
)
def test_a_whole_number_is_read(value: Any, thousands: Any, expected: int) -> None:
    assert whole(value, "n", thousands) == expected


@pytest.mark.parametrize(
    ("value", "thousands", "reason"),
    [
        ("1,234", None, "n is '1,234'; a number without signs between its thousands is allowed .*--thousands"),
        ("1.234", None, "without signs between its thousands"),
        ("1.000", None, "without signs between its thousands"),
        ("1 234", None, "without signs between its thousands"),
        ("1'234", None, "without signs between its thousands"),
        ("12,5", None, "a decimal point is allowed, no decimal comma"),
        ("1,23", "comma", "thousands are set apart by threes"),
        ("1.5", None, "a whole number is allowed"),
        (1.5, None, "a whole number is allowed"),
        (-1, None, "a whole number from 0"),
        ("-1", None, "a whole number from 0"),
        (10**14 + 1, None, "a whole number from 0 to 100,000,000,000,000"),
        ("9" * 5000, None, "a whole number from 0"),
        (True, None, "a number is allowed"),
        (None, None, "a number is allowed"),
        ([], None, "a number is allowed"),
        ("ten", None, "a number is allowed"),
        ("\u0661", None, "a number is allowed"),
        ("1_000", None, "a number is allowed"),
        ("NaN", None, "a finite number"),
        (float("inf"), None, "a finite number"),
    ],
)
def test_what_is_no_count_is_refused(value: Any, thousands: Any, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        whole(value, "n", thousands)


def test_a_column_is_read_as_its_values_are() -> None:
    assert counts(["1", "22"], "n") == [1, 22]
    assert counts(["1", "", "3.0"], "n") == [1, None, 3]
    assert plain_counts(["1", " 2"]) is None
    assert plain_counts([1, True]) is None
    assert plain_counts([1, -1]) is None
    with pytest.raises(BadRecordError, match=r"n is '1,000'"):
        counts(["1", "1,000"], "n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0.5", "0.5"), ("$1.25", "1.25"), ("1.234", "1.234"), (0.1, "0.1"), ("1e-13", "0"), (Decimal("2e-12"), "2e-12")],
)
def test_money_is_what_is_written(value: Any, expected: str) -> None:
    assert cost(value, "cost") == Decimal(expected)


@pytest.mark.parametrize("value", ["-0.1", "0,5", "1,000.50", "1e13", "x", None])
def test_what_is_no_money_is_refused(value: Any) -> None:
    with pytest.raises(BadRecordError, match="cost is"):
        cost(value, "cost")


@pytest.mark.parametrize(
    "value",
    [
        "2026-10-01T00:00:00Z",
        "2026-10-01 02:00:00+02:00",
        "2026-10-01 00:00:00.000000+00",
        "2026-10-01 00:00:00 UTC",
        "1790812800",
        1790812800,
        1790812800.0,
        "1790812800000",
        1790812800000000,
        1790812800000000000,
        "1790812800.0",
        datetime(2026, 10, 1, tzinfo=UTC),
    ],
)
def test_an_instant_is_told_in_many_ways(value: Any) -> None:
    assert instant(value, "at") == OCTOBER_US


def test_an_instant_without_a_zone_is_of_the_one_that_is_stated() -> None:
    # Tokyo is 9 h ahead, Kolkata 5.5 h.
    assert instant("2026-10-01T09:00:00", "at", ZoneInfo("Asia/Tokyo")) == OCTOBER_US
    assert instant("2026-10-01T05:30:00", "at", ZoneInfo("Asia/Kolkata")) == OCTOBER_US
    assert instant("2026-10-01T00:00:00Z", "at", ZoneInfo("Asia/Tokyo")) == OCTOBER_US
    assert instant("2026-10-01T00:00:00.000001", "at", UTC) == OCTOBER_US + 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2026-10-01T00:00:00", "without a zone; --timezone states it"),
        ("yesterday", "a date and time is allowed"),
        ("01/10/2026", "a date and time is allowed"),
        ("", "a date and time is allowed"),
        (0, "an instant from 2000 to 2200"),
        (12345, "an instant from 2000 to 2200"),
        ("1970-01-01T00:00:00Z", "an instant from 2000 to 2200"),
        (None, "a number is allowed"),
    ],
)
def test_what_is_no_instant_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(BadRecordError, match=reason):
        instant(value, "at")


def test_parts_are_never_more_than_the_whole() -> None:
    assert part_of(10, 3, 4, name="input") == 3
    with pytest.raises(BadRecordError, match=r"input is 5, less than its parts \(3 \+ 4\)"):
        part_of(5, 3, 4, name="input")
