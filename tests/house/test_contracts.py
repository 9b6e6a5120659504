"""Every import contract has been seen to fail: a violating import is planted in a copy of the tree, and it is named."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("pricing", "router", "reports")
CONTRACTS = {
    contract["id"]: contract
    for contract in tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
}

# contract → (module that is broken, what is planted at its end, what the planted import leads to)
VIOLATIONS = {
    "pricing-alone": ("pricing.money", "import router.errors", "router.errors"),
    "router-without-reports": ("router.limits", "import reports.page", "reports.page"),
    "cli-is-the-root": ("reports.page", "import router.cli", "router.cli"),
    "pricing-layers": ("pricing.usage", "import pricing.catalog", "pricing.catalog"),
    "router-layers": ("router.tokens", "import router.settings", "router.settings"),
    "reports-layers": ("reports.page", "import reports.render", "reports.render"),
    "door-litellm": ("router.limits", "def call():\n    import litellm", "litellm"),
    "door-pandas": ("router.ledger.records", "def frame():\n    import pandas", "pandas"),
    "door-sql": ("router.limits", "import sqlalchemy.orm", "sqlalchemy"),
    "door-http": ("router.limits", "import aiohttp", "aiohttp"),
    "door-highs": ("router.limits", "def call():\n    import highspy", "highspy"),
    "door-mcp": ("router.limits", "def call():\n    import mcp", "mcp"),
    "door-terminal": ("router.limits", "import rich.table", "rich"),
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_tree_keeps_every_contract(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


def test_every_contract_is_tried() -> None:
    assert set(VIOLATIONS) == set(CONTRACTS)


def sections(said: str) -> dict[str, str]:
    """Return what is said of each broken contract, by its name: a heading is a line that is underlined."""
    parts = re.split(r"^(.+)\n-+\n", said.partition("Broken contracts\n")[2], flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_a_violation_breaks_its_contract_and_a_new_module_must_be_given_a_layer(copy: Path) -> None:
    """All is planted at once, for a run takes seconds; each contract names its own violation, in its own section."""
    for source, planted, _ in VIOLATIONS.values():
        with (copy / f"{source.replace('.', '/')}.py").open("a", encoding="utf-8") as module:
            module.write(f"\n\n{planted}\n")
    for package in PACKAGES:
        (copy / package / "newcomer.py").touch()
    done = lint_imports(copy)
    assert done.returncode == 1, done.stdout + done.stderr
    found = sections(done.stdout)
    assert found.keys() == {contract["name"] for contract in CONTRACTS.values()}
    for name, (source, _, target) in VIOLATIONS.items():
        assert f"{CONTRACTS[name]['name']} BROKEN" in done.stdout
        assert f"- {source} -> {target} " in found[CONTRACTS[name]["name"]], name
    for package in PACKAGES:
        assert f"- {package}.newcomer " in found[CONTRACTS[f"{package}-layers"]["name"]]
