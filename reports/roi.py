"""What a switch is worth: savings against cost over a horizon of months, as plain arithmetic.

In: a month's cost under both configurations, what the switch costs, growth, discount rate. Out: months, net present
value, payback, return, break-even, sensitivity. Invariant: pure and exact but for what the future is rounded at, 1e-12
of a unit; what is never paid back has no payback month.

    volume of month t      (1 + growth)^(t − 1): the first month has the volume that was measured
    net of month t         savings × volume of month t − monthly cost
    present value          net of month t / (1 + annual rate)^(t / 12), t = 1 … horizon
    net present value      Σ present values − set-up cost
    ROI                    (Σ savings − all cost) / all cost; all cost = set-up + horizon × monthly cost
    payback                the first month at whose end Σ net reaches the set-up cost

The monthly rate is the effective one, (1 + annual rate)^(1/12) − 1 (Brealey, Myers, Allen: Principles of Corporate
Finance, ch. 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from typing import TypeAlias

from router.errors import WrongUsage

LONGEST = 600
"""Months that are looked through for a payback: fifty years."""
VARIED = Fraction(1, 5)
"""By how much each input is varied for the sensitivity: 20 % down and up."""
_PLACES = 12
_EXACT = Context(prec=50)


@dataclass(frozen=True, slots=True)
class RoiInputs:
    """What a return is worked out from. Amounts are in one currency.

    Args:
        baseline: a month's cost under the baseline, at the volume that was measured.
        configuration: the same month's cost under the configuration.
        setup_cost: paid once, before the first month; 0 or more.
        monthly_cost: paid each month for running the switch; 0 or more.
        horizon: months looked at, 1 to 600.
        growth: share by which the volume grows from month to month, above −1 and at most 1.
        discount_rate: share a year, 0 to 10.
    """

    baseline: Fraction
    configuration: Fraction
    setup_cost: Fraction
    monthly_cost: Fraction
    horizon: int = 12
    growth: Fraction = Fraction(0)
    discount_rate: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Refuse what no switch can have.

        Raises:
            WrongUsage: a value is out of its bounds.
        """
        if not 1 <= self.horizon <= LONGEST:
            message = f"horizon: {self.horizon} is not allowed; 1 to {LONGEST} months are"
            raise WrongUsage(message, hint="a year is --horizon 12")
        for name, cost in (("setup cost", self.setup_cost), ("monthly cost", self.monthly_cost)):
            if cost < 0:
                message = f"{name}: {cost} is not allowed; 0 or more is"
                raise WrongUsage(message, hint="what the switch saves is worked out, not given")
        if not -1 < self.growth <= 1:
            message = f"growth: {self.growth * 100} % is not allowed; more than −100 % up to 100 % a month is"
            raise WrongUsage(message, hint="five per cent a month is --growth 5%")
        if not 0 <= self.discount_rate <= 10:
            message = f"discount rate: {self.discount_rate * 100} % is not allowed; 0 % to 1000 % a year is"
            raise WrongUsage(message, hint="eight per cent a year is --discount-rate 8%")

    @property
    def savings(self) -> Fraction:
        """A month's savings at the volume that was measured; negative where the configuration costs more."""
        return self.baseline - self.configuration


@dataclass(frozen=True, slots=True)
class RoiMonth:
    """One month after the switch.

    Args:
        number: 1 is the first.
        savings: baseline − configuration at its volume.
        net: savings − monthly cost.
        cumulative: Σ net so far − set-up cost.
        present_value: net, discounted to the day of the switch.
        cumulative_value: Σ present values so far − set-up cost.
    """

    number: int
    savings: Fraction
    net: Fraction
    cumulative: Fraction
    present_value: Fraction
    cumulative_value: Fraction


