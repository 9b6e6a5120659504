"""`router state`: what agents have agreed on: show.

In: options. Out: a page or JSON on stdout. Invariant: nothing is changed.
"""

from __future__ import annotations

from typing import Annotated

import typer

from router.cli.result_format import ResultFormat, ResultOption

state_app = typer.Typer(help="State that agents share: show.", no_args_is_help=True, rich_markup_mode=None)


@state_app.callback()
def state() -> None:
    """State that agents share: show."""


@state_app.command("show")
def show(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="Of an agent, of a run, or shared.")] = "shared",
    *,
    prefix: Annotated[str, typer.Option("--prefix", help="Only keys that begin so.")] = "",
    form: ResultOption = ResultFormat.TEXT,
) -> None:
    """Show the values of a namespace with their versions, and its snapshots.

    Example: router state show shared --prefix orders/
    """
    from router.cli.runs import put_wide
    from router.cli.topics_page import state_page
    from router.errors import unknown_name
    from router.ledger import default_url, open_ledger
    from router.messages.state import DEFAULT_NAMESPACE
    from router.settings_file import load_settings

    with open_ledger(default_url(load_settings())) as ledger:
        names = {DEFAULT_NAMESPACE, *ledger.messages.namespaces()}  # that one is there before anything is written
        if namespace not in names:
            raise unknown_name("namespace", namespace, names)
        page = state_page(namespace, ledger.messages.values(namespace, prefix), ledger.messages.snapshots(namespace))
    put_wide(page, form)
