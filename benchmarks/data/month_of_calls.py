"""A month of calls that never were, written into a ledger by the bulk path: seeded, so the same month every time.

In: a ledger, a number of calls, a seed. Out: its rows: runs of one call and of many, tenants and classes of which few
have most of the calls, nights and week-ends with less traffic, retries after 429s and time-outs, prompt caches, long
contexts. Prices are the catalogue's, costs exact. Memory does not grow with the number of calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from pricing import PriceSet, bulk, load_catalog
from pricing.bulk_rates import Served
from pricing.conditions import CONTEXT_THRESHOLDS
from router.ledger import Ledger
from router.ledger.database import for_writing
from router.ledger.latency import BOUNDS_US
from router.ledger.rows import DAY_US, QUARTER_HOUR_US, tags_document, tags_id
from router.ledger.tables import runs, tag_sets

START = datetime(2026, 10, 1, tzinfo=UTC)
DAYS = 31
_START_US = int(START.timestamp()) * 1_000_000
_ROWS_AT_ONCE = 50_000
_MODELS = (
    *("gpt-4.1-mini", "gpt-4.1", "gemini-2.5-flash", "gpt-5-mini", "claude-sonnet-4.5"),
    *("gpt-4.1-nano", "gemini-2.5-pro", "gpt-5", "kimi-k2"),
)
_CLASSES = ("extract", "chat", "summarise", "code", "research", "classify")
_TENANTS = ("retail", "support", "legal", "search", "finance", "labs")
_TEAMS: tuple[dict[str, str], ...] = ({"team": "a"}, {"team": "b"}, {"team": "c", "env": "staging"}, {})
_PROFILES = 16
_HOURS = np.array([2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 12, 11, 10, 11, 12, 12, 11, 9, 8, 7, 6, 5, 4, 3], float)
_WEEKDAYS = np.array([1.1, 1.15, 1.15, 1.1, 1.0, 0.45, 0.4])
_BUCKETS = ("uncached_input_tokens", "cache_read_tokens", "plain_output_tokens", "reasoning_tokens")
_Whole = NDArray[np.int64]

COLUMNS = (
    *("attempt_id", "run_id", "call_key", "number", "origin", "role", "configuration", "task_class", "tenant"),
    *("endpoint", "price_list", "model_asked", "model_served", "status", "error_kind", "http_status"),
    *("started_us", "day", "quarter_hour", "queue_us", "state_us", "network_us", "inference_us", "latency_us"),
    *("ttft_us", "latency_bucket", "uncached_input_tokens", "cache_read_tokens", "cache_write_5m_tokens"),
    *("cache_write_1h_tokens", "audio_input_tokens", "image_input_tokens", "plain_output_tokens"),
    *("reasoning_tokens", "audio_output_tokens", "image_output_tokens", "web_searches", "usage_estimated"),
    *("context_tier", "price_set_id", "cost_status", "cost_currency", "cost_micro", "cost_pico"),
    *("settled_currency", "settled_micro", "settled_pico", "reserved_usd_micro", "reserved_usd_pico"),
    *("possibly_billed", "tags_id"),
)


@dataclass(frozen=True, slots=True)
class _Profile:
    """Calls that are alike: who makes them, for what, with which model."""

    tenant: str
    task_class: str
    configuration: str
    role: str
    model: str
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class _World:
    """What does not change from call to call."""

    profiles: tuple[_Profile, ...]
    prices: tuple[PriceSet | None, ...]
    lists: tuple[str, ...]
    weights: NDArray[np.float64]


def fill(ledger: Ledger, calls: int, days: int = DAYS, seed: int = 7) -> None:
    """Write about so many calls, and their retries, into an empty ledger.

    Args:
        ledger: where to.
        calls: first attempts; about 4 % more attempts are retries.
        days: over how many days from `START` on.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    world = _world(random)
    engine = ledger._engine  # noqa: SLF001 - a benchmark looks behind the door
    ledger.write_now(*{prices.id: prices for prices in world.prices if prices is not None}.values())
    tags = [{"tags_id": tags_id(each), "document": tags_document(each)} for each in _TEAMS if each]
    with for_writing(engine).begin() as connection:
        connection.execute(sa.insert(tag_sets), tags)
    number = 0
    for starts in _starts(random, calls, days):
        number = _write(ledger, engine, world, random, starts, number)


