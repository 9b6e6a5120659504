"""JSON lines read some at once are what each line is by itself, whatever stands in them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from router.ledger.importers.file import inspect_file
from router.ledger.importers.formats import source_named
from router.ledger.importers.record import Block, Record, Rejected
from router.ledger.importers.source import ReadOptions

NUMBERS = st.sampled_from(["0", "-0", "1.10", "1e5", "0.1234567890123456789012345", "12345678901234567890123", "1E999"])
FAULTS = st.sampled_from(
    ["NaN", "-Infinity", "01", "1.", "{} {}", '{"a":', "1}", "\ufeff{}", '"\t"', '{"a": "\\ud800"}']
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5).map(json.dumps)
BLANK = st.sampled_from(["", " \t", "\u00a0", "{}"])
VALUES = st.one_of(NUMBERS, TEXTS, NUMBERS.map('{{"a": {0}, "b": [{0}]}}'.format), FAULTS, BLANK)


def _one_by_one(text: str) -> list[Any]:
    """Return each line's number and what the standard library reads in it; "none" where it is no one value."""

    def refuse(name: str) -> Any:
        raise ValueError(name)

    found: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip(" \t\r"):
            try:
                found.append((number, json.loads(line, parse_float=Decimal, parse_constant=refuse)))
            except ValueError:
                found.append((number, "none"))
    return found


@settings(max_examples=60)
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_lines_together_are_what_each_is_alone(tmp_path_factory: Any, lines: list[str]) -> None:
    text = "\n".join(['{"a": 1}', *lines, '{"a": 2}'])
    path = tmp_path_factory.mktemp("lines") / "calls.jsonl"
    path.write_bytes(text.encode())
    file = inspect_file(path)
    assert file.kind == "lines"
    found = [(number, "none" if isinstance(value, Rejected) else value) for number, value in file.items()]
    expected = _one_by_one(text)
    assert repr(found) == repr(expected)  # 1 and 1.0 are equal, and not the same


def test_a_number_with_a_fraction_is_kept_to_its_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text('{"cost": 0.1000000000000000055511151231257827}\n{"cost": 3}\n')
    assert [value for _, value in inspect_file(path).items()] == [
        {"cost": Decimal("0.1000000000000000055511151231257827")},
        {"cost": 3},
    ]


@settings(max_examples=25)
@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_rows_with_a_fault_are_rejected_alone_and_the_others_keep_their_order(
    tmp_path_factory: Any, faults: list[bool]
) -> None:
    rows = [f"2026-10-01T00:00:{at:02}Z,m,{'x' if bad else at},1" for at, bad in enumerate(faults)]
    path = tmp_path_factory.mktemp("rows") / "calls.csv"
    path.write_text("started,model,input_tokens,output_tokens\n" + "\n".join(rows) + "\n")
    found: list[Any] = []
    for each in source_named("generic").read(inspect_file(path), ReadOptions(now_us=2**60)):
        found += each.records() if isinstance(each, Block) else [each]
    told = [(each.line, None if isinstance(each, Rejected) else each.counts.uncached_input_tokens) for each in found]
    assert told == [(at + 2, None if bad else at) for at, bad in enumerate(faults)]
    assert {type(each) for each in found} <= {Record, Rejected}
