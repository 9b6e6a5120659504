"""Gates: the limit follows what is taken, a pause holds for all, nobody starves, and no place is ever lost."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.concurrency import Concurrency
from router.errors import EndpointError
from router.limits import Gate, TurnedAway
from router.pacing import Pace
from router.retries import RetryBudget
from router.settings import RetrySettings
from router.settings_health import GateSettings
from router.tempo import Tempo
from router.wave import Place, Wave
from router.window import Window
from tests.router.clock import run


@dataclass
class Upstream:
    """A server that takes so many at once, answers after `latency_s`, and refuses the rest at once."""

    takes: Callable[[float], int]
    latency_s: float = 0.1
    per_s: float = math.inf
    retry_after_s: float | None = 0.5
    in_flight: int = 0
    most: int = 0
    refused: list[float] = field(default_factory=list)
    begun: deque[float] = field(default_factory=deque)

    def is_too_much(self, now: float) -> bool:
        """Return whether one more crosses what it takes at once, or took in the last second."""
        while self.begun and self.begun[0] <= now - 1:
            self.begun.popleft()
        return self.in_flight >= self.takes(now) or len(self.begun) >= self.per_s

    async def call(self, gate: Gate) -> bool:
        """Go through the gate once; return whether it was taken."""
        now = asyncio.get_running_loop().time
        place = await gate.enter()
        try:
            if self.is_too_much(now()):
                await asyncio.sleep(0.01)
                self.refused.append(now())
                gate.refused(place, self.retry_after_s)
                return False
            self.begun.append(now())
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            try:
                await asyncio.sleep(self.latency_s)
            finally:
                self.in_flight -= 1
            gate.answered(place)
            return True
        finally:
            gate.leave(place)

    async def until_taken(self, gate: Gate) -> int:
        """Go through until it is taken; return how many attempts that took."""
        attempts = 1
        while not await self.call(gate):
            attempts += 1
        return attempts


def test_the_limit_doubles_until_it_is_refused_and_then_stays_below() -> None:
    """8 go in first, and each answer adds one: 16, then more a few at a time, until one beyond 20 is refused."""

    async def main() -> None:
        gate, upstream = Gate(64, settings=GateSettings(hold_pauses=1000, hold_max_s=3600)), Upstream(lambda _: 20)
        await asyncio.gather(*(upstream.until_taken(gate) for _ in range(1000)))
        course = [point.limit for point in gate.state.course]
        top = course.index(max(course))
        assert course[: top + 1] == list(range(8, max(course) + 1))
        assert 21 <= max(course) <= 32
        assert gate.state.course[top].at_s < 0.4  # 8, 16 and 32 are three rounds of 0.1 s
        assert gate.limit in {19, 20}
        assert (gate.state.pauses, upstream.most) == (1, 20)
        assert 1 <= len(upstream.refused) == gate.state.refused <= 4  # of 32 at once it would be 12

    run(main())


def test_requests_keep_a_distance_once_a_latency_is_known() -> None:
    """20 at once at first; after 0.1 s the next 20 come over half of that."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate, begun = Gate(20, first=20), []

        async def one() -> None:
            async with gate.slot() as place:
                begun.append(loop.time())
                await asyncio.sleep(0.1)
                gate.answered(place)

        await asyncio.gather(*(one() for _ in range(40)))
        assert begun[19] - begun[0] < 0.001
        assert 0.04 <= begun[39] - begun[20] <= 0.06  # 19 distances of 0.05 s / 20

    run(main())


