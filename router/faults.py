"""What is wrong with a router.toml, in words: one `Fault` with its line for everything pydantic found.

In: a `ValidationError` and the file's text. Out: faults. Invariant: no value that may be a secret is ever shown.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pricing.errors import Fault
from pricing.lines import line_of
from router.settings import (
    ByClassSettings,
    ClassRule,
    CommitmentSettings,
    CreditSettings,
    DatabaseSettings,
    EndpointSettings,
    FixedSettings,
    FxRateSettings,
    FxSettings,
    RetrySettings,
    Settings,
    SettlementSettings,
    SwarmSettings,
)
from router.settings_budgets import BudgetsSettings
from router.settings_context import ContextSettings
from router.settings_forecast import ForecastSettings
from router.settings_health import AlertSettings, GateSettings, HealthSettings
from router.settings_judge import JudgeSettings
from router.settings_plan import ByPlanSettings, CandidateSettings, PlanRule
from router.settings_tools import ToolServerSettings, ToolSettings

KeyPath = tuple[str | int, ...]
POLICIES = ("fixed", "by_class", "by_plan")
SECTIONS: Mapping[KeyPath, type[BaseModel]] = {
    (): Settings,
    ("database",): DatabaseSettings,
    ("endpoints", "*"): EndpointSettings,
    ("endpoints", "*", "settlement"): SettlementSettings,
    ("endpoints", "*", "credits", "*"): CreditSettings,
    ("endpoints", "*", "commitments", "*"): CommitmentSettings,
    ("configurations", "*", "fixed"): FixedSettings,
    ("configurations", "*", "by_class"): ByClassSettings,
    ("configurations", "*", "by_class", "classes", "*"): ClassRule,
    ("configurations", "*", "by_plan"): ByPlanSettings,
    ("configurations", "*", "by_plan", "candidates", "*"): CandidateSettings,
    ("configurations", "*", "by_plan", "classes", "*"): PlanRule,
    ("configurations", "*", "by_plan", "classes", "*", "candidates", "*"): CandidateSettings,
    ("retry",): RetrySettings,
    ("swarm",): SwarmSettings,
    ("gates",): GateSettings,
    ("health",): HealthSettings,
    ("alerts", "*"): AlertSettings,
    ("fx",): FxSettings,
    ("budgets",): BudgetsSettings,
    ("context",): ContextSettings,
    ("judge",): JudgeSettings,
    ("forecast",): ForecastSettings,
    ("fx", "rates", "*"): FxRateSettings,
    ("tools",): ToolSettings,
    ("tools", "servers", "*"): ToolServerSettings,
}
NOT_IN_FILE = frozenset({"source"})  # set by the loader
WORDS_OF_TYPES = {
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "model_attributes_type": "should be a table",
    "tuple_type": "should be a list",
    "string_type": "should be text, in quotes",
}
SECRET_NAMES = re.compile(r"(^|_|-)(api_?key|key|token|secret|password|passwd|authorization|bearer)$", re.IGNORECASE)
VENDOR_KEY = re.compile(r"(sk|pk|rk)-\w|Bearer ")
# Tables whose keys and values are names.
NAMES_OF_USERS = (("aliases",), ("models",), ("fallback_models",), ("header_env",))
NOT_SHOWN = frozenset(
    {"key_env", "header_env", "env", "args", "url", "url_env", "command", "base_url"}
)  # may hold a secret by mistake
SAID_WHOLE = frozenset(
    {"missing_url", "server", "idempotent", "allowed_tool", "alert_address", "judge", "candidate"}
)  # faults of a whole table
SECRET_OPTION = re.compile(r"--?[\w-]*(key|token|secret|password|passwd)(=|$)", re.IGNORECASE)
DATABASE_URL = ("database", "url")
PASSWORD_IN_URL = re.compile(r"//[^/]*:[^/]+@|password=", re.IGNORECASE)
NOT_BLANK = r"\S"
# A prefix that vendors give their keys, or a long run of letters and digits that is no word.
SECRET_TEXT = re.compile(r"\b(sk|pk|rk|ghp|AIza|Bearer)[-_ ]?\w{6,}|(?=\S*\d)(?=\S*[A-Za-z])[\w-]{24,}")


@dataclass(frozen=True, slots=True)
class FileFaults:
    """Makes faults of one file: knows its name in messages and its text, so that each fault has its line."""

    file: str
    text: str

    def at(self, path: KeyPath, message: str) -> Fault:
        """Return the fault `dotted.path` + message, at the line where the path (or the table around it) stands."""
        return Fault(self.file, line_of(self.text, path), f"{dotted(path)} {message}")

    def of(self, error: ValidationError) -> Iterator[Fault]:
        """Yield one fault for each thing pydantic found wrong with the settings."""
        for detail in error.errors(include_url=False):
            yield self._one(detail)

    def secrets(self, tables: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Fault]]:
        """Yield the path and the fault of every key that holds a secret in a file that is meant to be shared.

        Args:
            tables: the parsed file. Price tables are not looked at.
        """
        for path in _secret_paths({name: value for name, value in tables.items() if name != "prices"}):
            what = "ROUTER_DATABASE_URL" if path == DATABASE_URL else "it"
            yield path, self.at(path, f"would put a secret into the file; set {what} in the environment or in .env")

    def _one(self, detail: ErrorDetails) -> Fault:
        loc, kind = detail["loc"], detail["type"]
        path = _without_tag(loc)
        if kind == "extra_forbidden":
            return self.at(path, f"does not exist{near_names(str(path[-1]), known_keys(loc[:-1]))}")
        if kind == "missing":
            return self.at(path, "is missing")
        if kind in ("union_tag_invalid", "union_tag_not_found"):
            return self.at((*path, "policy"), f"should be one of {', '.join(POLICIES)}")
        if kind in SAID_WHOLE:
            return self.at(path, detail["msg"])
        return self.at(path, f"is {shown_value(path, detail['input'])}; it {_allowed(path, detail)}")


def known_keys(loc: KeyPath) -> tuple[str, ...]:
    """Return the keys that a table of router.toml may have.

    Args:
        loc: pydantic's path of the table: the policy's name follows a configuration's.
    """
    for pattern, section in SECTIONS.items():
        if len(pattern) == len(loc) and all(want in ("*", got) for want, got in zip(pattern, loc, strict=True)):
            names = (name for name in section.model_fields if name not in NOT_IN_FILE)
            return (*names, "preset") if section is EndpointSettings else tuple(names)
    return ()


def near_names(name: str, known: Iterable[str], *, all_names: bool = True) -> str:
    """Return `; did you mean …?` for the known names like this one, else `; it should be one of …`, or nothing.

    Args:
        name: what was given.
        known: every name that exists.
        all_names: whether they are listed where none is near.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; it should be one of {', '.join(names)}" if names and all_names else ""


