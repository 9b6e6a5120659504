"""The imports on record, and taking one back.

In: a file's digest, name or import id. Out: what each import brought; the ledger without one of them. Invariant: only
rows that others recorded can be taken back, all of an import's or none; rollups are marked to be made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from router.errors import WrongUsage
from router.ledger.budget_use import forget_all_use
from router.ledger.bulk_insert import refuse_pruned
from router.ledger.marks import mark
from router.ledger.tables import attempt_terms, attempts, imports, usage_buckets


@dataclass(frozen=True, slots=True)
class ImportRow:
    """An import on record.

    Args:
        import_id: its id.
        format: the format of its file.
        file_name: the file's name, without its folder.
        file_sha256: digest of its bytes, hexadecimal.
        rows: requests and buckets that came with it and were not there before.
        first_us, last_us: their earliest and latest instant, microseconds since 1970 UTC; None without rows.
    """

    import_id: str
    format: str
    file_name: str
    file_sha256: str
    rows: int
    first_us: int | None
    last_us: int | None


def list_imports(connection: sa.Connection) -> tuple[ImportRow, ...]:
    """Return every import, in the order of its first instant.

    Args:
        connection: to a ledger; attempts are read whole.
    """
    spans: dict[str, list[int]] = {}
    for table, at in ((attempts, attempts.c.started_us), (usage_buckets, usage_buckets.c.start_us)):
        query = sa.select(table.c.import_id, sa.func.count(), sa.func.min(at), sa.func.max(at))
        for import_id, *found in connection.execute(query.where(table.c.import_id.is_not(None)).group_by("import_id")):
            rows, first, last = map(int, found)
            seen = spans.setdefault(import_id, [0, first, last])
            spans[import_id] = [seen[0] + rows, min(seen[1], first), max(seen[2], last)]
    named = connection.execute(sa.select(imports))
    rows_of = [
        ImportRow(row.import_id, row.format, row.file_name, row.file_sha256, *spans.get(row.import_id, (0, None, None)))
        for row in named
    ]
    return tuple(sorted(rows_of, key=lambda row: (row.first_us or 0, row.file_name, row.import_id)))


def find_import(found: Sequence[ImportRow], name: str, sha256: str | None) -> ImportRow:
    """Return the import that is meant.

    Args:
        found: from `list_imports`.
        name: an import's id, or a file's name.
        sha256: digest of the file of that name where it is there; it decides then.

    Raises:
        WrongUsage: none or several are meant; the message lists them.
    """
    meant = [row for row in found if row.import_id == name or row.file_sha256 == sha256]
    meant = meant or [row for row in found if row.file_name == name]
    if len(meant) == 1:
        return meant[0]
    shown = ", ".join(f"{row.import_id} ({row.format}, {row.file_name}, {row.rows:,} rows)" for row in meant or found)
    if meant:
        raise WrongUsage(f"import: {name[:60]!r} means several: {shown}", hint="name one by its id")
    raise WrongUsage(f"import: {name[:60]!r} is not on record", hint=f"imports on record: {shown or 'none'}")


def undo_import(connection: sa.Connection, import_id: str) -> int:
    """Take an import back and return how many rows went.

    Args:
        connection: in a transaction that may write.
        import_id: its id.

    Raises:
        LedgerError: some of its days were pruned, so that their sums could not be made again.
    """
    mine = attempts.c.import_id == import_id
    hours: set[int] = set()
    for table in (attempts, usage_buckets):
        query = sa.select(table.c.quarter_hour).where(table.c.import_id == import_id).distinct()
        hours.update(map(int, connection.execute(query).scalars()))
    if hours:
        refuse_pruned(connection, min(hours))
    under_terms = attempt_terms.c.attempt_id.in_(sa.select(attempts.c.attempt_id).where(mine))
    connection.execute(sa.delete(attempt_terms).where(under_terms))
    gone = connection.execute(sa.delete(attempts).where(mine)).rowcount
    gone += connection.execute(sa.delete(usage_buckets).where(usage_buckets.c.import_id == import_id)).rowcount
    connection.execute(sa.delete(imports).where(imports.c.import_id == import_id))
    mark(connection, hours)
    forget_all_use(connection)
    return int(gone)
