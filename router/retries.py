"""Whether and when a failed attempt is tried again.

In: how it failed, what was tried before, the settings. Out: a wait in seconds, or None. Invariant: pure but for a
`RetryBudget`'s own counts; a request that may have been billed is sent again at most once.
"""

from __future__ import annotations

from router.errors import EndpointError
from router.settings import RetrySettings
from router.window import Window

REFUSALS = frozenset({"rate_limited", "overloaded"})
"""Kinds of error by which an endpoint says that it is given too much: the gate answers them with a pause for all."""
RETRIED = frozenset(
    {
        "refused",
        "connect_timeout",
        "rate_limited",
        "overloaded",
        "server_error",
        "timeout",
        "dropped",
        "cut",
        "malformed",
    }
)


def retry_wait_s(
    error: EndpointError, number: int, billed_before: int, retry: RetrySettings, chance: float
) -> float | None:
    """Return how long to wait before the next attempt, seconds; None: there is none.

    Exponential back-off with full jitter (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015); a stated
    `Retry-After` is the least wait. A request that may have been billed is sent again at most once.

    Args:
        error: how the attempt failed.
        number: which attempt it was, from 1.
        billed_before: earlier attempts of the call that may have been billed.
        retry: the settings.
        chance: uniform in 0 to 1.
    """
    if not may_retry(error, number, billed_before, retry) or why_not_waited(error, retry):
        return None
    return max(error.retry_after_s or 0.0, chance * min(retry.max_s, retry.base_s * 2.0 ** (number - 1)))


def may_retry(error: EndpointError, number: int, billed_before: int, retry: RetrySettings) -> bool:
    """Return whether there may be another attempt, whatever wait is asked for; see `retry_wait_s`."""
    if number >= retry.attempts or error.kind not in RETRIED:
        return False
    return not (error.possibly_billed and billed_before >= 1)


def why_not_waited(error: EndpointError, retry: RetrySettings) -> str | None:
    """Return what a message says of a stated `Retry-After` that is not waited for; None: it is, or there is none.

    Args:
        error: how the attempt failed.
        retry: the settings.
    """
    asked_s, most_s = error.retry_after_s or 0.0, retry.retry_after_max_s
    if asked_s <= most_s:
        return None
    return f"not tried again: it asks for a wait of {asked_s:,.6g} s, and [retry] retry_after_max_s is {most_s:g}"


class RetryBudget:
    """How many of an endpoint's requests may be retries: a share of its calls, and a few in any case.

    Without it every call of an endpoint that fails is sent `attempts` times: four times the load on what is breaking
    already (sre.google/sre-book/handling-overload, "Deciding to retry": 10 % a client).

    Args:
        endpoint: its name, for messages.
        retry: the settings.
    """

    def __init__(self, endpoint: str, retry: RetrySettings) -> None:
        self._endpoint, self._retry = endpoint, retry
        self._seen = Window(retry.budget_window_s, 2)

    def called(self, now_s: float) -> None:
        """Count a call's first attempt, at an instant of a steady clock, seconds."""
        self._seen.add(now_s, 0)

    def take(self, now_s: float) -> bool:
        """Return whether one more retry is within the budget, and count it where it is."""
        calls, retries = self._seen.totals(now_s)
        if retries + 1 > self._retry.budget_floor + float(self._retry.budget_share) * calls:
            return False
        self._seen.add(now_s, 1)
        return True

    @property
    def used_up(self) -> str:
        """What a message says of a call that failed for want of it."""
        share, floor, window = self._retry.budget_share, self._retry.budget_floor, self._retry.budget_window_s
        return (
            f"not tried again: endpoint {self._endpoint} has used up its retries ({share:.0%} of its calls and "
            f"{floor} more in {window:g} s)"
        )
