"""Alerts: told by webhook and command, once in a while, without ever holding up a call or showing a secret."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from router.alerts import Alert, Alerts
from router.client import Router
from router.endpoints.sandbox import Fault, Sandbox
from router.endpoints.webhook import sender_of
from router.ledger import open_ledger
from router.ledger.budget_records import BudgetRow
from router.ledger.records import Amount
from router.settings import Settings
from router.settings_health import AlertSettings
from tests.new_ledger import new_ledger

SECRET = "T0P/hook-4711-secret"
AT = datetime(2026, 11, 3, 9, 30, 1, 250_000, UTC)
DOWN = Alert("health", "office", "down", "endpoint office is down: 3 probes failed", {"why": "3 probes failed"}, AT)


class Hook:
    """A server that is told of something."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 204
        self.wait_s = 0.0
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        self.got.append(json.loads(await request.read()))
        await asyncio.sleep(self.wait_s)
        return web.Response(status=self.status)


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    made = Hook()
    application = web.Application()
    application.router.add_post("/{path:.*}", made.take)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/{SECRET}"
    yield made
    await runner.cleanup()


def webhook(**more: Any) -> AlertSettings:
    return AlertSettings.model_validate({"kind": "webhook", "url_env": "HOOK_URL", **more})


async def test_a_webhook_is_told_in_json(hook: Hook) -> None:
    alerts = Alerts([webhook()], {"HOOK_URL": hook.url})
    alerts.tell(DOWN)
    await alerts.aclose()
    assert hook.got == [
        {
            "source": "farebox",
            "event": "health",
            "subject": "office",
            "state": "down",
            "message": "endpoint office is down: 3 probes failed",
            "at": "2026-11-03T09:30:01.250Z",
            "details": {"why": "3 probes failed"},
        }
    ]


async def test_a_command_reads_it_on_its_standard_input(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    code = f"import sys, pathlib; pathlib.Path({str(seen)!r}).write_text(sys.stdin.read())"
    alerts = Alerts([AlertSettings(kind="command", command=(sys.executable, "-c", code))], {})
    alerts.tell(DOWN)
    await alerts.aclose(30)
    assert json.loads(seen.read_text()) == DOWN.to_json()


async def test_only_what_was_asked_for_is_told_and_once_in_the_interval(hook: Hook) -> None:
    alerts = Alerts([webhook(events=["health"], min_interval_s=0.3)], {"HOOK_URL": hook.url})
    assert (alerts.hears("health"), alerts.hears("budget")) == (True, False)
    for _ in range(5):
        alerts.tell(DOWN)
    alerts.tell(Alert("health", "office", "up", "it is up"))
    alerts.tell(Alert("budget", "all", "over", "used up"))
    await alerts.aclose()
    assert sorted(each["state"] for each in hook.got) == ["down", "up"]
    await asyncio.sleep(0.3)
    alerts.tell(DOWN)
    await alerts.aclose()
    assert len(hook.got) == 3


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("refuses", "HTTP 500"),
        ("hangs", "no answer in 0.1 s"),
        ("is not there", "webhook"),
        ("is not set", "environment variable HOOK_URL is not set"),
        ("is no URL", "not a URL"),
    ],
)
async def test_a_webhook_that_fails_is_said_once_without_its_address(
    hook: Hook, caplog: pytest.LogCaptureFixture, how: str, words: str
) -> None:
    hook.status, hook.wait_s = (500 if how == "refuses" else 204), (5.0 if how == "hangs" else 0.0)
    urls = {"is not there": f"http://127.0.0.1:1/{SECRET}", "is not set": "", "is no URL": SECRET}
    alerts = Alerts(
        [webhook(timeout_s=0.1 if how == "hangs" else 5, min_interval_s=0)], {"HOOK_URL": urls.get(how, hook.url)}
    )
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            alerts.tell(DOWN)
        await alerts.aclose()
    (said,) = [record.getMessage() for record in caplog.records if record.name == "router.alerts"]
    assert words in said
    assert "hook-4711" not in caplog.text
    assert "hook-4711" not in repr(vars(alerts)["_addresses"])


