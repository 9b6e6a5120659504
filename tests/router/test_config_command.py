"""`router init` and `router config check`, as a user runs them, against a real server on loopback."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.endpoints.sandbox import Sandbox, SandboxThread
from router.settings_file import load_settings

KEY = "sk-planted-0123456789abcdefghij"


@dataclass(frozen=True, slots=True)
class Ended:
    """A command's exit code and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


Router = Callable[..., Ended]


@pytest.fixture
def router(monkeypatch: pytest.MonkeyPatch, command_line: Callable[..., tuple[int, str, str]]) -> Router:
    """Return a function that runs the command line in a folder, with more in its environment."""

    def run(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Ended:
        monkeypatch.chdir(folder)
        for name, value in (environ or {}).items():
            monkeypatch.setenv(name, value)
        return Ended(*command_line(*arguments))

    return run


@pytest.fixture(scope="module")
def server() -> Iterator[SandboxThread]:
    with SandboxThread(Sandbox(models=("gpt-4.1", "gpt-4.1-mini"), key=KEY)) as running:
        yield running


def office(server: SandboxThread, models: str = "{ a = 'gpt-4.1', b = 'gpt-4.1-mini' }") -> str:
    return f"[endpoints.office]\nbase_url = '{server.base_url}'\nkey_env = 'OFFICE_KEY'\nmodels = {models}\n"


def test_init_writes_a_file_that_loads_and_overwrites_nothing(router: Router, tmp_path: Path) -> None:
    done = router(tmp_path, "init")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "written: router.toml. Set a key, then: router config check\n"
    assert load_settings(tmp_path, {}).source == tmp_path / "router.toml"

    (tmp_path / "router.toml").write_text("# mine\n")
    done = router(tmp_path, "init")
    assert done.returncode == 1
    assert done.stderr == (
        "error: path: router.toml is there already; nothing was written\nhint: --force overwrites it\n"
    )
    assert (tmp_path / "router.toml").read_text() == "# mine\n"
    assert router(tmp_path, "init", "--force").returncode == 0
    assert (tmp_path / "router.toml").read_text() != "# mine\n"


def test_init_into_a_folder_that_is_not_there_is_one_line(router: Router, tmp_path: Path) -> None:
    done = router(tmp_path, "init", "--path", "gone/router.toml")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "error: path: gone/router.toml cannot be written: No such file or directory"


def test_check_tells_every_fault_with_its_line(router: Router, tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text("time_zone = 'Mars'\nstore_promts = true\n")
    done = router(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == [
        "error: router.toml:1: time_zone is 'Mars'; it should be an IANA name, like UTC or Asia/Tokyo",
        "error: router.toml:2: store_promts does not exist; did you mean store_prompts?",
    ]


def test_check_tells_names_that_nothing_knows(router: Router, tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text(
        "aliases = { mini = 'gpt-4.1-minni', own = 'house-model' }\n"
        "[configurations.pair]\norchestrator = 'gpt-4.1'\nworker = 'kimi-k22'\n"
        "[endpoints.openai]\nprice_list = 'opena'\n"
        "[endpoints.office]\nbase_url = 'http://localhost:1/v1'\nmodels = { house-model = 'h' }\n"
    )
    done = router(tmp_path, "config", "check", "--offline")
    assert (done.returncode, done.stdout) == (2, "")
    lines = [line.split("; did you mean ") for line in done.stderr.splitlines()]
    assert [line[0] for line in lines[:3]] == [
        "error: router.toml:1: aliases.mini is 'gpt-4.1-minni', a model that nothing knows",
        "error: router.toml:4: configurations.pair.worker is 'kimi-k22', a model that nothing knows",
        "error: router.toml:6: endpoints.openai.price_list is 'opena', which does not exist",
    ]
    assert [line[1].split(" or ")[0].rstrip("?") for line in lines[:3]] == ["gpt-4.1-mini", "kimi-k2", "openai"]


def test_check_tells_a_fault_of_a_price_file(router: Router, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[[prices]]\nmodel = 'm'\noutput = '-1'\n")
    (tmp_path / "router.toml").write_text("price_files = ['prices.toml']\n")
    done = router(tmp_path, "config", "check", "--offline")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: prices.toml:")


def test_check_without_any_key_says_what_to_set(router: Router, tmp_path: Path) -> None:
    done = router(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no endpoint: no key is set\nhint: set one of OPENAI_API_KEY, ANTHROPIC_API_KEY" in done.stderr


def test_check_offline_sends_nothing(router: Router, tmp_path: Path, server: SandboxThread) -> None:
    (tmp_path / "router.toml").write_text(office(server))
    done = router(tmp_path, "config", "check", "--offline", environ={"OFFICE_KEY": "wrong"})
    assert (done.returncode, done.stdout) == (0, "office: OFFICE_KEY is set\n")


def test_check_of_a_good_endpoint_whose_key_stands_in_dotenv(
    router: Router, tmp_path: Path, server: SandboxThread
) -> None:
    (tmp_path / "router.toml").write_text(office(server))
    (tmp_path / ".env").write_text(f"OFFICE_KEY={KEY}\n")
    done = router(tmp_path, "config", "check")
    assert (done.returncode, done.stdout) == (0, f"office: good: {server.base_url} answers and lists 2 of 2 models\n")


@pytest.mark.parametrize("key", ["", "sk-planted-wrong-0123456789"])
def test_check_says_which_variable_to_mend(router: Router, tmp_path: Path, server: SandboxThread, key: str) -> None:
    (tmp_path / "router.toml").write_text(office(server))
    done = router(tmp_path, "config", "check", environ={"OFFICE_KEY": key})
    assert done.returncode == 1
    assert done.stdout.startswith("office: ")
    assert ("401" in done.stdout) == bool(key)
    assert "OFFICE_KEY" in done.stderr.splitlines()[-1]
    assert "hint: office: " in done.stderr
    assert not key or key not in done.stdout + done.stderr


def test_check_names_models_that_the_endpoint_does_not_list(
    router: Router, tmp_path: Path, server: SandboxThread
) -> None:
    (tmp_path / "router.toml").write_text(office(server, "{ a = 'gpt-4.1', b = 'gpt-4.1-maxi' }"))
    done = router(tmp_path, "config", "check", environ={"OFFICE_KEY": KEY})
    assert (done.returncode, done.stdout) == (1, f"office: {server.base_url} answers, but does not list b\n")
    assert "hint: office: set their names there in endpoints.office.models\n" in done.stderr


def test_check_of_several_endpoints_has_a_line_each(router: Router, tmp_path: Path, server: SandboxThread) -> None:
    with socket.socket() as held:  # bound, not listening: connections are refused
        held.bind(("127.0.0.1", 0))
        dead = f"[endpoints.dead]\nbase_url = 'http://127.0.0.1:{held.getsockname()[1]}/v1'\n"
        (tmp_path / "router.toml").write_text(office(server) + dead)
        done = router(tmp_path, "config", "check", environ={"OFFICE_KEY": KEY})
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["office", "dead"]
    assert lines[0].startswith("office: good: ")
