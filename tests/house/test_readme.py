"""What the README tells a stranger to type works as it stands there, one command after the other."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from router.cli import main
from router.endpoints.sandbox import Sandbox, SandboxThread

SET_UP = ("make ", "python3 -m venv", ".venv/bin/", "export ", "source ")


def blocks(project: Path, language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    text = (project / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(project: Path) -> list[str]:
    """Return the README's commands, one a line, in order."""
    return [line for block in blocks(project, "sh") for line in block.splitlines() if line]


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in the empty home of a stranger who has `router` on the path; return it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    for name, value in {"PATH": path, **dict.fromkeys(("HOME", "PWD", "XDG_DATA_HOME"), str(tmp_path))}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_this_process(line: str) -> bool:
    """Return whether a line is the command line's alone: no redirection or pipe, and no package as large as litellm."""
    return line.startswith("router ") and not re.search(r"[<>|;&$`]|litellm", line)


def typed_by_a_stranger(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a line; a process of its own for each would take most of the time for loading what is loaded here."""
    if in_this_process(line):
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line, comments=True)[1:])
        assert not ended.value.code, f"{line}\n{capsys.readouterr()}"
    else:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_every_command_of_the_readme_works(project: Path, stranger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed = [line for line in commands(project) if not line.startswith(SET_UP)]
    assert len(typed) >= 10
    assert any(line.startswith("router ") and not in_this_process(line) for line in typed)  # the script is there, too
    with SandboxThread(Sandbox()) as server:
        (stranger / "router.toml").write_text(
            f'[endpoints.stand-in]\nbase_url = "{server.base_url}"\nprice_list = "vendor"\n', encoding="utf-8"
        )
        for line in typed:
            typed_by_a_stranger(line, capsys)
        for code in blocks(project, "python"):
            ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            assert ended.returncode == 0, f"{code}\n{ended.stderr}"
            assert ended.stdout.strip()
            assert ended.stderr == ""


def test_every_make_target_of_the_readme_exists(project: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (project / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {word for line in commands(project) if line.startswith("make ") for word in line.split()[1:]}

    assert named
    assert named <= targets
