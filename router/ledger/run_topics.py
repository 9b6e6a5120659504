"""What a run says of itself, on its own topic: how each of its steps has ended.

In: a step's end, and the records that are written with it. Out: the message, a record of that same transaction.
Invariant: the message says where the answer is kept, and not the answer: a text is on record once. A step's end is said
once for each status, however often the run is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from router.ledger.keys import new_id
from router.ledger.message_records import RUN_PREFIX, MessagePublished, Placed
from router.ledger.records import ANSWER_KEPT_US, Answer, StepStatus
from router.ledger.row_values import to_json

STEP_ENDED: Final = "step_ended"
"""Header `kind` of such a message."""


def run_topic(run_id: str) -> str:
    """Return the topic of a run."""
    return f"{RUN_PREFIX}{run_id}"


def step_ended(
    run_id: str,
    step_id: str,
    status: StepStatus,
    error: str | None,
    written: Iterable[object] = (),
    *,
    for_good: bool = False,
) -> MessagePublished:
    """Return what is said of a step's end: `{"step_id", "status", "call_key", "error"}`.

    Args:
        run_id: the run.
        step_id: the step.
        status: how it ended.
        error: why it failed, one line, or None.
        written: records that are written with it; an `Answer` among them is where the step's answer is kept.
        for_good: whether the run's answers are kept without end.
    """
    now_us = time.time_ns() // 1000
    call_key = next((each.call_key for each in written if type(each) is Answer), None)
    return MessagePublished(
        run_topic(run_id),
        to_json({"step_id": step_id, "status": status, "call_key": call_key, "error": error}),
        Placed(new_id(), now_us),
        key=f"{step_id} {status}",
        headers={"kind": STEP_ENDED, "step_id": step_id, "status": status},
        run_id=run_id,
        expires_us=None if for_good else now_us + ANSWER_KEPT_US,
    )
