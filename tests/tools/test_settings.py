"""[tools] of router.toml: what is wrong with it is told with its line, and no secret stands in it or is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.errors import ConfigError
from router.settings import Settings
from router.settings_file import load_settings

PLANTED = "sk-planted-0123456789abcdefghij"


def load(folder: Path, text: str) -> Settings:
    (folder / "router.toml").write_text(text, encoding="utf-8")
    return load_settings(folder, {})


def faults_of(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text)
    return [str(fault) for fault in caught.value.faults]


AT = "url = 'https://x.example/mcp'"


def server(line: str = "", *, kind: str = "command = 'x'") -> str:
    return f"[tools.servers.files]\n{kind}\n{line}\n"


def test_a_whole_table_is_read(tmp_path: Path) -> None:
    text = (
        "[tools]\nmax_rounds = 3\nallow = ['files__*', 'web__get']\n"
        + server("args = ['-v']\nenv = ['FILES_TOKEN']\nallow = ['read', 'write']\nidempotent = ['read']\ncwd = 'a'")
        + "[tools.servers.web]\nurl = 'https://example.com/mcp'\nkey_env = 'WEB_TOKEN'\nallow = ['get']\n"
        + "header_env = { Authorization = 'WHOLE', 'X-Api-Key' = 'WEB_KEY' }\nsession = 'per_worker'\n"
    )
    tools = load(tmp_path, text).tools
    files, web = tools.servers["files"], tools.servers["web"]
    assert (tools.max_rounds, tools.max_calls, tools.max_result_bytes) == (3, 200, 32_768)
    assert (files.command, files.args, files.env, files.cwd) == ("x", ("-v",), ("FILES_TOKEN",), Path("a"))
    assert (files.timeout_s, files.connect_timeout_s, files.concurrency, files.session) == (30, 30, 16, "shared")
    assert (web.transport, web.key_env, web.session) == ("streamable-http", "WEB_TOKEN", "per_worker")
    assert web.header_env == {"Authorization": "WHOLE", "X-Api-Key": "WEB_KEY"}
    assert [files.allows("read"), files.allows("delete"), web.allows("read")] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (server("comand = 'y'"), "router.toml:3: tools.servers.files.comand does not exist; did you mean command?"),
        ("[tools]\nmax_round = 1", "router.toml:2: tools.max_round does not exist; did you mean max_rounds?"),
        ("[tools]\nmax_rounds = 0", "router.toml:2: tools.max_rounds is 0; it should be greater than or equal to 1"),
        ("[tools.servers.files]\n", "router.toml:1: tools.servers.files should have either a command or a url"),
        (server("url = 'https://x.example/mcp'"), "tools.servers.files should have either a command or a url"),
        (server("transport = 'sse'"), "tools.servers.files should not have transport, which belongs to a url"),
        (
            server("env = ['A']", kind="url = 'https://x.example/mcp'"),
            "should not have env, which belongs to a command",
        ),
        (
            server("transport = 'ws'", kind="url = 'https://x.example/mcp'"),
            "transport is 'ws'; it should be 'streamable",
        ),
        (server("idempotent = ['read']"), "should name in idempotent what allow holds; read is not in it"),
        (server("timeout_s = 0"), "tools.servers.files.timeout_s is 0; it should be greater than 0"),
        (server("session = 'own'"), "tools.servers.files.session is 'own'; it should be 'shared' or 'per_worker'"),
        (server(kind="url = 'ftp://x'"), "tools.servers.files.url is not shown here; it should be a URL"),
        (server(kind="url = 'https://u:p@x/mcp'"), "is not shown here; it should hold no user, password"),
        (
            server(kind="url = 'https://x/mcp?key=1'"),
            "is not shown here; it should hold no user, password",
        ),
        ("[tools.servers.a__b]\ncommand = 'x'", "tools.servers.a__b is 'a__b'; it should be a name of at most 32"),
        ("[tools.servers._a]\ncommand = 'x'", "it should be a name of at most 32 letters and digits"),
        ("[tools]\nallow = ['read']", "router.toml:1: tools should hold in allow names like server__tool or server__*"),
        (f"[tools]\nallow = ['other__*']\n{server()}", "of servers here; other__* is none"),
        (
            server("header_env = { 'X Key' = 'A' }", kind="url = 'https://x/mcp'"),
            "should be the name of an HTTP header",
        ),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    (found,) = faults_of(tmp_path, text)
    assert fault in found
    assert found.startswith("router.toml:")


@pytest.mark.parametrize(
    "line",
    [
        f"args = ['--api-key', '{PLANTED}']",
        f"args = ['--token={PLANTED}']",
        f"args = ['{PLANTED}']",
        f"env = ['TOKEN={PLANTED}']",
        f"token = '{PLANTED}'",
    ],
)
def test_a_secret_in_the_file_is_a_fault_that_does_not_show_it(tmp_path: Path, line: str) -> None:
    found = faults_of(tmp_path, server(line))
    assert found
    assert PLANTED not in "\n".join(found)


def test_a_header_s_value_is_never_shown(tmp_path: Path) -> None:
    line = "header_env = { Authorization = 'Bearer hunter2' }"
    found = faults_of(tmp_path, server(line, kind="url = 'https://x.example/mcp'"))
    assert any("should be the name of an environment variable, never a value" in fault for fault in found)
    assert "hunter2" not in "\n".join(found)
