"""What recorded work would have cost under a scenario: before, after, and where the difference comes from.

In: work as it was served, a scenario, catalogue, endpoints, exchange. Out: a `Page`. Invariant: the lines add up to the
total, and the effects to the difference, exactly; what cannot be priced on both sides is in neither, but counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pricing import Catalog, Scenario, plain
from reports.exchange import Exchange
from reports.page import Cell, Column, Fact, Kind, Money, Note, Page, Table, change_share
from reports.price_facts import retired_notes
from reports.restating import STAGES, TEXT_SIDES, Engine, Restated
from reports.served_work import ServedWork
from reports.tokenizers import token_band, tokenizer_of
from router.settings import EndpointSettings

_SURE = Fraction(1), Fraction(1)
_SIDE_NAMES = {"input": "text input", "output": "text output"}


def simulate(
    work: ServedWork,
    scenario: Scenario,
    *,
    catalog: Catalog,
    endpoints: Mapping[str, EndpointSettings],
    exchange: Exchange,
) -> Page:
    """Return the page that sets recorded work beside the same work under a scenario.

    Args:
        work: what was served, of `served_month`.
        scenario: what is changed.
        catalog: prices of what was not on record.
        endpoints: the user's endpoints by name: their terms, and which one sells what.
        exchange: converts into the page's currency, at the rate of each call's own day.

    Raises:
        FxError: an amount cannot be converted.
    """
    engine = Engine(catalog, endpoints, exchange)
    restated = engine.restate(work.parts, scenario)
    compared = [each for each in restated if each.is_compared]
    left_out = [each for each in restated if not each.is_compared]
    currency = exchange.currency
    tables = [_lines(compared, currency, lower_bound=bool(left_out)), _effects(compared, scenario, currency)]
    if left_out:
        tables.append(_left_out(left_out, currency))
    mapped = [each for each in compared if _band(each) != _SURE]
    if mapped:
        tables.append(_bands(mapped, compared, currency))
    return Page(
        name="whatif",
        title=f"What if: {work.title}",
        parameters=(*work.parameters, *_facts(scenario), Fact("currency", "currency", currency)),
        tables=tuple(tables),
        notes=_notes(work, scenario, restated, engine, is_banded=bool(mapped)),
        footer=_footer(work, left_out, catalog, exchange),
    )


@dataclass(slots=True)
class _Sum:
    """What one line adds up to: tokens and costs before and after."""

    before_tokens: Fraction = Fraction(0)
    after_tokens: Fraction = Fraction(0)
    before: Fraction = Fraction(0)
    after: Fraction = Fraction(0)

    def cells(self, currency: str, *, lower_bound: bool = False) -> tuple[Cell, ...]:
        """Return tokens and amounts, before and after each, the difference and its share of before."""
        change = self.after - self.before
        amounts = (Money(value, currency, lower_bound) for value in (self.before, self.after))
        return (
            self.before_tokens,
            self.after_tokens,
            *amounts,
            Money(change, currency),
            change_share(change, self.before),
        )


def _lines(compared: Iterable[Restated], currency: str, *, lower_bound: bool) -> Table:
    columns = (
        Column("model", "Model", "text"),
        Column("price_list", "List", "text"),
        Column("component", "Component", "text"),
        Column("before_tokens", "Tokens before", "tokens"),
        Column("after_tokens", "Tokens after", "tokens"),
        Column("before", f"Before, {currency}", "money"),
        Column("after", f"After, {currency}", "money"),
        Column("difference", f"Difference, {currency}", "money"),
        Column("difference_share", "Difference", "change"),
    )
    sums: dict[tuple[str, str, str], _Sum] = {}
    total = _Sum()
    for each in compared:
        for component in dict.fromkeys((*each.before, *each.after)):
            found = sums.setdefault((*_labels(each), component), _Sum())
            for line in (found, total):
                _add(line, each, component)
    rows = tuple((*key, *sums[key].cells(currency)) for key in sorted(sums))
    whole = total.cells(currency, lower_bound=lower_bound)
    title = "Before and after" + (", of what is priced on both sides" if lower_bound else "")
    # Tokens of different components, and calls of tools, make no sum.
    return Table("lines", title, columns, rows, ("total", None, None, None, None, *whole[2:]))


def _add(line: _Sum, each: Restated, component: str) -> None:
    before, after = each.before.get(component), each.after.get(component)
    if before is not None:
        line.before_tokens += before.quantity
        line.before += before.amount or 0
    if after is not None:
        line.after_tokens += after.quantity
        line.after += after.amount or 0


def _labels(each: Restated) -> tuple[str, str]:
    part = each.part
    model = part.model if part.model == each.model else f"{part.model} → {each.model}"
    return model, part.price_list if part.price_list == each.price_list else f"{part.price_list} → {each.price_list}"


def _effects(compared: Sequence[Restated], scenario: Scenario, currency: str) -> Table:
    columns = (
        Column("effect", "Effect", "text"),
        Column("difference", f"Difference, {currency}", "money"),
        Column("difference_share", "Of before", "change"),
        Column("changes", "What is changed", "text"),
    )
    totals = [sum((each.costs[at] or Fraction(0) for each in compared), Fraction(0)) for at in range(len(STAGES) + 1)]
    before = totals[0]

    def cells(name: str, change: Fraction, what: str | None) -> tuple[Cell, ...]:
        return name, Money(change, currency), change_share(change, before), what

    rows = tuple(
        cells(name, totals[at + 1] - totals[at], _said(scenario, fields) or None)
        for at, (name, fields) in enumerate(STAGES.items())
    )
    title = "Where the difference comes from, one stage after the other"
    return Table("effects", title, columns, rows, cells("total", totals[-1] - before, None))


def _left_out(left_out: Iterable[Restated], currency: str) -> Table:
    columns = (
        Column("model", "Model", "text"),
        Column("price_list", "List", "text"),
        Column("part", "Part", "text"),
        Column("attempts", "Attempts", "count"),
        Column("before", f"Before, {currency}", "money"),
        Column("after", f"After, {currency}", "money"),
        Column("unpriced", "Unpriced", "text"),
    )
    groups: dict[tuple[str, str, str, str], list[Restated]] = {}
    for each in left_out:
        groups.setdefault((*_labels(each), _SIDE_NAMES.get(each.side, each.side), _missing(each)), []).append(each)
    rows = tuple(
        (*key[:3], _requests(found), _known(found, 0, currency), _known(found, -1, currency), key[3])
        for key, found in sorted(groups.items())
    )
    return Table("left_out", "Not re-priced, and in no sum above", columns, rows)


def _missing(each: Restated) -> str:
    sides = [("before", each.costs[0]), ("after", each.costs[-1])]
    return " and ".join(name for name, cost in sides if cost is None)


def _known(found: Iterable[Restated], at: int, currency: str) -> Money | None:
    costs = [each.costs[at] for each in found]
    known = [cost for cost in costs if cost is not None]
    return Money(sum(known, Fraction(0)), currency) if len(known) == len(costs) else None


def _requests(found: Iterable[Restated]) -> Fraction:
    parts = {id(each.part): each.part for each in found}
    return sum((part.portion.requests or Fraction(0) for part in parts.values()), Fraction(0))


def _band(each: Restated) -> tuple[Fraction, Fraction]:
    """Return the factors between which the side's cost may lie for its tokens; 1 and 1 where nothing is unsure."""
    is_text = each.side in TEXT_SIDES
    return token_band(each.part.model, each.model) if is_text else _SURE


