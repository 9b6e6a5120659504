"""Endpoints: one small seam to every model, and what stands behind it.

In: an endpoint's settings. Out: something that keeps the `Endpoint` protocol. Client libraries load when an endpoint of
their kind is opened, not before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.endpoints.protocol import Endpoint
    from router.settings import EndpointSettings

__all__ = ["open_endpoint"]


def open_endpoint(name: str, settings: EndpointSettings, environ: Mapping[str, str] | None = None) -> Endpoint:
    """Return an endpoint of the kind its settings name; nothing is connected yet.

    Args:
        name: the endpoint's name, for messages.
        settings: its settings.
        environ: where its key is read from, at each request; None: the process's environment.

    Raises:
        ConfigError: kind "openai" without a usable base URL.
        RouterError: kind "litellm", and that package is not installed.
    """
    keys = os.environ if environ is None else environ

    def key() -> str | None:
        return keys.get(settings.key_env) if settings.key_env else None

    if settings.kind == "litellm":
        from router.endpoints.litellm_wire import LitellmEndpoint

        return LitellmEndpoint(name, settings, key)
    from router.endpoints.openai_wire import OpenAIEndpoint

    return OpenAIEndpoint(name, settings, key)
