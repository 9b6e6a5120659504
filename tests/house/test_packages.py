"""What the packages promise: quick to import, their public names listed, modules of one idea, nothing private told."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("pricing", "reports", "router")
MODULES = sorted(path for package in PACKAGES for path in (PROJECT / package).rglob("*.py"))
HEAVY = ("aiohttp", "alembic", "highspy", "litellm", "numpy", "openai", "pandas", "rich", "sqlalchemy", "typer")
LONGEST_MODULE = 400
TEXT_SUFFIXES = {".cfg", ".csv", ".ini", ".json", ".mako", ".md", ".py", ".sh", ".toml", ".txt", ".yaml", ".yml"}


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_loads_nothing_heavy(package: str) -> None:
    code = f"import json, sys, {package}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(json.loads(done.stdout))
    assert package in loaded
    assert loaded & set(HEAVY) == set()


def visible_names(module: ModuleType) -> set[str]:
    """Return the names a user sees: no private ones, no modules, no `annotations`."""
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name not in ("annotations", "TYPE_CHECKING")
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_exactly_its_visible_names(package: str) -> None:
    module = importlib.import_module(package)
    listed = list(module.__all__)
    assert len(set(listed)) == len(listed)
    for name in listed:
        assert getattr(module, name) is not None  # names that load late are there too
    eager = visible_names(module)
    assert eager - set(listed) == set()
    assert set(listed) - set(dir(module)) == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PROJECT)))
def test_a_module_holds_one_idea(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_MODULE


def test_alembic_is_the_library_and_the_folder_no_package() -> None:
    import alembic

    assert alembic.__file__ is not None
    assert "site-packages" in alembic.__file__
    assert not (PROJECT / "alembic" / "__init__.py").exists()


def project_texts() -> dict[str, str]:
    """Return every text file that is, or would be, tracked, by its path."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        paths = [PROJECT / line for line in done.stdout.splitlines()]
    else:  # no git checkout: the files of a source distribution, but for hidden folders
        below = ((path, path.relative_to(PROJECT).parts) for path in PROJECT.rglob("*"))
        paths = [path for path, parts in below if not any(part.startswith(".") for part in parts)]
    texts = (path for path in paths if path.is_file() and (path.suffix in TEXT_SUFFIXES or not path.suffix))
    return {str(path.relative_to(PROJECT)): path.read_text(encoding="utf-8") for path in texts}


def test_no_file_names_a_package_registry_or_a_path_of_this_machine() -> None:
    # Split, so that this file does not name them either.
    registries = "|".join(("py" + "pi", "files[.]python" + "hosted", "registry[.]npm" + "js", "test[.]py" + "pi"))
    forbidden = re.compile(rf"https?://[a-z0-9.-]*({registries})[a-z0-9.-]*|{re.escape(str(PROJECT.parent))}/")
    texts = project_texts()
    assert "pyproject.toml" in texts
    found = {name: hit[0] for name, text in texts.items() if (hit := forbidden.search(text))}
    assert found == {}


def test_constraints_pin_versions_and_nothing_else() -> None:
    lines = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!]+", line)] == []
    assert not any(line.startswith("farebox") for line in lines)
