"""The stand-in server itself: its addresses, its start and its end.

In: names, faults, a seed. Out: an OpenAI-compatible server on a local port, with `/sandbox/…` to look into it.
Invariant: what it answers depends on model and messages alone; what it does wrong, on its faults and on the order of
requests.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from router.endpoints.sandbox.completion import State, complete
from router.endpoints.sandbox.faults import FaultBook, Faults, faults_from_json
from router.endpoints.sandbox.log import LogEntry, RequestLog
from router.endpoints.sandbox.prompts import PrefixCache
from router.errors import RouterError, WrongUsage

KNOWN_MODELS = ("kimi-k2", "deepseek-v3.2", "gpt-4.1", "claude-sonnet-4.5", "gemini-2.5-flash")
_MOST_BODY_BYTES = 256 * 1024 * 1024


class Sandbox:
    """A local OpenAI-compatible server, as an async context manager.

    Args:
        models: the names it has; any other is answered 404. None: it answers to every name.
        faults: how it misbehaves, by model; "*" stands for every model.
        seed: of whatever is drawn (shares, jitter).
        host: address to listen on.
        port: port to listen on; 0: any free one.
        key: the key it wants as a bearer token; None: it wants none.
        log_path: file its request log is appended to, one JSON object a line; None: memory only.
    """

    def __init__(
        self,
        models: Iterable[str] | None = None,
        faults: Faults | None = None,
        *,
        seed: int = 0,
        host: str = "127.0.0.1",
        port: int = 0,
        key: str | None = None,
        log_path: Path | None = None,
    ) -> None:
        self._seed, self._host, self._port = seed, host, port
        known = None if models is None else tuple(models)
        self._state = State(known, key, FaultBook(faults or {}, seed), PrefixCache(), RequestLog(log_path))
        self._runner: web.AppRunner | None = None

    @property
    def base_url(self) -> str:
        """The API's root, for instance http://127.0.0.1:8080/v1; the port is right once the server has started."""
        return f"http://{self._host}:{self._port}/v1"

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every request that reached the server since its start or reset, in order of arrival."""
        return tuple(self._state.log.entries)

    def set_faults(self, faults: Faults) -> None:
        """Replace all faults; counts of "the first n" begin again."""
        self._state.book = FaultBook(faults, self._seed)

    def reset(self) -> None:
        """Forget faults, cached prefixes and log rows; a log file keeps its lines."""
        self.set_faults({})
        self._state.cache = PrefixCache()
        self._state.log.clear()

    async def start(self) -> None:
        """Listen.

        Raises:
            RouterError: the address cannot be listened on.
        """
        # A handler is cancelled when its client leaves, so that the log knows.
        runner = web.AppRunner(self._application(), access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, backlog=2048).start()
        except OSError as error:
            await runner.cleanup()
            reason = error.strerror or str(error)
            message = f"sandbox: cannot listen on {self._host}:{self._port}: {reason}"
            raise RouterError(message, hint="choose another port; 0 takes any free one") from None
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Close every connection and the log file; a second call does nothing."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._state.log.close()

    async def __aenter__(self) -> Self:
        """Start listening."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop listening."""
        await self.stop()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=_MOST_BODY_BYTES)
        application.router.add_post("/v1/chat/completions", self._complete)
        application.router.add_get("/v1/models", self._list_models)
        application.router.add_get("/sandbox/log", self._show_log)
        application.router.add_post("/sandbox/faults", self._take_faults)
        application.router.add_post("/sandbox/reset", self._take_reset)
        return application

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        return await complete(self._state, request)

    async def _list_models(self, request: web.Request) -> web.Response:
        key = self._state.key
        if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
            return _json({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}, 401)
        names = self._state.models or KNOWN_MODELS
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "sandbox"} for name in names]
        return _json({"object": "list", "data": rows})

    async def _show_log(self, _request: web.Request) -> web.Response:
        lines = "".join(json.dumps(asdict(entry)) + "\n" for entry in self._state.log.entries)
        return web.Response(text=lines, content_type="application/x-ndjson")

    async def _take_faults(self, request: web.Request) -> web.Response:
        try:
            self.set_faults(faults_from_json(json.loads(await request.read())))
        except (WrongUsage, ValueError) as error:
            return _json({"error": {"message": str(error)}}, 400)
        return _json({"ok": True})

    async def _take_reset(self, _request: web.Request) -> web.Response:
        self.reset()
        return _json({"ok": True})


def _json(payload: Mapping[str, object], status: int = 200) -> web.Response:
    body = json.dumps(payload).encode()
    return web.Response(body=body, status=status, content_type="application/json")


class SandboxThread:
    """A `Sandbox` in a thread of its own, as a plain context manager, for callers without an event loop.

    Args:
        sandbox: the server to run; it must not have been started.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="farebox-sandbox", daemon=True)

    @property
    def base_url(self) -> str:
        """The API's root."""
        return self.sandbox.base_url

    @property
    def log(self) -> tuple[LogEntry, ...]:
        """Every request that reached the server, in order of arrival."""
        return self.sandbox.log

    def start(self) -> None:
        """Start the thread, and return once the server listens.

        Raises:
            RouterError: the address cannot be listened on.
        """
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.sandbox.start(), self._loop).result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and its thread; a second call does nothing."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self.sandbox.stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()
