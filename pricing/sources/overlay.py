"""The text of a user's price file with a data set's prices taken over into it.

In: a `Comparison`, the catalogue's rows, and the file's text. Out: an `ImportPlan` with the new text. Invariant:
history is never changed. A new price holds from an instant on; the file's own row before it gets an end at that instant
and keeps its every other word; a bundled row is outranked from then on; rows of the user's other files stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

from pricing.catalog import Ranked
from pricing.conditions import CONTEXT_THRESHOLDS, Conditions
from pricing.lines import line_of
from pricing.money import plain
from pricing.price_file import GREATEST_AMOUNT, LEAST_AMOUNT, PlacedRow
from pricing.prices import PriceRow
from pricing.sources.differences import Comparison, Difference
from pricing.sources.entries import DataSet, Entry, Offer

HEADER = """\
# Prices taken over by `router prices import`. Rows are only ever added and closed, so that past calls keep their price.
"""
_Shared = tuple[str, str, Conditions, str, date, datetime | None]
"""What the rows of one block share: list, model, conditions, source, day checked, end."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A row to be written.

    Args:
        row: the row, in force from the import's instant on.
        replaces: the row that was in force, of the file or bundled; None: there was none.
    """

    row: PriceRow
    replaces: PriceRow | None = None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A price that is not taken over, and why."""

    model: str
    component: str
    reason: str


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do.

    Args:
        additions: rows to be written.
        closed: rows of the file that get an end.
        models: entries whose model is declared anew.
        skipped: prices that are not taken over.
        text: the file's whole text afterwards; the text before where nothing is to be done.
    """

    additions: tuple[Addition, ...]
    closed: tuple[PriceRow, ...]
    models: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]
    text: str


def plan_import(
    comparison: Comparison,
    rows: Iterable[Ranked],
    text: str,
    *,
    starts: datetime,
    checked: date,
    with_new: bool = False,
) -> ImportPlan:
    """Return what taking over a data set's differing prices does to a price file.

    Args:
        comparison: the data set held against the catalogue that the file is part of.
        rows: every row of that catalogue with its layer, as `Catalog.placed_rows` yields them.
        text: the file's text; "" where there is none yet.
        starts: aware instant from which the new prices hold.
        checked: day on which the data set was read.
        with_new: whether models that the catalogue does not have are added.
    """
    known = tuple(rows)
    bundled = tuple(placed.row for layer, placed in known if not layer)
    at = starts.astimezone(UTC)
    draft = _Draft(comparison.data, at, checked, _own(known, text), _others(known, text), bundled)
    for difference in comparison.differences:
        draft.take(difference)
    for entry in comparison.unknown if with_new else ():
        draft.take_new(entry)
    carried = draft.carried_on()
    blocks = [_model_block(entry) for entry in draft.models]
    blocks += _price_blocks([*(addition.row for addition in draft.additions), *carried])
    closed = _closed(text, draft.closing, draft.starts)
    before = closed or HEADER
    return ImportPlan(
        tuple(draft.additions),
        tuple(placed.row for placed in draft.own if _block(placed) in draft.closing),
        tuple(draft.models),
        tuple(draft.skipped),
        before.rstrip("\n") + "\n\n" + "\n".join(blocks) if blocks else text,
    )


@dataclass(slots=True)
class _Draft:
    data: DataSet
    starts: datetime
    checked: date
    own: Sequence[PlacedRow]
    others: Sequence[PlacedRow]
    bundled: Sequence[PriceRow]
    additions: list[Addition] = field(default_factory=list)
    models: list[Entry] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    closing: set[int] = field(default_factory=set)

    def take(self, difference: Difference) -> None:
        """Add a row for a price that differs, and close the file's own one before it."""
        offer = difference.offer
        row = self._row(difference.entry, difference.model, offer)
        same = [placed for placed in (*self.own, *self.others) if _alike(placed.row, row)]
        reason = _unfit(offer) or self._standing(same, difference)
        if reason:
            self.skipped.append(Skipped(difference.model, offer.component, reason))
            return
        self.closing |= {_block(placed) for placed in same if placed.row.in_force(self.starts)}
        self.additions.append(Addition(row, difference.row))

    def take_new(self, entry: Entry) -> None:
        """Add a model that the catalogue does not have, with all its prices."""
        fit = [offer for offer in entry.offers if not _unfit(offer)]
        unfit = ((offer, reason) for offer in entry.offers if (reason := _unfit(offer)))
        self.skipped += [Skipped(entry.names[0], offer.component, reason) for offer, reason in unfit]
        if fit and entry.names[0] not in {model.names[0] for model in self.models}:
            self.models.append(entry)
            self.additions += [Addition(self._row(entry, entry.names[0], offer)) for offer in fit]

    def carried_on(self) -> list[PriceRow]:
        """Return, for each block that is closed, its rows that keep their price, opened anew."""
        replaced = [addition.row for addition in self.additions]
        return [
            replace(placed.row, effective_from=self.starts)
            for placed in self.own
            if _block(placed) in self.closing and not any(_alike(placed.row, row) for row in replaced)
        ]

    def _standing(self, same: Iterable[PlacedRow], difference: Difference) -> str | None:
        """Return why a price of the user's own must stand, None where nothing is in the way."""
        if difference.row is not None and difference.row.conditions.timed:
            return "the catalogue's price depends on the clock; write such a row by hand"
        for placed in same:
            row = placed.row
            where = str(placed.place.fault("").file)
            if placed in self.others:
                return f"a row of your own in {where} stands"
            if row.effective_to is not None and row.effective_to > self.starts:
                return f"a row of the file already ends at {row.effective_to.isoformat()}"
            if row.effective_from is not None and row.effective_from >= self.starts:
                return f"a row of the file already starts at {row.effective_from.isoformat()}"
        return None

    def _row(self, entry: Entry, model: str, offer: Offer) -> PriceRow:
        row = PriceRow(
            price_list=entry.price_list,
            model=model,
            component=offer.component,
            currency="USD",
            amount=offer.amount,
            url=entry.url,
            source=self.data.source(entry.id),
            checked=self.checked,
            effective_from=self.starts,
            conditions=offer.conditions,
        )
        return replace(row, effective_to=self._next_change(row))

    def _next_change(self, row: PriceRow) -> datetime | None:
        """Return when the bundled list itself changes the price, as announced; the new row must not hide that."""
        starts = (known.effective_from for known in self.bundled if _alike(known, row))
        return min((at for at in starts if at is not None and at > self.starts), default=None)


