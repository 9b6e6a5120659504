"""The command line: `router`. The composition root: it may import everything, and nothing imports it.

Commands are named in `router.cli.commands` and loaded when they are called.

In: arguments. Out: data on stdout, talk on stderr, an exit code: 0 good, 1 could not, 2 wrong usage, 3 a limit that was
asked for is crossed. Invariant: no error ends in a traceback, and none shows a secret.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import typer

from router.cli.commands import LazyGroup
from router.cli.output import abandon, open_closed_streams, put, say

_COMPLAINT = typer.BadParameter.__mro__[2]
"""The parser's base of all complaints: Typer carries its own copy of click and exports only its leaves."""

INTERRUPTED = 130
STOPPED = (INTERRUPTED, 129, 143)
"""Exit codes of a run that Ctrl-C, a closed terminal or a plain kill has stopped: 128 and the signal's number."""

app = typer.Typer(
    name="router",
    cls=LazyGroup,
    help="Route LLM work to the cheapest models that are good enough, and keep the receipt of every call.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        put(f"farebox {version('farebox')}\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    _: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Route LLM work to the cheapest models that are good enough, and keep the receipt of every call."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code.

    Args:
        arguments: the arguments; None: the process's.
    """
    open_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # help texts are the parser's to print
    sys.exit(_run(sys.argv[1:] if arguments is None else list(arguments)))


def _run(arguments: list[str]) -> int:
    if os.environ.get("ROUTER_DEBUG"):
        return _invoke(arguments)
    try:
        code = _invoke(arguments)
        return _stopped(code) if code in STOPPED else code
    except (KeyboardInterrupt, typer.Abort):
        return _stopped(INTERRUPTED)
    except BrokenPipeError:
        abandon(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 — the last line of defence: one line instead of a traceback
        return _explained(error)


def _invoke(arguments: list[str]) -> int:
    """Run a command and return its code. Typer's own way ends the process with code 1 where a reader has left."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("router", arguments) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def _stopped(code: int) -> int:
    return _say("stopped; what was under way is in the ledger", None, code)


def _explained(error: Exception) -> int:
    from pricing.errors import PricingError  # here: what goes well has no need of them
    from router.errors import RouterError

    if isinstance(error, RouterError):
        return _say(str(error), error.hint, error.exit_code)
    if isinstance(error, PricingError):
        return _say(str(error), error.hint, 1)
    return _unexpected(error)


def _unexpected(error: Exception) -> int:
    """Say a parser's complaint as wrong usage, and anything else as a fault of the program."""
    context = getattr(error, "ctx", None)
    if isinstance(error, _COMPLAINT):
        if type(error).__name__ == "NoArgsIsHelpError":  # the parser does not export it
            say(error.format_message())  # type: ignore[attr-defined]
            return error.exit_code  # type: ignore[attr-defined, no-any-return]
        where = context.command_path if context else "router"
        return _say(error.format_message(), f"see: {where} --help", error.exit_code)  # type: ignore[attr-defined]
    if isinstance(error, OSError) and error.strerror:
        abandon(sys.stdout)
        is_stdout = error.filename is None and error.errno in (errno.EBADF, errno.ENOSPC)
        where = "standard output: " if is_stdout else f"{error.filename}: " if error.filename else ""
        return _say(f"{where}cannot be read or written: {error.strerror}", "ROUTER_DEBUG=1 shows where", 1)
    if isinstance(error, RecursionError):
        return _say("a file or a text is nested too deeply to be read", "ROUTER_DEBUG=1 shows where", 1)
    kind = type(error).__name__
    words = " ".join(str(error).split())[:300]
    return _say(f"{kind}: {words}", "a fault of the program: ROUTER_DEBUG=1 shows where", 1)


def _say(message: str, hint: str | None, code: int) -> int:
    for line in message.splitlines() or [""]:
        say(f"error: {line}")
    if hint:
        say(f"hint: {hint}")
    return code
