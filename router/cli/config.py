"""`router init` and `router config check`: a first router.toml, and what is wrong with the one there is.

In: a path, or the settings found from the working directory. Out: a file; a line per endpoint on stdout.
Invariant: no file is overwritten unasked, and no key is ever shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.cli.output import put, say

config_app = typer.Typer(help="Check what is set.", no_args_is_help=True, rich_markup_mode=None)


def init(
    path: Annotated[Path, typer.Option(help="The file to write.")] = Path("router.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
) -> None:
    """Write a commented router.toml to start from.

    Example: router init
    """
    from importlib.resources import files

    from router.errors import RouterError

    text = files("router").joinpath("data", "example.toml").read_text(encoding="utf-8")
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RouterError(f"path: {path} is there already; nothing was written", hint="--force overwrites it") from None
    except OSError as error:
        raise RouterError(f"path: {path} cannot be written: {error.strerror}", hint="name another --path") from None
    say(f"written: {path}. Set a key, then: router config check")


@config_app.command("check")
def check(
    offline: Annotated[bool, typer.Option("--offline", help="Read the files only; ask no endpoint.")] = False,
) -> None:
    """Report every fault of router.toml, then test each endpoint's reachability, key and models.

    Exit code 2: the files have faults. 1: an endpoint cannot be used. 0: all is well.

    Example: router config check --offline
    """
    from router.cli.config_check import check_endpoints, checked_settings
    from router.environment import load_environment
    from router.presets import preset_keys

    settings, catalog = checked_settings()
    environ = load_environment()
    say(f"settings: {settings.source or 'no router.toml; defaults'}: good")
    if not settings.endpoints:
        say("no endpoint: no key is set")
        say(f"hint: set one of {', '.join(preset_keys())} in the environment or in .env")
        raise typer.Exit(1)
    checks = check_endpoints(settings, catalog, environ, offline=offline)
    for each in checks:
        put(f"{each.name}: {each.text}\n")
        if each.hint:
            say(f"hint: {each.name}: {each.hint}")
    raise typer.Exit(0 if all(each.good for each in checks) else 1)
