"""What every test shares: the project's folders, shared data or a clear skip, golden files, and a clean environment.

No test reaches a real vendor: keys and `ROUTER_*` are taken out of the environment before the first one runs, and the
user's data folder is a temporary one.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

PROJECT = Path(__file__).resolve().parent.parent
SHARED = PROJECT.parent / "shared"
NO_SHARED = "shared data missing"

hypothesis.settings.register_profile("farebox", deadline=None, derandomize="CI" in os.environ, print_blob=True)
hypothesis.settings.load_profile("farebox")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Take keys and settings out of the environment, for this process and all it starts."""
    for name in list(os.environ):
        if name.startswith("ROUTER_") or name.endswith("_API_KEY"):
            del os.environ[name]
    for number in (signal.SIGINT, signal.SIGHUP):  # a job in the background ignores them, and so would its children
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    data = tempfile.TemporaryDirectory(prefix="farebox-tests-")
    config.add_cleanup(data.cleanup)
    os.environ.update({"XDG_DATA_HOME": data.name, "XDG_CACHE_HOME": str(Path(data.name, "cache"))})
    os.environ.update({"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"})
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE", "GITHUB_ACTIONS"):
        os.environ.pop(name, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line how many tests did not run for want of shared data."""
    skipped = [report for report in terminalreporter.getreports("skipped") if NO_SHARED in str(report.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests not run: no folder `shared` beside the project's own")


@pytest.fixture(scope="session")
def project() -> Path:
    """Return the project's root folder."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared cases and data beside the project, or skip the test."""
    if not SHARED.is_dir():
        pytest.skip(f"{NO_SHARED}: no folder {SHARED.name!r} beside the project's own")
    return SHARED


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Return a function that compares a text with a file, or writes the file under `--update-golden`."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path.name}; write it with pytest --update-golden"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path.name} differs; if that is right, pytest --update-golden"
        )

    return compare
