"""Pages made by hand, with a chart of every kind, for the renderers' tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from fractions import Fraction

from reports import Cell, Chart, Column, Fact, Kind, Money, Note, Page, Panel, Table

FIRST = date(2026, 10, 1)
MODELS = ("gpt-4.1", "claude-sonnet-4.5", "kimi-k2", "deepseek-v3.2", "gemini-2.5-flash", "gpt-4o-mini", "other")


def usd(cents: int | None, *, bound: bool = False) -> Money | None:
    """Return an amount of hundredths of a US dollar."""
    return None if cents is None else Money(Fraction(cents, 100), "USD", bound)


def day(number: int) -> str:
    return (FIRST + timedelta(days=number)).isoformat()


def one(chart: Chart, columns: Sequence[tuple[str, str, Kind]], rows: Sequence[tuple[Cell, ...]]) -> Page:
    """Return a page of one table and one chart of it."""
    table = Table(chart.table, "Main", tuple(Column(*column) for column in columns), tuple(rows))
    return Page("test", "Title", (), (table,), (), (), (chart,))


def bars(*rows: tuple[Cell, ...], y: tuple[str, ...] = ("cost",), kind: str = "bars") -> Page:
    """Return a page with bars of `name` and cost."""
    columns: list[tuple[str, str, Kind]] = [("name", "Name", "text"), *((key, key.upper(), "money") for key in y)]
    return one(Chart("c", "Costs, USD", kind, "main", "name", y, description="What to see."), columns, rows)  # type: ignore[arg-type]


def daily_rows(days: int = 31) -> tuple[tuple[Cell, ...], ...]:
    """Return spend by day and model: less at week-ends, one day without rows, one with an unknown cost."""
    rows: list[tuple[Cell, ...]] = []
    for at in range(days):
        if at == 11:
            continue
        weight = 4 if (FIRST + timedelta(days=at)).weekday() >= 5 else 10
        for order, model in enumerate(MODELS):
            cents = weight * (700 - order * 90) + (at * 37 + order * 53) % 400
            rows.append((day(at), model, None if (at, order) == (20, 2) else usd(cents)))
    return tuple(rows)


def fan_rows(days: int = 31, today: int = 18) -> tuple[tuple[Cell, ...], ...]:
    rows: list[tuple[Cell, ...]] = []
    for at in range(days):
        middle = 21_000 * (at + 1)
        if at < today:
            rows.append((day(at), usd(middle), *[None] * 4))
            continue
        near, far = 900 * (at - today + 1), 1_700 * (at - today + 1)
        rows.append((day(at), usd(middle), *(usd(middle + of) for of in (-near, near, -far, far))))
    return tuple(rows)


def every_kind(days: int = 31) -> Page:
    """Return a page with each kind of chart, a main table in panels, warnings, notes and facts."""
    lines = Table(
        "lines",
        "By model",
        (
            Column("model", "Model", "text"),
            Column("calls", "Calls", "count"),
            Column("settled_cost", "Settled, USD", "money"),
            Column("cost_share", "Share", "share"),
            Column("p50_ms", "p50", "duration_ms"),
            Column("p95_ms", "p95", "duration_ms"),
        ),
        tuple(
            (
                name,
                1_000 * (9 - at),
                usd(182_345 - at * 23_456, bound=at == 2),
                Fraction(8 - at, 30),
                700 + at * 90,
                2_000 - at * 130,
            )
            for at, name in enumerate(MODELS)
        ),
        ("total", 42_000, usd(783_839, bound=True), Fraction(1), 900, 2_400),
        (Panel("Cost", ("calls", "settled_cost", "cost_share")), Panel("Latency, ms", ("p50_ms", "p95_ms"))),
    )
    daily = Table(
        "daily",
        "Spend by day and model",
        (
            Column("day", "Day", "text"),
            Column("model", "Model", "text"),
            Column("settled_cost", "Settled, USD", "money"),
        ),
        daily_rows(days),
    )
    ahead = Table(
        "projection",
        "Month to date and what is ahead",
        (
            Column("day", "Day", "text"),
            *(
                Column(key, title, "money")
                for key, title in (
                    ("middle", "Spend so far, then expected"),
                    ("low_80", "80 % low"),
                    ("high_80", "80 % high"),
                    ("low_95", "95 % low"),
                    ("high_95", "95 % high"),
                )
            ),
        ),
        fan_rows(days),
    )
    cache = Table(
        "cache",
        "Cache-hit share by day",
        (Column("day", "Day", "text"), Column("cache_share", "Cache-hit share", "share")),
        tuple((day(at), None if at in (8, 9) else Fraction(30 + (at * 7) % 20, 100)) for at in range(days)),
    )
    frontier = Table(
        "frontier",
        "Cost and quality",
        (
            Column("configuration", "Configuration", "text"),
            Column("cost", "Cost, USD", "money"),
            Column("quality", "Quality", "share"),
        ),
        (
            ("all-gpt-4.1", usd(783_839), Fraction(91, 100)),
            ("hybrid", usd(118_200), Fraction(86, 100)),
            ("hybrid-sonnet", usd(1_021_100), Fraction(93, 100)),
            ("hybrid-flash", usd(243_800), Fraction(85, 100)),
            ("by_class", usd(201_100), Fraction(89, 100)),
            ("unmeasured", usd(99_000), None),
        ),
    )
    bridge = Table(
        "bridge",
        "From promised to actual",
        (Column("effect", "Effect", "text"), Column("amount", "Amount, USD", "money")),
        (
            ("price", usd(-42_000)),
            ("volume", usd(61_050)),
            ("mix", usd(-18_325)),
            ("cache", usd(-7_700)),
            ("exchange rate", usd(1_210)),
        ),
    )
    description = "Week-ends are low; one day has no calls, and one cost is unknown."
    return Page(
        name="month",
        title="October 2026 by model",
        parameters=(Fact("month", "month", "2026-10"), Fact("currency", "currency", "USD")),
        tables=(lines, daily, ahead, cache, frontier, bridge),
        notes=(
            Note(
                "warning",
                "{model} was asked for and {served} answered; attempts: {count}",
                {"model": ("gpt-4o", "text"), "served": ("gpt-4o-mini", "text"), "count": (12, "count")},
            ),
            Note(
                "note",
                "p50 and p95 are read from a histogram: each is within {error} of the exact one",
                {"error": (Fraction(5, 100), "share")},
            ),
        ),
        footer=(
            Fact("rows_counted", "rows counted", 42_000, "count"),
            Fact("rows_unpriced", "rows unpriced", 12, "count"),
            Fact("catalogue_date", "catalogue of", "2026-11-30"),
        ),
        charts=(
            Chart(
                "daily",
                "Spend by day, USD",
                "stacked_bars",
                "daily",
                "day",
                ("settled_cost",),
                "model",
                description=description,
            ),
            Chart(
                "projection",
                "Month to date and projection, USD",
                "fan",
                "projection",
                "day",
                ("middle", "low_80", "high_80", "low_95", "high_95"),
                description="The month ends near 6,510 USD.",
            ),
            Chart(
                "by_model",
                "Settled cost by model, USD",
                "bars",
                "lines",
                "model",
                ("settled_cost",),
                description="Three models make most of the cost.",
            ),
            Chart(
                "latency",
                "Latency by model, ms",
                "bars",
                "lines",
                "model",
                ("p50_ms", "p95_ms"),
                description="Half of the answers, and 95 of 100, came within this time.",
            ),
            Chart(
                "cache",
                "Cache-hit share by day",
                "line",
                "cache",
                "day",
                ("cache_share",),
                description="Two days are unknown.",
            ),
            Chart(
                "frontier",
                "Cost and quality of configurations",
                "points",
                "frontier",
                "cost",
                ("quality",),
                label="configuration",
                description="Further left is cheaper, further up is better.",
            ),
            Chart(
                "bridge",
                "From promised to actual, USD",
                "bars",
                "bridge",
                "effect",
                ("amount",),
                description="What moved the cost.",
            ),
        ),
    )
