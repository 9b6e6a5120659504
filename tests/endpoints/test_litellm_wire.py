"""litellm as an endpoint, through litellm itself against the stand-in server; its import takes seconds, once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from router.endpoints import open_endpoint
from router.endpoints.litellm_wire import LitellmEndpoint
from router.endpoints.protocol import TextDelta, WireRequest, WireResponse
from router.endpoints.sandbox import Fault, Sandbox
from router.errors import EndpointError
from router.settings import EndpointSettings

pytestmark = pytest.mark.filterwarnings("ignore")  # litellm's own
KEY = "sk-planted-0123456789abcdef"
MESSAGES = ({"role": "user", "content": "Summarise the harbour report."},)
FAULTS = {
    "hangs": Fault(hang=True),
    "drops": Fault(drop=True),
    "is-cut": Fault(cut_after=3),
    "breaks": Fault(error_after=3),
    "stalls": Fault(stall_after=2),
    "limits": Fault(status=429, retry_after_s=2),
    "fails": Fault(status=500),
    "is-full": Fault(status=503),
    "is-wrong": Fault(status=400),
    "is-absent": Fault(status=404),
    "mumbles": Fault(malformed=True),
    "is-another": Fault(served_model="gpt-4o-mini", upstream_id="same"),
    "is-silent": Fault(omit_usage=True),
}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(key=KEY, faults=FAULTS) as server:
        yield server


def endpoint(base_url: str, key: str | None = KEY, **more: Any) -> LitellmEndpoint:
    settings = EndpointSettings(kind="litellm", base_url=base_url, key_env="BOX_KEY", read_timeout_s=3, **more)
    return LitellmEndpoint("box", settings, key=lambda: key)


def ask(model: str = "gpt-4.1", **parameters: Any) -> WireRequest:
    return WireRequest(f"openai/{model}", MESSAGES, parameters)


async def test_send_and_stream_agree(sandbox: Sandbox, capfd: pytest.CaptureFixture[str]) -> None:
    box = endpoint(sandbox.base_url)
    whole = await box.send(ask(max_tokens=20, temperature=0))
    *deltas, streamed = [item async for item in box.stream(ask(max_tokens=20, temperature=0))]
    await box.aclose()
    assert isinstance(streamed, WireResponse)
    assert whole.text == streamed.text == "".join(d.text for d in deltas if isinstance(d, TextDelta)) != ""
    assert whole.usage == streamed.usage
    assert whole.usage is not None
    assert whole.usage.output_tokens == 20
    assert whole.finish_reason == streamed.finish_reason == "length"
    assert whole.served_model == streamed.served_model == "gpt-4.1"
    assert streamed.timings.ttft_us is not None
    assert len(sandbox.log) == 2
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("model", "kind", "status", "possibly_billed"),
    [
        ("hangs", "timeout", None, True),
        ("drops", "dropped", None, True),
        ("limits", "rate_limited", 429, False),
        ("fails", "server_error", 500, True),
        ("is-full", "overloaded", 503, False),
        ("is-wrong", "rejected", 400, False),
        ("is-absent", "not_found", 404, False),
        ("mumbles", "malformed", None, True),
    ],
)
async def test_failures_of_send(
    sandbox: Sandbox,
    capfd: pytest.CaptureFixture[str],
    model: str,
    kind: str,
    status: int | None,
    possibly_billed: bool,  # noqa: FBT001
) -> None:
    settings = EndpointSettings(kind="litellm", base_url=sandbox.base_url, key_env="BOX_KEY", read_timeout_s=0.5)
    with pytest.raises(EndpointError) as caught:
        await LitellmEndpoint("box", settings, key=lambda: KEY).send(ask(model))
    error = caught.value
    assert (error.kind, error.status, error.possibly_billed) == (kind, status, possibly_billed)
    assert error.retry_after_s == (2 if model == "limits" else None)
    assert len(sandbox.log) == 1, "litellm retries nothing"
    assert error.__context__ is None
    assert KEY not in f"{error!r} {error.hint} {error.__dict__}"
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("model", "kind"), [("is-cut", "cut"), ("breaks", "cut"), ("mumbles", "cut"), ("stalls", "timeout")]
)
async def test_failures_of_a_stream(sandbox: Sandbox, model: str, kind: str) -> None:
    """R9 holds through litellm, too: a cut stream is never a clean end."""
    settings = EndpointSettings(kind="litellm", base_url=sandbox.base_url, key_env="BOX_KEY", read_timeout_s=0.5)
    with pytest.raises(EndpointError) as caught:
        async for item in LitellmEndpoint("box", settings, key=lambda: KEY).stream(ask(model)):
            assert isinstance(item, TextDelta), "a clean end"
    assert (caught.value.kind, caught.value.possibly_billed) == (kind, True)
    assert len(sandbox.log) == 1


async def test_the_served_name_and_an_absent_usage_come_through(sandbox: Sandbox) -> None:
    box = endpoint(sandbox.base_url)
    response = await box.send(ask("is-another"))
    assert (response.served_model, response.upstream_id) == ("gpt-4o-mini", "same")
    silent = await box.send(ask("is-silent"))
    *_, streamed = [item async for item in box.stream(ask("is-silent"))]
    assert isinstance(streamed, WireResponse)
    assert (silent.usage, streamed.usage) == (None, None), "an estimate of litellm's is no report of the upstream"
    assert silent.usage_error == "usage: reports no token at all", "litellm writes zeros"


async def test_a_consumer_that_leaves_closes_the_connection(sandbox: Sandbox) -> None:
    sandbox.set_faults({"*": Fault(per_token_ms=10)})
    async with aclosing(endpoint(sandbox.base_url).stream(ask())) as stream:
        for _ in range(3):
            await anext(stream)
    async with asyncio.timeout(3):
        while sandbox.log[0].client_stayed is None:
            await asyncio.sleep(0.01)
    assert sandbox.log[0].client_stayed is False


async def test_keys_and_addresses() -> None:
    async with Sandbox(key="another") as sandbox:
        with pytest.raises(EndpointError, match="box") as caught:
            await endpoint(sandbox.base_url).send(ask())
        assert (caught.value.kind, caught.value.hint) == (
            "unauthorized",
            "the key in BOX_KEY was refused: mend BOX_KEY in the environment or in .env",
        )
        with pytest.raises(EndpointError, match="BOX_KEY is not set"):
            await endpoint(sandbox.base_url, key=None).send(ask())
        assert len(sandbox.log) == 1
        base_url = sandbox.base_url
    with pytest.raises(EndpointError) as gone:
        await endpoint(base_url).send(ask())
    assert (gone.value.kind, gone.value.possibly_billed) == ("refused", False)
    with pytest.raises(EndpointError) as unknown:
        await endpoint(base_url).send(WireRequest("no-such-vendor", MESSAGES))
    assert unknown.value.kind == "rejected"


def test_opening_an_endpoint_loads_no_litellm() -> None:
    code = (
        "import sys; from router.endpoints import open_endpoint; from router.settings import EndpointSettings;"
        " open_endpoint('box', EndpointSettings(kind='litellm')); sys.exit('litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}, check=False).returncode == 0
    assert isinstance(open_endpoint("box", EndpointSettings(kind="litellm")), LitellmEndpoint)