@pytest.mark.parametrize(
    ("takes", "latency_s", "per_s", "retry_after_s", "ideal_s", "most_share", "most_refused"),
    [
        (60, 0.1, math.inf, 0.5, 10.0, 1.15, 8),  # a wide endpoint: 600 a second
        (5, 0.1, math.inf, 0.5, 10.0, 1.15, 5),  # of the first 8 three are refused
        (1, 0.1, math.inf, 0.5, 10.0, 1.1, 8),
        (100, 0.1, 600, 0.5, 10.0, 1.15, 15),  # it takes more at once than its rate; a refusal takes 10 ms, 6 requests
        (100, 0.4, 30, 0.5, 10.0, 1.2, 6),  # a rate that is refused before a second round has shown what is taken
        (20, 0.1, 150, None, 10.0, 1.2, 10),  # nobody says for how long
    ],
)
def test_what_an_endpoint_takes_is_found_soon_whatever_it_is(
    takes: int,
    latency_s: float,
    per_s: float,
    retry_after_s: float | None,
    ideal_s: float,
    most_share: float,
    most_refused: int,
) -> None:
    """As many calls as the endpoint can take in the ideal time, takes / latency a second or its rate."""
    calls = round(ideal_s * min(takes / latency_s, per_s))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate, begun = Gate(100, chance=random.Random(1)), loop.time()
        upstream = Upstream(lambda _: takes, latency_s, per_s, retry_after_s)
        await asyncio.gather(*(upstream.until_taken(gate) for _ in range(calls)))
        assert loop.time() - begun <= most_share * ideal_s
        assert len(upstream.refused) <= most_refused

    run(main())


def test_s11_a_storm_brings_the_limit_from_fifty_to_what_is_taken_and_back() -> None:
    """50 at once for 5 s, 5 for the next 20 s, then 50 again; calls never stop coming."""
    takes = [(5.0, 50), (25.0, 5), (9e9, 50)]

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        gate = Gate(50, first=50)
        upstream = Upstream(lambda now: next(most for end, most in takes if now - begun < end), latency_s=0.2)

        async def worker() -> None:
            while loop.time() - begun < 60:
                await upstream.until_taken(gate)

        async with asyncio.TaskGroup() as group:
            for _ in range(100):
                group.create_task(worker())
        course = gate.state.course
        storm = [point.limit for point in course if 8 <= point.at_s < 25]
        assert course[0].limit == 50
        assert set(storm) <= {3, 4, 5, 6}  # what is taken, and one beyond where that is tried
        assert course[-1].limit == 50
        back = next(point.at_s for point in course if point.at_s > 25 and point.limit >= 45)
        assert back < 50
        assert len(upstream.refused) < 50 - 5 + 5  # its onset, and a trial now and then

    run(main())


@pytest.mark.parametrize("latency_s", [0.05, 0.1, 0.13])
@pytest.mark.parametrize("retry_after_s", [0.2, 0.5, 1.0])
def test_a_storm_of_1500_calls_takes_little_longer_than_it_must(latency_s: float, retry_after_s: float) -> None:
    """20 at once and 150 a second, which nobody is told: 10 s at best, at most 1.4 % refused, 15 % longer.

    Two pauses of a whole second each are more than that by themselves: 25 % then.
    """

    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate, begun = Gate(100, chance=random.Random(1)), loop.time()
        upstream = Upstream(lambda _: 20, latency_s, 150, retry_after_s)
        await asyncio.gather(*(upstream.until_taken(gate) for _ in range(1500)))
        wall_s = loop.time() - begun
        assert len(upstream.refused) <= 20
        assert wall_s <= (11.5 if retry_after_s < 1 else 12.5)

    run(main())


