"""What the stand-in server answers: plans, pieces of work, merges, JSON, tool calls.

In: the body of a chat completion and its `Prompt`. Out: an `Answer`.
Invariant: the answer is a function of model and messages (and of the limits the body sets); no clock, no chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from router.endpoints.sandbox.calling import ordered_calls, told_by_tools
from router.endpoints.sandbox.prompts import CHARACTERS_PER_TOKEN, Prompt

PLAN_MARK = 'Reply with one JSON object: {"tasks":'
MERGE_MARK = "Merge the results below into one answer."
FAILED_MARK = "Subtasks that failed:\n"
JUDGE_MARK = 'Reply with one JSON object: {"score":'
ECHO_MARK = "Reply with exactly this:\n"
MOST_TASKS = 5000

_COMMON = """
    about above after again also analyse analyze answer before below being between classify compare could describe
    details does each every explain extract final following from give given have here into item just label line list
    more most much number only other part please reply result results should some summarise summarize task text than
    that their them then there these they this those translate using very what when where which while will with words
    work would write your
"""
_STOP_WORDS = frozenset(_COMMON.split())
# Tokens a piece of work of a kind takes: (words that tell it, least, most).
_LENGTHS = (
    (("classify", "label", "yes or no"), 20, 30),
    (("extract", "list the"), 30, 80),
    (("summarise", "summarize", "summary"), 50, 110),
    (("translate",), 40, 120),
    (("code", "function", "implement"), 90, 200),
    (("research", "analyse", "analyze", "report", "explain"), 100, 200),
)
_SENTENCES = (
    "For {0}, the short answer is that {1} matters most.",
    "Looking at {0} together with {1} gives a consistent picture.",
    "The main point on {0} is clear once {1} is taken into account.",
    "{0} depends on {1}, and both can be checked against the source.",
    "A sensible next step is to compare {0} with {1}.",
    "Nothing in the material on {0} contradicts this.",
    "In practice {1} sets the limit, and {0} follows from it.",
    "The open question about {0} is how far {1} carries over.",
)
_CLASSES = (
    ("translate", "translate"),
    ("summar", "summarize"),
    ("extract", "extract"),
    ("classify", "classify"),
    ("code", "code"),
    ("function", "code"),
    ("calculate", "math"),
    ("prove", "reason"),
    ("compare", "reason"),
    ("research", "research"),
    ("find out", "research"),
)
_ITEM = re.compile(r"^\s*(?:\(?\d{1,4}[.):]|[-*•])\s+(\S.*)$", re.MULTILINE)
_COUNT = re.compile(
    r"\b(\d{1,4}|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|fifty|hundred)\s+(?:[\w-]+\s+){0,2}?"
    r"(?:parts?|sections?|items?|workers?|steps?|tasks?|subtasks?|chapters?|documents?|pages?|questions?|reviews?"
    r"|records?|tickets?|articles?|topics?|files?|cities|countries|companies|products?)\b",
    re.IGNORECASE,
)
_AFTER = re.compile(r"\(after (\d{1,4}(?:, \d{1,4})*)\)$")
_REST = re.compile(r"\[rest (.*?)\]$", re.MULTILINE)
_UNFINISHED = re.compile(r"^- (\S+) \((\w+)\)(?:, after ([^:\n]*))?: (.*)$", re.MULTILINE)
_SCORE = re.compile(r"\[score (\d(?:\.\d+)?|\?)\]")
_NUMBERS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "twenty": 20,
    "fifty": 50,
    "hundred": 100,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Args:
        text: what the assistant says; empty where it calls a tool.
        finish_reason: "stop", "length" or "tool_calls".
        tool_calls: the calls it makes, OpenAI-shaped.
        is_plan: whether it is a plan.
    """

    text: str
    finish_reason: str = "stop"
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    is_plan: bool = False


