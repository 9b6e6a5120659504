"""How far a run is: counted as it goes, and told to whoever watches.

In: what happens in a run. Out: `RunProgress` values. Invariant: without a watcher nothing is made, and a watcher that
fails is not called again and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from router.budget import Budget
from router.limits import Gate
from router.result import CallReceipt


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is.

    Args:
        run_id: its row in the ledger.
        status: "running", or how it has ended: "succeeded", "partial", "failed" or "stopped".
        steps: steps of its plan; 0 where there is none (yet).
        done, failed, running: of them, those that have succeeded, that have not, and that run now.
        calls: logical calls that have ended, planning and merging included.
        retries: attempts beyond the first of each.
        spent_usd: what is known of what they cost, USD.
        possibly_billed_usd: held for attempts whose bill is not known, USD.
        reserved_usd: held for running calls, USD, also where there is no budget; unknown prices are not in it.
        budget_usd: the run's budget, USD, or None.
        gate_limits: requests that each endpoint may have in flight now.
    """

    run_id: str
    status: str
    steps: int
    done: int
    failed: int
    running: int
    calls: int
    retries: int
    spent_usd: Decimal
    possibly_billed_usd: Decimal
    reserved_usd: Decimal
    budget_usd: Decimal | None
    gate_limits: Mapping[str, int]

    @property
    def waiting(self) -> int:
        """Steps that have not begun."""
        return self.steps - self.done - self.failed - self.running


Watch = Callable[[RunProgress], None]
"""Is told how far a run is, often, on the event loop: it must be quick."""


@dataclass(slots=True)
class Counter:
    """Counts a run's course.

    Args:
        run_id: the run.
        budget: what it may spend.
        gates: of the endpoints.
        watch: who is told; None: nobody.
    """

    run_id: str
    budget: Budget
    gates: Mapping[str, Gate]
    watch: Watch | None = None
    status: str = "running"
    steps: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0
    calls: int = 0
    retries: int = 0
    spent_usd: Decimal = Decimal(0)
    possibly_billed_usd: Decimal = Decimal(0)
    problem: str | None = field(default=None)

    def planned(self, steps: int) -> None:
        """There is a plan of so many steps."""
        self.steps = steps
        self.tell()

    def begun(self) -> None:
        """A step runs."""
        self.running += 1
        self.tell()

    def paused(self) -> None:
        """A step does not run any more, and will be run again."""
        self.running -= 1
        self.tell()

    def settled(self, *, done: int = 0, failed: int = 0) -> None:
        """So many steps have ended, well or not."""
        self.done += done
        self.failed += failed
        self.tell()

    def called(self, receipt: CallReceipt, sign: int = 1) -> None:
        """A call has ended; with `sign` -1, it has not, and will be gone on with."""
        self.calls += sign
        self.retries += sign * max(0, receipt.attempts - 1)
        self.spent_usd += sign * (receipt.settled_usd or 0)
        self.possibly_billed_usd += sign * receipt.possibly_billed_usd

    def over(self, status: str) -> None:
        """The run has ended."""
        self.status, self.running = status, 0
        self.tell()

    def tell(self) -> None:
        """Tell the watcher, if there is one."""
        if self.watch is None:
            return
        try:
            self.watch(self.now())
        except Exception as error:  # noqa: BLE001 — whoever only watches breaks no run
            self.watch, self.problem = None, f"the watcher of its progress failed: {type(error).__name__}"

    def now(self) -> RunProgress:
        """Return how far the run is."""
        return RunProgress(
            run_id=self.run_id,
            status=self.status,
            steps=self.steps,
            done=self.done,
            failed=self.failed,
            running=self.running,
            calls=self.calls,
            retries=self.retries,
            spent_usd=self.spent_usd,
            possibly_billed_usd=self.possibly_billed_usd,
            reserved_usd=self.budget.reserved_usd,
            budget_usd=self.budget.limit_usd,
            gate_limits={name: gate.limit for name, gate in self.gates.items()},
        )
