"""The errors of `router`, all of them.

    RouterError                   exit code 1
    ├── WrongUsage                exit code 2: an argument, option or name that is not allowed
    │   └── ConfigError           router.toml, the environment or .env is wrong; carries every fault
    ├── NoEndpoint                no configured endpoint can serve the model (no key set, or none offers it)
    ├── ContextTooSmall           one step, one round or two results do not fit into a prompt
    ├── PlanError                 the orchestrator's plan could not be used
    ├── LedgerError               the database could not be opened, written or read
    │   └── BudgetUncounted       a monthly budget's count has been taken away: it is begun again
    ├── CallFailed                one logical call failed for good; carries its last EndpointError
    ├── RunFailed                 a run produced no answer at all
    ├── RunHeld                   another process holds the lease of this run
    ├── PlanMade                  the plan that was asked for is made; its run stands until it is resumed
    ├── RunStopped                somebody else has cancelled the run
    ├── MessageTimeout            no reply, or too few messages, in the time that was given
    ├── CursorTaken               another subscription of the same name has taken the cursor
    ├── StaleVersion              the version that was given is not the one on record; nothing was written
    ├── ToolServerError           an MCP server could not be started, reached or spoken with
    ├── ToolRefused               a tool is not, or no longer, the one that was approved
    ├── LimitCrossed              exit code 3: a limit that was asked for is crossed
    │   ├── BudgetExceeded        the next call could cross the budget; nothing was sent
    │   └── Infeasible            no choice of models holds a plan's limits (see `router.assign`)
    └── EndpointError             one attempt failed on the wire (see `router.endpoints.protocol`)

`str(error)` is one line naming the key, the value and what was allowed; `error.hint` says what to do.
No message, hint or repr ever holds a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pricing.errors import Fault


class RouterError(Exception):
    """Base of every error this package raises.

    Args:
        message: one line: the key, the value, what was allowed.
        hint: one line saying what to do, or None.

    `run_id` and `calls` say, where a run failed, which one, and the receipts (`router.task.CallReceipt`) of its calls.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.run_id: str | None = None
        self.calls: tuple[object, ...] = ()


class WrongUsage(RouterError):
    """An argument, option or name that is not allowed."""

    exit_code = 2


class ConfigError(WrongUsage):
    """The configuration is wrong. `faults` holds every fault found, in file order; the message shows them all."""

    def __init__(self, faults: tuple[Fault, ...], hint: str | None = None) -> None:
        super().__init__("\n".join(str(fault) for fault in faults), hint)
        self.faults = faults


class NoEndpoint(RouterError):
    """No configured endpoint can serve what was asked for."""


class ContextTooSmall(RouterError):
    """What is never left out of a prompt (own words, system messages, last round) is larger than a prompt may be."""


class PlanError(RouterError):
    """The orchestrator's plan is cut, is not JSON, or is not a usable graph."""


class LedgerError(RouterError):
    """The ledger's database could not be opened, migrated, written or read."""


class BudgetUncounted(LedgerError):
    """A monthly budget has no count in the ledger; nothing was written."""


class CallFailed(RouterError):
    """One logical call failed for good, after its retries. `cause` is the last attempt's EndpointError."""

    def __init__(self, message: str, cause: EndpointError, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.cause = cause


class RunFailed(RouterError):
    """A run produced no answer at all."""


class RunHeld(RouterError):
    """Another process is working on this run."""


class RunStopped(RouterError):
    """Somebody else has cancelled the run: `router runs cancel`. What it had done is on record."""


class MessageTimeout(RouterError):
    """No reply, or fewer messages than were waited for, within the time that was given."""


class CursorTaken(RouterError):
    """Another subscription of the same name has taken the cursor; what is acknowledged here no longer counts."""


class StaleVersion(RouterError):
    """The version that was given is not the one on record; nothing was written.

    `version` is the one on record, or None where the key has no value.
    """

    def __init__(self, message: str, version: int | None, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.version = version


class PlanMade(RouterError):
    """A run has made the plan that it was started for, and stands: `router.Router.ask_plan` takes it from here.

    Args:
        run_id: the run; resumed, it goes on with this plan.
        plan: the plan (`router.Plan`).
    """

    def __init__(self, run_id: str, plan: object) -> None:
        super().__init__("planned; nothing more was asked for", hint=f"router runs resume {run_id}")
        self.run_id = run_id
        self.plan = plan


class ToolServerError(RouterError):
    """An MCP server could not be started, reached or spoken with."""


class ToolRefused(RouterError):
    """A tool is not offered, not approved, or no longer the one that was approved."""


class LimitCrossed(RouterError):
    """A limit that the caller asked for is crossed."""

    exit_code = 3


class BudgetExceeded(LimitCrossed):
    """The next call could cross the budget, so it was not sent."""


class EndpointError(RouterError):
    """One attempt failed on the wire.

    Args:
        kind: one of `router.endpoints.protocol.ERROR_KINDS`.
        message: one line; the upstream's own words are cut to 300 characters and hold no secret.
        status: the HTTP status, or None where there was no answer.
        retry_after_s: the wait the upstream asked for, seconds, or None.
        possibly_billed: whether the request had been sent when it failed, so that it may cost money.
        hint: what to do, or None.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float | None = None,
        possibly_billed: bool = False,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s
        self.possibly_billed = possibly_billed


def unknown_name(key: str, value: str, allowed: Iterable[str]) -> WrongUsage:
    """Return the error for a name that does not exist, with near misses first in its message.

    Args:
        key: what the name is of, for instance "configuration".
        value: the name that was given.
        allowed: every name that exists.
    """
    names = sorted(allowed)
    near = difflib.get_close_matches(value, names, n=3, cutoff=0.5)
    message = f"{key}: {value!r} does not exist"
    if near:
        message += f"; did you mean {', '.join(near)}?"
    plural = f"{key}es" if key.endswith("s") else f"{key}s"
    return WrongUsage(message, hint=f"{plural} that exist: {', '.join(names) or 'none'}")
