"""What the package exports."""

from __future__ import annotations

import types

import pricing


def test_all_is_what_is_visible() -> None:
    visible = {
        name
        for name, value in vars(pricing).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert visible == set(pricing.__all__)
    assert list(pricing.__all__) == sorted(pricing.__all__)
