"""Data frames for notebooks: columns, dtypes, exact amounts, and the documented example."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import reports
from pricing import Catalog, FxTable, Terms, Usage
from reports import attempts_frame, daily_frame, focus_frame, month_frame, month_report, table_frame
from router.errors import WrongUsage
from router.ledger import Ledger, open_ledger
from tests.reports.scenes import Scene, write

AT = datetime(2026, 10, 3, 23, 30, tzinfo=UTC)
MILLION = Usage(uncached_input_tokens=1_000_000)  # gpt-4.1: 2 USD
RELAY = Terms(settlement_currency="CNY", settlement_rate=Decimal(1))
OCTOBER = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))


@pytest.fixture
def filled(ledger: Ledger, catalog: Catalog) -> Ledger:
    write(
        ledger,
        catalog,
        Scene(at=AT, usage=MILLION, tenant="acme", tags={"team": "x"}, ttft_us=7),
        Scene(at=AT + timedelta(hours=1), usage=MILLION, tenant="acme", terms=RELAY),
        Scene(at=AT, usage=None, model="nobody-knows"),
    )
    return ledger


def test_one_row_an_attempt_with_documented_dtypes(filled: Ledger) -> None:
    frame = attempts_frame(filled, *OCTOBER)
    dtypes = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert {name: dtypes[name] for name in ("tenant", "tags", "uncached_input_tokens", "possibly_billed")} == {
        "tenant": "string",
        "tags": "string",
        "uncached_input_tokens": "Int64",
        "possibly_billed": "boolean",
    }
    assert (dtypes["started_at"], dtypes["settled_cost"]) == ("datetime64[us, UTC]", "object")
    assert list(frame["started_at"]) == [AT, AT, AT + timedelta(hours=1)]
    costs = {(code, cost) for code, cost in zip(frame["settled_currency"], frame["settled_cost"], strict=True) if cost}
    assert costs == {("USD", Decimal(2)), ("CNY", Decimal(2))}
    assert frame["settled_cost"].isna().sum() == frame["uncached_input_tokens"].isna().sum() == 1
    assert sorted(frame["ttft_us"].dropna()) == [7]
    assert len(attempts_frame(filled.reader, *OCTOBER)) == 3


def test_the_bounds_are_half_open_and_need_a_zone(filled: Ledger) -> None:
    assert len(attempts_frame(filled, AT, AT + timedelta(hours=1))) == 2
    assert attempts_frame(filled, AT - timedelta(hours=1), AT).empty
    with pytest.raises(WrongUsage, match="has no zone"):
        attempts_frame(filled, datetime(2026, 10, 1), AT)  # noqa: DTZ001 - that is what is refused


def test_a_months_sums_by_group_and_currency(filled: Ledger) -> None:
    frame = month_frame(filled, "2026-10", by=("tenant",))
    rows = {
        (_plain(row["tenant"]), _plain(row["settled_currency"])): (
            row["records"],
            row["list_cost"],
            row["settled_cost"],
        )
        for _, row in frame.iterrows()
    }
    assert rows == {
        ("acme", "USD"): (1, Decimal(2), Decimal(2)),
        ("acme", "CNY"): (1, Decimal(2), Decimal(2)),
        (None, None): (1, None, None),
    }
    assert str(frame["calls"].dtype) == "Int64"
    assert month_frame(filled, "2026-09", by=()).empty
    with pytest.raises(WrongUsage, match="group"):
        month_frame(filled, "2026-10", by=("flavour",))
    with pytest.raises(WrongUsage, match="daily_frame"):
        month_frame(filled, "2026-10", by=("day",))


def test_days_are_those_of_the_time_zone(filled: Ledger) -> None:
    in_utc = daily_frame(filled, *OCTOBER)
    assert str(in_utc["day"].dtype) == "datetime64[us]"
    assert sorted({f"{day:%m-%d}" for day in in_utc["day"]}) == ["10-03", "10-04"]
    behind = daily_frame(filled, *OCTOBER, time_zone_name="America/New_York")
    assert {f"{day:%m-%d}" for day in behind["day"]} == {"10-03"}
    assert sum(behind["records"]) == sum(in_utc["records"]) == 3
    assert [sum(frame["settled_cost"].dropna()) for frame in (behind, in_utc)] == [Decimal(4)] * 2


def test_focus_and_pages_as_frames(filled: Ledger, catalog: Catalog, fx: FxTable) -> None:
    focus = focus_frame(filled, "2026-10", fx, catalog)
    assert list(focus["BilledCost"]) == [Decimal(2), Decimal(2)]
    assert set(focus["BillingCurrency"]) == {"USD", "CNY"}
    page = month_report(
        filled.reader,
        month="2026-10",
        by="tenant",
        currency="USD",
        time_zone_name="UTC",
        fx=fx,
        catalog=catalog,
        now=OCTOBER[1],
    )
    lines = table_frame(page)
    table = page.table("lines")
    assert len(lines) == len(table.rows)
    total = table.total_of("list_cost")
    assert isinstance(total, reports.Money)
    assert sum(value for value in lines["list_cost"] if value is not None) == total.value == Fraction(4)
    assert set(lines["list_cost_currency"].dropna()) == {"USD"}


def test_sums_past_64_bits_and_past_nine_million_dollars(ledger: Ledger, catalog: Catalog) -> None:
    huge = Usage(uncached_input_tokens=10**13)  # 20 million dollars
    write(ledger, catalog, *(Scene(at=AT, usage=huge, reserved_usd=Decimal("1e-12")) for _ in range(3)))
    assert list(month_frame(ledger, "2026-10", by=())["settled_cost"]) == [Decimal(60_000_000)]
    assert attempts_frame(ledger, *OCTOBER)["settled_cost"].sum() == Decimal(60_000_000)


def test_the_documented_example_runs(tmp_path: Path, project: Path, catalog: Catalog) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with open_ledger(url) as ledger:
        write(ledger, catalog, Scene(at=OCTOBER[0] + timedelta(hours=1), usage=MILLION, tenant="acme"))
    text = (project / "docs" / "exports.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    space: dict[str, Any] = {"url": url}
    exec(example, space)  # noqa: S102 - the documentation's own words
    assert space["by_tenant"]["acme", "USD"] == Decimal(2)
    assert len(space["days"]) == len(space["slowest"]) == 1


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else None
