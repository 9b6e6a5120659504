"""Imported traces: every request once, priced at its instant, whatever the file or the process goes through."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing import Catalog, UnknownModel, join_amount, load_catalog
from router.cli import main
from router.errors import RouterError, WrongUsage
from router.ledger import Ledger, open_ledger
from router.ledger.importers import trace as importer
from router.ledger.importers.importing import Watch
from router.ledger.importers.trace import ImportResult
from router.ledger.records import Amount

START = datetime(2026, 10, 1, tzinfo=UTC)
OCTOBER_US = 1_790_812_800_000_000
ALL = (0, 2**62)

MOONCAKE = (
    '{"timestamp": 0, "input_length": 1000, "output_length": 100, "hash_ids": [0, 1]}\n'
    '{"timestamp": 1500, "input_length": 2000, "output_length": 0}\n'
    "\n"
    '{"timestamp": 1500, "input_length": 0, "output_length": 1}\n'
)
AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n"
)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def _import(ledger: Ledger | None, path: Path, catalog: Catalog, **changes: Any) -> ImportResult:
    return importer.import_trace(ledger, path, **{"model": "gpt-4.1", "start": START, "catalog": catalog, **changes})


def _write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "trace"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_mooncake_lines_are_priced_by_hand(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    result = _import(ledger, _write(tmp_path, MOONCAKE), catalog, configuration="all-gpt-4.1")
    # gpt-4.1: 2.00 in and 8.00 out per Mtok. 3,000 × 2e-6 + 101 × 8e-6 = 0.006 + 0.000808.
    assert (result.format, result.rows, result.added, result.skipped, result.unpriced) == ("mooncake", 3, 3, 0, 0)
    assert (result.input_tokens, result.output_tokens) == (3_000, 101)
    assert result.list_cost == (Amount("USD", Decimal("0.006808")),)
    assert (result.first_us, result.last_us) == (OCTOBER_US, OCTOBER_US + 1_500_000)
    by = ("origin", "configuration", "model_asked", "model_served", "price_list", "status", "role", "cost_status")
    [group] = ledger.reader.usage_groups(*ALL, by)
    wanted = ("imported", "all-gpt-4.1", "gpt-4.1", "gpt-4.1", "openai", "succeeded", None, "exact")
    assert group.key == wanted
    assert (group.sums["cost_micro"], group.sums["settled_micro"], group.sums["timed"]) == (6_808, 6_808, 0)
    assert ledger.reader.latency_histogram(*ALL) == ()


def test_azure_rows_keep_their_distances_from_the_first(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    result = _import(ledger, _write(tmp_path, AZURE), catalog)
    # 7,988 × 2e-6 + 18 × 8e-6 = 0.015976 + 0.000144; the second request comes 0.052 s after the first.
    assert (result.format, result.rows) == ("azure", 2)
    assert result.list_cost == (Amount("USD", Decimal("0.01612")),)
    assert (result.first_us, result.last_us) == (OCTOBER_US, OCTOBER_US + 52_000)


def test_azure_rows_keep_their_own_dates_without_a_start(catalog: Catalog, tmp_path: Path) -> None:
    result = _import(None, _write(tmp_path, AZURE), catalog, start=None, model="gpt-4")
    first = datetime(2023, 11, 16, 18, 17, 3, 979_960, tzinfo=UTC)
    assert result.first_us == (first - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def test_a_second_import_adds_nothing(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    path = _write(tmp_path, MOONCAKE)
    first = _import(ledger, path, catalog)
    moved = path.rename(tmp_path / "other name")
    second = _import(ledger, moved, catalog, configuration="other", model="openai/gpt-4.1")
    assert (second.added, second.skipped, second.import_id) == (0, 3, first.import_id)
    assert _import(ledger, moved, catalog, model="gpt-4.1-mini").added == 3
    assert _import(ledger, moved, catalog, start=START + timedelta(days=1)).added == 3
    assert ledger.reader.usage_groups(*ALL)[0].sums["attempts"] == 9


def test_equal_lines_are_different_requests(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    line = '{"timestamp": 0, "input_length": 1, "output_length": 1}\n'
    assert _import(ledger, _write(tmp_path, line * 40), catalog).added == 40


def test_an_import_that_was_killed_left_nothing(url: str, catalog: Catalog, tmp_path: Path) -> None:
    lines = (f'{{"timestamp": {n}, "input_length": {n}, "output_length": 1}}\n' for n in range(15_000))
    path = _write(tmp_path, "".join(lines))
    code = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from pricing import load_catalog
from router.ledger import open_ledger
from router.ledger.importers.importing import Watch
from router.ledger.importers.trace import import_trace
pieces = []
def kill(done, total):
    pieces.append(done)
    if len(pieces) == 2:  # the first piece of 10,000 is written, and not committed
        os.kill(os.getpid(), signal.SIGKILL)
import_trace(open_ledger(sys.argv[1]), Path(sys.argv[2]), model="gpt-4.1", start=datetime(2026, 10, 1, tzinfo=UTC),
             catalog=load_catalog(), watch=Watch(kill))
"""
    assert subprocess.run([sys.executable, "-c", code, url, str(path)], check=False).returncode == -9
    with open_ledger(url) as ledger:
        assert ledger.reader.usage_groups(*ALL) == ()
        result = _import(ledger, path, catalog)
        assert (result.rows, result.added, result.skipped) == (15_000, 15_000, 0)
        assert ledger.reader.usage_groups(*ALL)[0].sums["uncached_input_tokens"] == 15_000 * 14_999 // 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not an object with timestamp, input_length, output_length"),
        ('{"timestamp": 0, "input_length": 1}', "is not an object with"),
        ('{"timestamp": -1, "input_length": 1, "output_length": 1}', "timestamp is -1; milliseconds from 0"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}', "is not JSON"),
        ('{"timestamp": 1e99, "input_length": 1, "output_length": 1}', "timestamp is 1E+99"),
        ('{"timestamp": true, "input_length": 1, "output_length": 1}', "timestamp is True"),
        ('{"timestamp": 0, "input_length": -1, "output_length": 1}', "a token count is '-1'; a whole number from 0"),
        ('{"timestamp": 0, "input_length": 1.5, "output_length": 1}', "a token count is '1.5'"),
        ('{"timestamp": 0, "input_length": 1, "output_length": "1"}', "a token count is '1'"),
        ('{"timestamp": 0, "input_length": 1, "output_length": null}', "a token count is 'None'"),
        ('{"timestamp": 0, "input_length": 1000000001, "output_length": 1}', "a token count is '1000000001'"),
        ('{"timestamp": 0, "x": "' + "x" * 9_000_000 + '"}', "is longer than 4,000,000 characters"),
    ],
)
def test_a_bad_line_costs_nothing_but_itself(
    ledger: Ledger, catalog: Catalog, tmp_path: Path, line: str, reason: str
) -> None:
    lines = MOONCAKE.splitlines(keepends=True)
    result = _import(ledger, _write(tmp_path, lines[0] + line + "\r\n" + "".join(lines[1:])), catalog)
    assert (result.added, result.rejected_rows) == (3, 1)
    [rejected] = result.rejected
    assert rejected.line == 2
    assert reason in rejected.reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2023-11-16 18:17:04,1", "has 2 cells; the head has 3"),
        ("yesterday,1,2", "TIMESTAMP is 'yesterday'; a date and time is allowed"),
        ("2023-11-16 18:17:04,1e3,2", "a token count is '1e3'"),
        ('2023-11-16 18:17:04,"1,000",2', "a token count is '1,000'"),
        ("2023-11-16 18:17:04,\u0661,2", "a token count is '\u0661'"),
    ],
)
def test_a_bad_row_costs_nothing_but_itself(catalog: Catalog, tmp_path: Path, line: str, reason: str) -> None:
    head, *rows = AZURE.splitlines()
    result = _import(None, _write(tmp_path, "\n".join([head, line, *rows])), catalog)
    assert result.rows == 2
    assert len(result.rejected) == 1
    assert result.rejected[0].line == 2
    assert reason in result.rejected[0].reason


