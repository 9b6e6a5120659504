"""Whether an endpoint is up: from how its requests end, and from asking it while that is in doubt.

In: how each request ended, how each probe ended, with their instants. Out: whether calls go there now. Invariant:
`Condition` is pure but for its own state; an endpoint that goes down stays down for `min_down_s` at least, so traffic
never moves there and back faster than that. A probe is free of cost (GET /models).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from router.alerts import Alert, Alerts
from router.endpoints.protocol import Endpoint
from router.errors import EndpointError
from router.settings import EndpointSettings
from router.settings_health import HealthSettings
from router.window import Window

State = Literal["up", "down", "trial"]
FAILURES = frozenset(
    {"refused", "connect_timeout", "server_error", "overloaded", "dropped", "cut", "malformed", "timeout", "idle"}
)
"""Kinds of error that speak against an endpoint: 5xx, connections that failed or broke, unreadable answers, silence."""


class Condition:
    """One endpoint's state. Every instant is of one steady clock, seconds.

    Args:
        settings: the thresholds.
        now_s: the present one.
        has_probe: whether it can be asked; else only time and trial calls bring it back.
    """

    def __init__(self, settings: HealthSettings, now_s: float, *, has_probe: bool = True) -> None:
        self._settings, self.has_probe = settings, has_probe
        self.state: State = "up"
        self.since_s = now_s
        self.why = ""
        self._seen = Window(settings.window_s, 2)
        self._failed_in_a_row = self._probes_failed = self._probes_good = 0
        self._is_suspect = False
        self._trial_good = self._trial_asked = 0

    @property
    def wants_probe(self) -> bool:
        """Whether it is to be asked: it is down, or something speaks against it."""
        return self.has_probe and (self._is_suspect or self.state == "down")

    def ended(self, now_s: float, *, good: bool) -> None:
        """Take note of a request's end."""
        self._seen.add(now_s, 0 if good else 1)
        if good:
            self._failed_in_a_row = 0
            if self.state == "trial":
                self._trial_good += 1
                self._pass_trial(now_s)
            return
        self._failed_in_a_row += 1
        self._suspect()
        if self.state == "trial":
            self._to(now_s, "down", "a trial call failed")
        elif self.state == "up":
            self._judge(now_s)

    def quiet(self) -> None:
        """Take note that requests are in flight, and none was answered for `quiet_s`."""
        self._suspect()

    def probed(self, now_s: float, *, good: bool) -> None:
        """Take note of a probe's end."""
        settings = self._settings
        if not good:
            self._probes_failed, self._probes_good = self._probes_failed + 1, 0
            if self.state != "down" and self._probes_failed >= settings.probe_failures:
                self._to(now_s, "down", f"{self._probes_failed} probes failed")
            return
        self._probes_failed, self._probes_good = 0, self._probes_good + 1
        if self._probes_good >= settings.probe_successes:
            self._is_suspect = False
            self._try_again(now_s)

    def takes(self, now_s: float) -> bool:
        """Return whether the next call goes there; on trial, every so-many-th does, the first at once."""
        if self.state == "down" and not self.has_probe:
            self._try_again(now_s)
        if self.state == "trial":
            self._pass_trial(now_s)
        if self.state != "trial":
            return self.state == "up"
        every = max(1, round(1 / self._settings.trial_share))
        self._trial_asked += 1
        return (self._trial_asked - 1) % every == 0

    def _suspect(self) -> None:
        self._is_suspect, self._probes_good = True, 0

    def _judge(self, now_s: float) -> None:
        settings = self._settings
        good, failed = self._seen.totals(now_s)
        if self._failed_in_a_row >= settings.failures_in_a_row:
            self._to(now_s, "down", f"{self._failed_in_a_row} failures in a row")
        elif (
            good + failed >= settings.min_requests
            and failed >= settings.min_failures
            and failed > settings.down_share * (good + failed)
        ):
            self._to(now_s, "down", f"{failed} of {good + failed} requests failed in {settings.window_s:g} s")

    def _try_again(self, now_s: float) -> None:
        if self.state == "down" and now_s - self.since_s >= self._settings.min_down_s:
            self._to(now_s, "trial", "it answers again" if self.has_probe else "its time is over")

    def _pass_trial(self, now_s: float) -> None:
        settings, lasted_s = self._settings, now_s - self.since_s
        if self._trial_good >= settings.trial_calls or (self._trial_good and lasted_s >= settings.trial_s):
            self._to(now_s, "up", f"{self._trial_good} trial calls were answered")

    def _to(self, now_s: float, state: State, why: str) -> None:
        self.state, self.since_s, self.why = state, now_s, why
        self._failed_in_a_row = self._probes_failed = self._probes_good = self._trial_good = self._trial_asked = 0
        self._seen.clear()
        if state == "up":
            self._is_suspect = False


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """An endpoint's state at an instant: "up", "down" or "trial" (a share of its calls), for how long, and why."""

    name: str
    state: State
    for_s: float
    why: str
    fallback: str | None


@dataclass(slots=True)
class _Watched:
    """One endpoint with its condition, what is in flight there, and the task that asks it."""

    name: str
    endpoint: Endpoint
    condition: Condition
    fallback: str | None
    on_down: Callable[[], None] | None
    told: State = "up"
    in_flight: int = 0
    answered_s: float = 0.0
    quiet: asyncio.TimerHandle | None = None
    probing: asyncio.Task[None] | None = None


