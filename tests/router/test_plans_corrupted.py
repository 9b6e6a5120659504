"""Plans as broken as models write them: what is read is the plan that was meant, and a cut one is never read.

The generator writes plans its own way and knows nothing of the repair: it serializes token by token, so that a slip
never alters a text. Run as a script it prints the figures of more plans, beside json_repair alone:
`python tests/router/test_plans_corrupted.py 5000`.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import json_repair
import pytest

from router.errors import PlanError
from router.plan import PlanCut, parse_plan

CLASSES = ("code", "write", "extract", "research", "math", "translate", "summarize", "chat")
SAYINGS = (
    "Compare the revenue of Lisbon's two ports, 2019-2023",
    'Explain what "eventual consistency" means, in two sentences',
    "Read https://example.org/a?b=1#top // and list its headings",
    "Don't translate names; keep 'Zürich' as it is, and don't add notes",
    "Write a function f(x) { return [x, {x: 1}]; } and test it",
    "List: a, b, c; then d: e, f # not g",
    "Sum 1.5, -2e3 and 0x10 [three numbers], all of them",
    "用中文总结这份报告:重点、风险、建议",
    "Line one\nLine two\tand a tab",
    "Give the regex \\d+\\s*, and C:\\new\\table",
    "True, False, None and NaN are words, too: null",
    'What does {"tasks": [], "n_tasks": 0} mean as JSON?',
    "Résumé of the /* old */ contract, clause 7, 'force majeure'",
    "Emoji 🙂, quotes “so” and ‘so’, dashes – and —",
    "Use the result of the first step; it's the basis, isn't it?",
    "```python\nprint('hi')\n```",
)  # fmt: skip
PROSE = (
    "Here is the plan you asked for:",
    "Sure! I've split it; each worker sees one part only.",
    "The {plan} below has these tasks: see [1] and {2}.",
    "I'll write tasks: first the easy ones.",
    'Note that "tasks" and "n_tasks" are required.',
)
AFTER = ("Tell me if you'd like changes.", "That's all {done}.", "These tasks: they can run in parallel [mostly].")
THOUGHTS = (
    '<think>maybe {"tasks": [{"id": "x", "class": "chat", "prompt": "y", "depends_on": []}], "n_tasks": 1}?</think>',
    "<think>\nLet's see, {'tasks': ...} it's easy\n</think>\n",
    "<thinking>Two or three steps?</thinking>",
)
COMMENTS = ("// first", "/* the parts */", "# it's easy", '// "class" is the kind of work', "/* { [ */")
KINDS = ("fence", "prose", "trailing comma", "single quotes", "comment", "NaN", "literals", "thinking")
Quote = Literal["double", "escaped", "naive", "python"]


@dataclass(slots=True)
class Style:
    """How a plan is written: its slips, and the chance that decides where they fall."""

    chance: random.Random
    indent: bool = False
    quote: Quote = "double"
    trailing: float = 0.0
    comments: float = 0.0
    python_literals: bool = False
    no_number: str = "NaN"


def a_plan(chance: random.Random) -> dict[str, Any]:
    """Return a plan of 1 to 8 tasks with awkward texts."""
    count = chance.randint(1, 8)
    tasks: list[dict[str, Any]] = []
    for number in range(count):
        earlier = [task["id"] for task in tasks]
        prompt = " ".join(chance.sample(SAYINGS, chance.randint(1, 3)))
        needs = chance.sample(earlier, min(len(earlier), chance.choice((0, 0, 1, 2))))
        tasks.append({"id": f"t{number}", "class": chance.choice(CLASSES), "prompt": prompt, "depends_on": needs})
    return {"tasks": tasks, "n_tasks": count}


def text_of(value: str, style: Style) -> str:
    """Return a text in the style's quotes; "naive" changes the outer quotes and escapes nothing of its own kind."""
    if style.quote == "double":
        return json.dumps(value, ensure_ascii=style.chance.random() < 0.2)
    if style.quote == "python":
        return repr(value)
    inner = json.dumps(value, ensure_ascii=False)[1:-1].replace('\\"', '"')
    return f"'{inner if style.quote == 'naive' else inner.replace(chr(39), chr(92) + chr(39))}'"