def test_a_storm_without_retry_after_costs_few_requests_and_no_call() -> None:
    """All are refused for 10 s, nobody says for how long, 50 workers: under 20 refusals, none is refused often."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + 10
        gate = Gate(64)
        upstream = Upstream(lambda now: 0 if now < end else 50, retry_after_s=None)
        attempts = await asyncio.gather(*(upstream.until_taken(gate) for _ in range(50)))
        # 8 at first; then one each time, after pauses of at most 0.5, 1, 2, 4 and 8 s, of which at least half is kept
        assert 8 + 3 <= len(upstream.refused) <= 8 + 7
        assert max(attempts) <= 3
        assert loop.time() - end < 8 + 1

    run(main())


def test_one_pause_holds_for_all_and_a_longer_one_is_not_cut_short() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate = Gate(8)
        first, second = await gate.enter(), await gate.enter()
        begun = loop.time()
        gate.refused(first, 2.0)
        gate.refused(second, 1.0)
        gate.leave(first)
        gate.leave(second)
        places = await asyncio.gather(*(gate.enter() for _ in range(4)))
        assert loop.time() - begun == pytest.approx(2.0, abs=0.01)
        assert len(places) == 4
        assert gate.state.pauses == 1

    run(main())


def test_a_refusal_from_before_the_pause_neither_cuts_nor_pauses_again() -> None:
    async def main() -> None:
        gate = Gate(10, first=10)
        early, late, *others = [await gate.enter() for _ in range(10)]
        gate.refused(early, 0.1)
        for place in (early, *others):
            gate.leave(place)
        await asyncio.sleep(0.2)  # the pause is over
        assert gate.limit == 1  # what was taken of the wave, as far as is known: that one
        gate.refused(late, None)
        gate.leave(late)
        assert (gate.limit, gate.state.pauses, gate.state.paused_s) == (1, 1, 0)

    run(main())


def test_after_a_pause_without_a_stated_end_one_goes_first() -> None:
    async def main() -> None:
        gate = Gate(8)
        place = await gate.enter()
        gate.refused(place, None)
        gate.leave(place)
        waiting = [asyncio.ensure_future(gate.enter()) for _ in range(5)]
        await asyncio.sleep(0.6)  # the pause is 0.25 to 0.5 s
        asking = [each for each in waiting if each.done()]
        assert len(asking) == 1
        gate.answered(asking[0].result())
        gate.leave(asking[0].result())
        await asyncio.gather(*waiting)

    run(main())


@pytest.mark.parametrize("ending", ["left", "slow"])
def test_who_went_first_and_says_nothing_holds_nobody_up_for_long(ending: str) -> None:
    async def main() -> None:
        gate = Gate(8)
        place = await gate.enter()
        gate.refused(place, None)
        gate.leave(place)
        waiting = [asyncio.ensure_future(gate.enter()) for _ in range(3)]
        first = await waiting[0]
        if ending == "left":  # a connection that broke, a caller who left: the next one asks
            gate.leave(first)
            await asyncio.wait_for(waiting[1], 0.1)
        else:  # an answer that takes a minute: what is not refused in two seconds is taken
            await asyncio.wait_for(asyncio.gather(*waiting), 2.1)

    run(main())


def test_whoever_came_first_goes_first() -> None:
    async def main() -> None:
        gate, order = Gate(1), []

        async def one(name: str) -> None:
            async with gate.slot():
                order.append(name)
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(one(name)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.wait(tasks)
        assert order == ["a", "c", "d"]

    run(main())


def test_a_place_that_comes_together_with_a_cancel_goes_on() -> None:
    """The caller leaves between being given the place and taking it."""

    async def main() -> None:
        gate = Gate(1)
        place = await gate.enter()
        waiting = asyncio.ensure_future(gate.enter())
        await asyncio.sleep(0)
        gate.leave(place)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert gate.state.in_flight == 0
        await asyncio.wait_for(gate.enter(), 1)

    run(main())


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "answer", "refuse", "refuse for", "leave", "cancel waiting", "down", "wait"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


class Crowd:
    """Those who wait at a gate, and those who are inside."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.waiting: list[asyncio.Task[None]] = []
        self.inside: list[Place] = []

    async def _enter(self) -> None:
        self.inside.append(await self.gate.enter(may_move=len(self.waiting) % 2 == 0))

    def come(self) -> None:
        self.waiting.append(asyncio.get_running_loop().create_task(self._enter()))

    def cancel(self, number: int) -> None:
        if self.waiting:
            self.waiting[number % len(self.waiting)].cancel()

    def end(self, number: int, how: str) -> None:
        if not self.inside:
            return
        place = self.inside.pop(number % len(self.inside))
        if how == "answer":
            self.gate.answered(place)
        elif how.startswith("refuse"):
            self.gate.refused(place, None if how == "refuse" else number / 10)
        self.gate.leave(place)

    async def do(self, what: str, number: int) -> None:
        if what == "enter":
            self.come()
        elif what == "cancel waiting":
            self.cancel(number)
        elif what == "down":
            self.gate.turn_away()
        elif what == "wait":
            await asyncio.sleep(number / 10)
        else:
            self.end(number, what)
        if number % 3 == 0:
            await asyncio.sleep(0)

    async def all_through(self) -> None:
        """Answer everybody who gets in, until nobody is left, for 40 s at most."""
        for _ in range(400):
            if not self.inside and all(task.done() for task in self.waiting):
                return
            self.end(0, "answer")
            await asyncio.sleep(0.1)


