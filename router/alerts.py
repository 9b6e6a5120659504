"""Tells others of what happens: a POST to a webhook, or a command with the event on its standard input.

In: `Alert`s. Out: JSON, sent in the background. Invariant: telling never waits, never raises and never fails a call;
every delivery is bounded in time, what cannot be delivered is said once an address, and no secret is in any of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from router.errors import RouterError
from router.settings_health import AlertEvent, AlertSettings

MOST_UNDER_WAY = 64
"""Deliveries at once; beyond them an event is dropped, and that is said."""
FLUSH_S = 5.0
"""How long the end of a program waits for deliveries, seconds."""
_log = logging.getLogger("router.alerts")


@dataclass(frozen=True, slots=True)
class Alert:
    """One event.

    Args:
        event: "budget", "health" or "fallback".
        subject: what it is about: a budget's name, an endpoint's.
        state: what has become of it, in a word: of a budget "near" or "over", of an endpoint "down", "trial" or "up";
            "served" by its fallback.
        message: one line for people; it holds no secret.
        details: further facts, JSON values.
        at: when, aware UTC.
    """

    event: AlertEvent
    subject: str
    state: str
    message: str
    details: Mapping[str, object] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def to_json(self) -> dict[str, object]:
        """Return what is sent: see docs/gates-and-health.md."""
        return {
            "source": "farebox",
            "event": self.event,
            "subject": self.subject,
            "state": self.state,
            "message": self.message,
            "at": self.at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "details": dict(self.details),
        }


class Alerts:
    """Delivers events to the addresses that are set. Made and used on one event loop.

    Args:
        addresses: the tables [[alerts]].
        environ: where webhooks' addresses are read from.
    """

    def __init__(self, addresses: Sequence[AlertSettings], environ: Mapping[str, str]) -> None:
        self._addresses, self._environ = tuple(addresses), environ
        self._told_at_s: dict[tuple[int, str, str, str], float] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_said: set[int] = set()

    def hears(self, event: AlertEvent) -> bool:
        """Return whether anybody is told of an event."""
        return any(event in address.events for address in self._addresses)

    def tell(self, alert: Alert) -> None:
        """Send an event to all who want it, in the background; the same one again only after the set interval."""
        for number, address in enumerate(self._addresses):
            if alert.event in address.events and self._is_due(number, address, alert):
                self._send(number, address, alert)

    async def aclose(self, wait_s: float = FLUSH_S) -> None:
        """Wait for what is under way, for a bounded time, and give the rest up."""
        if not self._under_way:
            return
        _, late = await asyncio.wait(self._under_way, timeout=wait_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _is_due(self, number: int, address: AlertSettings, alert: Alert) -> bool:
        now, what = asyncio.get_running_loop().time(), (number, alert.event, alert.subject, alert.state)
        told = self._told_at_s.get(what)
        if told is not None and now - told < address.min_interval_s:
            return False
        self._told_at_s[what] = now
        return True

    def _send(self, number: int, address: AlertSettings, alert: Alert) -> None:
        if len(self._under_way) >= MOST_UNDER_WAY:
            self._say_once(number, "too many events at once; some were dropped")
            return
        task = asyncio.get_running_loop().create_task(self._deliver(number, address, alert))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, number: int, address: AlertSettings, alert: Alert) -> None:
        try:
            if address.kind == "webhook":
                await self._post(number, address, alert)
            else:
                await _run(address, alert)
        except TimeoutError:
            self._say_once(number, f"not done in {address.timeout_s:g} s")
        except RouterError as error:
            self._say_once(number, str(error))
        except Exception as error:  # noqa: BLE001 - a program that is not there, a pipe that broke: it fails no call
            self._say_once(number, (isinstance(error, OSError) and error.strerror) or type(error).__name__)

    async def _post(self, number: int, address: AlertSettings, alert: Alert) -> None:
        from router.endpoints.webhook import post_json

        name = address.url_env or ""
        url = self._environ.get(name)
        if not url:
            self._say_once(number, f"environment variable {name} is not set")
            return
        await post_json(url, alert.to_json(), name=name, timeout_s=address.timeout_s)

    def _say_once(self, number: int, words: str) -> None:
        if number not in self._is_said:
            self._is_said.add(number)
            _log.warning("alerts[%d] (%s): %s", number, self._addresses[number].kind, words)


async def _run(address: AlertSettings, alert: Alert) -> None:
    """Run the command with the event on its standard input; end it where it takes too long.

    Raises:
        TimeoutError: it took too long.
        RouterError: it ended with another status than 0.
        OSError: it could not be started.
    """
    pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *address.command, stdin=pipe, stdout=quiet, stderr=quiet, start_new_session=os.name == "posix"
    )
    try:
        async with asyncio.timeout(address.timeout_s):
            await process.communicate(json.dumps(alert.to_json()).encode() + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RouterError(f"the command ended with status {process.returncode}")
