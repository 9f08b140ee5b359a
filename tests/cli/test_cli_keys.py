"""`toolcrib keys`, run as a user runs it."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.cli.conftest import TOOLS, Shell
from toolcrib import Crib, Settings, build
from toolcrib.access.keys import KeyRing
from toolcrib.errors import UnauthenticatedError


@pytest.fixture
def ring(shell):
    with closing(build.open_records_db(str(shell.folder / ".toolcrib"), Settings())) as records_db:
        yield KeyRing(records_db)


def test_a_key_is_shown_once_and_holds(shell, ring):
    done = shell("keys", "create", "ann")
    assert done.returncode == 0
    (text,) = done.stdout.split()
    caller = ring.verify(text)
    assert (caller.name, caller.may_write, caller.grant.namespaces) == ("ann", False, ("default",))
    assert done.stderr == f"key {caller.key_id} for ann in .toolcrib, shown only now:\n"
    for listing in (shell("keys", "list"), shell("keys", "list", "--json")):
        assert "ann" in listing.stdout
        assert text.split("_")[2] not in listing.stdout


def test_every_option_narrows_or_widens_the_grant(shell, ring):
    options = (
        "--namespace acme --namespace bolt --namespace acme --server mail --server files "
        "--tag safe --collection handbook --max-sensitivity internal --write --expires-days 30 "
        "--rate 100/minute --profile reading"
    )
    profiles = {"TOOLCRIB_GATEWAY__PROFILES": '{"reading": {}}'}
    made = shell.json("keys", "create", "bob the builder", *options.split(), **profiles)
    assert made["key"]["grant"] == {
        "namespaces": ["acme", "bolt"],
        "servers": ["files", "mail"],
        "tags": ["safe"],
        "collections": ["handbook"],
        "max_sensitivity": "internal",
        "access": "write",
        "rate": "100/minute",
        "profile": "reading",
    }
    assert ring.verify(made["text"]).grant.model_dump(mode="json") == made["key"]["grant"]
    (listed,) = shell.json("keys", "list")["keys"]
    assert listed == made["key"]
    assert ring.list()[0].expires_at - ring.list()[0].created_at == pytest.approx(30 * 86_400)


def test_an_admin_key_is_for_everything(shell, ring):
    made = shell.json("keys", "create", "ann", "--admin")
    caller = ring.verify(made["text"])
    assert (caller.may_administer, caller.may_write) == (True, True)
    assert caller.grant.namespaces == ("*",)
    stderr = shell.error("keys", "create", "bob", "--admin", "--server", "mail")
    assert "the access admin is for all namespaces (*), without other limits" in stderr


def test_a_revoked_key_stays_listed_and_holds_no_longer(shell, ring):
    made = shell.json("keys", "create", "ann")
    key_id = made["key"]["id"]
    assert shell("keys", "revoke", key_id).stdout == f"{key_id} revoked\n"
    assert shell.json("keys", "revoke", key_id) == {"revoked": key_id}
    (listed,) = shell.json("keys", "list")["keys"]
    assert listed["state"] == "revoked"
    with pytest.raises(UnauthenticatedError, match="is revoked"):
        ring.verify(made["text"])


def test_the_list_says_in_words_what_each_key_may(shell):
    shell("keys", "create", "ann", "--server", "mail", "--max-sensitivity", "pii")
    shell("keys", "create", "[bold]bob", "--write", "--namespace", "*", "--expires-days", "1")
    shown = Shell(shell.folder, screen=True)("keys", "list", COLUMNS="140").stdout
    lines = shown.splitlines()
    assert lines[0].split()[:5] == ["key", "name", "state", "access", "namespaces"]
    assert lines[0].split()[5:] == ["made", "expires", "only"]
    assert lines[1].split()[1:5] == ["ann", "active", "read", "default"]
    assert lines[1].rstrip().endswith("never       servers: mail; up to pii")
    assert lines[2].split()[1:5] == ["[bold]bob", "active", "write", "*"]
    assert lines[3] == "2 keys in .toolcrib"


def test_a_named_store_that_is_not_there_is_an_error(shell):
    for command in (("list",), ("revoke", "0123456789ab")):
        assert "nowhere" in shell.error("keys", *command, "--store", "nowhere", code=3)


def test_no_keys_are_an_empty_list_and_make_no_file(shell):
    assert shell.json("keys", "list") == {"keys": []}
    # The keys of a service are not asked for, and the store is named.
    done = shell("keys", "list", TOOLCRIB_URL="http://127.0.0.1:1")
    assert (done.returncode, done.stderr.strip()) == (0, "0 keys in .toolcrib")
    assert not (shell.folder / ".toolcrib").exists()


def test_the_text_of_a_key_revokes_it_and_is_not_printed(shell):
    made = shell.json("keys", "create", "ann")
    text, key_id = made["text"], made["key"]["id"]
    assert shell("keys", "revoke", text).stdout == f"{key_id} revoked\n"
    stderr = shell.error("keys", "revoke", text.replace(key_id, "0" * 12))
    assert "'000000000000'" in stderr
    assert text.split("_")[2] not in stderr


def test_a_name_in_place_of_an_id_is_told_with_the_id(shell):
    key_id = shell.json("keys", "create", "ann lee")["key"]["id"]
    stderr = shell.error("keys", "revoke", "ann lee")
    assert key_id in stderr
    assert "keys list" in stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("create ann --rate 5", "--rate '5': "),
        ("create ann --namespace Acme", "--namespace 'Acme': 'Acme' is no namespace"),
        ("create ann --max-sensitivity secret", "--max-sensitivity 'secret': "),
        ("create ann --profile nosuch", "gateway.profiles has no 'nosuch'; add it to the settings"),
        ("revoke 000000000000", "no key in .toolcrib has the id '000000000000'"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(shell, arguments, words):
    stderr = shell.error("keys", *arguments.split())
    assert stderr.startswith(f"error: {words}")
    assert stderr.count("\n") == 1


def test_keys_are_made_while_another_process_holds_the_index(indexed, settings):
    """As a running service does."""
    with Crib.open(indexed.folder / ".toolcrib", settings=settings):
        assert indexed("list").returncode == 3
        assert indexed.json("keys", "create", "ann")["key"]["name"] == "ann"
    assert len(indexed.json("list")["tools"]) == 3


def test_the_first_key_may_come_before_the_first_tool(shell):
    shell.json("keys", "create", "ann")
    assert shell.json("index", shell.write("tools.jsonl", *TOOLS))["added"] == 3
    assert len(shell.json("keys", "list")["keys"]) == 1
