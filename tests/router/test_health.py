"""Health: when an endpoint counts as down, how it comes back, and that its calls go to the fallback in between."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.client import Router
from router.endpoints.sandbox import Fault, Sandbox, SandboxThread
from router.errors import CallFailed, ConfigError, WrongUsage
from router.health import Condition
from router.ledger import open_ledger
from router.ledger.records import AttemptRow
from router.settings import Settings
from router.settings_file import load_settings
from router.settings_health import HealthSettings
from tests.new_ledger import new_ledger

SETTINGS = HealthSettings()


def state_of(condition: Condition) -> str:
    """Return its state: one that mypy does not take to stand still."""
    return condition.state


def test_five_failures_in_a_row_take_it_down_whatever_the_share() -> None:
    condition = Condition(SETTINGS, 0.0)
    for _ in range(4):
        condition.ended(1.0, good=False)
    condition.ended(1.0, good=True)
    for _ in range(4):
        condition.ended(1.0, good=False)
    assert state_of(condition) == "up"
    condition.ended(1.0, good=False)
    assert (state_of(condition), condition.why) == ("down", "5 failures in a row")


@pytest.mark.parametrize(
    ("good", "failed", "state"),
    [(47, 2, "up"), (48, 2, "down"), (99, 1, "up"), (198, 2, "up"), (197, 2, "down")],
)
def test_the_share_counts_from_fifty_requests_and_two_failures(good: int, failed: int, state: str) -> None:
    """2 of 49: too few; 2 of 50: 4 %; 1 of 100: one failure is none; 2 of 200: not above 1 %; 2 of 199: above."""
    condition = Condition(SETTINGS, 0.0)
    for number in range(failed - 1):
        condition.ended(1.0 + number / 100, good=False)
    for _ in range(good):
        condition.ended(2.0, good=True)
    condition.ended(3.0, good=False)
    assert state_of(condition) == state


def fallen() -> Condition:
    """Return an endpoint's condition that five failures in a row have taken down, at 1 s."""
    condition = Condition(SETTINGS, 0.0)
    for _ in range(5):
        condition.ended(1.0, good=False)
    return condition


def on_trial() -> Condition:
    """Return one that three good probes and 30 s have brought back, whose first call on trial went at 32 s."""
    condition = fallen()
    for at in (21.0, 26.0, 31.0):
        condition.probed(at, good=True)
    assert condition.takes(32.0)
    return condition


def test_failures_of_more_than_a_minute_ago_do_not_count() -> None:
    condition = Condition(SETTINGS, 0.0)
    condition.ended(0.0, good=False)
    for _ in range(60):
        condition.ended(61.0, good=True)
    condition.ended(62.0, good=False)
    assert state_of(condition) == "up"


def test_three_failed_probes_take_down_what_is_suspect() -> None:
    """A hung endpoint fails nothing; it is asked after 15 s of silence, and down after three questions 5 s apart."""
    condition = Condition(SETTINGS, 0.0)
    wanted = [condition.wants_probe]
    condition.quiet()
    assert [*wanted, condition.wants_probe] == [False, True]
    for at in (15.0, 20.0):
        condition.probed(at, good=False)
    assert state_of(condition) == "up"
    condition.probed(25.0, good=False)
    assert (state_of(condition), condition.why) == ("down", "3 probes failed")


def test_it_comes_back_by_probes_then_by_a_trickle() -> None:
    condition = fallen()
    assert not condition.takes(2.0)
    for at in (6.0, 11.0, 16.0, 21.0, 26.0):
        condition.probed(at, good=True)
    assert state_of(condition) == "down"  # 30 s are not over
    condition.probed(31.0, good=True)
    assert state_of(condition) == "trial"
    assert [condition.takes(32.0) for _ in range(20)] == [True, *[False] * 9, True, *[False] * 9]  # every tenth
    for _ in range(10):
        condition.ended(33.0, good=True)
    assert state_of(condition) == "up"
    assert all(condition.takes(34.0) for _ in range(20))
    assert not condition.wants_probe


def test_a_failed_trial_call_takes_it_down_for_another_while() -> None:
    condition = on_trial()
    condition.ended(33.0, good=False)
    for at in (38.0, 43.0, 48.0, 62.9):
        condition.probed(at, good=True)
        assert state_of(condition) == "down"
    condition.probed(63.0, good=True)
    assert state_of(condition) == "trial"


def test_thin_traffic_ends_a_trial_by_time() -> None:
    condition = on_trial()
    condition.ended(33.0, good=True)
    assert not condition.takes(90.0)
    assert condition.takes(91.0)
    assert state_of(condition) == "up"


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["good", "failed", "good probe", "failed probe", "asked", "quiet"]),
        st.integers(1, 6),
        st.floats(0, 20),
    ),
    max_size=50,
)


