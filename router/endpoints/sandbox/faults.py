"""How the stand-in server is told to misbehave, per model.

In: fault settings (Python, JSON, or `model:key=value,…` of the command line). Out: a `FaultBook` that says, for each
request, which rule holds and whether its failure strikes now.
Invariant: for one order of requests the outcome is always the same; of all rules the first that fits is the only one
that acts, and the rules of the model itself come before those of "*".
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from router.errors import WrongUsage, unknown_name
from router.step import NUMBER

EVERY_MODEL = "*"


class Fault(BaseModel):
    """One rule. Its failures, from `status` on, strike where `first` and `share` let them; the other keys always act.

    Args:
        match: the rule holds only for prompts that contain this text; None: for all.
        latency_ms: wait before the answer begins, milliseconds.
        jitter_ms: further wait, evenly drawn from 0 to this, milliseconds.
        per_token_ms: wait per output token, milliseconds.
        max_in_flight: more requests than this at once are answered 429.
        max_per_s: more requests than this within one second are answered 429.
        retry_after_s: the `Retry-After` of refusals (429, 503 …), seconds; None: no header.
        omit_usage: the answer reports no usage.
        served_model: the model name in the answer, in place of the one asked for.
        upstream_id: the id in the answer, always this one; null and "" are possible.
        first: failures strike the first so many requests of the rule, then no more; None: no end.
        share: failures strike this share of the requests, 0 to 1, drawn from the seed; None: all.
        status: answer with this HTTP status and an error object (429, 500, 503, 529 …).
        hang: take the request and never answer.
        drop: close the connection once the request was read.
        cut_after: end a stream after so many pieces of text, without its end marker.
        stall_after: fall silent after so many pieces of text, connection open.
        error_after: send an error object into the stream after so many pieces of text.
        malformed: answer 200 with a body that is not JSON.
        bad_plan: spoil plans: "fenced" and "prose" can be repaired, "truncated" has lost tasks.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str | None = None
    latency_ms: Annotated[float, NUMBER] = Field(default=0, ge=0)
    jitter_ms: Annotated[float, NUMBER] = Field(default=0, ge=0)
    per_token_ms: Annotated[float, NUMBER] = Field(default=0, ge=0)
    max_in_flight: Annotated[int, NUMBER, Field(ge=0)] | None = None
    max_per_s: Annotated[float, NUMBER, Field(gt=0)] | None = None
    retry_after_s: Annotated[float, NUMBER, Field(ge=0)] | None = None
    omit_usage: bool = False
    served_model: str | None = None
    upstream_id: str | None = None

    first: Annotated[int, NUMBER, Field(ge=0)] | None = None
    share: Annotated[float, NUMBER, Field(ge=0, le=1)] | None = None
    status: Annotated[int, NUMBER, Field(ge=400, le=599)] | None = None
    hang: bool = False
    drop: bool = False
    cut_after: Annotated[int, NUMBER, Field(ge=0)] | None = None
    stall_after: Annotated[int, NUMBER, Field(ge=0)] | None = None
    error_after: Annotated[int, NUMBER, Field(ge=0)] | None = None
    malformed: bool = False
    bad_plan: Literal["fenced", "prose", "truncated"] | None = None


NO_FAULT = Fault()
Faults = Mapping[str, Fault | Sequence[Fault]]


class Rule:
    """A fault with what it has seen so far: requests, those in flight, and the last second's."""

    def __init__(self, fault: Fault, seed: int) -> None:
        self.fault = fault
        self.in_flight = 0
        self._seen = 0
        self._recent: list[float] = []
        self._random = random.Random(seed)  # noqa: S311 - faults are drawn, not secrets

    def strikes(self) -> bool:
        """Count one request, and return whether the rule's failure strikes it."""
        self._seen += 1
        if self.fault.first is not None and self._seen > self.fault.first:
            return False
        return self.fault.share is None or self._random.random() < self.fault.share

    def is_too_much(self, now_s: float) -> bool:
        """Return whether one more request at this instant (seconds of any steady clock) crosses a limit."""
        if self.fault.max_in_flight is not None and self.in_flight >= self.fault.max_in_flight:
            return True
        if self.fault.max_per_s is None:
            return False
        self._recent = [instant for instant in self._recent if instant > now_s - 1.0]
        if len(self._recent) >= self.fault.max_per_s:
            return True
        self._recent.append(now_s)
        return False

    def wait_s(self) -> float:
        """Return how long to wait before the answer begins, seconds."""
        jitter = self._random.random() * self.fault.jitter_ms if self.fault.jitter_ms else 0.0
        return (self.fault.latency_ms + jitter) / 1000