def dotted(path: KeyPath) -> str:
    """Return a path as TOML writes it: `endpoints.relay.concurrency`, `prices[0].output`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            plain = re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if plain else f'"{part}"')
    return text


def shown_value(path: KeyPath, value: object) -> str:
    """Return a value as a message may show it: short, and nothing that could be a secret or hold one."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    name = str(path[-1])
    if isinstance(value, str) and (not NOT_SHOWN.isdisjoint(map(str, path[-2:])) or _is_secret(name, value)):
        return "not shown here"
    if isinstance(value, int) and abs(value) >= 10**60:  # Python refuses to write thousands of digits
        return "a number of more than 60 digits"
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _allowed(path: KeyPath, detail: ErrorDetails) -> str:
    if detail["type"] == "string_pattern_mismatch":
        if detail["ctx"]["pattern"] == NOT_BLANK:
            return "should be a name, not blank"
        named = path[-1] in {"key_env", "url_env"}
        return f"should be {'the name of an environment variable' if named else 'an ISO 4217 code, like USD'}"
    words = detail["msg"]  # "Input should …", "String should …"
    return WORDS_OF_TYPES.get(detail["type"], words[max(words.find("should"), 0) :])


def _without_tag(loc: KeyPath) -> KeyPath:
    if loc[-1:] == ("[key]",):  # pydantic's mark of a fault of the key itself
        loc = loc[:-1]
    tagged = len(loc) > 2 and loc[0] == "configurations" and loc[2] in POLICIES
    return (*loc[:2], *loc[3:]) if tagged else loc


def _is_secret(name: str, value: str) -> bool:
    return SECRET_NAMES.search(name) is not None or SECRET_TEXT.search(value) is not None


def _secret_paths(tables: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    for name, value in tables.items():
        path = (*above, name)
        if isinstance(value, Mapping):
            yield from _secret_paths(value, path)
        elif isinstance(value, list):
            yield from ((*path, position) for position in _secret_arguments(value))
        elif isinstance(value, str) and (
            PASSWORD_IN_URL.search(value)
            if path == DATABASE_URL
            else above[-1:] not in NAMES_OF_USERS and _holds_secret(name, value)
        ):
            yield path


def _holds_secret(name: str, value: str) -> bool:
    return SECRET_NAMES.search(name) is not None or VENDOR_KEY.match(value) is not None


def _secret_arguments(values: Sequence[object]) -> Iterator[int]:
    """Yield the places of texts in a list that are keys, or that hand one to a program (`--token`, `--token=…`)."""
    for position, value in enumerate(values):
        if isinstance(value, str) and (VENDOR_KEY.match(value) or SECRET_OPTION.match(value)):
            yield position