@given(events=EVENTS, seed=st.integers(0, 3), concurrency=st.integers(1, 6))
def test_law_no_place_is_lost_the_limit_holds_and_all_get_through(
    events: list[tuple[str, int]], seed: int, concurrency: int
) -> None:
    """Whatever happens at the gate, at most `limit` go in at once, and when all is over everybody got through."""

    async def main() -> None:
        gate = Gate(concurrency, chance=random.Random(seed))
        crowd = Crowd(gate)
        for what, number in events:
            before = gate.state.in_flight
            await crowd.do(what, number)
            assert gate.state.in_flight <= max(before, gate.limit)
        await crowd.all_through()
        assert [task for task in crowd.waiting if not task.done()] == []
        failures = [task.exception() for task in crowd.waiting if not task.cancelled()]
        assert {type(each) for each in failures} <= {type(None), TurnedAway}
        assert (gate.state.in_flight, gate.state.waiting) == (0, 0)
        assert 1 <= gate.limit <= concurrency

    run(main())


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60), st.floats(0.01, 5)), max_size=200))
def test_law_the_limit_stays_between_one_and_the_most(events: list[tuple[bool, int, float]]) -> None:
    now, limit = 0.0, Concurrency(50, 8, GateSettings(), 0.0)
    for is_answer, in_flight, wait_s in events:
        now += wait_s
        before = limit.limit
        if is_answer:
            limit.answered(now, in_flight)
            assert limit.limit >= before  # only a refusal lowers it
        else:
            limit.refused(now, wait_s, in_flight, in_flight + 1)
            assert limit.limit <= before
        assert 1 <= limit.limit <= 50


def test_few_refusals_among_many_answers_cut_nothing() -> None:
    """One in 300 is 0.33 %, under the 0.5 % that are allowed; two are 0.66 %."""
    limit = Concurrency(50, 50, GateSettings(), 0.0)
    for _ in range(299):
        limit.answered(1.0, 50)
    limit.counted(1.0)
    assert not limit.is_too_much(1.0)
    limit.counted(1.0)
    assert limit.is_too_much(1.0)
    limit.refused(1.0, 0.5, 0, 8)
    assert limit.limit == 35


def test_one_refusal_among_many_answers_pauses_but_cuts_nothing() -> None:
    """One in 301 is under the 0.5 % that are allowed, also at the gate: the limit stands when the pause is over."""

    async def main() -> None:
        gate = Gate(8)
        for _ in range(300):
            async with gate.slot() as place:
                gate.answered(place)
        async with gate.slot() as place:
            gate.refused(place, 1.0)
        assert gate.state.paused_s > 0
        await asyncio.sleep(1.1)
        assert (gate.limit, gate.state.pauses, gate.state.paused_s) == (8, 1, 0)

    run(main())


