"""What a reader of a comparison must know to read its tables right.

In: contenders, single models, the prices. Out: notes, warnings first. Invariant: every figure that is not known has its
reason here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from reports.baselines import Baselines
from reports.contenders import BEST, CHEAPEST, ON_RECORD, Contender, missing_quality
from reports.page import Cell, Kind, Note
from reports.price_facts import retired_notes
from reports.repricing import Basis, Repriced


def compare_notes(
    them: Sequence[Contender], tried: Baselines, bases: Mapping[str, Basis], basis: Basis
) -> tuple[Note, ...]:
    """Return the notes of a comparison.

    Args:
        them: the contenders in the order shown.
        tried: the single models; none were tried for totals given by hand.
        bases: the prices of each configuration by name.
        basis: the prices that the page names.
    """
    repriced = [each.repriced for each in them if each.mark is None and each.repriced is not None]
    lists = {name: each.price_list for name, each in bases.items()}
    retired = {model: at for each in repriced for model, at in each.retired.items()}
    notes = [*retired_notes(retired), *_unpriced(repriced, lists), *_bought_elsewhere(bases, basis)]
    if not any(each.mark == ON_RECORD for each in them):
        return tuple(notes)
    return (*notes, *_bands(them), *_latency(them), *_quality(them), *_singles(tried))


def _unpriced(repriced: Iterable[Repriced], lists: Mapping[str, str]) -> Iterable[Note]:
    """Yield a warning per list and component that the list has no price for, naming the models."""
    lines = [(lists[each.name], line) for each in repriced for line in each.unpriced]
    text = (
        "price list {list} has no {component} price of {models}; a total with such a part is a lower bound (≥) or "
        "unknown (–); unpriced lines: {count}"
    )
    for price_list, component in dict.fromkeys((price_list, line.component) for price_list, line in lines):
        models = [line.model for name, line in lines if (name, line.component) == (price_list, component)]
        values: dict[str, tuple[Cell, Kind]] = {
            "list": (price_list, "text"),
            "component": (component, "text"),
            "models": (", ".join(sorted(set(models))), "text"),
            "count": (len(models), "count"),
        }
        yield Note("warning", text, values)


def _bought_elsewhere(bases: Mapping[str, Basis], basis: Basis) -> Iterable[Note]:
    for name, each in bases.items():
        if each != basis:
            paid = ", ".join(
                f"{step.name} ×{step.factor}{f' {step.currency}' if step.currency else ''}"
                for step in each.terms.steps()
            )
            text = "{name}: bought at price list {list}; on top of it: {terms}"
            values: dict[str, tuple[Cell, Kind]] = {
                "name": (name, "text"),
                "list": (each.price_list, "text"),
                "terms": (paid or "nothing", "text"),
            }
            yield Note("note", text, values)


def _bands(them: Iterable[Contender]) -> Iterable[Note]:
    """Yield what the cost bands stand on, or why there are none and how much of the cost was measured."""
    for each in them:
        if each.repriced is None or each.exact_cost is None or each.low is not None:
            continue
        reasons = dict.fromkeys(band.reason for band in each.bands if band.reason is not None)
        measured = sum((band.cost or Fraction(0) for band in each.bands if band.low is not None), Fraction(0))
        share = measured / each.exact_cost if each.exact_cost else Fraction(0)
        text = "{name}: no band, since tokens were measured for {share} of its cost only"
        text += "; {reason}" if reasons else ""
        values: dict[str, tuple[Cell, Kind]] = {
            "name": (each.name, "text"),
            "share": (share, "share"),
        }
        if reasons:
            values["reason"] = ("; ".join(map(str, reasons)), "text")
        yield Note("note", text, values)
    if any(each.repriced is not None and each.low is not None for each in them):
        text = (
            "cost at least and at most: every role and class at the end of its 80 % interval at once; measured where "
            "both models ran it, though not on the same tasks"
        )
        yield Note("note", text)


def _latency(them: Sequence[Contender]) -> Iterable[Note]:
    if any(each.p50_ms is not None for each in them):
        yield Note("note", "p50 and p95 are of each model in the same class as measured here, within 5 %")
    unknown = [each.name for each in them if each.p50_ms is None]
    if unknown:
        text = "no latency, since some class was not run by the model that is to do it: {names}"
        yield Note("note", text, {"names": (", ".join(unknown), "text")})


def _quality(them: Sequence[Contender]) -> Iterable[Note]:
    yield Note(
        "note",
        "quality is – because scores of judged answers are not compared yet; nothing measured here stands for it",
    )
    if any(each.quality.bound_share is not None for each in them):
        text = (
            "published: not measured here, but the lower bound of published benchmark scores (docs/quality-priors.md), "
            "over the share of calls whose class has a benchmark"
        )
        yield Note("note", text)
    else:
        yield Note("note", "no published quality either: no call is of a class that has a benchmark, or a figure lacks")
    missing = missing_quality(them)
    if missing:
        pairs = ", ".join(f"{model} ({task_class})" for model, task_class in missing)
        yield Note("note", "no published figure for {pairs}", {"pairs": (pairs, "text")})


def _singles(tried: Baselines) -> Iterable[Note]:
    if not tried.singles:
        return
    text = (
        "best and cheapest single: one model for all of it, of those that the configurations name; each request fits "
        "it, and where a class has a quality floor its published bound meets it"
    )
    yield Note("note", text)
    if tried.cheapest is None:
        text = "no {kind}: none of the models that the configurations name could have done all of it"
        yield Note("warning", text, {"kind": (CHEAPEST, "text")})
    if tried.best is None:
        text = "no {kind}: no single model that could do all of it has a published quality in these classes"
        yield Note("note", text, {"kind": (BEST, "text")})
