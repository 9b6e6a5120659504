"""Body fields for vendors: who sets them, who wins, and what thinking they allow.

In: the tables of settings, task and step. Out: the body fields of a call. Invariant: pure; an orchestrator's own words
never set a body field, and of two that set the same one the nearer to the call wins:
endpoint < configuration < its role or class < task < step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from router.forecast import OutputForecast
from router.policy.by_class import rule_for
from router.policy.by_plan import rule_of
from router.settings import ConfigurationSettings, FixedSettings
from router.settings_plan import ByPlanSettings
from router.task import LIMITS, Task

# Google, "OpenAI compatibility" of the Gemini API: reasoning_effort low, medium and high stand for thinking budgets of
# 1,024, 8,192 and 24,576 tokens. No other vendor states tokens; the two ends are the nearest stated one's.
EFFORT_TOKENS: Final[Mapping[str, int]] = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
_BUDGETS: Final = frozenset({"budget_tokens", "thinking_budget", "thinkingBudget"})
_EFFORTS: Final = frozenset({"reasoning_effort", "effort"})
_PLACES: Final = frozenset(
    {
        "thinking",  # Anthropic, Moonshot: {"type": "enabled", "budget_tokens": n}
        "reasoning",  # OpenRouter: {"max_tokens": n} or {"effort": "high"}
        "extra_body",  # Google: {"google": {"thinking_config": {"thinking_budget": n}}}
        "google",
        "thinking_config",
        "generationConfig",
        "thinkingConfig",
        "chat_template_kwargs",
    }
)


def configured_extra(configuration: ConfigurationSettings, role: str, task_class: str) -> dict[str, Any]:
    """Return the body fields that a configuration sets for one call.

    Args:
        configuration: the named configuration.
        role: single, orchestrator, worker …
        task_class: class of the call.
    """
    if isinstance(configuration, FixedSettings):
        own = configuration.worker_extra if role == "worker" else configuration.orchestrator_extra
    elif isinstance(configuration, ByPlanSettings):
        own = rule_of(configuration, task_class).extra
    else:
        own = rule_for(configuration, task_class).extra
    return {**configuration.extra, **own}


def body_fields(task: Task, configured: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the body fields that a call sends; what the endpoint sets stands under them.

    A limit of the answer is a limit of what the caller reads: thinking that is allowed for comes on top of it, since
    vendors count it as output.

    Args:
        task: the call's task; its extras win.
        configured: what the configuration sets (`configured_extra`); a limit of the task's own stands against one of
            these.
    """
    extra = {**(configured or {}), **task.extra}
    parameters: dict[str, Any] = {}
    if task.max_output_tokens is not None:
        extra = {name: value for name, value in extra.items() if name not in LIMITS or name in task.extra}
        if not any(name in extra for name in LIMITS):
            parameters["max_tokens"] = task.max_output_tokens + thinking_tokens(extra)
    if task.json_output:
        parameters["response_format"] = {"type": "json_object"}
    if task.tools:
        parameters["tools"] = list(task.tools)
    return {**parameters, **extra}


def thinking_tokens(parameters: Mapping[str, Any]) -> int:
    """Return the thinking that body fields allow, tokens: a stated budget, else what an effort stands for, else 0."""
    if (effort := _stated(parameters, _EFFORTS, str)) is not None and parameters.get("thinking") is None:
        stated = EFFORT_TOKENS.get(effort.lower(), 0)
    else:
        stated = 0
    budget = _stated(parameters, _BUDGETS, int)
    reasoning = parameters.get("reasoning")
    if budget is None and isinstance(reasoning, Mapping) and isinstance(reasoning.get("max_tokens"), int):
        budget = int(reasoning["max_tokens"])
    return max(0, stated if budget is None else budget)


def bounded(parameters: Mapping[str, Any], most_tokens: int | None) -> Mapping[str, Any]:
    """Return body fields whose limit, where thinking was added to it, is none that the model refuses.

    Args:
        parameters: the body fields.
        most_tokens: longest output of the model, tokens; None: unknown.
    """
    over = [name for name in LIMITS if most_tokens and _is_over(parameters.get(name), most_tokens)]
    if not over or not thinking_tokens(parameters):
        return parameters
    return {**parameters, **dict.fromkeys(over, most_tokens)}


def _is_over(limit: object, most_tokens: int) -> bool:
    return isinstance(limit, int) and limit > most_tokens


def with_thinking(output: OutputForecast, tokens: int) -> OutputForecast:
    """Return a forecast that has the thinking in it: none of it at the low end, half of it in the mean, all of it high.

    That is an assumption: a budget is an upper bound, and how much of one is used is in nobody's record yet.

    Args:
        output: of the answer alone.
        tokens: thinking that is allowed, tokens.
    """
    if not tokens:
        return output
    thinking = expected_thinking(tokens)
    high, source = output.high_tokens + tokens, f"{output.source}; {thinking.source}"
    return OutputForecast(output.low_tokens, output.expected_tokens + thinking.expected_tokens, high, source)


def expected_thinking(tokens: int) -> OutputForecast:
    """Return how much of the thinking that is allowed will be done, as of `with_thinking`, tokens."""
    return OutputForecast(0, tokens // 2, tokens, f"assumption: half of {tokens} tokens of thinking")


def _stated(table: Mapping[str, Any], names: frozenset[str], kind: type) -> Any:
    """Return the value of the first of the names in a table or in a table of thinking inside it, or None."""
    for name, value in table.items():
        if name in names and isinstance(value, kind) and not isinstance(value, bool):
            return value
        found = _stated(value, names, kind) if name in _PLACES and isinstance(value, Mapping) else None
        if found is not None:
            return found
    return None
