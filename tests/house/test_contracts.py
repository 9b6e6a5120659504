"""Every import contract has been seen to fail: a violating import is planted in a copy of the tree, and it is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
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
    "door-mcp": ("router.limits", "def call():\n    import mcp", "mcp"),
    "door-terminal": ("router.limits", "import rich.table", "rich"),
}


def lint_imports(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for package in ("pricing", "router", "reports"):
        shutil.copytree(PROJECT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", folder)
    return folder


def test_the_tree_keeps_every_contract(copy: Path) -> None:
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"Contracts: {len(CONTRACTS)} kept, 0 broken." in done.stdout


def test_every_contract_is_tried() -> None:
    assert set(VIOLATIONS) == set(CONTRACTS)


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violation_breaks_its_contract(copy: Path, name: str) -> None:
    source, planted, target = VIOLATIONS[name]
    module = copy / f"{source.replace('.', '/')}.py"
    before = module.read_text(encoding="utf-8")
    try:
        module.write_text(f"{before}\n\n{planted}\n", encoding="utf-8")
        done = lint_imports(copy, "--contract", name)
    finally:
        module.write_text(before, encoding="utf-8")
    assert done.returncode == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert f"{CONTRACTS[name]['name']} BROKEN" in said
    assert f"{source} -> {target} " in said


@pytest.mark.parametrize("package", ["pricing", "router", "reports"])
def test_a_new_module_must_be_given_a_layer(copy: Path, package: str) -> None:
    module = copy / package / "newcomer.py"
    module.touch()
    try:
        done = lint_imports(copy, "--contract", f"{package}-layers")
    finally:
        module.unlink()
    assert done.returncode == 1
    assert f"{package}.newcomer" in done.stdout
