"""How many tokens a text will be, without a tokenizer.

In: text, messages, tool descriptors. Out: whole tokens, ≥ 0, meant to be a little high: they are used for reservations.
Invariant: every run of one script adds its own count, so appending text never lowers an estimate.

Counts are thousandths of a token, so that sums are exact. They were fitted to o200k_base (GPT-4o, GPT-4.1), with an eye
on cl100k_base (GPT-4) and DeepSeek-V3's tokenizer; docs/task-classes.md has the measured errors. Those tokenizers
split at words, at three digits and at punctuation, which may join the word after it: hence the shape below.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

_WORD_MILLI: Final = (0, 1000, 1000, 1010, 1020, 1050, 1080, 1140, 1180, 1260, 1340, 1500, 1650, 1800, 2050, 2300)
_LONG_WORD_MILLI: Final = 280  # each letter beyond the table: long identifiers and base64, ~3.5 letters a token
# On top, for the fourth to the fifteenth letter of a word with an accent: tokenizers know few such words whole. Short
# ones (most of Vietnamese) they do know.
_ACCENTED_LETTER_MILLI: Final = 230
_INNER_CAPITAL_MILLI: Final = 350  # an inner capital starts a new token about every third time
_PUNCTUATION_MILLI: Final = 950  # the first of a run of ASCII punctuation
_MORE_PUNCTUATION_MILLI: Final = 430  # each further one of the run
_SWALLOWED_MILLI: Final = -330  # the last of the run, where a word follows that may swallow it
_DIGIT_AFTER_SPACE_MILLI: Final = 950  # a space is part of the word after it, but not of a number
_NEWLINES_MILLI: Final = 850  # a run of newlines
_SPACES_MILLI: Final = 850  # a run of two or more spaces or tabs
_OTHER_LATIN_MILLI: Final = 1000  # control characters, signs of Latin-1

_PUNCTUATION: Final = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ACCENTED: Final = bytes(code for code in range(0xC0, 0x100) if code not in {0xD7, 0xF7})
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_BREAK: Final = b"\0"  # stands for a run of another script


def _classes(*groups: tuple[bytes, bytes], other: bytes) -> bytes:
    """Return a table for bytes.translate that turns every byte of a group into that group's letter."""
    table = bytearray(other * 256)
    for members, letter in groups:
        for byte in members:
            table[byte] = ord(letter)
    return bytes(table)


_KINDS: Final = _classes(
    (_LOWER, b"a"), (_UPPER, b"A"), (_ACCENTED, b"e"), (b"0123456789", b"0"), (_PUNCTUATION, b"."), (b"\n", b"\n"),
    (b" \t", b" "), (_BREAK, _BREAK), other=b"o",
)  # fmt: skip
_FEW_WORDS: Final = 100  # more are counted by length first
_WORDS: Final = _classes((b"aA", b"a"), (b"e", b"e"), other=b" ")
_NUMBERS: Final = _classes((b"0", b"0"), other=b" ")
_MARKS: Final = _classes((b".", b"."), other=b" ")
_NEWLINES: Final = _classes((b"\n", b"n"), other=b" ")
_SPACE_RUN: Final = re.compile(rb"  +")

