"""Malformed usage reports and price files end in a typed error or a right answer, never in a wrong number.

Seeded, so that a failure repeats. A report that is read must hold what it states, counted independently here; a price
file that is read must give exactly the amounts that stand in it.
"""

from __future__ import annotations

import os
import random
import tomllib
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing import (
    Catalog,
    CatalogError,
    PriceRow,
    PriceSet,
    Usage,
    UsageError,
    extract_usage,
    load_catalog,
    price_call,
)
from pricing.prices import UNITS

Report = dict[str, Any]

REPORTS = 100_000
FILES = 10_000 if "FAREBOX_FUZZ" in os.environ else 1_500
"""A file takes some 3 ms to refuse; `FAREBOX_FUZZ=1 pytest tests/pricing/test_fuzz.py` runs them all, in a minute."""
AT = datetime(2026, 11, 30, tzinfo=UTC)
JUNK: tuple[Any, ...] = (
    None, True, False, -1, 1, 2.5, float("nan"), float("inf"), "5", "", "x", [], [1], {}, {"a": 1},
    10**15, 10**16, 10**30, -(10**30), Decimal(3), b"1", [[[]]], {"modality": "AUDIO"}, [{"modality": "AUDIO"}],
)  # fmt: skip

CHAT: Report = {
    "prompt_tokens": 900,
    "completion_tokens": 300,
    "total_tokens": 1200,
    "prompt_tokens_details": {
        "cached_tokens": 400,
        "audio_tokens": 100,
        "image_tokens": 50,
        "cached_tokens_details": {"audio_tokens": 20},
        "cache_write_tokens": 90,
        "cache_creation_token_details": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 30},
    },
    "completion_tokens_details": {"reasoning_tokens": 120, "audio_tokens": 30, "image_tokens": 10},
    "cache_read_input_tokens": 400,
    "cache_creation_input_tokens": 90,
    "cached_tokens": 400,
    "server_tool_use": {"web_search_requests": 2},
}
RESPONSES: Report = {
    "input_tokens": 900,
    "output_tokens": 300,
    "total_tokens": 1200,
    "input_tokens_details": {"cached_tokens": 400, "image_tokens": 100},
    "output_tokens_details": {"reasoning_tokens": 120},
}
ANTHROPIC: Report = {
    "input_tokens": 100,
    "cache_read_input_tokens": 400,
    "cache_creation_input_tokens": 90,
    "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 30},
    "output_tokens": 300,
    "output_tokens_details": {"thinking_tokens": 100},
    "server_tool_use": {"web_search_requests": 2},
}
GEMINI: Report = {
    "promptTokenCount": 900,
    "cachedContentTokenCount": 300,
    "toolUsePromptTokenCount": 40,
    "candidatesTokenCount": 200,
    "thoughtsTokenCount": 100,
    "totalTokenCount": 1240,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 700}, {"modality": "AUDIO", "tokenCount": 200}],
    "cacheTokensDetails": [{"modality": "AUDIO", "tokenCount": 50}, {"modality": "TEXT", "tokenCount": 250}],
    "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 120}],
}
BEDROCK: Report = {
    "inputTokens": 100,
    "outputTokens": 300,
    "totalTokens": 890,
    "cacheReadInputTokens": 400,
    "cacheWriteInputTokens": 90,
    "cacheDetails": [{"ttl": "1h", "inputTokens": 30}, {"ttl": "5m", "inputTokens": 60}],
}


def stated(report: Report, *names: str) -> int:
    return sum(report.get(name) or 0 for name in names)


def of_chat(report: Report) -> tuple[int, int]:
    return _of_openai(report, "prompt_tokens", "completion_tokens")


def of_responses(report: Report) -> tuple[int, int]:
    return _of_openai(report, "input_tokens", "output_tokens")


def _of_openai(report: Report, prompt: str, completion: str) -> tuple[int, int]:
    whole = stated(report, prompt)
    total = report.get("total_tokens")
    return whole, stated(report, completion) if total is None else total - whole


