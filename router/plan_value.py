"""The plan as a value: a checked graph of steps, from a chain of roles, from jobs alike, or from a graph of one's own.

In: names of roles, texts, mappings, `TaskStep`s. Out: a `Plan`. Invariant: a `Plan` that was made here has unique ids,
known classes and dependencies, and no cycle; its steps stand in dependency order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from pydantic import ValidationError

from router.classify import TASK_CLASSES
from router.errors import PlanError, WrongUsage, unknown_name
from router.roles import role_fields
from router.step import Step, TaskStep, step_fields, step_of

CHAIN_INPUT_TOKENS: Final = 1500
"""Limit of a prompt in a chain, tokens: the most that the documented system hands from one agent to the next."""
_MOST_SHOWN: Final = 8

Draft = str | Mapping[str, Any] | TaskStep


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked graph of steps: unique ids, known dependencies, no cycle.

    Args:
        steps: in dependency order.
        merges: whether the answers of the steps are merged into one. Without it the plan's answer is that of its last
            step, where it has one (`last`), else each step has its own.
    """

    steps: tuple[Step, ...]
    merges: bool = True

    @property
    def last(self) -> Step | None:
        """The one step that no other depends on; None: there are several."""
        needed = {name for step in self.steps for name in step.depends_on}
        ends = [step for step in self.steps if step.step_id not in needed]
        return ends[0] if len(ends) == 1 else None

    @staticmethod
    def chain(*roles: Draft, **every: Any) -> Plan:
        """Return a fixed chain of roles: each sees the task and all earlier results; the last one's text is the answer.

            Plan.chain("search", {"role": "analysis", "candidates": ["kimi-k2"], "max_input_tokens": 1000}, "report")

        Args:
            roles: in order. A name of `router.roles.ROLES`; a mapping of `TaskStep`'s fields, where "role" starts from
                a built-in one; or a `TaskStep`. A prompt has at most 1,500 tokens unless max_input_tokens says
                otherwise.
            every: fields of `TaskStep` for each that does not say otherwise.

        Raises:
            WrongUsage: no role, an unknown one, one with dependencies of its own, or a field that is wrong.
        """
        usual = {"sees_task": True, "max_input_tokens": CHAIN_INPUT_TOKENS, **every}
        steps: list[Step] = []
        for number, role in enumerate(roles, 1):
            own = role_fields(role) if isinstance(role, str) else _fields(role, f"role {number}")
            if "depends_on" in {**own, **every}:
                hint = "leave it out, or use Plan.graph"
                raise WrongUsage(f"plan: role {number}: depends_on is set; in a chain each sees all earlier ones", hint)
            before = tuple(step.step_id for step in steps)
            named = {"id": _free_id(own.pop("id", f"step{number}"), before), "depends_on": before}
            steps.append(_checked(f"role {number}", {**usual, **own, **named}))
        return _of_user(steps, merges=False)

    @staticmethod
    def map(jobs: Iterable[Draft], *, merge: bool = False, **every: Any) -> Plan:
        """Return independent steps of the same kind, one a job.

            Plan.map(reviews, task_class="classify", candidates=("deepseek-v3.2",), max_output_tokens=20)

        Args:
            jobs: texts, mappings of `TaskStep`'s fields, or `TaskStep`s; those without an id are job1, job2, …
            merge: whether their answers are merged into one; else each has its own in `Result.steps`.
            every: fields of `TaskStep` for each that does not say otherwise.

        Raises:
            WrongUsage: no job, or one that is wrong.
        """
        steps = []
        for number, job in enumerate(_listed(jobs, "jobs"), 1):
            where = f"job {number}"
            steps.append(_checked(where, {"id": f"job{number}", **every, **_fields(job, where)}))
        return _of_user(steps, merges=merge)

    @staticmethod
    def graph(steps: Mapping[str, Draft] | Iterable[Draft], *, merge: bool = True) -> Plan:
        """Return a graph of steps.

            Plan.graph({"a": "List the rivers.", "b": {"prompt": "Shorten it.", "depends_on": ["a"]}})

        Args:
            steps: id → text, mapping of `TaskStep`'s fields or `TaskStep`; or a sequence of the latter two.
            merge: whether the answers are merged into one.

        Raises:
            WrongUsage: no step, one that is wrong, an id used twice, an unknown dependency or class, or a cycle.
        """
        if isinstance(steps, Mapping):
            drafts = [(f"step {name!r}", _fields(each, f"step {name!r}"), name) for name, each in steps.items()]
        else:
            listed = enumerate(_listed(steps, "steps"), 1)
            drafts = [(f"step {number}", _fields(each, f"step {number}"), None) for number, each in listed]
        made = []
        for where, own, name in drafts:
            if name is not None and own.setdefault("id", name) != name:
                raise WrongUsage(f"plan: {where} calls itself {own['id']!r}", hint="leave its id out")
            made.append(_checked(where, own))
        return _of_user(made, merges=merge)

    def written(self) -> dict[str, Any]:
        """Return the plan as a plan's file has it: "steps", what is as by default left out, and "merge"."""
        return {"steps": [step_fields(step) for step in self.steps], "merge": self.merges}


