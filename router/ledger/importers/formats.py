"""Every format that can be imported, by the name the user calls it.

Invariant: a format's module is loaded when it is asked for, not before.
"""

from __future__ import annotations

from importlib import import_module

from router.errors import unknown_name
from router.ledger.importers.source import Source

FORMATS = {
    "openai": "openai_usage",
    "anthropic": "anthropic_usage",
    "litellm": "litellm_spend",
    "langfuse": "langfuse",
    "openrouter": "openrouter",
    "generic": "generic",
}
"""Names, and the modules of this package whose `SOURCE` they are. A trace has a command of its own."""


def source_named(name: str) -> Source:
    """Return a format.

    Raises:
        WrongUsage: there is none of that name.
    """
    if name not in FORMATS:
        raise unknown_name("source", name, FORMATS)
    source: Source = import_module(f"router.ledger.importers.{FORMATS[name]}").SOURCE
    return source