def _own(rows: Iterable[Ranked], text: str) -> tuple[PlacedRow, ...]:
    """Return the rows that stand in the file."""
    return tuple(placed for layer, placed in rows if layer and text and placed.place.text == text)


def _others(rows: Iterable[Ranked], text: str) -> tuple[PlacedRow, ...]:
    """Return the rows of the user's other files."""
    return tuple(placed for layer, placed in rows if layer and not (text and placed.place.text == text))


def _block(placed: PlacedRow) -> int:
    """Return which [[prices]] of its file a row stands in, counted from 0."""
    return next(part for part in placed.place.path if isinstance(part, int))


def _alike(first: PriceRow, second: PriceRow) -> bool:
    """Return whether one row would outrank the other while both are in force."""
    return (first.price_list, first.model, first.component, first.conditions) == (
        second.price_list,
        second.model,
        second.component,
        second.conditions,
    )


def _unfit(offer: Offer) -> str | None:
    """Return why an offer cannot be a row, or None."""
    boundary = offer.conditions.boundary
    if offer.clocked:
        return "its price depends on the clock; write such a row by hand"
    if boundary is not None and boundary not in CONTEXT_THRESHOLDS:
        return f"no context threshold at {boundary:,} tokens is known"
    if offer.amount and not LEAST_AMOUNT <= offer.amount <= GREATEST_AMOUNT:
        return f"{plain(offer.amount)} looks like a price of another unit"
    return None


def _closed(text: str, blocks: Iterable[int], starts: datetime) -> str:
    """Return the text with an end written below the heading of each block."""
    lines = text.splitlines()
    headings = sorted((line for block in blocks if (line := line_of(text, ("prices", block)))), reverse=True)
    for heading in headings:
        lines.insert(heading, f"effective_to = {_instant(starts)}")
    return "\n".join(lines) + "\n" if lines else ""


def _price_blocks(rows: Iterable[PriceRow]) -> Iterator[str]:
    """Yield one [[prices]] block for the rows of equal model, conditions, source and end."""
    groups: dict[_Shared, list[PriceRow]] = {}
    for row in rows:
        shared = (row.price_list, row.model, row.conditions, row.source, row.checked, row.effective_to)
        groups.setdefault(shared, []).append(row)
    for (price_list, model, conditions, source, checked, end), group in groups.items():
        yield "\n".join(
            [
                "[[prices]]",
                f"list = {_text(price_list)}",
                f"model = {_text(model)}",
                f"effective_from = {_instant(group[0].effective_from)}",
                *([f"effective_to = {_instant(end)}"] if end else []),
                *([f"when = {_when(conditions)}"] if conditions.to_json() else []),
                *(f"{row.component} = {_text(plain(row.amount))}" for row in group),
                *([f"url = {_text(group[0].url)}"] if group[0].url else []),
                f"source = {_text(source)}",
                f"checked = {checked.isoformat()}",
                "",
            ]
        )


def _model_block(entry: Entry) -> str:
    names = ", ".join(_text(name) for name in entry.names[1:])
    sizes = (
        ("context_window_tokens", entry.context_window_tokens),
        ("max_output_tokens", entry.max_output_tokens),
    )
    return "\n".join(
        [
            "[[models]]",
            f"list = {_text(entry.price_list)}",
            f"id = {_text(entry.names[0])}",
            *([f"aliases = [{names}]"] if names else []),
            *(f"{key} = {count}" for key, count in sizes if count),
            "",
        ]
    )


def _when(conditions: Conditions) -> str:
    parts = [f"{key} = {_value(value)}" for key, value in conditions.to_json().items()]
    return "{ " + ", ".join(parts) + " }"


def _value(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _instant(at: datetime | None) -> str:
    return "" if at is None else at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
