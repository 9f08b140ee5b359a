"""`toolcrib lint`: findings for people, an object for machines, an exit code for both."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Shell

GOOD = {"name": "send_mail", "description": "Sends a letter to somebody.", "server": "post"}
LOST = {"name": "read_file", "server": "files"}
TWIN = {"name": "mail_letter", "description": "Sends a letter to somebody!", "server": "post"}
THIN = {"name": "show_date", "description": "Shows the date.", "server": "desk"}


def test_the_json_is_counts_and_findings(shell):
    name = shell.write("tools.jsonl", GOOD, LOST, {"description": "of nobody"})
    done = shell("lint", name, "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    assert said.keys() == {"tools", "servers", "findings", "refused"}
    assert {key: said["findings"][0][key] for key in ("rule", "severity", "tool")} == {
        "rule": "no-description",
        "severity": "error",
        "tool": "files/read_file",
    }
    assert said["servers"][0]["server"] == "files"
    assert said["refused"][0]["place"] == "line 3"


@pytest.mark.parametrize(
    ("tools", "options", "code"),
    [
        ([GOOD, LOST], ["--fail-on", "never", "--strict"], 1),
        ([GOOD, LOST], ["--ignore", "no-description"], 0),
        ([GOOD, TWIN], ["--fail-on", "warning"], 1),
        ([GOOD, THIN], ["--fail-on", "info"], 1),
        ([GOOD, THIN], ["--strict"], 1),
    ],
)
def test_the_exit_code_says_whether_something_as_bad_was_found(shell, tools, options, code):
    assert shell("lint", shell.write("tools.jsonl", *tools), *options).returncode == code


def test_definitions_that_a_provider_refuses_are_found_for_it_alone(shell):
    odd = {"type": "object", "properties": {"$top": {"type": "array"}}}
    name = shell.write("tools.jsonl", {**GOOD, "input_schema": odd})

    def rules(*providers):
        done = shell("lint", name, "--json", *(f"--for={each}" for each in providers))
        found = json.loads(done.stdout)["findings"]
        return done.returncode, {
            each["rule"]: each["text"] for each in found if each["severity"] == "error"
        }

    assert rules() == (0, {})
    assert rules("bedrock") == (0, {})
    code, found = rules("anthropic", "openai")
    assert (code, found.keys()) == (1, {"provider-anthropic", "provider-openai"})
    assert "$top" in found["provider-anthropic"]
    assert "items" in found["provider-openai"]
    assert shell("lint", name, "--for", "nobody").returncode == 2


def test_what_cannot_be_read_fails_unless_nothing_shall(shell):
    tools = shell.write("tools.jsonl", GOOD)
    assert shell("lint", tools).returncode == 0
    assert "cannot be read no-such.json" in shell.error("lint", tools, "no-such.json", code=1)
    assert shell("lint", tools, "no-such.json", "--fail-on", "never").returncode == 0


def test_a_different_tool_with_the_same_id_is_refused(shell):
    name = shell.write("tools.jsonl", GOOD, {**GOOD, "description": "Keeps bees."}, GOOD)
    done = shell("lint", name, "--json")
    (refused,) = json.loads(done.stdout)["refused"]
    assert (done.returncode, refused["place"]) == (1, "post/send_mail")
    assert "already stands for a different tool" in refused["reason"]


def test_people_read_what_is_wrong_and_on_which_servers(shell):
    said = shell("lint", shell.write("tools.jsonl", GOOD, LOST, {"name": 3})).stdout
    assert "error\tno-description\tfiles/read_file\tit has no description" in said
    assert "server\ttools\terror\twarning\tinfo" in said
    assert "2 tools: 1 error" in said


def test_a_screen_shows_the_first_findings_and_counts_the_others(tmp_path):
    shell = Shell(tmp_path, screen=True)
    many = [{"name": f"read_file_{n}", "server": "files"} for n in range(101)]
    assert "and 1 more; --json lists all" in shell("lint", shell.write("tools.jsonl", *many)).stdout


def test_without_sources_the_tools_of_the_index_are_looked_at(indexed):
    assert indexed.json("lint", "--fail-on", "never")["tools"] == 2


def test_a_page_is_written_where_it_can_be(shell):
    name = shell.write("tools.jsonl", GOOD)
    assert shell("lint", name, "--html", "page.html").returncode == 0
    assert "1 tool, with no errors" in (shell.folder / "page.html").read_text()
    assert "cannot be written" in shell.error("lint", name, "--html", "no/page.html", code=3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json"], "there is no such file or folder"),
        (["--server", "post"], "needs sources"),
        (["tools.jsonl", "--store", "mine"], "goes without sources"),
        (["tools.jsonl", "--ignore", "spelling"], "not-found"),
    ],
)
def test_what_cannot_be_done_is_said(shell, arguments, said):
    shell.write("tools.jsonl", GOOD)
    stderr = shell.error("lint", *arguments)
    assert said in " ".join(stderr.split())


def test_an_index_without_tools_cannot_be_judged(indexed):
    indexed("remove", "post/send_mail")
    for tool in ("mail/send_mail", "files/read_file", "sql/drop"):
        indexed("remove", tool)
    assert "holds no tools" in indexed("lint").stderr
