"""Buckets of usage that somebody else has added up: their span, and what tells two of one name apart.

In: a bucket's ends as a report writes them; the records of one bucket. Out: microseconds; the records, each with an
identity of its own. Invariant: a record's identity does not depend on the order its bucket was written in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC
from typing import Any

from router.ledger.importers.record import BadRecordError, Record
from router.ledger.importers.source import Found
from router.ledger.importers.values import instant

_LONGEST_US = 400 * 86_400_000_000  # of a bucket: a year and a bit; beyond it, its ends are of different units


def span_of(start: Any, end: Any, names: tuple[str, str]) -> tuple[int, int]:
    """Return a bucket's first instant and the first that is not in it any more, microseconds since 1970 UTC.

    Args:
        start: as for `router.ledger.importers.values.instant`; without a zone it is UTC, as both reports document.
        end: the same.
        names: both fields, for the message.

    Raises:
        BadRecordError: one is no instant, or the bucket ends before it begins.
    """
    start_name, end_name = names
    start_us, end_us = instant(start, start_name, UTC), instant(end, end_name, UTC)
    if not 0 < end_us - start_us <= _LONGEST_US:
        raise BadRecordError(f"{start_name} {start} and {end_name} {end} are no span of up to 400 days")
    return start_us, end_us


def numbered(bucket: Iterable[Found | None]) -> Iterator[Found]:
    """Yield what was found in one bucket, in its order; the second of a name gets "#2" behind its identity.

    A report may group by more than it shows, and then has several records of one name; they are numbered by their
    counts, the greatest first. Two that are alike in everything are one, written twice: they keep one identity.

    Args:
        bucket: records and rejections of one bucket, in any order; None is left out.
    """
    listed = [each for each in bucket if each is not None]
    contents: dict[str | None, set[tuple[int, ...]]] = {}
    for each in listed:
        if isinstance(each, Record):
            contents.setdefault(each.identity, set()).add(_content(each))
    ranks = {identity: sorted(alike, reverse=True) for identity, alike in contents.items() if len(alike) > 1}
    for each in listed:
        rank = ranks[each.identity].index(_content(each)) if isinstance(each, Record) and each.identity in ranks else 0
        yield each._replace(identity=f"{each.identity}#{rank + 1}") if rank and isinstance(each, Record) else each


def _content(record: Record) -> tuple[int, ...]:
    return (record.requests or 0, *(record.counts or ()))
