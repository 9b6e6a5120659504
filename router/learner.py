"""Keeps what the user's own record says at hand, and looks at it again from time to time.

In: a ledger, [forecast]. Out: an `Experience` as of a whole interval. Invariant: the record is read in a thread, never
on the way of a call; where it cannot be read, what was known stays.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from router.errors import LedgerError
from router.experience import NO_EXPERIENCE, Experience
from router.settings_forecast import ForecastSettings

if TYPE_CHECKING:
    from router.ledger import Ledger
    from router.settings import Settings


def as_of_us(settings: ForecastSettings) -> int:
    """Return the instant that an experience is as of now: the last whole interval, microseconds since 1970 UTC."""
    refresh_us = int(settings.refresh_s * 1_000_000)
    return time.time_ns() // 1000 // refresh_us * refresh_us


def recorded_experience(settings: Settings) -> Experience:
    """Return what the ledger that is set says; one that is not there yet is not made. It blocks.

    Args:
        settings: as loaded.

    Raises:
        LedgerError: the ledger cannot be opened or read.
    """
    from router.ledger import default_url, open_ledger
    from router.ledger.database import parse_url

    url = default_url(settings)
    is_missing = url.startswith("sqlite") and not Path(str(parse_url(url).database)).exists()
    if is_missing or not settings.forecast.learn:
        return NO_EXPERIENCE
    with open_ledger(url) as ledger:
        return ledger.run_reader.experience(as_of_us(settings.forecast), settings.forecast.days)


class Learner:
    """Holds the experience in force.

    Args:
        ledger: an open ledger.
        settings: how far back, and how often.
        experience: what is in force until the record was read, and after it where nothing is to be learnt.
    """

    def __init__(self, ledger: Ledger, settings: ForecastSettings, experience: Experience = NO_EXPERIENCE) -> None:
        self.experience = experience
        self._ledger = ledger
        self._settings = settings
        self._due_s = 0.0
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read the record for the first time."""
        await self._read()

    def look(self) -> None:
        """Have the record read again, in the background, where its time has come."""
        if self._settings.learn and time.monotonic() >= self._due_s and self._reading is None:
            self._reading = asyncio.create_task(self._read())

    async def at(self, instant_us: int | None) -> Experience:
        """Return the experience as of an instant, so that a resumed run decides as it did at first.

        Args:
            instant_us: `Experience.as_of_us` of then, microseconds since 1970 UTC; None: it decided without one.

        Raises:
            LedgerError: the record cannot be read.
        """
        if instant_us is None:
            return NO_EXPERIENCE
        if instant_us == self.experience.as_of_us:
            return self.experience
        return await asyncio.to_thread(self._ledger.run_reader.experience, instant_us, self._settings.days)

    async def aclose(self) -> None:
        """Let what is being read be read; a second call does nothing."""
        if self._reading is not None:
            await self._reading

    async def _read(self) -> None:
        self._due_s = time.monotonic() + self._settings.refresh_s
        try:
            if self._settings.learn:
                self.experience = await self.at(as_of_us(self._settings))
        except LedgerError:
            pass  # a forecast is no reason to stop work
        finally:
            self._reading = None