_EXTENDED_LATIN: Final = re.compile("[\u0100-\u024f\u1e00-\u1eff]")
_NOT_LATIN: Final = re.compile("([\u0250-\u1dff\u1f00-\U0010ffff]+)")
# Letters of other scripts, thousandths of a token each.
_SCRIPT_MILLI: Final = (
    (re.compile("[\u3040-\u30ff\uff66-\uff9f]+"), 700),  # kana
    (re.compile("[\u3400-\u9fff\uf900-\ufaff]+"), 870),  # Chinese characters
    (re.compile("[\uac00-\ud7af\u1100-\u11ff]+"), 850),  # Hangul
    (re.compile("[\u0400-\u052f]+"), 380),  # Cyrillic
    (re.compile("[\u0370-\u03ff]+"), 520),  # Greek
    (re.compile("[\u0590-\u06ff\u0750-\u077f]+"), 480),  # Hebrew, Arabic
    (re.compile("[\u0900-\u0dff]+"), 520),  # scripts of India
    (re.compile("[\u0e00-\u0eff]+"), 560),  # Thai, Lao
)
_SCRIPT_NAMES: Final = ("kana_kanji", "han", "hangul", "cyrillic", "greek", "hebrew_arabic", "indic", "thai_lao")
SCRIPTS: Final = ("latin", "code", *_SCRIPT_NAMES, "other")
"""What a text can be mostly written in; estimates of each are off by a share of its own, whatever the tokenizer."""
_SAMPLED: Final = 4000  # characters that tell the script
_LETTER_MILLI: Final = 230  # a letter of prose in Latin script, ~4.3 letters a token
# Of Python, C, JavaScript and JSON, 95 in 100 files have a share of these above 0.033; of prompts in prose, 5 in 100
# above 0.057. Estimates of the former are 9 to 13 % high (o200k_base), of the latter 4 %.
_SIGNS_OF_CODE: Final = b'{}()[];=<>_\\&|*/+"'
_CODE_SHARE: Final = 0.04
_LEAST_KANA_SHARE: Final = 0.05  # Japanese has kana between its characters, Chinese none
_OTHER_MILLI: Final = 1000  # punctuation of those scripts, symbols
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_ASTRAL_MILLI: Final = 1500  # on top: emoji are two or three tokens

# OpenAI, "How to count tokens with tiktoken": 3 tokens around each message, 1 more for a name, 3 that start the answer.
# https://github.com/openai/openai-cookbook/blob/main/examples/How_to_count_tokens_with_tiktoken.ipynb
_MESSAGE_TOKENS: Final = 3
_NAME_TOKENS: Final = 1
_ANSWER_TOKENS: Final = 3
_TOOL_TOKENS: Final = 10  # the same notebook: 7 (gpt-4o) to 10 (gpt-4) around each function
# A 1024 × 1024 image at high detail for GPT-4o and GPT-4.1: 85 + 4 tiles × 170.
# https://platform.openai.com/docs/guides/images-vision
_IMAGE_TOKENS: Final = 765


