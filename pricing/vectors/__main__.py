"""`python -m pricing.vectors FILE`: run every case of a file.

In: a path. Out: one line a case, expected and got where it fails, and the count. Exit status: 0 all hold, 1 one does
not, 2 wrong usage or no file of cases.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pricing.errors import PricingError
from pricing.vectors.case import Outcome, run_vector
from pricing.vectors.file import read_vectors


def main(arguments: list[str]) -> int:
    """Run the cases of a file, print what came of them, and return the exit status.

    Args:
        arguments: the file's path.
    """
    if len(arguments) != 1 or not arguments[0]:
        sys.stderr.write("error: no file of cases\nhint: make vectors FILE=path/to/pricing_vectors.json\n")
        return 2
    try:
        vectors = read_vectors(Path(arguments[0]))
    except PricingError as error:
        sys.stderr.write(f"error: {error}\nhint: a file of cases is JSON: an object with a list `vectors`\n")
        return 2
    outcomes = [run_vector(vector) for vector in vectors]
    failed = sum(not outcome.passed for outcome in outcomes)
    sys.stdout.writelines(f"{line}\n" for outcome in outcomes for line in _lines(outcome))
    sys.stdout.write(f"{len(outcomes) - failed} passed, {failed} failed\n")
    return 1 if failed else 0


def _lines(outcome: Outcome) -> list[str]:
    return [
        f"{'pass' if outcome.passed else 'FAIL'} {outcome.id} {outcome.title}",
        *(f"     {x}" for x in outcome.faults),
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
