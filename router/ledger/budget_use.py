"""What a month's calls hold and have used of each budget, kept in the calls' own transactions.

In: `BudgetUse`s, within the transaction of the attempt that they are for. Out: the table `budget_use`. Invariant: of a
budget that stops, no set of processes ever holds and uses more than its amount: the one statement that adds is the one
that looks. A count begins with everything that the ledger has of its month; what has gone with a killed process stays
held, as possibly billed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from operator import itemgetter
from typing import Any

import sqlalchemy as sa

from pricing.money import join_amount
from router.errors import BudgetExceeded, BudgetUncounted
from router.ledger.budget_records import BudgetRow, BudgetScope
from router.ledger.driver import insert_if_absent
from router.ledger.rows import NANO, storable_text, to_nano
from router.ledger.tables import UNSETTLED, attempts, budget_use, usage_buckets

ToCurrency = Callable[[Decimal, str], Decimal]
_KEY = ("scope", "name", "month_start_us")


def from_nano(nano: int) -> Decimal:
    """Return the amount of 1e-9 units."""
    return Decimal(nano) / NANO


def use_budgets(connection: sa.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add to what budgets have used, all of it or nothing.

    Args:
        connection: in the transaction of the attempt.
        rows: of `router.ledger.rows`, one a budget.

    Raises:
        BudgetExceeded: a budget that stops would be crossed.
        BudgetUncounted: a budget's count has been taken away, or was never begun; `count_use` begins it.
    """
    for row in sorted(rows, key=itemgetter(*_KEY)):
        key = _key(row["scope"], row["name"], row["month_start_us"])
        used = budget_use.c.used_nano
        fits = () if row["limit_nano"] is None else (used + row["add_nano"] <= row["limit_nano"],)
        adding = sa.update(budget_use).where(*key, *fits).values(used_nano=used + row["add_nano"])
        if connection.execute(adding).rowcount or not row["is_start"]:
            continue
        known = connection.execute(sa.select(used).where(*key)).scalar()
        named = " ".join(filter(None, (row["scope"], row["name"])))
        if known is None:
            raise BudgetUncounted(f"budget {named}: its month is not counted yet", hint="run it again")
        add, limit = (from_nano(row[each]) for each in ("add_nano", "limit_nano"))
        raise BudgetExceeded(
            f"budget {named}: the next call may cost {add:.6f} {row['currency']}, and {from_nano(known):.6f} of "
            f"{limit.normalize():f} a month are used or held",
            hint=f"router budget show {named}; router budget set {named} … gives it more",
        )


def count_use(connection: sa.Connection, budget: BudgetRow, month: tuple[int, int], convert: ToCurrency) -> None:
    """Begin the count of a budget's month with what the ledger has, unless it has begun.

    Args:
        connection: in a transaction of its own that may write.
        budget: the budget.
        month: its start and end, microseconds since 1970 UTC, half-open.
        convert: turns an amount of another currency into the budget's.
    """
    scope, name = budget.scope, storable_text(budget.name)
    row = {"scope": scope, "name": name, "month_start_us": month[0], "currency": budget.amount.currency}
    begun = connection.execute(insert_if_absent(connection.dialect.name, budget_use), {**row, "used_nano": 0}).rowcount
    if not begun:
        return
    total = sum((convert(amount, of) for of, amount in _on_record(connection, scope, name, month)), Decimal(0))
    values = {"used_nano": to_nano(total)}
    connection.execute(sa.update(budget_use).where(*_key(scope, name, month[0])).values(values))


def read_use(connection: sa.Connection, month_start_us: int) -> Mapping[tuple[str, str], Decimal]:
    """Return what is used and held of each budget in a month, in its currency, by scope and name."""
    rows = connection.execute(sa.select(budget_use).where(budget_use.c.month_start_us == month_start_us)).all()
    return {(row.scope, row.name): from_nano(row.used_nano) for row in rows}


def forget_use(connection: sa.Connection, scope: BudgetScope, name: str) -> None:
    """End the counts of one budget: the next call begins them again from the ledger."""
    mine = (budget_use.c.scope == scope, budget_use.c.name == storable_text(name))
    connection.execute(sa.delete(budget_use).where(*mine))


def forget_all_use(connection: sa.Connection) -> None:
    """End the counts of all budgets: rows have come or gone that no call of ours has counted."""
    connection.execute(sa.delete(budget_use))


def _key(scope: str, name: str, month_start_us: int) -> tuple[sa.ColumnElement[bool], ...]:
    table = budget_use.c
    return (table.scope == scope, table.name == name, table.month_start_us == month_start_us)


def _on_record(
    connection: sa.Connection, scope: BudgetScope, name: str, month: tuple[int, int]
) -> Iterable[tuple[str, Decimal]]:
    """Yield (currency, amount): what was settled, and what is held for calls whose bill is not known."""
    for table, instant in ((attempts, attempts.c.started_us), (usage_buckets, usage_buckets.c.start_us)):
        within = (instant >= month[0], instant < month[1], *_of_scope(table, scope, name))
        yield from _sums(connection, table.c.settled_currency, "settled", table, within)
    within = (attempts.c.started_us >= month[0], attempts.c.started_us < month[1], UNSETTLED)
    yield from _sums(
        connection, sa.literal("USD"), "reserved_usd", attempts, (*within, *_of_scope(attempts, scope, name))
    )


def _of_scope(table: sa.Table, scope: BudgetScope, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    columns = {"tenant": table.c.tenant, "class": table.c.task_class, "model": table.c.model_asked}
    return () if scope == "all" else (columns[scope] == name,)


def _sums(
    connection: sa.Connection,
    currency: sa.ColumnElement[Any],
    amount: str,
    table: sa.Table,
    within: tuple[sa.ColumnElement[bool], ...],
) -> Iterable[tuple[str, Decimal]]:
    micro, pico = table.c[f"{amount}_micro"], table.c[f"{amount}_pico"]
    query = sa.select(currency.label("currency"), sa.func.sum(micro), sa.func.sum(pico))
    for of, micros, picos in connection.execute(query.where(*within, micro.is_not(None)).group_by("currency")):
        if of is not None:
            yield of, join_amount(int(micros), int(picos))
