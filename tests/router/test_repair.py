"""JSON as models and tools write it: what can mean only one thing is read, everything else goes on as it is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.repair import Repaired, repair_json

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "how", "value"),
    [
        ('{"a": 1, "a": 2}', "strict", {"a": 2}),
        ('{"a": "one\nline"}', "strict", {"a": "one\nline"}),
        ('"a text is JSON too"', "strict", "a text is JSON too"),
        ('{"a": "<think>b</think>"}', "strict", {"a": "<think>b</think>"}),
        ('Sure:\n```json\n{"a": 1}\n```\nDone.', "extracted", {"a": 1}),
        ('see [1] and {x}: {"a": 1} yes', "extracted", {"a": 1}),
        ('use { for sets, don\'t. {"a": 1}', "extracted", {"a": 1}),
        ('<think>{"a": 0}</think>{"a": 1}', "extracted", {"a": 1}),
        ('first {"a": 0}, no: {"a": 1}', "extracted", {"a": 1}),
        ("```json\n[1, 2,]\n```", "repaired", [1, 2]),
        ('{"a": [1, 2,], }', "repaired", {"a": [1, 2]}),
        ('{"a": 1,, "b": 2}', "repaired", {"a": 1, "b": 2}),
        ('{"a": 1 /* one */, // and\n "b": 2} # end', "repaired", {"a": 1, "b": 2}),
        ("{'prompt': 'don't do it', 'n': None}", "repaired", {"prompt": "don't do it", "n": None}),
        ("{'a': 'it\\'s', \"b\": True}", "repaired", {"a": "it's", "b": True}),
        ('{"a": "say "hi" to", "b": 1}', "repaired", {"a": 'say "hi" to', "b": 1}),
        ('{"it\'s": 1, }', "repaired", {"it's": 1}),
        ("{a: 1, b_2: 'x'}", "repaired", {"a": 1, "b_2": "x"}),
        ('{“a”: “b "c" d”}', "repaired", {"a": 'b "c" d'}),
        ('{"url": "https://x.y/z//", "n": 1,}', "repaired", {"url": "https://x.y/z//", "n": 1}),
        ('{"re": "\\d+\\n"}', "repaired", {"re": "\\d+\n"}),
        ('{"a": "x"\n "b": [{"c": 1} {"d": 2.0}]}', "repaired", {"a": "x", "b": [{"c": 1}, {"d": 2.0}]}),
        ("{'a': 1, 'a': 2}", "repaired", {"a": 2}),
        ('[{"a": 1 "b": 2} {"a": [3 4]}]', "repaired", [{"a": 1, "b": 2}, {"a": [3, 4]}]),
    ],
)
def test_what_can_mean_one_thing_is_read(text: str, how: str, value: Any) -> None:
    found = repair_json(text)

    assert found == Repaired(value, how)  # type: ignore[arg-type]  # a column of a table


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON here",
        "a set {1, 2} and a list [3]",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
        "{'a': NaN}",
        '{"a": [1, 2, ...]}',
        '{"a": hello world}',
        '{"a" "x"}',
        '{"a": "x" "y"}',
        '{"a": 1 "a": 2}',
        '{"a": {"b" 1, "c": 2}}',
        '{"a": [1,, 2]}',
        '{"a": [{"b": 1}, "c": 2]}',
        '{"a": 1, {"b": 2}}',
        '{"a": , "b": 2}',
        '{"a": 1; "b": 2}',
        '{"a", "b"}',
        "{'a': 'use 'x' # then go',\n'b': 1}",
        "{'a': 'say 'x', 'y' and',\n'b': 1}",
        '{"a": 0x10}',
        "[" * 200_000,
        '{"a":' * 200_000,
        "1" * 5000,
    ],
    ids=lambda text: text[:24],
)
def test_what_cannot_be_read_for_certain_goes_on_as_it_is(text: str) -> None:
    assert repair_json(text).how == "raw"


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "b": "unfinis',
        '{"items": [{"a": 1}, {"a": 2}',
        '[{"a": 1}, {"a": 2}, {"a"',
        'Here: {"items": [{"a": 1}, {"a": 2}',
        '```json\n{"a": {"b": 1}',
        'a draft {"a": 1}, then: {"a": 2, "b": [',
        '<think>{"a": 1} or perhaps',
        "{'a': 'don't",
    ],
)
def test_what_was_cut_is_never_read(text: str) -> None:
    assert repair_json(text) == Repaired(None, "raw", is_cut=True)
    assert repair_json('{"a": 1}', finish_reason="length").is_cut


def test_the_last_object_with_the_keys_is_the_one() -> None:
    text = '{"x": 1} {"tasks": [1], "n": 1} and so {"plan": {"tasks": [2,]}} with {"y": 2}'

    assert repair_json(text, ("tasks",)) == Repaired({"tasks": [2]}, "repaired")
    assert repair_json('{"x": 1}', ("tasks",)).how == "raw"
    assert repair_json('{"data": {"plan": {"tasks": [3]}}}', ("tasks",)) == Repaired({"tasks": [3]}, "extracted")


def test_a_draft_is_not_taken_where_the_last_one_is_cut() -> None:
    text = 'First: {"tasks": [1], "n": 1}. Better: {"tasks": [1, 2'

    assert repair_json(text, ("tasks",)).is_cut


def test_no_number_may_be_read_as_null() -> None:
    assert repair_json('{"a": NaN, "b": -Infinity}', no_number_is_null=True).value == {"a": None, "b": None}


@given(VALUES)
def test_law_what_is_json_is_not_touched(value: Any) -> None:
    text = json.dumps(value)

    assert repair_json(text) == Repaired(json.loads(text), "strict")


@given(st.dictionaries(st.text(max_size=8), VALUES, min_size=1, max_size=4), st.data())
def test_law_no_prefix_of_an_object_is_read(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False)
    length = data.draw(st.integers(1, len(text) - 1))

    assert repair_json(text[:length]).how == "raw"


@given(st.text(alphabet="{}[]\"'abc:,\\ \n/*#1é", max_size=60))
def test_law_it_always_ends_with_an_answer(text: str) -> None:
    assert repair_json(text).how in ("strict", "extracted", "repaired", "raw")


@pytest.mark.parametrize(
    "piece", ["{'", '{"a": ', "\"'", "{a:'b',", "'       ", '{"a":1}', "{\"a\":'b'", "<think>", "```[1,]", "{a:}"]
)
def test_no_text_takes_long(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    begun = time.process_time()
    repair_json(text)
    repair_json(text, ("a",))

    assert time.process_time() - begun < 8
