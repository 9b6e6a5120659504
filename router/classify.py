"""Which class of task a text asks for.

In: a text. Out: a `Classification`, whose class is None where the text does not say.
Invariant: pure and bounded: of a long text only the head and the tail are read; no network, no clock, no chance.

Evidence is words (data/keywords.toml) and shapes: code, formulas, numbers, lettered choices. A word counts most where a
sentence starts with it, and least in the middle of a long text, which is what the request is about, not the request.
docs/task-classes.md has the classes and how often this is right.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from pricing.quick import quick

TASK_CLASSES: Final = MappingProxyType(
    {
        "extract": "take stated facts out of a given text into a given shape",
        "classify": "give a text one of a set of labels",
        "summarize": "say a given text in fewer words",
        "translate": "say a given text in another language",
        "write": "compose or rewrite prose",
        "code": "write, change, explain or repair program text",
        "math": "compute or prove with numbers and formulas",
        "reason": "draw a conclusion from given premises: puzzles, exam questions, decisions",
        "research": "gather and compare facts from many sources",
        "chat": "converse, or answer a short question",
        "plan": "break a goal into steps",
        "merge": "make one answer out of several partial ones",
    }
)

_HEAD_CHARS: Final = 1000
_TAIL_CHARS: Final = 500
_REQUEST_WORDS: Final = 30  # at either end of the text, what stands there is taken for the request
_THING_WITHIN_WORDS: Final = 7  # "write a short and elegant python function"

# Weights and thresholds were set by hand, with public prompts at hand: see docs/task-classes.md.
_ANYWHERE_WEIGHT: Final = 2.0
_LEAD_WEIGHT: Final = 3.0
_THING_WEIGHT: Final = 3.5
_MIDDLE_FACTOR: Final = 0.3
_LEAST_SCORE: Final = 1.5
_LEAST_SHARE: Final = 0.5
_DOUBT: Final = 1.0  # weight of what was not seen: one weak hint alone is not certainty


@quick
@dataclass(frozen=True, slots=True)
class Classification:
    """The class a text asks for.

    Args:
        task_class: a key of `TASK_CLASSES`; None: the text does not say, and the caller's own default applies.
        confidence_share: how much of the evidence speaks for the class, 0 to 1; 0 where there is none.
        evidence: what was found, strongest first; empty where nothing was.
    """

    task_class: str | None
    confidence_share: float
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Hint:
    """One thing that speaks for a class."""

    task_class: str
    weight: float
    name: str


@dataclass(frozen=True, slots=True)
class _Phrase:
    """A phrase of the word lists; `lead`: it counts only where a sentence starts."""

    words: tuple[str, ...]
    task_class: str
    lead: bool


@dataclass(frozen=True, slots=True)
class _Lists:
    """data/keywords.toml, indexed."""

    polite: frozenset[str]
    making: frozenset[str]
    things: Mapping[str, str]
    phrases: Mapping[str, Sequence[_Phrase]]
    unspaced: tuple[tuple[str, str], ...]
    known: frozenset[str]


def classify(text: str) -> Classification:
    """Return the class of task that a text asks for.

    Args:
        text: what the user wrote; of more than 1,500 characters the first 1,000 and the last 500 are read.

    Returns:
        The class with the strongest evidence; a class of None where there is little evidence or it contradicts itself.
    """
    sample = text if len(text) <= _HEAD_CHARS + _TAIL_CHARS else f"{text[:_HEAD_CHARS]}\n{text[-_TAIL_CHARS:]}"
    hints = _strongest_of_each([*_word_hints(sample), *_unspaced_hints(sample), *_shape_hints(sample)])
    if not hints:
        hints = list(_question_hints(sample))
    scores: dict[str, float] = {}
    for hint in hints:
        scores[hint.task_class] = scores.get(hint.task_class, 0.0) + hint.weight
    return _decide(scores, hints)


def _decide(scores: dict[str, float], hints: Sequence[_Hint]) -> Classification:
    """Return the best class, or none where its score or its share of all scores is too small."""
    if not scores:
        return Classification(None, 0.0, ())
    total = sum(scores.values())
    best = max(scores, key=lambda name: scores[name])
    sure = scores[best] >= _LEAST_SCORE and scores[best] >= _LEAST_SHARE * total
    names = tuple(f"{hint.task_class}: {hint.name}" for hint in sorted(hints, key=lambda hint: -hint.weight))
    return Classification(best if sure else None, scores[best] / (total + _DOUBT), names)


def _strongest_of_each(hints: Sequence[_Hint]) -> list[_Hint]:
    """Return each distinct hint once, with its greatest weight, so that a word repeated is one word."""
    best: dict[tuple[str, str], _Hint] = {}
    for hint in hints:
        key = (hint.task_class, hint.name)
        if key not in best or best[key].weight < hint.weight:
            best[key] = hint
    return list(best.values())


_TOKEN: Final = re.compile(r"[^\W_]+(?:['’+\-][^\W_]+|\+\+)?|[.!?:;\n]")
_ASCII_TOKEN: Final = re.compile(r"[a-z0-9]+(?:['+\-][a-z0-9]+|\+\+)?|[.!?:;\n]")  # the same, sooner
_STOPS: Final = frozenset(".!?:;\n")


def _word_hints(sample: str) -> Iterator[_Hint]:
    """Yield the hints that words give."""
    lists = _lists()
    token = _ASCII_TOKEN if sample.isascii() else _TOKEN
    words = token.findall(sample.lower().replace("’", "'").replace("tl;dr", "tldr"))
    known, last, starts = lists.known, -1, True
    for place, word in [(place, word) for place, word in enumerate(words) if word in known]:
        starts = _starts(words, place, lists, last, last_starts=starts)
        last = place
        near = place < _REQUEST_WORDS or place >= len(words) - _REQUEST_WORDS
        factor = 1.0 if near else _MIDDLE_FACTOR
        made = list(_thing_hints(words, place, factor, lists)) if starts and word in lists.making else []
        yield from made
        for phrase in lists.phrases.get(word, ()):
            if made and phrase.words == (word,):
                continue  # what is to be written says more than "write"
            if (starts or not phrase.lead) and tuple(words[place : place + len(phrase.words)]) == phrase.words:
                weight = _LEAD_WEIGHT if phrase.lead else _ANYWHERE_WEIGHT
                yield _Hint(phrase.task_class, weight * factor, " ".join(phrase.words))


def _starts(words: Sequence[str], place: int, lists: _Lists, last: int, *, last_starts: bool) -> bool:
    """Return whether a sentence starts at a place, but for polite words before it.

    Args:
        words: all of them.
        place: where.
        lists: the word lists.
        last: the place this was last asked of, before this one; -1: none.
        last_starts: what it was there, so that no word is looked at twice.
    """
    before = place - 1
    while before > last and words[before] in lists.polite:
        before -= 1
    if before > last:
        return words[before] in _STOPS
    return last_starts and (last < 0 or words[last] in lists.polite)


def _thing_hints(words: Sequence[str], place: int, factor: float, lists: _Lists) -> Iterator[_Hint]:
    """Yield the hint of what is to be made: the first thing after a verb of making."""
    for word in words[place + 1 : place + 1 + _THING_WITHIN_WORDS]:
        if word in _STOPS:
            return
        if word in lists.things:
            yield _Hint(lists.things[word], _THING_WEIGHT * factor, f"{words[place]} … {word}")
            return


def _unspaced_hints(sample: str) -> Iterator[_Hint]:
    """Yield the hints of words of languages that do not put spaces between words."""
    if not sample.isascii():
        for word, task_class in _lists().unspaced:
            if word in sample:
                yield _Hint(task_class, _ANYWHERE_WEIGHT, word)


_CODE_LINE: Final = re.compile(
    r"^[ \t]*(?:(?:async )?def \w+\(|class \w+[:({]|import \w+|from \w+ import|function \w+\(|const \w+ =|#include"
    r"|public (?:static|class)|package \w+|func \w+\(|fn \w+\(|select .+ from )",
    re.MULTILINE | re.IGNORECASE,
)
_FORMULA: Final = re.compile(
    r"\\(?:frac|sqrt|sum|int|boxed|cdot|le|ge|times)\b|\$[^$\n]{1,200}\$|\d ?[*^=] ?\d|\d [-+/×÷] \d"
    r"|\b[a-z] ?[-+*/^] ?[a-z0-9] ?= ?[-\d]"
)
_NUMBER: Final = re.compile(r"(?<![\w./])\$?(?!(?:1\d|20)\d\d\b)\d[\d,.]*%?")  # but for years
_HOW_MANY: Final = re.compile(
    r"\b(?:how (?:many|much|long|far|old)|what(?:'s| is| was| would be| will be) (?:the|his|her|their) "
    r"(?:total|average|price|cost|sum|difference))",
    re.IGNORECASE,
)
_CHOICE: Final = re.compile(r"^[ \t]*\(?([A-Ea-e])[.):] ?\S", re.MULTILINE)
_CLUE: Final = re.compile(r"^[ \t]*\d+[.)] \S", re.MULTILINE)
_ERROR: Final = re.compile(r"Traceback \(most recent|\b\w+(?:Error|Exception): |segmentation fault|```", re.IGNORECASE)


# What each pattern cannot do without: most texts have none of it, and a look for it takes a tenth of the time.
_ERROR_WORDS: Final = ("error: ", "exception: ", "traceback (most recent", "segmentation fault", "```")
_HOW_MANY_WORDS: Final = ("how ", "what")
_FORMULA_SIGNS: Final = ("\\", "$", "*", "^", "=", " + ", " - ", "/", "×", "÷")
_DIGIT: Final = re.compile(r"\d")


def _may_have(sample: str, words: Sequence[str]) -> bool:
    """Return False where a text has none of some words, in lower case; other scripts have letters that fold to ours."""
    if not sample.isascii():
        return True
    lower = sample.lower()
    for word in words:  # noqa: SIM110 - a generator would take longer than what it looks at
        if word in lower:
            return True
    return False


def _shape_hints(sample: str) -> Iterator[_Hint]:
    """Yield the hints that the look of the text gives."""
    if _CODE_LINE.search(sample):
        yield _Hint("code", 4.0, "a line of code")
    if _may_have(sample, _ERROR_WORDS) and _ERROR.search(sample):
        yield _Hint("code", 2.0, "a code block or an error report")
    if _may_have(sample, _FORMULA_SIGNS) and _FORMULA.search(sample):
        yield _Hint("math", 2.5, "a formula")
    if len({letter.lower() for letter in _CHOICE.findall(sample)}) >= 3:
        yield _Hint("reason", 6.0, "lettered choices")
    if sample.rstrip().endswith("?") and len(_CLUE.findall(sample)) >= 4:
        yield _Hint("reason", 3.5, "numbered clues and a question")
    numbers = len(_NUMBER.findall(sample)) if _DIGIT.search(sample) else 0
    if numbers and _may_have(sample, _HOW_MANY_WORDS) and _HOW_MANY.search(sample):
        yield _Hint("math", 3.0 if numbers > 1 else 2.0, "how many, and numbers")
    elif numbers >= 3 and "?" in sample:
        yield _Hint("math", 1.5, "a question with numbers")


_QUESTION: Final = re.compile(
    r"^\W*(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|wer|was|wann|wo|warum|wie"
    r"|qui|que|quand|où|pourquoi|comment|quién|qué|cuándo|dónde|por qué|cómo)\b",
    re.IGNORECASE,
)


def _question_hints(sample: str) -> Iterator[_Hint]:
    """Yield the hint of a short question that nothing else was found in."""
    short = len(sample) <= 200
    if short and (_QUESTION.match(sample) or sample.rstrip().endswith(("?", "\uff1f"))):
        yield _Hint("chat", 2.0, "a short question")


@cache
def _lists() -> _Lists:
    """Return the word lists, read once."""
    document = tomllib.loads(files("router").joinpath("data", "keywords.toml").read_text(encoding="utf-8"))
    phrases: dict[str, list[_Phrase]] = {}
    for section in ("lead", "anywhere"):
        for task_class, entries in document[section].items():
            for entry in entries:
                words = tuple(entry.split())
                phrases.setdefault(words[0], []).append(_Phrase(words, task_class, section == "lead"))
    return _Lists(
        polite=frozenset(document["polite"]),
        making=frozenset(document["making"]),
        things={thing: task_class for task_class, things in document["things"].items() for thing in things},
        phrases=phrases,
        known=frozenset((*document["making"], *phrases)),
        unspaced=tuple((word, task_class) for task_class, words in document["unspaced"].items() for word in words),
    )
