"""Who works on a run: a lease per run, so that no two processes ever work on the same one.

In: a transaction that holds the write lock (or, on PostgreSQL, locks the row). Out: what a claimant may do. Invariant:
of two claims of one run at most one is given it, while the other's owner may still be alive.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from router.errors import WrongUsage
from router.ledger.database import id_batches
from router.ledger.driver import insert_if_absent
from router.ledger.marks import mark, note_run
from router.ledger.message_prune import delete_expired
from router.ledger.records import ANSWER_KEPT_US, Answer, RunStarted, RunStatus
from router.ledger.rows import is_id, rows_of, storable_text
from router.ledger.tables import answers, run_requests, runs

ClaimKind = Literal["new", "finished", "held", "resumed"]
CancelKind = Literal["unknown", "over", "asked", "ended"]


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What became of a claim.

    Args:
        kind: "new": the run was inserted and is the claimant's; "finished": a run of this key has ended with an answer
            (`answer` is None where it has been deleted since); "held": its owner may be alive until `lease_until_us`;
            "resumed": its owner is gone, or it had ended without an answer, and it is the claimant's now.
        run_id: the run: the claimed one where new, else the one on record.
        status: its status now.
        request_hash: its request's hash, or None.
        owner: who held it before this claim; the claimant where new.
        lease_until_us: until when that owner is taken to be alive, microseconds since 1970 UTC, or None.
        answer: its final answer where "finished".
        started_us: when the run first started, alike: what it decides, it decides by the prices of then.
    """

    kind: ClaimKind
    run_id: str
    status: RunStatus
    request_hash: str | None = None
    owner: str | None = None
    lease_until_us: int | None = None
    answer: Answer | None = None
    started_us: int = 0


def final_answer_key(run_id: str) -> str:
    """Return the call key under which a run's final answer is kept."""
    return f"run:{run_id}"


def claim(connection: sa.Connection, run: RunStarted, dead_owner: str | None = None) -> ClaimResult:
    """Insert the run, or say what there is under its key; take it over where nobody works on it any more.

    Args:
        connection: in a transaction of its own.
        run: its `started_us` is the instant that leases are compared with.
        dead_owner: an owner that is known to be gone, whose lease counts as over; None: none is.

    Raises:
        WrongUsage: the key belongs to a run of another task or configuration; that run is left as it is.
        LedgerError: the run cannot be written.
    """
    [(_, row)] = rows_of([run])
    if run.run_key is None:
        connection.execute(sa.insert(runs), row)
        return _new(connection, run)
    inserted = connection.execute(insert_if_absent(connection.dialect.name, runs, "run_key"), row).rowcount
    if inserted == 1:
        return _new(connection, run)
    query = sa.select(runs).where(runs.c.run_key == row["run_key"]).with_for_update()
    return _claim_known(connection, run, connection.execute(query).mappings().one(), dead_owner)


def _new(connection: sa.Connection, run: RunStarted) -> ClaimResult:
    mark(connection, [note_run(connection, run.run_id, run.started_us)])
    lease = (run.owner, run.lease_until_us)
    return ClaimResult("new", run.run_id, "running", run.request_hash, *lease, started_us=run.started_us)


def _claim_known(
    connection: sa.Connection, run: RunStarted, known: sa.RowMapping, dead_owner: str | None
) -> ClaimResult:
    if None not in (run.request_hash, known["request_hash"]) and run.request_hash != known["request_hash"]:
        message = (
            f"run key {run.run_key!r}: it belongs to run {known['run_id']}, which had another task or configuration"
        )
        raise WrongUsage(message, hint="use another run key for another task")
    if known["status"] in {"succeeded", "partial"}:
        return _found("finished", known, answer=find_answer(connection, final_answer_key(known["run_id"])))
    if _is_held(known, run.started_us, dead_owner):
        return _found("held", known)
    return _taken(connection, known, run.owner, run.lease_until_us)


def take(
    connection: sa.Connection,
    run_id: str,
    owner: str,
    now_us: int,
    lease_until_us: int,
    dead_owner: str | None = None,
) -> ClaimResult | None:
    """Take over a run by its id where nobody works on it and it has not succeeded; None: there is no such run.

    A run that ended in part is taken too, for the steps that failed; its answer of then is deleted, since there will be
    another.

    Args:
        connection: in a transaction of its own.
        run_id: the run.
        owner: who takes it.
        now_us: the instant that leases are compared with, microseconds since 1970 UTC.
        lease_until_us: until when the new owner is taken to be alive, alike.
        dead_owner: an owner that is known to be gone, whose lease counts as over; None: none is.
    """
    known = _locked(connection, run_id)
    if known is None:
        return None
    if known["status"] == "succeeded":
        return _found("finished", known, answer=find_answer(connection, final_answer_key(known["run_id"])))
    if _is_held(known, now_us, dead_owner):
        return _found("held", known)
    connection.execute(sa.delete(answers).where(answers.c.call_key == final_answer_key(known["run_id"])))
    return _taken(connection, known, owner, lease_until_us)