def checked_plan(steps: Iterable[Step], *, max_steps: int | None, merges: bool = True) -> Plan:
    """Return a Plan of the steps in dependency order.

    Args:
        steps: the steps.
        max_steps: the most there may be; None: no limit.
        merges: see `Plan`.

    Raises:
        PlanError: no step or too many, an id used twice, a dependency that does not exist, or a cycle.
    """
    given = list(steps)
    if not given or (max_steps is not None and len(given) > max_steps):
        allowed = "at least 1 is needed" if max_steps is None else f"1 to {max_steps} are allowed"
        hint = "raise [swarm] max_steps, or split the task" if given else "give a step"
        raise PlanError(f"plan: it has {len(given)} steps; {allowed}", hint=hint)
    by_id: dict[str, Step] = {}
    for step in given:
        if step.step_id in by_id:
            raise PlanError(f"plan: step id {step.step_id!r} is used twice", hint="every step needs an id of its own")
        by_id[step.step_id] = step
    for step in given:
        for needed in step.depends_on:
            if needed not in by_id:
                raise PlanError(f"plan: step {step.step_id!r} depends on {needed!r}, which does not exist")
    try:
        order = tuple(TopologicalSorter({name: step.depends_on for name, step in by_id.items()}).static_order())
    except CycleError as error:
        raise PlanError(f"plan: the steps {_round(error.args[1])} wait for each other") from None
    return Plan(tuple(by_id[name] for name in order), merges)


def require_classes(steps: Iterable[TaskStep | Step], key: str) -> None:
    """Refuse steps of a class that does not exist.

    Args:
        steps: the steps.
        key: what they are called in the message.

    Raises:
        WrongUsage: there is one.
    """
    for step in steps:
        if step.task_class not in TASK_CLASSES:
            name = step.step_id if isinstance(step, Step) else step.id
            raise unknown_name(f"{key}: step {name!r}: class", step.task_class, TASK_CLASSES)


def _round(names: Sequence[str]) -> str:
    """Return the ids of a cycle, the first ones where it is long."""
    if len(names) <= _MOST_SHOWN:
        return " → ".join(names)
    return f"{' → '.join(names[:_MOST_SHOWN])} → … ({len(names) - 1} steps)"


def _of_user(steps: Sequence[Step], *, merges: bool) -> Plan:
    """Return the plan that a caller's own code describes.

    Raises:
        WrongUsage: it is none that can be run.
    """
    require_classes(steps, "plan")
    try:
        return checked_plan(steps, max_steps=None, merges=merges)
    except PlanError as error:
        raise WrongUsage(str(error), hint=error.hint) from None


def _fields(draft: object, where: str) -> dict[str, Any]:
    """Return the fields that a draft sets; a mapping's "role" stands for those of a built-in role.

    Raises:
        WrongUsage: it is no draft, or its role does not exist.
    """
    if isinstance(draft, str):
        return {"prompt": draft}
    if isinstance(draft, TaskStep):
        return {name: getattr(draft, name) for name in draft.model_fields_set}
    if isinstance(draft, Mapping):
        own = dict(draft)
        return {**role_fields(str(own.pop("role"))), **own} if "role" in own else own
    hint = "a text, a mapping of TaskStep's fields, or a TaskStep is allowed"
    raise WrongUsage(f"plan: {where} is {str(draft)[:40]!r}, of type {type(draft).__name__}", hint=hint)


def _listed(drafts: object, name: str) -> Iterable[Draft]:
    if isinstance(drafts, str) or not isinstance(drafts, Iterable):
        raise WrongUsage(f"plan: {name} is of type {type(drafts).__name__}; a list is allowed", hint=f"{name}=[…]")
    return drafts


def _free_id(wanted: Any, taken: Sequence[str]) -> Any:
    """Return the id, with a number where a chain has the same role twice."""
    numbered = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return wanted if wanted not in taken else next(each for each in numbered if each not in taken)


def _checked(where: str, own: Mapping[str, Any]) -> Step:
    """Return a step of what is said of it.

    Raises:
        WrongUsage: a field is unknown, missing or out of range.
    """
    try:
        return step_of(TaskStep.model_validate(own))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        named = ".".join(map(str, fault["loc"])) or "it"
        hint = "see help(router.TaskStep) for the fields"
        raise WrongUsage(f"plan: {where}: {named}: {fault['msg']}", hint=hint) from None
