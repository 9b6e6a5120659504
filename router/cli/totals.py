"""A month's totals that are given by hand, for those who have no records yet.

In: options as they were typed. Out: `Work`. Invariant: what is not given is 0, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from reports import Split, Work
    from reports.daily_costs import Named

InputTokensOption = Annotated[
    str | None, typer.Option("--input-tokens", metavar="N", help="By hand: input tokens, cached included. Default: 0.")
]
CachedTokensOption = Annotated[
    str | None, typer.Option("--cached-tokens", metavar="N", help="By hand: the cached part of input. Default: 0.")
]


@dataclass(frozen=True, slots=True)
class Totals:
    """Tokens of a month, or of each request where `requests` is given; None: not given."""

    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    requests: int | None

    @classmethod
    def of(cls, given: Mapping[str, str | None]) -> Totals:
        """Return the totals that options give, by their names here.

        Raises:
            WrongUsage: a text is no whole number.
        """
        from reports.workload import quantity

        read = {
            name: None if text is None else quantity(text, f"--{name.replace('_', '-')}")
            for name, text in given.items()
        }
        return cls(**read)

    def check(self, rules: Sequence[Named], split: Split | None) -> None:
        """Refuse configurations that totals cannot be priced under.

        Raises:
            WrongUsage: one chooses a model for each request, or has two models and there is no split.
        """
        from router.errors import WrongUsage
        from router.settings import FixedSettings

        for name, rule in rules:
            if not isinstance(rule, FixedSettings):
                message = f"configuration: {name!r} chooses a model for each request, and totals by hand have none"
                raise WrongUsage(message, hint="price it on the ledger: --month in place of tokens")
            if split is None and rule.orchestrator != rule.worker:
                message = f"--calls: missing, and configuration {name!r} has two models"
                raise WrongUsage(message, hint="one orchestrator call for five worker calls is --calls 1:5")

    def work(self, at: datetime, zone: ZoneInfo, split: Split | None) -> Work:
        """Return the totals as work.

        Raises:
            WrongUsage: more is cached than goes in.
        """
        from reports import Fact, Note, Work, totals_by_hand

        tokens = {
            "input_tokens": self.input_tokens or 0,
            "cached_tokens": self.cached_tokens or 0,
            "output_tokens": self.output_tokens or 0,
        }
        each = "the token counts are those of each request"
        notes = [Note("note", "the token counts are totals; no request is taken to reach a context tier")]
        if self.requests is not None:
            notes = [Note("note", each)]
        if self.input_tokens is None:
            text = "no input tokens are given, so output alone is priced: --input-tokens N adds them"
            notes.append(Note("warning", text))
        calls = None if split is None else f"{split.orchestrator}:{split.worker}"
        return Work(
            title="totals given by hand",
            portions=totals_by_hand(**tokens, at=at, split=split, requests=self.requests),
            parameters=(
                *(Fact(name, name.replace("_", " "), count, "tokens") for name, count in tokens.items()),
                Fact("requests", "requests", self.requests, "count"),
                Fact("calls", "orchestrator : worker", calls),
            ),
            notes=tuple(notes),
            rows_counted=0,
            rows_unpriced=0,
            estimates=0,
            time_zone=zone.key,
        )
