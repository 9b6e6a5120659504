"""A business case as it is kept: what was promised, with everything that is needed to check it later.

In: values. Out: JSON text for the table `cases`, and back. Invariant: numbers are exact text ("41/3" where there is no
finite decimal form); a document of another schema version is refused, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pricing import PriceSet, PricingError, Terms
from pricing.prices import price_set_from_json, price_set_to_json
from pricing.terms import terms_from_json, terms_to_json
from reports.daily_costs import Named
from reports.roi import RoiInputs
from reports.workload import Split
from router.errors import RouterError
from router.settings import ConfigurationSettings

SCHEMA_VERSION = 1
_RULE: TypeAdapter[ConfigurationSettings] = TypeAdapter(ConfigurationSettings)


@dataclass(frozen=True, slots=True)
class PromisedLine:
    """One component of one role and model under the configuration, of a whole month. `amount` is in the currency."""

    role: str | None
    model: str
    component: str
    quantity: Fraction
    amount: Fraction


@dataclass(frozen=True, slots=True)
class Volume:
    """The work of one role and class that the promise was made for: requests and tokens by bucket, of a month."""

    role: str | None
    task_class: str | None
    requests: Fraction
    tokens: Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class PromisedForecast:
    """What the month after the freeze was expected to cost, before any switch.

    Args:
        month: as 2026-11.
        point: in the currency; None: there was nothing to tell it from.
        intervals: level, low and high of each.
        method: what made it.
        reason: why that.
    """

    month: str
    point: Fraction | None
    intervals: tuple[tuple[Fraction, Fraction, Fraction], ...]
    method: str
    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """A promise.

    Args:
        name: of the case.
        frozen_at: aware instant.
        priced_at: aware instant of the prices and exchange rates.
        month: the month it was drawn from.
        time_zone: IANA name of its days.
        currency: ISO 4217 code of every amount.
        price_list: the list, or "vendor".
        terms: what list prices were settled with.
        baseline, configuration: name and rule of each.
        split: how attempts without a role were split, or None.
        plain_baseline: whether orchestrators' calls cost the baseline nothing.
        calls: attempts of a month with known usage.
        inputs: a month's costs and what the return was worked out from.
        intervals: level, low and high of a month's savings.
        lines: the configuration's cost.
        volumes: the work.
        prices: price sets by model.
        fx: rate to `currency` by currency.
        fx_ids: ids of those rates.
        forecast: of the next month; None: none could be made.
    """

    name: str
    frozen_at: datetime
    priced_at: datetime
    month: str
    time_zone: str
    currency: str
    price_list: str
    terms: Terms
    baseline: Named
    configuration: Named
    split: Split | None
    plain_baseline: bool
    calls: Fraction
    inputs: RoiInputs
    intervals: tuple[tuple[Fraction, Fraction, Fraction], ...]
    lines: tuple[PromisedLine, ...]
    volumes: tuple[Volume, ...]
    prices: Mapping[str, PriceSet]
    fx: Mapping[str, Fraction]
    fx_ids: tuple[str, ...]
    forecast: PromisedForecast | None


def case_to_json(case: Case) -> str:
    """Return a case as JSON text."""
    inputs = case.inputs
    forecast = case.forecast
    document = {
        "schema_version": SCHEMA_VERSION,
        "name": case.name,
        "frozen_at": case.frozen_at.astimezone(UTC).isoformat(),
        "priced_at": case.priced_at.astimezone(UTC).isoformat(),
        "month": case.month,
        "time_zone": case.time_zone,
        "currency": case.currency,
        "price_list": case.price_list,
        "terms": json.loads(terms_to_json(case.terms)),
        "baseline": _named_to_json(case.baseline),
        "configuration": _named_to_json(case.configuration),
        "split": None if case.split is None else [case.split.orchestrator, case.split.worker],
        "plain_baseline": case.plain_baseline,
        "calls": str(case.calls),
        "inputs": {
            "baseline": str(inputs.baseline),
            "configuration": str(inputs.configuration),
            "setup_cost": str(inputs.setup_cost),
            "monthly_cost": str(inputs.monthly_cost),
            "horizon": inputs.horizon,
            "growth": str(inputs.growth),
            "discount_rate": str(inputs.discount_rate),
        },
        "savings_intervals": [[str(number) for number in each] for each in case.intervals],
        "lines": [[line.role, line.model, line.component, str(line.quantity), str(line.amount)] for line in case.lines],
        "volumes": [[each.role, each.task_class, str(each.requests), _texts(each.tokens)] for each in case.volumes],
        "prices": [json.loads(price_set_to_json(prices)) for prices in case.prices.values()],
        "fx": _texts(case.fx),
        "fx_ids": list(case.fx_ids),
        "forecast": None if forecast is None else _forecast_to_json(forecast),
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), default=float)  # a quality floor is a number


def case_from_json(text: str) -> Case:
    """Return the case that `case_to_json` wrote.

    Raises:
        RouterError: the text is no such document, or of a schema version that this program does not know.
    """
    try:
        document = json.loads(text, parse_float=Decimal)
        version = document["schema_version"]
        if version != SCHEMA_VERSION:
            message = f"case: schema version {version!r} is not known; {SCHEMA_VERSION} is"
            raise RouterError(message, hint="a newer farebox has frozen it: update this one")
        return _case(document)
    except (ValueError, KeyError, TypeError, ArithmeticError, PricingError, ValidationError) as error:
        message = "case: the stored document is damaged"
        raise RouterError(message, hint="restore the ledger from a backup; nothing changes a frozen case") from error


def _case(document: Mapping[str, Any]) -> Case:
    inputs = document["inputs"]
    amounts = {name: Fraction(inputs[name]) for name in inputs if name != "horizon"}
    sets = [price_set_from_json(json.dumps(prices)) for prices in document["prices"]]
    return Case(
        name=document["name"],
        frozen_at=datetime.fromisoformat(document["frozen_at"]),
        priced_at=datetime.fromisoformat(document["priced_at"]),
        month=document["month"],
        time_zone=document["time_zone"],
        currency=document["currency"],
        price_list=document["price_list"],
        terms=terms_from_json(json.dumps(document["terms"])),
        baseline=_named_from_json(document["baseline"]),
        configuration=_named_from_json(document["configuration"]),
        split=None if document["split"] is None else Split(*document["split"]),
        plain_baseline=document["plain_baseline"],
        calls=Fraction(document["calls"]),
        inputs=RoiInputs(**amounts, horizon=inputs["horizon"]),
        intervals=_intervals(document["savings_intervals"]),
        lines=tuple(
            PromisedLine(role, model, component, Fraction(quantity), Fraction(amount))
            for role, model, component, quantity, amount in document["lines"]
        ),
        volumes=tuple(
            Volume(role, task_class, Fraction(requests), _fractions(tokens))
            for role, task_class, requests, tokens in document["volumes"]
        ),
        prices={prices.model: prices for prices in sets},
        fx=_fractions(document["fx"]),
        fx_ids=tuple(document["fx_ids"]),
        forecast=None if document["forecast"] is None else _forecast_from_json(document["forecast"]),
    )


def _named_to_json(named: Named) -> dict[str, Any]:
    return {"name": named[0], "rule": _RULE.dump_python(named[1])}


def _named_from_json(document: Mapping[str, Any]) -> Named:
    return document["name"], _RULE.validate_python(document["rule"])


def _forecast_to_json(forecast: PromisedForecast) -> dict[str, Any]:
    return {
        "month": forecast.month,
        "point": None if forecast.point is None else str(forecast.point),
        "intervals": [[str(number) for number in each] for each in forecast.intervals],
        "method": forecast.method,
        "reason": forecast.reason,
    }


def _forecast_from_json(document: Mapping[str, Any]) -> PromisedForecast:
    point = document["point"]
    return PromisedForecast(
        month=document["month"],
        point=None if point is None else Fraction(point),
        intervals=_intervals(document["intervals"]),
        method=document["method"],
        reason=document["reason"],
    )


def _intervals(rows: list[list[str]]) -> tuple[tuple[Fraction, Fraction, Fraction], ...]:
    return tuple((Fraction(level), Fraction(low), Fraction(high)) for level, low, high in rows)


def _texts(numbers: Mapping[str, Fraction]) -> dict[str, str]:
    return {name: str(number) for name, number in numbers.items()}


def _fractions(texts: Mapping[str, str]) -> dict[str, Fraction]:
    return {name: Fraction(text) for name, text in texts.items()}