@given(events=EVENTS, has_probe=st.booleans())
def test_law_it_never_flaps_faster_than_is_set(events: list[tuple[str, int, float]], has_probe: bool) -> None:  # noqa: FBT001
    """Between going down and taking the first call again lie `min_down_s` at least, whatever happens."""
    condition, now, down_at = Condition(SETTINGS, 0.0, has_probe=has_probe), 0.0, None
    for what, wait_s in [(what, wait_s / times) for what, times, wait_s in events for _ in range(times)]:
        now += wait_s
        before = state_of(condition)
        if what in {"good", "failed"}:
            condition.ended(now, good=what == "good")
        elif what.endswith("probe"):
            condition.probed(now, good=what == "good probe")
        elif what == "asked":
            condition.takes(now)
        else:
            condition.quiet()
        if state_of(condition) == "down" and before != "down":
            down_at = now
        if before == "down" and state_of(condition) != "down":
            assert down_at is not None
            assert now - down_at >= SETTINGS.min_down_s


# With servers --------------------------------------------------------------------------------------------------------


class Pair:
    """Two stand-in servers: the office, whose fallback is the relay."""

    def __init__(self, stack: ExitStack, folder: Path, **more: Any) -> None:
        self.office = stack.enter_context(SandboxThread(Sandbox()))
        self.relay = stack.enter_context(SandboxThread(Sandbox()))
        self.database = new_ledger(folder / "ledger.db")
        office = {"base_url": self.office.base_url, "price_list": "openai", "fallback": "relay"}
        relay = {"base_url": self.relay.base_url, "price_list": "openai", "models": {"gpt-4o-mini": "gpt-4o-mini"}}
        self.settings = Settings.model_validate(
            {
                "database": {"url": self.database},
                "endpoints": {
                    "office": {**office, "fallback_models": {"gpt-4o": "gpt-4o-mini"}, **more.pop("office", {})},
                    "relay": {**relay, **more.pop("relay", {})},
                },
                "configurations": {"one": {"policy": "fixed", "orchestrator": "gpt-4o", "worker": "gpt-4o"}},
                "default_configuration": "one",
                "retry": {"base_s": 0.01, "max_s": 0.05},
                **more,
            }
        )

    def router(self) -> Router:
        return Router(self.settings, environ={})

    def rows(self, run_id: str | None = None) -> tuple[AttemptRow, ...]:
        with open_ledger(self.database) as ledger:
            runs = [run_id] if run_id else [run.started.run_id for run in ledger.reader.runs(0, 2**62)]
            return tuple(row for each in runs for row in ledger.reader.attempts(each))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Callable[..., Pair]]:
    with ExitStack() as stack:
        yield lambda **more: Pair(stack, tmp_path, **more)


def dead_url() -> str:
    """Return the URL of a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


async def test_r6_the_fallback_serves_in_one_call_of_two_attempts(pair: Callable[..., Pair]) -> None:
    """gpt-4o-mini: 0.15, cached 0.075, out 0.60 per Mtok. Read: 1,200 of which 1,024 cached; written: 20.

    176 · 0.15 + 1,024 · 0.075 + 20 · 0.60 = 26.4 + 76.8 + 12 = 115.2 µ$.
    """
    both = pair(office={"base_url": dead_url()})
    text = "a" * (1200 * 4 - len("user\n\n"))  # the sandbox counts "user", newline, text, newline, by four
    async with both.router() as router:  # the relay's cache is warmed by a text whose first 1,024 tokens are the same
        await router.route("a" * 1024 * 4 + "b" * 800, candidates=("gpt-4o-mini",), max_output_tokens=20)
        result = await router.route(text, max_output_tokens=20)

    (call,) = result.calls
    assert (call.model_asked, call.model_served, call.endpoint) == ("gpt-4o", "gpt-4o-mini", "relay")
    assert (call.attempts, call.status) == (2, "succeeded")
    assert call.usage is not None
    assert (call.usage.input_tokens, call.usage.cache_read_tokens, call.usage.output_tokens) == (1200, 1024, 20)
    assert result.cost.settled_usd == Decimal("0.0001152")
    assert "gpt-4o: served by the fallback relay with gpt-4o-mini, in place of office" in result.warnings
    first, second = both.rows(result.run_id)
    assert [(row.started.model_asked, row.started.endpoint, row.started.number) for row in (first, second)] == [
        ("gpt-4o", "office", 1),
        ("gpt-4o", "relay", 2),
    ]
    assert first.ended is not None
    assert second.ended is not None
    assert (first.ended.error_kind, first.ended.possibly_billed) == ("refused", False)
    assert second.ended.model_served == "gpt-4o-mini"


async def test_while_it_is_down_calls_go_straight_to_the_fallback_and_then_back(pair: Callable[..., Pair]) -> None:
    health = {"min_down_s": 2, "probe_s": 0.05, "probe_successes": 2, "trial_share": 0.5, "trial_calls": 2}
    both = pair(relay={"models": None}, health=health)
    both.office.sandbox.set_faults({"*": Fault(status=500)})
    async with both.router() as router:
        for number in range(8):
            await router.route(f"task {number}")
        assert len(both.office.log) == 5  # then it is down
        assert router.health()["office"].state == "down"
        assert len(both.relay.log) == 8
        both.office.sandbox.set_faults({})
        deadline = time.monotonic() + 20
        while router.health()["office"].state != "trial" and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        results = [await router.route(f"again {number}") for number in range(6)]
        assert router.health()["office"].state == "up"
    # on trial every second call goes there; after two answers all do
    assert [result.calls[0].endpoint for result in results] == ["office", "relay", "office", *["office"] * 3]
    assert {result.calls[0].attempts for result in results} == {1}


async def test_a_silent_endpoint_is_found_by_asking_it(pair: Callable[..., Pair]) -> None:
    """A listener that never answers fails the probes alone: calls go to the fallback, those that wait, too."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        health = {"quiet_s": 0.2, "probe_s": 0.1, "probe_timeout_s": 0.1, "probe_failures": 2}
        both = pair(office={"base_url": url, "concurrency": 1}, health=health)
        async with both.router() as router:
            hanging = asyncio.create_task(router.route("hello"))
            waiting = [asyncio.create_task(router.route(f"hello {number}")) for number in range(3)]  # at its gate
            deadline = time.monotonic() + 20
            while not router.health() or router.health()["office"].state != "down":
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            result = await router.route("hello again")
            moved = await asyncio.wait_for(asyncio.gather(*waiting), 20)
            hanging.cancel()
            await asyncio.wait([hanging])
    assert {(each.calls[0].endpoint, each.calls[0].attempts) for each in (result, *moved)} == {("relay", 1)}


