"""The options that every `router import` shares, and what they make.

In: arguments. Out: values of `router.ledger.importers`. Invariant: what is stated in router.toml about an endpoint (its
price list, its terms) holds for records booked under its name, unless an option says else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from router.cli.result_format import ResultFormat, ResultOption

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import tzinfo

    from pricing import Catalog, Terms
    from router.ledger.importers.booking import Booking
    from router.ledger.importers.source import ReadOptions
    from router.settings import EndpointSettings, Settings


class Thousands(StrEnum):
    """The sign between thousands."""

    COMMA = "comma"
    DOT = "dot"
    SPACE = "space"


_THOUSANDS: Mapping[Thousands | None, Literal["comma", "dot", "space"]] = {
    Thousands.COMMA: "comma",
    Thousands.DOT: "dot",
    Thousands.SPACE: "space",
}


Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Files, plain or gzip.")]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint",
        metavar="NAME",
        help="Name the records are booked under; two accounts need two. An endpoint of router.toml brings its price "
        "list and terms. Default: the source's name.",
    ),
]
ListOption = Annotated[
    str | None,
    typer.Option("--list", metavar="NAME", help="Price list. Default: the endpoint's, else each model's own vendor's."),
]
LastListOption = Annotated[
    bool, typer.Option("--last-list", help="Price a retired model at its last list, instead of leaving it unpriced.")
]
ConfigurationOption = Annotated[
    str | None, typer.Option("--configuration", metavar="NAME", help="Configuration, where a record names none.")
]
ClassOption = Annotated[
    str | None, typer.Option("--class", metavar="NAME", help="Task class, where a record names none.")
]
TenantOption = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Tenant, where a record names none.")
]
ModelMapOption = Annotated[
    list[str],
    typer.Option(
        "--model-map",
        metavar="NAME=MODEL|FILE",
        help="What a model's name in the records means; several, or a TOML file of them.",
    ),
]
ZoneOption = Annotated[
    str | None,
    typer.Option(
        "--timezone", "-z", metavar="ZONE", help="Zone of instants that name none; where the format sets none."
    ),
]
EncodingOption = Annotated[
    str | None, typer.Option("--encoding", metavar="NAME", help="Encoding of the text. Default: UTF-8, or as marked.")
]
ThousandsOption = Annotated[
    Thousands | None, typer.Option("--thousands", help="Sign between the thousands of numbers. Default: there is none.")
]
OpenOption = Annotated[
    bool, typer.Option("--allow-open", help="Take usage of a span that is not over yet; it is never corrected later.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Read and price, but write nothing.")]
RejectsOption = Annotated[
    Path | None,
    typer.Option(
        "--rejects", metavar="FILE", help="Write rejected lines here. Default: FILE.rejects.csv beside the file."
    ),
]


@dataclass(frozen=True, slots=True)
class Stated:
    """The options that every source shares, as they were given."""

    endpoint: EndpointOption = None
    price_list: ListOption = None
    last_list: LastListOption = False
    configuration: ConfigurationOption = None
    task_class: ClassOption = None
    tenant: TenantOption = None
    model_map: ModelMapOption = field(default_factory=list)
    zone: ZoneOption = None
    encoding: EncodingOption = None
    thousands: ThousandsOption = None
    allow_open: OpenOption = False
    dry_run: DryRunOption = False
    rejects: RejectsOption = None
    result: ResultOption = ResultFormat.TEXT


def booking_of(stated: Stated, source: str, settings: Settings) -> Booking:
    """Return what is stated for all records.

    Args:
        stated: the options.
        source: the format's name.
        settings: as loaded; they know endpoints and other names of models.

    Raises:
        WrongUsage: a model map cannot be read.
    """
    from router.ledger.importers.booking import Booking

    name = stated.endpoint or source
    endpoint = settings.endpoints.get(name) if stated.endpoint is not None else None
    own_list = "vendor" if endpoint is None else endpoint.price_list
    names = dict(settings.aliases) | dict(_pairs(stated.model_map))
    return Booking(
        endpoint=name,
        price_list=stated.price_list or own_list,
        last_list=stated.last_list or (endpoint is not None and endpoint.last_list),
        terms=() if endpoint is None else tuple(_terms(endpoint)),
        configuration=stated.configuration,
        task_class=stated.task_class,
        tenant=stated.tenant,
        model_map=names,
    )


def require_list(price_list: str, catalog: Catalog) -> None:
    """Refuse a price list that does not exist, as every other command does.

    Args:
        price_list: the list's name, or "vendor".
        catalog: has the lists.

    Raises:
        WrongUsage: there is no such list; those that exist are listed.
    """
    from router.errors import unknown_name

    lists = (*catalog.lists, "vendor")
    if price_list not in lists:
        raise unknown_name("price list", price_list, lists)


def _terms(endpoint: EndpointSettings) -> Iterator[tuple[int, Terms]]:
    """Yield an endpoint's terms, each with the instant from which it holds; none where it never has any."""
    from datetime import UTC, datetime

    from pricing.terms import NO_TERMS
    from router.ledger.reader import instant_us
    from router.policy.market import terms_of

    first = datetime(1970, 1, 1, tzinfo=UTC)
    spans = [each.commitment() for each in endpoint.commitments]
    days = {day for span in spans for day in (span.starts, span.ends) if day is not None}
    edges = {first, *(datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days)}
    found = [(instant_us(edge), terms_of(endpoint, edge)) for edge in sorted(edges)]
    if any(terms != NO_TERMS for _, terms in found):
        yield from found


def read_options(stated: Stated, now_us: int) -> ReadOptions:
    """Return how files are read.

    Args:
        stated: the options.
        now_us: this instant, microseconds since 1970 UTC.

    Raises:
        WrongUsage: the time zone does not exist.
    """
    from router.ledger.importers.source import ReadOptions

    return ReadOptions(
        now_us=now_us,
        zone=None if stated.zone is None else _zone(stated.zone),
        thousands=_THOUSANDS.get(stated.thousands),
        allow_open=stated.allow_open,
    )


def _zone(name: str) -> tzinfo:
    from datetime import UTC

    from reports import time_zone

    return UTC if name.upper() == "UTC" else time_zone(name)


def _pairs(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    for each in given:
        if "=" in each:
            yield pair_of(each, "--model-map")
        else:
            yield from table_of(Path(each), "--model-map", "models").items()


def pair_of(text: str, option: str) -> tuple[str, str]:
    """Return the two sides of NAME=VALUE.

    Raises:
        WrongUsage: one of them is missing.
    """
    from router.errors import WrongUsage

    name, _, value = (part.strip() for part in text.rpartition("="))
    if not name or not value:
        raise WrongUsage(f"{option}: {text[:60]!r} is not allowed; NAME=VALUE is", hint="quote it where it has blanks")
    return name, value


def table_of(path: Path, option: str, section: str) -> dict[str, str]:
    """Return the names and values of a TOML file: those of a section, or all where it has no such section.

    Raises:
        WrongUsage: it cannot be read, is no TOML, or has a value that is no text.
    """
    import tomllib

    from router.errors import WrongUsage

    hint = f'lines of "name" = "value", or a section [{section}] of them'
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUsage(f"{option}: {str(path)!r} cannot be read: {error.strerror}", hint=hint) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{option}: {str(path)!r} is no TOML: {error}", hint=hint) from None
    table = found.get(section, found)
    for name, value in table.items() if isinstance(table, dict) else [(section, table)]:
        if not isinstance(value, str):
            raise WrongUsage(f"{option}: {name} in {str(path)!r} is {str(value)[:40]}; a text is allowed", hint=hint)
    return dict(table)
