"""`router import list` and `router import undo`: what was imported, and taking one of it back.

In: arguments. Out: lines on stdout. Invariant: an undo is whole or not at all, and says how many rows went.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import put
from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from router.ledger.imports import ImportRow


def list_(format_: ResultOption = ResultFormat.TEXT) -> None:
    """List the imports on record, with the rows each has brought.

    Example: router import list
    """
    import json
    from dataclasses import asdict

    from router.ledger import default_url, open_ledger
    from router.ledger.imports import list_imports
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        found = ledger.transact(list_imports)
    if format_ is ResultFormat.JSON:
        put(f"{json.dumps([asdict(row) for row in found], indent=2, ensure_ascii=False)}\n", is_json=True)
    else:
        put("".join(f"{_line(row)}\n" for row in found) or "no import is on record\n")


def undo(
    name: Annotated[str, typer.Argument(metavar="FILE|ID", help="The file that was imported, or the import's id.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")] = False,
) -> None:
    """Take an import back: its rows go, as if it had never been made.

    Rows that this file brought first go, also where a later one had them too: import that one again.

    Example: router import undo usage.json
    """
    from router.ledger import default_url, open_ledger
    from router.ledger.imports import find_import, list_imports, undo_import
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        meant = find_import(ledger.transact(list_imports), Path(name).name, _digest(Path(name)))
        if dry_run:
            put(f"{_line(meant)}: nothing changed (dry run)\n")
            return
        gone = ledger.transact(lambda connection: undo_import(connection, meant.import_id))
    put(f"{meant.file_name}: {gone:,} rows taken back\n")


def _digest(path: Path) -> str | None:
    import hashlib

    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _line(row: ImportRow) -> str:
    from router.ledger.reader import instant_at

    span = ""
    if row.first_us is not None and row.last_us is not None:
        first, last = (f"{instant_at(each):%Y-%m-%d}" for each in (row.first_us, row.last_us))
        span = f", {first} to {last}"
    return f"{row.import_id}  {row.format}  {row.file_name}: {row.rows:,} rows{span}"