def _world(random: np.random.Generator) -> _World:
    catalog = load_catalog()
    picked = random.integers(0, [len(_TENANTS), len(_CLASSES), 3, len(_MODELS), len(_TEAMS)], (_PROFILES, 5))
    profiles = tuple(
        _Profile(
            _TENANTS[tenant],
            _CLASSES[task_class],
            ("hybrid", "all-gpt-4.1", "by_class")[configuration],
            ("single", "worker", "orchestrator")[at % 3],
            _MODELS[model],
            _TEAMS[team],
        )
        for at, (tenant, task_class, configuration, model, team) in enumerate(picked.tolist())
    )
    lists = tuple(catalog.vendor_list(each.model) for each in profiles)
    sets = [catalog.price_set(each.model, seller, START) for each, seller in zip(profiles, lists, strict=True)]
    weights = 1.0 / np.arange(1, _PROFILES + 1)
    return _World(profiles, tuple(sets), lists, weights / weights.sum())


def _starts(random: np.random.Generator, calls: int, days: int) -> Iterator[_Whole]:
    """Yield the calls' instants in pieces, rising, microseconds."""
    dates = [START + timedelta(days=number) for number in range(days)]
    rate = np.concatenate([_HOURS * _WEEKDAYS[day.weekday()] for day in dates])
    counts = random.multinomial(calls, rate / rate.sum())
    hour_us = 3_600_000_000
    held: list[_Whole] = []
    for hour, count in enumerate(counts.tolist()):
        held.append(np.sort(_START_US + hour * hour_us + random.integers(0, hour_us, count)))
        if sum(map(len, held)) >= _ROWS_AT_ONCE:
            yield np.concatenate(held)
            held = []
    if held:
        yield np.concatenate(held)


def _write(
    ledger: Ledger, engine: sa.Engine, world: _World, random: np.random.Generator, starts: _Whole, number: int
) -> int:
    calls = len(starts)
    # A run has one call, or (one in twelve) thirty that follow each other.
    first = random.random(calls) < 1 / 3
    first[0] = True
    run_of = np.cumsum(first) - 1
    run_starts = starts[first]
    profile_of_run = random.choice(len(world.profiles), len(run_starts), p=world.weights)
    run_ids = [_id(at_us, number + place, 1) for place, at_us in enumerate(run_starts.tolist())]
    with for_writing(engine).begin() as connection:
        connection.execute(sa.insert(runs), list(_runs(world, random, run_ids, run_starts, profile_of_run)))
    retried = random.random(calls) < 0.04
    order = np.sort(np.concatenate([np.arange(calls), np.flatnonzero(retried)]))
    columns = _columns(world, random, starts[order], profile_of_run[run_of[order]])
    again = np.concatenate([[False], order[1:] == order[:-1]])
    failed = np.concatenate([again[1:], [False]])
    _fail(columns, failed, random)
    columns["number"] = (1 + again).tolist()
    columns["run_id"] = [run_ids[run] for run in run_of[order].tolist()]
    columns["call_key"] = [f"call:{number + call}" for call in order.tolist()]
    ids = zip(columns["started_us"], range(2 * number, 2 * number + len(order)), strict=True)
    columns["attempt_id"] = [_id(at_us, serial, 2) for at_us, serial in ids]
    rows = zip(*(columns[name] for name in COLUMNS), strict=True)
    ledger.insert_attempts(COLUMNS, rows)
    return number + calls


def _id(at_us: int, serial: int, kind: int) -> str:
    """Return a UUIDv7 whose random part is a number."""
    digits = f"{at_us // 1000:012x}7{kind:03x}8{serial:015x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _runs(
    world: _World, random: np.random.Generator, ids: Sequence[str], starts: _Whole, profiles: _Whole
) -> Iterator[dict[str, Any]]:
    failed = random.random(len(ids)) < 0.02
    for run_id, start_us, place, is_failed in zip(ids, starts.tolist(), profiles.tolist(), failed, strict=True):
        profile = world.profiles[place]
        yield {
            "run_id": run_id,
            "configuration": profile.configuration,
            "policy_version": "1",
            "task_class": profile.task_class,
            "tenant": profile.tenant,
            "tags": tags_document(profile.tags),
            "status": "failed" if is_failed else "succeeded",
            "started_us": start_us,
            "ended_us": start_us + 60_000_000,
        }


