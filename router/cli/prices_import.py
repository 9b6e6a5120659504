"""`router prices diff` and `router prices import`: a data set held against the catalogue, and taken over.

In: an installed data set, the settings' price files. Out: pages on stdout; a price file of the user's, written whole or
not at all. Invariant: nothing is written unconfirmed, and nothing that does not load together with everything else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.month_option import instant_of
from router.cli.output import say
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from pricing import Catalog
    from pricing.sources import Comparison, DataSet
    from router.settings import Settings

DEFAULT_NAME = "imported.toml"


class Source(StrEnum):
    """A data set that prices can be read from."""

    LITELLM = "litellm"
    GENAI_PRICES = "genai-prices"


ModelsArgument = Annotated[list[str] | None, typer.Argument(help="Only these models. Default: all.")]
SourceOption = Annotated[Source, typer.Option("--source", help="The data set, as installed.")]


@sharing(PageOptions, "out")
def diff(
    models: ModelsArgument = None,
    source: SourceOption = Source.LITELLM,
    on: Annotated[
        str | None, typer.Option("--on", metavar="YYYY-MM-DD", help="Prices of that day, UTC. Default: now.")
    ] = None,
    *,
    out: PageOptions,
) -> None:
    """Show where a public data set and the catalogue differ, model by model.

    Example: router prices diff --source genai-prices claude-sonnet-4.5
    """
    from router.cli.prices_pages import difference_page
    from router.client import catalog_of
    from router.settings_file import load_settings

    at = _now() if on is None else _instant(on, "--on")
    catalog = catalog_of(load_settings())
    out.put(difference_page(_compared(catalog, _read(source, at), models)))


@sharing(PageOptions, "out")
def import_(
    models: ModelsArgument = None,
    source: SourceOption = Source.LITELLM,
    starts: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="YYYY-MM-DD", help="Day from which they hold, UTC; not a past one. Default: now."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Your price file. Default: imported.toml in your folder of price files."),
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Add models the catalogue does not have, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking.")] = False,
    *,
    out: PageOptions,
) -> None:
    """Take over prices that differ into a price file of your own: new rows are added, its old ones closed.

    Past calls keep their price. Example: router prices import gpt-4.1 --source genai-prices --yes
    """
    from pricing.sources import plan_import
    from router.cli.output import write_whole
    from router.cli.prices_pages import import_page
    from router.client import catalog_of
    from router.settings_file import load_settings

    settings, now = load_settings(), _now()
    target, at = file or _target(settings), now if starts is None else _future(starts, now)
    catalog = catalog_of(settings)
    _must_be_read(target, settings)
    text = target.read_text(encoding="utf-8") if target.is_file() else ""
    found = _compared(catalog, _read(source, at), models)
    plan = plan_import(found, catalog.placed_rows(), text, starts=at, checked=now.date(), with_new=new)
    changed = plan.text != text
    if changed:
        _must_load(settings, target, plan.text)
    written = changed and (yes or _confirmed(len(plan.additions), len(plan.closed), target))
    if written:
        write_whole(target, plan.text, "--file")
    out.put(import_page(plan, found.data, str(target), written=written))


def price_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files that price files and folders of them stand for, in the order they are read."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.toml"))
        else:
            yield path


def _read(source: Source, at: datetime) -> DataSet:
    from pricing.sources import read_genai_prices, read_litellm

    return read_litellm(at) if source is Source.LITELLM else read_genai_prices(at)


def _compared(catalog: Catalog, data: DataSet, models: Sequence[str] | None) -> Comparison:
    """Return the comparison of the models that were named, or of all; a name that no list has is an error."""
    from pricing.sources import compare

    return compare(data, catalog, frozenset(catalog.find(model) for model in models) if models else None)


def _target(settings: Settings) -> Path:
    from router.errors import WrongUsage

    folders = [path for path in settings.price_files if path.is_dir()]
    named = [path for path in settings.price_files if path.name == DEFAULT_NAME]
    if named or folders:
        return named[0] if named else folders[0] / DEFAULT_NAME
    raise WrongUsage(
        "--file: missing; no folder of price files is set that an imported one could go to",
        hint='make a folder, add price_files = ["prices/"] to router.toml, or name one of your files with --file',
    )


def _must_be_read(target: Path, settings: Settings) -> None:
    """Refuse a file that the settings do not read: prices in it would price nothing."""
    from router.errors import WrongUsage

    read = {path.resolve() for path in price_files(settings.price_files)}
    folders = {path.resolve() for path in settings.price_files if path.is_dir()}
    if target.resolve() in read or (target.suffix == ".toml" and target.resolve().parent in folders):
        return
    raise WrongUsage(
        f"--file: {str(target)!r} is not among the price files of router.toml, so nothing would be priced by it",
        hint=f'price_files = ["{target}"] in router.toml reads it; an empty file is allowed',
    )


def _must_load(settings: Settings, target: Path, text: str) -> None:
    """Load the whole catalogue with the file's new text, so that every fault is found before it is written."""
    import tempfile

    from pricing import load_catalog

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / target.name
        draft.write_text(text, encoding="utf-8")
        others = [path for path in price_files(settings.price_files) if path.resolve() != target.resolve()]
        load_catalog([*others, draft], settings.prices or None)


def _confirmed(added: int, closed: int, target: Path) -> bool:
    """Ask on a terminal; without one, nothing is written."""
    if not sys.stdin.isatty():
        say("not written: --yes writes without asking")
        return False
    return typer.confirm(f"Add {added} rows to {target} and close {closed} of it?", err=True)


def _future(day: str, now: datetime) -> datetime:
    from router.errors import WrongUsage

    at = _instant(day, "--from")
    if at < now - timedelta(days=1):
        raise WrongUsage(
            f"--from: {day} is past; today or a later day is allowed, since past calls keep their price",
            hint="a price that did hold in the past is written by hand, with its effective_from",
        )
    return max(at, now)


def _instant(day: str, option: str) -> datetime:
    from zoneinfo import ZoneInfo

    return instant_of(day, ZoneInfo("UTC"), option)


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
