"""A vendor's bill as lines of one shape.

In: the text of a file. Out: a `Bill`. Invariant: every amount of the file is in exactly one line, exact; what cannot be
read is refused with its place, for a bill with a hole proves nothing. Names stay as billed; only token classes are
ours. Days are UTC, which is what the vendors' daily buckets are.

    OpenAI      Costs API: JSON pages of buckets (`start_time`, `results[].amount.value|currency`, `line_item`,
                `quantity`), or the dashboard's CSV of the same (`start_time_iso`, `amount_value`, …). A line item names
                model and token class: "gpt-4.1-2025-04-14, cached input".
                platform.openai.com/docs/api-reference/usage/costs
    Anthropic   Cost report: JSON pages (`starting_at`, `results[].amount` in cents as a decimal string, `token_type`),
                platform.claude.com/docs/en/api/admin/cost_report; or the console's CSV (`usage_date_utc`,
                `token_type`, `cost_usd` in dollars), support.claude.com/en/articles/9534590.
    generic     CSV with a header: date, amount, currency, model, token class, quantity; columns can be mapped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from pricing.money import is_currency
from router.errors import RouterError, WrongUsage, unknown_name
from router.ledger.importers.delimited import delimiter_of
from router.ledger.importers.documents import parse_json

Provider: TypeAlias = Literal["openai", "anthropic", "generic"]
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "generic")
FIELDS = ("date", "amount", "currency", "model", "component", "quantity", "text")
"""What a column of a generic bill can be mapped to; `component` is the token class."""

_COMPONENTS: Mapping[str, str] = {
    "input": "input",
    "uncached input": "input",
    "uncached input tokens": "input",
    "input tokens": "input",
    "input no cache": "input",
    "prompt": "input",
    "prompt tokens": "input",
    "cached input": "cache_read",
    "cached input tokens": "cache_read",
    "cache read": "cache_read",
    "cache read tokens": "cache_read",
    "cache read input tokens": "cache_read",
    "input cache read": "cache_read",
    "cache write": "cache_write_5m",
    "cache writes": "cache_write_5m",
    "cache write 5m": "cache_write_5m",
    "cache write 5m tokens": "cache_write_5m",
    "input cache write 5m": "cache_write_5m",
    "cache creation.ephemeral 5m input tokens": "cache_write_5m",
    "cache write 1h": "cache_write_1h",
    "cache write 1h tokens": "cache_write_1h",
    "input cache write 1h": "cache_write_1h",
    "cache creation.ephemeral 1h input tokens": "cache_write_1h",
    "output": "output",
    "output tokens": "output",
    "completion": "output",
    "completion tokens": "output",
    "reasoning": "output",
    "web search": "web_search",
    "web search tool calls": "web_search",
}
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "date": ("date", "day", "usage_date", "start_time_iso"),
    "amount": ("amount", "cost", "total", "amount_value"),
    "currency": ("currency", "amount_currency"),
    "model": ("model",),
    "component": ("component", "token_class", "token_type", "usage_type"),
    "quantity": ("quantity", "tokens"),
    "text": ("description", "line_item", "text"),
}
"""The headings that a generic bill's fields are looked for under, unless they are mapped."""
_LINE_ITEM = re.compile(
    r"(?:[\w-]+ \| )?(?P<model>[^,|]+?)(?: (?P<kind>audio|image|text|batch))?, (?P<component>[a-z ]+?)"
    r"(?:, long context)?"
)
_APART = ("audio", "image")
_CENTS = 100
_AMOUNT = re.compile(r"[-+]?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?([eE][-+]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class BillLine:
    """One line of a bill.

    Args:
        day: the UTC day; None: not said.
        model: as billed; None: not said, for instance of a tool.
        component: our price component; another text where the bill has a class that we do not know; None: not said.
        quantity: tokens (calls of a tool); None: not said.
        amount: in `currency`; a credit is negative.
        currency: ISO 4217 code.
        text: the line as billed.
    """

    day: date | None
    model: str | None
    component: str | None
    quantity: Fraction | None
    amount: Fraction
    currency: str
    text: str


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill.

    Args:
        provider: the format it was read as.
        lines: in the order of the file.
        currency: ISO 4217 code of all of them.
        decimals: most decimals of an amount: what it is rounded to.
        is_cut: whether the file says itself that there are more pages.
    """

    provider: Provider
    lines: tuple[BillLine, ...]
    currency: str
    decimals: int
    is_cut: bool = False


def read_bill(
    text: str,
    provider: Provider | None = None,
    columns: Mapping[str, str] | None = None,
    currency: str | None = None,
) -> Bill:
    """Return the bill that a file holds.

    Args:
        text: its content.
        provider: its format; None: told from its keys or headings.
        columns: of a generic bill, heading by field of `FIELDS`; what is not mapped has its usual heading.
        currency: ISO 4217 code of a generic bill that has no column of currencies.

    Raises:
        RouterError: it cannot be read, has no lines, or is in several currencies.
        WrongUsage: a mapped field or column does not exist.
    """
    plain = text.removeprefix("\ufeff").strip()
    if plain[:1] in "{[" and plain:
        found, is_cut = _json_lines(plain, provider)
    else:
        found, is_cut = _csv_lines(plain, provider, columns or {}, currency), False
    name, lines = found[0], tuple(found[1])
    if not lines:
        raise RouterError("bill: it has no line with an amount", hint="export the costs of a whole month again")
    currencies = sorted({line.currency for line in lines})
    if len(currencies) > 1:
        message = f"bill: its lines are in {', '.join(currencies)}; one currency is allowed"
        raise RouterError(message, hint="make a file of each currency")
    return Bill(name, lines, currencies[0], max(_decimals(line.amount) for line in lines), is_cut)


def _json_lines(text: str, provider: Provider | None) -> tuple[tuple[Provider, Iterable[BillLine]], bool]:
    try:
        document = parse_json(text)
    except ValueError as error:
        message = f"bill: it begins like JSON and is not: {error}"
        raise RouterError(message, hint="the file may be cut: export it again") from error
    pages = document if isinstance(document, list) else [document]
    if not all(isinstance(page, dict) and isinstance(page.get("data"), list) for page in pages):
        message = 'bill: its JSON is no page of costs; {"data": [{…, "results": […]}]} is'
        raise RouterError(message, hint="save what the vendor's costs API answers, or use a CSV")
    buckets = [bucket for page in pages for bucket in page["data"]]
    is_anthropic = any(isinstance(bucket, dict) and "starting_at" in bucket for bucket in buckets)
    name: Provider = provider or ("anthropic" if is_anthropic else "openai")
    reader = {"openai": _openai_result, "anthropic": _anthropic_result}.get(name)
    if reader is None:
        raise WrongUsage("--provider: 'generic' is a CSV; the file is JSON", hint="--provider openai or anthropic")
    return (name, tuple(_results(buckets, reader))), any(page.get("has_more") for page in pages)


def _results(buckets: Iterable[Any], reader: Callable[[Any, Any, str], BillLine | None]) -> Iterator[BillLine]:
    for number, bucket in enumerate(buckets, 1):
        results = bucket.get("results") if isinstance(bucket, dict) else None
        if not isinstance(results, list):
            message = f"bill: bucket {number} has no results"
            raise RouterError(message, hint="save the whole answer of the costs API")
        for result in results:
            place = f"bucket {number}"
            try:
                line = reader(bucket, result, place)
            except (KeyError, TypeError, AttributeError) as error:
                message = f"bill: {place}: a result without {error}"
                raise RouterError(message, hint="save the answer of the costs API unchanged") from error
            if line is not None:
                yield line


def _openai_result(bucket: Any, result: Any, place: str) -> BillLine | None:
    amount = result["amount"]
    if amount is None or amount.get("value") is None:
        return None
    item = result.get("line_item") or ""
    model, component = line_item(item)
    quantity = result.get("quantity")
    return BillLine(
        day=_day(bucket["start_time"], place),
        model=model,
        component=component,
        quantity=None if quantity is None else _number(quantity, "quantity", place),
        amount=_number(amount["value"], "amount", place),
        currency=_currency(amount["currency"], place),
        text=item or "costs",
    )


def _anthropic_result(bucket: Any, result: Any, place: str) -> BillLine | None:
    currency = _currency(result.get("currency") or "USD", place)
    if currency != "USD":
        message = f"bill: {place}: currency {currency}; only USD is documented, in cents"
        raise RouterError(message, hint="use a CSV with amounts in whole units: --provider generic")
    component = result.get("token_type") or result.get("cost_type")
    return BillLine(
        day=_day(bucket["starting_at"], place),
        model=result.get("model"),
        component=None if component is None else component_of(component),
        quantity=None,
        amount=_number(result["amount"], "amount", place) / _CENTS,
        currency=currency,
        text=result.get("description") or component or "costs",
    )


def _csv_lines(
    text: str, provider: Provider | None, columns: Mapping[str, str], currency: str | None
) -> tuple[Provider, Iterable[BillLine]]:
    reader = csv.DictReader(io.StringIO(text), delimiter=delimiter_of(text), strict=True)
    try:
        headings = [heading.strip() for heading in reader.fieldnames or ()]
        reader.fieldnames = headings
        name: Provider = provider or _told(headings)
        fields = _fields(name, headings, columns)
        return name, tuple(_rows(reader, name, fields, currency or ("USD" if name != "generic" else "")))
    except csv.Error as error:
        message = f"bill: the row after line {reader.line_num} is not CSV: {error}"
        raise RouterError(message, hint="the file may be cut: export it again") from None


def _told(headings: Iterable[str]) -> Provider:
    known = set(headings)
    if {"amount_value", "amount_currency"} <= known:
        return "openai"
    return "anthropic" if {"usage_date_utc", "cost_usd"} <= known else "generic"


def _fields(name: Provider, headings: list[str], columns: Mapping[str, str]) -> Mapping[str, str]:
    for field, heading in columns.items():
        if field not in FIELDS:
            raise unknown_name("column", field, FIELDS)
        if heading not in headings:
            raise unknown_name("heading", heading, headings)
    usual: dict[str, tuple[str, ...]] = dict(_COLUMNS)
    if name == "anthropic":
        usual |= {"date": ("usage_date_utc",), "amount": ("cost_usd",), "component": ("token_type",)}
    found = {field: next((each for each in usual[field] if each in headings), "") for field in FIELDS} | dict(columns)
    if not found["amount"]:
        message = f"bill: no column of amounts; it has {', '.join(headings)[:200] or 'none'}"
        raise RouterError(message, hint="name it: --column amount=HEADING")
    return {field: heading for field, heading in found.items() if heading}


def _rows(
    reader: Iterable[Mapping[str, Any]], name: Provider, fields: Mapping[str, str], usual: str
) -> Iterator[BillLine]:
    for number, row in enumerate(reader, 2):
        place = f"line {number}"
        value = {field: (row.get(heading) or "").strip() for field, heading in fields.items()}
        if not value["amount"]:  # OpenAI's export has a line for a day without costs
            continue
        model, component = value.get("model") or None, value.get("component") or None
        if name == "openai":
            model, component = line_item(value.get("text", ""))
        elif component is not None:
            component = component_of(component)
        currency = value.get("currency") or usual
        if not currency:
            raise RouterError("bill: no column of currencies", hint="name it, --column currency=HEADING, or --currency")
        yield BillLine(
            day=_day(value["date"], place) if value.get("date") else None,
            model=model,
            component=component,
            quantity=_number(value["quantity"], "quantity", place) if value.get("quantity") else None,
            amount=_number(value["amount"], "amount", place),
            currency=_currency(currency, place),
            text=value.get("text") or " ".join(filter(None, (model, value.get("component")))) or "costs",
        )


def line_item(text: str) -> tuple[str | None, str | None]:
    """Return model and component that one of OpenAI's line items names; (None, the item) where it names no model.

    Args:
        text: as "gpt-4.1-2025-04-14, cached input", "priority | gpt-5.6-sol, output, long context".
    """
    found = _LINE_ITEM.fullmatch(text.strip())
    if found is None:
        return None, component_of(text) if text else None
    component = component_of(found["component"])
    return found["model"], f"{component}_{found['kind']}" if found["kind"] in _APART else component


def component_of(text: str) -> str:
    """Return our component for a vendor's token class; a class that we do not know stays as it is, in small letters."""
    plain = " ".join(re.split(r"[\s_]+", text.strip().lower()))
    return _COMPONENTS.get(plain, plain)


def _number(value: Any, what: str, place: str) -> Fraction:
    text = str(value).strip()
    if not _AMOUNT.fullmatch(text) or not any(sign.isdigit() for sign in text):
        message = f"bill: {place}: {what} {text[:40]!r} is no number; 1234.56 and 1,234.56 are"
        raise RouterError(message, hint="export it with a decimal point")
    return Fraction(Decimal(text.replace(",", "")))


def _day(value: Any, place: str) -> date:
    try:
        if isinstance(value, int) or str(value).isdigit():
            return datetime.fromtimestamp(int(value), UTC).date()
        text = str(value)
        if len(text) <= len("2026-10-01"):
            return date.fromisoformat(text)
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo is None else instant.astimezone(UTC)).date()
    except (ValueError, OverflowError, OSError):
        message = f"bill: {place}: {str(value)[:40]!r} is no date; 2026-10-01 and 2026-10-01T00:00:00Z are"
        raise RouterError(message, hint="name the right column: --column date=HEADING") from None


def _currency(text: str, place: str) -> str:
    code = text.strip().upper()
    if not is_currency(code):
        message = f"bill: {place}: {text[:20]!r} is no currency; an ISO 4217 code is"
        raise RouterError(message, hint="for instance USD, EUR or CNY")
    return code


def _decimals(amount: Fraction) -> int:
    places = 0
    while amount.denominator != 1 and places < 30:
        amount, places = amount * 10, places + 1
    return places
