"""Columns of a generic file, made into columns of a record's fields.

In: a column's values as they stand in the file. Out: what a record has of them. Invariant: nothing is guessed; the
first value that cannot be read raises `BadRecordError`, which names the column, the value and what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import sub
from typing import Any, get_args

from router.ledger.importers.fields import COUNTED, SCALES, TAG, TEXTS, Column
from router.ledger.importers.record import BadRecordError, Tags
from router.ledger.importers.source import ReadOptions
from router.ledger.importers.values import cost, counts, decimal, part_of, plain_counts, text_or_none, whole_or_none
from router.ledger.records import AttemptStatus
from router.task import Role

_STATUSES: Mapping[str, AttemptStatus] = {
    **dict.fromkeys(("succeeded", "success", "ok", "completed", "true", "200"), "succeeded"),
    **dict.fromkeys(("failed", "failure", "error", "false"), "failed"),
    **dict.fromkeys(("timed_out", "timeout"), "timed_out"),
    **dict.fromkeys(("stopped", "cancelled", "canceled"), "stopped"),
}
_KINDS = {401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited", 503: "overloaded"}
_ROLES: tuple[Role, ...] = get_args(Role)
_LAST_STATUS = 599
_LONGEST_US = 86_400_000_000 * 30  # a request that took a month took none


Make = Callable[[Any, str, ReadOptions], Any]


def kind_of(http_status: int) -> str:
    """Return the kind of error that an HTTP status of 400 or more is."""
    if http_status in _KINDS:
        return _KINDS[http_status]
    return "server_error" if http_status >= 500 else "rejected"


def disjoint(read: Mapping[str, Sequence[Any]], size: int, *, excludes: bool) -> dict[str, Sequence[int]]:
    """Return columns of disjoint counts by bucket, from columns of counts.

    Args:
        read: columns by field.
        size: how many rows they have.
        excludes: whether input tokens leave out those read from or written to a cache.

    Raises:
        BadRecordError: a part is more than its whole.
    """
    nothing = (0,) * size
    parts = {str(COUNTED[field]): column for field, column in read.items() if COUNTED[field] is not None}
    inside = [parts[name] for name in (*(() if excludes else _CACHED), *_OTHER_INPUT) if name in parts]
    made = [parts[name] for name in _OF_OUTPUT if name in parts]
    parts["uncached_input_tokens"] = _rest(read.get("input_tokens") or nothing, inside, "input_tokens")
    parts["plain_output_tokens"] = _rest(read.get("output_tokens") or nothing, made, "output_tokens")
    return parts


def _rest(whole: Sequence[int], parts: Sequence[Sequence[int]], name: str) -> Sequence[int]:
    if not parts:
        return whole
    rest = list(map(sub, whole, parts[0] if len(parts) == 1 else map(sum, zip(*parts, strict=True))))
    if min(rest) < 0:
        row = rest.index(min(rest))
        part_of(whole[row], *(part[row] for part in parts), name=name)  # it says what is wrong
    return rest


_CACHED = ("cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")
_OTHER_INPUT = ("audio_input_tokens", "image_input_tokens")
_OF_OUTPUT = ("reasoning_tokens", "audio_output_tokens", "image_output_tokens")


def labels(columns: Sequence[Column], row: Sequence[Any]) -> Tags:
    """Return a row's labels: of `tag.NAME` columns, and of one of JSON objects.

    Args:
        columns: those of labels.
        row: its values.
    """
    found: dict[str, str] = {}
    for column in columns:
        value = row[column.place]
        if value is None or value == "":
            continue
        if column.field == "tags":
            found |= _tags(value, column.name)
        else:
            found[column.field.removeprefix(TAG)] = text_or_none(value, column.name) or ""
    return tuple(sorted(found.items()))


def _each(make: Make, values: Sequence[Any], name: str, options: ReadOptions) -> list[Any]:
    """Return what is made of each value; None of an empty one."""
    return [None if value is None or value == "" else make(value, name, options) for value in values]


def distinct(make: Make, values: Sequence[Any], name: str, options: ReadOptions) -> list[Any]:
    """Return what is made of each value, each different one made once."""
    try:
        made = {value: make(value, name, options) for value in set(values)}
    except TypeError:  # a list or an object of JSON is no key
        return [make(value, name, options) for value in values]
    return list(map(made.__getitem__, values))


def _column(make: Make, how: Callable[..., list[Any]]) -> Callable[[Sequence[Any], str, ReadOptions], list[Any]]:
    return lambda values, name, options: how(make, values, name, options)


def model_name(value: Any, name: str, _: ReadOptions) -> str:
    """Return a model's name.

    Args:
        value: as the file has it.
        name: the field's, for the message.

    Raises:
        BadRecordError: it is empty.
    """
    found = text_or_none(value, name)
    if found is None:
        raise BadRecordError(f"{name} is empty; a model's name is needed")
    return found


def _text(value: Any, name: str, _: ReadOptions) -> str | None:
    return text_or_none(value, name)


def _names(values: Sequence[Any], name: str, options: ReadOptions) -> list[str | None]:
    if set(map(type, values)) == {str}:
        if "" not in values and len(f"-{''.join(values)}-".split()) == 1:  # there is no blank in any
            return list(values)
        return [value.strip() or None for value in values]
    return _each(_text, values, name, options)


def _amount(value: Any, name: str, options: ReadOptions) -> Decimal:
    return cost(value, name, options.thousands)


def _requests(values: Sequence[Any], name: str, options: ReadOptions) -> list[int | None]:
    return counts(values, name, options.thousands)


def _time(scale: int) -> Callable[[Sequence[Any], str, ReadOptions], list[int | None]]:
    factor = 10**scale

    def one(value: Any, name: str, options: ReadOptions) -> int:
        found = decimal(value, name, options.thousands).scaleb(scale)
        if not 0 <= found <= _LONGEST_US:
            raise BadRecordError(f"{name} is {str(value)[:40]}; from 0 to 30 days are allowed")
        return int(found)

    def read(values: Sequence[Any], name: str, options: ReadOptions) -> list[int | None]:
        numbers = plain_counts(values)
        if numbers is not None and max(numbers) * factor <= _LONGEST_US:
            return [number * factor for number in numbers]
        return _each(one, values, name, options)

    return read


def _status(value: Any, name: str, _: ReadOptions) -> AttemptStatus:
    if value is None or value == "":
        return "succeeded"
    found = _STATUSES.get(str(value).strip().lower())
    if found is None:
        raise BadRecordError(f"{name} is {str(value)[:40]!r}; {', '.join(_STATUSES)} are allowed")
    return found


def _http(value: Any, name: str, options: ReadOptions) -> int | None:
    found = whole_or_none(value, name, options.thousands)
    if found is not None and not 100 <= found <= _LAST_STATUS:
        raise BadRecordError(f"{name} is {found}; an HTTP status from 100 to 599 is allowed")
    return found


def _role(value: Any, name: str, _: ReadOptions) -> Role | None:
    if value is None or value == "":
        return None
    for role in _ROLES:
        if value == role:
            return role
    raise BadRecordError(f"{name} is {str(value)[:40]!r}; {', '.join(_ROLES)} are allowed")


def _tags(value: Any, name: str) -> dict[str, str]:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadRecordError(f"{name} is {str(value)[:40]!r}; a JSON object of labels is allowed")
    return {str(key): text_or_none(label, name) or "" for key, label in found.items()}


MAKERS: Mapping[str, tuple[str, Callable[[Sequence[Any], str, ReadOptions], Sequence[Any]]]] = {
    **{field: (name, _column(_text, distinct)) for field, name in TEXTS.items()},
    **{field: (f"{field.partition('_')[0]}_us", _time(scale)) for field, scale in SCALES.items()},
    "id": ("identity", _names),
    "requests": ("requests", _requests),
    "cost_usd": ("reported_usd", _column(_amount, _each)),
    "role": ("role", _column(_role, distinct)),
    "status": ("status", _column(_status, distinct)),
    "http_status": ("http_status", _column(_http, _each)),
}
"""The record's field and what makes a column of it, for every field that is made of one column alone."""
