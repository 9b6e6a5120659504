"""`router sandbox`: the stand-in server as a process of its own.

In: options. Out: a server until Ctrl-C (or SIGTERM); its base URL is the first line on stdout.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import put, say

if TYPE_CHECKING:
    from router.endpoints.sandbox import Sandbox


def sandbox(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL:KEY=VALUE,…",
            help="How a model misbehaves, '*' for all: latency_ms, status, first, retry_after_s, hang, drop … "
            "(or MODEL:{JSON}). May be repeated.",
        ),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="A model it has; any other is answered 404. May be repeated. Default: all.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Key it wants as a bearer token. Default: none.")] = None,
    log: Annotated[Path | None, typer.Option(help="File its request log is appended to, as JSON lines.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of shares and jitter.")] = 0,
) -> None:
    """Run a local OpenAI-compatible server that answers deterministically, counts tokens, and fails on request.

    Example: router sandbox --port 8080 --fault 'gpt-4.1:latency_ms=200,status=429,first=3,retry_after_s=1'
    """
    import asyncio

    from router.endpoints.sandbox import Sandbox, faults_from_texts
    from router.errors import WrongUsage

    faults = faults_from_texts(fault or [])
    try:
        server = Sandbox(model or None, faults, seed=seed, host=host, port=port, key=key, log_path=log)
    except OSError as error:
        message = f"--log: {str(log)!r} cannot be written: {error.strerror}"
        raise WrongUsage(message, hint="name a file in a folder that exists") from None
    asyncio.run(_serve(server))


async def _serve(server: Sandbox) -> None:
    """Run a server until it is told to stop."""
    import asyncio
    import signal

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopping.set)
    async with server:
        put(f"{server.base_url}\n")
        say("stand-in server is running; Ctrl-C ends it")
        await stopping.wait()
