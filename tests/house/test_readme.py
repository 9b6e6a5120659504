"""What the README tells a stranger to type works as it stands there, one command after the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from router.endpoints.sandbox import Sandbox, SandboxThread

SET_UP = ("make ", "python3 -m venv", ".venv/bin/", "export ", "source ")


def blocks(project: Path, language: str) -> list[str]:
    """Return the README's code blocks of a language."""
    text = (project / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(project: Path) -> list[str]:
    """Return the README's commands, one a line, in order."""
    return [line for block in blocks(project, "sh") for line in block.splitlines() if line]


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a stranger whose only endpoint is a stand-in server."""
    folder = tmp_path_factory.mktemp("stranger")
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join((scripts, os.environ["PATH"]))
    return {**os.environ, "PATH": path, "HOME": str(folder), "PWD": str(folder), "XDG_DATA_HOME": str(folder)}


def test_every_command_of_the_readme_works(project: Path, stranger: dict[str, str]) -> None:
    typed = [line for line in commands(project) if not line.startswith(SET_UP)]
    assert len(typed) >= 10
    folder = Path(stranger["HOME"])
    with SandboxThread(Sandbox()) as server:
        (folder / "router.toml").write_text(
            f'[endpoints.stand-in]\nbase_url = "{server.base_url}"\nprice_list = "vendor"\n', encoding="utf-8"
        )
        for line in typed:
            ended = subprocess.run(
                ["bash", "-c", line], env=stranger, cwd=folder, capture_output=True, text=True, timeout=60, check=False
            )
            assert ended.returncode == 0, f"{line}\n{ended.stdout}\n{ended.stderr}"
        for code in blocks(project, "python"):
            ended = subprocess.run(
                [sys.executable, "-c", code], env=stranger, cwd=folder, capture_output=True, text=True, check=False
            )
            assert ended.returncode == 0, f"{code}\n{ended.stderr}"
            assert ended.stdout.strip()
            assert ended.stderr == ""


def test_every_make_target_of_the_readme_exists(project: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (project / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {word for line in commands(project) if line.startswith("make ") for word in line.split()[1:]}

    assert named
    assert named <= targets
