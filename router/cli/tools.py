"""`router tools`: the tools of MCP servers: list, approve, check, call.

In: names of servers and tools, arguments. Out: a page, lines, the text of a tool; the file `router-tools.lock`.
Invariant: `approve` alone changes what is approved, and it shows what it approves; a server that does not start is one
line, and its tools stay as they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli.output import one_line, put, say
from router.cli.page_options import PageOptions
from router.cli.shared_options import sharing

if TYPE_CHECKING:
    from reports import Page
    from router.errors import RouterError
    from router.settings import Settings
    from router.tools.approval import Approval, Lock
    from router.tools.descriptors import Descriptor

tools_app = typer.Typer(
    help="Tools of MCP servers: list, approve, check, call.", no_args_is_help=True, rich_markup_mode=None
)
SHOWN_CHARACTERS = 100
ServersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="SERVER", help="Names of servers in router.toml; default: all.")
]


@tools_app.command("list")
@sharing(PageOptions, "options")
def list_tools(servers: ServersArgument = None, *, options: PageOptions) -> None:
    """List what each server offers: its tools, and whether they are allowed and approved.

    Example: router tools list --json
    """
    from router.tools.approval import lock_path, read_lock

    settings = _settings()
    lock = read_lock(lock_path(settings.source))
    found = _looked_at(settings, servers)
    options.put(_page(settings, lock, found))
    _end(found)


@tools_app.command("approve")
def approve(servers: ServersArgument = None) -> None:
    """Approve the allowed tools of servers as they describe themselves now, and write router-tools.lock.

    What is new, changed or gone is printed: read it, and commit the file. A tool that describes itself otherwise later
    is refused. Example: router tools approve files
    """
    from pathlib import Path

    from router.cli.output import write_whole
    from router.environment import shown_path
    from router.tools.approval import approval, lock_path, lock_text, read_lock

    settings = _settings()
    path = lock_path(settings.source)
    lock = read_lock(path)
    found = _looked_at(settings, servers)
    _end(found)
    now = {
        (each.server, each.tool): each
        for name, offered in found.items()
        if not isinstance(offered, Exception)
        for each in offered
        if settings.tools.servers[name].allows(each.tool)
    }
    kept = {key: each for key, each in lock.items() if key[0] in settings.tools.servers and key[0] not in found}
    for line in _differences(lock, now, {**kept, **{key: approval(each) for key, each in now.items()}}):
        put(f"{line}\n")
    for name in found:
        if not settings.tools.servers[name].allow:
            say(f"{name}: allow is empty, so none of its tools is approved")
    whole = [*kept.values(), *map(approval, now.values())]
    write_whole(path, lock_text(whole), "router-tools.lock")
    say(f"written: {shown_path(path, Path.cwd())}: {_count(len(whole), 'tool')} approved")


@tools_app.command("check")
def check(servers: ServersArgument = None) -> None:
    """Start or reach each server, and hold what it offers against what is allowed and approved.

    Exit code 1: a server cannot be used, or an allowed tool is missing, new or changed. 0: all is well.
    Example: router tools check
    """
    from router.tools.approval import lock_path, read_lock

    settings = _settings()
    lock = read_lock(lock_path(settings.source))
    is_good = True
    for name, offered in _looked_at(settings, servers).items():
        if isinstance(offered, Exception):
            lines, hint = [str(offered)], offered.hint
        else:
            lines, hint = _faults(settings, name, offered, lock), f"look at it, then: router tools approve {name}"
        if lines:
            is_good = False
            put("".join(f"{one_line(line)}\n" for line in lines))
            say(f"hint: {hint}")
        elif not isinstance(offered, Exception):
            allowed = sum(settings.tools.servers[name].allows(each.tool) for each in offered)
            put(f"{name}: good: {allowed} of {_count(len(offered), 'tool')} allowed, all of them approved\n")
    raise typer.Exit(0 if is_good else 1)


@tools_app.command("call")
def call(
    tool: Annotated[str, typer.Argument(metavar="SERVER__TOOL", help="The tool, as a model sees it.")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="Its arguments.")] = "{}",
) -> None:
    """Call one tool as a model would, and print what the model would be told.

    Exit code 1: the call failed. Example: router tools call shop__query '{"sql": "SELECT 1"}'
    """
    from router.cli.stopping import run_until_stopped

    run_until_stopped(_call(_settings(), tool, arguments))


async def _call(settings: Settings, tool: str, arguments: str) -> None:
    from router.environment import load_environment
    from router.errors import WrongUsage
    from router.tools import Toolbox
    from router.tools.kit import Ready

    async def started(_queue_us: int) -> None:
        """Nothing is written: it is nobody's run."""

    toolbox = Toolbox(settings, load_environment())
    try:
        async with toolbox.kit([tool]) as kit:
            if kit is None:  # pragma: no cover — a tool is named
                return
            own = {f"{each.descriptor.server}__{each.descriptor.tool}": name for name, each in kit.tools.items()}
            name = tool if tool in kit.tools else own.get(tool)
            if name is None:
                raise WrongUsage(f"tool: {tool!r} is not one tool", hint=f"there are: {', '.join(sorted(kit.tools))}")
            ready = kit.prepared(name, arguments)
            answer = await kit.call(ready, None, started) if isinstance(ready, Ready) else ready
    finally:
        await toolbox.aclose()
    put(f"{answer.told.text}\n")
    if answer.told.is_error:
        raise typer.Exit(1)