def test_one_more_than_is_taken_costs_one_and_not_a_share() -> None:
    """20 are refused: 14. Answer by answer it is tried again, without a hold, and refused again: 19."""
    limit = Concurrency(50, 20, GateSettings(hold_pauses=0), 0.0)
    limit.refused(1.0, 0.5, 0, 8)
    assert limit.limit == 14
    while limit.limit < 20:
        limit.answered(2.0, 20)
    limit.refused(3.0, 0.5, 0, 8)
    assert limit.limit == 19


def test_a_limit_that_was_refused_is_held_for_longer_each_time() -> None:
    """20 pauses of 0.5 s are 10 s; after a second refusal there, 20 s."""
    limit = Concurrency(50, 20, GateSettings(), 0.0)
    now, held = 0.0, []
    for _ in range(2):
        limit.refused(now, 0.5, 0, 8)
        begun = now
        while limit.limit < 20:
            now += 0.01
            limit.answered(now, 20)
        held.append(now - begun)
    assert held == pytest.approx([10.0, 20.0], abs=0.5)


def test_where_more_is_taken_than_before_the_growth_speeds_up() -> None:
    """One a round at first; twice as fast every two pauses: from 5 to 50 in some 10 rounds, not in 45."""
    limit = Concurrency(50, 6, GateSettings(hold_pauses=0), 0.0)
    limit.refused(0.0, 0.5, 5, 50)
    now = rounds = 0
    while limit.limit < 50:
        rounds += 1
        for _ in range(limit.limit):
            limit.answered(float(now := now + 1), limit.limit)
    assert 6 <= rounds <= 15


def test_the_limit_grows_by_one_an_answer_which_doubles_it_a_round() -> None:
    limit = Concurrency(1000, 8, GateSettings(), 0.0)
    for after in (16, 32, 64):
        for _ in range(limit.limit):
            limit.answered(0.4, limit.limit, 0.1)
        assert limit.limit == after


def test_few_in_flight_show_that_the_limit_is_tried_where_others_wait() -> None:
    """Spaced requests may be under half of the limit: only those who wait tell that more would be sent."""
    idle, full = (Concurrency(64, 8, GateSettings(), 0.0) for _ in range(2))
    for _ in range(4):
        idle.answered(0.4, 3, 0.1)
        full.answered(0.4, 3, 0.1, is_full=True)
    assert (idle.limit, full.limit) == (8, 12)


@pytest.mark.parametrize(
    ("latency_s", "limit", "spacing_s"), [(0.1, 20, 0.0025), (0.1, 10, 0.005), (30.0, 20, 0.025), (1.0, 20, 0.025)]
)
def test_a_limit_is_spread_over_half_a_latency_and_half_a_second_at_most(
    latency_s: float, limit: int, spacing_s: float
) -> None:
    """0.1 s / 2 / 20 is 2.5 ms; of 30 s only half a second is taken, for a refusal comes by then."""
    concurrency = Concurrency(limit, limit, GateSettings(), 0.0)
    assert concurrency.spacing_s == 0
    concurrency.answered(1.0, limit, latency_s)
    assert concurrency.spacing_s == pytest.approx(spacing_s)


@pytest.mark.parametrize(
    ("size", "still_out", "taken", "at_once", "is_mostly_taken"),
    [
        (32, 0, 20, 20, True),  # 12 of 32 were refused
        (21, 4, 17, 20, True),  # one more than 20; four long answers have not come yet
        (50, 0, 5, 5, False),
        (8, 0, 0, 0, False),
        (21, 0, 22, 20, True),  # two were sent, and taken, after the one that was refused
    ],
)
def test_a_refused_wave_shows_how_many_were_taken_at_once(
    size: int, still_out: int, taken: int, at_once: int, *, is_mostly_taken: bool
) -> None:
    wave = Wave(size, still_out, taken)
    assert (wave.taken_at_once, wave.is_mostly_taken) == (at_once, is_mostly_taken)


