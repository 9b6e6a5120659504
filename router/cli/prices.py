"""`router prices`: what the catalogue says, where others say otherwise, and taking their prices over.

In: names and days. Out: pages on stdout. Invariant: a name that is not exactly known is an error with near misses; the
bundled files are never written to.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import prices_explain, prices_import
from router.cli.month_option import instant_of
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from pricing import Catalog

prices_app = typer.Typer(
    help="Look at the price catalogue, and hold it against others'.", no_args_is_help=True, rich_markup_mode=None
)

ListOption = Annotated[str, typer.Option("--list", help="Price list; vendor: the model's own vendor's.")]
OnOption = Annotated[
    str | None, typer.Option("--on", metavar="YYYY-MM-DD", help="Prices of that day, UTC. Default: now.")
]


@prices_app.callback()
def prices() -> None:
    """Look at the price catalogue, and hold it against others'."""


@prices_app.command("list")
@sharing(PageOptions, "out")
def list_(
    price_list: Annotated[str | None, typer.Option("--list", help="Only this price list. Default: all.")] = None,
    on: OnOption = None,
    *,
    out: PageOptions,
) -> None:
    """List every model with its plain prices per Mtok.

    Example: router prices list --list deepseek
    """
    from router.cli.prices_pages import list_page

    catalog = _catalog()
    names = catalog.lists if price_list is None else (price_list,)
    out.put(list_page(catalog, names, _at(on)))


@prices_app.command("show")
@sharing(PageOptions, "out")
def show(
    model: Annotated[str, typer.Argument(help="Exact id, alias, or id with a snapshot's day behind it.")],
    price_list: ListOption = "vendor",
    on: OnOption = None,
    *,
    out: PageOptions,
) -> None:
    """Show every price of a model that was in force at an instant, with its source.

    Example: router prices show deepseek-v4-pro --on 2026-09-01
    """
    from router.cli.prices_pages import show_page

    catalog = _catalog()
    out.put(show_page(catalog, _named(catalog, model, price_list), price_list, _at(on)))


@prices_app.command("history")
@sharing(PageOptions, "out")
def history(
    model: Annotated[str, typer.Argument(help="Exact id, alias, or id with a snapshot's day behind it.")],
    price_list: ListOption = "vendor",
    *,
    out: PageOptions,
) -> None:
    """Show every price a model ever had, closed ones too.

    Example: router prices history o3
    """
    from router.cli.prices_pages import history_page

    catalog = _catalog()
    out.put(history_page(catalog, _named(catalog, model, price_list), price_list))


@prices_app.command("check")
def check(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Price files or folders of them. Default: those of router.toml.")
    ] = None,
) -> None:
    """Check price files whole: every fault is reported with its line.

    Example: router prices check prices/
    """
    from pricing import load_catalog
    from router.cli.output import put
    from router.cli.prices_import import price_files
    from router.settings_file import load_settings

    settings = load_settings()
    given = tuple(files) if files else settings.price_files
    catalog = load_catalog(given) if files else _catalog()
    counts = dict.fromkeys(price_files(given), 0)
    texts = {path.read_text(encoding="utf-8"): path for path in counts}
    inline = 0
    for layer, placed in catalog.placed_rows():
        path = texts.get(placed.place.text or "")
        if path is not None:
            counts[path] += 1
        inline += layer > 0 and path is None
    for path, count in counts.items():
        put(f"{path}: {count} prices, good\n")
    if inline:
        put(f"router.toml: {inline} prices, good\n")
    if not counts and not inline:
        put("no price files of your own are set; the bundled lists are good\n")


prices_app.command("diff")(prices_import.diff)
prices_app.command("import")(prices_import.import_)
prices_app.command("explain")(prices_explain.explain_cost)


def _catalog() -> Catalog:
    from router.client import catalog_of
    from router.settings_file import load_settings

    return catalog_of(load_settings())


def _named(catalog: Catalog, model: str, price_list: str) -> str:
    """Return the canonical id of a name, the settings' own aliases included."""
    from router.settings_file import load_settings

    return catalog.resolve(load_settings().aliases.get(model, model), price_list)


def _at(on: str | None) -> datetime:
    from zoneinfo import ZoneInfo

    return datetime.now(UTC) if on is None else instant_of(on, ZoneInfo("UTC"), "--on")
