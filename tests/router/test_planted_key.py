"""A key is in the header of its requests and nowhere else, whatever goes wrong."""

from __future__ import annotations

import json
import logging
import traceback
from dataclasses import asdict
from pathlib import Path

import pytest

from router.client import Router
from router.endpoints.sandbox import Fault, Sandbox, SandboxThread
from router.errors import RouterError
from router.ledger import open_ledger
from tests.router.conftest import settings_for

KEY = "sk-planted-8d1f07c2a94be356"
STEPS = [{"id": "a", "prompt": "first"}, {"id": "b", "prompt": "second", "depends_on": ["a"]}]
FAULTS = {
    "none": Fault(),
    "401": Fault(status=401),
    "429": Fault(status=429),
    "500": Fault(status=500),
    "dropped": Fault(drop=True),
    "malformed": Fault(malformed=True),
    "cut": Fault(cut_after=1),
    "error in the stream": Fault(error_after=1),
    "silent": Fault(stall_after=1),
    "hung": Fault(hang=True),
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_planted_key_is_nowhere(
    fault: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    database = f"sqlite:///{tmp_path / 'ledger.db'}"
    said: list[str] = []
    with SandboxThread(Sandbox(faults={"*": FAULTS[fault]}, key=KEY)) as server:
        settings = settings_for(
            server.base_url,
            database,
            endpoint={"key_env": "PLANTED_KEY", "read_timeout_s": 0.5},
            retry={"attempts": 2, "base_s": 0.01, "max_s": 0.01},
            swarm={"idle_timeout_s": 0.5, "step_timeout_s": 2},
            store_prompts=True,
        )
        async with Router(settings, environ={"PLANTED_KEY": KEY}) as router:
            said.append(repr((router, router.settings, router.gates(), router.health())))
            for task in ({"work": "hello"}, {"work": "all of it", "steps": STEPS, "run_key": "k"}):
                try:
                    result = await router.route(**task)
                except RouterError as error:
                    said += [str(error), repr(error), str(error.hint), *traceback.format_exception(error)]
                else:
                    said.append(repr(result))
        # The server takes no other key, so whatever but 401 was answered had it in its header.
        assert [each.status for each in server.log if each.status == 401 and fault != "401"] == []
        assert server.log
        said.append(json.dumps([asdict(each) for each in server.log], default=str))
    with open_ledger(database) as ledger:
        said.append(repr([(run, ledger.reader.attempts(run.started.run_id)) for run in ledger.reader.runs(0, 2**62)]))
    files = contents(tmp_path)
    out, err = capfd.readouterr()

    assert "ledger.db" in files
    assert [name for name, content in files.items() if KEY.encode() in content] == []
    for text in (*said, out, err, caplog.text):
        assert KEY not in text
