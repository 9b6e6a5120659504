"""Programs spoken to over their standard streams: each reply to its request, and nothing left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from router.tools.kit import Answer, Kit, Ready
from router.tools.link import ConnectionLost
from router.tools.program import FIRST_ID, Program

Make = Callable[..., Awaitable[Any]]
SERVER = Path(__file__).with_name("odd_server.py")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until(is_so: Callable[[], object], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not is_so():
            await asyncio.sleep(0.01)


# As a server of tools ------------------------------------------------------------------------------------------------


@pytest.fixture
async def odd(shop: Make, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Give a function that starts the odd server, `modern` or not, and returns its tools."""

    async def make(*, modern: bool = False, timeout_s: float = 20) -> Kit:
        if modern:
            (tmp_path / "modern").touch()
        arguments = ["-I", "-S", str(SERVER), str(tmp_path)]
        server = {"command": sys.executable, "args": arguments, "allow": ["*"], "timeout_s": timeout_s}
        made = await shop({"odd": server})
        kit = await stack.enter_async_context(made.toolbox.kit(["odd__*"]))
        assert isinstance(kit, Kit)
        return kit

    async with contextlib.AsyncExitStack() as stack:
        yield make


async def do(kit: Kit, act: str, arguments: object = None) -> Answer:
    """Have the server do something, and return how that ended."""

    async def started(queue_us: int) -> None:
        assert queue_us >= 0

    ready = kit.prepared("odd__do", arguments or json.dumps({"act": act}))
    assert isinstance(ready, Ready)
    return await kit.call(ready, None, started)


def said(folder: Path) -> list[dict[str, Any]]:
    """Return what the server was sent, in order."""
    return [json.loads(line) for line in (folder / "said").read_text().splitlines()]


async def test_a_server_that_asks_its_client_is_answered_or_refused(odd: Make) -> None:
    kit = await odd()
    pinged, roots, sampled = await asyncio.gather(*(do(kit, act) for act in ("ping", "roots", "sampling")))
    assert json.loads(pinged.told.text) == {"result": {}}
    assert json.loads(roots.told.text)["error"]["code"] == -32600  # neither is among what the client can do
    assert json.loads(sampled.told.text)["error"]["code"] == -32600


@pytest.mark.parametrize(
    ("act", "status", "text"),
    [
        ("text id", "succeeded", "the id came back as a text"),
        ("pieces", "succeeded", "aéb"),
        ("halves", "succeeded", "whole"),
        ("greeting", "succeeded", "after the noise"),
        ("bytes", "succeeded", "a\ufffdb"),  # what is no UTF-8 is marked, and costs nobody the connection
        ("list", "failed", "[tool error] odd__do: the server's answer is not a tool's result"),
        ("no content", "failed", "[tool error] odd__do: the server's answer is not a tool's result"),
        ("error", "failed", "[tool error] odd__do: unknown tool"),
        ("no error", "succeeded", "as in 1.0"),
        ("odd error", "failed", "[tool error] odd__do: the server's answer is not a tool's result"),
        ("loud", "succeeded", "heard"),
        (
            "half",
            "failed",
            "[tool error] odd__do: the connection broke; it may have done its work all the same",
        ),
    ],
)
async def test_each_way_to_answer_ends_one_call_alone(odd: Make, act: str, status: str, text: str) -> None:
    kit = await odd()
    waiting = asyncio.create_task(do(kit, "never"))
    answer = await do(kit, act)
    assert (answer.status, answer.told.text) == (status, text)
    await asyncio.sleep(0)
    assert waiting.done() == (act == "half")  # the connection is everybody's
    waiting.cancel()