def written(value: Any, style: Style, depth: int = 0) -> str:
    """Return a value as JSON with the style's slips."""
    if isinstance(value, str):
        return text_of(value, style)
    if isinstance(value, bool) or value is None:
        return repr(value) if style.python_literals else json.dumps(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return style.no_number
    is_object = isinstance(value, dict)
    parts = (
        [f"{text_of(key, style)}: {written(each, style, depth + 1)}" for key, each in value.items()]
        if is_object
        else [written(each, style, depth + 1) for each in value]
    )
    gap = "\n" + "  " * (depth + 1) if style.indent else ""
    body = ""
    for at, part in enumerate(parts):
        is_last = at == len(parts) - 1
        comma = "" if is_last and style.chance.random() >= style.trailing else ","
        body += gap + part + comma + a_comment(style) + ("" if gap or is_last else " ")
    end = "\n" + "  " * depth if style.indent and parts else ""
    opening, closing = "{}" if is_object else "[]"
    return opening + body + end + closing


def a_comment(style: Style) -> str:
    if style.chance.random() >= style.comments:
        return ""
    comment = style.chance.choice(COMMENTS)
    return f" {comment}" if comment.startswith("/*") else f" {comment}\n"


@dataclass(frozen=True, slots=True)
class Corrupted:
    """A plan with slips: its text, their kinds, and the places of the braces that open and close it."""

    text: str
    kinds: tuple[str, ...]
    opens: int
    closes: int

    def cut(self, chance: random.Random) -> str:
        """Return the text without its end: at least the closing brace is missing."""
        return self.text[: chance.randint(self.opens + 1, self.closes)]


def corrupted(plan: dict[str, Any], chance: random.Random) -> Corrupted:
    """Return the plan with 1 to 3 kinds of slip."""
    kinds = tuple(chance.sample(KINDS, chance.randint(1, 3)))
    style = Style(chance, indent=chance.random() < 0.4)
    if "single quotes" in kinds:
        style.quote = chance.choice(("escaped", "naive", "python"))
    if "trailing comma" in kinds:
        style.trailing = chance.choice((0.3, 1.0))
    if "comment" in kinds:
        style.comments = chance.choice((0.1, 0.5))
    style.no_number = chance.choice(("NaN", "Infinity", "-Infinity"))
    style.python_literals = "literals" in kinds
    more: dict[str, Any] = {"confidence": float("nan")} if "NaN" in kinds else {}
    more |= {"parallel": True, "note": None} if "literals" in kinds else {}
    whole = written({**plan, "tasks": [{**task, **more} for task in plan["tasks"]]}, style)
    before, after = around(kinds, chance)
    return Corrupted(before + whole + after, kinds, len(before), len(before) + len(whole) - 1)


def around(kinds: tuple[str, ...], chance: random.Random) -> tuple[str, str]:
    """Return what stands before and behind a plan."""
    before = after = ""
    if "fence" in kinds:
        before, after = f"```{chance.choice(('json', '', 'JSON'))}\n", "\n```"
    if "prose" in kinds:
        before = f"{chance.choice(PROSE)}\n\n{before}"
        after += f"\n{chance.choice(AFTER)}" if chance.random() < 0.6 else ""
    if "thinking" in kinds:
        before = chance.choice(THOUGHTS) + before
    return before, after


def meant(plan: dict[str, Any]) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    return {task["id"]: (task["class"], task["prompt"], tuple(task["depends_on"])) for task in plan["tasks"]}


def read(text: str, finish_reason: str = "stop") -> dict[str, tuple[str, str, tuple[str, ...]]] | None:
    """Return what the plan parser accepts, or None."""
    try:
        steps = parse_plan(text, finish_reason, max_steps=100).steps
    except PlanError:
        return None
    return {step.step_id: (step.task_class, step.prompt, step.depends_on) for step in steps}


def read_by_json_repair(text: str) -> dict[str, tuple[str, str, tuple[str, ...]]] | None:
    """Return what json_repair alone makes of it, if that looks like a plan."""
    found = json_repair.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("tasks"), list):
        return None
    try:
        return meant(found)
    except (KeyError, TypeError):
        return None


def counted(seed: int, count: int, read_as: Any = read) -> tuple[Counter[str], list[tuple[str, ...]]]:
    """Return how many whole plans were right, wrong, refused, and how many cut ones were accepted."""
    chance = random.Random(seed)
    counts: Counter[str] = Counter()
    failed: list[tuple[str, ...]] = []
    for _ in range(count):
        plan = a_plan(chance)
        broken = corrupted(plan, chance)
        found = read_as(broken.text)
        outcome = "refused" if found is None else "right" if found == meant(plan) else "wrong"
        counts[outcome] += 1
        if outcome != "right":
            failed.append((outcome, *broken.kinds, broken.text))
        cut = broken.cut(chance)
        counts["cut accepted"] += read_as(cut) is not None
        if read_as(cut) is not None:
            failed.append(("cut accepted", *broken.kinds, cut))
    return counts, failed


@pytest.mark.parametrize("seed", [1, 7, 2026])
def test_whole_plans_are_read_as_meant_and_cut_ones_never(seed: int) -> None:
    counts, _ = counted(seed, 500)

    assert counts["right"] >= 490
    assert counts["wrong"] == 0
    assert counts["cut accepted"] == 0


def test_json_repair_alone_takes_cut_plans_for_whole() -> None:
    """What the order of repair is for; if this ever fails, json_repair has learnt it."""
    counts, _ = counted(1, 300, read_by_json_repair)

    assert counts["cut accepted"] > 20
    assert counts["right"] < 270


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_cut_at_its_token_limit_is_not_even_looked_at(seed: int) -> None:
    text = corrupted(a_plan(random.Random(seed)), random.Random(seed)).text

    with pytest.raises(PlanCut):
        parse_plan(text, "length", max_steps=100)


def test_a_number_that_is_none_never_reaches_a_step() -> None:
    text = '{"tasks": [{"id": NaN, "class": "chat", "prompt": "x"}], "n_tasks": 1}'

    assert read(text) is None
    assert read(text.replace("NaN", '"a"').replace("1}", "NaN}")) is None


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    for name, reader in (("farebox", read), ("json_repair alone", read_by_json_repair)):
        figures, broken = counted(99, total, reader)
        print(name, dict(figures))
        if reader is read:
            print("of the refused and wrong:", Counter(kind for kinds in broken for kind in kinds[1:-1]))
            for each in broken[:3]:
                print(each[:-1], each[-1][:3000])
