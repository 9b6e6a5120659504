"""The arguments that a model wrote for a tool, read strictly.

In: the text as the model wrote it, the tool's schema. Out: the arguments, or one line for the model that says what is
wrong with them. Invariant: what is not a JSON object that fits the schema is never made into one. No schema is ever
fetched from elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

LONGEST = 1_000_000
"""Arguments longer than this, in characters, are not read."""
LONGEST_WORDS = 300


class BadArguments(Exception):
    """What is wrong with the arguments; `str(error)` is one line for the model."""


def read_arguments(written: object, schema: Mapping[str, Any], *, is_cut: bool = False) -> dict[str, Any]:
    """Return the arguments as the model wrote them.

    Args:
        written: `function.arguments` of a tool call: JSON text, or an object from servers that do not write text.
        schema: JSON schema of the arguments; a tool that has none may be called with an empty text.
        is_cut: whether the answer was cut at its token limit, which the message then says.

    Raises:
        BadArguments: they are not one JSON object, a key is written twice, or a number is NaN or infinite.
    """
    if isinstance(written, Mapping):
        return dict(written)
    if not isinstance(written, str):
        raise BadArguments(f"the arguments are {_kind(written)}; a JSON object is allowed")
    if not written.strip():
        if not schema.get("properties") and not schema.get("required"):
            return {}
        raise BadArguments("the arguments are empty; a JSON object is needed")
    if len(written) > LONGEST:
        raise BadArguments(f"the arguments are {len(written)} characters long; at most {LONGEST} are allowed")
    try:
        value = json.loads(written, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        cut = " (the answer was cut at its token limit)" if is_cut else ""
        raise BadArguments(f"the arguments are not valid JSON: {why}{cut}") from None
    if not isinstance(value, dict):
        raise BadArguments(f"the arguments are {_kind(value)}; a JSON object is allowed")
    return value


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        message = f"key {twice[:80]!r} is written twice"
        raise ValueError(message)
    return dict(pairs)


def _no_number(name: str) -> None:
    message = f"{name} is no JSON number"
    raise ValueError(message)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        _no_number(digits[:40])
    return number


def _kind(value: object) -> str:
    kinds = {str: "a text", list: "a list", bool: "a truth value", int: "a number", float: "a number"}
    return kinds.get(type(value), "nothing" if value is None else "no text")


def schema_fault(schema: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a schema itself, in one line, or None."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema, default=_newest()).check_schema(schema)
    except SchemaError as error:
        return " ".join(str(error.message).split())[:LONGEST_WORDS]
    except RecursionError:
        return "it is nested too deep"
    return None


def checker(schema: Mapping[str, Any]) -> Validator:
    """Return what checks values against a schema, made once for many; references outside of it are not followed."""
    from jsonschema.validators import validator_for
    from referencing.jsonschema import EMPTY_REGISTRY

    made: Validator = validator_for(schema, default=_newest())(schema, registry=EMPTY_REGISTRY)
    return made


@cache
def _newest() -> type[Validator]:
    from jsonschema import Draft202012Validator

    newest: type[Validator] = Draft202012Validator
    return newest


def misfit(value: object, check: Validator) -> str | None:
    """Return why a value does not fit a schema, in one line with the place, or None where it does.

    Args:
        value: JSON value.
        check: made by `checker`.
    """
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        fault = best_match(check.iter_errors(value))
    except Unresolvable:
        return "the tool's schema refers to one that is not there"
    except RecursionError:
        return "it is nested too deep"
    if fault is None:
        return None
    where = ".".join(map(str, fault.absolute_path))
    words = " ".join(str(fault.message).split())
    if len(words) > LONGEST_WORDS:
        words = f"{words[:LONGEST_WORDS]}…"
    return f"{where}: {words}" if where else words
