"""An event loop whose clock all but stands still while anything is to be done, and then jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _Jumping(selectors.DefaultSelector):
    """Does not wait: it moves the clock instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now_s += max(0.0, timeout) + 1e-6  # nothing is done in no time
        return super().select(0)


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """A loop on which waiting takes no time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end on a loop of its own whose waiting takes no time."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(main)
