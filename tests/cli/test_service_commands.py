"""Commands through a service: the same words, the same answers."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import TOOLS
from tests.cli.test_serve import serving

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The URL of a service over an empty index, and a key that may write."""
    from tests.cli.conftest import Shell

    shell = Shell(tmp_path_factory.mktemp("service"))
    key = shell.json("keys", "create", "ana", "--write")["text"]
    with serving(shell, "--json", TOOLCRIB_AUDIT="false") as line:
        yield {"TOOLCRIB_URL": json.loads(line)["url"], "TOOLCRIB_API_KEY": key}


def test_every_command_that_can_works_through_a_service(shell, service):
    source = shell.write("tools.jsonl", *TOOLS)
    assert shell.json("index", source, **service)["added"] == 3
    assert len(shell.json("list", **service)["tools"]) == 3
    assert shell("list", "--limit", "2", **service).stdout.count("\n") == 2
    assert shell.json("show", "mail/send_mail", **service)["name"] == "send_mail"
    best = shell.json("search", "send somebody a mail", "-k", "1", **service)["tools"][0]
    assert best["id"] == "mail/send_mail"
    assert shell.json("route", "send somebody a mail", **service)["route"]["kind"]
    (shell.folder / "rules.md").write_text("# Rules\n\nA parcel weighs thirty kilograms.\n")
    options = ("--collection", "post", "--description", "Rules of parcels.")
    assert shell.json("index-docs", "rules.md", *options, **service)["added"] == 1
    [post] = shell.json("collections", **service)
    assert (post["name"], post["description"], post["passages"]) == ("post", "Rules of parcels.", 1)
    told = shell.json("doctor", **service)
    assert told["service"]["tools"] == 3
    assert shell.json("remove", "sql/drop", **service) == {"removed": 1}
    assert not (shell.folder / ".toolcrib").exists()


def test_a_url_on_the_line_goes_before_the_variable_and_a_store_before_both(shell, service):
    env = {**service, "TOOLCRIB_URL": "http://127.0.0.1:1"}
    assert shell("list", "--url", service["TOOLCRIB_URL"], **env).returncode == 0
    source = shell.write("tools.jsonl", *TOOLS)
    assert shell.json("index", source, "--store", "mine", **env)["added"] == 3
    done = shell("list", "--url", "http://127.0.0.1:1", "--store", "mine")
    assert done.returncode == 2
    assert "name either a store or a service" in done.stderr


def test_errors_of_a_service_are_one_line_with_the_exit_code_of_their_kind(shell, service):
    done = shell("show", "mail/nobody", **service)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    done = shell("list", **{**service, "TOOLCRIB_API_KEY": "tc_nobody"})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    told = shell("doctor", "--json", **{**service, "TOOLCRIB_API_KEY": "tc_nobody"})
    assert told.returncode == 1
    assert "TOOLCRIB_API_KEY" in json.loads(told.stdout)["problems"][0]["mend"]


def test_a_command_that_needs_the_index_itself_does_not_take_another_for_it(shell, service):
    done = shell("calibrate", "--reset", **service)
    assert done.returncode == 2
    assert "--store" in done.stderr
    assert shell("index", "--rebuild", **service).returncode == 2


def test_ids_behind_a_service_are_offered_to_the_shell(shell, service):
    shell.json("index", shell.write("tools.jsonl", *TOOLS), **service)
    line = {"COMP_WORDS": "toolcrib show mail/", "COMP_CWORD": "2"}
    done = shell(_TOOLCRIB_COMPLETE="complete_bash", **line, **service)
    assert done.stdout.strip() == "mail/send_mail"
