"""What tables are declared with: the one metadata, how its constraints are named, and makers of columns.

In: names. Out: SQLAlchemy columns and constraints. Invariant: nothing here that PostgreSQL cannot do.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = sa.MetaData(naming_convention=NAMING)


def id_column(name: str, *args: Any, **options: Any) -> sa.Column[str]:
    """Return a column of our own keys: UUIDs, as text in Python."""
    return sa.Column(name, sa.Uuid(as_uuid=False), *args, **options)


def text_column(name: str, *args: Any, **options: Any) -> sa.Column[str]:
    """Return a column of text of any length."""
    return sa.Column(name, sa.Text(), *args, **options)


def count_column(name: str, **options: Any) -> sa.Column[int]:
    """Return a column of whole numbers of 64 bits."""
    return sa.Column(name, sa.BigInteger(), **options)


def money_columns(name: str) -> tuple[sa.Column[int], sa.Column[int], sa.CheckConstraint]:
    """Return the two columns of an amount (`x_micro`, `x_pico`) and what holds of them."""
    micro, pico = f"{name}_micro", f"{name}_pico"
    rule = f"({micro} IS NULL) = ({pico} IS NULL) AND {micro} >= 0 AND {pico} >= 0 AND {pico} < 1000000"
    return count_column(micro), count_column(pico), sa.CheckConstraint(rule, name=name)


def one_of(column: str, allowed: tuple[str, ...]) -> sa.CheckConstraint:
    """Return the rule that a column has one of some values, or NULL."""
    # Not IN (…): SQLite would build a table of the names for every row that is written.
    rule = " OR ".join(f"{column} = '{name}'" for name in allowed)
    return sa.CheckConstraint(rule, name=column)


def currency_with(prefix: str) -> sa.CheckConstraint:
    """Return the rule that an amount has a currency, and nothing else has."""
    return sa.CheckConstraint(f"({prefix}_currency IS NULL) = ({prefix}_micro IS NULL)", name=f"{prefix}_currency")
