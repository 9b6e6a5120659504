"""The wheel holds all that an installed farebox needs, and its migrations run from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent

# From the wheel alone: the checkout is not on the path, and the working directory is another one.
UPGRADE = """
import sys
from pathlib import Path
import router, pricing, reports
home = Path(sys.argv[1])
for package in (router, pricing, reports):
    assert Path(package.__file__).is_relative_to(home), package.__file__
from pricing import load_catalog
assert load_catalog().models("openai")
from router.ledger import open_ledger
open_ledger("sqlite:///ledger.db").close()
import sqlite3
rows = sqlite3.connect("ledger.db").execute("select name from sqlite_master where type = 'table'")
tables = {name for (name,) in rows}
assert {"runs", "attempts", "router_version"} <= tables, tables
import alembic
assert not Path(alembic.__file__).is_relative_to(home), alembic.__file__
print("upgraded")
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the sources, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.db")
    for name in ("alembic", "pricing", "reports", "router"):
        shutil.copytree(PROJECT / name, folder / "source" / name, ignore=ignored)
    for name in ("LICENSE", "README.md", "pyproject.toml"):
        shutil.copy(PROJECT / name, folder / "source")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=folder / "source", capture_output=True, check=True, timeout=120)
    (built,) = folder.glob("farebox-*.whl")
    return built


def test_the_wheel_holds_data_and_migrations(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {f"pricing/data/{path.name}" for path in (PROJECT / "pricing" / "data").iterdir() if path.is_file()}
    assert {"pricing/data/openai.toml", "pricing/data/fx.csv"} <= data <= names
    assert {f"router/data/{path.name}" for path in (PROJECT / "router" / "data").iterdir()} <= names
    assert {"router/_migrations/env.py", "router/_migrations/script.py.mako"} <= names
    versions = {f"router/_migrations/versions/{path.name}" for path in (PROJECT / "alembic" / "versions").glob("*.py")}
    assert versions
    assert versions <= names
    assert {name.partition("/")[0] for name in names if ".dist-info" not in name} == {"pricing", "reports", "router"}
    assert not any(name.endswith(".pyc") or name.startswith("alembic/") for name in names)


def test_migrations_run_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    home, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    zipfile.ZipFile(wheel).extractall(home)  # a pure wheel unpacked is a wheel installed
    # -P and PYTHONPATH: the unpacked wheel comes before the editable checkout; libraries come from this environment.
    done = subprocess.run(
        [sys.executable, "-P", "-c", UPGRADE, str(home)],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout == "upgraded\n", done.stderr[-2000:]