def _bands(mapped: Iterable[Restated], compared: Iterable[Restated], currency: str) -> Table:
    columns = (
        Column("model", "Model", "text"),
        Column("tokenizers", "Tokenizers", "text"),
        Column("low_share", "Tokens, least", "change"),
        Column("high_share", "Tokens, most", "change"),
        Column("low", f"After, least, {currency}", "money"),
        Column("after", f"After, {currency}", "money"),
        Column("high", f"After, most, {currency}", "money"),
    )
    groups: dict[str, list[Restated]] = {}
    for each in mapped:
        groups.setdefault(_labels(each)[0], []).append(each)
    rows = []
    for model, found in sorted(groups.items()):
        low, high = _band(found[0])
        names = f"{tokenizer_of(found[0].part.model)} → {tokenizer_of(found[0].model)}"
        rows.append((model, names, low - 1, high - 1, *_spread(found, currency)))
    total = ("all that is compared", None, None, None, *_spread(compared, currency))
    return Table("token_band", "After, if tokens do not carry over between tokenizers", columns, tuple(rows), total)


def _spread(found: Iterable[Restated], currency: str) -> tuple[Cell, ...]:
    low = middle = high = Fraction(0)
    for each in found:
        cost, (least, most) = each.costs[-1] or Fraction(0), _band(each)
        low, middle, high = low + cost * least, middle + cost, high + cost * most
    return tuple(Money(value, currency) for value in (low, middle, high))