@dataclass(frozen=True, slots=True)
class Roi:
    """What a switch is worth over its horizon.

    Args:
        months: each month of the horizon.
        savings: Σ savings.
        cost: set-up and running cost together.
        roi: (savings − cost) / cost; None: there is no cost.
        npv: net present value.
        payback_month: the month at whose end the set-up cost is covered, even past the horizon; 0 at once; None never.
        running_share: share of the measured volume at which savings pay the monthly cost; None: there are no savings.
        whole_share: the same that pays the set-up cost too within the horizon.
    """

    months: tuple[RoiMonth, ...]
    savings: Fraction
    cost: Fraction
    roi: Fraction | None
    npv: Fraction
    payback_month: int | None
    running_share: Fraction | None
    whole_share: Fraction | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What the net present value becomes where one input is a fifth lower or higher. `name` says which."""

    name: str
    low: Fraction
    high: Fraction

    @property
    def swing(self) -> Fraction:
        """The distance between the two."""
        return abs(self.high - self.low)


def roi_of(inputs: RoiInputs) -> Roi:
    """Return what a switch is worth; see the module for the formulas."""
    months = tuple(_months(inputs, inputs.horizon))
    cost = inputs.setup_cost + inputs.horizon * inputs.monthly_cost
    savings = sum((month.savings for month in months), Fraction(0))
    volume = sum((_volume(inputs, month.number) for month in months), Fraction(0))
    needs = (inputs.monthly_cost, cost / volume)
    shares = [need / inputs.savings if inputs.savings > 0 else None for need in needs]
    return Roi(
        months=months,
        savings=savings,
        cost=cost,
        roi=(savings - cost) / cost if cost else None,
        npv=months[-1].cumulative_value,
        payback_month=_payback(inputs),
        running_share=shares[0],
        whole_share=shares[1],
    )


def sensitivities(inputs: RoiInputs) -> tuple[Sensitivity, ...]:
    """Return how the net present value answers to each input, the strongest first."""
    found = []
    for name, vary in _VARIATIONS.items():
        low, high = (_npv(vary(inputs, 1 + change)) for change in (-VARIED, VARIED))
        found.append(Sensitivity(name, low, high))
    return tuple(sorted(found, key=lambda each: -each.swing))


def discount_factor(annual_rate: Fraction, months: int) -> Fraction:
    """Return (1 + annual rate)^(−months / 12), to 50 digits; exactly 1 at a rate of 0.

    Args:
        annual_rate: share a year, above −1.
        months: 0 or more.
    """
    if annual_rate == 0:
        return Fraction(1)
    base = _EXACT.divide(Decimal((1 + annual_rate).numerator), Decimal((1 + annual_rate).denominator))
    return Fraction(_EXACT.power(base, _EXACT.divide(Decimal(-months), Decimal(12))))


def _volume(inputs: RoiInputs, number: int) -> Fraction:
    return round((1 + inputs.growth) ** (number - 1), 2 * _PLACES)


def _months(inputs: RoiInputs, count: int) -> Iterator[RoiMonth]:
    cumulative = value = -inputs.setup_cost
    for number in range(1, count + 1):
        savings = round(inputs.savings * _volume(inputs, number), _PLACES) if inputs.growth else inputs.savings
        net = savings - inputs.monthly_cost
        present = (
            net if not inputs.discount_rate else round(net * discount_factor(inputs.discount_rate, number), _PLACES)
        )
        cumulative, value = cumulative + net, value + present
        yield RoiMonth(number, savings, net, cumulative, present, value)


def _npv(inputs: RoiInputs) -> Fraction:
    return list(_months(inputs, inputs.horizon))[-1].cumulative_value


def _payback(inputs: RoiInputs) -> int | None:
    undiscounted = replace(inputs, discount_rate=Fraction(0))
    if not inputs.setup_cost and inputs.savings >= inputs.monthly_cost:
        return 0
    for month in _months(undiscounted, LONGEST):
        if month.cumulative >= 0:
            return month.number
        if month.net <= 0 and (inputs.savings <= 0 or inputs.growth <= 0):  # no later month is better
            return None
    return None


_Vary: TypeAlias = Callable[[RoiInputs, Fraction], RoiInputs]
_VARIATIONS: dict[str, _Vary] = {
    "volume": lambda at, by: replace(at, baseline=at.baseline * by, configuration=at.configuration * by),
    "baseline's prices": lambda at, by: replace(at, baseline=at.baseline * by),
    "configuration's prices": lambda at, by: replace(at, configuration=at.configuration * by),
    "set-up cost": lambda at, by: replace(at, setup_cost=at.setup_cost * by),
    "monthly cost": lambda at, by: replace(at, monthly_cost=at.monthly_cost * by),
    "growth": lambda at, by: replace(at, growth=min(at.growth * by, Fraction(1))),
    "discount rate": lambda at, by: replace(at, discount_rate=min(at.discount_rate * by, Fraction(10))),
}