def test_a_byte_order_mark_windows_line_ends_and_quoted_cells_are_read(catalog: Catalog, tmp_path: Path) -> None:
    text = "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\r\n" + '"2024-05-10 00:00:00.009930+00:00",10,2\r\n'
    result = _import(None, _write(tmp_path, text), catalog)
    assert (result.format, result.rows, result.input_tokens) == ("azure", 1, 10)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "is empty"),
        (b"\n\n  \n", "is empty"),
        (b"\xff\xfeT\x00I", "is not UTF-16 text: its last character is cut"),
        (MOONCAKE.encode() + b'{"x": "\xff"}', r"is not UTF-8 text: invalid start byte after line 4; nothing of it"),
        (
            AZURE.encode() + b'2023-11-16 18:17:04,"1,2',
            "the row that begins in line 4 is not CSV: unexpected end of data",
        ),
        (b" \n" + AZURE.encode(), "is of no format that is known; its first line is ''"),
        (b"a,b,c\n1,2,3\n", "is of no format that is known; its first line is 'a,b,c'"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "has no record in it"),
    ],
)
def test_a_file_that_is_no_trace_is_one_line_with_a_hint(
    ledger: Ledger, catalog: Catalog, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "missing" if content is None else _write(tmp_path, content)
    with pytest.raises(WrongUsage, match=message) as caught:
        _import(ledger, path, catalog)
    assert caught.value.hint
    assert ledger.reader.usage_groups(*ALL) == ()


def test_a_file_of_rejected_lines_alone_is_an_error(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    path = _write(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\nx,y,z\n")
    with pytest.raises(RouterError, match="all 1 lines were rejected; line 2: TIMESTAMP is 'x'") as caught:
        _import(ledger, path, catalog)
    assert caught.value.exit_code == 1
    assert ledger.reader.usage_groups(*ALL) == ()


def test_a_folder_is_no_trace(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="cannot be read: Is a directory"):
        _import(None, tmp_path, catalog)


def test_milliseconds_from_a_start_need_one(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="counts milliseconds from its start and needs one"):
        _import(None, _write(tmp_path, MOONCAKE), catalog, start=None)
    with pytest.raises(WrongUsage, match="has no zone"):
        _import(None, _write(tmp_path, MOONCAKE), catalog, start=datetime(2026, 10, 1))  # noqa: DTZ001 - that is it


def test_an_unknown_model_is_refused_and_nothing_written(ledger: Ledger, catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match=r"gpt-4\.2"):
        _import(ledger, _write(tmp_path, MOONCAKE), catalog, model="gpt-4.2")
    assert ledger.reader.usage_groups(*ALL) == ()


def test_a_retired_model_is_unpriced_after_its_end_and_priced_before(
    ledger: Ledger, catalog: Catalog, tmp_path: Path
) -> None:
    # kimi-k2 ended on 2026-05-25 at 00:00 UTC: of requests at 0 s and 1.5 s, started 1 s before, one is before it.
    start = datetime(2026, 5, 24, 23, 59, 59, tzinfo=UTC)
    result = _import(ledger, _write(tmp_path, MOONCAKE), catalog, model="kimi-k2", start=start)
    # Only the first, 1,000 in and 100 out, at 0.60 and 2.50 per Mtok: 0.0006 + 0.00025.
    assert (result.rows, result.unpriced, result.list_cost) == (3, 2, (Amount("USD", Decimal("0.00085")),))
    groups = ledger.reader.usage_groups(*ALL, ["cost_status"])
    assert {group.key: group.sums["cost_unknown"] for group in groups} == {("exact",): 0, ("unknown",): 2}


def test_a_price_that_changes_on_the_way_holds_from_its_instant(ledger: Ledger, tmp_path: Path) -> None:
    change = START + timedelta(seconds=1)
    common = {"model": "gpt-4.1", "url": "https://example.com/prices", "source": "contract", "checked": START.date()}
    prices = [
        {**common, "input": "1", "output": "1", "effective_to": change},
        {**common, "input": "3", "output": "3", "effective_from": change},
    ]
    meta = {"list": "contract", "kind": "relay", "currency": "USD"}
    catalog = load_catalog(inline={"meta": meta, "models": [{"id": "gpt-4.1"}], "prices": prices})
    result = _import(ledger, _write(tmp_path, MOONCAKE), catalog, price_list="contract")
    # 1,100 tokens at 1 per Mtok at 0 s; 2,001 at 3 per Mtok at 1.5 s: 0.0011 + 0.006003.
    assert (result.unpriced, result.list_cost) == (0, (Amount("USD", Decimal("0.007103")),))
    assert len(ledger.reader.usage_groups(*ALL, ["price_set_id"])) == 2


def test_the_kimi_trace_as_all_gpt_4_1(ledger: Ledger, catalog: Catalog, shared: Path) -> None:
    path = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    seen: list[tuple[int, int]] = []
    result = _import(ledger, path, catalog, watch=Watch(lambda done, total: seen.append((done, total))))
    # 144,793,823 × 2.00 / 1e6 + 4,122,048 × 8.00 / 1e6 = 289.587646 + 32.976384.
    assert (result.rows, result.added, result.rejected_rows) == (12_031, 12_031, 0)
    assert (result.input_tokens, result.output_tokens) == (144_793_823, 4_122_048)
    assert result.list_cost == (Amount("USD", Decimal("322.564030")),)
    [group] = ledger.reader.usage_groups(*ALL)
    assert join_amount(group.sums["cost_micro"], group.sums["cost_pico"]) == Decimal("322.564030")
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert _import(ledger, path, catalog).added == 0


def test_the_kimi_trace_with_its_prefix_reuse(ledger: Ledger, catalog: Catalog, shared: Path) -> None:
    path = shared / "data" / "traces" / "mooncake_conversation.jsonl"
    result = _import(ledger, path, catalog, prefix_cache=True)
    # 54,098,411 of 144,793,823 tokens are read from the cache, 37.36 %:
    # 90,695,412 × 2.00 + 54,098,411 × 0.50 + 4,122,048 × 8.00, per Mtok: 181.390824 + 27.0492055 + 32.976384.
    assert (result.input_tokens, result.cache_read_tokens) == (144_793_823, 54_098_411)
    assert result.list_cost == (Amount("USD", Decimal("241.4164135")),)
    [group] = ledger.reader.usage_groups(*ALL)
    assert (group.sums["cache_read_tokens"], group.sums["uncached_input_tokens"]) == (54_098_411, 90_695_412)
    assert _import(ledger, path, catalog, prefix_cache=True).added == 0
    assert _import(ledger, path, catalog).added == 12_031  # priced otherwise, so a record of its own


def test_leading_blocks_that_were_seen_are_read_from_the_cache(catalog: Catalog, tmp_path: Path) -> None:
    lines = [
        (1_100, [0, 1, 2]),  # nothing was seen: 0
        (1_100, [0, 1, 2]),  # all three: 1,536, but the prompt has 1,100
        (2_000, [0, 1, 7, 2]),  # two of 512, since the third is new: 1,024
        (600, [5, 0]),  # the first is new, so none, though the second was seen
    ]
    text = "".join(
        f'{{"timestamp": 0, "input_length": {size}, "output_length": 0, "hash_ids": {ids}}}\n' for size, ids in lines
    )
    result = _import(None, _write(tmp_path, text), catalog, prefix_cache=True)
    assert (result.rows, result.input_tokens, result.cache_read_tokens) == (4, 4_800, 1_100 + 1_024)


def test_a_prefix_cache_needs_hash_ids(catalog: Catalog, tmp_path: Path) -> None:
    result = _import(None, _write(tmp_path, MOONCAKE), catalog, prefix_cache=True)
    assert (result.rows, result.rejected_rows) == (1, 2)
    assert result.rejected[0].reason == "hash_ids is None; a list of whole numbers is allowed"
    with pytest.raises(WrongUsage, match="has no hash_ids"):
        _import(None, _write(tmp_path, AZURE), catalog, prefix_cache=True)


def test_three_services_are_one_month(ledger: Ledger, catalog: Catalog, shared: Path) -> None:
    folder = shared / "data" / "traces"
    for name in ("mooncake_conversation.jsonl", "azure_llm_2023_conv.csv", "azure_llm_2023_code.csv"):
        _import(ledger, folder / name, catalog)
    [group] = ledger.reader.usage_groups(*ALL)
    # 12,031 + 19,366 + 8,819 requests, 144,793,823 + 22,361,870 + 18,059,974 input tokens,
    # 4,122,048 + 4,088,665 + 245,896 output tokens.
    found = tuple(group.sums[name] for name in ("attempts", "uncached_input_tokens", "plain_output_tokens"))
    assert found == (40_216, 185_215_667, 8_456_609)
    # 185,215,667 × 2.00 / 1e6 + 8,456,609 × 8.00 / 1e6 = 370.431334 + 67.652872.
    assert join_amount(group.sums["cost_micro"], group.sums["cost_pico"]) == Decimal("438.084206")


@pytest.mark.parametrize(
    ("name", "rows", "input_tokens", "output_tokens"),
    [("conv", 19_366, 22_361_870, 4_088_665), ("code", 8_819, 18_059_974, 245_896)],
)
def test_the_azure_traces_are_read_whole(
    catalog: Catalog, shared: Path, name: str, rows: int, input_tokens: int, output_tokens: int
) -> None:
    result = _import(None, shared / "data" / "traces" / f"azure_llm_2023_{name}.csv", catalog)
    assert (result.rows, result.input_tokens, result.output_tokens) == (rows, input_tokens, output_tokens)
    assert (result.added, result.rejected) == (0, ())


def test_the_command_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path, MOONCAKE + "{\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", f"sqlite:///{tmp_path / 'l.db'}")

    def run(*more: str) -> tuple[str, str]:
        with pytest.raises(SystemExit) as ended:
            main(("import", "trace", str(path), "--model", "gpt-4.1", "--start", "2026-10-01", *more))
        assert not ended.value.code
        return capsys.readouterr()

    assert "nothing written (dry run)" in run("--dry-run")[0]
    assert not (tmp_path / "l.db").exists()
    out, err = run()
    assert out == (
        "3 requests: 3 added, 0 already there, 1 lines rejected; "
        "3,000 input and 101 output tokens; list cost USD 0.006808; from 2026-10-01 00:00 to 2026-10-01 00:00 UTC\n"
    )
    assert err == f"rejected: line 5: is not JSON\nrejected lines are in {path}.rejects.csv\n"
    assert Path(f"{path}.rejects.csv").read_text() == "file,line,reason,text\ntrace,5,is not JSON,{\n"
    found = json.loads(run("--format", "json")[0])
    assert (found["added"], found["skipped"], found["dry_run"]) == (0, 3, False)
    assert found["list_cost"] == [{"currency": "USD", "amount": "0.006808"}]
    assert found["rejected"] == [{"line": 5, "reason": "is not JSON"}]
