"""Work to be priced: how many tokens of which kind, in which role, of requests of which size, when.

In: totals given by hand, or the ledger's groups. Out: `Portion`s. Invariant: splitting by calls keeps every token;
tokens are exact fractions, because 3.2M split 1 : 5 has no whole parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from pricing.usage import BUCKETS, INPUT_BUCKETS, Usage
from router.errors import WrongUsage
from router.task import Role

SUFFIXES: Mapping[str, int] = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
LARGEST = 10**18
_QUANTITY = re.compile(r"(\d[\d_,]*(?:\.\d+)?|\.\d+)([kKmMgG]?)", re.ASCII)
_SPLIT = re.compile(r"(\d{1,9}):(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Split:
    """Calls of the orchestrator for calls of the workers, whole numbers; tokens are split as the calls are."""

    orchestrator: int
    worker: int

    def shares(self) -> Mapping[Role, Fraction]:
        """Return the share of each role that has calls, 0 to 1."""
        calls: Mapping[Role, int] = {"orchestrator": self.orchestrator, "worker": self.worker}
        return {role: Fraction(count, self.orchestrator + self.worker) for role, count in calls.items() if count}


@dataclass(frozen=True, slots=True)
class Portion:
    """Work of one role and class that one price set can be used for.

    Args:
        role: single, orchestrator or worker; None where it is not known.
        task_class: the class, or None.
        at: aware UTC instant that it is priced at, unless another is asked for.
        requests: how many requests; None where only tokens are known.
        tokens: quantity by usage bucket (`pricing.usage.BUCKETS`); only buckets that were used.
        size: usage of one request, whose input decides about context tiers.
        served: the model that did it, by whose tokenizer its tokens were counted; None where it is not known.
        tier: index of its context tier; None where the size of a request is not known.
        period: number of the span of time within which no price changes; portions of one period share their prices.
        day: the UTC day whose exchange rates hold; None: that of `at`.
    """

    role: Role | None
    task_class: str | None
    at: datetime
    requests: Fraction | None
    tokens: Mapping[str, Fraction]
    size: Usage
    served: str | None = None
    tier: int | None = None
    period: int = 0
    day: date | None = None


def quantity(text: str, option: str) -> int:
    """Return a whole number written plainly or with a suffix: 8000000, 8_000_000, 8M, 3.2M, 500k.

    Args:
        text: what was given.
        option: the option's name, for the message.

    Raises:
        WrongUsage: it is no such number, or not a whole one, or above 1e18.
    """
    found = _QUANTITY.fullmatch(text.strip())
    value = None
    if found is not None:
        number = Decimal(found[1].replace("_", "").replace(",", ""))
        value = Fraction(number) * SUFFIXES[found[2].lower()]
    if value is None or value.denominator != 1 or value > LARGEST:
        raise WrongUsage(
            f"{option}: {text!r} is not allowed; a whole number from 0 to 1e18 is, also with k, M or G",
            hint=f"for instance {option} 3.2M",
        )
    return int(value)


def split_of(text: str) -> Split:
    """Return the split that `orchestrator:worker` names, for instance 1:5.

    Raises:
        WrongUsage: it is not two whole numbers with a colon, or both are 0.
    """
    found = _SPLIT.fullmatch(text.strip())
    if found is None or not (int(found[1]) or int(found[2])):
        raise WrongUsage(
            f"--calls: {text!r} is not allowed; ORCHESTRATOR:WORKER is, two whole numbers, not both 0",
            hint="one orchestrator call for five worker calls is --calls 1:5",
        )
    return Split(int(found[1]), int(found[2]))


def totals_by_hand(
    *,
    input_tokens: int,
    cached_tokens: int,
    output_tokens: int,
    at: datetime,
    split: Split | None = None,
    requests: int | None = None,
) -> tuple[Portion, ...]:
    """Return totals given by hand as portions, one a role.

    Args:
        input_tokens: all input, cached included; tokens in all, or of each request where `requests` is given.
        cached_tokens: the part of it that is read from a prompt cache.
        output_tokens: generated tokens, in all or of each request alike.
        at: aware UTC instant to price at.
        split: calls by role; None: one role, not named.
        requests: number of requests; None: the token counts are totals, and no context tier is reached.

    Raises:
        WrongUsage: more is cached than goes in.
    """
    if cached_tokens > input_tokens:
        raise WrongUsage(
            f"--cached-tokens: {cached_tokens} is more than --input-tokens, {input_tokens}, which it is a part of",
            hint="--input-tokens counts all input, cached included",
        )
    counts = (input_tokens - cached_tokens, cached_tokens, output_tokens)
    given = dict(zip(("uncached_input_tokens", "cache_read_tokens", "plain_output_tokens"), counts, strict=True))
    used = {bucket: count for bucket, count in given.items() if count}
    size = Usage(**used) if requests is not None else Usage(**dict.fromkeys(used, 1))
    times = Fraction(1 if requests is None else requests)
    tokens = {bucket: count * times for bucket, count in used.items()}
    whole = Portion(None, None, at, None if requests is None else times, tokens, size)
    return (whole,) if split is None else split_portion(whole, split)


def split_portion(portion: Portion, split: Split) -> tuple[Portion, ...]:
    """Return one portion a role, with the tokens and requests split as the calls are."""
    return tuple(
        replace(
            portion,
            role=role,
            requests=None if portion.requests is None else portion.requests * share,
            tokens={bucket: count * share for bucket, count in portion.tokens.items()},
        )
        for role, share in split.shares().items()
    )


def mean_size(counts: Mapping[str, int] | Mapping[str, Fraction], requests: int | Fraction) -> Usage:
    """Return the usage of the mean request of a group whose requests are all in one context tier.

    Its input is the whole part of the mean input, which lies in the group's own tier, and no bucket that was used is
    empty; so a price set answers for it what it answers for every request of the group.

    Args:
        counts: the group's sums by usage bucket.
        requests: requests in the group, more than none.
    """
    sizes = {bucket: max(1, int(count // requests)) for bucket, count in counts.items() if count}
    inputs = [bucket for bucket in INPUT_BUCKETS if bucket in sizes]
    if inputs:
        largest = max(inputs, key=lambda bucket: sizes[bucket])
        wanted = int(sum(counts[bucket] for bucket in inputs) // requests)
        sizes[largest] = max(1, sizes[largest] + wanted - sum(sizes[bucket] for bucket in inputs))
    return Usage(**sizes)


def portion_of(
    counts: Mapping[str, int],
    requests: int | None,
    *,
    at: datetime,
    role: Role | None = None,
    task_class: str | None = None,
    is_sized: bool = True,
) -> Portion:
    """Return a group of the ledger as a portion.

    Args:
        counts: the group's sums by usage bucket; other keys are passed over.
        requests: requests in the group; None or 0: not known.
        at: aware UTC instant from which the group's prices hold.
        role: its role, or None.
        task_class: its class, or None.
        is_sized: whether its requests are known to be in one context tier; where they are not, or no request is known,
            none is taken to reach a tier.
    """
    used = {bucket: counts[bucket] for bucket in BUCKETS if counts.get(bucket)}
    size = mean_size(used, requests) if is_sized and requests else Usage(**dict.fromkeys(used, 1))
    tokens = {bucket: Fraction(count) for bucket, count in used.items()}
    return Portion(role, task_class, at, Fraction(requests) if requests else None, tokens, size)


def total_tokens(portions: Iterable[Portion], buckets: Iterable[str]) -> Fraction:
    """Return the sum of some buckets over portions, tokens."""
    wanted = tuple(buckets)
    return sum((portion.tokens.get(bucket, Fraction(0)) for portion in portions for bucket in wanted), Fraction(0))


def together(portions: Iterable[Portion]) -> tuple[Portion, ...]:
    """Return fewer portions of the same work: roles and served models that share all else as one.

    What has two roles then has none, and alike for served models; so this is for a rule that asks for neither.

    Args:
        portions: the work.
    """
    groups: dict[tuple[object, ...], list[Portion]] = {}
    for portion in portions:
        sized = portion.size if portion.tier is None else portion.tier
        key = (portion.task_class, sized, portion.period, portion.day, portion.requests is None)
        groups.setdefault(key, []).append(portion)
    return tuple(_joined(found) if len(found) > 1 else found[0] for found in groups.values())


def _joined(portions: Sequence[Portion]) -> Portion:
    first = min(portions, key=lambda portion: portion.at)
    tokens = {
        bucket: sum((portion.tokens.get(bucket, Fraction(0)) for portion in portions), Fraction(0))
        for bucket in BUCKETS
        if any(bucket in portion.tokens for portion in portions)
    }
    requests = None
    if first.requests is not None:
        requests = sum((portion.requests or Fraction(0) for portion in portions), Fraction(0))
    size = first.size if first.tier is None or not requests else mean_size(tokens, requests)
    return replace(first, role=None, served=None, tokens=tokens, requests=requests, size=size)
