"""router.toml, `.env` and the environment become Settings, or every fault at once with its line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.resources import files
from pathlib import Path

import pytest
from annotated_types import Le, Lt

from pricing import Credit, Terms
from router import faults, settings
from router.environment import load_environment
from router.errors import ConfigError
from router.policy.market import terms_of
from router.presets import BUILT_IN_CONFIGURATIONS, ENDPOINT_PRESETS
from router.section import Section
from router.settings import ByClassSettings, FixedSettings, Settings, SettlementSettings
from router.settings_file import load_settings

PLANTED = "sk-planted-0123456789abcdefghij"


def load(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    (folder / "router.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, environ or {})


def faults_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return str(caught.value).splitlines()


def test_no_file_gives_built_in_configurations_and_no_endpoint(tmp_path: Path) -> None:
    found = load_settings(tmp_path, {})
    assert found.source is None
    fixed = {"all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash"}
    assert set(found.configurations) == {*fixed, "by_class", "planned"}
    assert found.configurations["hybrid"] == FixedSettings(orchestrator="kimi-k2", worker="deepseek-v3.2")
    assert found.configurations["hybrid-sonnet"] == FixedSettings(orchestrator="kimi-k2", worker="claude-sonnet-4.5")
    assert found.configurations["hybrid-flash"] == FixedSettings(orchestrator="kimi-k2", worker="gemini-2.5-flash")
    assert isinstance(found.configurations["by_class"], ByClassSettings)
    assert found.default_configuration == "by_class"
    assert found.endpoints == {}


@pytest.mark.parametrize(("name", "variable"), [(name, each.key_env) for name, each in ENDPOINT_PRESETS.items()])
def test_a_preset_is_there_when_its_key_is_set(tmp_path: Path, name: str, variable: str) -> None:
    assert list(load_settings(tmp_path, {variable: PLANTED}).endpoints) == [name]
    assert load_settings(tmp_path, {variable: ""}).endpoints == {}


def test_the_relay_settles_one_dollar_for_one_yuan(tmp_path: Path) -> None:
    relay = load_settings(tmp_path, {"HOLYSHEEP_API_KEY": PLANTED}).endpoints["relay"]
    assert (relay.base_url, relay.price_list) == ("https://api.holysheep.ai/v1", "relay")
    assert relay.settlement == SettlementSettings(currency="CNY", rate=Decimal(1))


def test_the_example_is_accepted_as_it_is_and_with_every_comment_taken_away(tmp_path: Path) -> None:
    example = files("router").joinpath("data", "example.toml").read_text(encoding="utf-8")
    found = load(tmp_path, example, {"OPENAI_API_KEY": PLANTED})
    assert found.configurations["mini"] == FixedSettings(orchestrator="gpt-4.1", worker="gpt-4.1-mini")
    assert found.model_copy(update={"source": None, "configurations": {}, "endpoints": {}}) == Settings()
    assert list(found.endpoints) == ["openai"]

    (tmp_path / "prices").mkdir()
    shown = [line.removeprefix("# ") if is_setting(line) else line for line in example.splitlines()]
    everything = load(tmp_path, "\n".join(shown))
    assert everything.endpoints["office"].models == {"deepseek-v3.2": "deepseek-chat"}
    assert everything.endpoints["office"].extra == {"seed": 7}
    careful = everything.configurations["careful"]
    assert isinstance(careful, ByClassSettings)
    assert careful.classes["code"].quality_floor == pytest.approx(0.6)


def is_setting(line: str) -> bool:
    bare = line.removeprefix("# ")
    return line.startswith("# ") and (bare.startswith("[") or bare.split(" ")[1:2] == ["="])


def test_the_nearest_file_upwards_is_read_and_router_config_wins(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / "router.toml").write_text("store_prompts = true\n")
    (tmp_path / "other.toml").write_text('time_zone = "Asia/Tokyo"\n')
    assert load_settings(below, {}).source == tmp_path / "router.toml"
    assert load_settings(below, {}).store_prompts
    named = load_settings(below, {"ROUTER_CONFIG": str(tmp_path / "other.toml")})
    assert (named.time_zone, named.store_prompts) == ("Asia/Tokyo", False)
    (tmp_path / "a" / "router.toml").write_text('report_currency = "JPY"\n')
    assert load_settings(below, {}).report_currency == "JPY"


def test_router_config_that_names_no_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ROUTER_CONFIG: 'gone\.toml' is no file") as caught:
        load_settings(tmp_path, {"ROUTER_CONFIG": "gone.toml"})
    assert caught.value.hint == "unset ROUTER_CONFIG, or write the file with: router init --path gone.toml"


def test_the_environment_wins_over_dotenv_beside_the_file_and_that_over_the_folder(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "router.toml").touch()
    (tmp_path / ".env").write_text("A=file\nB=file\nexport C='file # quoted'\nD=$A\n")
    (below / ".env").write_text("A=folder\nB=folder\nE=folder\n")
    found = load_environment(below, {"A": "real"})
    assert {name: found[name] for name in "ABCDE"} == {
        "A": "real",
        "B": "file",
        "C": "file # quoted",
        "D": "$A",
        "E": "folder",
    }


def test_a_key_in_dotenv_makes_its_preset_usable(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"DEEPSEEK_API_KEY={PLANTED}\n")
    assert list(load_settings(tmp_path, {}).endpoints) == ["deepseek"]


def test_a_broken_dotenv_line_is_told_by_number_and_never_shown(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(f"A=1\n{PLANTED} and more\n")
    with pytest.raises(ConfigError, match=r"\.env:2: no NAME=value stands here") as caught:
        load_environment(tmp_path, {})
    assert PLANTED not in f"{caught.value}{caught.value.hint}"


def test_the_database_variable_wins_over_the_file(tmp_path: Path) -> None:
    text = '[database]\nurl = "sqlite:///file.db"\n'
    assert load(tmp_path, text).database.url == "sqlite:///file.db"
    found = load(tmp_path, text, {"ROUTER_DATABASE_URL": "postgresql://me:hunter2@host/db"})
    assert found.database.url == "postgresql://me:hunter2@host/db"
    assert "hunter2" not in repr(found)


def test_an_endpoint_of_the_file_is_laid_over_its_preset(tmp_path: Path) -> None:
    text = """
        [endpoints.relay]
        concurrency = 8
        settlement = { currency = "CNY", rate = 7.3 }
        [endpoints.work]
        preset = "openai"
        key_env = "WORK_KEY"
        extra = { temperature = 0.2, nested = [0.5] }
    """
    found = load(tmp_path, text, {"OPENAI_API_KEY": PLANTED, "GEMINI_API_KEY": PLANTED})
    # A preset that the file builds on is not there a second time; others with a key are.
    assert list(found.endpoints) == ["relay", "work", "google"]
    relay, work = found.endpoints["relay"], found.endpoints["work"]
    assert (relay.concurrency, relay.base_url) == (8, "https://api.holysheep.ai/v1")
    assert relay.settlement == SettlementSettings(currency="CNY", rate=Decimal("7.3"))
    assert (work.base_url, work.key_env) == ("https://api.openai.com/v1", "WORK_KEY")
    assert work.extra == {"temperature": 0.2, "nested": [0.5]}
    assert type(work.extra["temperature"]) is float


def test_money_is_read_exactly(tmp_path: Path) -> None:
    text = '[endpoints.relay]\nsettlement = { currency = "CNY", rate = 0.136986301369863013698630137 }\n'
    settlement = load(tmp_path, text).endpoints["relay"].settlement
    assert settlement is not None
    assert settlement.rate == Decimal("0.136986301369863013698630137")


def test_terms_credits_and_rates_are_read_exactly(tmp_path: Path) -> None:
    text = """
        [endpoints.relay]
        discount_share = 0.1
        markup_share = 0.05
        tax_share = 0.06
        [[endpoints.relay.credits]]
        kind = "prepaid"
        amount = 700.5
        currency = "CNY"
        starts = 2026-10-01
        [[endpoints.relay.commitments]]
        monthly_amount = 1000
        currency = "CNY"
        discount_share = 0.2
        starts = 2026-11-01
        ends = 2026-12-01
        [fx]
        max_age_days = 30
        [[fx.rates]]
        pair = "CNY/USD"
        rate = 0.1401
        starts = 2026-10-01
    """
    found = load(tmp_path, text)
    relay = found.endpoints["relay"]
    assert [each.credit() for each in relay.credits] == [Credit("prepaid", "CNY", Decimal("700.5"), date(2026, 10, 1))]
    assert [each.fx_rate().id for each in found.fx.rates] == ["operator:CNY/USD:2026-10-01:0.1401"]
    assert found.fx.max_age_days == 30
    plain = Terms(Decimal("0.1"), "CNY", Decimal(1), Decimal("0.05"), Decimal("0.06"))
    assert terms_of(relay, datetime(2026, 10, 31, 23, 59, tzinfo=UTC)) == plain
    # The tier's discount stands in place of the endpoint's while it is in force.
    assert terms_of(relay, datetime(2026, 11, 1, tzinfo=UTC)) == replace(plain, discount_share=Decimal("0.2"))
    assert terms_of(relay, datetime(2026, 12, 1, tzinfo=UTC)) == plain


def test_configurations_of_the_file_join_the_built_in_ones_and_replace_them(tmp_path: Path) -> None:
    text = """
        default_configuration = "pair"
        [configurations.pair]
        orchestrator = "gpt-4.1"
        worker = "gpt-4.1-nano"
        [configurations.hybrid]
        policy = "fixed"
        orchestrator = "kimi-k2.5"
        worker = "deepseek-v3.2"
    """
    found = load(tmp_path, text)
    assert set(found.configurations) == {*BUILT_IN_CONFIGURATIONS, "pair"}
    assert found.configurations["hybrid"] == FixedSettings(orchestrator="kimi-k2.5", worker="deepseek-v3.2")


def test_price_files_are_relative_to_the_file_and_prices_are_handed_on(tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    (tmp_path / "mine.toml").touch()
    text = 'price_files = ["mine.toml"]\n[[prices]]\nmodel = "m"\noutput = "1"\n'
    (tmp_path / "router.toml").write_text(text)
    found = load_settings(below, {})
    assert found.price_files == (tmp_path / "mine.toml",)
    assert found.prices == {"prices": [{"model": "m", "output": "1"}]}


ONE_FAULT = [
    ("a = 1\nb = = 2\n", "router.toml:2: is not TOML: Invalid value"),
    ("[a\n", "router.toml:1: is not TOML: Expected ']' at the end of a table declaration"),
    ('x = """\n\n', "router.toml:3: is not TOML: Unterminated string"),
    ("\nstore_promts = true", "router.toml:2: store_promts does not exist; did you mean store_prompts?"),
    ('source = "x"', "router.toml:1: source does not exist"),
    ("[retry]\nattempts = 0", "router.toml:2: retry.attempts is 0; it should be greater than or equal to 1"),
    ("[retry]\nattempts = 21", "router.toml:2: retry.attempts is 21; it should be less than or equal to 20"),
    ("[swarm]\nreplan = -1", "router.toml:2: swarm.replan is -1; it should be greater than or equal to 0"),
    ("[swarm]\nreplan = 11", "router.toml:2: swarm.replan is 11; it should be less than or equal to 10"),
    ("[retry]\nattempts = '3'", "router.toml:2: retry.attempts is '3'; it should be a valid integer"),
    ("[retry]\nmax_s = '3'", "router.toml:2: retry.max_s is '3'; it should be a number, without quotes"),
    ("[retry]\nmax_s = inf", "router.toml:2: retry.max_s is Infinity; it should be a finite number"),
    ("aliases = { a = 1 }", "router.toml:1: aliases.a is 1; it should be text, in quotes"),
    ("store_prompts = 'yes'", "router.toml:1: store_prompts is 'yes'; it should be a valid boolean"),
    ("retry = 3", "router.toml:1: retry is 3; it should be a table"),
    ("time_zone = 'Mars'", "router.toml:1: time_zone is 'Mars'; it should be an IANA name, like UTC or Asia/Tokyo"),
    ("report_currency = 'yen'", "router.toml:1: report_currency is 'yen'; it should be an ISO 4217 code, like USD"),
    (
        "default_configuration = 'hybird'",
        "router.toml:1: default_configuration is 'hybird', which does not exist; did you mean hybrid?",
    ),
    ("[configurations.a]\nworker = 'm'", "router.toml:1: configurations.a.orchestrator is missing"),
    (
        "[configurations.a]\npolicy = 'cheap'",
        "router.toml:2: configurations.a.policy should be one of fixed, by_class, by_plan",
    ),
    ("[configurations.a]\nx = 1", "router.toml:1: configurations.a.policy should be one of fixed, by_class, by_plan"),
    (
        "[configurations.a]\npolicy = 'by_plan'\ncandidates = [{ model = 'm', efort = 'high' }]",
        "router.toml:3: configurations.a.candidates[0].efort does not exist; did you mean effort?",
    ),
    (
        "[configurations.a]\npolicy = 'by_plan'\ncandidates = [{ model = 'm', quality = { code = 0.9 } }]",
        "router.toml:3: configurations.a.candidates[0] should give the sample_size that its quality was measured on",
    ),
    (
        (
            "[configurations.a]\npolicy = 'by_plan'\n"
            "candidates = [{ model = 'm', quality = { cod = 0.9 }, sample_size = 10 }]"
        ),
        "router.toml:3: configurations.a.candidates[0].quality.cod is no class; did you mean code?",
    ),
    (
        "[configurations.a]\npolicy = 'by_plan'\nobjective = 'speed'",
        "router.toml:3: configurations.a.objective is 'speed'; it should be 'cost' or 'quality'",
    ),
    (
        "[configurations.a]\npolicy = 'by_class'\nclasses.cod = { candidates = ['m'] }",
        "router.toml:3: configurations.a.classes.cod is no class; did you mean code?",
    ),
    (
        "[configurations.a]\npolicy = 'by_class'\nclasses.code = { candidates = ['m'], flor = 1 }",
        "router.toml:3: configurations.a.classes.code.flor does not exist; it should be one of candidates,",
    ),
    (
        "[configurations.a]\npolicy = 'by_class'\ndefault_class = 'chatt'",
        "router.toml:3: configurations.a.default_class is 'chatt', which does not exist; did you mean chat?",
    ),
    (
        "[endpoints.a]\npreset = 'opnai'",
        "router.toml:2: endpoints.a.preset is 'opnai', which does not exist; did you mean openai?",
    ),
    ("[endpoints.a]\nconcurrency = 2", 'router.toml:1: endpoints.a needs a base_url, or kind = "litellm", or a preset'),
    (
        "[endpoints.openai]\nconcurency = 2",
        "router.toml:2: endpoints.openai.concurency does not exist; did you mean concurrency or first_concurrency?",
    ),
    (
        "[endpoints.openai]\nbase_url = 'localhost'",
        "router.toml:2: endpoints.openai.base_url is not shown here; it should be a URL, like https://api.example.com/v1",
    ),
    *(
        (
            f"[endpoints.openai]\nbase_url = '{url}'",
            f"router.toml:2: endpoints.openai.base_url is not shown here; it should {said}",
        )
        for url, said in (
            ("http:///v1", "be a URL"),
            ("http://[::1/v1", "be a URL"),
            ("http://host:99999/v1", "be a URL"),
            ("http://host:0/v1", "be a URL"),
            ("http://host:many/v1", "be a URL"),
            ("http://:80/v1", "be a URL"),
            ("ftp://host/v1", "be a URL"),
            ("http://host/v 1", "be a URL"),
            ("http://host\\\\v1", "be a URL"),
            ("http://user@host/v1", "hold no user or password"),
            ("http://host/v1?api_key=x", "hold no query"),
            ("http://host/v1?", "hold no query"),
            ("http://host/v1#x", "hold no query"),
            ("http://host/v1/chat/completions/", "end before /chat/completions"),
        )
    ),
    (
        "[endpoints.\"\"]\nbase_url = 'http://host/v1'",
        "router.toml:1: endpoints.\"\" is ''; it should be a name, not blank",
    ),
    ("aliases = { ' ' = 'gpt-4.1' }", "router.toml:1: aliases.\" \" is ' '; it should be a name, not blank"),
    ("aliases = { a = '' }", "router.toml:1: aliases.a is ''; it should be a name, not blank"),
    ("x = " + "[" * 3000, "router.toml: is nested too deeply to be read"),
    ("x = " + "1" * 5000, "router.toml: holds a number that is too long to be read"),
    ("x = 1e" + "9" * 30, "router.toml: holds a number that is too long to be read"),
    (
        "[swarm]\nmax_steps = 0x" + "f" * 5000,
        "router.toml:2: swarm.max_steps is a number of more than 60 digits; it should be less than or equal to",
    ),
    (
        "[retry]\nmax_s = 1e300",
        "router.toml:2: retry.max_s is 1E+300; it should be less than or equal to 86400",
    ),
    (
        "[endpoints.openai]\nsettlement = { currency = 'CNY', rate = 1e9999999 }",
        "router.toml:2: endpoints.openai.settlement.rate is 1E+9999999; it should be a number from 1e-9 to 1e9",
    ),
    (
        "[endpoints.openai]\nsettlement = { currency = 'CNY', rate = 1e-10 }",
        "router.toml:2: endpoints.openai.settlement.rate is 1E-10; it should be a number from 1e-9 to 1e9",
    ),
    (
        "[endpoints.openai]\ndiscount_share = 1e-9999999",
        "router.toml:2: endpoints.openai.discount_share is 1E-9999999; it should have no more than 28 decimal places",
    ),
    (
        "[[fx.rates]]\npair = 'CNY/USD'\nrate = 1e9999999\nstarts = 2026-10-01",
        "router.toml:3: fx.rates[0].rate is 1E+9999999; it should be a number from 1e-9 to 1e9",
    ),
    (
        "[[endpoints.openai.credits]]\nkind = 'free'\namount = 1e9999999\ncurrency = 'USD'\nstarts = 2026-10-01",
        "router.toml:3: endpoints.openai.credits[0].amount is 1E+9999999; it should have no more than 30 digits",
    ),
    (
        "[endpoints.openai]\ndiscount_share = 85",
        "router.toml:2: endpoints.openai.discount_share is 85; it should be less than or equal to 1",
    ),
    (
        "[endpoints.openai]\nmarkup_share = 15",
        "router.toml:2: endpoints.openai.markup_share is 15; it should be less than or equal to 10",
    ),
    (
        "[[endpoints.openai.credits]]\nkind = 'gift'\namount = 1\ncurrency = 'USD'\nstarts = 2026-10-01",
        "router.toml:2: endpoints.openai.credits[0].kind is 'gift'; it should be 'free' or 'prepaid'",
    ),
    (
        "[[endpoints.openai.credits]]\nkind = 'free'\namount = 1\ncurrency = 'RMB'\nstarts = 2026-10-01",
        "router.toml:4: endpoints.openai.credits[0].currency is 'RMB'; it should be an ISO 4217 code, like USD",
    ),
    (
        (
            "[[endpoints.openai.credits]]\nkind = 'free'\namount = 1\ncurrency = 'USD'\nstart = 2026-10-01\n"
            "starts = 2026-10-01"
        ),
        "router.toml:5: endpoints.openai.credits[0].start does not exist; did you mean starts?",
    ),
    (
        (
            "[[endpoints.openai.credits]]\nkind = 'free'\namount = 1\ncurrency = 'USD'\nstarts = 2026-10-01\n"
            "expires = 2026-10-01"
        ),
        "router.toml:1: endpoints.openai.credits[0] is a table; it should have its expires after its starts",
    ),
    (
        (
            "[endpoints.openai]\ncommitments = [\n{ monthly_amount = 1, currency = 'USD', discount_share = 0, "
            "starts = 2026-10-01 },\n"
            "{ monthly_amount = 2, currency = 'USD', discount_share = 0, starts = 2026-11-01 } ]"
        ),
        "router.toml:2: endpoints.openai.commitments is a list; it should not be in force on one day together",
    ),
    (
        "[[fx.rates]]\npair = 'CNYUSD'\nrate = 0.14\nstarts = 2026-10-01",
        "router.toml:2: fx.rates[0].pair is 'CNYUSD'; it should be two different ISO 4217 codes, like CNY/USD",
    ),
    (
        "[[fx.rates]]\npair = 'CNY/USD'\nrate = 0\nstarts = 2026-10-01",
        "router.toml:3: fx.rates[0].rate is 0; it should be a number from 1e-9 to 1e9",
    ),
    ("[fx]\nmax_age = 3", "router.toml:2: fx.max_age does not exist; did you mean max_age_days?"),
    (
        "price_files = [\n  'gone'\n]",
        "router.toml:2: price_files[0] is 'gone'; no such file or folder beside the file",
    ),
]