def test_no_part_of_a_webhook_s_address_is_said() -> None:
    """Whatever an exception carries of it: its path, a part of that, a value of its query."""
    sender = sender_of("https://hooks.example.com/services/T0P-aaa/hook-4711?key=planted-key", "HOOK_URL")
    said = str(sender.failure("refused", "no way to hook-4711 or /services/T0P-aaa/hook-4711?key=planted-key"))
    assert said == "endpoint HOOK_URL (webhook): no way to [secret] or /[secret]/[secret]/[secret]?key=[secret]"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("no-such-program-anywhere",), "No such file"),
        ((sys.executable, "-c", "raise SystemExit(3)"), "ended with status 3"),
        ((sys.executable, "-c", "import time; time.sleep(60)"), "not done in 0.5 s"),
    ],
)
async def test_a_command_that_fails_or_hangs_is_ended_and_said(
    caplog: pytest.LogCaptureFixture, command: tuple[str, ...], words: str
) -> None:
    timeout_s = 0.5 if "60" in command[-1] else 30
    alerts = Alerts([AlertSettings(kind="command", command=command, timeout_s=timeout_s)], {})
    begun = time.monotonic()
    alerts.tell(DOWN)
    assert time.monotonic() - begun < 0.1  # telling waits for nothing
    await alerts.aclose(30)
    (said,) = [record.getMessage() for record in caplog.records if record.name == "router.alerts"]
    assert words in said


async def test_the_end_waits_for_deliveries_but_not_for_ever(hook: Hook) -> None:
    hook.wait_s = 30.0
    alerts = Alerts([webhook(timeout_s=60)], {"HOOK_URL": hook.url})
    alerts.tell(DOWN)
    begun = time.monotonic()
    await alerts.aclose(0.2)
    assert time.monotonic() - begun < 3


def settings_for(office: str, relay: str, folder: Path, **more: Any) -> Settings:
    endpoint = {"price_list": "openai"}
    return Settings.model_validate(
        {
            "database": {"url": new_ledger(folder / "ledger.db")},
            "endpoints": {
                "office": {**endpoint, "base_url": office, "fallback": "relay"},
                "relay": {**endpoint, "base_url": relay},
            },
            "configurations": {"one": {"policy": "fixed", "orchestrator": "gpt-4.1", "worker": "gpt-4.1"}},
            "default_configuration": "one",
            "retry": {"base_s": 0.01, "max_s": 0.05},
            "alerts": [{"kind": "webhook", "url_env": "HOOK_URL"}],
            **more,
        }
    )


async def test_a_run_tells_of_health_and_of_the_fallback(hook: Hook, tmp_path: Path) -> None:
    async with Sandbox(faults={"*": Fault(status=500)}) as office, Sandbox() as relay:
        settings = settings_for(office.base_url, relay.base_url, tmp_path)
        async with Router(settings, environ={"HOOK_URL": hook.url}) as router:
            for number in range(6):
                await router.route(f"task {number}")
    told = {(each["event"], each["subject"], each["state"]): each for each in hook.got}
    assert set(told) == {("fallback", "office", "served"), ("health", "office", "down")}
    assert len(hook.got) == 2
    down = told["health", "office", "down"]
    assert down["message"] == "endpoint office is down: 5 failures in a row; its calls go to relay"
    assert down["details"] == {"why": "5 failures in a row", "fallback": "relay"}


async def test_a_run_tells_of_a_budget(hook: Hook, tmp_path: Path) -> None:
    async with Sandbox() as office, Sandbox() as relay:
        settings = settings_for(office.base_url, relay.base_url, tmp_path, budgets={"refresh_s": 0})
        with open_ledger(settings.database.url or "") as ledger:
            ledger.set_budget(BudgetRow("all", "", Amount("USD", Decimal("0.0001")), 0, "soft"))
        async with Router(settings, environ={"HOOK_URL": hook.url}) as router:
            for number in range(2):  # what one has used, the next one sees
                await router.route(f"hello {number}", max_output_tokens=100)
    assert ("budget", "all", "over") in {(each["event"], each["subject"], each["state"]) for each in hook.got}
