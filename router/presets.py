"""What is known without any file: endpoints of well-known vendors, and the built-in configurations.

In: nothing. Out: settings values. Invariant: no key is here, only the name of the variable that holds it. An endpoint
is used where its key is set, or where router.toml names it; what the file says is laid over it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType

from router.settings import (
    ByClassSettings,
    ConfigurationSettings,
    EndpointSettings,
    FixedSettings,
    SettlementSettings,
)
from router.settings_plan import ByPlanSettings

# Base URLs and variables' names as the vendors' quick starts have them; litellm's ids carry the vendor's prefix.
ENDPOINT_PRESETS: Mapping[str, EndpointSettings] = MappingProxyType(
    {
        "openai": EndpointSettings(base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY", price_list="openai"),
        "anthropic": EndpointSettings(
            kind="litellm",
            key_env="ANTHROPIC_API_KEY",
            price_list="anthropic",
            models={"claude-sonnet-4.5": "anthropic/claude-sonnet-4-5"},
        ),
        "google": EndpointSettings(
            kind="litellm",
            key_env="GEMINI_API_KEY",
            price_list="google",
            models={"gemini-2.5-flash": "gemini/gemini-2.5-flash"},
        ),
        "deepseek": EndpointSettings(
            base_url="https://api.deepseek.com/v1", key_env="DEEPSEEK_API_KEY", price_list="deepseek"
        ),
        # The Chinese site is https://api.moonshot.cn/v1: its keys differ, and its list is in CNY.
        "moonshot": EndpointSettings(
            base_url="https://api.moonshot.ai/v1", key_env="MOONSHOT_API_KEY", price_list="moonshot"
        ),
        # Only models of one vendor: for those OpenRouter passes the vendor's list on (FAQ: no mark-up on inference).
        # Open weights are sold there by many hosts at many prices, so they need a price list of the user's own.
        "openrouter": EndpointSettings(
            base_url="https://openrouter.ai/api/v1",
            key_env="OPENROUTER_API_KEY",
            price_list="vendor",
            models={
                "gpt-4.1": "openai/gpt-4.1",
                "gpt-4.1-mini": "openai/gpt-4.1-mini",
                "gpt-4.1-nano": "openai/gpt-4.1-nano",
                "gpt-4o": "openai/gpt-4o",
                "gpt-4o-mini": "openai/gpt-4o-mini",
                "claude-sonnet-4.5": "anthropic/claude-sonnet-4.5",
                "gemini-2.5-flash": "google/gemini-2.5-flash",
            },
        ),
        # It sells one US dollar of list price for one yuan.
        "relay": EndpointSettings(
            base_url="https://api.holysheep.ai/v1",
            key_env="HOLYSHEEP_API_KEY",
            price_list="relay",
            settlement=SettlementSettings(currency="CNY", rate=Decimal(1)),
        ),
    }
)

BUILT_IN_CONFIGURATIONS: Mapping[str, ConfigurationSettings] = MappingProxyType(
    {
        "all-gpt-4.1": FixedSettings(orchestrator="gpt-4.1", worker="gpt-4.1"),
        "hybrid": FixedSettings(orchestrator="kimi-k2", worker="deepseek-v3.2"),
        "hybrid-sonnet": FixedSettings(orchestrator="kimi-k2", worker="claude-sonnet-4.5"),
        "hybrid-flash": FixedSettings(orchestrator="kimi-k2", worker="gemini-2.5-flash"),
        "by_class": ByClassSettings(policy="by_class"),
        "planned": ByPlanSettings(policy="by_plan"),
    }
)


def preset_keys() -> tuple[str, ...]:
    """Return the environment variables that hold the presets' keys, in the presets' order."""
    return tuple(preset.key_env for preset in ENDPOINT_PRESETS.values() if preset.key_env)
