"""`verify` prices imported buckets again: sound ones are ok, and a changed one is named with what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from router.ledger import Ledger
from router.ledger.verify import Finding
from tests.ledger.importers.conftest import Take

ALL = (0, 2**62)


def changed(ledger: Ledger, model: str, change: str) -> tuple[str, tuple[Finding, ...]]:
    """Change the bucket of a model by hand; return its id and what verify finds besides sums."""
    query = sa.text("SELECT bucket_id FROM usage_buckets WHERE model_served = :model")
    with ledger._engine.begin() as connection:  # noqa: SLF001 - by hand, as verify must find it
        sql = f"UPDATE usage_buckets SET {change} WHERE model_served = :model"  # noqa: S608 - a test's own words
        connection.execute(sa.text(sql), {"model": model})
        found: Any = connection.execute(query.columns(sa.Column("bucket_id", sa.Uuid(as_uuid=False))), {"model": model})
        bucket_id = str(found.scalar_one())
    return bucket_id, tuple(each for each in ledger.verify(*ALL).findings if each.kind != "sums")


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
def test_sound_buckets_are_ok_and_counted(ledger: Ledger, take: Take, samples: Path) -> None:
    for source, name in (("anthropic", "anthropic_console.csv"), ("openai", "openai_usage.json")):
        take(ledger, source, samples / name)
    with ledger._engine.connect() as connection:  # noqa: SLF001 - counted by SQL of our own
        there = connection.execute(sa.text("SELECT count(*) FROM usage_buckets")).scalar_one()
    found = ledger.verify(*ALL)
    assert (found.findings, found.attempts, found.buckets) == ((), 0, there)


SONNET = "0.119935000000 USD (exact)"  # claude-sonnet-4.5, as test_anthropic_usage works it out


@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize(
    ("change", "kind", "stored", "derived"),
    [
        ("cost_micro = 119936", "cost", "0.119936000000 USD (exact)", SONNET),
        ("cost_pico = 1", "cost", "0.119935000001 USD (exact)", SONNET),
        ("cost_status = 'partial'", "cost", "0.119935000000 USD (partial)", SONNET),
        ("web_searches = 11", "cost", SONNET, "0.129935000000 USD (exact)"),  # one more, at 10 a thousand
        ("usage_estimated = TRUE", "cost", SONNET, "0.119935000000 USD (estimated)"),
        ("price_set_id = NULL", "cost", SONNET, "unknown (unknown)"),
        (
            "settled_micro = NULL, settled_pico = NULL, settled_currency = NULL",
            "settled",
            "unknown",
            SONNET,
        ),
    ],
)
def test_a_changed_bucket_is_named(
    ledger: Ledger, take: Take, samples: Path, change: str, kind: str, stored: str, derived: str
) -> None:
    take(ledger, "anthropic", samples / "anthropic_console.csv")
    bucket_id, found = changed(ledger, "claude-sonnet-4.5", change)
    assert [(each.kind, each.where, each.stored, each.derived) for each in found] == [
        (kind, bucket_id, stored, derived)
    ]


@pytest.mark.parametrize(
    ("micro", "requests", "faults"),
    [
        (325_000, None, 0),  # 0.6 × 0.5 + 0.01 × 2.5: claude-haiku-5.5 above 100,000 tokens a request, as imported
        (65_000, None, 0),  # 0.6 × 0.1 + 0.01 × 0.5: all requests below; which of the two is not on record
        (195_000, None, 1),  # half and half
        (65_000, 2, 0),  # a source may have stated that its requests were below
        (325_000, 1, 0),
        (65_000, 1, 1),  # one request alone is as large as all of them
    ],
)
def test_each_price_that_the_size_of_a_request_allows_is_sound_and_nothing_between(
    ledger: Ledger, take: Take, samples: Path, micro: int, requests: int | None, faults: int
) -> None:
    take(ledger, "anthropic", samples / "anthropic_console.csv")
    change = f"cost_micro = {micro}, requests = {'NULL' if requests is None else requests}"
    bucket_id, found = changed(ledger, "claude-haiku-5.5", change)
    assert [each.where for each in found] == [bucket_id] * faults


def test_an_altered_price_set_prices_nothing(ledger: Ledger, take: Take, samples: Path) -> None:
    take(ledger, "anthropic", samples / "anthropic_console.csv")
    with ledger._engine.begin() as connection:  # noqa: SLF001 - as above
        connection.execute(sa.text("UPDATE price_sets SET document = replace(document, '15', '14')"))
    found = [each for each in ledger.verify(*ALL).findings if each.kind in ("price set", "cost")]
    assert {each.kind for each in found} == {"price set", "cost"}
    assert {each.derived for each in found if each.kind == "cost"} == {"unknown (unknown)"}
