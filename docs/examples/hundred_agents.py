r"""One hundred agents from one batch of jobs, fifty at once; one that fails never fails the batch.

In: nothing. Out: a line of JSON for each answer on standard output; on standard error how many succeeded, why the
others did not, and what it cost. Invariant: every job has an answer or a reason, and the handbook that all of them
read stands first in each prompt, so that all but the first find it in the vendor's cache.

Start, with three agents that fail, each in its own way (the last one after 10 s of silence):
    router sandbox --fault "*:match=Ticket 17:,status=400" --fault "*:match=Ticket 42:,malformed" \
        --fault "*:match=Ticket 99:,hang" &
    ROUTER_CONFIG=sandbox.toml python hundred_agents.py
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from router import Plan, Result, RouterError, estimate, route

TROUBLES = ("came late", "is damaged", "went to a neighbour", "was not ordered")
HANDBOOK = "\n".join(
    f"Rule {number}: a parcel that {TROUBLES[number % 4]} is made good within {number % 9 + 2} days, and the customer "
    f"is told so by name in at most {number % 5 + 2} friendly sentences."
    for number in range(1, 61)
)
BATCH = Plan.map(
    (f"Ticket {number}: my parcel {TROUBLES[number % 4]}. Answer it by the handbook." for number in range(1, 101)),
    task_class="write",
    max_output_tokens=2048,
)


def answered() -> Result:
    """Do the batch: 50 at once, 45 s for each at the most ([swarm] of sandbox.toml); it may cost 50 cents."""
    expected = estimate("Answer every ticket.", plan=BATCH, shared=HANDBOOK).cost
    if expected is not None:
        say(f"expected: {expected.expected_usd:.6f} USD ({expected.low_usd:.6f} to {expected.high_usd:.6f})")
    return route("Answer every ticket.", plan=BATCH, shared=HANDBOOK, budget_usd="0.50")


def say(line: str) -> None:
    """Print a line beside the answers."""
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    try:
        result = answered()
    except RouterError as error:
        sys.exit(str(error))
    for end in result.steps:
        if end.status == "succeeded":
            sys.stdout.write(json.dumps({"id": end.step_id, "text": end.text}) + "\n")
    count = Counter(end.status for end in result.steps)
    say(f"{count['succeeded']} of {count.total()} agents succeeded, {count.total() - count['succeeded']} failed:")
    for end in result.steps:
        if end.error:
            say(f"{end.step_id} {end.status}: {end.error}")
    cached_share = result.usage.cache_read_tokens / result.usage.input_tokens
    say(f"{cached_share:.1%} of {result.usage.input_tokens} tokens were read from the cache")
    say(f"cost: {result.cost.settled_usd:.6f} USD, possibly billed besides: {result.cost.possibly_billed_usd:.6f} USD")
