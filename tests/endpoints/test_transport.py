"""Every way aiohttp can fail has its kind, by whether anything had been sent."""

from __future__ import annotations

import asyncio
import inspect
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp import client_exceptions
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from router.endpoints.failures import Sender
from router.endpoints.protocol import ERROR_KINDS
from router.endpoints.transport import Watch, broken

KEY = "sk-planted-0123456789abcdef"
SENDER = Sender("box", "https://api.example.com", "BOX_KEY", (KEY,))
URL_ = URL("https://api.example.com/v1")
INFO = aiohttp.RequestInfo(URL_, "POST", CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {KEY}"})), URL_)
PLACE = ConnectionKey("api.example.com", 443, True, True, None, None, None)
REFUSED = ConnectionRefusedError(111, "Connection refused")

# Exception class → (how it is made, kind where nothing was sent, kind after the request was sent).
CASES: dict[str, tuple[Any, str, str]] = {
    "ClientError": (lambda c: c("x"), "refused", "dropped"),
    "ClientResponseError": (lambda c: c(INFO, (), status=400, message="bad header"), "refused", "malformed"),
    "ContentTypeError": (lambda c: c(INFO, ()), "refused", "malformed"),
    "WSServerHandshakeError": (lambda c: c(INFO, ()), "refused", "malformed"),
    "ClientHttpProxyError": (lambda c: c(INFO, (), status=407), "refused", "refused"),
    "TooManyRedirects": (lambda c: c(INFO, ()), "refused", "malformed"),
    "ClientConnectionError": (lambda c: c("x"), "refused", "dropped"),
    "ClientConnectionResetError": (lambda c: c("reset"), "refused", "dropped"),
    "ClientOSError": (lambda c: c(104, "Connection reset by peer"), "refused", "dropped"),
    "ClientConnectorError": (lambda c: c(PLACE, REFUSED), "refused", "refused"),
    "ClientConnectorDNSError": (lambda c: c(PLACE, OSError(-2, "Name not known")), "refused", "refused"),
    "ClientProxyConnectionError": (lambda c: c(PLACE, REFUSED), "refused", "refused"),
    "UnixClientConnectorError": (lambda c: c("/x", PLACE, REFUSED), "refused", "refused"),
    "ServerConnectionError": (lambda c: c("x"), "refused", "dropped"),
    "ServerDisconnectedError": (lambda c: c(), "refused", "dropped"),
    "ServerTimeoutError": (lambda c: c("x"), "timeout", "timeout"),
    "ConnectionTimeoutError": (lambda c: c("x"), "connect_timeout", "connect_timeout"),
    "SocketTimeoutError": (lambda c: c("x"), "timeout", "timeout"),
    "ServerFingerprintMismatch": (lambda c: c(b"a", b"b", "h", 1), "refused", "dropped"),
    "ClientPayloadError": (lambda c: c("not enough data"), "refused", "dropped"),
    "UploadAbortedError": (lambda c: c("x"), "refused", "dropped"),
    "InvalidURL": (lambda c: c("x"), "refused", "refused"),
    "InvalidUrlClientError": (lambda c: c("x"), "refused", "refused"),
    "RedirectClientError": (lambda c: c("x"), "refused", "dropped"),
    "NonHttpUrlClientError": (lambda c: c("x"), "refused", "dropped"),
    "InvalidUrlRedirectClientError": (lambda c: c("x"), "refused", "refused"),
    "NonHttpUrlRedirectClientError": (lambda c: c("x"), "refused", "dropped"),
    "ClientSSLError": (lambda c: c(PLACE, ssl.SSLError(1, "bad")), "refused", "refused"),
    "ClientConnectorSSLError": (lambda c: c(PLACE, ssl.SSLError(1, "bad")), "refused", "refused"),
    "ClientConnectorCertificateError": (lambda c: c(PLACE, ValueError("expired")), "refused", "refused"),
}


def client_classes() -> dict[str, type[Exception]]:
    """Return every exception of aiohttp's client, by name."""
    members = inspect.getmembers(client_exceptions, inspect.isclass)
    return {name: cls for name, cls in members if issubclass(cls, aiohttp.ClientError)}


def test_every_exception_of_aiohttps_client_is_in_the_table() -> None:
    assert set(client_classes()) == set(CASES)


@pytest.mark.parametrize("name", CASES)
async def test_an_exception_of_aiohttp_has_its_kind(name: str) -> None:
    make, unsent, sent = CASES[name]
    error = make(client_classes()[name])
    watch = Watch(1, 1)
    before = broken(SENDER, error, watch)
    watch.sent()
    after = broken(SENDER, error, watch)
    assert (before.kind, after.kind) == (unsent, sent)
    assert {before.kind, after.kind} <= set(ERROR_KINDS)
    assert KEY not in f"{before!r} {before} {after!r} {after}"
    assert before.possibly_billed is (unsent == "timeout")
    assert after.possibly_billed is (sent in {"timeout", "dropped", "malformed"})


@pytest.mark.parametrize(
    "error", [OSError(28, "x"), BrokenPipeError(), ConnectionResetError(), RuntimeError("x"), ValueError("x")]
)
async def test_other_exceptions_have_a_kind_too(error: Exception) -> None:
    watch = Watch(1, 1)
    assert broken(SENDER, error, watch).kind == "refused"
    watch.sent()
    assert broken(SENDER, error, watch).kind == "dropped"


async def test_a_time_out_is_of_the_phase_it_struck_in() -> None:
    watch = Watch(1, 1)
    async with watch.timer:
        watch.connecting()
        assert broken(SENDER, TimeoutError(), watch).kind == "connect_timeout"
        watch.connected()
        assert broken(SENDER, TimeoutError(), watch).kind == "timeout"
        assert watch.timer.when() == pytest.approx(asyncio.get_running_loop().time() + 1, abs=0.5)


@pytest.mark.parametrize(
    ("stated_ms", "streamed", "network_us", "inference_us"),
    [
        # started 0, sent 0.010, headers 0.050, end 0.070
        (None, False, 30_000, 40_000),  # waiting from sent to headers: 40 ms
        (None, True, 10_000, 60_000),  # a stream is waited for to its end
        ("25", False, 45_000, 25_000),
        ("25", True, 25_000, 45_000),  # 25 stated + 20 of stream
        ("900", False, 0, 70_000),  # never more than there was
        ("x", False, 30_000, 40_000),
    ],
)
async def test_where_the_time_went(
    stated_ms: str | None,
    streamed: bool,  # noqa: FBT001 - a column
    network_us: int,
    inference_us: int,
) -> None:
    watch = Watch(1, 1)
    watch.started_s, watch.sent_s, watch.answered_s = 0.0, 0.010, 0.050
    timings = watch.timings(0.070, stated_ms, 0.055 if streamed else None, streamed=streamed)
    assert timings.network_us == pytest.approx(network_us, abs=2)
    assert timings.inference_us == pytest.approx(inference_us, abs=2)
    assert timings.network_us + timings.inference_us == timings.latency_us == pytest.approx(70_000, abs=1)
    assert timings.ttft_us == (pytest.approx(55_000, abs=1) if streamed else None)
