"""Completions of the shell: commands, options, and what there is in an index."""

from __future__ import annotations

import pytest

from toolcrib.cli.app import COMMANDS

LINES = {
    "": set(COMMANDS),
    "sea": {"search"},
    "--set": {"--settings"},
    "keys ": {"create", "list", "revoke"},
    "show ": {"mail/send_mail", "files/read_file", "sql/drop"},
    "show mail/": {"mail/send_mail"},
    "remove mail/send_mail s": {"sql/drop"},
    "list --server ": {"mail", "files", "sql"},
    "search x --server f": {"files"},
    "search x --tag ": {"safe"},
    "search x --as openai": {"openai", "openai-namespaces"},
    "index tools.jsonl --format mcp-": {"mcp-servers", "mcp-live", "mcp-skills"},
    "index-docs x --sensitivity p": {"public", "pii"},
    "eval run --system ours": {"ours"},
    "show nothing/": set(),
    "list --store nowhere --server ": set(),
}


@pytest.mark.parametrize("line", LINES)
def test_what_there_is_is_offered(indexed, line):
    assert indexed.complete(line) == LINES[line]


def test_ids_of_keys_and_collections_are_offered(indexed):
    key = indexed.json("keys", "create", "ana")["key"]["id"]
    assert indexed.complete("keys revoke ") == {key}
    (indexed.folder / "rules.md").write_text("# Rules\n\nNo parcel weighs more than a horse.\n")
    indexed.json("index-docs", "rules.md", "--collection", "post")
    assert indexed.complete("index-docs more.md --collection ") == {"post"}


@pytest.mark.parametrize(
    "env",
    [
        {"TOOLCRIB_URL": "http://127.0.0.1:1"},
        {"TOOLCRIB_STORE": "nowhere"},
        {"TOOLCRIB_ENCODER__DENSE": "nonsense"},
    ],
)
def test_what_cannot_be_had_is_not_offered_and_nothing_is_said(indexed, env):
    assert indexed.complete("show ", **env) == set()


def test_looking_makes_no_index(shell):
    assert shell.complete("show ") == set()
    assert not (shell.folder / ".toolcrib").exists()


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_script_is_given_to_every_shell(shell, name):
    done = shell(_TOOLCRIB_COMPLETE=f"source_{name}")
    assert "_TOOLCRIB_COMPLETE" in done.stdout
