"""Vendors' bills read: each sample has the fields that its documentation names, its lines and sums are by hand."""

from __future__ import annotations

import json
from datetime import date
from fractions import Fraction
from typing import Any

import pytest

from reports.invoice import BillLine, component_of, line_item, read_bill
from router.errors import RouterError, WrongUsage

# platform.openai.com/docs/api-reference/usage/costs, grouped by line item: `quantity` is that of the line
OPENAI: dict[str, Any] = {
    "object": "page",
    "data": [
        {
            "object": "bucket",
            "start_time": 1790812800,
            "end_time": 1790899200,
            "results": [
                {
                    "object": "organization.costs.result",
                    "amount": {"value": 0.06, "currency": "usd"},
                    "line_item": "gpt-4.1-2025-04-14, cached input",
                    "project_id": "proj_abc",
                    "quantity": 120000,
                },
                {
                    "object": "organization.costs.result",
                    "amount": {"value": "0.0125", "currency": "usd"},
                    "line_item": "web search tool calls",
                    "project_id": None,
                },
            ],
        },
        {"object": "bucket", "start_time": 1790899200, "end_time": 1790985600, "results": []},
    ],
    "has_more": False,
    "next_page": None,
}
# platform.claude.com/docs/en/api/admin/cost_report, grouped by description: amounts are cents
ANTHROPIC: dict[str, Any] = {
    "data": [
        {
            "starting_at": "2026-10-01T00:00:00Z",
            "ending_at": "2026-10-02T00:00:00Z",
            "results": [
                {
                    "amount": "123.78912",
                    "context_window": "0-200k",
                    "cost_type": "tokens",
                    "currency": "USD",
                    "description": "Claude Sonnet 4.5 Usage - Input Tokens, Cache Write",
                    "model": "claude-sonnet-4-5-20250929",
                    "service_tier": "standard",
                    "token_type": "cache_creation.ephemeral_5m_input_tokens",
                    "workspace_id": None,
                },
                {
                    "amount": "10",
                    "cost_type": "web_search",
                    "currency": "USD",
                    "description": "Web search",
                    "model": None,
                },
            ],
        }
    ],
    "has_more": True,
    "next_page": "page_xyz",
}
DAY = date(2026, 10, 1)


def test_openai_costs() -> None:
    bill = read_bill(json.dumps(OPENAI))
    assert (bill.provider, bill.currency, bill.is_cut, bill.decimals) == ("openai", "USD", False, 4)
    assert bill.lines == (
        BillLine(
            *(DAY, "gpt-4.1-2025-04-14", "cache_read", Fraction(120_000), Fraction("0.06"), "USD"),
            "gpt-4.1-2025-04-14, cached input",
        ),
        BillLine(DAY, None, "web_search", None, Fraction("0.0125"), "USD", "web search tool calls"),
    )
    several = read_bill(json.dumps([OPENAI, OPENAI]))
    assert len(several.lines) == 4


def test_openais_dashboard_export() -> None:
    # The headings of platform.openai.com/usage, "Export": a day without costs has an empty line
    text = (
        "\ufeffstart_time,end_time,start_time_iso,end_time_iso,amount_value,amount_currency,line_item,project_id,"
        "organization_id,organization_name\n"
        "1790812800,1790899200,2026-10-01T00:00:00+00:00,2026-10-02T00:00:00+00:00,0.8958740000000000,usd,"
        '"gpt-4.1, output",,org-1,Personal\n'
        "1790899200,1790985600,2026-10-02T00:00:00+00:00,2026-10-03T00:00:00+00:00,,,,,,\n"
    )
    (line,) = read_bill(text).lines
    assert (line.day, line.model, line.component, line.amount) == (DAY, "gpt-4.1", "output", Fraction("0.895874"))


def test_anthropics_cost_report_is_in_cents() -> None:
    bill = read_bill(json.dumps(ANTHROPIC))
    assert (bill.provider, bill.is_cut) == ("anthropic", True)
    assert [(line.day, line.model, line.component, line.amount) for line in bill.lines] == [
        (DAY, "claude-sonnet-4-5-20250929", "cache_write_5m", Fraction("1.2378912")),
        (DAY, None, "web_search", Fraction("0.1")),
    ]