def estimate_tokens(text: str) -> int:
    """Return an estimate of the number of tokens of a text.

    Args:
        text: any text.

    Returns:
        Tokens: 0 for "", at least 1 for any other text.
    """
    if not text:
        return 0
    milli = 0
    if not text.isascii():
        parts = _NOT_LATIN.split(text)
        milli = _other_scripts_milli("".join(parts[1::2]))
        text = _BREAK.decode().join(parts[::2])
    milli += _latin_milli(_as_latin_1(text))
    return max(1, -(-milli // 1000))


def estimate_message_tokens(messages: Sequence[Mapping[str, Any]], tools: Iterable[Mapping[str, Any]] = ()) -> int:
    """Return an estimate of the input tokens of a chat request, with what the chat format adds to the texts.

    Args:
        messages: OpenAI-style messages; an image part counts as one image of 1024 × 1024 at high detail.
        tools: OpenAI-style tool descriptors.

    Returns:
        Tokens, > 0.
    """
    total = _ANSWER_TOKENS + sum(_message_tokens(message) for message in messages)
    return total + sum(_TOOL_TOKENS + _json_tokens(tool) for tool in tools)


def script_of(text: str) -> str:
    """Return what a text is mostly written in, counted in tokens, by its first 4,000 characters: one of `SCRIPTS`."""
    sample = text[:_SAMPLED]
    if not sample.isascii():
        found = _other_script_of(sample)
        if found is not None:
            return found
    signs = sample.encode("utf-8", "surrogatepass")
    is_code = len(signs) - len(signs.translate(None, _SIGNS_OF_CODE)) >= _CODE_SHARE * len(signs)
    return "code" if is_code and signs else "latin"


def message_script(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what the longest text of some messages is mostly written in: one of `SCRIPTS`.

    Args:
        messages: OpenAI-style messages.
    """
    return script_of(max((_text_of(message.get("content")) for message in messages), key=len, default=""))


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _other_script_of(text: str) -> str | None:
    """Return the script other than Latin that most tokens of a text are of, or None where Latin has more."""
    letters = "".join(_NOT_LATIN.findall(text))
    milli: dict[str, int] = {"latin": _LETTER_MILLI * (len(text) - len(letters))}
    for name, (pattern, cost) in zip(_SCRIPT_NAMES, _SCRIPT_MILLI, strict=True):
        rest = pattern.sub("", letters)
        milli[name] = cost * (len(letters) - len(rest))
        letters = rest
    milli["other"] = _OTHER_MILLI * len(letters)
    if milli["kana_kanji"] > _LEAST_KANA_SHARE * milli["han"]:
        milli["kana_kanji"], milli["han"] = milli["kana_kanji"] + milli["han"], 0
    most = max(milli, key=lambda name: milli[name])
    return None if most == "latin" else most


_role_tokens = lru_cache(maxsize=64)(estimate_tokens)  # there are five roles


def _as_latin_1(text: str) -> bytes:
    """Return a text of Latin letters as Latin-1, any letter that it does not have as one with an accent."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return _EXTENDED_LATIN.sub("\u00e0", text).encode("latin-1")


def _latin_milli(text: bytes) -> int:
    """Return thousandths of a token of a Latin-1 text, in which `_BREAK` stands for what is of another script."""
    kinds = text.translate(_KINDS)
    milli = _INNER_CAPITAL_MILLI * kinds.count(b"aA") + _OTHER_LATIN_MILLI * kinds.count(b"o")
    if b"." in kinds:
        runs = len(kinds.translate(_MARKS).split())
        milli += _PUNCTUATION_MILLI * runs + _MORE_PUNCTUATION_MILLI * (kinds.count(b".") - runs)
        milli += _SWALLOWED_MILLI * (kinds.count(b".a") + kinds.count(b".A"))
    if b"\n" in kinds:
        milli += _NEWLINES_MILLI * len(kinds.translate(_NEWLINES).split())
    if b"  " in kinds:
        milli += _SPACES_MILLI * len(_SPACE_RUN.findall(kinds))
    if b"0" in kinds:
        milli += _DIGIT_AFTER_SPACE_MILLI * kinds.count(b" 0")
        milli += 1000 * sum(-(-len(digits) // 3) for digits in kinds.translate(_NUMBERS).split())
    words = kinds.translate(_WORDS).split()
    if b"e" in kinds:
        milli += _ACCENTED_LETTER_MILLI * sum(max(0, min(len(word), 15) - 3) for word in words if b"e" in word)
    if len(words) < _FEW_WORDS:
        return milli + sum(map(_word_milli, map(len, words)))
    lengths = Counter(map(len, words))
    return milli + sum(count * _word_milli(length) for length, count in lengths.items())


@lru_cache(maxsize=1024)
def _word_milli(length: int) -> int:
    """Return thousandths of a token of one word of that many letters."""
    last = len(_WORD_MILLI) - 1
    return _WORD_MILLI[min(length, last)] + _LONG_WORD_MILLI * max(0, length - last)


def _other_scripts_milli(text: str) -> int:
    """Return thousandths of a token of a text that has nothing below U+0250."""
    milli = _ASTRAL_MILLI * len(_ASTRAL.findall(text))
    for pattern, cost in _SCRIPT_MILLI:
        rest = pattern.sub("", text)
        milli += cost * (len(text) - len(rest))
        text = rest
    return milli + _OTHER_MILLI * len(text)


def _message_tokens(message: Mapping[str, Any]) -> int:
    """Return the tokens of one message: its role, its content, and whatever else it has (tool calls, a name)."""
    total = _MESSAGE_TOKENS + (_NAME_TOKENS if "name" in message else 0)
    for key, value in message.items():
        if key == "role" and isinstance(value, str):
            total += _role_tokens(value)
        elif key == "content" and isinstance(value, list):
            total += sum(_part_tokens(part) for part in value)
        else:
            total += estimate_tokens(value) if isinstance(value, str) else _json_tokens(value)
    return total


def _part_tokens(part: Any) -> int:
    """Return the tokens of one part of a message's content."""
    if isinstance(part, Mapping):
        if "image_url" in part or part.get("type") in {"image", "input_image"}:
            return _IMAGE_TOKENS
        if isinstance(part.get("text"), str):
            return estimate_tokens(part["text"])
    return _json_tokens(part)


def _json_tokens(value: Any) -> int:
    """Return the tokens of a value written as compact JSON; None, which is not sent, has none."""
    if value is None:
        return 0
    return estimate_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str))
