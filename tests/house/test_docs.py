"""The documents hold together: links lead somewhere, decisions are numbered, the version is in the changelog."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted({*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")})
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
TARGET = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_links_lead_to_files(path: Path) -> None:
    links = LINK.findall(path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_decisions_are_numbered_from_one_without_gaps() -> None:
    names = sorted(path.name for path in (PROJECT / "docs" / "decisions").glob("*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    assert all(re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name) for name in names)


def test_the_changelog_names_the_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(project['version'])}\b", changelog, re.MULTILINE)


def test_make_targets_that_documents_name_exist() -> None:
    targets = set(TARGET.findall((PROJECT / "Makefile").read_text(encoding="utf-8")))
    assert {"demo", "test", "check", "bench", "help"} <= targets
    named = {name for path in DOCUMENTS for name in re.findall(r"`make ([a-z]+)", path.read_text(encoding="utf-8"))}
    assert named - targets == set()


def test_continuous_integration_runs_the_same_commands() -> None:
    script = PROJECT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -euo pipefail" in lines
    assert [line for line in lines if line.startswith("make ")] == ["make check", "make test"]


def test_the_vocabulary_holds_the_words_of_the_usage_buckets() -> None:
    from pricing.usage import BUCKETS

    vocabulary = (PROJECT / "docs" / "vocabulary.md").read_text(encoding="utf-8")
    assert [name for name in BUCKETS if f"`{name}`" not in vocabulary] == []
