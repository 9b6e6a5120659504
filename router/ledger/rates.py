"""The exchange rates that everything converts with: the bundled ones, the ledger's, and those of router.toml.

In: settings, a ledger's reader. Out: an `FxTable`. Invariant: a rate of the user's own outranks a published one; of two
of the user's own for one pair, the one of the later day holds, of one day that of router.toml.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pricing import FxTable, load_fx
from pricing.fx import is_operators
from router.ledger import default_url, open_ledger
from router.settings import Settings

if TYPE_CHECKING:
    from router.ledger.reader import Reader


def fx_of(settings: Settings, reader: Reader | None = None) -> FxTable:
    """Return the exchange rates of the settings and of a ledger, laid over the bundled ones.

    Args:
        settings: has rates of the user's own, and the age allowed.
        reader: the ledger's; None: only the settings and the bundled ones.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    stored = () if reader is None else reader.fx_rates()
    own = [rate for rate in stored if is_operators(rate)]
    published = [rate for rate in stored if not is_operators(rate)]
    given = [rate.fx_rate() for rate in settings.fx.rates]
    return load_fx([*own, *given], published, settings.fx.max_age_days)


def recorded_fx(settings: Settings) -> FxTable:
    """Return the same of the ledger that is set; one that is not there yet is not made.

    Args:
        settings: as loaded.

    Raises:
        LedgerError: the ledger cannot be opened or read.
    """
    url = default_url(settings)
    if url.startswith("sqlite"):
        from router.ledger.database import parse_url

        if not Path(str(parse_url(url).database)).exists():
            return fx_of(settings)
    with open_ledger(url) as ledger:
        return fx_of(settings, ledger.reader)
