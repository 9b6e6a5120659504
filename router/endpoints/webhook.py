"""One POST of JSON to an address that is told of something.

In: a URL, a JSON object. Out: nothing, or an `EndpointError`. Invariant: one request, bounded in time; no message holds
the URL, which may be a secret; redirects are not followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import aiohttp
from yarl import URL

from router.endpoints.failures import Sender, from_status
from router.endpoints.transport import proxy_of, reason
from router.section import is_url


async def post_json(url: str, payload: Mapping[str, Any], *, name: str, timeout_s: float) -> None:
    """Send a JSON object and return when the server has answered with a 2xx status.

    Args:
        url: where to.
        payload: the object.
        name: what stands in messages for the URL, for instance its variable.
        timeout_s: longest time it may take, seconds.

    Raises:
        EndpointError: it could not be delivered.
    """
    sender = sender_of(url, name)
    if not is_url(url):
        raise sender.failure("rejected", "its address is not a URL, like https://example.com/hook")
    try:
        async with (
            asyncio.timeout(timeout_s),
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), proxy=proxy_of(URL(url))) as session,
            session.post(url, json=payload, allow_redirects=False) as answer,
        ):
            if 200 <= answer.status < 300:
                return
            failure = from_status(sender, answer.status, {}, "", datetime.now(UTC))
    except TimeoutError:
        failure = sender.failure("timeout", f"no answer in {timeout_s:g} s")
    except Exception as error:  # noqa: BLE001 - whatever breaks the exchange has one outcome
        failure = sender.failure("refused", reason(error))
    raise failure  # outside the handler: the cause may carry the URL


def sender_of(url: str, name: str) -> Sender:
    """Return who sends, for messages: none of them holds the URL or a part of it after its host.

    Args:
        url: where to.
        name: what stands for it.
    """
    _, _, path = url.partition("://")
    parts = path.replace("?", "/").replace("&", "/").replace("=", "/").split("/")[1:]
    secrets = sorted({url, path, *parts} - {""}, key=len, reverse=True)
    return Sender(name, "webhook", None, tuple(secrets))
