"""Exchange rates and terms on record: read back as they were written, and which of them holds."""

from __future__ import annotations

import sqlite3
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command

from pricing import FxError, FxRate, Terms, operator_rate
from router.ledger import Ledger, open_ledger
from router.ledger.database import for_writing, make_engine, parse_url
from router.ledger.migrate import alembic_config, migrations_folder
from router.ledger.rates import fx_of, recorded_fx
from router.ledger.records import Amount
from router.settings import FxRateSettings, FxSettings, Settings

DAY = date(2026, 10, 14)
FRANC = FxRate("ecb:EUR/CHF:2026-10-14", "EUR", "CHF", Decimal("0.93"), DAY, "ECB")


def given(*rates: FxRateSettings, url: str | None = None, max_age_days: int = 92) -> Settings:
    database = {"url": url}
    return Settings.model_validate({"database": database, "fx": FxSettings(rates=rates, max_age_days=max_age_days)})


def test_the_terms_of_an_attempt_are_read_back(ledger: Ledger, sample: Any) -> None:
    terms = Terms(Decimal("0.15"), "CNY", Decimal(1), Decimal("0.05"), Decimal("0.06"))
    with_terms, again, without = sample.started(), sample.started(), sample.started()
    ended = sample.ended(with_terms, settled_cost=Amount("CNY", Decimal(1)), terms=terms)
    ledger.write_now(with_terms, ended)
    ledger.write_now(again, without, sample.ended(again, terms=terms), sample.ended(without))
    found = {each: ledger.reader.attempt(each.attempt_id) for each in (with_terms, again, without)}
    assert [row.ended.terms for row in found.values() if row and row.ended] == [terms, terms, Terms()]
    row = found[with_terms]
    assert row is not None
    assert row.ended == ended


def test_a_ledger_of_the_first_revision_is_brought_up_to_date(url: str, sample: Any) -> None:
    engine = make_engine(parse_url(url))
    with for_writing(engine).begin() as connection, migrations_folder() as folder:
        command.upgrade(alembic_config(folder, connection), "0001")
        names = sa.inspect(connection).get_table_names()
        assert "attempts" in names
        assert "terms" not in names
    engine.dispose()
    with open_ledger(url) as ledger:
        started = sample.started()
        ledger.write_now(started, sample.ended(started, terms=Terms(Decimal("0.5"))))
        row = ledger.reader.attempt(started.attempt_id)
        assert row is not None
        assert row.ended is not None
        assert row.ended.terms == Terms(Decimal("0.5"))


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
def test_altered_terms_are_refused(url: str, ledger: Ledger, sample: Any) -> None:
    started = sample.started()
    ledger.write_now(started, sample.ended(started, terms=Terms(Decimal("0.5"))))
    path = url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE terms SET document = 'x'")
    connection.close()
    with pytest.raises(Exception, match="'x' are no stored terms"):
        ledger.reader.attempt(started.attempt_id)


def test_rates_come_back_as_they_were_written_corrections_last(ledger: Ledger) -> None:
    # As texts the tenth correction would stand before the second.
    own = [operator_rate("CNY", "USD", Decimal(n) / 100, DAY, "contract", number=n) for n in range(1, 12)]
    ledger.write_now(FRANC, *reversed(own))
    ledger.write_now(FRANC)
    assert [rate for rate in ledger.reader.fx_rates() if rate != FRANC] == own
    assert fx_of(given(), ledger.reader).rate("CNY", "USD", DAY).rate == Decimal("0.11")


def test_what_is_on_record_stands_beside_the_bundled_rates_and_the_file_outranks_it(ledger: Ledger) -> None:
    ledger.write_now(FRANC, operator_rate("CNY", "USD", Decimal("0.14"), DAY))
    of_file = FxRateSettings(pair="CNY/USD", rate=Decimal("0.15"), starts=DAY)
    assert fx_of(given(), ledger.reader).rate("EUR", "CHF", DAY) == FRANC
    assert fx_of(given(), ledger.reader).rate("CNY", "USD", DAY).rate == Decimal("0.14")
    assert fx_of(given(of_file), ledger.reader).rate("CNY", "USD", DAY).rate == Decimal("0.15")
    assert fx_of(given(of_file)).rate("CNY", "USD", DAY).source == "router.toml"
    with pytest.raises(FxError, match="7 days old; 6 are allowed"):
        fx_of(given(max_age_days=6), ledger.reader).rate("EUR", "CHF", date(2026, 10, 21))


def test_a_ledger_that_is_not_there_is_not_made_for_its_rates(tmp_path: Path) -> None:
    file = tmp_path / "none" / "ledger.db"
    assert recorded_fx(given(url=f"sqlite:///{file}")).rate("EUR", "USD", DAY).source.startswith("ECB")
    assert not file.parent.exists()
