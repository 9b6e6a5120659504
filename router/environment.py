"""Where keys and settings of the environment come from, and where router.toml is.

In: the process's environment, `.env` files, a folder. Out: one read-only mapping, and a path. Invariant: the real
environment wins over every `.env`; nothing is ever written into `os.environ`; no value is ever part of a message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pricing.errors import Fault
from router.errors import ConfigError

FILE_NAME = "router.toml"
DOTENV_NAME = ".env"
FILE_VARIABLE = "ROUTER_CONFIG"
DATABASE_VARIABLE = "ROUTER_DATABASE_URL"


def load_environment(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return the environment that keys are read from: the real one, laid over `.env`.

    A `.env` beside router.toml wins over one in the working directory. Values are taken as they stand: `$NAME` in them
    is not replaced.

    Args:
        start: the working directory; None: the process's.
        environ: the real environment; None: the process's.

    Raises:
        ConfigError: a `.env` cannot be read or has a line that is no `NAME=value`; or ROUTER_CONFIG names no file.
    """
    folder = (start or Path.cwd()).absolute()
    real = os.environ if environ is None else environ
    near = {**_read_dotenv(folder / DOTENV_NAME), **real}
    source = find_file(folder, near)
    if source is None or source.parent == folder:
        return MappingProxyType(near)
    return MappingProxyType({**near, **_read_dotenv(source.parent / DOTENV_NAME), **real})


def find_file(start: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the router.toml that holds: the one ROUTER_CONFIG names, else the nearest from `start` upwards, or None.

    Args:
        start: the working directory, absolute.
        environ: the environment that may set ROUTER_CONFIG.

    Raises:
        ConfigError: ROUTER_CONFIG names a file that is not there.
    """
    named = environ.get(FILE_VARIABLE)
    if named:
        path = start / from_home(named)
        if path.is_file():
            return path
        fault = Fault(FILE_VARIABLE, None, f"{named!r} is no file; the path of a router.toml is allowed")
        raise ConfigError((fault,), hint=f"unset {FILE_VARIABLE}, or write the file with: router init --path {named}")
    return next((path for folder in (start, *start.parents) if (path := folder / FILE_NAME).is_file()), None)


def from_home(path: str) -> Path:
    """Return a path with a leading `~` or `~user` resolved; where there is no such home, it is an ordinary name."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def shown_path(path: Path, start: Path) -> str:
    """Return a path as messages show it: relative to the working directory `start` where it lies below it."""
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)


def read_text(path: Path, shown: str) -> str:
    """Return a settings file's text.

    Args:
        path: the file.
        shown: its name in messages.

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError((Fault(shown, None, "is not UTF-8 text"),), hint="save the file as UTF-8") from None
    except OSError as error:
        raise ConfigError((Fault(shown, None, f"cannot be read: {error.strerror}"),)) from None


def _read_dotenv(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    import io

    from dotenv.parser import parse_stream

    bindings = list(parse_stream(io.StringIO(read_text(path, str(path)))))
    wrong = [binding.original.line for binding in bindings if binding.error]
    if wrong:
        faults = tuple(Fault(str(path), line, "no NAME=value stands here; one a line is allowed") for line in wrong)
        raise ConfigError(
            faults, hint="quote values that hold spaces or #; the line itself is not shown: it may be a key"
        )
    return {binding.key: binding.value for binding in bindings if binding.key and binding.value is not None}
