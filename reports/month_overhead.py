"""What a period's work cost beside the work itself (planning, trying again, judging, shadowing), and whose it was.

In: rows. Out: two tables. Invariant: the kinds add up to the settled cost, and so do the tenants, exactly: what no
tenant is known of is shared out over the tenants in proportion to the cost of their own work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from reports.month_rows import MonthRows
from reports.page import Cell, Column, Money, Note, Table

WORK, RETRIES = "work", "retries"
OVERHEAD_ROLES = ("orchestrator", "judge", "shadow")
KINDS: Mapping[str, str] = {
    WORK: "The work itself",
    "orchestrator": "Orchestrator",
    RETRIES: "Retries",
    "judge": "Judge",
    "shadow": "Shadow",
}
"""Where settled cost went. A call's second and later attempts are retries, whatever their role."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a page says of overhead."""

    tables: tuple[Table, ...] = ()
    notes: tuple[Note, ...] = ()


def overhead_of(data: MonthRows) -> Overhead:
    """Return the tables `overhead` and `tenants`; the first only where there is overhead, the second only with tenants.

    Args:
        data: the period's rows.
    """
    spent, tenants = _spent(data), _tenants(data)
    kinds = _overhead_table(data, spent)
    tables = (
        *((kinds,) if len(kinds.rows) > 1 else ()),
        *((_tenants_table(data, spent, tenants),) if any(tenant is not None for tenant in tenants) else ()),
    )
    return Overhead(tables, _notes(spent))


def _spent(data: MonthRows) -> Mapping[tuple[str, str | None], Fraction]:
    """Return settled cost by kind and tenant."""
    labels = data.rows.labels(
        ("role", "tenant"), lambda role, tenant: (role if role in OVERHEAD_ROLES else WORK, tenant)
    )
    found = dict(zip(labels.names, data.amounts(labels, "settled_shown"), strict=True))
    for (kind, tenant), again in zip(labels.names, data.amounts(labels, "retried_shown"), strict=True):
        found[kind, tenant] -= again
        found[RETRIES, tenant] = found.get((RETRIES, tenant), Fraction(0)) + again
    return found


def _tenants(data: MonthRows) -> Mapping[str | None, bool]:
    """Return each tenant, and whether something of it has no whole price."""
    sums = data.sums_by(data.rows.labels(("tenant",)))
    return {tenant: line["records"] - line["whole"] - line["refused"] > 0 for tenant, line in sums.items()}


def _attempts(data: MonthRows) -> Mapping[str, int]:
    labels = data.rows.labels(("role",), lambda role: role if role in OVERHEAD_ROLES else WORK)
    sums = data.sums_by(labels)
    found = {kind: int(line["calls"]) for kind, line in sums.items()}
    found[RETRIES] = sum(int(line["attempts"] - line["calls"]) for line in sums.values())
    return found


def _doubtful(data: MonthRows) -> Mapping[str, bool]:
    """Return of each kind whether something of it may have no whole price; retries are of every role."""
    labels = data.rows.labels(("role",), lambda role: role if role in OVERHEAD_ROLES else WORK)
    sums = data.sums_by(labels)
    found = {kind: line["records"] - line["whole"] - line["refused"] > 0 for kind, line in sums.items()}
    return {kind: any(found.values()) if kind == RETRIES else found.get(kind, False) for kind in KINDS}


def _overhead_table(data: MonthRows, spent: Mapping[tuple[str, str | None], Fraction]) -> Table:
    attempts, doubtful = _attempts(data), _doubtful(data)
    amounts = {kind: sum((value for (each, _), value in spent.items() if each == kind), Fraction(0)) for kind in KINDS}
    total, currency = sum(amounts.values(), Fraction(0)), data.exchange.currency
    rows: list[tuple[Cell, ...]] = [
        (
            title,
            attempts.get(kind, 0),
            Money(amounts[kind], currency, doubtful[kind]),
            amounts[kind] / total if total else None,
        )
        for kind, title in KINDS.items()
        if amounts[kind] or attempts.get(kind)
    ]
    columns = (
        Column("kind", "What for", "text"),
        Column("attempts", "Attempts", "count"),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("cost_share", "Share", "share"),
    )
    whole_cost = Money(total, currency, any(doubtful.values()))
    last = ("total", sum(attempts.values()), whole_cost, Fraction(1) if total else None)
    return Table("overhead", "What the work itself cost, and what came on top", columns, tuple(rows), last)


def _tenants_table(
    data: MonthRows, spent: Mapping[tuple[str, str | None], Fraction], tenants: Mapping[str | None, bool]
) -> Table:
    kinds = tuple(KINDS)
    named = [tenant for tenant in tenants if tenant is not None]
    nobodys = sum((value for (_, tenant), value in spent.items() if tenant is None), Fraction(0))
    shares = _shares({tenant: spent.get((WORK, tenant), Fraction(0)) for tenant in named})
    lines = {
        tenant: (*(spent.get((kind, tenant), Fraction(0)) for kind in kinds), nobodys * shares[tenant])
        for tenant in named
    }
    total = sum((sum(line, Fraction(0)) for line in lines.values()), Fraction(0))

    def cells(name: str, line: tuple[Fraction, ...], *, lower_bound: bool) -> tuple[Cell, ...]:
        whole = sum(line, Fraction(0))
        parts = (Money(part, currency) for part in line)
        return name, *parts, Money(whole, currency, lower_bound), whole / total if total else None

    currency = data.exchange.currency
    columns = (
        Column("tenant", "Tenant", "text"),
        *(Column(kind, KINDS[kind] if kind != WORK else "Own work", "money", optional=kind != WORK) for kind in kinds),
        Column("shared_out", "Shared out", "money", optional=True),
        Column("settled_cost", f"Settled, {currency}", "money"),
        Column("cost_share", "Share", "share"),
    )
    ordered = sorted(named, key=lambda tenant: (-sum(lines[tenant], Fraction(0)), tenant))
    rows = tuple(
        cells(tenant, lines[tenant], lower_bound=tenants[tenant] or tenants.get(None, False)) for tenant in ordered
    )
    sums = tuple(sum((line[at] for line in lines.values()), Fraction(0)) for at in range(len(kinds) + 1))
    last = cells("total", sums, lower_bound=any(tenants.values()))
    return Table("tenants", f"By tenant, with overhead, {currency}", columns, rows, last)


def _shares(own: Mapping[str, Fraction]) -> Mapping[str, Fraction]:
    """Return each tenant's share of what all of them spent on their own work; equal shares where that is nothing."""
    total = sum(own.values(), Fraction(0))
    return {tenant: value / total if total else Fraction(1, len(own)) for tenant, value in own.items()}


def _notes(spent: Mapping[tuple[str, str | None], Fraction]) -> tuple[Note, ...]:
    named = {tenant for _, tenant in spent if tenant is not None}
    nobodys = sum((value for (_, tenant), value in spent.items() if tenant is None), Fraction(0))
    if not named or not nobodys:
        return ()
    text = "cost without a tenant is shared out over the tenants in proportion to the cost of their own work"
    return (Note("note", text),)
