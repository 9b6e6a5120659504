"""[gates], [health], [[alerts]] and the keys of an endpoint that go with them: defaults, faults with their lines."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.settings import Settings
from router.settings_file import load_settings

HEAD = "[endpoints.office]\nbase_url = 'http://localhost/v1'\n"


def load(folder: Path, text: str) -> Settings:
    (folder / "router.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, {})


def test_what_is_set_is_read(tmp_path: Path) -> None:
    found = load(
        tmp_path,
        HEAD
        + """
first_concurrency = 50
rpm = 600
tpm = 200000
fallback = "relay"
fallback_models = { "gpt-4o" = "gpt-4o-mini" }
[endpoints.relay]
[retry]
budget_share = 0.2
budget_floor = 3
[gates]
cut_share = 0.5
[health]
probe_s = 2
[[alerts]]
kind = "command"
command = ["logger", "-t", "farebox"]
events = ["health"]
[[alerts]]
kind = "webhook"
url_env = "ALERT_URL"
""",
    )
    office = found.endpoints["office"]
    assert (office.first_concurrency, office.rpm, office.tpm) == (50, 600, 200_000)
    assert (office.fallback, office.fallback_models) == ("relay", {"gpt-4o": "gpt-4o-mini"})
    assert (found.retry.budget_share, found.retry.budget_floor) == (Decimal("0.2"), 3)
    assert (found.gates.cut_share, found.health.probe_s) == (0.5, 2)
    command, webhook = found.alerts
    assert (command.command, command.events) == (("logger", "-t", "farebox"), ("health",))
    assert (webhook.url_env, webhook.events) == ("ALERT_URL", ("budget", "health", "fallback"))


def test_the_defaults_are_those_of_the_reference_systems() -> None:
    """S11: 5xx > 1 %, switched within 45 s; 429 > 0.5 %. A hung endpoint is down after 15 + 2 × 5 + 5 s."""
    found = Settings()
    assert (found.health.down_share, found.gates.refused_share) == (Decimal("0.01"), Decimal("0.005"))
    health = found.health
    longest = health.quiet_s + (health.probe_failures - 1) * health.probe_s + health.probe_timeout_s
    assert longest == 30
    assert found.alerts == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gates]\ncut_share = 1", "router.toml:2: gates.cut_share is 1; it should be less than 1"),
        ("[gates]\nbeta = 1", "router.toml:2: gates.beta does not exist; it should be one of cut_share, hold_max_s"),
        ("[health]\ndown_share = 1.5", "router.toml:2: health.down_share is 1.5; it should be less than or equal to 1"),
        (
            "[health]\nprobes = 2",
            "router.toml:2: health.probes does not exist; did you mean probe_s or probe_failures?",
        ),
        ("[retry]\nbudget_share = -1", "router.toml:2: retry.budget_share is -1; it should be greater than or equal"),
        (HEAD + "rpm = 0", "router.toml:3: endpoints.office.rpm is 0; it should be greater than or equal to 1"),
        (HEAD + "tpm = 1.5", "router.toml:3: endpoints.office.tpm is 1.5; it should be a valid integer"),
        (HEAD + "fallback = 7", "router.toml:3: endpoints.office.fallback is 7; it should be text, in quotes"),
        ("[[alerts]]\nkind = 'mail'", "router.toml:2: alerts[0].kind is 'mail'; it should be 'webhook' or 'command'"),
        ("[[alerts]]\nkind = 'webhook'", 'router.toml:1: alerts[0] of kind "webhook" needs url_env, and no command'),
        ("[[alerts]]\nkind = 'command'", 'router.toml:1: alerts[0] of kind "command" needs command, and no url_env'),
        ("[[alerts]]\nkind = 'command'\ncommand = ['a']\nurl_env = 'B'", "router.toml:1: alerts[0] of kind"),
        ("[[alerts]]\nkind = 'webhook'\nurl = 'http://x/y'", "router.toml:3: alerts[0].url does not exist; did you"),
        ("[[alerts]]\nkind = 'webhook'\nurl_env = 'U'\nevents = ['helth']", "router.toml:4: alerts[0].events[0] is"),
        ("[[alerts]]\nkind = 'webhook'\nurl_env = 'U'\nevents = []", "router.toml:4: alerts[0].events is a list"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    (fault,) = str(caught.value).splitlines()
    assert fault.startswith(message)


def test_an_address_in_the_place_of_its_variable_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "[[alerts]]\nkind = 'webhook'\nurl_env = 'https://hooks.example.com/T0P/secret-4711'")
    assert "4711" not in str(caught.value)
    assert str(caught.value).startswith("router.toml:3: alerts[0].url_env is not shown here; it should be the name of")
