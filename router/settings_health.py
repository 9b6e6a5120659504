"""The tables [gates], [health] and [[alerts]] of router.toml: what slows an endpoint's calls, moves them, and is told.

In: values as TOML has them. Out: `GateSettings`, `HealthSettings`, `AlertSettings`. Invariant: an address that may be a
secret is never held: only the name of its variable.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from router.section import Count, Name, Number, Seconds, Section, Share

AlertEvent = Literal["budget", "health", "fallback"]
ALERT_EVENTS: tuple[AlertEvent, ...] = ("budget", "health", "fallback")


class GateSettings(Section):
    """How the number of requests in flight at an endpoint follows what it takes.

    The limit is cut by refusals (429, 503, 529) and grows by answers: additive increase, multiplicative decrease.

    Args:
        cut_share: what a wave of refusals leaves of the limit, 0 to 1.
        refused_share: share of the last minute's requests that may be refused without a cut of a limit that was taken
            before, 0 to 1. The pause holds all the same.
        hold_pauses: for how many times the pause's length a limit that was refused is not tried again; doubled, where
            it is refused again, up to `hold_max_s`.
        hold_max_s: longest time that a refused limit is not tried again, seconds.
    """

    cut_share: Number = Field(default=0.7, gt=0, lt=1)
    refused_share: Share = Decimal("0.005")
    hold_pauses: Number = Field(default=20, ge=0, le=1000)
    hold_max_s: Seconds = Field(default=60.0, ge=0)


class HealthSettings(Section):
    """When an endpoint counts as down, so that its traffic moves to its fallback, and when it comes back.

    A failure is a 5xx, a connection that failed or broke, an answer that cannot be read, or silence; a 429 is none.

    Args:
        window_s: how far back failures are counted, seconds.
        down_share: share of failures above which it is down, 0 to 1 ...
        min_requests: ... where so many requests ended in the window,
        min_failures: and so many of them failed.
        failures_in_a_row: so many failures without an answer between them take it down whatever the share.
        quiet_s: requests in flight without any answer for so long make it suspect, seconds.
        probe_s: how often it is asked for its models while it is suspect or down (GET /models, free), seconds.
        probe_timeout_s: longest wait for that, seconds.
        probe_failures: failed probes in a row that take it down.
        probe_successes: good probes in a row that are needed for the way back.
        min_down_s: shortest time that it stays down, seconds: traffic never moves there and back faster than this.
        trial_share: share of its calls that go there again at first, 0 to 1.
        trial_calls: answers in a row after which all do.
        trial_s: time after which all do where traffic is too thin for that, after one answer at least, seconds.
    """

    window_s: Seconds = Field(default=60.0, gt=0)
    down_share: Share = Decimal("0.01")
    min_requests: Count = Field(default=50, ge=1)
    min_failures: Count = Field(default=2, ge=1)
    failures_in_a_row: Count = Field(default=5, ge=1)
    quiet_s: Seconds = Field(default=15.0, gt=0)
    probe_s: Seconds = Field(default=5.0, gt=0)
    probe_timeout_s: Seconds = Field(default=5.0, gt=0)
    probe_failures: Count = Field(default=3, ge=1)
    probe_successes: Count = Field(default=3, ge=1)
    min_down_s: Seconds = Field(default=30.0, ge=0)
    trial_share: Share = Field(default=Decimal("0.1"), gt=0)
    trial_calls: Count = Field(default=10, ge=1)
    trial_s: Seconds = Field(default=60.0, ge=0)


class AlertSettings(Section):
    """Where an event is told: see docs/gates-and-health.md for its JSON.

    Args:
        kind: "webhook" (a POST) or "command" (run with the event on its standard input).
        url_env: environment variable that holds the webhook's address, which often is a secret.
        command: the program and its arguments; no shell is used.
        events: which events it is told of.
        min_interval_s: the same event of the same subject is told once in this time, seconds.
        timeout_s: longest time it may take, seconds.
    """

    kind: Literal["webhook", "command"]
    url_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    command: tuple[Name, ...] = ()
    events: tuple[AlertEvent, ...] = ALERT_EVENTS
    min_interval_s: Seconds = Field(default=300.0, ge=0)
    timeout_s: Seconds = Field(default=10.0, gt=0)

    @field_validator("events")
    @classmethod
    def _names_one(cls, events: tuple[AlertEvent, ...]) -> tuple[AlertEvent, ...]:
        if not events:
            raise PydanticCustomError("events", "should name at least one of budget, health, fallback")
        return events

    @model_validator(mode="after")
    def _has_its_address(self) -> Self:
        wanted, other = ("url_env", "command") if self.kind == "webhook" else ("command", "url_env")
        if not getattr(self, wanted) or getattr(self, other):
            message = f'of kind "{self.kind}" needs {wanted}, and no {other}'
            raise PydanticCustomError("alert_address", message)
        return self
