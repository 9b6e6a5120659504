"""Rows and lines that are read together are what each is alone, however they are written."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from router.ledger.importers.file import SourceFile, inspect_file
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Block
from router.ledger.importers.rows import Naming
from router.ledger.importers.source import ReadOptions
from router.ledger.importers.trace_file import Requests, read_together, read_trace
from router.ledger.keys import DayNames

ENDS = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])
CELL = st.text("aé \x0b\u2028", max_size=2)
ROW = st.one_of(st.lists(CELL, min_size=2, max_size=2), st.lists(CELL, max_size=4)).map(",".join)


def _file(factory: Any, name: str, text: str) -> SourceFile:
    path = factory.mktemp("together") / name
    path.write_bytes(text.encode())
    return inspect_file(path)


@settings(max_examples=80)
@example("a,b", [("\n", "1,2,3,4")])
@example("a", [("\n", ""), ("\n", "x")])
@given(st.sampled_from(["a,b", "a", "\n\na,b"]), st.lists(st.tuples(ENDS, ROW), max_size=6))
def test_columns_are_what_the_reader_of_csv_finds(
    tmp_path_factory: Any, head: str, rows: list[tuple[str, str]]
) -> None:
    text = head + "".join(end + row for end, row in rows)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    expected = [(reader.line_num, cells) for cells in reader if cells][1:]
    names, pieces = _file(tmp_path_factory, "calls.csv", text).table_columns()
    assert names == head.strip().split(",")
    found: list[Any] = []
    for piece in pieces:
        found += [*piece.ragged, *zip(piece.lines, map(list, zip(*piece.columns, strict=True)), strict=True)]
    assert sorted(found) == expected


CALLS = (
    '{"started": "2026-10-01T08:00:00Z", "model": "m", "input_tokens": 5, "output_tokens": 1}',
    '{"model": "m", "output_tokens": 1, "started": "2026-10-01T08:00:00Z", "input_tokens": 7, "input_tokens": 6}',
    '{"started": "2026-10-01T08:00:00Z", "model": "m", "input_tokens": 5, "output_tokens": 1, "tenant": "t"}',
    '{"started": "2026-10-01T08:00:00Z", "model": "m", "input_tokens": "x", "output_tokens": 1}',
    '{"model": "m", "input_tokens": 5, "output_tokens": 1}',
    '{"started": "2026-10-01T08:00:00Z", "model": "\\ud800", "input_tokens": 5, "output_tokens": 1}',
)
REQUESTS = (
    '{"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [1, 2]}',
    '{"output_length": 3, "timestamp": 1, "input_length": 2, "x": {"y": "}\\n{"}}',
    '{"timestamp": 1.5, "input_length": 2, "output_length": 3}',
    '{"timestamp": 1, "input_length": 2, "output_length": -3}',
    '{"timestamp": 1, "input_length": 2}',
)
ODD = ("", " \t", "{}", "{}{}", '{"a":', "1}", "{", "}", "[1]", "5", "nothing")


def _lines(of: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Return texts of a few lines that begin with two plain ones; most others are plain too."""
    line = st.one_of(st.just(of[0]), st.sampled_from(of), st.sampled_from((*of, *ODD)))
    rest = st.lists(st.tuples(ENDS, line).map("".join), max_size=8).map("".join)
    return rest.map(lambda text: f"{of[0]}\n{of[0]}{text}")


@settings(max_examples=80)
@given(_lines(CALLS))
@example("\n".join((CALLS[0], CALLS[0], CALLS[0].replace(", ", ",\r", 1))))  # a blank, or an end of a line
@example("\n".join((CALLS[0], CALLS[0] * 2, CALLS[0].replace(" ", "\n", 1))))  # as many calls as lines
def test_calls_of_lines_together_are_what_each_line_is(tmp_path_factory: Any, text: str) -> None:
    file = _file(tmp_path_factory, "calls.jsonl", text)
    alone = replace(file, has_short_lines=False)  # then each line is read by itself, with `json`
    assert file.has_short_lines
    assert _calls(file) == _calls(alone)


