"""`route`, `aroute`, `astream`, `resume`, `aresume`, `decide`, `estimate`: the router as plain functions.

In: a text, messages, or a `Task`. Out: see each function. Invariant: the async functions share one `Router` per event
loop, closed when the loop ends; the sync ones are a shell over them on one background loop, so that they also work
where an event loop is already running.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from router.client import Router
from router.result import Decision, Estimate, Result
from router.task import Messages, Task

if TYPE_CHECKING:
    from router.progress import Watch

STOP_TIMEOUT_S = 10
_routers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, tuple[Router, AsyncGenerator[None, None]]] = (
    weakref.WeakKeyDictionary()
)


async def aroute(work: str | Messages | Task, **options: Any) -> Result:
    """Do the task and return its answer and receipt; see `Router.route` for what is raised.

    Args:
        work: the text, OpenAI-style messages, or a Task.
        options: fields of Task, for instance `configuration="hybrid"` or `budget_usd="0.50"`; `watch`, which is told
            how far the run is.
    """
    return await (await _router()).route(work, **options)


async def aresume(run_id: str, *, budget_usd: Decimal | None = None, watch: Watch | None = None) -> Result:
    """Go on with a run that was stopped, killed, or succeeded only in part; see `Router.resume`.

    Args:
        run_id: the run.
        budget_usd: in the place of its own budget, what it has spent before included, USD; None: its own.
        watch: is told how far the run is; None: nobody is.
    """
    return await (await _router()).resume(run_id, budget_usd=budget_usd, watch=watch)


async def astream(work: str | Messages | Task, **options: Any) -> AsyncGenerator[str | Result, None]:
    """Do the task; yield the answer's text as it comes, then the Result. See `aroute` for arguments and errors."""
    flow = (await _router()).stream(work, **options)
    try:
        async for event in flow:
            yield event
    finally:
        await flow.aclose()


def route(work: str | Messages | Task, **options: Any) -> Result:
    """Do the task and return its answer and receipt: `aroute` for callers that are not async.

    Inside a running event loop it works too, but blocks that loop: use `aroute` there.

    Args:
        work: the text, OpenAI-style messages, or a Task.
        options: fields of Task.
    """
    return _waited_for(aroute(work, **options))


def resume(run_id: str, *, budget_usd: Decimal | None = None, watch: Watch | None = None) -> Result:
    """Go on with a run that was stopped, killed, or succeeded only in part: `aresume` for callers that are not async.

    Args:
        run_id: the run.
        budget_usd: in the place of its own budget, what it has spent before included, USD; None: its own.
        watch: is told how far the run is, in another thread; None: nobody is.
    """
    return _waited_for(aresume(run_id, budget_usd=budget_usd, watch=watch))


def _waited_for(work: Coroutine[Any, Any, Result]) -> Result:
    """Return what comes of the work on the background loop; Ctrl-C stops it."""
    loop = _background_loop()
    running = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return running.result()
    except KeyboardInterrupt:  # it stops the call too, and its rows are completed before the program goes on
        running.cancel()
        asyncio.run_coroutine_threadsafe(_cancelled(), loop).result(timeout=STOP_TIMEOUT_S)
        raise


def decide(work: str | Messages | Task, **options: Any) -> Decision:
    """Return which model would do the task, with every candidate's numbers; nothing is sent. See `Router.decide`."""
    return Router().decide(work, **options)


def estimate(work: str | Messages | Task, **options: Any) -> Estimate:
    """Return what the task is expected to cost; nothing is sent. See `Router.estimate`."""
    return Router().estimate(work, **options)


async def _cancelled() -> None:
    """Return when every task of this loop that is being cancelled has ended."""
    ending = [task for task in asyncio.all_tasks() if task.cancelling()]
    if ending:
        await asyncio.wait(ending)


async def _router() -> Router:
    """Return the running loop's Router, made at its first use."""
    loop = asyncio.get_running_loop()
    found = _routers.get(loop)
    if found is None:
        router = Router()
        keeper = _kept_open(router)
        await anext(keeper)  # the loop now closes it in shutdown_asyncgens(), which asyncio.run calls
        found = _routers[loop] = (router, keeper)
    return found[0]


async def _kept_open(router: Router) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await router.aclose()


_background: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
_background_lock = threading.Lock()


def _background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop that the sync functions run on, in a thread of its own."""
    global _background  # noqa: PLW0603 — one per process, made at first use
    with _background_lock:
        if _background is None:
            started: queue.SimpleQueue[asyncio.AbstractEventLoop] = queue.SimpleQueue()
            thread = threading.Thread(target=_serve, args=(started,), name="router-background", daemon=True)
            thread.start()
            loop = started.get()
            atexit.register(_stop, loop, thread)
            _background = loop, thread
        return _background[0]


def _serve(started: queue.SimpleQueue[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner() as runner:  # at its end it cancels what still runs, and closes the router
        started.put(runner.get_loop())
        runner.get_loop().run_forever()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=STOP_TIMEOUT_S)


def _forget() -> None:
    """In a forked child the background thread is gone: the next sync call starts another."""
    global _background, _background_lock
    _background, _background_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)
