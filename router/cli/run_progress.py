"""How far a run is, as one line on a terminal's stderr.

In: `RunProgress` values. Out: a bar that is drawn over. Invariant: nothing is written where stderr is no terminal, and
the bar is gone before anything else is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

    from router.progress import RunProgress


class ProgressLine:
    """Shows a run's progress; a run without steps shows none.

    Args:
        is_quiet: whether nothing is to be shown.
    """

    def __init__(self, *, is_quiet: bool) -> None:
        self.run_id: str | None = None
        self._is_on = not is_quiet and sys.stderr.isatty()
        self._bar: Progress | None = None

    def watch(self, now: RunProgress) -> None:
        """Take note of how far the run is."""
        self.run_id = now.run_id
        if not self._is_on or not now.steps:
            return
        if self._bar is None:
            self._bar = _bar()
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], total=now.steps, completed=now.done + now.failed, words=words_of(now))

    def stop_before(self, _event: object) -> None:
        """Something else is about to be written."""
        self.stop()

    def stop(self) -> None:
        """Take the bar away, and show no other; a second call does nothing."""
        bar, self._bar = self._bar, None
        self._is_on = False
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=24), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4)
    bar.add_task("run", total=None, words="")
    return bar


def words_of(now: RunProgress) -> str:
    """Return a run's progress in words: steps, money, the budget where there is one."""
    steps = f"{now.done}/{now.steps} steps, {now.running} running"
    failed = f", {now.failed} failed" if now.failed else ""
    retries = f", {now.retries} retries" if now.retries else ""
    money = f"; {now.spent_usd:.4f} USD spent"
    held = f", {now.reserved_usd:.4f} reserved" if now.reserved_usd else ""
    doubt = f", {now.possibly_billed_usd:.4f} possibly billed" if now.possibly_billed_usd else ""
    budget = f", of {now.budget_usd:.4f}" if now.budget_usd is not None else ""
    return f"{steps}{failed}{retries}{money}{held}{doubt}{budget}"
