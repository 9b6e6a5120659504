"""Work that a signal may stop: a closed terminal or a plain kill ends it as Ctrl-C does.

In: a coroutine. Out: nothing, or an exit code of 128 and the signal's number. Invariant: the work is cancelled once and
then waited for, so that what it has under way is on record: further signals change nothing, but for a Ctrl-C when that
takes long, which ends the process where it stands. A signal that the caller has set aside stays so (`nohup`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine

import typer

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
PATIENCE_S = 2.0
"""Seconds from which on a further Ctrl-C is heard: before, it would lose what is being completed."""


def run_until_stopped(work: Coroutine[None, None, None]) -> None:
    """Run a coroutine to its end, or until a signal stops it.

    Raises:
        KeyboardInterrupt: Ctrl-C has stopped it.
        typer.Exit: another signal has; its code is 128 and the signal's number.
    """
    caught: list[int] = []
    try:
        asyncio.run(_watched(work, caught))
    except asyncio.CancelledError:
        if not caught:
            raise
        if caught[0] == signal.SIGINT:
            raise KeyboardInterrupt from None
        raise typer.Exit(128 + caught[0]) from None


async def _watched(work: Coroutine[None, None, None], caught: list[int]) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    since_s = 0.0

    def stop(number: int) -> None:
        nonlocal since_s
        if not caught and task is not None:
            since_s = loop.time()
            caught.append(number)
            task.cancel()
        elif number == signal.SIGINT and loop.time() - since_s >= PATIENCE_S:
            os._exit(128 + number)  # as kill -9 would: the ledger is made for it, and nothing else might end it

    heard = []
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            with contextlib.suppress(NotImplementedError, RuntimeError):  # no such handlers here, or not in this thread
                loop.add_signal_handler(number, stop, number)
                heard.append(number)
    try:
        await work
    finally:
        for number in heard if caught else ():  # the process ends now: one more would change its exit code
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
