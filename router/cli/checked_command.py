"""A command whose options are given with something in them, or not at all.

In: arguments. Out: what was parsed. Invariant: an empty option never passes for one that was left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand


class CheckedCommand(TyperCommand):
    """A command that refuses an option without a value: a variable of a script that is empty is no default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            WrongUsage: an option that has no empty default is given empty.
        """
        raw, *_ = self.make_parser(ctx).parse_args(list(args))
        rest = super().parse_args(ctx, args)
        for option, value in self._empty(raw):
            from router.errors import WrongUsage

            message = f"{option}: {value!r} is not allowed; it takes a value that is not empty"
            raise WrongUsage(message, hint=f"leave {option} out, or give it one")
        return rest

    def _empty(self, raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield the options that are given empty, or with blanks alone, and what they are given."""
        for each in self.params:
            values = raw.get(each.name or "")
            listed = values if isinstance(values, list) else [values]
            if each.param_type_name == "option" and each.default != "":
                yield from ((each.opts[0], value) for value in listed if isinstance(value, str) and not value.strip())
