"""The example of two agents does what its text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from router.ledger import open_ledger
from tests.new_ledger import new_ledger


def test_two_agents(project: Path, tmp_path: Path) -> None:
    url = new_ledger(tmp_path / "agents.db")
    command = [sys.executable, str(project / "docs" / "examples" / "two_agents.py"), url]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    assert done.stdout == (
        "tea is grown in Assam. rum is made of cane. coffee came from Kaffa. Review: 3 facts, good\non record: True\n"
    )
    with open_ledger(url) as ledger:
        assert [row.key for row in ledger.messages.ordinary("findings", 0, 10)] == ["page 0", "page 1", "page 2", "end"]
