"""Names, digests, arguments and results of tools, as values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.settings_tools import ToolServerSettings
from router.tools.arguments import BadArguments, checker, misfit, read_arguments, schema_fault
from router.tools.descriptors import Descriptor, as_openai, collisions, digest, hidden_signs, tool_name
from router.tools.results import Block, Raw, cut, told, without_secrets
from router.tools.secrets import secrets_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}}


@given(st.text(min_size=1, max_size=200))
def test_every_name_is_one_that_openai_takes_and_keeps_its_server(tool: str) -> None:
    name = tool_name("server-one", tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name.startswith("server-one__")
    assert name == tool_name("server-one", tool)


def test_names_by_hand() -> None:
    assert tool_name("files", "read.all") == "files__read_all"
    assert tool_name("files", "x" * 57) == f"files__{'x' * 57}"  # 5 + 2 + 57 = 64
    long = tool_name("files", "x" * 58)
    assert (len(long), long[:55]) == (64, f"files__{'x' * 48}")
    assert long != tool_name("files", "x" * 59)


def test_tools_that_would_have_one_name_are_told() -> None:
    same = [Descriptor("s", name, "", {}) for name in ("a.b", "a_b", "c")]
    assert {name: [each.tool for each in group] for name, group in collisions(same).items()} == {
        "s__a_b": ["a.b", "a_b"]
    }


def test_a_digest_is_of_all_that_a_model_is_told() -> None:
    one = Descriptor("s", "t", "Reads.", OBJECT)
    # sha256 of {"description":"Reads.","input_schema":{},"name":"t"}
    assert digest("t", "Reads.", {}) == "3cbdb2fd8460ab5a4a9447c451d53443b7e9b15e8055f707bc0c4b356c075c30"
    others = [
        Descriptor("s", "u", "Reads.", OBJECT),
        Descriptor("s", "t", "Reads .", OBJECT),
        Descriptor("s", "t", "Reads.", {**OBJECT, "title": "x"}),
        Descriptor("s", "t", "Reads.", {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}),
    ]
    assert len({one.sha256, *(each.sha256 for each in others)}) == 5
    assert Descriptor("other", "t", "Reads.", dict(reversed(OBJECT.items()))).sha256 == one.sha256


def test_a_tool_as_a_model_is_told() -> None:
    bare = Descriptor("s", "t", "Reads.", {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"})
    function = {"name": "s__t", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
    assert as_openai(bare) == {"type": "function", "function": function}


def test_signs_that_hide_are_found() -> None:
    clean = Descriptor("s", "t", "Reads a file.\nÄ 日本 😀\tx", OBJECT)
    assert hidden_signs(clean) == ()
    smuggled = Descriptor("s", "t", "Reads.\U000e0041\u200b", {"description": "\u202e"})
    assert hidden_signs(smuggled) == ("U+200B", "U+202E", "U+E0041")


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_arguments_that_are_an_object_are_read_as_they_stand(value: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(value), {}) == value
    assert read_arguments(value, {}) == value


@given(st.text(max_size=60))
def test_what_is_read_is_what_was_written_or_nothing(text: str) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    try:
        value = read_arguments(text, schema)
    except BadArguments:
        return
    assert value == json.loads(text)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_no_arguments_only_where_there_are_none(text: str) -> None:
    assert read_arguments(text, {"type": "object"}) == {}
    with pytest.raises(BadArguments, match="the arguments are empty"):
        read_arguments(text, OBJECT)


def test_a_text_that_is_nested_too_deep_or_too_long_is_no_crash() -> None:
    with pytest.raises(BadArguments, match="nested too deep"):
        read_arguments("[" * 100_000, {})
    with pytest.raises(BadArguments, match="at most 1000000 are allowed"):
        read_arguments('{"a": "' + "x" * 1_000_000 + '"}', {})


def test_a_schema_is_never_fetched() -> None:
    elsewhere = checker({"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}})
    assert misfit({"a": 1}, elsewhere) == "the tool's schema refers to one that is not there"
    assert misfit({}, elsewhere) is None


def test_a_schema_that_is_none_is_told() -> None:
    assert schema_fault({"type": "object"}) is None
    assert "objekt" in str(schema_fault({"type": "objekt"}))


@given(st.text(max_size=30), st.integers(0, 60), st.integers(min_value=120, max_value=400))
def test_a_text_is_never_longer_than_allowed_and_only_cut_at_its_end(words: str, times: int, most: int) -> None:
    text = words * times
    size = len(text.encode("utf-8", "replace"))
    shown = cut(text, most, size)
    assert len(shown.encode()) <= most
    if size <= most:
        assert shown == text.encode("utf-8", "replace").decode()
    else:
        body, _, mark = shown.rpartition("\n[cut: ")
        assert text.startswith(body)
        assert mark.startswith(f"the result is {size} bytes long")


def text_of(raw: Raw, output: Any = None) -> str:
    return told(raw, 10_000, None if output is None else checker(output)).text


def test_what_is_said_twice_is_told_once() -> None:
    def said(*texts: str) -> tuple[Block, ...]:
        return tuple(Block("text", text) for text in texts)

    assert text_of(Raw(said('{\n "n": 1\n}'), {"n": 1})) == '{\n "n": 1\n}'
    assert text_of(Raw(said("one", "two"), {"result": ["one", "two"]})) == "one\ntwo"
    assert text_of(Raw(said("7"), {"result": 7})) == "7"
    assert text_of(Raw(said("Found one."), {"n": 1})) == 'Found one.\n{"n": 1}'
    assert text_of(Raw((), {"n": 1})) == '{"n": 1}'
    assert text_of(Raw(())) == "[the tool gave back nothing]"


def test_what_is_no_text_is_named() -> None:
    blocks = (
        Block("text", "See:"),
        Block("image", mime="image/png", size=120),
        Block("link", "file:///a.txt", "text/plain"),
    )
    assert text_of(Raw(blocks)) == (
        "See:\n[image image/png, 120 bytes: not shown]\n[link file:///a.txt text/plain: not shown]"
    )


def test_structured_content_that_does_not_fit_is_marked() -> None:
    promised = {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert text_of(Raw((), {"n": "x"}), promised) == (
        "[not as the tool promised: n: 'x' is not of type 'integer']\n{\"n\": \"x\"}"
    )


def test_text_that_only_looks_like_a_mark_is_left_alone() -> None:
    for text in ("[note] all is well", "{braces} in prose", "(1) one", "[1] a source"):
        assert told(Raw((Block("text", text),)), 10_000).text == text


def test_secrets_are_taken_out_of_every_part_of_a_result() -> None:
    server = ToolServerSettings.model_validate(
        {"command": "x", "env": ["MY_TOKEN", "PLACE", "DATABASE_URL", "SHORT_KEY"]}
    )
    environ = {
        "MY_TOKEN": "tok-1234567",
        "PLACE": "/srv/data",
        "DATABASE_URL": "postgresql://me:pass-word-1@db/x",
        "SHORT_KEY": "abc",
        "VENDOR_KEY": "vendor-key-1",
    }
    secrets = secrets_of([server], ["VENDOR_KEY", None], environ)
    blocks = (Block("text", "tok-1234567 in /srv/data, abc"), Block("link", "http://x/?key=vendor-key-1"))
    hidden = without_secrets(Raw(blocks, {"tok-1234567": ["pass-word-1"]}), secrets.hide)
    assert [block.text for block in hidden.blocks] == ["[secret] in /srv/data, abc", "http://x/?key=[secret]"]
    assert hidden.structured == {"[secret]": ["[secret]"]}
    assert secrets.hide("at postgresql://me:pass-word-1@db/x") == "at [secret]"
    assert "tok-1234567" not in repr(secrets)
