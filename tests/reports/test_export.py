"""Exported files: the law that every one adds up to the report and the ledger, formats, and the commands."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from io import BytesIO, StringIO
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import Catalog, FxTable, Usage
from reports import Money, month_bounds, month_report, named_month, time_zone
from reports.export_columns import RECORD_COLUMNS, ExportColumn
from reports.export_files import EXPORT_FORMATS, ExportFormat, write_rows
from reports.export_records import record_rows
from reports.focus import focus_export
from reports.focus_columns import COLUMNS
from router.cli import main
from router.errors import RouterError
from router.ledger import Ledger, new_id, open_ledger
from router.ledger.records import Amount, Import, UsageBucket
from router.ledger.scan import ROWS_AT_ONCE
from tests.new_ledger import new_ledger
from tests.reports.focus_rules import faults_of
from tests.reports.scenes import Scene, write
from tests.reports.test_month_laws import CATALOG, CNY, FX, SCENES, ZONES

AT = datetime(2026, 10, 3, 23, 30, tzinfo=UTC)
NOW = datetime(2026, 12, 5, tzinfo=UTC)
USED = Usage(uncached_input_tokens=1_000_000, plain_output_tokens=100_000)  # gpt-4.1: 2.00 + 0.80
RATES = {"USD": Fraction(1), "CNY": CNY, "": Fraction(0)}
Line: TypeAlias = Mapping[str, str]


def written(columns: tuple[ExportColumn, ...], rows: Any, form: ExportFormat = "csv", *, guard: bool = True) -> bytes:
    file = BytesIO()
    write_rows(file, form, columns, rows, guard=guard)
    return file.getvalue()


def lines(text: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(StringIO(text.decode())))


def in_usd(rows: list[dict[str, str]], currency: str, amount: str, by: str | None = None) -> Mapping[str, Fraction]:
    """Return the sums of an amount in US dollars by a column; those of 0 are left out."""
    found: dict[str, Fraction] = {}
    for row in rows:
        key = "" if by is None else row[by]
        found[key] = found.get(key, Fraction(0)) + Fraction(row[amount] or 0) * RATES[row[currency]]
    return {key: value for key, value in found.items() if value}


# ----------------------------------------------------------------------------------------------------------------------
# The law


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(SCENES, st.sampled_from(ZONES))
def test_law_the_report_the_calls_and_focus_add_up_to_the_ledger(scenes: list[Scene], zone: str) -> None:
    """Report total = ledger total = sum of FOCUS rows = sum of CSV rows, in every grouping and time zone."""
    month = f"{scenes[0].at.astimezone(time_zone(zone)):%Y-%m}"  # so that one scene at least is in it
    with tempfile.TemporaryDirectory() as folder, open_ledger(new_ledger(f"{folder}/l.db")) as ledger:
        write(ledger, CATALOG, *map(varied, scenes, count()))
        period = named_month(month, time_zone(zone), NOW)
        calls = lines(written(RECORD_COLUMNS, record_rows(ledger.reader, period.start_us, period.end_us)))
        if not calls:
            with pytest.raises(RouterError, match="no rows"):
                focus_export(ledger.reader, period, FX, CATALOG)
            return
        made = focus_export(ledger.reader, period, FX, CATALOG)
        text = written(COLUMNS, made.rows, guard=False)
        assert faults_of(text.decode()) == []
        focus = lines(text)
        page = month_report(
            ledger.reader,
            month=month,
            by="tenant",
            currency="USD",
            time_zone_name=zone,
            fx=FX,
            catalog=CATALOG,
            now=NOW,
        )
        table = page.table("lines")
        for key, call, row in (
            ("settled_cost", ("settled_currency", "settled_cost"), ("BillingCurrency", "BilledCost")),
            ("list_cost", ("list_currency", "list_cost"), ("PricingCurrency", "x_PricingCurrencyListCost")),
        ):
            total = table.total_of(key)
            expected = total.value if isinstance(total, Money) else Fraction(0)
            assert in_usd(calls, *call).get("", Fraction(0)) == expected
            assert in_usd(focus, *row).get("", Fraction(0)) == expected
            pairs = (
                ("tenant", "SubAccountId"),
                ("model_asked", "x_ModelAsked"),
                ("model_served", "x_ModelServed"),
                ("role", "x_Role"),
                ("task_class", "x_TaskClass"),
                ("configuration", "x_Configuration"),
                ("endpoint", "BillingAccountId"),
                ("price_set_id", "x_PriceSetId"),
                ("terms_id", "x_TermsId"),
            )
            for one, other in pairs:
                assert in_usd(calls, *call, one) == in_usd(focus, *row, other), (key, one)
            days = in_usd([_with_day(each, zone) for each in calls], *call, "day")
            assert days == in_usd(focus, *row, "ChargePeriodStart")
        assert len(calls) == table.total_of("attempts")
        assert made.left.unknown_cost == sum(each["settled_cost"] == "" for each in calls)


def varied(scene: Scene, number: int) -> Scene:
    """Return the first scene and some others with a cost and a tax, some of a model whose prices depend on the hour."""
    if number % 3 == 0:
        terms = replace(scene.terms, tax_share=Decimal("0.19"))
        return replace(scene, terms=terms, usage=scene.usage or USED, served=None, status="succeeded")
    return replace(scene, model="deepseek-v4-flash", served=None, price_list="vendor") if number % 4 == 1 else scene


def _with_day(row: dict[str, str], zone: str) -> dict[str, str]:
    """Return a call with the first instant of its local day, as the standard library knows it."""
    local = datetime.fromisoformat(row["started_at"]).astimezone(time_zone(zone))
    midnight = datetime(local.year, local.month, local.day, tzinfo=local.tzinfo).astimezone(UTC)
    return {**row, "day": f"{midnight:%Y-%m-%dT%H:%M:%SZ}"}


# ----------------------------------------------------------------------------------------------------------------------
# Records and formats


def bucket(requests: int | None) -> tuple[Import, UsageBucket]:
    taken = Import(new_id(), "made", "a.json", "0" * 64, "gpt-4.1", "openai", None, 0)
    start = round(AT.timestamp()) * 10**6
    return taken, UsageBucket(
        bucket_id=new_id(),
        import_id=taken.import_id,
        start_us=start,
        end_us=start + 60_000_000,
        endpoint="here",
        price_list="openai",
        model_asked="gpt-4.1",
        cost_status="estimated",
        requests=requests,
        usage=USED,
        list_cost=Amount("USD", Decimal("2.8")),
        settled_cost=Amount("USD", Decimal("2.8")),
    )


def october(ledger: Ledger) -> list[tuple[Any, ...]]:
    return list(record_rows(ledger.reader, *month_bounds("2026-10", time_zone("UTC"))))


def test_attempts_and_buckets_are_rows_with_what_is_unknown_empty(ledger: Ledger, catalog: Catalog) -> None:
    write(
        ledger,
        catalog,
        Scene(at=AT, usage=USED, tenant="=acme", tags={"b": "2", "a": "1"}, queue_us=5, ttft_us=9),
        Scene(at=AT + timedelta(microseconds=1), status="started", reserved_usd=Decimal("0.000000000001")),
    )
    ledger.write_now(*bucket(None))
    first, second, third = lines(written(RECORD_COLUMNS, october(ledger)))
    assert first["started_at"] == "2026-10-03T23:30:00.000000Z"
    assert (first["settled_cost"], first["settled_currency"], first["tenant"]) == ("2.8", "USD", "'=acme")
    assert (first["tags"], first["queue_us"], first["ttft_us"]) == ('{"a":"1","b":"2"}', "5", "9")
    assert (second["status"], second["settled_cost"], second["uncached_input_tokens"]) == ("started", "", "")
    assert (second["reserved_usd"], second["requests"]) == ("0.000000000001", "1")
    assert (third["origin"], third["requests"], third["list_cost"]) == ("aggregated", "", "2.8")
    assert third["ended_at"] == "2026-10-03T23:31:00.000000Z"


def test_rows_are_read_in_chunks_from_a_cursor(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, *(Scene(at=AT, usage=None, status="failed") for _ in range(ROWS_AT_ONCE + 1)))
    sizes = [len(chunk) for chunk in ledger.reader.iterate_attempts(*month_bounds("2026-10", time_zone("UTC")))]
    assert sizes == [ROWS_AT_ONCE, 1]


def test_jsonl_has_decimal_strings_and_labels_as_objects(ledger: Ledger, catalog: Catalog) -> None:
    write(ledger, catalog, Scene(at=AT, usage=USED, tags={"a": "é"}, tenant="=acme"))
    (row,) = [json.loads(line) for line in written(RECORD_COLUMNS, october(ledger), "jsonl").splitlines()]
    assert (row["settled_cost"], row["tags"], row["tenant"], row["http_status"]) == ("2.8", {"a": "é"}, "=acme", None)
    assert (row["uncached_input_tokens"], row["usage_estimated"]) == (1_000_000, False)


def test_parquet_has_exact_decimals_past_nine_million_dollars(ledger: Ledger, catalog: Catalog, fx: FxTable) -> None:
    parquet = import_module("pyarrow.parquet")
    write(ledger, catalog, Scene(at=AT, usage=Usage(uncached_input_tokens=10**13 + 1)))  # 20,000,000.000002 dollars
    found = parquet.read_table(BytesIO(written(RECORD_COLUMNS, october(ledger), "parquet")))
    assert str(found.schema.field("settled_cost").type) == "decimal128(38, 12)"
    assert str(found.schema.field("started_at").type) == "timestamp[us, tz=UTC]"
    assert found.column("settled_cost").to_pylist() == [Decimal("20000000.000002")]
    made = focus_export(ledger.reader, named_month("2026-10", time_zone("UTC"), NOW), fx, catalog)
    focus = parquet.read_table(BytesIO(written(COLUMNS, made.rows, "parquet")))
    assert focus.column_names == [column.name for column in COLUMNS]
    assert focus.column("BilledCost").to_pylist() == [Decimal("20000000.000002")]
    assert focus.column("ListUnitPrice").to_pylist() == [Decimal(2)]


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_a_file_without_rows_is_whole(form: ExportFormat) -> None:
    if form == "parquet":
        import_module("pyarrow")
    text = written(RECORD_COLUMNS, [], form)
    assert {"csv": text.startswith(b"record_id,"), "jsonl": text == b"", "parquet": text[:4] == b"PAR1"}[form]


def test_postgresql_exports_the_same_bytes(
    ledger: Ledger, catalog: Catalog, fx: FxTable, postgres_ledger_url: str
) -> None:
    records = [
        record
        for scene in (
            Scene(at=AT, usage=USED, tags={"a": "b"}),
            Scene(at=AT + timedelta(days=1), usage=None, status="failed"),
            Scene(at=AT, usage=USED, model="kimi-k2", tenant="x", reported_usd=Decimal("0.1")),
        )
        for record in scene.records(catalog)
    ]
    records += bucket(3)
    period = named_month("2026-10", time_zone("Asia/Kathmandu"), NOW)
    found = []
    with open_ledger(postgres_ledger_url) as other:
        for each in (ledger, other):
            each.write_now(*records)
            made = focus_export(each.reader, period, fx, catalog)
            found.append((written(RECORD_COLUMNS, october(each)), written(COLUMNS, made.rows)))
    assert found[0] == found[1]


# ----------------------------------------------------------------------------------------------------------------------
# The commands

Run: TypeAlias = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def router(
    tmp_path: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs the command line on a ledger with two priced calls of October and one unpriced."""
    url = new_ledger(tmp_path / "ledger.db")
    monkeypatch.setenv("ROUTER_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)
    with open_ledger(url) as ledger:
        write(
            ledger,
            catalog,
            Scene(at=AT, usage=USED, tenant="=acme"),
            Scene(at=AT, usage=USED),
            Scene(at=AT, usage=None),
        )

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(line.split())
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_focus_is_data_on_stdout_and_its_sum_is_talk(router: Run) -> None:
    code, out, err = router("export focus --month 2026-10")
    assert code == 0
    assert faults_of(out) == []
    assert len(out.splitlines()) == 1 + 4  # two tenants, two token classes each
    assert "rows: 4; BilledCost: USD 5.6" in err
    assert "left out: 1 records whose cost is not known" in err
    assert "begin like a formula" in err


def test_calls_go_to_a_file_that_is_replaced_whole(router: Run, tmp_path: Path) -> None:
    target = tmp_path / "calls.csv"
    target.write_text("old")
    code, out, err = router("export calls --month 2026-10 --output calls.csv")
    assert (code, out) == (0, "")
    assert "rows: 3; settled_cost: USD 5.6" in err
    assert "without a settled cost: 1 rows" in err
    assert [row["tenant"] for row in lines(target.read_bytes())].count("'=acme") == 1
    assert sorted(path.name for path in tmp_path.iterdir() if ".part" in path.name) == []


def test_parquet_needs_a_file(router: Run, tmp_path: Path) -> None:
    import_module("pyarrow")
    code, _, err = router("export calls --month 2026-10 --format parquet")
    assert code == 2
    assert "only written to a file" in err
    assert router("export focus --month 2026-10 --format parquet --output f.parquet")[0] == 0
    assert (tmp_path / "f.parquet").read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize("what", ["focus", "calls"])
def test_wrong_usage_is_one_line_with_what_there_is(router: Run, tmp_path: Path, what: str) -> None:
    (tmp_path / "kept.csv").write_text("old")
    for line, code, words in (
        ("--month 2026-09 --output kept.csv", 1, "it has rows in 2026-10"),
        ("--month 2026-13 --output kept.csv", 2, "YYYY-MM"),
        ("--month 2026-10 --output nowhere/x.csv", 2, "does not exist"),
        ("--month 2026-10 --output .", 2, "is a folder"),
        ("--month 2026-10 --timezone Mars/Olympus", 2, "Mars/Olympus"),
    ):
        found, out, err = router(f"export {what} {line}")
        assert (found, out) == (code, ""), line
        assert words in err, line
    assert (tmp_path / "kept.csv").read_text() == "old"


def test_pruned_records_are_said(router: Run) -> None:
    router("ledger prune --before 2026-11-01 --yes")
    code, out, err = router("export calls --month 2026-10")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "3 records were pruned" in err
    assert len(router("export focus --month 2026-10")[1].splitlines()) == 1 + 4  # sums stay
