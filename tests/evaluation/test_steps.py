"""Steps of recorded runs: first calls, asked by words, by steps, and learned from other tasks."""

from __future__ import annotations

import json

import pytest

from toolcrib import Settings
from toolcrib.errors import SourceError
from toolcrib.evaluation.steps import FirstUse, RunRow, evaluate_steps, first_uses, load_runs
from toolcrib.evaluation.systems.bm25 import RankBm25
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.learning.runs import MIN_RUNS
from toolcrib.settings import EncoderSettings

TOOLS = [
    {"name": name, "server": "files", "description": f"{name} a file"}
    for name in ("read", "write", "sign", "seal")
]
STEPS = [
    {"said": None, "tool": "files/read"},
    {"said": "Now let me write a file.", "tool": "files/write"},
    {"said": None, "tool": "files/read"},
    {"said": "Go on", "tool": "files/seal"},
    {"said": "Done.", "tool": None},
]
RUNS = [{"run": f"r{n}", "task": f"read a file {n}", "steps": STEPS} for n in range(30)]


@pytest.fixture
def folder(tmp_path):
    for name, rows in (("tools", TOOLS), ("steps", RUNS)):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def test_a_first_use_has_what_was_written_last_and_what_was_called():
    run = RunRow.model_validate(RUNS[0])
    assert list(first_uses(run, {"files/read", "files/seal"})) == [
        FirstUse("read a file 0", "read a file 0", (), "files/read"),
        FirstUse(
            "read a file 0", "Go on", ("files/read", "files/write", "files/read"), "files/seal"
        ),
    ]


def test_every_way_to_ask_is_measured_and_other_tasks_teach(folder):
    own = OwnSystems(Settings(encoder=EncoderSettings(dense="deterministic")))
    tools, runs = load_runs(folder)
    systems = {"toolcrib": lambda: own.make("toolcrib"), "bm25": lambda: RankBm25(own._dense)}
    found = evaluate_steps("mini", tools, runs, systems, (1, 4))
    own.close()
    assert (found.runs, found.tasks, found.first_uses) == (30, 30, 90)
    assert list(found.scores) == [
        "toolcrib, task once",
        "toolcrib, words",
        "toolcrib, steps",
        "toolcrib, steps, learned",
        "bm25, words",
    ]
    plain, learned = (found.scores[f"toolcrib, steps{more}"] for more in ("", ", learned"))
    assert plain.shown[4] == 1
    assert learned.shown[1] == 1 > plain.shown[1]
    assert learned.by_task[1] == 1


def test_too_few_runs_of_other_tasks_give_no_learned_score(folder):
    own = OwnSystems(Settings(encoder=EncoderSettings(dense="deterministic")))
    tools, runs = load_runs(folder)
    systems = {"toolcrib": lambda: own.make("toolcrib")}
    found = evaluate_steps("mini", tools, runs[:MIN_RUNS], systems, (1,))
    own.close()
    assert "toolcrib, steps" in found.scores
    assert "toolcrib, steps, learned" not in found.scores


def test_what_is_left_out_is_counted(folder):
    with (folder / "tools.jsonl").open("a") as file:
        file.write('\n{"name": "bad", "descripton": "typo"}')
    refused = []
    tools, runs = load_runs(folder, refused.append)
    assert [item.place for item in refused] == [f"line {len(TOOLS) + 1}"]
    # Each run calls the first tool twice.
    assert evaluate_steps("mini", tools[1:], runs, {}, (1,)).unknown_calls == 2 * len(runs)


def test_a_folder_without_runs_is_refused(folder):
    (folder / "steps.jsonl").write_text("")
    with pytest.raises(SourceError):
        load_runs(folder)


def test_runs_that_call_none_of_the_tools_are_refused(folder):
    run = {"run": "1", "task": "read", "steps": [{"said": "", "tool": "files__read"}]}
    (folder / "steps.jsonl").write_text(json.dumps(run))
    with pytest.raises(SourceError, match=r"files/read.*files__read"):
        load_runs(folder)