def _columns(world: _World, random: np.random.Generator, starts: _Whole, profiles: _Whole) -> dict[str, list[Any]]:
    """Return the columns of answered attempts."""
    rows = len(starts)
    fresh = random.lognormal(7.2, 1.1, rows).astype(np.int64) + 20
    fresh[random.random(rows) < 0.004] *= 60  # long contexts
    usage = {
        "uncached_input_tokens": fresh,
        "cache_read_tokens": np.where(random.random(rows) < 0.4, fresh // 2, 0),
        "plain_output_tokens": random.lognormal(5.6, 0.9, rows).astype(np.int64) + 1,
        "reasoning_tokens": np.where(random.random(rows) < 0.2, random.integers(50, 2_000, rows), 0),
    }
    served = [Served(prices) for prices in world.prices]
    priced = bulk.price(usage, served, at=START, group=profiles)
    latency = random.lognormal(14.4, 0.6, rows).astype(np.int64)
    size = usage["uncached_input_tokens"] + usage["cache_read_tokens"]
    known = priced.status != bulk.STATUSES.index("unknown")
    amounts = {name: _nullable(getattr(priced, f"cost_{name}"), known) for name in ("micro", "pico")}
    currencies = [prices.currency if prices is not None else None for prices in world.prices]
    streamed = random.random(rows) < 0.5
    picked = profiles.tolist()
    by_profile: dict[str, list[Any]] = {
        "role": [each.role for each in world.profiles],
        "configuration": [each.configuration for each in world.profiles],
        "task_class": [each.task_class for each in world.profiles],
        "tenant": [each.tenant for each in world.profiles],
        "endpoint": [f"{seller}-direct" for seller in world.lists],
        "price_list": list(world.lists),
        "model_asked": [each.model for each in world.profiles],
        "model_served": [each.model for each in world.profiles],
        "price_set_id": [prices.id if prices is not None else None for prices in world.prices],
        "cost_currency": currencies,
        "settled_currency": currencies,
        "tags_id": [tags_id(each.tags) for each in world.profiles],
    }
    return {
        **{name: [values[place] for place in picked] for name, values in by_profile.items()},
        **{name: [0] * rows for name in _UNUSED},
        **{name: column.tolist() for name, column in usage.items()},
        "origin": ["routed"] * rows,
        "status": ["succeeded"] * rows,
        "error_kind": [None] * rows,
        "http_status": [200] * rows,
        "started_us": starts.tolist(),
        "day": (starts // DAY_US).tolist(),
        "quarter_hour": (starts // QUARTER_HOUR_US).tolist(),
        "queue_us": random.integers(0, 2_000, rows).tolist(),
        "state_us": random.integers(200, 900, rows).tolist(),
        "network_us": random.integers(8_000, 90_000, rows).tolist(),
        "inference_us": latency.tolist(),
        "latency_us": latency.tolist(),
        "ttft_us": _nullable(latency // 5, streamed),
        "latency_bucket": np.searchsorted(BOUNDS_US, latency, side="right").tolist(),
        "usage_estimated": (random.random(rows) < 0.01).tolist(),
        "context_tier": np.searchsorted(CONTEXT_THRESHOLDS, size, side="left").tolist(),
        "cost_status": [bulk.STATUSES[status] for status in priced.status.tolist()],
        "cost_micro": amounts["micro"],
        "cost_pico": amounts["pico"],
        "settled_micro": amounts["micro"],
        "settled_pico": amounts["pico"],
        "reserved_usd_micro": [50_000] * rows,
        "reserved_usd_pico": [0] * rows,
        "possibly_billed": [False] * rows,
    }


_UNUSED = (
    *("cache_write_5m_tokens", "cache_write_1h_tokens", "audio_input_tokens", "image_input_tokens"),
    *("audio_output_tokens", "image_output_tokens", "web_searches"),
)


def _nullable(column: _Whole, known: NDArray[np.bool_]) -> list[int | None]:
    return [value if is_known else None for value, is_known in zip(column.tolist(), known.tolist(), strict=True)]


def _fail(columns: dict[str, list[Any]], failed: NDArray[np.bool_], random: np.random.Generator) -> None:
    """Make some attempts refusals by a rate limit, and some of them time-outs, which may have been billed."""
    nothing = (*_UNUSED, *_BUCKETS, "cost_micro", "cost_pico", "settled_micro", "settled_pico", "ttft_us")
    for row in np.flatnonzero(failed).tolist():
        is_late = random.random() < 0.1
        for name in (*nothing, "cost_currency", "settled_currency", "context_tier", "price_set_id", "model_served"):
            columns[name][row] = None
        columns["cost_status"][row] = "unknown"
        columns["usage_estimated"][row] = False
        columns["status"][row] = "timed_out" if is_late else "failed"
        columns["error_kind"][row] = "timeout" if is_late else "rate_limited"
        columns["http_status"][row] = None if is_late else 429
        columns["possibly_billed"][row] = is_late
