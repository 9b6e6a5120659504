"""One case: read its usage, price it, compare.

In: a case as the file has it. Out: an `Outcome`. Invariant: a case that cannot be read has not passed; an expected
total of null passes only where the engine has no exact number either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from typing import Any

from pricing.cost import Cost, price_call
from pricing.errors import PricingError, UsageError
from pricing.extract import EXTRACTORS, AttemptUsage, extract_attempts, last_per_message, served_tier
from pricing.fx import FxTable, operator_rate
from pricing.money import EXACT, plain
from pricing.prices import UNITS, PriceSet
from pricing.vectors.file import Vector
from pricing.vectors.prices import price_set_of, read_amount, read_instant

_NOW = datetime(2026, 11, 30, tzinfo=UTC)
"""The instant of a case that names none."""
Lines = dict[tuple[str, str], Decimal]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case.

    Args:
        id: the case's.
        title: the case's.
        faults: what was expected and got, or why it could not be computed; empty: the case holds.
    """

    id: str
    title: str
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the case holds."""
        return not self.faults


def run_vector(vector: Vector) -> Outcome:
    """Return whether a case holds.

    Args:
        vector: the case.
    """
    try:
        faults = tuple(_compare(vector))
    except PricingError as error:
        faults = (str(error).replace("\n", "; "),)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        faults = (f"the case is not of the format: {type(error).__name__}: {error}",)
    return Outcome(str(vector.get("id", "?")), str(vector.get("title", "")), faults)


def _compare(vector: Vector) -> Iterator[str]:
    if vector["api"] not in EXTRACTORS:
        raise PricingError(f"api: {vector['api']!r} is not known; {', '.join(EXTRACTORS)} are")
    attempts, unread = _attempts(vector)
    priced = [(model, prices, _cost(vector, attempt, prices)) for model, prices, attempt in _priced(vector, attempts)]
    total, why = _total([cost for _, _, cost in priced])
    expected = vector["expected_total"]
    if not _equal(expected, total):
        yield f"total: expected {_text(expected)}, got {_text(total)}{unread or why}"
    wanted, lines = vector.get("expected_lines"), _lines(priced)
    # A case may state its total alone; where the total is unknown, what could be priced of it is no part of the answer.
    if wanted is not None and (wanted or expected is not None) and not _same_lines(wanted, lines):
        yield f"lines: expected {_shown(wanted)}, got {_shown(_by_component(lines))}"
    if "expected_total_repeated" in vector:
        repeated = None if total is None else EXACT.multiply(total, Decimal(vector["repeat"]))
        if not _equal(vector["expected_total_repeated"], repeated):
            yield f"{vector['repeat']} calls: expected {vector['expected_total_repeated']}, got {_text(repeated)}"
    if "expected_total_usd" in vector:
        in_usd = None if total is None else _in_usd(total, priced[0][2].currency, vector["fx"])
        if not _equal(vector["expected_total_usd"], in_usd):
            yield f"total in USD: expected {vector['expected_total_usd']}, got {_text(in_usd)}"


def _attempts(vector: Vector) -> tuple[tuple[AttemptUsage, ...] | None, str]:
    """Return what each billed attempt used, or None and why a report was refused."""
    usage = vector["usage"]
    if usage is not None and "snapshots_output_tokens" in vector:
        grown = [{**usage, "output_tokens": count} for count in vector["snapshots_output_tokens"]]
        (usage,) = last_per_message([("message", report) for report in (*grown, usage)])
    try:
        return extract_attempts(vector["api"], usage, output_items=vector.get("output_items", ())), ""
    except UsageError as error:
        return None, f" ({error})"


Priced = tuple[str, PriceSet | None, AttemptUsage | None]


def _priced(vector: Vector, attempts: tuple[AttemptUsage, ...] | None) -> Iterator[Priced]:
    """Yield model, prices and usage of every attempt; no usage at all is one attempt without usage."""
    served = vector.get("response", {}).get("model") or vector["model"]
    for attempt in (None,) if attempts is None else attempts:
        model = (attempt.model if attempt else None) or served
        yield model, _prices(vector, model, served), attempt


def _prices(vector: Vector, model: str, served: str) -> PriceSet | None:
    entry = vector["price"]
    if entry is None or not _exists(model, vector):
        return None
    if not isinstance(entry, Mapping):
        raise PricingError(f"price: {entry!r:.60} is not allowed; rates by component are")
    if all(value is None or isinstance(value, Mapping) for value in entry.values()):
        entry = entry.get(model)
    elif model not in (served, vector["model"]):
        entry = None
    return None if entry is None else price_set_of(model, entry, _at(vector), vector.get("price_history"))


def _exists(model: str, vector: Vector) -> bool:
    """Return whether the catalogue of the given ids has the model: none is borrowed, not by suffix or prefix either."""
    ids = vector.get("catalogue_ids")
    return ids is None or model in ids


def _cost(vector: Vector, attempt: AttemptUsage | None, prices: PriceSet | None) -> Cost:
    asked, answered = vector.get("request", {}), vector.get("response", {})
    # The tier served: the answer's own word, else the usage's. Only the batch API does not repeat what was asked.
    asked_batch = "batch" if asked.get("service_tier") == "batch" else None
    reported = served_tier(vector["api"], vector["usage"]) or asked_batch
    tier = answered.get("service_tier", reported)
    return price_call(
        attempt.usage if attempt else None,
        prices,
        at=_at(vector),
        service_tier=tier,
        batch=bool(asked.get("batch") or answered.get("batch")),
    )


def _at(vector: Vector) -> datetime:
    return read_instant("request_time", vector["request_time"]) if "request_time" in vector else _NOW


def _total(costs: Sequence[Cost]) -> tuple[Decimal | None, str]:
    """Return the sum, or None and why there is none: a lower bound is no total."""
    amounts = []
    for cost in costs:
        if cost.status != "exact" or cost.total is None:
            return None, f" ({cost.status}{': no price for ' if cost.unpriced else ''}{', '.join(cost.unpriced)})"
        amounts.append(cost.total)
    return reduce(EXACT.add, amounts, Decimal(0)), ""


def _lines(priced: Sequence[tuple[str, PriceSet | None, Cost]]) -> Lines:
    """Return amounts by model and component, each line under the component whose row priced it; zeros left out."""
    found: Lines = defaultdict(Decimal)
    for model, prices, cost in priced:
        components = {row.id: row.component for row in (prices.rows if prices else ())}
        for line in cost.lines:
            if line.amount and line.price_row_id:
                key = (model, components[line.price_row_id])
                found[key] = EXACT.add(found[key], line.amount)
    return dict(found)


def _same_lines(expected: Mapping[str, Any], lines: Lines) -> bool:
    """Compare by component; lines under other names (an attempt's, a model's) are compared by their amounts."""
    wanted = {name: amount for name, amount in _flat(expected) if amount}
    if wanted.keys() <= UNITS.keys():
        return wanted == _by_component(lines)
    return any(sorted(wanted.values()) == sorted(got.values()) for got in (lines, _by_model(lines)))


def _flat(expected: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Decimal]]:
    for name, amount in expected.items():
        if isinstance(amount, Mapping):
            yield from _flat(amount, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", read_amount(f"expected_lines.{name}", amount)


def _by_component(lines: Lines) -> dict[str, Decimal]:
    return _grouped((component, amount) for (_, component), amount in lines.items())


def _by_model(lines: Lines) -> dict[str, Decimal]:
    return _grouped((model, amount) for (model, _), amount in lines.items())


def _grouped(pairs: Iterator[tuple[str, Decimal]]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = defaultdict(Decimal)
    for name, amount in pairs:
        found[name] = EXACT.add(found[name], amount)
    return dict(found)


def _in_usd(total: Decimal, currency: str | None, fx: Mapping[str, Any]) -> Decimal:
    day = date.fromisoformat(str(fx.get("as_of", "2000-01-01"))[:10])
    rate = operator_rate(fx["base"], fx["quote"], read_amount("fx.rate", fx["rate"]), day)
    return FxTable(operator=[rate]).convert(total, str(currency), "USD", day)


def _equal(expected: object, got: Decimal | None) -> bool:
    return got is None if expected is None else got == read_amount("expected_total", expected)


def _text(amount: object) -> str:
    return "unknown" if amount is None else plain(amount) if isinstance(amount, Decimal) else str(amount)


def _shown(lines: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_text(amount)}" for name, amount in lines.items()) or "none"