def test_a_rate_is_seen_where_three_refusals_come_after_the_same_number_in_a_second() -> None:
    """30 are taken in each second, whatever is in flight: 0.98 × 30 a second are sent from the third refusal on."""
    tempo, now = Tempo(GateSettings()), 0.0
    for wave in range(3):
        for number in range(31):
            tempo.sent(now + number / 100)
        tempo.turned_away(now + 30 / 100)
        tempo.measure(now + 0.31, 0.5, 0.31)
        assert tempo.is_seen == (wave == 2)
        now += 2
    tempo.learn(now)
    assert tempo.rate == pytest.approx(29.4)


@pytest.mark.parametrize(("kept_s", "rate"), [(1.0, 0.98 * 60), (3.0, 0.98 * 98)])
def test_a_refusal_takes_little_of_a_rate_that_was_kept_to_for_long(kept_s: float, rate: float) -> None:
    """100 a second were taken; then a second with 60, since the loop was busy elsewhere, ends in a refusal."""
    tempo = Tempo(GateSettings())
    for number in range(100):
        tempo.sent(0.005 + number / 100)
    tempo.measure(1.0, 0.5, 1.0)
    tempo.learn(1.5)
    assert tempo.rate == pytest.approx(98)
    for number in range(60):
        tempo.sent(0.5 + kept_s + (number + 0.5) / 60)
    tempo.measure(1.5 + kept_s, 0.5, 9.0)
    tempo.learn(2.0 + kept_s)
    assert tempo.rate == pytest.approx(rate)


def test_answers_that_take_longer_end_the_doubling_but_cut_nothing() -> None:
    """8 answer in 0.1 s each, 15 in 0.2 s each: no more is done by more of them, so the limit grows by one a round.

    It was 8 + 8 + 14 then; the 33 answers after that are a round and a little more: 31.
    """
    slow, fast = (Concurrency(1000, 8, GateSettings(), 0.0) for _ in range(2))
    for limit, late_s in ((slow, 0.2), (fast, 0.1)):
        for _ in range(8):
            limit.answered(0.4, 8, 0.1)
        for _ in range(16):
            limit.answered(0.9, 16, late_s)
        for _ in range(32):
            limit.answered(1.4, 32, late_s)
    assert (slow.limit, fast.limit) == (31, 64)


def test_answers_to_a_wave_that_was_refused_tell_nothing_of_the_latency() -> None:
    """Nine late answers to it come with no latency: 0.1 s before and 0.1 s after is no slower, so doubling goes on."""
    limit = Concurrency(1000, 8, GateSettings(), 0.0)
    for _ in range(9):
        limit.answered(0.6, 0)
    limit.answered(0.6, 8, 0.1)
    for _ in range(7):
        limit.answered(0.9, 16, 0.1)
    assert limit.limit == 16
    limit.answered(1.2, 16, 0.1)
    for _ in range(15):
        limit.answered(1.2, 32, 0.1)
    assert limit.limit == 32


def test_a_limit_that_is_not_used_tells_nothing() -> None:
    """A hundred calls one after the other do not show that an endpoint takes a hundred at once."""
    limit = Concurrency(64, 8, GateSettings(), 0.0)
    for _ in range(100):
        limit.answered(1.0, 1)
    assert limit.limit == 8


def test_the_course_is_bounded_and_keeps_its_ends() -> None:
    limit = Concurrency(10_000, 1, GateSettings(), 0.0)
    for number in range(5000):
        limit.answered(float(number), 10_000)
    assert len(limit.course) <= 512
    assert (limit.course[0].limit, limit.course[-1].limit) == (1, 5001)


# Pace ----------------------------------------------------------------------------------------------------------------