class Health:
    """The conditions of all endpoints of one router; its probes end with it. Made and used on one event loop.

    Args:
        settings: the thresholds.
        alerts: who is told of changes.
    """

    def __init__(self, settings: HealthSettings, alerts: Alerts) -> None:
        self._settings, self.alerts = settings, alerts
        self._watched: dict[str, _Watched] = {}
        self._is_closed = False

    def add(
        self, name: str, endpoint: Endpoint, settings: EndpointSettings, on_down: Callable[[], None] | None = None
    ) -> None:
        """Watch an endpoint; it is asked only where that tells something, and somebody gains by it.

        Args:
            name: its name.
            endpoint: what is asked.
            settings: its kind (litellm answers from a list of its own) and its fallback.
            on_down: is called when it goes down.
        """
        has_probe = settings.kind == "openai" and (settings.fallback is not None or self.alerts.hears("health"))
        condition = Condition(self._settings, _now(), has_probe=has_probe)
        self._watched[name] = _Watched(name, endpoint, condition, settings.fallback, on_down)

    @property
    def states(self) -> Mapping[str, EndpointHealth]:
        """What each endpoint's state is now, by name."""
        now = _now()
        return {name: _state(watched, now) for name, watched in self._watched.items()}

    def takes(self, name: str) -> bool:
        """Return whether the next call goes to an endpoint; each question counts as one call of a trial."""
        watched = self._watched.get(name)
        if watched is None or watched.condition.state == "up":
            return True
        takes = watched.condition.takes(_now())
        self._tell(watched)
        return takes

    def sent(self, name: str) -> None:
        """Take note that a request goes out."""
        watched = self._watched.get(name)
        if watched is None:
            return
        watched.in_flight += 1
        if watched.in_flight == 1:
            watched.answered_s = _now()
        if watched.quiet is None and watched.condition.has_probe:
            watched.quiet = asyncio.get_running_loop().call_later(self._settings.quiet_s, self._look, watched)

    def ended(self, name: str, error: EndpointError | None, *, is_known: bool = True) -> None:
        """Take note of a request's end.

        Args:
            name: the endpoint's name.
            error: how it failed, or None.
            is_known: whether its end tells of the endpoint at all: not where we left first.
        """
        watched = self._watched.get(name)
        if watched is None:
            return
        watched.in_flight -= 1
        if not is_known:
            return
        now = _now()
        good = error is None or error.kind not in FAILURES
        if good:
            watched.answered_s = now
        watched.condition.ended(now, good=good)
        self._tell(watched)
        self._ask(watched)

    async def aclose(self) -> None:
        """End the probes, and wait for alerts that are under way; a second call does nothing."""
        self._is_closed = True
        tasks = [each.probing for each in self._watched.values() if each.probing is not None]
        for each in self._watched.values():
            if each.quiet is not None:
                each.quiet.cancel()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.alerts.aclose()

    def _look(self, watched: _Watched) -> None:
        """Look whether requests have been in flight for long without any answer."""
        watched.quiet = None
        if watched.in_flight == 0 or self._is_closed:
            return
        left_s = watched.answered_s + self._settings.quiet_s - _now()
        if left_s <= 0:
            watched.condition.quiet()
            self._ask(watched)
            left_s = self._settings.quiet_s
        watched.quiet = asyncio.get_running_loop().call_later(max(left_s, 0.001), self._look, watched)

    def _ask(self, watched: _Watched) -> None:
        """Begin to ask an endpoint, where that is wanted and not under way."""
        if watched.condition.wants_probe and watched.probing is None and not self._is_closed:
            watched.probing = asyncio.get_running_loop().create_task(self._probe(watched))

    async def _probe(self, watched: _Watched) -> None:
        loop = asyncio.get_running_loop()
        try:
            while watched.condition.wants_probe:
                begun_s = loop.time()
                good = await _is_there(watched.endpoint, self._settings.probe_timeout_s)
                watched.condition.probed(_now(), good=good)
                self._tell(watched)
                await asyncio.sleep(max(0.0, begun_s + self._settings.probe_s - loop.time()))
        finally:
            watched.probing = None

    def _tell(self, watched: _Watched) -> None:
        """Tell of a change of state, once."""
        condition = watched.condition
        if condition.state == watched.told:
            return
        watched.told = condition.state
        if condition.state == "down" and watched.on_down is not None:
            watched.on_down()
        to = f"; its calls go to {watched.fallback}" if condition.state == "down" and watched.fallback else ""
        words = {"down": "is down", "trial": "is tried again", "up": "is up"}[condition.state]
        message = f"endpoint {watched.name} {words}: {condition.why}{to}"
        details = {"why": condition.why, "fallback": watched.fallback}
        self.alerts.tell(Alert("health", watched.name, condition.state, message, details))


def _state(watched: _Watched, now_s: float) -> EndpointHealth:
    condition = watched.condition
    return EndpointHealth(watched.name, condition.state, now_s - condition.since_s, condition.why, watched.fallback)


async def _is_there(endpoint: Endpoint, timeout_s: float) -> bool:
    """Return whether an endpoint answers at all: a refused key or an unknown path is an answer, too."""
    try:
        async with asyncio.timeout(timeout_s):
            await endpoint.models()
    except TimeoutError:
        return False
    except EndpointError as error:
        return error.kind not in FAILURES
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
