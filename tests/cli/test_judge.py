"""`toolcrib judge`: queries are labelled by a language model, so that `toolcrib eval` can run."""

from __future__ import annotations

import json
import re

import pytest

from toolcrib.language_models.testing import ChatServer

TOOLS = {
    "send_mail": "Send a mail to somebody.",
    "read_file": "Read a file of a folder.",
    "list_files": "List the files of a folder.",
    "drop_table": "Drop a table of the database.",
}
RIGHT = {
    "write to Ana that I am late": {"send_mail": 2},
    "what is in this folder?": {"list_files": 2, "read_file": 1},
    "will it rain?": {},
    "will it snow?": {},
}

ASKED = list(RIGHT)[:3]


def by_numbers(request):
    """Grades as `RIGHT` has them, by the numbers that tools have in the request."""
    said = request.messages[1].content
    shown = re.findall(r"^(\d+)\. (\w+):", said, re.MULTILINE)
    numbers = {name: int(number) for number, name in shown}
    right = RIGHT[said.splitlines()[1]]
    return {
        "tools": [
            {"number": numbers[n], "grade": g, "reason": f"does {n}"} for n, g in right.items()
        ]
    }


@pytest.fixture
def shell(shell):
    tools = ({"name": name, "server": "a", "description": text} for name, text in TOOLS.items())
    shell.write("tools.jsonl", *tools)
    (shell.folder / "asked.txt").write_text("\n".join(ASKED) + "\n")
    return shell


def judge(shell, server, *arguments):
    llm = {**server.settings, "attempts": "1"}
    variables = {f"TOOLCRIB_LLM__{name.upper()}": value for name, value in llm.items()}
    return shell("judge", *arguments, "--tools", "tools.jsonl", **variables)


def written(shell, name="queries.jsonl"):
    return [json.loads(line) for line in (shell.folder / name).read_text().splitlines()]


def test_who_has_no_labels_gets_some_that_the_evaluator_takes(shell):
    with ChatServer(by_numbers) as server:
        done = judge(shell, server, "asked.txt")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("3 requests judged into queries.jsonl: 2 with tools that help")
    rows = {row["text"]: row for row in written(shell)}
    folder = rows["what is in this folder?"]
    assert folder["relevant"] == {"a/list_files": 2.0, "a/read_file": 1.0}
    assert folder["reasons"]["a/read_file"] == "does read_file"
    assert (folder["judge"], folder["prompt"]) == ("double", "judge-1")
    assert rows["will it rain?"]["unanswerable_scope"] == "corpus"
    files = ("--tools", "tools.jsonl", "--queries", "queries.jsonl")
    assert shell.json("eval", *files, "--system", "lexical")["sets"]["queries"]["queries"] == 3


def test_agreement_with_given_labels_is_reported(shell):
    shell.write(
        "given.jsonl",
        {"id": "1", "text": "write to Ana that I am late", "relevant": {"a/send_mail": 1}},
        {"id": "2", "text": "what is in this folder?", "relevant": {"a/read_file": 1}},
        {"id": "3", "text": "will it rain?", "answerable": False},
    )
    with ChatServer(by_numbers) as server:
        done = judge(shell, server, "given.jsonl", "--json")
    told = json.loads(done.stdout)
    # Of 12 pairs one is judged otherwise; by chance 6 / 144 are alike as right, 90 / 144 as wrong.
    assert told["agreement"] == pytest.approx(
        {
            "queries": 3,
            "pairs": 12,
            "share": 11 / 12,
            "kappa": (11 / 12 - 96 / 144) / (1 - 96 / 144),
            "precision": 2 / 3,
            "recall": 1.0,
        }
    )
    assert told["usage"][0]["calls"] == 3


def test_it_goes_on_where_it_was_and_asks_anew_only_what_changed(shell):
    with ChatServer(by_numbers, ["error"]) as server:
        assert judge(shell, server, "asked.txt").returncode == 1
        assert len(written(shell)) == 2
        # Killed in the middle of a line.
        with (shell.folder / "queries.jsonl").open("a") as file:
            file.write('{"id": "9", "te')
        assert judge(shell, server, "asked.txt").returncode == 0
        assert len(server.requests) == 4
        (shell.folder / "asked.txt").write_text("\n".join([*ASKED[:2], "will it snow?"]))
        assert judge(shell, server, "asked.txt").returncode == 0
        assert len(server.requests) == 5
    assert sorted(row["id"] for row in written(shell)) == ["1", "2", "3"]


def test_labels_that_no_judge_gave_are_not_replaced(shell):
    own = {"id": "1", "text": ASKED[0], "relevant": {"a/send_mail": 1}}
    shell.write("queries.jsonl", own)
    with ChatServer(by_numbers) as server:
        done = judge(shell, server, "asked.txt")
        assert server.requests == []
    assert done.returncode == 2
    assert "queries.jsonl: 1: has labels" in done.stderr
    assert written(shell) == [own]


def test_grades_of_tools_that_were_not_shown_are_left_out(shell):
    reply = {"tools": [{"number": 99, "grade": 2}, {"number": 0, "grade": 1}]}
    with ChatServer(reply) as server:
        judge(shell, server, "asked.txt")
    assert [row["relevant"] for row in written(shell)] == [{}, {}, {}]


def test_a_tool_that_cannot_be_read_is_named_and_the_others_are_judged(shell):
    with (shell.folder / "tools.jsonl").open("a") as file:
        file.write('{"description": "of nobody"}')
    with ChatServer(by_numbers) as server:
        done = judge(shell, server, "asked.txt")
    assert "cannot be read tools.jsonl: line 5" in done.stderr
    assert len(written(shell)) == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["asked.txt", "--out", "asked.txt"], "overwrite"),
        (["asked.txt", "--store", "mine"], "without --tools"),
        (["none.jsonl"], "none.jsonl"),
    ],
)
def test_what_it_cannot_do_is_said(shell, arguments, says):
    with ChatServer() as server:
        done = judge(shell, server, *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert shell("judge", "asked.txt", "--tools", "tools.jsonl").returncode == 2