async def test_a_refused_call_waits_at_its_own_endpoint(pair: Callable[..., Pair]) -> None:
    """429 says "too much", not "broken": the fallback is not asked."""
    both = pair()
    both.office.sandbox.set_faults({"*": Fault(status=429, first=2)})
    async with both.router() as router:
        result = await router.route("hello")
    assert (result.calls[0].endpoint, result.calls[0].attempts) == ("office", 3)
    assert both.relay.log == ()


async def test_a_request_that_may_have_been_billed_moves_once(pair: Callable[..., Pair]) -> None:
    """W6 with a fallback: the connection drops at both; two requests, both on record as possibly billed."""
    both = pair()
    for server in (both.office, both.relay):
        server.sandbox.set_faults({"*": Fault(drop=True)})
    async with both.router() as router:
        with pytest.raises(CallFailed):
            await router.route("hello")
    assert (len(both.office.log), len(both.relay.log)) == (1, 1)
    assert [row.ended.possibly_billed for row in both.rows() if row.ended] == [True, True]


async def test_a_wrong_key_is_told_not_covered_up(pair: Callable[..., Pair]) -> None:
    both = pair()
    both.office.sandbox.set_faults({"*": Fault(status=401)})
    async with both.router() as router:
        with pytest.raises(CallFailed, match="401"):
            await router.route("hello")
    assert both.relay.log == ()


def load(folder: Path, text: str) -> Settings:
    (folder / "router.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, {})


def test_a_circular_or_unknown_fallback_is_a_fault_in_one_line_each(tmp_path: Path) -> None:
    text = """
[endpoints.a]
base_url = "http://localhost/v1"
fallback = "b"
[endpoints.b]
base_url = "http://localhost/v1"
fallback = "c"
[endpoints.c]
base_url = "http://localhost/v1"
fallback = "a"
[endpoints.d]
base_url = "http://localhost/v1"
fallback = "d"
[endpoints.e]
base_url = "http://localhost/v1"
fallback = "opanai"
[endpoints.f]
base_url = "http://localhost/v1"
fallback = "openai"
"""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert str(caught.value).splitlines() == [
        "router.toml:4: endpoints.a.fallback leads back to itself: a → b → c → a",
        "router.toml:13: endpoints.d.fallback leads back to itself: d → d",
        "router.toml:16: endpoints.e.fallback is 'opanai', which does not exist; did you mean openai?",
    ]


def test_a_fallback_that_cannot_offer_the_model_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from router.cli.config_check import checked_settings

    text = """
[endpoints.office]
base_url = "http://localhost/v1"
price_list = "openai"
models = { "gpt-4o" = "gpt-4o", "gpt-4.1" = "gpt-4.1" }
fallback = "relay"
fallback_models = { "gpt-4.1" = "gpt-9" }
[endpoints.relay]
base_url = "http://localhost/v1"
price_list = "openai"
models = { "gpt-4o-mini" = "gpt-4o-mini" }
"""
    (tmp_path / "router.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongUsage) as caught:
        checked_settings()
    models, fallback = str(caught.value).splitlines()
    assert models == (
        "router.toml:7: endpoints.office.fallback_models.\"gpt-4.1\" is 'gpt-9', a model that relay does not offer"
    )
    assert fallback == (
        "router.toml:6: endpoints.office.fallback is 'relay', which does not offer gpt-4o; "
        "name another in fallback_models"
    )