def of_anthropic(report: Report) -> tuple[int, int]:
    written = report.get("cache_creation_input_tokens")
    if written is None:
        split = report.get("cache_creation") or {}
        written = stated(split, "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
    return stated(report, "input_tokens", "cache_read_input_tokens") + written, stated(report, "output_tokens")


def of_gemini(report: Report) -> tuple[int, int]:
    whole = stated(report, "promptTokenCount", "toolUsePromptTokenCount")
    total = report.get("totalTokenCount")
    made = stated(report, "candidatesTokenCount", "thoughtsTokenCount")
    return whole, made if total is None else total - whole


def of_bedrock(report: Report) -> tuple[int, int]:
    written = report.get("cacheWriteInputTokens")
    if written is None:
        written = sum(stated(entry, "inputTokens") for entry in report.get("cacheDetails") or ())
    return stated(report, "inputTokens", "cacheReadInputTokens") + written, stated(report, "outputTokens")


APIS: dict[str, tuple[Report, Callable[[Report], tuple[int, int]]]] = {
    "openai_chat": (CHAT, of_chat),
    "litellm": (CHAT, of_chat),
    "openai_responses": (RESPONSES, of_responses),
    "openai_images": (RESPONSES, of_responses),
    "anthropic_messages": (ANTHROPIC, of_anthropic),
    "gemini": (GEMINI, of_gemini),
    "bedrock_converse": (BEDROCK, of_bedrock),
}


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside a report."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in inside for place in ((*path, key), *places(value, (*path, key)))]


def changed(dice: random.Random, node: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a report with another value at a path, or with none there."""
    key, *rest = path
    new: Any = dict(node) if isinstance(node, dict) else list(node)
    if rest:
        new[key] = changed(dice, node[key], tuple(rest), value)
    elif isinstance(new, dict) and dice.random() < 0.2:
        del new[key]
    else:
        new[key] = value
    return new


def malformed(dice: random.Random, report: Report, paths: list[tuple[Any, ...]]) -> Report:
    """Return a report with one to three values replaced by junk or other counts, or left out."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        value = dice.choice(JUNK) if dice.random() < 0.6 else dice.randrange(1500)
        try:
            report = changed(dice, report, dice.choice(paths), value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took its place away
    return report


@pytest.fixture(scope="module")
def prices() -> PriceSet:
    rows = (PriceRow("f", "m", name, "USD", Decimal(7), "", "test", date(2026, 11, 30)) for name in UNITS)
    return PriceSet("f", "m", "USD", tuple(rows))


def test_malformed_reports(prices: PriceSet) -> None:
    dice = random.Random("reports")
    paths = {api: places(report) for api, (report, _) in APIS.items()}
    apis = list(APIS)
    read, refused = 0, []
    for _ in range(REPORTS):
        api = dice.choice(apis)
        whole, wholes = APIS[api]
        report = malformed(dice, whole, paths[api])
        try:
            usage = extract_usage(api, report)
        except UsageError as error:
            refused.append(str(error))
            continue
        if usage is not None:
            read += 1
            assert (usage.input_tokens, usage.output_tokens) == wholes(report), (api, report)
            if read % 20 == 0:
                check_cost(usage, prices, report)
    assert read > REPORTS // 10
    assert len(refused) > REPORTS // 3
    assert max(map(len, refused)) < 300


def check_cost(usage: Usage, prices: PriceSet, report: Report) -> None:
    """Check against one rate for every token, 7 per Mtok, and for every search, 7 per thousand."""
    cost = price_call(usage, prices, at=AT)
    tokens = usage.input_tokens + usage.output_tokens
    assert cost.total == Decimal(tokens * 7) / 10**6 + Decimal(usage.web_searches * 7) / 1000, report


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("payload", JUNK[1:])
def test_a_report_that_is_junk_altogether(api: str, payload: Any) -> None:
    try:
        assert extract_usage(api, payload) is None
    except UsageError:
        assert not isinstance(payload, dict)


PRICE_FILE = """\
[meta]
list = "fuzz"
kind = "vendor"
currency = "USD"
prefixes = ["fuzz"]

[[models]]
id = "small"
aliases = ["little"]
context_window_tokens = 128000

[[models]]
id = "large"

[[prices]]
model = "small"
input = "0.15"
cache_read = "0.075"
output = "0.60"
source = "list"
checked = 2026-11-01
effective_from = 2026-01-01T00:00:00Z
effective_to = 2026-10-01T00:00:00Z

[[prices]]
model = "small"
input = "0.10"
output = "0.40"
source = "list"
checked = 2026-11-01
effective_from = 2026-10-01T00:00:00Z

[[prices]]
model = "large"
input = "2.50"
output = "10"
source = "list"
checked = 2026-11-01

[[prices]]
model = "large"
input = "5"
output = "15"
source = "list"
checked = 2026-11-01
when = { above_input_tokens = 200000 }

[[prices]]
model = "large"
input = "1.25"
source = "list"
checked = 2026-11-01
when = { weekdays = [1, 2], windows_utc = ["01:00-04:00"] }
"""
TOKENS = (
    '"-1"', '"0.00000001"', '"1e3"', '"NaN"', '"Infinity"', "1.5", "-3", "true", "[]", "{}", '""', '"USD"', '"XXX"',
    "2026-01-01T00:00:00", "2026-13-01", "1e400", '"999999999"', '"0.1234567890123"', "[[", '"""', "nan", "'x", "=",
    "\\u0000", "\\ufeff", "9" * 400, '"small"', '"large"', '"fuzz"', "0", '"3"',
)  # fmt: skip


def malformed_file(dice: random.Random) -> str:
    """Return the price file with one to three lines left out, repeated, moved, cut or given another value."""
    lines = PRICE_FILE.splitlines()
    for _ in range(dice.choice((1, 1, 2, 3))):
        at = dice.randrange(len(lines))
        line = lines[at]
        lines[at : at + 1] = dice.choice(
            (
                [],
                [line, line],
                [lines[dice.randrange(len(lines))], line],
                [line[: dice.randrange(len(line) + 1)]],
                [f"{line.partition('=')[0]}= {dice.choice(TOKENS)}"],
                [line.replace("e", "", 1)],
            )
        )
    return "\n".join(lines)


def amounts_of(text: str) -> list[tuple[str, str, Decimal]]:
    """Return (model, component, amount) of every price that a file states, read without the package."""
    blocks = tomllib.loads(text).get("prices", [])
    return sorted(
        (block["model"], name, Decimal(block[name]))
        for block in blocks
        for name in UNITS
        if block.get(name) is not None
    )


def load_inline(text: str, file: Path) -> Catalog:
    """Return the catalogue of a file's tables as if they stood inline: read alike, but not kept for another time."""
    try:
        tables = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError:
        return load_catalog([file])
    return load_catalog(inline=tables, inline_file=str(file))


def test_malformed_price_files(tmp_path: Path) -> None:
    dice = random.Random("files")
    file = tmp_path / "fuzz.toml"
    read, faults = 0, []
    for _ in range(FILES):
        text = malformed_file(dice)
        file.write_text(text, encoding="utf-8")
        try:
            catalog = load_catalog([file]) if dice.random() < 0.05 else load_inline(text, file)
        except CatalogError as error:
            faults.append(error.faults)
            continue
        read += 1
        own = [placed.row for layer, placed in catalog.placed_rows() if layer]
        assert sorted((row.model, row.component, row.amount) for row in own) == amounts_of(text), text
    assert read > FILES // 10
    assert len(faults) > FILES // 3
    assert {fault.file for found in faults for fault in found} <= {"fuzz.toml", str(file)}
