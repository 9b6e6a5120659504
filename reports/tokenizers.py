"""How far token counts carry over from one model to another.

In: two model ids. Out: a band: the least and the greatest factor on the recorded counts. Invariant: models of one
tokenizer have the band 1 to 1; nothing here moves a cost, it only says how far one may be off.

Measured in November 2026 on the prompts of 15 public tasks (150 each: MMLU, GSM8K, MATH, HumanEval, MT-Bench, GPQA and
others) and on Python code, with four published tokenizers (o200k_base, cl100k_base, Claude 2's, DeepSeek-V3's): summed
over a task, two of them differ by −8 % to +9 %. The band says ±10 %. English and code only: other scripts differ by
more (Petrov et al., arXiv 2305.15425). Claude Opus 4.7 brought a tokenizer that makes 1.0 to 1.35 times as many tokens
as its predecessor's, says Anthropic (announcement of Claude Opus 4.7, April 2026); later Claude models are taken to
have it too. How long another model's answers are is no question of tokenizers, and is not in the band.
"""

from __future__ import annotations

import re
from fractions import Fraction

SPREAD = Fraction(1, 10)
NEWER_CLAUDE = Fraction(135, 100)

_FAMILIES = (
    ("o200k_base", re.compile(r"gpt-4o|gpt-4\.[15]|gpt-[5-9]|gpt-oss|chatgpt-4o|o[1-9]\b|computer-use|codex")),
    ("cl100k_base", re.compile(r"gpt-4(?!\d)|gpt-3\.5")),
    ("claude, from Opus 4.7", re.compile(r"claude-(?:opus-4[.-][7-9]|[a-z]+-[5-9])(?!\d)")),
    ("claude", re.compile(r"claude")),
    ("gemini", re.compile(r"gemini")),
    ("deepseek", re.compile(r"deepseek")),
    ("kimi", re.compile(r"kimi")),
    ("moonshot-v1", re.compile(r"moonshot-v1")),
    ("qwen", re.compile(r"qwen")),
    ("grok", re.compile(r"grok")),
)


def tokenizer_of(model: str) -> str:
    """Return the name of a model's tokenizer as far as it is known; a model of no known family has one of its own.

    Args:
        model: our model id. OpenAI's families are those that tiktoken names.
    """
    return next((name for name, pattern in _FAMILIES if pattern.match(model)), model)


def token_band(old: str, new: str) -> tuple[Fraction, Fraction]:
    """Return the least and the greatest factor from the tokens of one model to those of another for the same text.

    Args:
        old: the model whose tokens were counted.
        new: the model that is put in its place.
    """
    before, after = tokenizer_of(old), tokenizer_of(new)
    if before == after:
        return Fraction(1), Fraction(1)
    newer = "claude, from Opus 4.7"
    if {before, after} == {"claude", newer}:
        return (Fraction(1), NEWER_CLAUDE) if after == newer else (1 / NEWER_CLAUDE, Fraction(1))
    low, high = 1 - SPREAD, 1 + SPREAD
    if after == newer:
        return low, high * NEWER_CLAUDE
    return (low / NEWER_CLAUDE, high) if before == newer else (low, high)