def _locked(connection: sa.Connection, run_id: str) -> sa.RowMapping | None:
    if not is_id(run_id):
        return None
    query = sa.select(runs).where(runs.c.run_id == run_id).with_for_update()
    return connection.execute(query).mappings().one_or_none()


def _is_held(known: sa.RowMapping, now_us: int, dead_owner: str | None) -> bool:
    alive = (known["lease_until_us"] or 0) > now_us and (dead_owner is None or known["owner"] != dead_owner)
    return known["status"] == "running" and alive


def _taken(connection: sa.Connection, known: sa.RowMapping, owner: str | None, until_us: int | None) -> ClaimResult:
    taken: dict[str, Any] = {"status": "running", "ended_us": None, "error": None, "cancel_us": None}
    lease = {"owner": None if owner is None else storable_text(owner), "lease_until_us": until_us}
    connection.execute(sa.update(runs).where(runs.c.run_id == known["run_id"]).values(taken | lease))
    mark(connection, [note_run(connection, known["run_id"], known["started_us"])])
    return _found("resumed", known)


def _found(kind: ClaimKind, known: sa.RowMapping, answer: Answer | None = None) -> ClaimResult:
    status: RunStatus = "running" if kind == "resumed" else known["status"]
    lease = (known["owner"], known["lease_until_us"])
    return ClaimResult(kind, known["run_id"], status, known["request_hash"], *lease, answer, known["started_us"])


def cancel(connection: sa.Connection, run_id: str, now_us: int, dead_owner: str | None = None) -> CancelKind:
    """Ask a run's owner to stop, or end the run where its owner is gone.

    Args:
        connection: in a transaction of its own.
        run_id: the run.
        now_us: the instant that leases are compared with, microseconds since 1970 UTC.
        dead_owner: as for `take`.

    Returns:
        "unknown": there is no such run; "over": it has ended already; "asked": its owner will see it at its next sign
        of life; "ended": nobody worked on it, and it is ended now.
    """
    known = _locked(connection, run_id)
    if known is None:
        return "unknown"
    if known["status"] != "running":
        return "over"
    this = runs.c.run_id == known["run_id"]
    if _is_held(known, now_us, dead_owner):
        connection.execute(sa.update(runs).where(this, runs.c.cancel_us.is_(None)).values(cancel_us=now_us))
        return "asked"
    end = {"status": "stopped", "ended_us": now_us, "cancel_us": now_us}
    connection.execute(sa.update(runs).where(this).values(**end, error="cancelled after its process had ended"))
    mark(connection, [note_run(connection, known["run_id"], known["started_us"])])
    return "ended"


def cancelled(connection: sa.Connection, run_ids: Sequence[str]) -> frozenset[str]:
    """Return those of some runs that somebody has asked to stop."""
    found: set[str] = set()
    for ids in id_batches(run_ids):
        some = runs.c.run_id.in_(ids)
        found.update(connection.execute(sa.select(runs.c.run_id).where(some, runs.c.cancel_us.is_not(None))).scalars())
    return frozenset(found)


def renew(connection: sa.Connection, run_ids: Sequence[str], owner: str, lease_until_us: int) -> frozenset[str]:
    """Prolong the owner's leases of some runs; return those that are still its own and going."""
    found: set[str] = set()
    for ids in id_batches(run_ids):
        mine = (runs.c.run_id.in_(ids), runs.c.owner == storable_text(owner), runs.c.status == "running")
        connection.execute(sa.update(runs).where(*mine).values(lease_until_us=lease_until_us))
        found.update(connection.execute(sa.select(runs.c.run_id).where(*mine)).scalars())
    return frozenset(found)


def find_answer(connection: sa.Connection, call_key: str) -> Answer | None:
    """Return the answer kept under a call key, or None."""
    query = sa.select(answers).where(answers.c.call_key == storable_text(call_key))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    message = json.loads(row["message"])
    return Answer(row["call_key"], row["run_id"], message, row["finish_reason"], row["expires_us"])


def prune_answers(connection: sa.Connection, now_us: int) -> int:
    """Delete answers, tasks, messages and state of runs whose time is over since their end; return how many answers.

    A run that was never ended counts as ended with its lease. What is kept for good has no `expires_us`.
    """
    ended_us = sa.func.coalesce(runs.c.ended_us, runs.c.lease_until_us, runs.c.started_us)
    over = sa.select(runs.c.run_id).where(ended_us <= now_us - ANSWER_KEPT_US)
    tasks, answered = (
        sa.delete(table).where(table.c.expires_us <= now_us, table.c.run_id.in_(over))
        for table in (run_requests, answers)
    )
    connection.execute(tasks)
    delete_expired(connection, now_us, over)
    return connection.execute(answered).rowcount