def _settings() -> Settings:
    """Return the settings.

    Raises:
        WrongUsage: no server is set.
    """
    from router.errors import WrongUsage
    from router.settings_file import load_settings

    settings = load_settings()
    if not settings.tools.servers:
        raise WrongUsage("tools: no server is set", hint="describe one in router.toml, in [tools.servers.NAME]")
    return settings


Found = Mapping[str, "Sequence[Descriptor] | RouterError"]


def _looked_at(settings: Settings, servers: Sequence[str] | None) -> Found:
    """Return what each server offers, or why it could not be asked.

    Raises:
        WrongUsage: a server that is not set.
    """
    import asyncio

    from router.errors import unknown_name

    for name in servers or ():
        if name not in settings.tools.servers:
            raise unknown_name("tool server", name, settings.tools.servers)
    return asyncio.run(_asked(settings, list(servers or settings.tools.servers)))


async def _asked(settings: Settings, names: Sequence[str]) -> Found:
    import asyncio

    from router.environment import load_environment
    from router.errors import RouterError
    from router.tools import Toolbox

    toolbox = Toolbox(settings, load_environment())

    async def one(name: str) -> Sequence[Descriptor] | RouterError:
        try:
            return await toolbox.offered(name)
        except RouterError as error:
            return error

    try:
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
    finally:
        await toolbox.aclose()


def _end(found: Found) -> None:
    """Say which servers could not be asked; end where there is one."""
    broken = [each for each in found.values() if isinstance(each, Exception)]
    for error in broken:
        say(f"error: {error}")
        if error.hint:
            say(f"hint: {error.hint}")
    if broken:
        raise typer.Exit(1)


def _faults(settings: Settings, server: str, offered: Sequence[Descriptor], lock: Lock) -> list[str]:
    """Return a line for each allowed tool of a server that may not be called as it is now."""
    from router.tools.approval import standing, what_changed

    there = {"*", *(each.tool for each in offered)}
    allow = settings.tools.servers[server].allow
    faults = [f"{server}: {name}: not offered" for name in allow if name not in there]
    for each in offered:
        how = standing(each, lock)
        if not settings.tools.servers[server].allows(each.tool) or how == "approved":
            continue
        what = "not approved" if how == "new" else f"changed since it was approved: {what_changed(each, lock)}"
        faults.append(f"{server}: {each.tool}: {what}")
    return faults


def _differences(
    lock: Lock, now: Mapping[tuple[str, str], Descriptor], then: Mapping[tuple[str, str], Approval]
) -> list[str]:
    """Return what approving changes, a line each, with what a person has to read."""
    from router.tools.approval import standing, what_changed
    from router.tools.descriptors import hidden_signs

    lines = []
    for key, each in sorted(now.items()):
        how = standing(each, lock)
        words = one_line(" ".join(each.description.split())) or "it says nothing of itself"
        if how == "new":
            lines.append(f"new      {each.name}: {words}")
        elif how == "changed":
            lines.append(f"changed  {each.name}: {what_changed(each, lock)}")
            lines += [f"  was    {one_line(' '.join(lock[key].description.split()))}", f"  now    {words}"]
        if how != "approved" and (hidden := hidden_signs(each)):
            lines.append(f"  look!  {each.name} holds signs that are not seen: {', '.join(hidden)}")
    lines += [f"gone     {server}: {tool}" for server, tool in sorted(lock) if (server, tool) not in then]
    return lines


def _page(settings: Settings, lock: Lock, found: Found) -> Page:
    from reports.page import Column, Fact, Page, Table
    from router.tools.approval import standing

    columns = (
        Column("tool", "tool", "text"),
        Column("server", "server", "text"),
        Column("standing", "standing", "text"),
        Column("idempotent", "idempotent", "text"),
        Column("description", "what it says of itself", "text"),
    )
    rows = []
    for name, offered in found.items():
        server = settings.tools.servers[name]
        for each in () if isinstance(offered, Exception) else offered:
            words = one_line(" ".join(each.description.split()))
            shown = words if len(words) <= SHOWN_CHARACTERS else f"{words[: SHOWN_CHARACTERS - 1]}…"
            stands = standing(each, lock) if server.allows(each.tool) else "not allowed"
            twice = "yes" if server.repeats(each.tool) else "no"
            rows.append((each.name, name, stands, twice, shown))
    facts = (Fact("tools", "tools", len(rows), "count"), Fact("servers", "servers asked", len(found), "count"))
    return Page("tools", "Tools", (), (Table("tools", "tools", columns, tuple(rows)),), (), facts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
