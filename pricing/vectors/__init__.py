"""Cases that price a provider's own usage with given prices, and say what is right: the engine put to the proof.

In: a file of cases (`python -m pricing.vectors FILE`). Out: for each case whether it holds, and what was expected and
got where it does not. Invariant: usage is read by `pricing.extract` and priced by `pricing.cost`; nothing is computed
here that they compute.
"""

from __future__ import annotations

from pricing.vectors.case import Outcome, run_vector
from pricing.vectors.file import read_vectors
from pricing.vectors.prices import price_set_of

__all__ = ["Outcome", "price_set_of", "read_vectors", "run_vector"]