@pytest.mark.parametrize(("text", "message"), ONE_FAULT)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    (fault,) = faults_of(tmp_path, text)
    assert fault.startswith(message)


def test_every_fault_is_told_at_once_in_file_order(tmp_path: Path) -> None:
    text = """time_zone = "Mars"
default_configuration = "hybird"
[retry]
attempts = 0
[endpoints.openai]
api_key = "x"
concurrency = "many"
preset = "nobody"
"""
    lines = [fault.split(": ")[0] for fault in faults_of(tmp_path, text)]
    assert lines == [f"router.toml:{line}" for line in (1, 2, 4, 6, 7, 8)]


@pytest.mark.parametrize(
    "text",
    [
        f'[endpoints.openai]\napi_key = "{PLANTED}"',
        f'[endpoints.openai]\nkey = "{PLANTED}"',
        f'[endpoints.openai]\nkey_env = "{PLANTED}"',
        f'[endpoints.openai]\nextra = {{ authorization = "Bearer {PLANTED}" }}',
        f'[endpoints.openai]\nbase_url = "https://user:{PLANTED}@example.com/v1"',
        f'[endpoints.openai]\nconcurrency = "{PLANTED}"',
        f'api_key = "{PLANTED}"',
        f'default_configuration = "{PLANTED}"',
        f'[endpoints.a]\npreset = "{PLANTED}"',
        f'[database]\nurl = "{PLANTED}"\nusr = 1',
        f"[endpoints.openai]\napi_key = {PLANTED}",
    ],
)
def test_a_secret_in_the_file_is_refused_and_never_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert PLANTED not in f"{caught.value}{caught.value.hint}{caught.value.faults!r}"
    assert caught.value.faults[0].line in (1, 2, 3)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@host/db", "postgresql://me@host/db?password=hunter2", "postgres://:hunter2@host"]
)
def test_a_database_password_in_the_file_is_refused_and_never_shown(tmp_path: Path, url: str) -> None:
    (fault,) = faults_of(tmp_path, f"[database]\nurl = '{url}'")
    said = "would put a secret into the file; set ROUTER_DATABASE_URL in the environment or in .env"
    assert fault == f"router.toml:2: database.url {said}"
    assert load(tmp_path, "[database]\nurl = 'postgresql://me@host:5432/db'").database.url is not None


