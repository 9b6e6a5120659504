"""How long `import router` and `router --help` take, as medians and as ratios to `python -c pass`.

    python -m benchmarks.startup [runs]     (from the project's root)

The answers are checked first: help names the commands, and the import loads none of the heavy packages.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUTER = str(Path(sys.executable).with_name("router"))
NOTHING = "python -c pass"
COMMANDS = {
    NOTHING: [sys.executable, "-c", "pass"],
    "import router": [sys.executable, "-c", "import router"],
    "first use": [sys.executable, "-c", "from router import route"],
    "router --help": [ROUTER, "--help"],
}
LIMITS_S = {"import router": 0.5, "router --help": 0.4}
HEAVY = ("aiohttp", "alembic", "litellm", "pandas", "sqlalchemy")


def check_answers() -> None:
    """Assert that what is timed does what it should."""
    shown = subprocess.run([ROUTER, "--help"], capture_output=True, text=True, check=True).stdout
    missing = [name for name in ("run", "explain", "report", "compare", "config") if name not in shown]
    assert not missing, f"router --help does not name {missing}"
    code = f"import router, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded == "[]\n", f"import router loads {loaded}"


def seconds(command: list[str]) -> float:
    """Return the wall time of one run of the command, seconds."""
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - start


def main(runs: int) -> int:
    """Time every command `runs` times in turns, print the medians, and return 1 where one is over its limit."""
    check_answers()
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(runs):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, median in medians.items():
        spread = f"{min(times[name]) * 1000:.0f}–{max(times[name]) * 1000:.0f}"
        limit = f"  limit {LIMITS_S[name] * 1000:.0f} ms" if name in LIMITS_S else ""
        print(f"{name:<16} {median * 1000:6.0f} ms  ({spread})  × {median / medians[NOTHING]:4.1f}{limit}")
    return int(any(medians[name] >= limit for name, limit in LIMITS_S.items()))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 11))
