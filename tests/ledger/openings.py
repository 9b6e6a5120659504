"""Many processes that open one ledger at the same instant."""

from __future__ import annotations

import subprocess
import sys

_AT_ONCE = """
import os, sys
import alembic.command
from router.ledger import open_ledger
from router.ledger.database import make_engine, parse_url
make_engine(parse_url(sys.argv[2])).dialect  # everything is loaded before the start
wait, start = os.pipe()
children = []
for _ in range(int(sys.argv[1])):
    if not (child := os.fork()):
        os.close(start)
        os.read(wait, 1)
        try:
            open_ledger(sys.argv[2]).close()
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    children.append(child)
os.close(start)
print([os.waitpid(child, 0)[1] for child in children])
"""


def open_at_once(count: int, url: str) -> subprocess.CompletedProcess[str]:
    """Return what that many processes said that opened a database together: their exit codes, and their complaints."""
    command = [sys.executable, "-W", "ignore", "-c", _AT_ONCE, str(count), url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
