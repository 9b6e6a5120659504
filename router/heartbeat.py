"""The sign of life of the runs that this process works on.

In: runs that begin and end. Out: leases renewed, and tasks cancelled where somebody has asked their run to stop.
Invariant: a run is worked on while this process's lease of it holds, and not after.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from router.attempts import Lease, now_us
from router.errors import LedgerError
from router.holding import LEASE_S, owner_id
from router.ledger import Ledger

RENEWED_S = 10
"""Age at which a lease is renewed, seconds."""
BEAT_S = 2.0
"""How often a process looks whether one of its runs is to stop, seconds."""


@dataclass(slots=True, eq=False)
class Pulse:
    """One run that this process works on.

    Args:
        run_id: the run.
        lease: read before each request; None in it: nobody else can take the run.
        worker: the task that works on it.
        until_us: until when the ledger has it as this process's, microseconds since 1970 UTC.
        is_cancelled: whether somebody has asked it to stop, and `worker` was cancelled for that.
    """

    run_id: str
    lease: Lease
    worker: asyncio.Task[object]
    until_us: int
    is_cancelled: bool = False


class Heartbeat:
    """The sign of life of all runs of one process: one look every `BEAT_S`, however many there are.

    A timer is set only while a run goes on; short runs never see it fire.

    Args:
        ledger: where leases and cancels are.
        beat_s: how often, seconds.
    """

    def __init__(self, ledger: Ledger, beat_s: float = BEAT_S) -> None:
        self._ledger, self._beat_s = ledger, beat_s
        self._pulses: dict[Pulse, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._beating: asyncio.Task[None] | None = None

    def begin(self, run_id: str, lease: Lease, until_us: int) -> Pulse:
        """The running task works on a run from now on; return what `end` takes."""
        worker = asyncio.current_task()
        if worker is None:  # pragma: no cover — it is called from a coroutine
            raise RuntimeError("no task is running")
        pulse = Pulse(run_id, lease, worker, until_us)
        self._pulses[pulse] = None
        if self._timer is None and self._beating is None:
            self._arm()
        return pulse

    def end(self, pulse: Pulse) -> None:
        """The run is not worked on any more."""
        self._pulses.pop(pulse, None)

    async def aclose(self) -> None:
        """Stop; a second call does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._beat_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._pulses:
            self._beating = asyncio.get_running_loop().create_task(self._beat())
            self._beating.add_done_callback(self._beaten)

    def _beaten(self, beating: asyncio.Task[None]) -> None:
        self._beating = None
        if self._pulses and not beating.cancelled():
            self._arm()

    async def _beat(self) -> None:
        """Look for cancels, and renew the leases that need it; a database that fails now is asked again later."""
        pulses = list(self._pulses)
        with contextlib.suppress(LedgerError):
            ids = [pulse.run_id for pulse in pulses]
            found = await asyncio.to_thread(self._ledger.run_reader.cancelled, ids)
            for pulse in pulses:
                if pulse.run_id in found and pulse in self._pulses and not pulse.is_cancelled:
                    pulse.is_cancelled = True
                    pulse.worker.cancel()
        at_us = now_us()
        soon = [pulse for pulse in pulses if pulse.until_us - at_us < (LEASE_S - RENEWED_S) * 1_000_000]
        if soon:
            with contextlib.suppress(LedgerError):
                await self._renew([pulse for pulse in soon if pulse in self._pulses])

    async def _renew(self, pulses: list[Pulse]) -> None:
        until_us = now_us() + LEASE_S * 1_000_000
        mine = await self._ledger.renew_leases([pulse.run_id for pulse in pulses], owner_id(), until_us)
        for pulse in pulses:
            pulse.until_us = until_us
            if pulse.lease.until_us is not None:
                pulse.lease.until_us = until_us if pulse.run_id in mine else 0
