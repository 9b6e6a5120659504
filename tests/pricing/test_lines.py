"""Lines of keys in a TOML text."""

from __future__ import annotations

import string
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.lines import line_of

TEXT = '''# a comment with [brackets] and a "quote
title = "x # no comment"

[meta]
name = """two
lines = 1"""
after.dotted = 1 # here
[[prices]]
model = 'a'
when = { tier = "x", sizes = [1,
  2] }

[[prices]]
"quoted key" = 1
list = [
  # none yet
  { q = 2 },
  "]",
]
[prices.sub]
k = 2026-01-01 00:00:00Z
[[prices.parts]]
n = 1
[[prices.parts]]
n = 2
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("meta",), 4),
        (("meta", "name"), 5),
        (("meta", "after", "dotted"), 7),
        (("prices",), 8),
        (("prices", 0), 8),
        (("prices", 0, "model"), 9),
        (("prices", 0, "when", "tier"), 10),
        (("prices", 0, "when", "sizes", 1), 11),
        (("prices", 1), 13),
        (("prices", 1, "quoted key"), 14),
        (("prices", 1, "list", 0, "q"), 17),
        (("prices", 1, "list", 1), 18),
        (("prices", 1, "sub", "k"), 21),
        (("prices", 1, "parts", 0, "n"), 23),
        (("prices", 1, "parts", 1, "n"), 25),
        (("prices", 1, "missing"), 13),  # the longest part that is there
        (("prices", 7, "model"), 8),
        (("nowhere", "at", "all"), None),
        ((), None),
    ],
)
def test_line_of_a_path(path: tuple[str | int, ...], line: int | None) -> None:
    tomllib.loads(TEXT)
    assert line_of(TEXT, path) == line


@pytest.mark.parametrize("text", ["", "[", "a", "a = ", "a = [1,", 'a = "', "[[x", "= 1", "a = {b", "a.=1", "\x00"])
def test_a_text_that_is_no_toml_ends_quietly(text: str) -> None:
    assert line_of(text, ("zzz",)) is None


@given(st.text(alphabet="ab=.[]{}\"'\\,# \n1", max_size=40))
def test_law_any_text_ends(text: str) -> None:
    line = line_of(text, ("a",))
    assert line is None or 1 <= line <= text.count("\n") + 1


keys = st.text(alphabet=string.ascii_lowercase, min_size=1, max_size=6)
values = st.sampled_from(
    ["1", '"x"', "'''\n\n'''", '"""a\n"b"\n"""', "[\n1,\n2]", "{ q = [1, 2] }", "1979-05-27 07:32:00Z"]
)


@given(st.lists(st.tuples(keys, values, st.integers(0, 3)), unique_by=lambda item: item[0], min_size=1, max_size=12))
def test_law_each_key_is_found_on_the_line_it_was_written(items: list[tuple[str, str, int]]) -> None:
    text, lines = "", {}
    for key, value, blank in items:
        text += "\n" * blank
        lines[key] = text.count("\n") + 1
        text += f"{key} = {value} # note\n"
    tomllib.loads(text)
    assert {key: line_of(text, (key,)) for key in lines} == lines
