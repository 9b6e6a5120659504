"""Options that several commands share, stated once: the fields of a dataclass.

In: a dataclass whose fields are annotated as typer's options. Out: commands that take them all. Invariant: a command's
own options come first, then the shared ones in the order of their fields; its function is given one value of the class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, get_type_hints


def sharing(shared: type[Any], keyword: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that gives a command the options of a dataclass.

    Args:
        shared: the dataclass; every field has a default.
        keyword: the parameter of the function that takes its value.
    """
    hints = get_type_hints(shared, include_extras=True)
    made = {
        each.name: each.default if each.default_factory is MISSING else each.default_factory()
        for each in fields(shared)
    }
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=value, annotation=hints[name]) for name, value in made.items()]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters.values()

        def command(**given: Any) -> None:
            value = shared(**{name: given.pop(name) for name in made})
            function(**given, **{keyword: value})

        command.__doc__, command.__name__ = function.__doc__, function.__name__
        parameters = [*(each for each in own if each.name != keyword), *added]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate
