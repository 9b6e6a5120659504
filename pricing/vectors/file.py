"""The file of cases.

In: a path. Out: its cases, as JSON has them. Invariant: no number goes through a float.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from pricing.errors import PricingError

Vector = Mapping[str, Any]


def read_vectors(path: Path) -> tuple[Vector, ...]:
    """Return the cases of a file.

    Args:
        path: JSON with a list `vectors` of objects.

    Raises:
        PricingError: the file cannot be read, is not such JSON, or has no case.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = json.loads(text, parse_float=Decimal)
    except OSError as error:
        raise PricingError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise PricingError(f"{path}: is not JSON: {error}") from error
    found = document.get("vectors") if isinstance(document, dict) else document
    if not isinstance(found, list) or not found or not all(isinstance(item, dict) for item in found):
        raise PricingError(f"{path}: has no list of cases under 'vectors'")
    return tuple(found)
