"""Price files of the user's own: what they may say, what is refused and on which line."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing import Catalog, CatalogError, PricingError, Usage, load_catalog, price_call

AT = datetime(2026, 11, 30, tzinfo=UTC)
USAGE = Usage(uncached_input_tokens=1_000_000)


def load(folder: Path, text: str) -> Catalog:
    (folder / "prices.toml").write_text(text, encoding="utf-8")
    return load_catalog([folder / "prices.toml"])


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        load(folder, text)
    assert caught.value.hint
    return [str(fault) for fault in caught.value.faults]


def block(**more: str) -> str:
    values = {"model": '"gpt-4.1"', "input": '"1"', "source": '"contract"', "checked": "2026-11-01", **more}
    return "[[prices]]\n" + "\n".join(f"{key} = {value}" for key, value in values.items() if value) + "\n"


def input_price(catalog: Catalog, model: str, price_list: str = "vendor", at: datetime = AT) -> Decimal | None:
    return price_call(USAGE, catalog.price_set(model, price_list, at), at=at).total


def test_r2_two_models_with_custom_prices_given_inline() -> None:
    text = "\n".join(
        block(model=f'"{name}"', input=f'"{rate}"', output=f'"{rate}"')
        for name, rate in (("dear", "10"), ("cheap", "0.1"))
    )
    catalog = load_catalog(inline=tomllib.loads(text, parse_float=Decimal))
    assert (input_price(catalog, "dear"), input_price(catalog, "cheap")) == (Decimal(10), Decimal("0.1"))
    assert catalog.vendor_list("dear") == "custom"


def test_a_users_row_outranks_the_bundled_one_and_the_other_components_stay(tmp_path: Path) -> None:
    catalog = load(tmp_path, block(input='"1.5"'))
    assert input_price(catalog, "gpt-4.1") == Decimal("1.5")
    prices = catalog.price_set("gpt-4.1", "openai", AT)
    assert prices is not None
    assert {row.component: row.amount for row in prices.rows if row.conditions.specificity == 0} == {
        "input": Decimal("1.5"),
        "cache_read": Decimal("0.5"),
        "output": Decimal(8),
    }
    assert input_price(load_catalog(), "gpt-4.1") == 2


def test_a_users_row_outranks_only_while_it_is_in_force(tmp_path: Path) -> None:
    dates = {"effective_from": "2026-02-01T00:00:00Z", "effective_to": "2026-03-01T08:00:00+08:00"}
    catalog = load(tmp_path, block(input='"1"', **dates))
    found = [
        input_price(catalog, "gpt-4.1", at=datetime(2026, month, day, tzinfo=UTC))
        for month, day in ((1, 31), (2, 1), (2, 28), (3, 1))
    ]
    assert found == [2, 1, 1, 2]


def test_inline_outranks_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(block(input='"1"'), encoding="utf-8")
    inline = tomllib.loads(block(input='"0.5"'))
    assert input_price(load_catalog([tmp_path / "a.toml"], inline), "gpt-4.1") == Decimal("0.5")


def test_an_alias_in_a_price_block_means_its_model(tmp_path: Path) -> None:
    assert input_price(load(tmp_path, block(model='"gpt-4.1-2025-04-14"')), "gpt-4.1") == 1


def test_input_prices_can_be_given_to_the_relay(tmp_path: Path) -> None:
    catalog = load(tmp_path, block(list='"relay"', input='"2"') + block(list='"relay"', model='"gpt-4o"', output='"9"'))
    cost = price_call(Usage(1_000_000, 0, 0, 0, 0, 0, 1_000_000), catalog.price_set("gpt-4.1", "relay", AT), at=AT)
    assert (cost.status, cost.total) == ("exact", Decimal(10))
    assert catalog.resolve("gpt-4o", "relay") == "gpt-4o"


NEW_LIST = """
[meta]
list = "yuan-list"
kind = "vendor"
currency = "CNY"
[sources.page]
name = "platform.moonshot.cn"
released = 2026-11-02
[[models]]
id = "kimi-k3"
aliases = ["k3"]
context_window_tokens = 262_144
[[prices]]
model = "kimi-k3"
source = "page"
input = "20"
"""


def test_a_list_of_the_users_own_in_its_own_currency(tmp_path: Path) -> None:
    catalog = load(tmp_path, NEW_LIST)
    cost = price_call(USAGE, catalog.price_set("k3", "yuan-list", AT), at=AT)
    assert (cost.total, cost.currency) == (Decimal(20), "CNY")
    (row,) = catalog.history("k3", "yuan-list")
    assert row.source == "platform.moonshot.cn, released 2026-11-02"
    assert row.checked.isoformat() == "2026-11-02"


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(NEW_LIST, encoding="utf-8")
    (tmp_path / "b.toml").write_text(
        block(list='"yuan-list"', model='"k3"', input="", output='"100"'), encoding="utf-8"
    )
    (tmp_path / "notes.txt").write_text("not a price file", encoding="utf-8")
    prices = load_catalog([tmp_path]).price_set("k3", "yuan-list", AT)
    assert prices is not None
    assert [row.component for row in prices.rows] == ["input", "output"]


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        ({"input": '"-1"'}, 3, "input: '-1' is not allowed; 0 or more is"),
        (
            {"input": '"0.000002"'},
            3,
            "input: '0.000002' is not allowed; 0 or 0.0001 to 100000 per Mtok is; this looks like",
        ),
        (
            {"input": '"2000000"'},
            3,
            "input: '2000000' is not allowed; 0 or 0.0001 to 100000 per Mtok is; this looks like",
        ),
        ({"input": '"NaN"'}, 3, "input: 'NaN' is not allowed; a decimal number as text"),
        ({"input": '"1,5"'}, 3, "input: '1,5' is not allowed; a decimal number as text"),
        ({"input": "true"}, 3, "input: True is not allowed; a decimal number as text"),
        ({"input": '"1.0000000000001"'}, 3, "input: '1.0000000000001' is not allowed; at most 12 decimals are"),
        ({"source": ""}, 1, "source: missing; a text is needed"),
        ({"checked": ""}, 1, "checked: missing; the day the source was read is needed"),
        ({"checked": '"2026-11-01"'}, 5, "checked: '2026-11-01' is not allowed; a day without quotes"),
        ({"currency": '"RMB"'}, 6, "currency: 'RMB' is not allowed; an ISO 4217 code"),
        ({"currency": '"CNY"'}, 6, "currency: 'CNY' is not allowed; USD is, in list 'openai'"),
        (
            {"effective_from": "2026-01-01T00:00:00"},
            6,
            "effective_from: '2026-01-01 00:00:00' is not allowed; an instant with its zone",
        ),
        ({"effective_from": "2026-01-01"}, 6, "effective_from: '2026-01-01' is not allowed; an instant with its zone"),
        ({"inptu": '"1"'}, 6, "inptu: this key is not known; did you mean 'input'?"),
        ({"list": '"opnai"'}, 6, "list: 'opnai' is not allowed; alibaba, anthropic,"),
        (
            {"list": '"openai"', "model": '"gpt-4.l"'},
            2,
            "model: 'gpt-4.l' is not in list 'openai'; did you mean gpt-4.1",
        ),
        ({"input": ""}, 1, "prices: none is given; at least one of input,"),
        ({"model": ""}, 1, "model: missing; a text is needed"),
        ({"when": "{ tier = 1 }"}, 6, "tier: this key is not known; service_tier, batch,"),
        ({"when": "{ above_input_tokens = 250_000 }"}, 6, "above_input_tokens: 250000 is not allowed; one of 32000,"),
        ({"when": "{ inclusive = true }"}, 6, "inclusive: only allowed with above_input_tokens"),
        ({"when": "{ weekdays = [0] }"}, 6, "weekdays: \\[0\\] is not allowed; a list of 1 \\(Monday\\) to 7 is"),
        ({"when": '{ windows_utc = ["1:00-02:00"] }'}, 6, "windows_utc: '1:00-02:00' is not allowed"),
        ({"when": '{ windows_utc = ["02:00-02:00"] }'}, 6, "windows_utc: '02:00-02:00' is not allowed"),
        ({"when": '"always"'}, 6, "when: 'always' is not allowed; a table is"),
    ],
)
def test_a_fault_names_file_line_value_and_what_is_allowed(
    change: dict[str, str], line: int, said: str, tmp_path: Path
) -> None:
    (found,) = faults(tmp_path, block(**change))
    with pytest.raises(AssertionError, match=rf"^prices.toml:{line}: {said}"):
        raise AssertionError(found)


def test_every_fault_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(block(input='"-1"') + block(model='"x"', checked=""), encoding="utf-8")
    (tmp_path / "b.toml").write_text("a = \n", encoding="utf-8")
    (tmp_path / "c.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(CatalogError) as caught:
        load_catalog([tmp_path, tmp_path / "missing.toml"], {"prices": 3})
    places = [(Path(fault.file).name, fault.line) for fault in caught.value.faults]
    assert sorted(places, key=str) == sorted(
        [("a.toml", 3), ("a.toml", 6), ("b.toml", 1), ("c.toml", None), ("missing.toml", None), ("router.toml", None)],
        key=str,
    )


def test_overlapping_rows_are_refused_and_following_ones_are_not(tmp_path: Path) -> None:
    middle = "2026-06-01T00:00:00Z"
    load(tmp_path, block(effective_to=middle) + block(effective_from=middle))
    (found,) = faults(tmp_path, block(effective_to="2026-06-01T00:00:01Z") + block(effective_from=middle))
    assert found.startswith("prices.toml:9: input of 'gpt-4.1': overlaps the row at prices.toml:3")


@pytest.mark.parametrize(
    ("first", "second", "tie"),
    [
        ('{ service_tier = "flex" }', '{ region = "us" }', True),
        ('{ service_tier = "flex" }', '{ service_tier = "priority" }', False),
        ('{ service_tier = "flex" }', "{ batch = true }", False),  # no request is both
        ("{ weekdays = [1] }", "{ weekdays = [2, 3] }", False),
        ("{ weekdays = [1, 2] }", "{ weekdays = [2, 3] }", True),
        ('{ windows_utc = ["01:00-04:00"] }', '{ windows_utc = ["04:00-05:00"] }', False),
        ('{ windows_utc = ["01:00-04:00"] }', '{ windows_utc = ["03:59-05:00"] }', True),
        ('{ windows_utc = ["22:00-02:00"] }', '{ windows_utc = ["01:00-04:00"] }', True),
        ("{ above_input_tokens = 200_000 }", "{ above_input_tokens = 128_000 }", False),
        ('{ region = "us" }', '{ region = "us", above_input_tokens = 128_000 }', False),
    ],
)
def test_rows_of_which_neither_is_more_specific_are_refused(first: str, second: str, tie: bool, tmp_path: Path) -> None:  # noqa: FBT001
    text = block(list='"relay"', when=first) + block(list='"relay"', when=second)
    if not tie:
        load(tmp_path, text)
        return
    (found,) = faults(tmp_path, text)
    assert "prices.toml:10: input of 'gpt-4.1': is as specific as the row at prices.toml:3" in found


def test_an_inline_fault_tells_the_line_of_the_file_it_stands_in(tmp_path: Path) -> None:
    text = '[database]\nurl = "x"\n' + block(input='"-1"')
    (tmp_path / "router.toml").write_text(text, encoding="utf-8")
    for inline_text in (text, text.replace("[[prices]]", "[[prices.prices]]")):
        (tmp_path / "router.toml").write_text(inline_text, encoding="utf-8")
        tables = tomllib.loads(inline_text)["prices"]
        inline = tables if isinstance(tables, dict) else {"prices": tables}
        with pytest.raises(CatalogError) as caught:
            load_catalog(inline=inline, inline_file=str(tmp_path / "router.toml"))
        assert [fault.line for fault in caught.value.faults] == [5]


def test_one_name_for_two_models_is_refused(tmp_path: Path) -> None:
    text = '[[models]]\nlist = "openai"\nid = "gpt-9"\naliases = ["gpt_4"]\n'
    assert faults(tmp_path, text) == ["prices.toml:1: 'gpt_4' is already a name of 'gpt-4.1' in this list"]


def test_a_misspelt_capability_is_refused(tmp_path: Path) -> None:
    text = '[[models]]\nlist = "openai"\nid = "gpt-9"\ncapabilities = ["tools", "tool"]\n'
    (found,) = faults(tmp_path, text)
    assert found.startswith("prices.toml:4: capabilities: 'tool' is not allowed; any of tools, json,")


def test_a_list_cannot_change_its_currency(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, '[meta]\nlist = "openai"\nkind = "vendor"\ncurrency = "EUR"\n')
    assert found.startswith("prices.toml:2: list: 'openai' is not allowed; another name is")


def test_a_window_across_midnight(tmp_path: Path) -> None:
    catalog = load(tmp_path, block(when='{ service_tier = "default", windows_utc = ["16:30-00:30"] }'))
    instants = (
        datetime(2026, 11, 30, hour, minute, tzinfo=UTC) for hour, minute in ((16, 29), (16, 30), (0, 29), (0, 30))
    )
    assert [input_price(catalog, "gpt-4.1", at=at) for at in instants] == [2, 1, 1, 2]


def test_a_window_of_the_plain_tier_leaves_the_others_alone(tmp_path: Path) -> None:
    catalog = load(tmp_path, block(when='{ service_tier = "default", windows_utc = ["00:00-24:00"] }'))
    prices = catalog.price_set("gpt-4.1", "vendor", AT)
    totals = [
        price_call(USAGE, prices, at=AT, service_tier=tier, batch=batch).total
        for tier, batch in (("default", False), ("priority", False), (None, True))
    ]
    assert totals == [1, Decimal("3.5"), 1]
    (found,) = faults(tmp_path, block(when="{ weekdays = [1] }"))[:1]
    assert "is as specific as the row at openai.toml:" in found


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dates()
    | st.datetimes()
    | st.decimals(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
words = st.sampled_from(
    ["model", "input", "output", "source", "checked", "when", "list", "currency", "effective_from", "url", "entry"]
)
good: dict[str, Any] = tomllib.loads(block())["prices"][0]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(words, junk, max_size=3),
    st.dictionaries(st.sampled_from(["meta", "models", "sources"]), junk, max_size=2),
)
def test_law_a_malformed_file_is_refused_or_right(change: dict[str, Any], more: dict[str, Any]) -> None:
    try:
        catalog = load_catalog(inline={**more, "prices": [{**good, **change}]})
    except PricingError:
        return
    for _, placed in catalog.placed_rows():
        assert placed.row.amount >= 0
        assert placed.row.source
