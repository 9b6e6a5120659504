"""Our numbers beside those of genai-prices, which reads the same usage and has the same prices: a test-only oracle.

Both sides read 10,000 random reports of OpenAI, Anthropic, Gemini and Bedrock; our rows are made from its prices, so
that only reading and arithmetic are compared. A difference must be explained by a rule that is stated here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest
from genai_prices.data import providers
from genai_prices.types import ModelPrice, Provider, TieredPrices

from pricing import Conditions, PriceRow, PriceSet, extract_usage, price_call

Report = dict[str, Any]

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
COMPONENTS = {
    "input_mtok": "input",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write_5m",
    "cache_write_1h_mtok": "cache_write_1h",
    "output_mtok": "output",
    "input_audio_mtok": "input_audio",
    "input_image_mtok": "input_image",
    "output_audio_mtok": "output_audio",
    "output_image_mtok": "output_image",
    "web_searches_kcount": "web_search",
}
# Prices of things that the random reports do not contain: cached audio and images, video, hours and characters.
UNUSED = {
    "cache_audio_read_mtok",
    "cache_image_read_mtok",
    "input_video_mtok",
    "output_video_mtok",
    "input_audio_hours",
    "audio_hours",
    "input_mchars",
    "storage_searches_kcount",
}
# Rule: what has no price is unpriced. The oracle bills such tokens at the rate of what contains them instead.
NEVER_BORROWED = {"cache_write_5m", "cache_write_1h", "input_audio", "output_audio", "output_image", "web_search"}


class Dice(random.Random):
    """Random counts for one model: mostly of what it has a price for."""

    has: frozenset[str] = frozenset()

    def count(self, component: str = "input") -> int:
        """Return a number of tokens; of a component without a price it is nearly always 0."""
        if component not in self.has and self.random() < 0.97:
            return 0
        return self.choice((0, 1, self.randrange(100), self.randrange(10_000), self.randrange(400_000)))


def openai_chat(dice: Dice) -> Report:
    cached, fresh, audio = dice.count(), dice.count(), dice.count("input_audio")
    text, reasoning, spoken = dice.count(), dice.count(), dice.count("output_audio")
    prompt, completion = cached + fresh + audio, text + reasoning + spoken
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": audio},
        "completion_tokens_details": {"reasoning_tokens": reasoning, "audio_tokens": spoken},
    }


def openai_responses(dice: Dice) -> Report:
    cached, fresh, written = dice.count(), dice.count(), dice.count("cache_write_5m")
    text, reasoning = dice.count(), dice.count()
    return {
        "input_tokens": cached + fresh + written,
        "output_tokens": text + reasoning,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens_details": {"reasoning_tokens": reasoning},
    }


def anthropic(dice: Dice) -> Report:
    five, hour, thinking = dice.count("cache_write_5m"), dice.count("cache_write_1h"), dice.count()
    report: Report = {
        "input_tokens": dice.count(),
        "cache_read_input_tokens": dice.count(),
        "cache_creation_input_tokens": five + hour,
        "output_tokens": thinking + dice.count(),
        "server_tool_use": {"web_search_requests": dice.randrange(4) if "web_search" in dice.has else 0},
        "output_tokens_details": {"thinking_tokens": thinking},
    }
    if dice.random() < 0.7:
        report["cache_creation"] = {"ephemeral_5m_input_tokens": five, "ephemeral_1h_input_tokens": hour}
    return report


def gemini(dice: Dice) -> Report:
    text, audio, image, tools = dice.count(), dice.count("input_audio"), dice.count(), dice.count()
    made, drawn, thoughts = dice.count(), dice.count("output_image"), dice.count()
    cached, prompt = dice.randrange(text + 1), text + audio + image
    return {
        "promptTokenCount": prompt,
        "promptTokensDetails": details(TEXT=text, AUDIO=audio, IMAGE=image),
        "cachedContentTokenCount": cached,
        "cacheTokensDetails": details(TEXT=cached, AUDIO=0, IMAGE=0),
        "toolUsePromptTokenCount": tools,
        "toolUsePromptTokensDetails": details(TEXT=tools),
        "candidatesTokenCount": made + drawn,
        "candidatesTokensDetails": details(TEXT=made, IMAGE=drawn),
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": prompt + tools + made + drawn + thoughts,
    }


def details(**counts: int) -> list[Report]:
    return [{"modality": modality, "tokenCount": tokens} for modality, tokens in counts.items()]


def bedrock(dice: Dice) -> Report:
    fresh, read, made = dice.count(), dice.count(), dice.count()
    five, hour = dice.count("cache_write_5m"), dice.count("cache_write_1h")
    report: Report = {
        "inputTokens": fresh,
        "outputTokens": made,
        "cacheReadInputTokens": read,
        "cacheWriteInputTokens": five + hour,
        "totalTokens": fresh + read + five + hour + made,
    }
    if dice.random() < 0.7:
        report["cacheDetails"] = [{"ttl": "1h", "inputTokens": hour}, {"ttl": "5m", "inputTokens": five}]
    return report


APIS: dict[str, tuple[str, str, str, Callable[[Dice], Report]]] = {
    "openai_chat": ("openai", "chat", "usage", openai_chat),
    "openai_responses": ("openai", "responses", "usage", openai_responses),
    "anthropic_messages": ("anthropic", "default", "usage", anthropic),
    "gemini": ("google", "default", "usageMetadata", gemini),
    "bedrock_converse": ("aws", "default", "usage", bedrock),
}


def rows(model: str, prices: ModelPrice) -> tuple[PriceRow, ...]:
    """Return our rows of the oracle's prices; a tier of its is a context tier of ours."""
    found = []
    for key, component in COMPONENTS.items():
        value = getattr(prices, key)
        tiers = value.tiers if isinstance(value, TieredPrices) else []
        amounts = [(None, value.base if isinstance(value, TieredPrices) else value)]
        for above, amount in [*amounts, *((tier.start, tier.price) for tier in tiers)]:
            if amount is not None:
                when = Conditions(above_input_tokens=above)
                day = date(2026, 11, 10)
                found.append(PriceRow("o", model, component, "USD", amount, "", "oracle", day, conditions=when))
    return tuple(found)


