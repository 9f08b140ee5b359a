"""Output: rows for programs, tables for people, and how much is said."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.cli.conftest import Shell

LONG = "word " * 100


@pytest.fixture
def many(shell):
    """Tools whose ids and descriptions no screen holds, and that look like markup."""
    rows = [
        {"name": f"{'name_' * 30}{n}", "server": "a[b]", "description": f"{LONG}:dog: [red]\t{n}"}
        for n in range(30)
    ]
    shell.json("index", shell.write("tools.jsonl", *rows))
    return shell


def test_elsewhere_than_on_a_screen_a_row_is_a_line_and_whole(many):
    rows = [line.split("\t") for line in many("list").stdout.splitlines()]
    assert len(rows) == 30
    assert all(len(row) == 2 for row in rows)
    assert {row[0] for row in rows} == {f"a[b]/{'name_' * 30}{n}" for n in range(30)}
    assert all(f"{LONG}:dog: [red] " in row[1] for row in rows)


def test_on_a_screen_rows_are_cut_to_it(many):
    listed = Shell(many.folder, screen=True)("list", "--limit", "1").stdout
    assert "what it does" in listed
    assert "…" in listed


@pytest.mark.parametrize("screen", [False, True])
def test_no_text_of_others_controls_a_terminal(shell, screen):
    texts = {"description": "gone\x1b[2J\u202edne\u009b1m", "category": "a\x1b]0;b\x07"}
    shell.json("index", shell.write("t.jsonl", {"name": "n", "server": "s", **texts}), "--no-audit")
    shell.write("\x1b[31mbad.jsonl")
    on = Shell(shell.folder, screen=screen)
    source = ("search", "gone", "--as", "python-stub")
    bad = ("index", "\x1b[31mbad.jsonl")
    for said in (("list",), ("show", "s/n"), ("search", "gone"), source, bad):
        done = on(*said)
        shown = done.stdout + done.stderr
        assert "\ufffd" in shown
        assert not {"\u202e", "\u009b", "\x07"} & set(shown)
        assert not any(each in shown for each in ("\x1b[2J", "\x1b]0", "\x1b[31mbad"))


def test_a_limit_says_of_how_many(many):
    done = many("list", "--limit", "3")
    assert (done.stdout.count("\n"), done.stderr) == (3, "3 of 30 tools\n")
    assert len(many.json("list", "--limit", "3")["tools"]) == 3


@pytest.mark.parametrize("place", ["before", "behind"])
def test_quiet_leaves_the_answer_alone_standing(indexed, place):
    said = ("-q", "list") if place == "before" else ("list", "--quiet")
    done = indexed(*said)
    assert (done.stdout.count("\n"), done.stderr) == (3, "")
    assert indexed("list").stderr == "3 tools\n"
    again = indexed("index", "tools.jsonl", "-q")
    assert (again.stdout, again.stderr) == ("", "")
    assert "error:" in indexed("-q", "show", "nobody").stderr


@pytest.mark.slow
def test_verbose_tells_what_is_worked_on_and_where_an_error_came_from(indexed):
    done = indexed.process("list", "-v")
    assert "using the store .toolcrib" in done.stderr
    done = indexed.process("show", "nobody", "-v")
    assert done.returncode == 2
    assert "UnknownToolError" in done.stderr
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("serch", "mail"), "'search'"),
        (("lst",), "'list'"),
        (("collection",), "'collections'"),
        (("key",), "'keys'"),
        (("keys", "creat", "ana"), "'create'"),
        (("eval", "compair", "a", "b"), "'compare'"),
    ],
)
def test_a_mistyped_command_is_told_what_was_meant(shell, typed, meant):
    stderr = shell.error(*typed)
    assert "Did you mean" in stderr
    assert meant in stderr


def test_a_word_before_a_file_is_a_mistyped_command(shell):
    (shell.folder / "mcp.json").write_text("{}")
    stderr = shell.error("gateway", "rnu", "mcp.json")
    assert "No such command 'rnu'" in stderr
    assert "'run'" in stderr


def test_a_data_set_whose_name_is_nearly_a_commands_is_one(shell):
    (shell.folder / "runs").mkdir()
    assert "No such command" not in shell("eval", "runs").stderr


def test_help_says_where_more_is_written(shell):
    for name in (["index"], ["eval"], ["keys"], ["eval", "run"]):
        assert "toolcrib docs commands" in shell(*name, "--help").stdout


@pytest.mark.slow
def test_a_verbose_command_logs_no_secret_of_an_address(shell):
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://ada:plain@127.0.0.1:{http.server_port}/plain?token=plain"
        servers = {"mcpServers": {"post": {"url": url}}}
        (shell.folder / "mcp.json").write_text(json.dumps(servers))
        done = shell.process("index", "mcp.json", "-v")
        http.shutdown()
    assert f"http://127.0.0.1:{http.server_port} " in done.stderr
    assert "plain" not in done.stdout + done.stderr
