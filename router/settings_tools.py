"""The tables [tools] and [tools.servers.NAME] of router.toml: MCP servers, and which of their tools may be called.

In: values as TOML has them. Out: `ToolSettings`. Invariant: nothing is allowed that is not named, and no secret is
held: what a server needs of the environment is named by its variables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from router.section import Count, Name, Seconds, Section, is_url

EVERY = "*"
"""Stands for every tool of a server, in an allow-list and after `server__`."""
JOINT = "__"
"""Between a server's name and its tool's, in the name that a model sees."""

_SERVER = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # a token of RFC 9110, section 5.6.2


def _server_name(name: str) -> str:
    if not _SERVER.fullmatch(name) or len(name) > 32:
        raise PydanticCustomError(
            "server_name", "should be a name of at most 32 letters and digits, with single - or _ between them"
        )
    return name


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise PydanticCustomError("variable", "should be the name of an environment variable, never a value")
    return name


def _header(name: str) -> str:
    if not _HEADER.fullmatch(name):
        raise PydanticCustomError("header", "should be the name of an HTTP header")
    return name


def _server_url(url: str) -> str:
    if not is_url(url):
        raise PydanticCustomError("server_url", "should be a URL, like https://example.com/mcp")
    if "@" in urlsplit(url).netloc or "?" in url or "#" in url:
        raise PydanticCustomError(
            "server_url", "should hold no user, password or query: name a variable in key_env or header_env"
        )
    return url


ServerName = Annotated[str, AfterValidator(_server_name)]
Variable = Annotated[str, AfterValidator(_variable)]
Header = Annotated[str, AfterValidator(_header)]


class ToolServerSettings(Section):
    """One MCP server: a program that is started here (`command`), or one that is reached (`url`).

    Args:
        command: program to start, found on the PATH; it is spoken to over its standard input and output.
        args: its arguments.
        env: names of the variables it is given, beside HOME, LOGNAME, PATH, SHELL, TERM and USER.
        cwd: its working directory, relative to router.toml; None: the folder of router.toml.
        url: address of a server that runs already.
        transport: how the address is spoken to.
        key_env: variable whose value is sent as a bearer token.
        header_env: further headers, each with the variable that holds its value.
        allow: its tools that may be called at all, by their own names; "*": all that are approved.
        idempotent: those that may be called twice: tried again where the connection breaks, and by a resumed run.
        timeout_s: longest time of one call, its wait for a place included, seconds.
        connect_timeout_s: longest time until it is started and has listed its tools, seconds.
        concurrency: calls under way at once, or sessions, where each worker has one.
        session: "shared": one for all; "per_worker": one for each task or step, for servers that remember.
    """

    command: Name | None = None
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    cwd: Path | None = None
    url: Annotated[str, AfterValidator(_server_url)] | None = None
    transport: Literal["streamable-http", "sse"] = "streamable-http"
    key_env: Variable | None = None
    header_env: dict[Header, Variable] = Field(default_factory=dict)
    allow: tuple[Name, ...] = ()
    idempotent: tuple[Name, ...] = ()
    timeout_s: Seconds = Field(default=30.0, gt=0)
    connect_timeout_s: Seconds = Field(default=30.0, gt=0)
    concurrency: Count = Field(default=16, ge=1, le=1000)
    session: Literal["shared", "per_worker"] = "shared"

    @model_validator(mode="after")
    def _is_started_or_reached(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise PydanticCustomError("server", "should have either a command or a url")
        foreign = ("transport", "key_env", "header_env") if self.command is not None else ("args", "env", "cwd")
        given = [name for name in foreign if name in self.model_fields_set]
        if given:
            named = {"names": ", ".join(given), "other": "url" if self.command is not None else "command"}
            raise PydanticCustomError("server", "should not have {names}, which belongs to a {other}", named)
        return self

    @model_validator(mode="after")
    def _idempotent_are_allowed(self) -> Self:
        wrong = [name for name in self.idempotent if not self.allows(name)]
        if wrong:
            raise PydanticCustomError(
                "idempotent", "should name in idempotent what allow holds; {name} is not in it", {"name": wrong[0]}
            )
        return self

    def allows(self, tool: str) -> bool:
        """Return whether a tool, by its own name, may be called."""
        return tool in self.allow or EVERY in self.allow

    def repeats(self, tool: str) -> bool:
        """Return whether a tool, by its own name, may be called twice for one call of a model."""
        return tool in self.idempotent or EVERY in self.idempotent


class ToolSettings(Section):
    """The tools of MCP servers.

    Args:
        max_rounds: answers of a model that may call tools, for one task or step; one more without tools ends it.
        max_calls: tool calls of a whole run.
        max_result_bytes: longest result that goes on to the model, bytes of UTF-8; more is cut.
        allow: tools that every task may use, as `server__tool` or `server__*`, in every configuration.
        servers: the servers by name.
    """

    max_rounds: Count = Field(default=8, ge=1, le=1000)
    max_calls: Count = Field(default=200, ge=1)
    max_result_bytes: Count = Field(default=32_768, ge=256)
    allow: tuple[Name, ...] = ()
    servers: dict[ServerName, ToolServerSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _allowed_have_servers(self) -> Self:
        for name in self.allow:
            server, joint, tool = name.partition(JOINT)
            if not joint or not tool or server not in self.servers:
                raise PydanticCustomError(
                    "allowed_tool",
                    "should hold in allow names like server__tool or server__*, of servers here; {name} is none",
                    {"name": name[:80]},
                )
        return self
