"""The defaults that the documents state are the ones in force."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from router.section import Section
from router.settings import EndpointSettings, Settings
from router.settings_health import AlertSettings
from router.settings_tools import ToolServerSettings

DOCS = Path(__file__).parents[2] / "docs"
TABLES: dict[str, Section] = {
    **{
        name: getattr(Settings(), name)
        for name in ("swarm", "tools", "budgets", "context", "gates", "health", "judge", "forecast")
    },
    "tools.servers.NAME": ToolServerSettings.model_validate({"command": "x"}),
    "endpoints.X": EndpointSettings(base_url="http://x"),
    "alerts": AlertSettings(kind="webhook", url_env="X"),
}
BLOCKS = [("budgets.md", "budgets"), ("context.md", "context"), ("context.md", "judge"), ("forecasts.md", "forecast")]


def rows(document: str, heading: str) -> Iterator[tuple[str, str]]:
    """Yield key and default of each line of the table whose heading names a table of router.toml."""
    lines = iter((DOCS / document).read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"| {heading} | default |"):
            break
    for line in lines:
        if not line.startswith("|"):
            return
        keys, default = (cell.strip() for cell in line.split("|")[1:3])
        if default and not default.startswith("---"):
            for key in keys.replace("`", "").split(", ")[-1:]:
                yield key, default.strip("`")


def is_said(default: str, value: Any) -> bool:
    """Return whether a cell says a value: a number, a fraction, a word, `none`, or an empty list."""
    if value is None or isinstance(value, str):
        return default == (value or "none")
    if isinstance(value, tuple):
        return default == "[]" and not value
    return abs(Fraction(default) - Fraction(value)) < Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("document", "heading", "table", "count"),
    [
        ("running.md", "`[swarm]`", "swarm", 9),
        ("tools.md", "key of `[tools.servers.NAME]`", "tools.servers.NAME", 8),
        ("tools.md", "key of `[tools]`", "tools", 4),
    ],
)
def test_tables_state_the_defaults(document: str, heading: str, table: str, count: int) -> None:
    found = dict(rows(document, heading))

    wrong = {key: said for key, said in found.items() if not is_said(said, getattr(TABLES[table], key))}
    assert wrong == {}
    assert len(found) == count


@pytest.mark.parametrize(("document", "table"), BLOCKS)
def test_blocks_state_the_defaults(document: str, table: str) -> None:
    """All but `model`, which is off unless it is set."""
    text = (DOCS / document).read_text(encoding="utf-8")
    block = re.search(rf"^    \[{table}\]\n((?:    .*\n)+)", text, re.MULTILINE)
    assert block is not None

    said = {key: value for key, value in tomllib.loads(block[0]).get(table, {}).items() if key != "model"}
    parsed = type(TABLES[table]).model_validate(said)
    assert said
    assert [key for key in said if getattr(parsed, key) != getattr(TABLES[table], key)] == []


def test_values_in_brackets_behind_a_key_are_its_default() -> None:
    """`first_concurrency` (8), and 0.5 % (`refused_share`)."""
    text = (DOCS / "gates-and-health.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)` \(([\d.]+)(?: s)?\)", text)
    known = {**dict(TABLES["endpoints.X"]), **dict(TABLES["gates"]), **dict(TABLES["alerts"])}

    assert len(named) == 4
    assert [(key, value) for key, value in named if not is_said(value, known[key])] == []


def test_sentences_on_health_state_the_defaults() -> None:
    text = " ".join((DOCS / "gates-and-health.md").read_text(encoding="utf-8").split())
    health, gates, retry = Settings().health, Settings().gates, Settings().retry
    in_words = {1: "one", 2: "two", 3: "three", 5: "five", 10: "ten"}
    for sentence in (
        f"more than {health.down_share * 100:.0f} % of at least {health.min_requests} requests of the last minute",
        f"and {in_words[health.min_failures]} at least; or {in_words[health.failures_in_a_row]} in a row",
        f"when {in_words[health.probe_failures]} probes in a row got no answer",
        f"every {health.probe_s:.0f} s (`GET /models`, free)",
        f"or {health.quiet_s:.0f} s without any answer",
        f"by {in_words[health.probe_successes]} good probes, after {health.min_down_s:.0f} s at the earliest",
        f"after {in_words[health.trial_calls]} answers in a row (or a minute and one)",
        f"for {gates.hold_pauses:.0f} times the pause (`hold_pauses`)",
        f"under {gates.refused_share * 100:.1f} % of a minute's requests (`refused_share`)",
        f"{retry.budget_share * 100:.0f} % of its calls and {retry.budget_floor} more may be retries",
    ):
        assert sentence in text
    assert (health.window_s, health.trial_s, retry.budget_window_s) == (60, 60, 60)
    assert health.trial_share * 10 == 1  # "a tenth of the calls"
