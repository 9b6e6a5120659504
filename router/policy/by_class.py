"""The `by_class` policy: per class of task, the cheapest candidate for this request that is good enough.

In: a need and the rules. Out: the models to choose from and the floor that holds.
Invariant: a floor stands only where published figures exist to hold against it (docs/quality-priors.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from router.settings import ByClassSettings, ClassRule

VERSION = "by_class/1"
_ANY = (
    "gpt-4.1-mini",
    "gpt-4.1",
    "gemini-2.5-flash",
    "deepseek-v3.2",
    "kimi-k2",
    "kimi-k2.5",
    "claude-sonnet-4.5",
)
_LIGHT = ("gpt-4.1-nano", "gpt-4o-mini", "gpt-4.1-mini", "gemini-2.5-flash", "deepseek-v3.2")
_PROSE = ("gpt-4.1-mini", "gemini-2.5-flash", "deepseek-v3.2", "kimi-k2", "gpt-4.1")
_STRONG = ("gpt-4.1", "deepseek-v3.2", "kimi-k2", "kimi-k2.5", "claude-sonnet-4.5", "gemini-2.5-flash")

# A floor is what gpt-4.1 is shown to reach, rounded down; for extract one step lower, so that lighter models compete.
BUILT_IN_RULES: Mapping[str, ClassRule] = MappingProxyType(
    {
        "extract": ClassRule(quality_floor=0.80, candidates=_ANY),
        "classify": ClassRule(candidates=_LIGHT),
        "summarize": ClassRule(candidates=_LIGHT),
        "translate": ClassRule(candidates=_LIGHT),
        "write": ClassRule(candidates=_PROSE),
        "code": ClassRule(quality_floor=0.40, candidates=_ANY),
        "math": ClassRule(quality_floor=0.25, candidates=_ANY),
        "reason": ClassRule(quality_floor=0.60, candidates=_ANY),
        "research": ClassRule(candidates=_STRONG),
        "chat": ClassRule(candidates=_LIGHT),
        "plan": ClassRule(candidates=_STRONG),
        "merge": ClassRule(candidates=_PROSE),
    }
)


def rule_for(configuration: ByClassSettings, task_class: str) -> ClassRule:
    """Return the rule of a class: the user's, else the built-in one; an unknown class has the default class's."""
    known = task_class if task_class in BUILT_IN_RULES or task_class in configuration.classes else None
    name = known or configuration.default_class
    return configuration.classes.get(name) or BUILT_IN_RULES[name]