_TEXTS: Mapping[str, Callable[[Scenario], Iterable[str]]] = {
    "model_map": lambda scenario: (f"{old}={new}" for old, new in scenario.model_map),
    "price": lambda scenario: map(str, scenario.price),
    "at": lambda scenario: () if scenario.at is None else (f"prices of {scenario.at:%Y-%m-%d}",),
    "tier": lambda scenario: () if scenario.tier is None else (f"tier {scenario.tier}",),
    "batch_share": lambda scenario: () if scenario.batch_share is None else (f"batch {plain(scenario.batch_share)}",),
    "settlement": lambda scenario: (f"{name}={settlement}" for name, settlement in scenario.settlement),
    "discount": lambda scenario: (f"discount {name}={plain(share)}" for name, share in scenario.discount),
    "cache_share": lambda scenario: () if scenario.cache_share is None else (plain(scenario.cache_share),),
    "volume": lambda scenario: () if scenario.volume == 1 else (f"×{plain(scenario.volume)}",),
    "fx": lambda scenario: (f"{base}/{quote}={plain(rate)}" for base, quote, rate in scenario.fx),
}
"""How each of a scenario's fields is written on a page."""


def _said(scenario: Scenario, names: Iterable[str]) -> str:
    return "; ".join(text for name in names for text in _TEXTS[name](scenario))


def _facts(scenario: Scenario) -> tuple[Fact, ...]:
    said = {name: _said(scenario, (name,)) for names in STAGES.values() for name in names}
    facts = tuple(Fact(name, name.replace("_", " "), text) for name, text in said.items() if text)
    return facts or (Fact("scenario", "scenario", "nothing is changed"),)


def _notes(
    work: ServedWork, scenario: Scenario, restated: Sequence[Restated], engine: Engine, *, is_banded: bool
) -> tuple[Note, ...]:
    left_out = _requests(each for each in restated if not each.is_compared)
    idle = (*_idle(scenario, restated), *_idle_rates(scenario, engine))
    notes = [*work.notes]
    if left_out:
        text = (
            "could not be re-priced, and so are in no sum: parts of {count} attempts; the totals are lower bounds (≥), "
            "and the difference is that of the rest"
        )
        notes.append(Note("warning", text, {"count": (left_out, "count")}))
    notes += [
        *_warnings(engine),
        *(Note("warning", "{it}: concerns no call here", {"it": (it, "text")}) for it in idle),
    ]
    if is_banded:
        text = "token counts are as recorded; another tokenizer may make more or fewer of the same text"
        notes.append(Note("note", text))
    if scenario.model_map:
        notes.append(Note("note", "another model's answers may be longer or shorter: their length is as recorded"))
    if scenario.cache_share is not None:
        notes.append(Note("note", "cache share: of text input that is not written to a cache; writes are as recorded"))
    return (*notes, *engine.exchange.notes())


def _warnings(engine: Engine) -> Iterable[Note]:
    yield from retired_notes(engine.retired)
    text = "{model} has no {tier} price, and stays on its own tier; attempts: {count}"
    for (model, tier), parts in sorted(engine.kept.items()):
        count = sum(parts.values(), Fraction(0))
        yield Note("warning", text, {"model": (model, "text"), "tier": (tier, "text"), "count": (count, "count")})


def _idle(scenario: Scenario, restated: Iterable[Restated]) -> tuple[str, ...]:
    """Return the changes that concern nothing in the work, as they are written."""
    models = {each.part.model for each in restated}
    sold = {(each.model, each.price_list) for each in restated}
    sellers = {name for each in restated for name in (each.part.endpoint, each.part.price_list, each.price_list)}
    idle = [f"map {old}={new}" for old, new in scenario.model_map if old not in models]
    idle += [f"price {change}" for change in scenario.price if not any(change.concerns(*each) for each in sold)]
    idle += [f"discount {name}" for name, _ in scenario.discount if name not in sellers]
    return (*idle, *(f"settlement {name}" for name, _ in scenario.settlement if name not in sellers))


def _idle_rates(scenario: Scenario, engine: Engine) -> tuple[str, ...]:
    """Return the exchange rates that nothing was converted with, as they are written."""
    page = engine.exchange.currency
    used = [{page, code} for code in engine.converted if code != page]
    return tuple(f"fx {base}/{quote}" for base, quote, _ in scenario.fx if {base, quote} not in used)


def _footer(work: ServedWork, left_out: Sequence[Restated], catalog: Catalog, exchange: Exchange) -> tuple[Fact, ...]:
    counts: tuple[tuple[str, str, Cell, Kind], ...] = (
        ("rows_counted", "rows counted", work.rows_counted, "count"),
        ("rows_unpriced", "rows unpriced", work.rows_unpriced, "count"),
        ("rows_not_repriced", "rows not re-priced", _requests(left_out), "count"),
        ("estimates", "estimates", work.estimates, "count"),
    )
    return (
        *(Fact(*each) for each in counts),
        Fact("catalogue_date", "catalogue of", catalog.checked.isoformat()),
        Fact("baseline", "baseline", "prices and terms on record"),
        Fact("effects_order", "order of the effects", ", ".join(STAGES)),
        Fact("time_zone", "time zone", work.time_zone),
        exchange.fact(),
    )
