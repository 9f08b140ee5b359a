"""`toolcrib install` and `import`: files of hosts, edited with all else kept; `gateway add`."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from base64 import b64decode
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from mcp import Client, StdioServerParameters

from tests.gateway.conftest import SERVERS
from toolcrib.cli.hosts import HOSTS, copy_of, host_files
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import find_servers, parse_config

JSON_HOSTS = [name for name in HOSTS if name != "codex"]

COMMENTED = """{
  // my servers
  "KEY": {
    "clock": {"command": "clock", "args": ["--utc"]}, /* the first */
    "post": {"command": "post"} // the last
  },
  "theme": "dark", // as it is
  "big": 12345678901234567890,
}
"""


@pytest.fixture
def shell(shell, monkeypatch):
    """A folder to run in, which is the home folder too, with an mcp.json."""
    home = shell.folder
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    (home / "mcp.json").write_text('{"mcpServers": {"clock": {"command": "clock"}}}')
    return shell


def file_of(shell, host: str) -> Path:
    path = Path(host_files(HOSTS[host], sys.platform, shell.folder, {})[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def read(path: Path):
    return parse_config(Source.by_name(str(path)))


def servers_in(shell, name: str):
    """The servers that a file names."""
    return read(shell.folder / name)["mcpServers"]


def cursor_with(shell, **servers: Any) -> Path:
    """The file of Cursor, which names these servers."""
    path = file_of(shell, "cursor")
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def import_from(shell, host: str, text: str = ""):
    """What `import` says and the servers that it found, of a file with this text."""
    if text:
        file_of(shell, host).write_text(text)
    done = shell.json("import", host, "--to", "all.json")
    return done, servers_in(shell, "all.json")


# -- where files lie -------------------------------------------------------------------------------

LINUX, MAC, WINDOWS = "/home/ada", "/Users/ada", r"C:\Users\ada"
MAC_DATA, DESKTOP = "Library/Application Support", "claude_desktop_config.json"


@pytest.mark.parametrize(
    ("host", "platform", "env", "file"),
    [
        ("claude-desktop", "darwin", {}, f"{MAC}/{MAC_DATA}/Claude/{DESKTOP}"),
        ("claude-desktop", "win32", {"APPDATA": r"D:\Roaming"}, rf"D:\Roaming\Claude\{DESKTOP}"),
        ("claude-desktop", "linux", {}, f"{LINUX}/.config/Claude/{DESKTOP}"),
        ("claude-code", "linux", {}, f"{LINUX}/.claude.json"),
        ("claude-code", "linux", {"CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("cursor", "win32", {}, rf"{WINDOWS}\.cursor\mcp.json"),
        ("vscode", "darwin", {}, f"{MAC}/{MAC_DATA}/Code/User/mcp.json"),
        ("vscode", "linux", {"XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json"),
        ("vscode", "win32", {}, rf"{WINDOWS}\AppData\Roaming\Code\User\mcp.json"),
        ("codex", "linux", {"CODEX_HOME": "/codex"}, "/codex/config.toml"),
        ("codex", "win32", {}, rf"{WINDOWS}\.codex\config.toml"),
        ("zed", "darwin", {}, f"{MAC}/.config/zed/settings.json"),
        ("zed", "win32", {}, rf"{WINDOWS}\AppData\Roaming\zed\settings.json"),
        ("windsurf", "linux", {}, f"{LINUX}/.codeium/windsurf/mcp_config.json"),
        ("gemini", "darwin", {}, f"{MAC}/.gemini/settings.json"),
    ],
)  # fmt: skip
def test_a_host_has_its_file_where_its_platform_keeps_it(host, platform, env, file):
    home = {"darwin": PurePosixPath(MAC), "win32": PureWindowsPath(WINDOWS)}
    found = host_files(HOSTS[host], platform, home.get(platform, PurePosixPath(LINUX)), env)
    assert str(found[0]) == file


# -- install ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", JSON_HOSTS)
class TestInstallIntoJson:
    def test_all_else_stays_and_undo_gives_the_file_back(self, shell, host):
        path, key = file_of(shell, host), HOSTS[host].key
        path.write_text(before := COMMENTED.replace("KEY", key))
        known = read(path)
        assert shell("install", host).returncode == 0
        text, data = path.read_text(), read(path)
        entry = data[key].pop("toolcrib")
        assert data == known
        assert all(each in text for each in ("// my servers", "/* the first */", "// as it is"))
        assert entry["args"][2:4] == ["gateway", str(shell.folder / "mcp.json")]
        assert Path(entry["command"]).is_file()
        assert copy_of(path).read_text() == before
        assert shell("install", host, "--undo").returncode == 0
        assert path.read_text() == before
        assert not copy_of(path).exists()

    def test_a_file_is_made_where_there_is_none(self, shell, host):
        path = file_of(shell, host)
        assert shell("install", host).returncode == 0
        assert list(read(path)[HOSTS[host].key]) == ["toolcrib"]

    def test_print_writes_nothing(self, shell, host):
        path = file_of(shell, host)
        printed = shell.json("install", host, "--print")
        assert printed["file"] == str(path)
        assert not printed["written"]
        assert not path.exists()


def test_install_names_the_servers_that_the_host_still_starts(shell):
    projects = {str(shell.folder): {"mcpServers": {"here": {"command": "h"}}}}
    servers = {"everywhere": {"command": "e"}, "off": {"command": "o", "disabled": True}}
    document = {"mcpServers": servers, "projects": projects}
    file_of(shell, "claude-code").write_text(json.dumps(document))
    (note,) = shell.json("install", "claude-code")["notes"]
    assert note.startswith("Claude Code still starts everywhere, here itself")


def test_install_names_the_servers_whose_relative_paths_a_host_would_not_find(shell):
    (shell.folder / "server.js").touch()
    servers = {"a": {"command": "node", "args": ["server.js"]}, "b": {"command": "b"}}
    shell.write("mcp.json", {"mcpServers": servers})
    (note,) = shell.json("install", "cursor")["notes"]
    assert note.startswith("Cursor may not find the relative paths of a: ")


class TestDeepLink:
    def link(self, shell, host) -> tuple[str, dict[str, Any]]:
        printed = shell.json("install", host, "--print", "--env", "HOME")
        entry = {key: value for key, value in printed["entry"].items() if key != "env"}
        text = shell("install", host, "--print").stdout
        assert (printed["link"] is None) == ("or open: " not in text)
        return printed["link"], entry

    def test_cursor_reads_the_entry_without_values_of_variables(self, shell):
        link, entry = self.link(shell, "cursor")
        given = parse_qs(urlsplit(link).query, strict_parsing=True)
        assert given["name"] == ["toolcrib"]
        assert json.loads(b64decode(given["config"][0])) == entry

    def test_vscode_reads_the_entry_without_values_of_variables(self, shell):
        link, entry = self.link(shell, "vscode")
        assert link.startswith("vscode:mcp/install?")
        assert json.loads(unquote(link.partition("?")[2])) == {"name": "toolcrib", **entry}

    def test_another_host_has_none(self, shell):
        assert self.link(shell, "zed")[0] is None


CODEX = """model = "best" # of all

