"""Commands through a service: the same words, the same answers."""

from __future__ import annotations

import json

import httpx2
import pytest

from tests.cli.conftest import TOOLS, Shell
from tests.cli.test_integrity_commands import CLEAN, POISONED
from tests.cli.test_serve import serving

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The URL of a service over an empty index, and a key that may write."""
    shell = Shell(tmp_path_factory.mktemp("service"))
    spaces = ("--namespace", "default", "--namespace", "empty")
    key = shell.json("keys", "create", "ana", "--write", *spaces)["text"]
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
    reported = shell.json("report", "--url", service["TOOLCRIB_URL"], **service)
    assert reported["decisions"] == 1
    shown = shell.json("top", "--once", **service)
    assert (shown["gateways"], shown["calls"]) == (0, [])
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
    stderr = shell.error("list", "--url", "http://127.0.0.1:1", "--store", "mine")
    assert "a store or a service" in stderr


def test_a_store_warns_that_the_namespace_is_for_a_service(shell, caplog):
    index = ("index", shell.write("tools.jsonl", *TOOLS), "--store", "mine")
    for env in ({}, {"TOOLCRIB_NAMESPACE": "default"}):
        shell.json(*index, **env)
    assert caplog.messages == []
    shell.json(*index, TOOLCRIB_NAMESPACE="acme")
    [warning] = caplog.messages
    assert "(acme)" in warning


def test_errors_of_a_service_are_one_line_with_the_exit_code_of_their_kind(shell, service):
    stranger = {**service, "TOOLCRIB_API_KEY": "tc_nobody"}
    assert shell.error("show", "mail/nobody", **service).count("\n") == 1
    assert shell.error("list", **stranger).count("\n") == 1
    told = shell("doctor", "--json", **stranger)
    assert told.returncode == 1
    assert "TOOLCRIB_API_KEY" in json.loads(told.stdout)["problems"][0]["mend"]
    told = shell("doctor", "--json", **{**service, "TOOLCRIB_NAMESPACE": "empty"})
    [problem] = json.loads(told.stdout)["problems"]
    assert "namespace 'empty'" in problem["what"]
    assert "TOOLCRIB_NAMESPACE" in problem["mend"]


def test_a_service_without_decisions_has_none_to_report(shell, service):
    own = {**service, "TOOLCRIB_NAMESPACE": "empty"}
    stderr = shell.error("report", "--url", service["TOOLCRIB_URL"], **own)
    assert stderr.count("\n") == 1
    assert "no decision yet" in stderr


def test_a_command_that_needs_the_index_itself_does_not_take_another_for_it(shell, service):
    assert "--store" in shell.error("calibrate", "--reset", **service)
    assert "--store" in shell.error("index", "--rebuild", **service)


def test_ids_behind_a_service_are_offered_to_the_shell(shell, service):
    shell.json("index", shell.write("tools.jsonl", *TOOLS), **service)
    assert shell.complete("show mail/", **service) == {"mail/send_mail"}


QUESTION = {
    "model": "none",
    "question": "What is it about?",
    "classes": [
        {"id": "mail", "description": "About mail.", "examples": ["send a mail"]},
        {"id": "files", "description": "About files.", "examples": ["read a file"]},
    ],
}
CAPABILITIES = {
    "capabilities": [{"name": "safety", "description": "Keeps to rules.", "always_active": True}]
}


@pytest.fixture(scope="module")
def careful(tmp_path_factory):
    """A service that audits, learns, and has a question and capabilities; a writer, a reviewer."""
    shell = Shell(tmp_path_factory.mktemp("careful"))
    keys = [
        shell.json("keys", "create", name, "--write")["text"] for name in ("writer", "reviewer")
    ]
    shell.write("support.json", QUESTION)
    shell.write("capabilities.json", CAPABILITIES)
    env = {
        "TOOLCRIB_QUESTIONS": '{"support": "support.json"}',
        "TOOLCRIB_CAPABILITIES__FILE": "capabilities.json",
        "TOOLCRIB_LEARNING__ENABLED": "true",
        "TOOLCRIB_CONTEXT__DETECTOR": "heuristic",
    }
    with serving(shell, "--json", **env) as line:
        url = json.loads(line)["url"]
        yield [{"TOOLCRIB_URL": url, "TOOLCRIB_API_KEY": key} for key in keys]


def test_what_a_service_holds_back_is_shown_approved_and_rejected(shell, careful):
    writer, reviewer = careful
    spy = {**POISONED, "name": "spy"}
    shell("index", shell.write("tools.jsonl", CLEAN, POISONED, spy), **writer)
    held = shell.json("approve", **reviewer)["held"]
    assert [each["tool_id"] for each in held] == ["sums/add", "sums/spy"]
    assert held[0]["since"].endswith("+00:00")
    seen = held[0]["digest"]
    assert seen in shell("approve", "--list", **reviewer).stdout
    approve = ("approve", "sums/add", "--digest")
    assert "service.approve_own" in shell.error(*approve, seen, **writer)
    assert seen in shell.error(*approve, held[1]["digest"], **reviewer)
    assert shell("show", "sums/add", **reviewer).returncode == 2
    shell.json(*approve, seen, **reviewer)
    assert shell.json("show", "sums/add", **reviewer)["name"] == "add"
    assert shell.complete("approve s", **reviewer) == {"sums/spy"}
    assert shell.json("approve", "--reject", "--all", **writer) == {"rejected": ["sums/spy"]}
    assert "nothing is held back" in shell("approve", **reviewer).stdout
    assert shell("show", "sums/spy", **reviewer).returncode == 2
    assert "'other'" in shell.error("approve", "--namespace", "other", **reviewer)
    assert shell("approve", "--all", "--lock", "mine.lock", **reviewer).returncode == 2


def test_what_a_service_learned_is_shown_switched_replayed_and_taken_back(shell, careful):
    writer, _ = careful
    shell("index", shell.write("tools.jsonl", *TOOLS), **writer)
    headers = {"Authorization": f"Bearer {writer['TOOLCRIB_API_KEY']}"}
    with httpx2.Client(base_url=writer["TOOLCRIB_URL"], headers=headers) as client:
        for session in "abc":
            turn = {"text": f"send a mail {session}", "metadata": {"session": session}}
            decision = client.post("/v1/route", json=turn).json()["id"]
            told = {"decision_id": decision, "tool": "mail/send_mail", "outcome": "success"}
            client.post("/v1/outcomes", json=told).raise_for_status()
    status = shell.json("learn", **writer)
    assert [each["tool"] for each in status["tools"]] == ["mail/send_mail"]
    assert shell.json("learn", "--replay", **writer)["observations"] == 3
    assert shell.json("learn", "--off", **writer) == {"on": False}
    assert "learning is off" in shell("learn", **writer).stdout
    assert shell.json("learn", "--on", **writer) == {"on": True}
    assert shell.json("learn", "--undo", "mail/send_mail", **writer) == {"removed": 3}
    assert shell.json("learn", "--status", **writer)["tools"] == []
    assert "--store" in shell.error("learn", "--from", "log.jsonl", **writer)


def test_where_a_service_learns_nothing_it_says_so(shell, service):
    assert "set learning.enabled" in shell("learn", **service).stderr


def test_a_service_chooses_by_its_own_questions_and_capabilities(shell, careful):
    writer, _ = careful
    url, key = ("--url", writer["TOOLCRIB_URL"]), {"TOOLCRIB_API_KEY": writer["TOOLCRIB_API_KEY"]}
    assert shell.json("classify", "support", "send a mail", **writer)["branch"] == "mail"
    assert shell.json("classify", "support", "read a file", *url, **key)["branch"] == "files"
    stderr = shell.error("classify", "suport", "send a mail", **writer)
    assert "did you mean 'support'?" in stderr
    assert shell.json("capabilities", "read a file", **writer)["active"] == ["safety"]
    # A file that is named is read here, whatever the variable says.
    away = {"TOOLCRIB_URL": "http://127.0.0.1:1"}
    mine = shell.write("mine.json", QUESTION)
    assert shell.json("classify", mine, "send a mail", **away)["branch"] == "mail"
    mine = ("--config", shell.write("capabilities.json", CAPABILITIES))
    assert shell.json("capabilities", "read a file", *mine, **away)["active"] == ["safety"]
    assert shell("capabilities", "read a file", *mine, *url, **key).returncode == 2