def answer(model: str, body: Mapping[str, Any], prompt: Prompt) -> Answer:
    """Return the answer of `model` to a body, cut to its max_tokens (or max_completion_tokens)."""
    ordered = ordered_calls(body)
    if ordered:
        return Answer("", "tool_calls", ordered)
    called = _tool_call(body, prompt)
    if called is not None:
        return Answer("", "tool_calls", (called,))
    is_plan = PLAN_MARK in prompt.all_text
    text = _plan(prompt) if is_plan else _say(model, body, prompt)
    return _cut(Answer(text, is_plan=is_plan), body)


def _cut(whole: Answer, body: Mapping[str, Any]) -> Answer:
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if not isinstance(limit, int) or len(whole.text) <= limit * CHARACTERS_PER_TOKEN:
        return whole
    return Answer(whole.text[: limit * CHARACTERS_PER_TOKEN], "length", is_plan=whole.is_plan)


def _say(model: str, body: Mapping[str, Any], prompt: Prompt) -> str:
    handed_on = told_by_tools(body)
    if handed_on is not None:
        return handed_on
    if JUDGE_MARK in prompt.all_text:
        return _judgement(model, prompt)
    if ECHO_MARK in prompt.asked:
        return prompt.asked.split(ECHO_MARK, 1)[1]
    response_format = body.get("response_format")
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if isinstance(response_format, dict) and kind == "json_schema":
        schema = (response_format.get("json_schema") or {}).get("schema") or {}
        return json.dumps(_instance(schema, _subjects(prompt.asked)), ensure_ascii=False)
    text = _merge(prompt) if MERGE_MARK in prompt.all_text else _work(model, prompt)
    return json.dumps({"answer": text}, ensure_ascii=False) if kind == "json_object" else text


# Plans ---------------------------------------------------------------------------------------------------------------


def _plan(prompt: Prompt) -> str:
    """Return a task an item; "(after 1, 2)" at its end names those it depends on."""
    if FAILED_MARK in prompt.asked:
        return _rest(prompt.asked)
    return _plan_of(
        {"id": f"t{number}", "class": _class_of(text), "prompt": text, "depends_on": _needs(text)}
        for number, text in enumerate(_items(prompt.asked), start=1)
    )


def _plan_of(tasks: Iterable[Mapping[str, Any]]) -> str:
    listed = list(tasks)
    return json.dumps({"tasks": listed, "n_tasks": len(listed)}, ensure_ascii=False)


def _needs(text: str) -> Sequence[str]:
    found = _AFTER.search(text)
    return [f"t{number}" for number in found[1].split(", ")] if found else []


def _rest(asked: str) -> str:
    """Return a plan of what is left: what the task says, "[rest …]" at a line's end; else what failed, another way."""
    task, _, told = asked.partition(FAILED_MARK)
    if (said := _REST.search(task)) is not None:
        return said[1]
    left = {step_id: (kind, needs, text) for step_id, kind, needs, text in _UNFINISHED.findall(told)}
    return _plan_of(
        {
            "id": f"again-{step_id}",
            "class": kind,
            "prompt": f"Another way: {text}",
            "depends_on": [f"again-{need}" if need in left else need for need in needs.split(", ") if need],
        }
        for step_id, (kind, needs, text) in left.items()
    )


def _items(text: str) -> Sequence[str]:
    """Return one prompt a task: the text's list items, or as many parts as it names, or three."""
    listed = [item.strip() for item in _ITEM.findall(text)][:MOST_TASKS]
    if len(listed) >= 2:
        return listed
    found = _COUNT.search(text)
    number = 3
    if found:
        word = found.group(1).lower()
        number = max(1, min(MOST_TASKS, _NUMBERS.get(word) or int(word)))
    subject = " ".join(text.split())[:160]
    return [f"Part {part} of {number}: {subject}" for part in range(1, number + 1)]


def _class_of(text: str) -> str:
    lowered = text.lower()
    return next((name for mark, name in _CLASSES if mark in lowered), "write")


# Work and merges -----------------------------------------------------------------------------------------------------


