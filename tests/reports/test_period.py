"""Months in time zones: bounds worked out by hand from each zone's offset, and days that partition a month."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.period import (
    QUARTER_HOUR_US,
    at_us,
    day_parts,
    days_between,
    last_days,
    local_date,
    month_bounds,
    named_month,
    no_rows,
    period_before,
    time_zone,
    to_us,
    utc_day,
)
from router.errors import RouterError, WrongUsage

ZONES = (
    "UTC",
    "Asia/Tokyo",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "America/New_York",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "Pacific/Apia",
    "America/Asuncion",
)
NOW = datetime(2026, 11, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("month", "zone", "start", "end"),
    [
        ("2026-10", "UTC", "2026-10-01T00:00", "2026-11-01T00:00"),
        ("2026-10", "Asia/Tokyo", "2026-09-30T15:00", "2026-10-31T15:00"),  # +9:00
        ("2026-10", "Asia/Kathmandu", "2026-09-30T18:15", "2026-10-31T18:15"),  # +5:45
        ("2026-10", "Europe/Berlin", "2026-09-30T22:00", "2026-10-31T23:00"),  # +2:00, from 25 October +1:00
        ("2026-03", "America/New_York", "2026-03-01T05:00", "2026-04-01T04:00"),  # -5:00, from 8 March -4:00
        ("2026-12", "UTC", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("2024-02", "UTC", "2024-02-01T00:00", "2024-03-01T00:00"),
        # Paraguay put its clocks forward at midnight of 1 October 2017: the month starts at 01:00 there, 04:00 UTC.
        ("2017-10", "America/Asuncion", "2017-10-01T04:00", "2017-11-01T03:00"),
    ],
)
def test_bounds_are_midnights_of_the_zone(month: str, zone: str, start: str, end: str) -> None:
    expected = [to_us(datetime.fromisoformat(instant).replace(tzinfo=UTC)) for instant in (start, end)]
    assert list(month_bounds(month, ZoneInfo(zone))) == expected


@pytest.mark.parametrize("month", ["2026-13", "2026-1", "26-10", "october", "", "0000-01", "9999-12", "2026-10-01"])
def test_what_is_no_month_is_refused_with_what_is(month: str) -> None:
    with pytest.raises(WrongUsage, match=r"month: .* is not allowed; YYYY-MM, last and this are") as caught:
        month_bounds(month, ZoneInfo("UTC"))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "zone", "expected"),
    [
        (None, "UTC", "2026-11"),
        ("this", "UTC", "2026-11"),
        ("this", "America/New_York", "2026-10"),  # 3:00 UTC on the 1st is 23:00 on 31 October there
        ("last", "UTC", "2026-10"),
        ("last", "America/New_York", "2026-09"),
        ("2025-01", "UTC", "2025-01"),
    ],
)
def test_this_and_last_are_of_the_zone(name: str | None, zone: str, expected: str) -> None:
    assert named_month(name, ZoneInfo(zone), NOW).name == expected


def test_the_month_before_january_is_december() -> None:
    assert named_month("last", ZoneInfo("UTC"), datetime(2026, 1, 31, tzinfo=UTC)).name == "2025-12"


@given(st.sampled_from(ZONES), st.integers(1990 * 12, 2040 * 12))
def test_law_months_of_a_zone_follow_each_other_without_gap_or_overlap(zone: str, number: int) -> None:
    names = [f"{month // 12}-{month % 12 + 1:02}" for month in (number, number + 1)]
    first, second = (month_bounds(name, ZoneInfo(zone)) for name in names)
    assert first[0] < first[1] == second[0] < second[1]


@given(st.sampled_from(ZONES), st.integers(20 * 365 * 96, 70 * 365 * 96))
def test_law_a_quarter_hour_lies_in_one_day_and_one_month_of_every_zone(zone: str, quarter_hour: int) -> None:
    instant = at_us(quarter_hour * QUARTER_HOUR_US + 1)
    local = instant.astimezone(ZoneInfo(zone))
    assert local_date(quarter_hour * QUARTER_HOUR_US, ZoneInfo(zone)) == local.date()
    start, end = month_bounds(f"{local:%Y-%m}", ZoneInfo(zone))
    assert start <= quarter_hour * QUARTER_HOUR_US
    assert (quarter_hour + 1) * QUARTER_HOUR_US <= end


def test_days_and_instants_count_from_1970() -> None:
    assert utc_day(0) == date(1970, 1, 1)
    assert utc_day(20_727) == date(2026, 10, 1)  # 56 years of 365 days, 14 leap days, 273 days: 20,440 + 14 + 273
    assert at_us(20_727 * 86_400_000_000 + 1) == datetime(2026, 10, 1, tzinfo=UTC) + timedelta(microseconds=1)


def test_a_zone_that_does_not_exist_names_near_ones() -> None:
    with pytest.raises(WrongUsage, match=r"time zone: 'Asia/Tokio' does not exist; did you mean Asia/Tokyo"):
        time_zone("Asia/Tokio")


@pytest.mark.parametrize("name", ["../etc/passwd", "", "/etc/localtime", "UTC\0"])
def test_a_zone_is_never_a_path(name: str) -> None:
    with pytest.raises(WrongUsage, match="time zone"):
        time_zone(name)


def test_a_month_without_rows_names_those_with_some() -> None:
    month = named_month("2026-09", ZoneInfo("UTC"), NOW)
    error = no_rows(month, ["2026-10", "2026-08"])
    assert type(error) is RouterError
    assert error.exit_code == 1
    assert str(error) == "month: the ledger has no rows in 2026-09 (UTC); it has rows in 2026-08, 2026-10"
    assert "router run" in (no_rows(month, []).hint or "")
    # A page of whole days alone may have none in a month that has rows: today's.
    today = str(no_rows(month, [month.name]))
    assert today.startswith(f"month: the ledger has no rows in the days that are over of {month.name} (")


@pytest.mark.parametrize(
    ("length", "first"),
    [("1d", "2026-11-01"), ("7d", "2026-10-26"), ("4w", "2026-10-05"), ("1m", "2026-11-01"), ("3m", "2026-09-01")],
)
def test_the_last_days_end_with_today(length: str, first: str) -> None:
    period = last_days(length, ZoneInfo("UTC"), NOW)
    assert (f"{period.first_day}", f"{period.last_day}") == (first, "2026-11-01")
    assert last_days(length, ZoneInfo("America/New_York"), NOW).last_day == date(2026, 10, 31)  # 23:00 there


@pytest.mark.parametrize("length", ["", "7", "d", "0d", "-1d", "7y", "1.5d", "99999d", "9999m", "9999w", "\u0667d"])
def test_what_is_no_length_is_refused(length: str) -> None:
    with pytest.raises(WrongUsage, match=r"--last: .* is not allowed") as caught:
        last_days(length, ZoneInfo("UTC"), NOW)
    assert "--last 7d" in (caught.value.hint or "")


def test_days_are_both_in_the_period() -> None:
    period = days_between(date(2026, 10, 25), date(2026, 10, 25), ZoneInfo("Europe/Berlin"))
    assert (period.end_us - period.start_us) // 3_600_000_000 == 25  # the clocks are put back
    assert period.name == "2026-10-25"
    with pytest.raises(WrongUsage, match="period: 2026-10-01 is before 2026-10-02"):
        days_between(date(2026, 10, 2), date(2026, 10, 1), ZoneInfo("UTC"))


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-12-05T00:00", "2026-11-01T00:00"),  # over: all of October
        ("2026-11-14T09:31", "2026-10-14T09:45"),  # the same day and time, up to a whole quarter hour
        ("2026-11-01T00:00", "2026-10-01T00:00"),
    ],
)
def test_a_month_is_held_against_the_same_days_of_the_one_before(now: str, end: str) -> None:
    at = datetime.fromisoformat(now).replace(tzinfo=UTC)
    before = period_before(named_month("2026-11", ZoneInfo("UTC"), at), at)
    assert at_us(before.start_us) == datetime(2026, 10, 1, tzinfo=UTC)
    assert at_us(before.end_us) == datetime.fromisoformat(end).replace(tzinfo=UTC)


def test_a_long_month_is_held_against_all_of_a_short_one() -> None:
    at = datetime(2026, 3, 30, 12, tzinfo=UTC)
    before = period_before(named_month("2026-03", ZoneInfo("UTC"), at), at)
    assert (before.name, before.last_day) == ("2026-02", date(2026, 2, 28))


def test_days_are_held_against_as_many_before() -> None:
    week = days_between(date(2026, 10, 5), date(2026, 10, 11), ZoneInfo("UTC"))
    assert period_before(week, NOW).name == "2026-09-28 to 2026-10-04"


# From 2012 on: until 2011 clocks in Newfoundland went back at 00:01, so that a minute of a day lay before the end of
# the day before it (IANA tz database), and days were no spans.
@given(st.sampled_from(ZONES), st.integers(2012 * 12, 2040 * 12), st.booleans())
def test_law_parts_of_days_partition_a_month(zone: str, number: int, hours: bool) -> None:  # noqa: FBT001
    month = named_month(f"{number // 12}-{number % 12 + 1:02}", ZoneInfo(zone), NOW)
    parts = day_parts(month.start_us, month.end_us, month.zone, hours=hours)
    assert (parts[0].start_us, parts[-1].end_us) == (month.start_us, month.end_us)
    for part, after in zip(parts, (*parts[1:], None), strict=True):
        assert after is None or part.end_us == after.start_us
        for instant in (part.start_us, part.end_us - 1):
            local = at_us(instant).astimezone(month.zone)
            assert (local.date(), at_us(instant).date()) == (part.day, part.utc_day)
            assert not hours or local.hour == part.hour
        assert part.start_us % QUARTER_HOUR_US == 0


def test_a_future_period_says_so() -> None:
    month = named_month("2030-01", ZoneInfo("UTC"), NOW)
    assert str(no_rows(month, ["2026-10"], NOW)).startswith(
        "month: 2030-01 (UTC) is in the future, and the ledger has no"
    )
