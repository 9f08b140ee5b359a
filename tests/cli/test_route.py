"""A turn in, one decision out, on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.cli.conftest import TOOLS, Shell

BY_CUES = {"TOOLCRIB_CONTEXT__DETECTOR": "heuristic"}
MAIL = "send somebody a mail"
QUESTION = "How much may a parcel weigh at most?"


class Routing(Shell):
    """A shell whose turns are read by cues alone, so that nothing has to be fitted."""

    def __call__(self, *arguments, **options):
        return super().__call__(*arguments, **(BY_CUES | options))


@pytest.fixture(scope="module")
def stocked(tmp_path_factory):
    """A shell in whose folder `TOOLS` and a document are indexed; read only."""
    shell = Routing(tmp_path_factory.mktemp("stocked"))
    more = [{"name": f"tool_{n}", "description": f"Number {n}."} for n in range(40)]
    shell.json("index", shell.write("tools.jsonl", *TOOLS, *more))
    (shell.folder / "weight.md").write_text("A parcel may weigh at most thirty kilograms.\n")
    shell.json("index-docs", "weight.md", "--collection", "post")
    return shell


def decided(shell, *arguments, **options):
    return shell.json("route", *arguments, **options)


def lines(shell, stdin, *arguments):
    done = shell("route", "--batch", "-", "--json", *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_a_decision_keeps_its_contract(stocked):
    decision = decided(stocked, MAIL)
    assert set(decision) >= {"id", "context", "tools", "knowledge", "took_ms", "degraded"}
    assert set(decision["context"]) >= {
        "intent", "domain", "entities", "urgency", "sensitivity", "confidence", "signals",
    }  # fmt: skip
    assert set(decision["tools"]) >= {"verdict", "confidence", "tools"}
    assert set(decision["knowledge"]) >= {"verdict", "confidence", "collections", "passages"}
    assert decision["tools"]["verdict"] in {"accept", "fallback", "abstain"}
    assert decision["degraded"] == []
    assert decision["took_ms"]["total"] > 0


def test_knowledge_is_collections_and_passages_with_their_citations(stocked):
    knowledge = decided(stocked, QUESTION)["knowledge"]
    [collection] = knowledge["collections"]
    assert (collection["id"], set(collection)) == ("post", {"id", "confidence"})
    [passage] = knowledge["passages"]
    assert set(passage) >= {"id", "collection", "score", "citation"}
    assert (passage["id"], passage["collection"]) == ("post/weight.md#0", "post")
    assert "weight.md" in passage["citation"]


def test_needs_of_a_turn_are_answered_one_by_one(stocked):
    needs = ("--need", "send somebody a mail", "--need", "read a file")
    answer = stocked.json("route", "--budget-ms", "60000", *needs)
    assert [need["text"] for need in answer["tools"]["needs"]] == list(needs[1::2])


def test_without_time_the_answer_names_what_it_lacks(stocked):
    decision = decided(stocked, MAIL, "--budget-ms", "0")
    assert {"context", "tools", "knowledge"} <= set(decision["degraded"])
    shown = stocked("route", MAIL, "--budget-ms", "0").stderr
    assert "without: entities, context, tools, knowledge" in shown


def test_a_batch_answers_one_object_a_line_and_stays_in_step(stocked):
    turns = [
        MAIL,
        "",
        json.dumps({"text": "and back?", "history": [{"content": "a parcel to Graz"}]}),
        "hi",
        "{not json",
        "[1, 2]",
    ]
    found = lines(stocked, "\n".join(turns) + "\n")
    assert [each["route"]["kind"] for each in found][:4:3] == ["tools", "none"]
    assert len(found) == len(turns)
    assert found[1]["degraded"] == ["no-words"]
    assert "follow-up:1" in found[2]["signals"]
    assert all("error" not in each for each in found)


def test_a_line_may_be_a_whole_turn(stocked):
    scope = {"servers": ["files"], "collections": []}
    turn = {"text": MAIL, "scope": scope, "max_sensitivity": "internal", "attachments": ["a.csv"]}
    [decision] = lines(stocked, json.dumps(turn))
    assert {item["server"] for item in decision["tools"]["tools"]} <= {"files"}
    assert "items" not in decision["tools"]
    assert decision["knowledge"]["collections"] == []
    assert {"attachment:csv", "ceiling:destination:internal"} <= set(decision["signals"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"text": 5}', "no turn: text: Input should be a valid string"),
        ('{"words": "x"}', "no turn: words: unknown field"),
        ('{"text": "x", "history": "y"}', "no turn: history: Input should be a list"),
        ('{"text": "x", "max_sensitivity": "secret"}', "no turn: max_sensitivity: Input should be"),
    ],
)
def test_a_bad_line_is_answered_with_its_error_and_the_others_with_theirs(stocked, line, told):
    bad, good = lines(stocked, f"{line}\nhi\n")
    assert bad["turn"] == line
    assert bad["error"].startswith(told)
    assert good["context"]["smalltalk"] == "greeting"


def test_a_line_that_is_nested_without_end_is_answered_like_any_other(stocked):
    nested = '{"a":' * 20_000
    found = lines(stocked, f"{nested}\nhi\n")
    assert len(found) == 2


def test_a_batch_is_read_from_a_file_and_shown_turn_by_turn(stocked):
    (stocked.folder / "turns.txt").write_text(f'{MAIL}\n\nhi\n{{"text": 5}}\n')
    done = stocked("route", "--batch", "turns.txt")
    assert done.returncode == 0
    assert "mail/send_mail" in done.stdout
    assert "the turn holds no words" in done.stdout
    assert "small talk: greeting" in done.stdout
    assert "no turn: text: " in done.stdout


def test_brackets_in_a_batch_are_shown_as_they_are(stocked):
    (stocked.folder / "brackets.txt").write_text('a [/b] c\n{"[/d]": 1}\n')
    done = stocked("route", "--batch", "brackets.txt")
    assert done.returncode == 0
    assert "a [/b] c" in done.stdout
    assert "[/d]: unknown field" in done.stdout


def test_a_person_sees_route_context_tools_and_passages(stocked):
    shown = stocked("route", MAIL).stdout
    assert shown.startswith("tools")
    assert "intent generate" in shown
    assert "Send a mail to somebody." in shown
    assert "sql/drop" not in shown
    shown = Routing(stocked.folder, screen=True)("route", QUESTION).stdout
    assert "passages of post" in shown
    assert "weight.md, part 1" in shown


def test_a_batch_may_begin_with_a_byte_order_mark(stocked):
    text = json.dumps({"text": MAIL})
    (stocked.folder / "marked.jsonl").write_text(f"{text}\n", encoding="utf-8-sig")
    done = stocked("route", "--batch", "marked.jsonl", "--json")
    assert json.loads(done.stdout)["search_text"] == MAIL


def test_a_batch_that_is_no_text_is_one_line(stocked):
    (stocked.folder / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    done = stocked("route", "--batch", "bytes.txt", "--json")
    assert done.returncode == 2
    assert "is not UTF-8 text" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("a", "--batch", "-"),
        ("--need", "a", "--batch", "-"),
        ("a", "-k", "0"),
        ("a", "--budget-ms", "-1"),
        ("a", "--budget-ms", "soon"),
    ],
)
def test_wrong_usage_exits_with_2_and_no_trace(stocked, arguments):
    assert "Usage:" in stocked.error("route", *arguments)


def test_decisions_are_logged_where_the_settings_say(stocked):
    decision = decided(stocked, MAIL, TOOLCRIB_TELEMETRY__PATH="made/log.jsonl")
    [record] = (stocked.folder / "made" / "log.jsonl").read_text().splitlines()
    assert json.loads(record)["id"] == decision["id"]


@pytest.mark.slow
def test_input_that_is_no_text_is_one_line_or_answered(stocked):
    done = subprocess.run(
        [sys.executable, "-m", "toolcrib", "route", "--batch", "-", "--json"],
        cwd=stocked.folder,
        input=b"hi \xff\xfe\nhi\n",
        capture_output=True,
        check=False,
        env={**os.environ, **BY_CUES, "TOOLCRIB_ENCODER__DENSE": "deterministic"},
    )
    assert b"Traceback" not in done.stderr
