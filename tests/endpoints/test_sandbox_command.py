"""`router sandbox` as a process: first line, log file, clean end, wrong usage."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from router.endpoints.sandbox import read_log

COMMAND = [sys.executable, "-c", "from router.cli import main; main()", "sandbox"]


def post(url: str) -> int:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(f"{url}/chat/completions", body, {"Content-Type": "application/json"})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=5) as response:  # noqa: S310 - our own server
            return int(response.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(tmp_path: Path, ending: signal.Signals) -> None:
    log = tmp_path / "log.jsonl"
    arguments = ["--port", "0", "--fault", "m:status=503,first=1", "--log", str(log)]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert [post(url), post(url)] == [503, 200]
            process.send_signal(ending)
            out, err = process.communicate(timeout=10)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err
    assert [entry.status for entry in read_log(log)] == [503, 200]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fault", "m:laten=1"], "did you mean latency_ms"),
        (["--log", "/no/such/folder/log"], "cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], message: str) -> None:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
