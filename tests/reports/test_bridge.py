"""The bridge from promised to paid: by hand, one change at a time, and effects that sum for whatever happened."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from reports.bridge import EFFECTS, Position, Promised, bridge

# 1,000 calls: 900 tokens at 2 and 100 cached at 1, 50 of output at 8, in dollars
RATES = {"input": Fraction(2), "cache_read": Fraction(1), "output": Fraction(8)}
SHARES = {"input": Fraction(9, 10), "cache_read": Fraction(1, 10)}
KEPT = Position(
    cached={"input": Fraction(900), "cache_read": Fraction(100)},
    other={"output": Fraction(50)},
    rates=RATES,
    shares=SHARES,
    paid=Fraction(2_300),
    promised_fx=Fraction(1),
    cost=Fraction(2_300),
)
PROMISED = Promised(Fraction(2_300), Fraction(1_000))
NOTHING = dict.fromkeys(EFFECTS, Fraction(0))


def effects(position: Position, calls: int = 1_000) -> dict[str, Fraction]:
    return dict(bridge(PROMISED, [position], Fraction(calls)).effects)


def test_a_kept_promise_has_no_effect() -> None:
    assert effects(KEPT) == NOTHING


def test_one_change_at_a_time() -> None:
    # twice the calls, all else as promised
    twice = replace(
        KEPT,
        cached={name: 2 * count for name, count in KEPT.cached.items()},
        other={"output": Fraction(100)},
        paid=Fraction(4_600),
        cost=Fraction(4_600),
    )
    assert effects(twice, calls=2_000) == NOTHING | {"volume": 2_300}
    # 10 more of output a thousand calls
    longer = replace(KEPT, other={"output": Fraction(60)}, paid=Fraction(2_380), cost=Fraction(2_380))
    assert effects(longer) == NOTHING | {"mix": 80}
    # half of the input cached: 500 × 2 + 500 × 1 + 400
    cached = replace(KEPT, cached={"input": Fraction(500), "cache_read": Fraction(500)})
    assert effects(replace(cached, paid=Fraction(1_900), cost=Fraction(1_900))) == NOTHING | {"cache": -400}
    # a tenth off the list
    assert effects(replace(KEPT, paid=Fraction(2_070), cost=Fraction(2_070))) == NOTHING | {"price": -230}
    # paid in yuan at the promised 7 a dollar; the rate of the days was 7.5
    yuan = replace(KEPT, paid=Fraction(16_100), promised_fx=Fraction(1, 7), cost=Fraction(16_100) / Fraction("7.5"))
    assert effects(yuan) == NOTHING | {"exchange rates": Fraction(16_100) / Fraction("7.5") - 2_300}


def test_everything_at_once_by_hand() -> None:
    # 1,500 calls; input 2,000 of which 1,000 cached, output 100; 4,000 paid in yuan, promised at a half, paid at 0.6
    position = Position(
        cached={"input": Fraction(1_000), "cache_read": Fraction(1_000)},
        other={"output": Fraction(100)},
        rates=RATES,
        shares=SHARES,
        paid=Fraction(4_000),
        promised_fx=Fraction(1, 2),
        cost=Fraction(2_400),
    )
    found = bridge(PROMISED, [position], Fraction(1_500))
    assert dict(found.effects) == {
        "volume": 1_150,  # 2,300 × 0.5: 3,450
        "mix": 1_150,  # 1,800 × 2 + 200 × 1 + 800 = 4,600
        "cache": -800,  # 1,000 × 2 + 1,000 × 1 + 800 = 3,800
        "price": -1_800,  # 4,000 × 0.5 = 2,000
        "exchange rates": 400,  # 2,400
    }
    assert [found.promised, found.actual] == [2_300, 2_400]


def test_a_model_without_a_promised_price_is_mix_alone() -> None:
    unknown = replace(KEPT, rates=None, paid=Fraction(3_000), cost=Fraction(3_000))
    assert effects(unknown) == NOTHING | {"mix": 700}
    partly = replace(
        KEPT, rates={"input": Fraction(2), "cache_read": Fraction(1)}, paid=Fraction(3_000), cost=Fraction(3_000)
    )
    assert effects(partly) == NOTHING | {"mix": 700}


def test_a_cache_share_without_a_price_is_left_as_it_was() -> None:
    plain = replace(KEPT, cached={"input": Fraction(1_000)}, rates={"input": Fraction(2), "output": Fraction(8)})
    paid = replace(plain, paid=Fraction(2_400), cost=Fraction(2_400))
    assert effects(paid) == NOTHING | {"mix": 100}  # and no cache effect: what a cached token costs is not known
    assert effects(replace(paid, shares=None)) == NOTHING | {"mix": 100}


def test_a_currency_without_a_promised_rate_has_no_exchange_effect() -> None:
    assert effects(replace(KEPT, promised_fx=None, cost=Fraction(2_500)))["exchange rates"] == 0


NUMBERS = st.fractions(0, 10**6, max_denominator=1_000)
COMPONENTS = st.sampled_from(["input", "cache_read", "cache_write_5m", "cache_write_1h"])
POSITIONS = st.builds(
    Position,
    cached=st.dictionaries(COMPONENTS, NUMBERS),
    other=st.dictionaries(st.sampled_from(["output", "web_search"]), NUMBERS),
    rates=st.none() | st.dictionaries(COMPONENTS | st.sampled_from(["output", "web_search"]), NUMBERS),
    shares=st.none() | st.just(SHARES),
    paid=NUMBERS,
    promised_fx=st.none() | NUMBERS,
    cost=NUMBERS,
)


@settings(max_examples=40)
@given(
    st.builds(Promised, NUMBERS, st.fractions(1, 10**6, max_denominator=1_000)),
    st.lists(POSITIONS, max_size=6),
    st.integers(0, 10**6),
)
def test_law_the_effects_sum_to_the_difference(promised: Promised, positions: list[Position], calls: int) -> None:
    found = bridge(promised, positions, Fraction(calls))
    assert tuple(found.effects) == EFFECTS
    assert sum(found.effects.values()) == found.actual - found.promised
    assert found.actual == sum(position.cost for position in positions)