[mcp_servers.clock]
command = "clock"

# for the profile below
[profiles.fast]
model = "small"
"""


class TestInstallIntoToml:
    def test_comments_stay_and_undo_gives_the_file_back(self, shell):
        path = file_of(shell, "codex")
        path.write_text(CODEX)
        assert shell("install", "codex", "--env", "HOME").returncode == 0
        assert path.read_text().startswith(CODEX)
        data = tomllib.loads(path.read_text())
        assert data["mcp_servers"]["toolcrib"]["env"] == {"HOME": str(shell.folder)}
        assert shell("install", "codex", "--undo").returncode == 0
        assert path.read_text() == CODEX

    def test_only_its_table_is_taken_out_of_a_file_that_changed_since(self, shell):
        path = file_of(shell, "codex")
        path.write_text(CODEX)
        shell("install", "codex")
        with path.open("a") as file:
            file.write("\n# since then\n[mcp_servers.post]\ncommand = 'post'\n")
        assert shell("install", "codex", "--undo").returncode == 0
        assert tomllib.loads(path.read_text())["mcp_servers"].keys() == {"clock", "post"}
        assert "# since then" in path.read_text()

    def test_servers_in_one_line_are_left_to_a_person(self, shell):
        path = file_of(shell, "codex")
        path.write_text(text := 'mcp_servers = {clock = {command = "clock"}}\n')
        assert "by hand" in shell.error("install", "codex")
        assert path.read_text() == text


class TestInstall:
    def test_undo_keeps_what_was_written_since(self, shell):
        path = cursor_with(shell, post={"command": "post"})
        shell("install", "cursor")
        data = read(path)
        path.write_text(json.dumps({**data, "new": 1}))
        assert shell("install", "cursor", "--undo").returncode == 0
        assert read(path) == {"mcpServers": {"post": {"command": "post"}}, "new": 1}
        assert copy_of(path).exists()

    def test_a_second_one_keeps_the_copy_of_before_the_first(self, shell):
        path = cursor_with(shell)
        before = path.read_text()
        shell("install", "cursor")
        shell("install", "cursor", "--store=~/elsewhere")
        assert str(Path.home() / "elsewhere") in path.read_text()
        assert copy_of(path).read_text() == before

    @pytest.mark.parametrize(
        ("host", "text", "place"),
        [
            ("cursor", '{\n "mcpServers": {\n', "line"),
            ("zed", '{\n // a comment\n "context_servers": {]}', "line 3"),
            ("codex", "[mcp_servers\n", "line 1"),
            ("vscode", '{"servers": []}', "servers"),
            ("gemini", "[1]", "object"),
        ],
    )
    def test_a_broken_file_is_refused_with_its_place(self, shell, host, text, place):
        path = file_of(shell, host)
        path.write_text(text)
        stderr = shell.error("install", host)
        assert str(path) in stderr.replace("\n", "")
        assert place in stderr
        assert path.read_text() == text

    def test_a_link_and_a_mode_stay(self, shell):
        path, kept = file_of(shell, "cursor"), shell.folder / "dotfiles.json"
        kept.write_text("{}")
        kept.chmod(0o600)
        path.symlink_to(kept)
        assert shell("install", "cursor").returncode == 0
        assert path.is_symlink()
        assert "toolcrib" in kept.read_text()
        assert kept.stat().st_mode & 0o777 == 0o600

    def test_a_new_file_is_its_owners_alone(self, shell):
        shell("install", "cursor", "--env", "HOME")
        assert file_of(shell, "cursor").stat().st_mode & 0o777 == 0o600

    def test_a_place_that_takes_no_file_is_named(self, shell):
        (shell.folder / ".cursor").write_text("a file")
        assert ".cursor" in shell.error("install", "cursor", code=3)

    def test_a_server_of_null_stays(self, shell):
        path = cursor_with(shell, off=None)
        assert shell("install", "cursor").returncode == 0
        assert read(path)["mcpServers"]["off"] is None

    def test_lines_end_as_they_did(self, shell):
        path = file_of(shell, "cursor")
        path.write_bytes(b'{\r\n  "mcpServers": {\r\n  }\r\n}\r\n')
        shell("install", "cursor")
        assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")

    def test_a_variable_is_handed_on_and_not_shown(self, shell):
        post = {"command": "post", "env": {"A": "${POST_KEY}"}}
        shell.write("mcp.json", {"mcpServers": {"post": post}})
        done = shell("install", "cursor", "--env", "POST_KEY", POST_KEY="hidden-1")
        assert "hidden-1" not in done.stdout + done.stderr
        entry = read(file_of(shell, "cursor"))["mcpServers"]["toolcrib"]
        assert entry["env"] == {"POST_KEY": "hidden-1"}
        assert "POST_KEY" in shell("install", "cursor").stderr

    def test_the_settings_of_the_folder_come_with_it(self, shell):
        (shell.folder / "toolcrib.yaml").write_text("audit: false\n")
        args = shell.json("install", "cursor")["entry"]["args"]
        assert args[2:4] == ["--settings", str(shell.folder / "toolcrib.yaml")]

    @pytest.mark.parametrize(
        ("arguments", "noun"),
        [
            (("cursr",), "cursor"),
            (("cursor", "--undo"), "nothing to undo"),
            (("cursor", "--undo", "--print"), "one of --print and --undo"),
            (("cursor", "--config", "none.json"), "none.json"),
            (("cursor", "--env", "NOT_SET_1"), "NOT_SET_1"),
        ],
    )
    def test_a_mistake_is_named(self, shell, arguments, noun):
        assert noun in shell.error("install", *arguments)

    @pytest.mark.e2e
    async def test_a_client_that_starts_the_entry_finds_tools(self, shell, tmp_path_factory):
        tools = shell.folder / "clock.json"
        tools.write_text('[{"name": "get_time", "description": "Tell the time."}]')
        shell("gateway", "remove", "clock")
        shell("gateway", "add", "clock", sys.executable, str(SERVERS / "plain.py"), str(tools))
        entry = shell.json("install", "cursor")["entry"]
        env = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TOOLCRIB_ENCODER__DENSE": "deterministic",
            "TOOLCRIB_GATEWAY__PASS_THROUGH": "0",
        }
        elsewhere = tmp_path_factory.mktemp("elsewhere")
        started = StdioServerParameters(**entry, env=env, cwd=str(elsewhere))
        async with Client(started) as client:
            found = await client.call_tool("find_tools", {"query": "tell the time"})
        assert found.structured_content["tools"][0]["name"] == "clock__get_time"
        assert not list(elsewhere.iterdir())


# -- import ----------------------------------------------------------------------------------------

TOKEN = "ghp_" + "aB3" * 12

SECRET_PLACES = {
    "env": ({"env": {"GITHUB_TOKEN": TOKEN}}, "GITHUB_TOKEN"),
    "name alone": ({"env": {"DB_PASSWORD": "plain"}}, "DB_PASSWORD"),
    "words": ({"env": {"SEED_PHRASE": "plain words"}}, "SEED_PHRASE"),
    "value alone": ({"env": {"SETTING": TOKEN}}, "SETTING"),
    "connection": ({"env": {"DATABASE_URL": "postgres://me:plain@db/x"}}, "DATABASE_URL"),
    "option": ({"args": ["--api-key", "plain"]}, "S_API_KEY"),
    "option with a sign": ({"args": ["--api-key=plain"]}, "S_API_KEY"),
    "option with a colon": ({"args": ["--password", "plain:x"]}, "S_PASSWORD"),
    "argument": ({"args": ["postgres://me:plain@db/x"]}, "S_ARGS"),
    "header as an argument": ({"args": ["--header", "X-Auth: Bearer plain"]}, "S_X_AUTH"),
    "header within a text": ({"env": {"HEADERS": '{"A": "Bearer plain"}'}}, "HEADERS"),
    "default": ({"env": {"X_TOKEN": "${X_TOKEN:-plain}"}}, "X_TOKEN"),
}


class TestSecrets:
    @pytest.mark.parametrize("place", SECRET_PLACES)
    def test_a_secret_of_a_command_becomes_a_variable(self, shell, place):
        raw, variable = SECRET_PLACES[place]
        self.check(shell, {"command": "s", **raw}, variable)

    @pytest.mark.parametrize(
        ("raw", "variable"),
        [
            ({"url": "s://s", "headers": {"Authorization": "Basic plain"}}, "S_AUTHORIZATION"),
            ({"url": "https://s.example/mcp", "headers": {"X-Api-Key": "plain"}}, "S_X_API_KEY"),
            ({"url": "https://s.example/mcp?api_key=plain123x"}, "S_URL"),
            ({"url": "https://s.example/u/k8Jx2plainQ9vZ7wL4mN1pR/mcp"}, "S_URL"),
        ],
    )  # fmt: skip
    def test_a_secret_of_a_request_becomes_a_variable(self, shell, raw, variable):
        self.check(shell, raw, variable)

    @pytest.mark.parametrize("option", ["--password=plain1", "--secret:plain1"])
    def test_no_variable_has_a_name_with_the_value_of_an_option(self, shell, option):
        raw = {"command": "s", "args": [option, "postgres://me:plain2@db/x"]}
        shell.write("old.json", {"mcpServers": {"s": raw}})
        done = shell("import", "old.json", "--json", "--to", "all.json")
        assert "S_ARGS" in json.loads(done.stdout)["variables"]
        written = (shell.folder / "all.json").read_text()
        assert "plain" not in (done.stdout + done.stderr + written).lower()

    def check(self, shell, raw, variable):
        cursor_with(shell, s=raw)
        done = shell("import", "cursor", "--json", "--to", "all.json")
        assert list(json.loads(done.stdout)["variables"]) == [variable]
        written = (shell.folder / "all.json").read_text()
        assert f"${{{variable}}}" in written
        assert "plain" not in done.stdout + done.stderr + written
        assert TOKEN not in done.stdout + done.stderr + written

    @pytest.mark.parametrize(
        "raw",
        [
            {"command": "npx", "args": ["-y", "@scope/server-files@1.2.3", "/home/ada"]},
            {"command": "s", "env": {"LOG_LEVEL": "debug", "PORT": "8080", "A_TOKEN": "${TOK}"}},
            {"command": "s", "env": {"MAX_TOKENS": "100", "AUTHOR": "Ada"}},
            {"url": "https://s.example/v1/mcp", "headers": {"Authorization": "Bearer ${TOK}"}},
            {"command": "s", "args": ["--token", "${TOK}", "--api-key", "--verbose"]},
        ],
    )
    def test_the_rest_stays(self, shell, raw):
        cursor_with(shell, s=raw)
        done, found = import_from(shell, "cursor")
        assert (done["variables"], found) == ({}, {"s": raw})

    def test_different_values_get_different_variables(self, shell):
        servers = {name: {"command": "s", "env": {"API_KEY": f"{name}-1"}} for name in "abc"}
        servers["c"]["env"]["API_KEY"] = "a-1"
        cursor_with(shell, **servers)
        assert "set B_API_KEY (" in shell("import", "cursor", "--to", "all.json").stderr
        found = servers_in(shell, "all.json")
        keys = [found[name]["env"]["API_KEY"] for name in "abc"]
        assert keys == ["${API_KEY}", "${B_API_KEY}", "${API_KEY}"]


class TestDialects:
    def test_codex(self, shell):
        text = """
            [mcp_servers.far]
            url = "https://far.example/mcp"
            bearer_token_env_var = "FAR"
            env_http_headers = { X-Org = "ORG" }
            http_headers = { X-Kind = "test" }
            startup_timeout_sec = 5

            [mcp_servers.near]
            command = "near"
            env_vars = ["LOCAL"]
            enabled = false
            disabled_tools = ["drop"]
        """
        done, found = import_from(shell, "codex", text)
        headers = {"X-Kind": "test", "X-Org": "${ORG}", "Authorization": "Bearer ${FAR}"}
        assert found == {
            "far": {"url": "https://far.example/mcp", "headers": headers},
            "near": {
                "command": "near",
                "env": {"LOCAL": "${LOCAL}"},
                "disabled_tools": ["drop"],
                "disabled": True,
            },
        }
        assert any("startup_timeout_sec" in note for note in done["notes"])
        assert any("near is switched off in codex" in note for note in done["notes"])

    def test_zed(self, shell):
        text = """{ // settings
          "context_servers": {
            "old": {"command": {"path": "old", "args": ["-x"], "env": {"A": "1"}}},
            "new": {"source": "custom", "command": "new", "args": []},
            "extension": {"source": "extension", "settings": {}},
          }
        }"""
        done, found = import_from(shell, "zed", text)
        assert found == {
            "old": {"command": "old", "args": ["-x"], "env": {"A": "1"}},
            "new": {"command": "new", "args": []},
        }
        assert any("extension of zed has neither" in note for note in done["notes"])

    def test_inputs_of_vs_code_become_variables(self, shell):
        text = """{"inputs": [{"id": "my-key", "type": "promptString"}],
                   "servers": {"s": {"command": "s", "env": {"K": "${input:my-key}"}}}}"""
        done, found = import_from(shell, "vscode", text)
        assert list(done["variables"]) == ["MY_KEY"]
        assert found["s"]["env"] == {"K": "${MY_KEY}"}

    @pytest.mark.parametrize("host", ["cline", "roo"])
    def test_what_is_switched_off_stays_off_and_is_named(self, shell, host):
        text = '{"mcpServers": {"s": {"command": "s", "disabled": true, "autoApprove": []}}}'
        done, found = import_from(shell, host, text)
        assert found["s"] == {"command": "s", "disabled": True}
        assert any("off" in note and host in note for note in done["notes"])
        assert any("autoApprove" in note for note in done["notes"])

    def test_claude_code_keeps_servers_for_a_project(self, shell):
        projects = {str(shell.folder): {"mcpServers": {"here": {"command": "h"}}}}
        document = {"mcpServers": {"everywhere": {"command": "e"}}, "projects": projects}
        done, _ = import_from(shell, "claude-code", json.dumps(document))
        assert done["added"] == ["everywhere", "here"]

    def test_claude_code_switches_servers_off_for_a_project(self, shell):
        projects = {str(shell.folder): {"disabledMcpServers": ["s"]}}
        document = {"mcpServers": {"s": {"command": "s"}}, "projects": projects}
        _, found = import_from(shell, "claude-code", json.dumps(document))
        assert found["s"] == {"command": "s", "disabled": True}

    def test_gemini_excludes_servers_by_name(self, shell):
        document = {"mcpServers": {"s": {"command": "s"}}, "mcp": {"excluded": ["s"]}}
        done, found = import_from(shell, "gemini", json.dumps(document))
        assert found["s"] == {"command": "s", "disabled": True}
        assert done["notes"] == ["s is switched off in gemini, and stays off"]


class TestImport:
    def test_hosts_are_gathered_and_equal_servers_are_one(self, shell):
        clock = {"command": "clock"}
        cursor_with(shell, clock=clock)
        file_of(shell, "zed").write_text('{"context_servers": {"clock": {"command": "other"}}}')
        done = shell.json("import")
        assert (done["added"], done["same"]) == (["clock-2"], ["clock"])
        assert servers_in(shell, "mcp.json") == {"clock": clock, "clock-2": {"command": "other"}}

    def test_keys_that_say_nothing_make_no_other_server(self, shell):
        url = "https://wiki.example.com/mcp"
        cursor_with(shell, clock={"command": "clock", "env": {}}, wiki={"url": url})
        wiki, sse = {"type": "http", "url": url}, {"type": "sse", "url": f"{url}/sse"}
        servers = {"clock": {"type": "stdio", "command": "clock", "args": []}, "wiki": wiki}
        file_of(shell, "vscode").write_text(json.dumps({"servers": servers}))
        file_of(shell, "gemini").write_text(json.dumps({"mcpServers": {"wiki": sse}}))
        done = shell.json("import")
        assert (done["added"], done["same"]) == (["wiki", "wiki-2"], ["clock", "clock", "wiki"])
        assert servers_in(shell, "mcp.json")["wiki-2"] == sse

    def test_a_second_one_adds_nothing(self, shell):
        cursor_with(shell, s={"command": "s", "env": {"API_KEY": TOKEN}})
        assert shell.json("import", "cursor")["added"] == ["s"]
        assert shell.json("import", "cursor")["added"] == []

    def test_a_second_one_says_nothing_of_a_server_that_got_a_number(self, shell):
        cursor_with(shell, clock={"command": "other", "disabled": True})
        assert len(shell.json("import", "cursor")["notes"]) == 2
        again = shell.json("import", "cursor")
        assert (again["same"], again["notes"]) == (["clock-2"], [])

    def test_what_a_server_lacks_here_is_named(self, shell):
        servers = {
            "files": {"command": "fs", "args": ["${workspaceFolder}", "${userHome}"]},
            "post": {"command": "post", "args": ["$HERE"], "env": {"PLACE": "${NOT_SET_1}"}},
            "fax": {"httpUrl": "https://fax.example", "headers": {"X": "$NOT_SET_2"}},
        }
        cursor_with(shell, **servers)
        files, post, fax = shell.json("import", "cursor")["notes"]
        assert files.startswith("files: ")
        assert "${workspaceFolder}" in files
        assert "${userHome}" in files
        assert post == "post needs NOT_SET_1, not set here"
        assert fax == "fax needs NOT_SET_2, not set here"
        (note,) = shell.json("install", "cursor", "--print")["notes"][:1]
        assert "need NOT_SET_1, NOT_SET_2: " in note
        assert "workspaceFolder" not in note

    def test_comments_of_the_mcp_json_stay(self, shell):
        (shell.folder / "mcp.json").write_text('{\n  // mine\n  "mcpServers": {}\n}\n')
        cursor_with(shell, s={"command": "s"})
        shell("import", "cursor")
        assert "// mine" in (shell.folder / "mcp.json").read_text()

    def test_the_gateway_itself_is_left_out(self, shell):
        shell("install", "cursor")
        done = shell.json("import", "cursor")
        assert done["added"] == []
        assert "gateway" in done["notes"][0]

    def test_a_file_and_an_entry_of_the_registry(self, shell):
        remotes = [{"type": "streamable-http", "url": "https://post.example/mcp"}]
        shell.write("server.json", {"name": "io.example/post", "remotes": remotes})
        assert shell.json("import", "server.json")["added"] == ["io.example/post"]

    @pytest.mark.parametrize(
        ("name", "entry", "cwd"),
        [
            (".mcp.json", {"command": "node", "args": ["server.js"]}, ""),
            (".cursor/mcp.json", {"command": "./server.js"}, ""),
            (".kiro/settings/mcp.json", {"command": "uv", "args": ["run", "--project", "."]}, ""),
            (".mcp.json", {"command": "npm", "args": ["start"], "cwd": "./sub"}, "sub"),
            (".mcp.json", {"command": "npx", "args": ["-y", "sub", ""]}, None),
            (".mcp.json", {"command": "node", "args": ["server.js"], "cwd": "/srv"}, None),
        ],
    )
    def test_relative_paths_of_a_project_are_found_from_any_folder(self, shell, name, entry, cwd):
        project = shell.folder / "project"
        (project / "sub").mkdir(parents=True)
        (project / "server.js").touch()
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mcpServers": {"s": entry}}))
        done = shell.json("import", f"project/{name}")
        wanted = entry if cwd is None else {**entry, "cwd": str(project / cwd)}
        assert (done["added"], servers_in(shell, "mcp.json")["s"]) == (["s"], wanted)

    def test_print_writes_nothing(self, shell):
        cursor_with(shell, s={"command": "s"})
        before = (shell.folder / "mcp.json").read_text()
        assert '"s"' in shell("import", "cursor", "--print").stdout
        assert (shell.folder / "mcp.json").read_text() == before

    def test_a_host_without_a_file_is_named(self, shell):
        stderr = shell.error("import", "cursor")
        assert ".cursor/mcp.json" in stderr
        assert "toolcrib import" not in stderr
        assert "no file 'none.json'" in shell("import", "none.json").stderr
        shell.write("bare.json", {"clock": {"command": "clock"}})
        assert "put them under 'mcpServers'" in shell.error("import", "bare.json")
        assert shell("import").returncode == 2


def test_the_reader_knows_files_of_codex(tmp_path):
    (tmp_path / "config.toml").write_text('[mcp_servers.s]\ncommand = "s"\n')
    assert find_servers(Source.by_name(str(tmp_path / "config.toml"))) == {"s": {"command": "s"}}


# -- servers of an mcp.json ------------------------------------------------------------------------


class TestServers:
    def test_add_list_and_remove(self, shell):
        for words in (
            ("fs", "--env=A=1", "--env=NOT_SET_1", "--", "npx", "-y", "fs"),
            ("far", "https://far.example/mcp", "--header", "X-Kind: test"),
        ):
            assert shell("gateway", "add", *words).returncode == 0
        env = {"A": "1", "NOT_SET_1": "${NOT_SET_1}"}
        assert servers_in(shell, "mcp.json") == {
            "clock": {"command": "clock"},
            "fs": {"command": "npx", "args": ["-y", "fs"], "env": env},
            "far": {"url": "https://far.example/mcp", "headers": {"X-Kind": "test"}},
        }
        rows = shell.json("gateway", "list")["servers"]
        assert [row["state"] for row in rows] == ["on", "unusable", "on"]
        assert "NOT_SET_1" in rows[1]["problem"]
        assert shell("gateway", "remove", "fs").returncode == 0
        assert "fs" not in servers_in(shell, "mcp.json")

    @pytest.mark.parametrize(
        ("entry", "target", "state"),
        [
            ({"httpUrl": "https://a.example/x"}, "a.example", "on"),
            ({"serverUrl": "HTTPS://a.example/x"}, "a.example", "on"),
            ({"url": "${PATH}"}, "${path}", "on"),
            ({"url": "a.example/mcp"}, "a.example", "unusable"),
            ({"url": "ftp://a.example"}, "a.example", "unusable"),
            ({"url": "unix:/run/a.sock"}, "unix", "unusable"),
        ],
    )
    def test_the_host_of_a_url_is_shown_and_its_scheme_checked(self, shell, entry, target, state):
        shell.write("mcp.json", {"mcpServers": {"s": entry}})
        (row,) = shell.json("gateway", "list")["servers"]
        assert (row["target"], row["state"]) == (target, state)
        assert ("https://" in row["problem"]) is (state == "unusable")

    def test_a_file_is_listed_by_its_name_alone(self, shell):
        (shell.folder / "other.json").write_text('{"mcpServers": {"s": {"comand": "s"}}}')
        listed = shell.json("gateway", "list", "other.json")
        assert listed["file"] == "other.json"
        (row,) = listed["servers"]
        assert "did you mean 'command'" in row["problem"]

    def test_a_file_that_names_no_servers_is_no_empty_list(self, shell):
        shell.write("mcp.json", {"mcpServer": {"s": {"command": "s"}}})
        assert "names no MCP servers" in shell.error("gateway", "list")
        shell.write("mcp.json", {"mcpServers": {}})
        assert shell.json("gateway", "list")["servers"] == []

    def test_a_file_is_made_where_there_is_none(self, shell):
        shell("gateway", "add", "s", "s", "--config", "new.json")
        made = shell.folder / "new.json"
        assert read(made) == {"mcpServers": {"s": {"command": "s"}}}
        assert made.stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(
        ("arguments", "noun"),
        [
            (("add", "clock", "clock"), "clock"),
            (("add", "s", "https://s.example", "--env", "A=1"), "--header"),
            (("add", "s", "ftp://s.example"), "https://"),
            (("add", "s", "https://s.example", "--header", "Authorization=Bearer a"), "--header"),
            (("add", "s", "https://s.example", "--header", "X Kind: a"), "--header"),
            (("remove", "clok"), "clock"),
            (("list", "--config", "none.json"), "none.json"),
            (("list", "--config", "none.json"), "toolcrib import"),
            (("list", "none.json"), "none.json"),
            (("lst",), "list"),
        ],
    )
    def test_a_mistake_is_named(self, shell, arguments, noun):
        assert noun in shell.error("gateway", *arguments)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "mcpServers": {"toolcrib": {"command": "x"}}}',
        '{"mcpServers": {"toolcrib": {"command": "x"}, "b": {"command": "y"}}}',
        '{"mcpServers": {"b": {"command": "{\\"//"}, /* , */ "toolcrib": {"command": "x"} }}',
        '{ // note\n "mcpServers": { // note\n "toolcrib": {"command": "x"}, }, }',
        '{"mcpServers": {\n  "b": {"command": "y"}, // of b\n  "toolcrib": {}\n  // end\n}}',
        '{"mcpServers": {"b": {"command": "y"},\n\n  // of ours\n  "toolcrib": {} // ours\n}}',
    ],
)
def test_an_entry_is_put_in_and_taken_out_however_the_file_is_written(shell, text):
    path = file_of(shell, "cursor")
    path.write_text(text)
    comments = text.count("//") + text.count("/*")
    assert shell("install", "cursor").returncode == 0
    assert shell("gateway", "remove", "toolcrib", "--config", str(path)).returncode == 0
    kept = path.read_text()
    assert "toolcrib" not in read(path)["mcpServers"]
    assert kept.count("//") + kept.count("/*") == comments
