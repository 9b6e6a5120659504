"""Buckets that may be of the same usage: hours and the day they are in, imported both, would count twice.

In: the ledger's buckets within the span of those just written. Out: a `WrongUsage` that names both, or nothing.
Invariant: two buckets of one source, endpoint and model are never let in together where they overlap, differ in their
spans, and could be of the same requests: what they are grouped by is alike, or only one of them says it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import sqlalchemy as sa

from pricing.usage import BUCKETS
from router.errors import WrongUsage
from router.ledger.reader import instant_at
from router.ledger.records import Import, UsageBucket
from router.ledger.tables import imports, usage_buckets

REPORTED = frozenset({"openai", "anthropic", "openrouter"})
"""Formats whose buckets are a report's, each of all requests of its span; those of others may lie side by side."""

_HOUR_US = 3_600_000_000
_UNITS = ((24 * _HOUR_US, "day"), (_HOUR_US, "hour"), (60_000_000, "minute"), (1_000_000, "second"))


class _Span(NamedTuple):
    """A bucket: its ends, microseconds since 1970 UTC, what it is grouped by, and the import it came with."""

    start_us: int
    end_us: int
    tenant: str | None
    tags_id: str | None
    service_tier: str | None
    model: str
    web_searches: int | None
    tokens: int | None
    import_id: str

    @property
    def width_us(self) -> int:
        return self.end_us - self.start_us


_COLUMNS = (
    *(usage_buckets.c[name] for name in ("start_us", "end_us", "tenant", "tags_id", "service_tier")),
    sa.func.coalesce(usage_buckets.c.model_served, usage_buckets.c.model_asked),
    usage_buckets.c.web_searches,
    sum((usage_buckets.c[name] for name in BUCKETS if name != "web_searches"), sa.literal(0)).label("tokens"),
    usage_buckets.c.import_id,
)


def refuse_overlaps(connection: sa.Connection, taken: Import, written: Sequence[UsageBucket]) -> None:
    """Refuse buckets that overlap others of another width, which may be of the same usage.

    Args:
        connection: in the transaction in which they were written.
        taken: their import.
        written: at least one bucket; all of one endpoint.

    Raises:
        WrongUsage: there are such; the transaction is to be rolled back.
    """
    if taken.format not in REPORTED:
        return
    start_us, end_us = min(each.start_us for each in written), max(each.end_us for each in written)
    inside = (usage_buckets.c.start_us < end_us, usage_buckets.c.end_us > start_us)
    alike = (imports.c.format == taken.format, usage_buckets.c.endpoint == written[0].endpoint)
    query = sa.select(*_COLUMNS).join_from(usage_buckets, imports).where(*inside, *alike)
    by_model: dict[str, list[_Span]] = defaultdict(list)
    for row in connection.execute(query):
        span = _Span(*row)
        by_model[span.model].append(span)
    for spans in by_model.values():
        for mine, other in _overlapping(spans, taken.import_id):
            raise _refusal(connection, taken, mine, other)


def _overlapping(spans: Sequence[_Span], import_id: str) -> Iterator[tuple[_Span, _Span]]:
    """Yield pairs of one import's bucket and another that may be of the same usage."""
    by_width: dict[int, list[_Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_us):
        by_width[span.width_us].append(span)
    for one, others in product(by_width, repeat=2):
        if one == others:
            continue
        starts = [span.start_us for span in by_width[others]]
        for mine in by_width[one]:
            if mine.import_id == import_id:
                first, end = bisect_right(starts, mine.start_us - others), bisect_left(starts, mine.end_us)
                yield from ((mine, other) for other in by_width[others][first:end] if _may_be_same(mine, other))


def _may_be_same(one: _Span, other: _Span) -> bool:
    for mine, theirs in zip(one[2:5], other[2:5], strict=True):
        if mine is not None and theirs is not None and mine != theirs:
            return False
    return _is_search(one) == _is_search(other)  # they are reported apart from tokens


def _is_search(span: _Span) -> bool:
    return bool(span.web_searches) and not span.tokens


def _refusal(connection: sa.Connection, taken: Import, mine: _Span, other: _Span) -> WrongUsage:
    query = sa.select(imports.c.file_name).where(imports.c.import_id == other.import_id)
    where = "itself" if other.import_id == taken.import_id else str(connection.execute(query).scalar())
    spans = [f"{_width(span.width_us)} from {instant_at(span.start_us):%Y-%m-%d %H:%M}Z" for span in (mine, other)]
    message = f"file {taken.file_name}: has {mine.model} for {spans[0]}, and {where} for {spans[1]}"
    hint = "import one width of buckets" + (
        "" if where == "itself" else f", or take the other back: router import undo {where}"
    )
    return WrongUsage(f"{message}: the same usage would count twice; it was not imported", hint=hint)


def _width(width_us: int) -> str:
    for unit_us, name in _UNITS:
        if width_us % unit_us == 0:
            number = width_us // unit_us
            return f"{number} {name}{'s' if number > 1 else ''}"
    return f"{width_us / 1e6} seconds"