def test_rpm_is_spread_over_the_minute() -> None:
    """120 a minute are two a second: ten calls take 4 s after the first two, and a minute sees at most 122."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pace, begun, times = Pace("x", 120, None), loop.time(), []

        async def one() -> None:
            await pace.wait(1)
            times.append(loop.time() - begun)

        await asyncio.gather(*(one() for _ in range(400)))
        assert times[9] == pytest.approx(4.0, abs=0.01)
        for at, start in enumerate(times):
            assert sum(start <= each < start + 60 for each in times[at:]) <= 122

    run(main())


def test_tpm_is_shared_in_order_of_arrival() -> None:
    """1,000 a minute: 900 go at once; the next 600 wait 30 s for 500 to refill, and a small one behind them, too."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pace, begun = Pace("x", None, 1000), loop.time()
        order: list[tuple[int, int]] = []

        async def one(tokens: int) -> None:
            await pace.wait(tokens)
            order.append((tokens, round(loop.time() - begun)))

        await asyncio.gather(one(900), one(600), one(10))
        assert order == [(900, 0), (600, 30), (10, 31)]

    run(main())


def test_what_was_not_used_is_given_back_and_what_was_used_beyond_is_owed() -> None:
    """1,000 are let through and 200 used: 800 more can go at once. 500 used beyond: the next waits for them (30 s)."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        pace, begun = Pace("x", None, 1000), loop.time()
        await pace.wait(1000)
        pace.used(1000, 200)
        await pace.wait(800)
        assert loop.time() - begun < 0.1
        pace.used(800, 1300)
        await pace.wait(0)
        assert loop.time() - begun == pytest.approx(30, abs=0.1)

    run(main())


def test_a_call_above_tpm_is_refused_in_one_line() -> None:
    async def main() -> None:
        refused = Pace("office", None, 10_000).check(12_000)
        assert isinstance(refused, EndpointError)
        assert str(refused) == (
            "endpoint office: the call may use 12,000 tokens, and tpm allows 10,000 a minute; nothing was sent"
        )
        assert "endpoints.office.tpm" in (refused.hint or "")
        assert Pace("office", None, 10_000).check(10_000) is None

    run(main())


def test_a_cancelled_wait_for_the_pace_gives_its_place_back() -> None:
    async def main() -> None:
        gate = Gate(1, pace=Pace("x", None, 100))
        async with gate.slot(100):
            assert gate.state.in_flight == 1
        waiting = asyncio.ensure_future(gate.enter(100))
        await asyncio.sleep(1)
        assert not waiting.done()  # a minute's tokens are used up
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert gate.state.in_flight == 0
        async with gate.slot(0):
            assert gate.state.in_flight == 1

    run(main())


# Retries -------------------------------------------------------------------------------------------------------------


def test_the_retry_budget_is_a_share_of_the_calls_and_a_floor() -> None:
    """2 in any case, and 10 % of 50 calls: 7 retries; a minute later the calls are forgotten."""
    budget = RetryBudget("x", RetrySettings(budget_floor=2, budget_share=Decimal("0.1")))
    for _ in range(50):
        budget.called(1.0)
    assert [budget.take(2.0) for _ in range(9)] == [True] * 7 + [False] * 2
    assert [budget.take(70.0) for _ in range(3)] == [True, True, False]
    assert "endpoint x has used up its retries (10% of its calls and 2 more in 60 s)" in budget.used_up


@given(st.lists(st.floats(0, 30), max_size=100))
def test_law_a_window_counts_what_is_younger_than_it(waits: list[float]) -> None:
    """Against a plain list, within the twelfth that a window may be short of."""
    window, now, seen = Window(60.0, 1), 0.0, []
    for wait in waits:
        now += wait
        window.add(now, 0)
        seen.append(now)
        (counted,) = window.totals(now)
        assert sum(each > now - 55 for each in seen) <= counted <= sum(each > now - 60 for each in seen)


async def test_a_free_place_is_taken_at_once_but_never_before_one_who_waits() -> None:
    gate = Gate(1)
    place = gate.enter_now()
    assert place is not None
    assert gate.enter_now() is None  # there is one, and it is taken
    waiting = asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    gate.leave(place)
    assert gate.enter_now() is None  # whoever waited has it
    gate.leave(await waiting)
    assert gate.enter_now() is not None
    assert gate.state.in_flight == 1