def _work(model: str, prompt: Prompt) -> str:
    seed = _seed(model, prompt.rendered)
    lowered = prompt.asked.lower()
    least, most = next(((low, high) for marks, low, high in _LENGTHS if any(m in lowered for m in marks)), (40, 140))
    wanted = (least + seed % (most - least + 1)) * CHARACTERS_PER_TOKEN
    subjects = _subjects(prompt.asked)
    sentences: list[str] = []
    length, turn = 0, 0
    while True:
        first, second = subjects[turn % len(subjects)], subjects[(turn + 1) % len(subjects)]
        sentence = _SENTENCES[(seed + turn) % len(_SENTENCES)].format(first, second)
        if sentences and length + len(sentence) > wanted:
            return " ".join(sentences)
        sentences.append(sentence[:1].upper() + sentence[1:])
        length += len(sentence) + 1
        turn += 1


def _merge(prompt: Prompt) -> str:
    parts = [part.strip() for part in re.split(r"\n\s*\n", prompt.all_text.split(MERGE_MARK, 1)[1]) if part.strip()]
    lines = [f"- {_opening(part)}" for part in parts[:12]]
    if len(parts) > len(lines):
        lines.append(f"- and {len(parts) - len(lines)} more in the same vein")
    return "\n".join([f"All {len(parts)} results taken together:", *lines])


def _judgement(model: str, prompt: Prompt) -> str:
    """Return the score that the judged text names, "[score 0.4]"; else one from 0.7 to 0.99; "[score ?]": no JSON."""
    marks = _SCORE.findall(prompt.asked)
    if marks and marks[-1] == "?":
        return "I would rather not judge this."
    score = float(marks[-1]) if marks else 0.7 + _seed(model, prompt.rendered) % 30 / 100
    return json.dumps({"score": round(score, 2), "reason": "as the text says" if marks else "it does what was asked"})


def _opening(part: str) -> str:
    """Return a part's first words, on one line."""
    words = part.split()
    return " ".join(words[:10]) + (" …" if len(words) > 10 else "")


def _subjects(text: str) -> Sequence[str]:
    """Return up to eight different telling words of a text, in their order; "the question" where it has none."""
    words = re.findall(r"[^\W\d_][\w'-]{3,}", text[:4000])
    telling = (word for word in words if word.lower() not in _STOP_WORDS)
    return list(dict.fromkeys(telling))[:8] or ["the question"]


def _seed(model: str, rendered: str) -> int:
    return int.from_bytes(blake2b(f"{model}\n{rendered}".encode("utf-8", "surrogatepass"), digest_size=6).digest())


# Tools and schemas ---------------------------------------------------------------------------------------------------


def _tool_call(body: Mapping[str, Any], prompt: Prompt) -> Mapping[str, Any] | None:
    """Return the call that `tool_choice` demands ("required", or a named function), else None."""
    tools, choice = body.get("tools"), body.get("tool_choice")
    if not isinstance(tools, list) or not tools or choice in (None, "auto", "none"):
        return None
    functions = [
        tool["function"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict)
    ]
    wanted = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    function = next((f for f in functions if wanted in (None, f.get("name"))), None)
    if function is None:
        return None
    arguments = json.dumps(_instance(function.get("parameters") or {}, _subjects(prompt.asked)), ensure_ascii=False)
    call_id = f"call_{_seed(str(function.get('name')), prompt.rendered):012x}"
    return {"id": call_id, "type": "function", "function": {"name": function.get("name"), "arguments": arguments}}


def _instance(schema: Mapping[str, Any], words: Sequence[str], depth: int = 0) -> Any:
    """Return a value that fits a JSON schema: types, properties, items, enum and const are looked at."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0] if kind else "string"
    if kind == "object" and depth < 8:
        properties = schema.get("properties") or {}
        return {name: _instance(inner, words, depth + 1) for name, inner in properties.items()}
    if kind == "array" and depth < 8:
        return [_instance(schema.get("items") or {}, words, depth + 1)]
    return {"integer": 1, "number": 1.5, "boolean": True, "null": None}.get(kind, " ".join(words[:3]))