class FaultBook:
    """All rules of a server, by model."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self._rules: dict[str, list[Rule]] = {
            model: [Rule(fault, seed + position) for position, fault in enumerate(_listed(entry))]
            for model, entry in faults.items()
        }
        self._none = Rule(NO_FAULT, seed)

    def rule(self, model: str, prompt: str) -> Rule:
        """Return the rule that holds for a request, or one that does nothing."""
        if not self._rules:
            return self._none
        for rule in self._rules.get(model, []) + self._rules.get(EVERY_MODEL, []):
            if rule.fault.match is None or rule.fault.match in prompt:
                return rule
        return self._none


def _listed(entry: Fault | Sequence[Fault]) -> Sequence[Fault]:
    return (entry,) if isinstance(entry, Fault) else entry


def faults_from_json(document: object) -> dict[str, Sequence[Fault]]:
    """Return the faults of a JSON document: `{"gpt-4.1": {"latency_ms": 200}, "*": [{"match": "x", "hang": true}]}`.

    Raises:
        WrongUsage: the document is of another shape, or a key or value in it is not allowed.
    """
    if not isinstance(document, Mapping):
        raise WrongUsage(
            "faults: an object of model names is required", hint='for instance {"gpt-4.1": {"hang": true}}'
        )
    faults: dict[str, Sequence[Fault]] = {}
    for model, entry in document.items():
        faults[str(model)] = [_fault(str(model), part) for part in (entry if isinstance(entry, list) else [entry])]
    return faults


_TEXT_FAULT = re.compile(
    r"(?P<model>.+?):(?P<rest>\{.*|(?:%s)(?:[=,].*)?)" % "|".join(Fault.model_fields),  # noqa: UP031 - braces
    re.DOTALL,
)


def faults_from_texts(texts: Sequence[str]) -> dict[str, Sequence[Fault]]:
    """Return the faults of command-line texts: `gpt-4.1:latency_ms=200,omit_usage`, or `gpt-4.1:{"hang": true}`.

    A model named twice has two rules, in their order.

    Raises:
        WrongUsage: a text is of another shape, or a key or value in it is not allowed.
    """
    faults: dict[str, list[Fault]] = {}
    for text in texts:
        found = _TEXT_FAULT.fullmatch(text)
        if found is None:
            model, _, rest = text.partition(":")
            if model and rest:
                raise unknown_name("fault key", re.split("[=,]", rest, maxsplit=1)[0], Fault.model_fields)
            raise WrongUsage(f"--fault: {text!r} is not MODEL:KEY=VALUE,…", hint="for instance gpt-4.1:latency_ms=200")
        faults.setdefault(found["model"], []).append(_fault(found["model"], _fields(found["rest"])))
    return {model: tuple(rules) for model, rules in faults.items()}


def _fields(text: str) -> object:
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise WrongUsage(f"--fault: {text!r} is not JSON: {error}") from None
    fields: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        is_null = value == "null" and key == "upstream_id"
        fields[key] = (None if is_null else value) if equals else True
    return fields


def _fault(model: str, fields: object) -> Fault:
    if isinstance(fields, Fault):
        return fields
    if isinstance(fields, Mapping):
        for key in fields:
            if key not in Fault.model_fields:
                raise unknown_name("fault key", str(key), Fault.model_fields)
    try:
        return Fault.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "fault"
        raise WrongUsage(f"fault of {model!r}: {where} is {first['input']!r}: {first['msg']}") from None


def steady_now_s() -> float:
    """Return the steady clock's instant, seconds."""
    return time.monotonic()