async def test_a_version_without_a_handshake_has_its_envelope_on_every_call(odd: Make, tmp_path: Path) -> None:
    answer = await do(await odd(modern=True), "envelope")
    envelope = json.loads(answer.told.text)
    assert envelope["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    listed = next(message for message in said(tmp_path) if message["method"] == "tools/list")
    assert envelope == listed["params"]["_meta"]  # as the package has it on its own requests


async def test_a_version_with_a_handshake_has_none(odd: Make) -> None:
    assert (await do(await odd(), "envelope")).told.text == "null"


async def test_the_server_is_told_which_call_was_left(odd: Make, tmp_path: Path) -> None:
    kit = await odd(timeout_s=0.3)
    await do(kit, "error")
    assert (await do(kit, "never")).status == "timed_out"
    await until(lambda: said(tmp_path)[-1]["method"] == "notifications/cancelled")
    calls = [message["id"] for message in said(tmp_path) if message["method"] == "tools/call"]
    assert calls == [FIRST_ID + 1, FIRST_ID + 2]
    assert said(tmp_path)[-1]["params"] == {"requestId": FIRST_ID + 2, "reason": "caller cancelled"}


async def test_large_arguments_and_results_pass_each_other(odd: Make) -> None:
    kit = await odd()
    answers = await asyncio.gather(*(do(kit, "big " + "y" * 900_000) for _ in range(3)))
    assert {each.told.size for each in answers} == {5_000_006}  # 6 digits of 900,004, and the rest
    assert {each.told.text[:8] for each in answers} == {"900004xx"}


async def test_a_number_that_is_no_json_is_not_sent(odd: Make, tmp_path: Path) -> None:
    kit = await odd()
    answer = await do(kit, "", {"act": "never", "much": float("inf")})
    assert (answer.status, answer.error) == (
        "failed",
        "odd__do: ValueError: Out of range float values are not JSON compliant",
    )
    assert not [message for message in said(tmp_path) if message["method"] == "tools/call"]


# Alone ---------------------------------------------------------------------------------------------------------------

ENDS = "import sys; sys.stdin.read()"
STAYS = "import signal, sys, time; print('{}', flush=True); sys.stdin.read(); time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + STAYS
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {DEAF!r}]); {STAYS}"


class Ear:
    """Hears what a program says, and that it has ended."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.ends = 0

    def ended(self) -> None:
        self.ends += 1


async def begun(script: str, ear: Ear, folder: Path) -> Program:
    """Start a Python program."""
    program = Program(ear.ended, ear.lines.append, exit_s=0.3)
    await program.start([sys.executable, "-I", "-S", "-c", script], folder, os.environ)
    return program


def children(pid: int) -> list[int]:
    """Return the processes that a process has started, by whichever thread of its."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text().split()]


@pytest.mark.parametrize("script", [ENDS, STAYS, DEAF, PARENT], ids=["ends", "stays", "deaf", "parent"])
async def test_when_it_is_stopped_nothing_is_left(script: str, tmp_path: Path) -> None:
    ear, before = Ear(), set(children(os.getpid()))
    program = await begun(script, ear, tmp_path)
    (pid,) = set(children(os.getpid())) - before
    await until(lambda: len(ear.lines) == {ENDS: 0, PARENT: 2}.get(script, 1))
    whole = [pid, *children(pid)]
    await program.stop()
    await until(lambda: not any(map(is_alive, whole)), 2)  # a moment, where another's child is to be fetched
    assert ear.ends == 1
    await program.stop()
    assert ear.ends == 1


async def test_a_second_cancel_while_it_is_stopped_kills_it(tmp_path: Path) -> None:
    before = set(children(os.getpid()))
    program = await begun(DEAF, Ear(), tmp_path)
    (pid,) = set(children(os.getpid())) - before
    stopping = asyncio.create_task(program.stop())
    await asyncio.sleep(0.05)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await until(lambda: not is_alive(pid))


async def test_a_request_has_its_error_once_the_program_has_died_and_none_is_sent_after(tmp_path: Path) -> None:
    ear, before = Ear(), set(children(os.getpid()))
    program = await begun("import sys, time; sys.stdin.readline(); time.sleep(60)", ear, tmp_path)
    (pid,) = set(children(os.getpid())) - before
    waiting = asyncio.create_task(program.reply("ask", {}))
    await asyncio.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ConnectionLost, match="the connection broke"):
        await waiting
    with pytest.raises(ConnectionLost, match="the connection broke"):
        await program.reply("ask", {})
    program.write(b"{}")
    assert ear.ends == 1
    await program.stop()


async def test_a_program_that_closes_its_input_is_lost_too(tmp_path: Path) -> None:
    ear = Ear()
    program = await begun("import os, time; os.close(0); time.sleep(60)", ear, tmp_path)
    with pytest.raises(ConnectionLost):
        await program.reply("ask", {})
    assert ear.ends == 1
    await program.stop()


async def test_what_is_said_last_is_remembered_without_signs_that_do_things(tmp_path: Path) -> None:
    program = await begun("import sys; sys.stderr.write('one\\n' * 5000 + 'la\\x1bst\\n\\n')", Ear(), tmp_path)
    await program.stop()
    assert program.last_line() == "la?st"