def priced_models(provider: Provider) -> list[tuple[ModelPrice, PriceSet]]:
    """Return the prices of models whose every price is of a component of ours, or of something unused."""
    models = []
    for model in provider.models:
        prices = model.get_prices(AT)
        stated = {key for key, value in vars(prices).items() if value is not None and not key.startswith("_")}
        if stated <= COMPONENTS.keys() | UNUSED and {"input_mtok", "output_mtok"} <= stated:
            models.append((prices, PriceSet("o", model.id, "USD", rows(model.id, prices))))
    return models


@pytest.mark.parametrize("api", APIS)
def test_two_thousand_random_reports_cost_what_the_oracle_says(api: str) -> None:
    name, flavor, root, make = APIS[api]
    (provider,) = (item for item in providers if item.id == name)
    models = priced_models(provider)
    dice = Dice(f"oracle {api}")
    seen: Counter[str] = Counter()
    for _ in range(2_000):
        theirs, prices = dice.choice(models)
        dice.has = frozenset(row.component for row in prices.rows)
        report = make(dice)
        _, usage = provider.extract_usage({root: report, "model": prices.model}, api_flavor=flavor)
        if (
            api == "openai_chat"
        ):  # rule: cached tokens are text where a report does not say; the oracle refuses to guess
            usage.cache_audio_read_tokens = usage.cache_image_read_tokens = 0
        ours = price_call(extract_usage(api, report), prices, at=AT)
        seen[ours.status] += 1
        if ours.status == "exact":
            assert ours.total == theirs.calc_price(usage)["total_price"], (prices.model, report)
        else:
            assert set(ours.unpriced) <= NEVER_BORROWED - dice.has, (prices.model, report)
    assert len(models) >= 15
    assert seen["exact"] >= 1_700, seen
    assert seen["estimated"] == 0
