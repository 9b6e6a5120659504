"""What `router run` and `router runs resume` show: progress, answer, receipt, and how a run that stopped goes on.

In: a run as it goes. Out: the answer on stdout, all else on stderr. Invariant: what was paid, or may have been, is said
however the run ends, but for one that is asked to be quiet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from router.cli.output import one_line, put, say

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from router.cli.run_progress import ProgressLine
    from router.client import Router
    from router.errors import RouterError
    from router.ledger.run_reader import RunState
    from router.progress import Watch
    from router.result import Result

LIMIT_CROSSED = 3


async def finish(
    router: Router,
    doing: Callable[[Watch], AsyncGenerator[str | Result, None]],
    configuration: str,
    *,
    is_json: bool,
    is_quiet: bool,
) -> None:
    """Do a run and show it.

    Args:
        router: opened here, and closed.
        doing: makes the run, told of its progress.
        configuration: the configuration's name, for the receipt of a run that fails.
        is_json: whether the result is printed as JSON.
        is_quiet: whether neither progress nor receipt are shown.
    """
    import asyncio

    from router.cli.run_progress import ProgressLine
    from router.errors import RouterError

    line = ProgressLine(is_quiet=is_quiet)
    try:
        async with router:
            try:
                result, has_text = await _done(doing(line.watch), line)
            except asyncio.CancelledError:
                line.stop()
                _say_stopped(router, line.run_id)
                raise
            except RouterError as error:
                line.stop()
                if not is_quiet:
                    show_paid(error, configuration)
                _say_how_to_go_on(router, error)
                raise
    finally:
        line.stop()
    _show_result(result, is_json=is_json, has_text=has_text, is_quiet=is_quiet)


async def _done(doing: AsyncGenerator[str | Result, None], line: ProgressLine) -> tuple[Result, bool]:
    """Return the result, and whether its text has been printed as it came."""
    from router.result import Result

    wrote = False
    result: Result | None = None
    async for event in doing:
        line.stop_before(event)
        if isinstance(event, Result):
            result = event
        else:
            put(event)
            wrote = True
    if result is None:  # pragma: no cover — a run that does not raise ends in a Result
        raise AssertionError("a run ended without a result")
    return result, wrote


def _show_result(result: Result, *, is_json: bool, has_text: bool, is_quiet: bool) -> None:
    """Print the answer and its receipt; where the answer cannot be printed, the receipt of what was paid still is."""
    import json

    from router.cli.show import print_page, result_page
    from router.errors import RouterError

    has_receipt = not is_json and not is_quiet
    try:
        if is_json:
            put(json.dumps(as_json(result), ensure_ascii=False, indent=2) + "\n", is_json=True)
        elif result.text or not result.steps:
            put("\n" if has_text else result.text + "\n")
        else:
            for step in result.steps:
                if step.status == "succeeded":
                    put(f"[{one_line(step.step_id)}]\n{step.text}\n\n")
    except RouterError:
        has_receipt = not is_quiet
        raise
    finally:
        if has_receipt:
            _say_steps(result)
            print_page(result_page(result), is_talk=True)


def _say_steps(result: Result) -> None:
    """Say how many steps succeeded, and why the others did not."""
    lost = [step for step in result.steps if step.status != "succeeded"]
    if result.steps:
        say(f"steps: {len(result.steps) - len(lost)} of {len(result.steps)} succeeded, {len(lost)} failed")
    for step in lost:
        say(f"  {step.step_id}: {step.status.replace('_', ' ')}: {step.error or 'no reason is on record'}")


def show_paid(error: RouterError, configuration: str) -> None:
    """Print the receipt of the calls that a failed run has made."""
    from router.cli.show import print_page, receipt_page
    from router.result import CallReceipt

    calls = [call for call in error.calls if isinstance(call, CallReceipt)]
    if error.run_id is not None and any(call.attempts for call in calls):
        status = "stopped" if error.exit_code == LIMIT_CROSSED else "failed"
        print_page(receipt_page(calls, error.run_id, configuration, status), is_talk=True)


def _say_stopped(router: Router, run_id: str | None) -> None:
    """Say what a run that was stopped has cost, may have cost besides, and how it goes on."""
    state = None if run_id is None else _state_of(router, run_id)
    if state is None:
        return
    sums, steps = state.sums, state.steps
    of_steps = f" after {steps.get('succeeded', 0)} of {sum(steps.values())} steps" if steps else ""
    paid = ", ".join(f"{amount.normalize():f} {currency}" for currency, amount in sums.settled_cost)
    say(f"run {run_id}: stopped{of_steps}; {sums.attempts} requests were sent; paid: {paid or 'nothing'}")
    if sums.possibly_billed:
        held = f"{sums.possibly_billed_usd.normalize():f} USD"
        say(f"possibly billed besides: {sums.possibly_billed} requests, {held} were reserved for them")
    if state.is_kept:
        say(f"to go on with it: router runs resume {run_id}")


def _say_how_to_go_on(router: Router, error: RouterError) -> None:
    """Say how a run that failed goes on, where it can."""
    from router.errors import RunHeld, RunStopped

    if error.run_id is None or isinstance(error, RunHeld | RunStopped):
        return
    state = _state_of(router, error.run_id)
    if state is not None and state.is_kept:
        binding = getattr(error, "binding", ("budget_usd",))  # of an Infeasible; more budget helps where it binds
        more = " --budget MORE" if error.exit_code == LIMIT_CROSSED and "budget_usd" in binding else ""
        say(f"to go on with what it has: router runs resume {error.run_id}{more}")


def _state_of(router: Router, run_id: str) -> RunState | None:
    """Return how a run stands on record; None: it is not there, or cannot be read."""
    from router.errors import RouterError
    from router.ledger import default_url, open_ledger

    try:
        with open_ledger(default_url(router.settings)) as ledger:
            return ledger.run_reader.state(run_id)
    except RouterError:
        return None


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON values: counts as numbers, money as decimal strings."""
    from dataclasses import asdict
    from decimal import Decimal

    def plain(value: Any) -> Any:
        if isinstance(value, Decimal):
            return format(value.normalize(), "f") if value else "0"
        if isinstance(value, dict):
            return {key: plain(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value

    whole = asdict(result)
    for sums in (whole["cost"], *whole["calls"]):
        for key in ("list_cost", "settled_cost"):
            sums[key] = dict(sums[key])
    shaped: dict[str, Any] = plain(whole)
    return shaped
