"""Token estimates: counted by hand, held to their laws, and compared with a real tokenizer."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.tokens import SCRIPTS, estimate_message_tokens, estimate_tokens, message_script, script_of

# Letters of every script there is a rate for, and what joins or splits them.
TEXTS = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from("aZ9 \n\t.,(é日かアд한ñ😀ع\0")),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" ", 1),  # nothing counts, but a text that is not empty has a token
        ("the", 2),  # 1.010, rounded up
        ("a cat", 3),  # 1.000 + 1.010
        ("in 1990", 4),  # 1.000 + 0.950 for the space before a number + 2 × 1.000 for 199 and 0
        ("1234567", 3),  # 123, 456, 7
        ("a.b", 3),  # 1.000 + 0.950 − 0.330 + 1.000 = 2.620
        ("....", 3),  # 0.950 + 3 × 0.430 = 2.240
        ("日本", 2),  # 2 × 0.870
        ("かな", 2),  # 2 × 0.700
        ("привет", 3),  # 6 × 0.380 = 2.280
        ("😀", 3),  # 1.500 + 1.000 = 2.500
        ("a" * 35, 8),  # 2.300 + 20 × 0.280 = 7.900
    ],
)
def test_counts_by_script(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(TEXTS, TEXTS)
def test_appending_never_lowers(text: str, more: str) -> None:
    assert estimate_tokens(text + more) >= estimate_tokens(text)


@given(TEXTS, TEXTS)
def test_two_texts_together_count_about_as_much_as_apart(left: str, right: str) -> None:
    """Only the word, the run of signs and the rounding at the joint can differ: at most 8 tokens, however long."""
    assert abs(estimate_tokens(left + right) - estimate_tokens(left) - estimate_tokens(right)) <= 8


@pytest.mark.parametrize("part", ["a" * 400, "é" * 400, "." * 400, " " * 400, "\n" * 400, "9" * 400, "日" * 400])
@pytest.mark.parametrize("other", ["a" * 400, "é", "é" * 400, ".", " ", "9", "日"])
def test_the_joint_of_long_runs_is_bounded_too(part: str, other: str) -> None:
    for left, right in ((part, other), (other, part)):
        together, apart = estimate_tokens(left + right), estimate_tokens(left) + estimate_tokens(right)
        assert abs(together - apart) <= 8


@given(TEXTS)
def test_a_text_has_a_token(text: str) -> None:
    assert estimate_tokens(text) >= (1 if text else 0)


def test_messages_by_hand() -> None:
    """Each message: 3, its role, its text; once: 3 that start the answer (OpenAI's cookbook)."""
    message = {"role": "user", "content": "a cat"}
    assert estimate_tokens("user") == 2
    assert estimate_message_tokens([message]) == 3 + (3 + 2 + 3)
    assert estimate_message_tokens([message, message]) == 3 + 2 * (3 + 2 + 3)
    assert estimate_message_tokens([]) == 3


def test_a_name_is_one_more_and_its_own_tokens() -> None:
    plain = estimate_message_tokens([{"role": "user", "content": "a cat"}])
    assert estimate_message_tokens([{"role": "user", "content": "a cat", "name": "the"}]) == plain + 1 + 2


def test_parts_count_like_their_text_and_an_image_like_one_of_1024_pixels() -> None:
    text = {"role": "user", "content": [{"type": "text", "text": "a cat"}]}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 100_000}}
    both = {"role": "user", "content": [*text["content"], image]}
    assert estimate_message_tokens([text]) == estimate_message_tokens([{"role": "user", "content": "a cat"}])
    assert estimate_message_tokens([both]) == estimate_message_tokens([text]) + 765  # 85 + 4 × 170


def test_missing_content_and_tool_calls() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sea"}'}}
    empty = estimate_message_tokens([{"role": "assistant", "content": None}])
    assert empty == 3 + 3 + estimate_tokens("assistant")
    assert estimate_message_tokens([{"role": "assistant", "content": None, "tool_calls": [call]}]) > empty + 20


def test_tools_count() -> None:
    tool = {"type": "function", "function": {"name": "look", "description": "Look at a place.", "parameters": {}}}
    messages = [{"role": "user", "content": "a cat"}]
    with_tool = estimate_message_tokens(messages, [tool])
    assert with_tool >= estimate_message_tokens(messages) + 10 + estimate_tokens("Look at a place.")
    assert estimate_message_tokens(messages, [tool, tool]) - with_tool == with_tool - estimate_message_tokens(messages)


@pytest.mark.parametrize("letter", ["a", "aé", "日", ".", " ", "\n", "a日", "aB", "0 "])
def test_a_megabyte_is_quick_whatever_it_is(letter: str) -> None:
    """5 MB/s is the aim; the test allows a tenth of it, and would catch anything that grows with the square."""
    text = (letter * 1_000_000)[:1_000_000]
    started = time.perf_counter()
    estimate_tokens(text)
    assert time.perf_counter() - started < 2.0


def test_against_a_real_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the standard library's own sources and texts: between 2 % under and 20 % over GPT-4o's tokenizer."""
    import tiktoken  # litellm needs it, and brings the vocabulary

    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "litellm_core_utils" / "tokenizers"
    assert (folder / "fb374d419588a4632f3f557e76b4b70aebbca790").is_file(), "another name of o200k_base's vocabulary"
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
    encoding = tiktoken.get_encoding("o200k_base")
    texts = [Path(path).read_text(encoding="utf-8") for path in _standard_library_texts()]
    real = sum(len(encoding.encode(text, disallowed_special=())) for text in texts)
    estimated = sum(estimate_tokens(text) for text in texts)
    assert -0.02 <= estimated / real - 1 <= 0.20


def _standard_library_texts() -> list[str]:
    """Return paths of Python sources that every Python has."""
    specs = [importlib.util.find_spec(name) for name in ("argparse", "decimal", "json", "textwrap", "this", "typing")]
    return [spec.origin for spec in specs if spec is not None and spec.origin is not None]


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("How are you today?", "latin"),
        ("Résumé d'été", "latin"),
        ("", "latin"),
        ("def f(x):\n    return {'a': x[0]}", "code"),
        ("print(x)  # 日本", "code"),
        ("日本語の文章です", "kana_kanji"),
        ("中文的句子没有假名", "han"),
        ("안녕하세요, 세계", "hangul"),
        ("Привет, мир", "cyrillic"),
        ("Καλημέρα", "greek"),
        ("مرحبا", "hebrew_arabic"),
        ("नमस्ते", "indic"),
        ("สวัสดี", "thai_lao"),
        ("😀😀", "other"),
        ("Say this in Korean please: 안녕", "latin"),
    ],
)
def test_what_a_text_is_mostly_written_in(text: str, script: str) -> None:
    assert script_of(text) == script
    assert message_script([{"role": "system", "content": ""}, {"role": "user", "content": text}]) == script


@given(TEXTS)
def test_every_text_has_a_script(text: str) -> None:
    assert script_of(text) in SCRIPTS