def test_a_zero_is_plain_whatever_its_exponent(tmp_path: Path) -> None:
    text = "[endpoints.openai]\ndiscount_share = 0e9999999\nmarkup_share = 0e9999999\n"
    endpoint = load(tmp_path, text).endpoints["openai"]
    assert [str(endpoint.discount_share), str(endpoint.markup_share)] == ["0", "0"]


def test_a_home_that_does_not_exist_is_no_crash(tmp_path: Path) -> None:
    (fault,) = faults_of(tmp_path, "price_files = ['~no-such-user/prices']")
    assert fault.startswith("router.toml:1: price_files[0] is '~no-such-user/prices'; no such file or folder")
    with pytest.raises(ConfigError, match=r"ROUTER_CONFIG: '~no-such-user/x\.toml' is no file"):
        load_settings(tmp_path, {"ROUTER_CONFIG": "~no-such-user/x.toml"})


def test_names_of_users_own_are_no_secrets(tmp_path: Path) -> None:
    text = "[aliases]\nmonkey = 'gpt-4.1'\napi_key = 'gpt-4.1'\n"
    assert load(tmp_path, text).aliases == {"monkey": "gpt-4.1", "api_key": "gpt-4.1"}


def test_a_file_that_is_not_text_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"^router\.toml: is not UTF-8 text$"):
        load_settings(tmp_path, {})


def test_every_table_of_the_file_has_its_keys_known() -> None:
    modules = {name: module for name, module in sys.modules.items() if name.startswith(settings.__name__)}
    sections = {
        each
        for name, module in modules.items()
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Section) and each.__module__ == name
    }
    assert {each for each in sections if not each.__name__.startswith("_")} == set(faults.SECTIONS.values())


def test_no_key_has_two_upper_bounds() -> None:
    """Of two, pydantic holds the last one: that of a type would stand in the place of the key's own."""
    tables, twice = [Section], []
    for table in tables:
        tables += table.__subclasses__()
        for name, field in table.model_fields.items():
            if sum(isinstance(each, Le | Lt) for each in field.metadata) > 1:
                twice.append(f"{table.__name__}.{name}")
    assert len(tables) > 20
    assert twice == []