def _calls(file: SourceFile) -> list[Any]:
    found: list[Any] = []
    for each in source_named("generic").read(file, ReadOptions(now_us=2**60)):
        found += each.records() if isinstance(each, Block) else [each]
    return sorted(found, key=lambda each: int(each.line))  # within a piece, rejected lines may come first


@settings(max_examples=80)
@example(f"{REQUESTS[0]}\n{REQUESTS[2]}")
@given(_lines(REQUESTS))
def test_requests_of_a_trace_together_are_what_each_line_is(tmp_path_factory: Any, text: str) -> None:
    file = _file(tmp_path_factory, "trace.jsonl", text)
    found: list[Any] = []
    for each in read_together(file):
        found += zip(*each, strict=True) if isinstance(each, Requests) else [each]
    alone = list(read_trace(replace(file, has_short_lines=False)))
    assert [_told(each) for each in found] == [_told(each) for each in alone]


def _told(each: Any) -> str:
    """Return a request without its blocks, or a rejected line; 1 and 1.0 are equal, and not the same."""
    return repr(tuple(each)[:4] if isinstance(each, tuple) else each)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_whole_lines_are_the_text_wherever_it_is_cut(tmp_path: Path, encoding: str) -> None:
    text = "".join(
        json.dumps({"n": number, "é": "ü€" * (number % 50)}, ensure_ascii=False) + "\n" for number in range(9_000)
    )
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(gzip.compress((text + '{"n": 9000}').encode(encoding)))
    file = inspect_file(path)
    pieces = list(file.whole_lines())
    assert "".join(pieces) == text + '{"n": 9000}'
    assert len(pieces) > 2
    assert [piece for piece in pieces[:-1] if not piece.endswith("\n")] == []
    items: list[Any] = list(file.items())
    assert [(number, item["n"] + 1) for number, item in items] == [(number, number) for number in range(1, 9_002)]


def test_rows_keep_their_lines_wherever_a_table_is_cut(tmp_path: Path) -> None:
    rows = [f"{line},{'x' * 50}" for line in range(2, 30_000)]
    rows[25_000] = "25002"  # the line is the head's and 25,001 more
    path = tmp_path / "calls.csv"
    path.write_text("a,b\n" + "\n".join(rows))
    _, pieces = inspect_file(path).table_columns()
    found: list[tuple[int, str]] = []
    for piece in pieces:
        found += [*zip(piece.lines, piece.columns[0], strict=True), *((line, cells[0]) for line, cells in piece.ragged)]
    assert sorted(found) == [(line, str(line)) for line in range(2, 30_000)]


def test_an_id_is_the_day_and_a_digest_of_the_name() -> None:
    # RFC 9562, 5.8: 48 bits of milliseconds, version 8, 12 bits, variant 10 with two bits of 0, 60 bits.
    space = uuid.UUID("8c2f2f0e-6f0b-4d53-9b5e-3f5d2a1c7e64").bytes + b"record\x1fgeneric\x1fours" + b"\x1e"
    expected = []
    for day, name in ((0, "a"), (20_000, "é"), (20_000, "b" * 200)):
        digest = hashlib.blake2b(space + name.encode(), digest_size=9).hexdigest()
        digits = f"{day * 86_400_000:012x}8{digest[:3]}8{digest[3:]}"
        expected.append(str(uuid.UUID(digits)))
    assert DayNames("record", "generic", "ours").ids((0, 20_000, 20_000), ("a", "é", "b" * 200)) == expected


def test_records_without_a_name_are_called_by_their_line() -> None:
    naming = Naming("generic", "ours", "import")
    by_line = DayNames("line", "import")
    assert naming.ids((1, 2), (None, None), (7, 8)) == [by_line.id(1, "7"), by_line.id(2, "8")]
    own = DayNames("record", "generic", "ours")
    assert naming.ids((1, 2), (None, "x"), (7, 8)) == [by_line.id(1, "7"), own.id(2, "x")]
