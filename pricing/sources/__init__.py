"""Other people's price data, read as candidates for the catalogue, and how they differ from it.

In: the price files of installed packages (litellm's JSON, genai-prices' data). Out: `DataSet`s of candidate prices with
their provenance, a `Comparison` with the catalogue, and the text of an overlay file that takes them over. Invariant:
nothing read here prices a call; a price enters the catalogue through a price file, dated and checked like any other.
"""

from __future__ import annotations

from pricing.sources.differences import Comparison, Difference, compare
from pricing.sources.entries import DataSet, Entry, Offer, Rounding
from pricing.sources.genai_prices import read_genai_prices
from pricing.sources.litellm import read_litellm
from pricing.sources.overlay import Addition, ImportPlan, Skipped, plan_import

__all__ = [
    "Addition",
    "Comparison",
    "DataSet",
    "Difference",
    "Entry",
    "ImportPlan",
    "Offer",
    "Rounding",
    "Skipped",
    "compare",
    "plan_import",
    "read_genai_prices",
    "read_litellm",
]
