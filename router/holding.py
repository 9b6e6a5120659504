"""Whose a run is: claims by key or id, and cancels.

In: run keys and ids. Out: claims, or who holds the run. Invariant: a run is given to one process at a time; a dead
process of this machine is not waited for.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import socket
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from router.attempts import now_us
from router.errors import RunHeld, WrongUsage
from router.ledger import Ledger
from router.ledger.leases import ClaimResult
from router.ledger.records import RunEnded, RunStarted

Claim = TypeVar("Claim", bound=ClaimResult | None)
LEASE_S = 30
"""How long a run stays its process's after the last sign of life, seconds."""
CALLER_LEFT = "the caller left"


async def claim_key(ledger: Ledger, started: RunStarted) -> ClaimResult:
    """Return what became of the claim of a run key.

    Raises:
        RunHeld: another process works on the run.
        WrongUsage: the run key belongs to another task or configuration.
    """
    claim = await _claimed(ledger, lambda dead_owner: ledger.claim_run(started, dead_owner=dead_owner))
    if claim.kind == "held":
        raise held_error(f"run key {started.run_key!r}: its run {claim.run_id}", claim.owner)
    return claim


async def take_run(ledger: Ledger, run_id: str) -> ClaimResult:
    """Return what became of taking a run over by its id; "resumed" or "finished".

    Raises:
        RunHeld: another process works on it.
        WrongUsage: there is no such run; ids like it are listed.
    """

    def take(dead_owner: str | None) -> Coroutine[Any, Any, ClaimResult | None]:
        at_us = now_us()
        return ledger.take_run(run_id, owner_id(), at_us, at_us + LEASE_S * 1_000_000, dead_owner)

    claim = await _claimed(ledger, take)
    if claim is None:
        raise await asyncio.to_thread(unknown_run, ledger, run_id)
    if claim.kind == "held":
        raise held_error(f"run {claim.run_id}", claim.owner)
    return claim


async def _claimed(ledger: Ledger, claim_for: Callable[[str | None], Coroutine[Any, Any, Claim]]) -> Claim:
    """Return what became of a claim, made once more where a dead process holds the run; it takes its dead owner.

    A caller that leaves meanwhile leaves no run behind that is taken to be worked on.
    """
    claiming = asyncio.ensure_future(claim_for(None))
    try:
        claim = await asyncio.shield(claiming)
        if claim is not None and claim.kind == "held" and claim.owner is not None and is_gone(claim.owner):
            claiming = asyncio.ensure_future(claim_for(claim.owner))
            claim = await asyncio.shield(claiming)
    except asyncio.CancelledError:
        claim = await claiming
        if claim is not None and claim.kind in {"new", "resumed"}:
            await ledger.write(RunEnded(claim.run_id, "stopped", now_us(), CALLER_LEFT, owner_id()))
        raise
    return claim


def held_error(what: str, owner: str | None) -> RunHeld:
    """Return the error for a run that somebody else works on."""
    hint = "wait for it to end, or stop it: router runs cancel; it can be taken over once its lease is over"
    return RunHeld(f"{what} is going, held by {owner}", hint=hint)


def unknown_run(ledger: Ledger, run_id: str) -> WrongUsage:
    """Return the error for a run id that is not in the ledger, with the ids it may have meant. It blocks."""
    known = ledger.run_reader.newest_ids()
    text = run_id.strip().lower()
    near = [each for each in known if len(text) >= 4 and (each.startswith(text) or each.endswith(text))]
    near = near or difflib.get_close_matches(text, known, n=3, cutoff=0.8)
    shown = f"; did you mean {' or '.join(near[:3])}?" if near else ""
    return WrongUsage(f"run: {run_id[:80]!r} is not in this ledger{shown}", hint="router runs list shows the last ones")


def cancel_run(ledger: Ledger, run_id: str) -> Literal["over", "asked", "ended"]:
    """Ask a run's process to stop, or end the run where that process is gone. It blocks.

    Returns:
        "over": it had ended already; "asked": its process will see it within seconds; "ended": nobody worked on it,
        and it is ended now.

    Raises:
        WrongUsage: there is no such run; ids like it are listed.
        LedgerError: the database cannot be written.
    """
    state = ledger.run_reader.state(run_id)
    if state is None:
        raise unknown_run(ledger, run_id)
    owner = state.row.started.owner
    dead_owner = owner if owner is not None and is_gone(owner) else None
    kind = ledger.cancel_run(run_id, now_us(), dead_owner)
    if kind == "unknown":  # pragma: no cover — a run is not deleted within a millisecond of its start
        raise unknown_run(ledger, run_id)
    return kind


def owner_id() -> str:
    """Return who this process is: host, boot, process space and id, so that a dead owner can be told apart."""
    return f"{_machine()}/{os.getpid()}"


@cache
def _machine() -> str:
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    booted = boot.read_text(encoding="ascii").strip() if boot.is_file() else "-"
    spaced = str(space.readlink()) if space.is_symlink() else "-"
    return f"{socket.gethostname()}/{booted}/{spaced}"


def is_gone(owner: str) -> bool:
    """Return whether an owner is a process of this machine, since it was started, that no longer runs."""
    place, _, process = owner.rpartition("/")
    if os.name != "posix" or place != _machine() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
