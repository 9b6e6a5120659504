"""Who works on a run: a lease per run key, so that no two processes ever work on the same run.

In: a transaction that holds the write lock (or, on PostgreSQL, locks the row). Out: what a claimant may do. Invariant:
of two claims of one key at most one is given the run, while the other's owner may still be alive.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from router.errors import WrongUsage
from router.ledger.marks import mark, note_run
from router.ledger.records import Answer, RunStarted, RunStatus
from router.ledger.rows import rows_of, storable_text
from router.ledger.statements import insert_if_absent
from router.ledger.tables import answers, runs

ClaimKind = Literal["new", "finished", "held", "resumed"]


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
    """

    kind: ClaimKind
    run_id: str
    status: RunStatus
    request_hash: str | None = None
    owner: str | None = None
    lease_until_us: int | None = None
    answer: Answer | None = None


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
        mark(connection, [note_run(connection, run.run_id, run.started_us)])
        return ClaimResult("new", run.run_id, "running", run.request_hash, run.owner, run.lease_until_us)
    inserted = connection.execute(insert_if_absent(connection.dialect.name, runs, "run_key"), row).rowcount
    if inserted == 1:
        mark(connection, [note_run(connection, run.run_id, run.started_us)])
        return ClaimResult("new", run.run_id, "running", run.request_hash, run.owner, run.lease_until_us)
    query = sa.select(runs).where(runs.c.run_key == row["run_key"]).with_for_update()
    return _claim_known(connection, run, connection.execute(query).mappings().one(), dead_owner)


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
    alive = (known["lease_until_us"] or 0) > run.started_us and (dead_owner is None or known["owner"] != dead_owner)
    if known["status"] == "running" and alive:
        return _found("held", known)
    taken: dict[str, Any] = {"status": "running", "ended_us": None, "error": None}
    lease = {"owner": run.owner, "lease_until_us": run.lease_until_us}
    connection.execute(sa.update(runs).where(runs.c.run_id == known["run_id"]).values(taken | lease))
    mark(connection, [note_run(connection, known["run_id"], known["started_us"])])
    return _found("resumed", known)


def _found(kind: ClaimKind, known: sa.RowMapping, answer: Answer | None = None) -> ClaimResult:
    status: RunStatus = "running" if kind == "resumed" else known["status"]
    lease = (known["owner"], known["lease_until_us"])
    return ClaimResult(kind, known["run_id"], status, known["request_hash"], *lease, answer)


def renew(connection: sa.Connection, run_id: str, owner: str, lease_until_us: int) -> bool:
    """Prolong the owner's lease; False: the run has ended, or is another's now."""
    mine = (runs.c.run_id == run_id, runs.c.owner == storable_text(owner), runs.c.status == "running")
    return bool(connection.execute(sa.update(runs).where(*mine).values(lease_until_us=lease_until_us)).rowcount)


def find_answer(connection: sa.Connection, call_key: str) -> Answer | None:
    """Return the answer kept under a call key, or None."""
    query = sa.select(answers).where(answers.c.call_key == storable_text(call_key))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    message = json.loads(row["message"])
    return Answer(row["call_key"], row["run_id"], message, row["finish_reason"], row["expires_us"])


def prune_answers(connection: sa.Connection, now_us: int) -> int:
    """Delete answers whose time is over, unless their run is going on; return how many."""
    going = sa.select(runs.c.run_id).where(runs.c.status == "running", runs.c.lease_until_us > now_us)
    over = (answers.c.expires_us <= now_us, answers.c.run_id.not_in(going))
    return connection.execute(sa.delete(answers).where(*over)).rowcount
