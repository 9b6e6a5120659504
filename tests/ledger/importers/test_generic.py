"""Tables of anyone's: columns by name, counts taken apart once, and every row either a record or rejected."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import WrongUsage
from router.ledger.importers.field_reader import Reader
from router.ledger.importers.fields import FIELDS, Column, matched, names_of
from router.ledger.importers.record import Block, Counts, Record, Rejected
from router.ledger.importers.source import ReadOptions

Read = Callable[..., tuple[list[Record], list[Rejected]]]
Write = Callable[..., Path]
OCTOBER_US = 1_790_812_800_000_000

CSV = (
    "id,when,model,prompt_tokens,cached,completion_tokens,team,ms,code\n"
    "r1,2026-10-01T00:00:00Z,gpt-4.1,1000,400,50,red,1500,200\n"
    "r2,2026-10-01T00:00:01Z,gpt-4.1-mini,10,,2,,20,429\n"
)
COLUMNS = {
    "started": "when",
    "input_tokens": "prompt_tokens",
    "cache_read_tokens": "cached",
    "output_tokens": "completion_tokens",
    "tag.team": "team",
    "latency_ms": "ms",
    "http_status": "code",
}


def test_columns_are_what_the_user_says(read: Read, write: Write) -> None:
    records, rejected = read("generic", write(CSV), columns=COLUMNS)
    assert rejected == []
    first, second = records
    # 1,000 input tokens include 400 cached ones.
    assert first.counts == Counts(600, 400, plain_output_tokens=50)
    assert (first.line, first.at_us, first.model) == (2, OCTOBER_US, "gpt-4.1")
    assert (first.identity, first.upstream_id, first.latency_us) == ("r1", "r1", 1_500_000)
    assert (first.tags, first.status, first.http_status) == ((("team", "red"),), "succeeded", 200)
    assert (second.tags, second.status, second.error_kind) == ((), "failed", "rate_limited")


def test_input_may_leave_the_cache_out(read: Read, write: Write) -> None:
    records, _ = read("generic", write(CSV), columns=COLUMNS, input_excludes_cache=True)
    assert records[0].counts == Counts(1000, 400, plain_output_tokens=50)


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_every_form_of_a_table_says_the_same(read: Read, write: Write, form: str) -> None:
    rows: list[dict[str, Any]] = [
        {"started": f"2026-10-01T00:00:{n % 60:02}Z", "model": "gpt-4.1", "input_tokens": n, "output_tokens": 2 * n}
        | {"reasoning_tokens": n, "cost_usd": f"0.{n:06}", "tenant": f"t{n % 3}", "status": "ok", "id": f"id {n}"}
        for n in range(1_300)
    ]
    content: str | bytes
    if form == "csv":
        content = "\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)])
    elif form == "jsonl":
        content = "\n".join(map(json.dumps, rows))
    elif form == "json":
        content = json.dumps(rows, indent=1)
    else:
        pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        sink = io.BytesIO()
        parquet.write_table(pyarrow.Table.from_pylist(rows), sink, row_group_size=400)
        content = sink.getvalue()
    records, rejected = read("generic", write(content)) if form != "parquet" else _parquet(write(content))
    assert rejected == []
    assert [record.counts for record in records] == [
        Counts(n, plain_output_tokens=n, reasoning_tokens=n) for n in range(1_300)
    ]
    assert [record.identity for record in records] == [f"id {n}" for n in range(1_300)]
    assert sum((record.reported_usd or Decimal(0) for record in records), Decimal(0)) == Decimal("0.844350")
    assert {record.tenant for record in records} == {"t0", "t1", "t2"}


def _parquet(path: Path) -> tuple[list[Record], list[Rejected]]:
    from router.ledger.importers.file import inspect_file
    from router.ledger.importers.generic import SOURCE

    found = _listed(list(SOURCE.read(inspect_file(path), ReadOptions(now_us=2**62))))
    return [each for each in found if isinstance(each, Record)], [each for each in found if isinstance(each, Rejected)]


def test_keys_inside_objects_are_named_with_dots(read: Read, write: Write) -> None:
    text = '{"at": 1790812800, "m": "gpt-4.1", "usage": {"in": 5, "out": {"all": 6}}}\n'
    columns = {"started": "at", "model": "m", "input_tokens": "usage.in", "output_tokens": "usage.out.all"}
    [record], _ = read("generic", write(text), columns=columns)
    assert record.counts == Counts(5, plain_output_tokens=6)


def test_a_field_that_only_later_objects_have_counts_from_then_on(read: Read, write: Write) -> None:
    plain = '{"started": 1790812800, "model": "gpt-4.1", "input_tokens": 10, "output_tokens": 1}\n'
    cached = plain.replace('"output_tokens"', '"cache_read_tokens": 4, "output_tokens"')
    records, _ = read("generic", write(plain + cached + plain))
    uncached = Counts(10, plain_output_tokens=1)
    assert [record.counts for record in records] == [uncached, Counts(6, 4, plain_output_tokens=1), uncached]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("r,yesterday,gpt-4.1,1,0,1,,1,200", "when is 'yesterday'; a date and time is allowed"),
        ("r,2026-10-01T00:00:00,gpt-4.1,1,0,1,,1,200", "without a zone; --timezone states it"),
        ("r,2026-10-01T00:00:00Z,,1,0,1,,1,200", "model is empty"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1,2,1,,1,200", r"input_tokens is 1, less than its parts \(2\)"),
        ('r,2026-10-01T00:00:00Z,gpt-4.1,"1,234",0,1,,1,200', "prompt_tokens is '1,234'; a number without signs"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1.234,0,1,,1,200", "prompt_tokens is '1.234'"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,-1,0,1,,1,200", "prompt_tokens is '-1'"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1,0,,,1,200", "has usage, but its output tokens are empty"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,,5,,,1,200", "has parts of usage, but neither input nor output"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1,0,1,,-1,200", "ms is -1; from 0 to 30 days"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1,0,1,,1,20", "an HTTP status from 100 to 599"),
        ("r,2026-10-01T00:00:00Z,gpt-4.1,1,0,1,,1", "has 8 cells; the head has 9"),
    ],
)
def test_a_bad_row_costs_nothing_but_itself(read: Read, write: Write, row: str, reason: str) -> None:
    head, *rows = CSV.splitlines()
    records, [rejected] = read("generic", write("\n".join([head, rows[0], row, rows[1]])), columns=COLUMNS)
    assert [record.identity for record in records] == ["r1", "r2"]
    assert rejected.line == 3
    assert re.search(reason, rejected.reason)


def test_rejected_rows_are_told_in_their_order(read: Read, write: Write) -> None:
    head, good, _ = CSV.splitlines()
    bad = good.replace("gpt-4.1", "")
    records, rejected = read("generic", write(f"{head}\n{bad}\nshort\n{good}\n{bad}\nshort"), columns=COLUMNS)
    assert [record.line for record in records] == [4]
    assert [each.line for each in rejected] == [2, 3, 5, 6]


@pytest.mark.parametrize("others", [[], ["r1"], ["r 1", ""]])
def test_an_id_is_the_same_whatever_stands_beside_it(read: Read, write: Write, others: list[str]) -> None:
    """Else a second import of the same row would count it again."""
    head, good, _ = CSV.splitlines()
    rows = [good.replace("r1", name, 1) for name in (" x", *others)]
    records, _ = read("generic", write("\n".join([head, *rows])), columns=COLUMNS)
    assert records[0].identity == "x"


def test_a_row_without_usage_is_a_record_of_unknown_usage(read: Read, write: Write) -> None:
    text = CSV.splitlines()[0] + "\nr,2026-10-01T00:00:00Z,gpt-4.1,,,,,,500\n"
    [record], _ = read("generic", write(text), columns=COLUMNS)
    assert (record.counts, record.status, record.error_kind, record.latency_us) == (
        None,
        "failed",
        "server_error",
        None,
    )


def test_instants_of_several_zones_are_each_their_own(read: Read, write: Write) -> None:
    text = (
        "started,model,input_tokens\n2026-10-01T02:00:00+02:00,a,1\n2026-10-01T09:00:00,a,1\n2026-10-01T00:00:00Z,a,1\n"
    )
    records, rejected = read("generic", write(text), zone=ZoneInfo("Asia/Tokyo"))
    assert [record.at_us for record in records] == [OCTOBER_US] * 3
    records, rejected = read("generic", write(text))
    assert (len(records), [line.line for line in rejected]) == (2, [3])


def test_rows_with_a_number_of_requests_are_buckets(read: Read, write: Write) -> None:
    head = "started,ended,model,requests,input_tokens,output_tokens\n"
    text = f"{head}2026-10-01T00:00:00Z,2026-10-02T00:00:00Z,gpt-4.1,7,70,14\n"
    [record], _ = read("generic", write(text))
    assert (record.requests, record.end_us) == (7, OCTOBER_US + 86_400_000_000)
    _, [rejected] = read("generic", write(text.replace("2026-10-02T00:00:00Z", "")))
    assert rejected.reason == "has a number of requests, but no end of their span (ended)"


@pytest.mark.parametrize(
    ("head", "columns", "message"),
    [
        ("when,model", {}, "no column for started; state it: --column started=COLUMN"),
        ("started,name", {}, "no column for model"),
        ("started,model", {"tokens": "n"}, "field 'tokens' does not exist"),
        ("started,model", {"input_token": "n"}, "did you mean 'input_tokens'"),
        (
            "started,model,prompt",
            {"input_tokens": "promt"},
            "column 'promt' for input_tokens does not exist; did you mean 'prompt'",
        ),
    ],
)
def test_a_column_that_is_not_there_is_refused_by_name(
    read: Read, write: Write, head: str, columns: dict[str, str], message: str
) -> None:
    with pytest.raises(WrongUsage, match=message) as caught:
        read("generic", write(f"{head}\n1,2\n"), columns=columns)
    assert "columns of the file: " in str(caught.value.hint) or "fields: " in str(caught.value.hint)


def test_every_field_is_named_in_the_guide(project: Path) -> None:
    guide = (project / "docs" / "importing.md").read_text(encoding="utf-8")
    assert [field for field in FIELDS if f"`{field}`" not in guide] == []


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["1790812800", "2026-10-01T00:00:00Z", "2026-10-01", "", "x"]),
        st.sampled_from(["gpt-4.1", " gpt-4.1 ", ""]),
        st.sampled_from(["5", "5.0", "", "1,000", "-1", "99"]),
        st.sampled_from(["0", "7", ""]),
        st.sampled_from(["3", "", "x"]),
        st.sampled_from(["a", "b", " c", "d ", "", "e f"]),
    ),
    min_size=1,
    max_size=30,
)


NAMES = ("started", "model", "input_tokens", "cache_read_tokens", "output_tokens", "id")


@given(ROWS)
def test_rows_together_are_what_each_is_alone(rows: list[tuple[str, ...]]) -> None:
    columns = matched([*NAMES], {}, "file")
    assert set(names_of(columns)) == set(NAMES)
    assert columns[0] == Column("started", "started", 0)
    places = [NAMES.index(name) for name in names_of(columns)]
    rows = [tuple(row[place] for place in places) for row in rows]
    reader = Reader(columns, ReadOptions(now_us=0))
    together = _listed(reader.found(range(len(rows)), list(zip(*rows, strict=True))))
    alone = [
        found for line, row in enumerate(rows) for found in _listed(reader.found((line,), [(value,) for value in row]))
    ]
    assert together == alone


def _listed(found: Sequence[Record | Block | Rejected]) -> list[Record | Rejected]:
    return [record for each in found for record in (each.records() if isinstance(each, Block) else (each,))]