def test_anthropics_console_export_is_in_dollars() -> None:
    # The headings of the console's Cost page (support.claude.com/en/articles/9534590), "Export"
    text = (
        "usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type\n"
        "2026-10-01,Claude Haiku 4.5,Default,key,message,≤ 200k,input_no_cache,0.05,0.05,token\n"
        "2026-10-01,Claude Haiku 4.5,Default,key,message,≤ 200k,input_cache_read,0.01,0.01,token\n"
    )
    bill = read_bill(text)
    assert bill.provider == "anthropic"
    assert [(line.model, line.component, line.amount) for line in bill.lines] == [
        ("Claude Haiku 4.5", "input", Fraction("0.05")),
        ("Claude Haiku 4.5", "cache_read", Fraction("0.01")),
    ]


def test_a_generic_bill_with_its_own_headings() -> None:
    text = 'Datum;Betrag;Waehrung;Modell;Klasse;Tokens\n2026-10-01;"1,234.50";EUR;gpt-4.1;Output tokens;5000\n'
    columns = {"date": "Datum", "amount": "Betrag", "currency": "Waehrung", "model": "Modell", "component": "Klasse"}
    (line,) = read_bill(text, "generic", columns | {"quantity": "Tokens"}).lines
    assert line == BillLine(
        DAY, "gpt-4.1", "output", Fraction(5_000), Fraction("1234.5"), "EUR", "gpt-4.1 Output tokens"
    )
    assert read_bill("date,amount\n2026-10-01,-3\n", currency="cny").lines[0].currency == "CNY"  # a credit


@pytest.mark.parametrize(
    ("text", "model", "component"),
    [
        ("gpt-4.1-2025-04-14, input", "gpt-4.1-2025-04-14", "input"),
        ("priority | gpt-5.6-sol, output, long context", "gpt-5.6-sol", "output"),
        ("gpt-audio-mini-2025-12-15 audio, input", "gpt-audio-mini-2025-12-15", "input_audio"),
        ("gpt-5.6, cache writes", "gpt-5.6", "cache_write_5m"),
        ("web search tool calls", None, "web_search"),
        ("Vector storage", None, "vector storage"),
        ("", None, None),
    ],
)
def test_a_line_item_names_model_and_class(text: str, model: str | None, component: str | None) -> None:
    assert line_item(text) == (model, component)


def test_a_class_that_is_not_known_stays_as_it_is() -> None:
    assert component_of("Fine_Tuning hours") == "fine tuning hours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bill: no column of amounts; it has none"),
        ("date,amount,currency\n", "bill: it has no line with an amount"),
        ("date,amount,currency\n2026-10-01,1.2.3,USD\n", "bill: line 2: amount '1.2.3' is no number"),
        ("date,amount,currency\n2026-10-01,NaN,USD\n", "bill: line 2: amount 'NaN' is no number"),
        ("date,amount,currency\n01.10.2026,1,USD\n", "bill: line 2: '01.10.2026' is no date"),
        ("date,amount,currency\n2026-10-01,1,BTC2\n", "bill: line 2: 'BTC2' is no currency"),
        ("date,amount,currency\n2026-10-01,1,USD\n2026-10-02,1,EUR\n", "bill: its lines are in EUR, USD; one currency"),
        ("date,amount\n2026-10-01,1\n", "bill: no column of currencies"),
        ("day,price\n2026-10-01,1\n", "bill: no column of amounts; it has day, price"),
        ('date,amount,currency\n"2026-10-01,1,USD\n2026-10-02,2,USD\n', "bill: the row after line 1 is not CSV"),
        ('date,"amount\n2026-10-01,1\n', "bill: the row after line 0 is not CSV"),
        (json.dumps(OPENAI)[:-30], "bill: it begins like JSON and is not"),
        ('{"error": "no"}', "bill: its JSON is no page of costs"),
        ('{"data": [{"start_time": 1, "results": [{"line_item": "x"}]}]}', "bill: bucket 1: a result without 'amount'"),
        ('{"data": [{"start_time": 1}]}', "bill: bucket 1 has no results"),
        (
            '{"data": [{"starting_at": "2026-10-01", "results": [{"amount": "1", "currency": "EUR"}]}]}',
            "bill: bucket 1: cur",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(RouterError) as caught:
        read_bill(text)
    assert str(caught.value).startswith(message)
    assert caught.value.hint


def test_columns_that_do_not_exist() -> None:
    text = "date,amount,currency\n2026-10-01,1,USD\n"
    with pytest.raises(WrongUsage, match="column: 'amont' does not exist; did you mean amount"):
        read_bill(text, "generic", {"amont": "amount"})
    with pytest.raises(WrongUsage, match="heading: 'Amount' does not exist; did you mean amount"):
        read_bill(text, "generic", {"amount": "Amount"})
