"""`router demo`: the whole path on one machine, with no key and no network: tasks in, receipts, report, comparison."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import put

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports import Page
    from router.client import Router
    from router.result import Result
    from router.settings import Settings

CONFIGURATIONS = ("all-gpt-4.1", "hybrid")
COMPARED = ("all-gpt-4.1", "hybrid", "hybrid-sonnet", "hybrid-flash")
LATENCY_MS = 40


def demo(
    *,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", help="Write the SQLite ledger here; default: a new temporary folder.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=2, max=1000, help="Workers of the swarm.")] = 100,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the HTML page here; default: beside the ledger."),
    ] = None,
) -> None:
    """Route 30 tasks and a 100-worker swarm through a stand-in server; print receipts, reports, and write a page.

    Example: router demo --ledger demo.db --html demo.html
    """
    import asyncio
    import tempfile

    from router.cli.replaced import require_folder

    path = (ledger or Path(tempfile.mkdtemp(prefix="farebox-demo-")) / "ledger.db").absolute()
    page = (html or path.with_name(f"{path.stem}-report.html")).absolute()
    if html is not None:
        require_folder(page, "--html")
    asyncio.run(_demo(path, page, workers))


async def _demo(path: Path, page: Path, workers: int) -> None:
    from router.client import Router
    from router.endpoints.sandbox import EVERY_MODEL, Fault, Sandbox, SandboxThread

    _say("farebox demo: the answers come from a stand-in server on this machine (router sandbox), so they mean")
    _say("nothing; prices are the bundled catalogue's, a retired model at its last list; every call is real HTTP.\n")
    with SandboxThread(Sandbox(faults={EVERY_MODEL: Fault(latency_ms=LATENCY_MS)})) as sandbox:
        settings = _settings(sandbox.base_url, path)
        async with Router(settings, environ={}) as router:
            for configuration in CONFIGURATIONS:
                await _configuration(router, configuration, workers)
        requests = len(sandbox.log)
    _say(f"The stand-in server's own log counts {requests} requests.\n")
    _write_page(_print_pages(settings), page)
    _say(f"\nThe same as a page to open or send: {page.as_uri()}")
    _say(f"The ledger is {path}. Look at it again with:")
    _say(f"  ROUTER_DATABASE_URL=sqlite:///{path} router report --by configuration")


async def _configuration(router: Router, configuration: str, workers: int) -> None:
    """Do the thirty tasks and the swarm under one configuration; print what they cost."""
    import asyncio
    from decimal import Decimal

    from router.cli.demo_tasks import TASKS, swarm_task
    from router.cli.show import print_page, result_page

    results = await asyncio.gather(*(router.route(task, configuration=configuration) for task in TASKS))
    cost = sum((result.cost.settled_usd for result in results), Decimal(0))
    _say(f"== {configuration}: {len(results)} tasks, one call each: {cost:.6f} USD. The first of them:")
    _show(results[0])
    print_page(result_page(results[0]))
    _say(f"\n== {configuration}: one task as a swarm of {workers} workers:")
    result = await router.route(swarm_task(workers), configuration=configuration, plan="always")
    _show(result)
    print_page(result_page(result))
    _say("")


def _show(result: Result) -> None:
    from textwrap import shorten

    _say(f"answer: {shorten(result.text, 100, placeholder=' …')}")


def _settings(base_url: str, path: Path) -> Settings:
    from router.presets import BUILT_IN_CONFIGURATIONS
    from router.settings import DatabaseSettings, EndpointSettings, Settings

    endpoint = EndpointSettings(base_url=base_url, price_list="vendor", last_list=True)
    return Settings(
        database=DatabaseSettings(url=f"sqlite:///{path}"),
        endpoints={"sandbox": endpoint},
        configurations=dict(BUILT_IN_CONFIGURATIONS),
    )


def _write_page(pages: Sequence[Page], path: Path) -> None:
    """Write the pages as one HTML document."""
    from reports.render.html import render_html
    from router.cli.output import write_whole

    write_whole(path, render_html(pages, title="farebox demo: a month and what it would have cost"), "--html")


def _print_pages(settings: Settings) -> tuple[Page, Page]:
    """Print the month's report and the comparison, as `router report` and `router compare` do; return the last two."""
    from datetime import UTC, datetime
    from zoneinfo import ZoneInfo

    from pricing import Terms, load_fx
    from reports import (
        Basis,
        Exchange,
        compare_configurations,
        configurations_named,
        month_report,
        named_month,
        work_of_month,
    )
    from router.cli.show import print_page
    from router.client import catalog_of
    from router.ledger import default_url, open_ledger

    catalog, fx, now = catalog_of(settings), load_fx(), datetime.now(UTC)
    exchange = Exchange(fx, "USD")
    with open_ledger(default_url(settings)) as ledger:
        by_configuration, by_model = (
            month_report(
                ledger.reader, month=None, by=by, currency="USD", time_zone_name="UTC", fx=fx, catalog=catalog, now=now
            )
            for by in ("configuration", "model")
        )
        for page in (by_configuration, by_model):
            print_page(page)
            _say("")
        named = configurations_named(COMPARED, settings, catalog)
        month = named_month(None, ZoneInfo("UTC"), now)
        work = work_of_month(ledger.reader, month, split=None, catalog=catalog, price_list="vendor", exchange=exchange)
        compared = compare_configurations(named, work, Basis(catalog, "vendor", None, Terms(), exchange))
        print_page(compared)
    return by_model, compared


def _say(line: str) -> None:
    put(f"{line}\n")
