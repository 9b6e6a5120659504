"""Keeps what servers are given in secret out of all that is said, stored or sent on.

In: the variables that settings name, and their values. Out: texts without those values. Invariant: the values are held
here alone; nothing here has them in its repr.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from router.faults import SECRET_NAMES
from router.settings_tools import ToolServerSettings

HIDDEN = "[secret]"
SHORTEST = 6
"""A shorter value is no key, and would be found in every text."""


class Secrets:
    """Takes secret values out of texts.

    Args:
        values: the values; shorter ones than `SHORTEST` are left.
    """

    def __init__(self, values: Iterable[str]) -> None:
        longest_first = sorted({value for value in values if len(value) >= SHORTEST}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def hide(self, text: str) -> str:
        """Return the text with `[secret]` in the place of each value."""
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def secrets_of(
    servers: Iterable[ToolServerSettings], key_names: Iterable[str | None], environ: Mapping[str, str]
) -> Secrets:
    """Return the secrets among the variables that servers and endpoints are given.

    What is sent as a key or a header is one. Of the variables handed to a program, those are that are named as keys are
    (`…_KEY`, `…_TOKEN`, `…_SECRET`, `…_PASSWORD`), and the password in a URL.

    Args:
        servers: settings of the servers.
        key_names: variables that hold the keys of endpoints; None: one needs none.
        environ: the environment.
    """
    names = {name for name in key_names if name is not None}
    values: set[str] = set()
    for each in servers:
        names |= {*each.header_env.values(), *([each.key_env] if each.key_env else [])}
        for name in each.env:
            if SECRET_NAMES.search(name):
                names.add(name)
            else:
                values |= _password(environ.get(name, ""))
    return Secrets({environ[name] for name in names if name in environ} | values)


def _password(value: str) -> set[str]:
    """Return a URL with a password in it, and the password."""
    try:
        password = urlsplit(value).password
    except ValueError:
        return set()
    return {value, password} if password else set()
