"""`toolcrib train`: a contract for machines, a verdict for people, and how to use what helps."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import conftest
from tests.training.tiny import base, jargon
from toolcrib.evaluation.dataset import DataSet

WELL = ("--epochs", "10", "--batch", "12", "--rate", "5e-3", "--checks", "1", "--no-imitate")
HARDLY = ("--epochs", "1", "--batch", "12", "--rate", "0")


@dataclass(frozen=True)
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class Shell:
    """Runs `toolcrib` in a folder of its own, which holds a model to begin with and a data set."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._shell = conftest.Shell(folder)
        self.base = base(folder / "base")
        self.write("data", jargon())

    def __call__(self, *arguments: str) -> Done:
        done = self._shell(*arguments)
        return Done(done.returncode, done.stdout, done.stderr)

    def train(self, kind: str, *arguments: str, base: str = "base") -> Done:
        return self("train", kind, *arguments, "--base", base)

    def write(self, name: str, data: DataSet) -> None:
        """Write a data set as a folder."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        _lines(folder / "tools.jsonl", [tool.model_dump(mode="json") for tool in data.tools])
        queries = [
            {"id": q.id, "text": q.text, "split": q.split, "relevant": dict(q.relevant)}
            for q in data.queries
        ]
        _lines(folder / "queries.jsonl", queries)


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def learned(shell: Shell) -> Done:
    """The toy problem, learned into `words`."""
    return shell.train("encoder", "data", "--out", "words", *WELL, "--json")


class TestLearned:
    """An encoder that became better."""

    @pytest.mark.slow
    def test_json_is_all_that_standard_output_holds(self, learned: Done) -> None:
        assert learned.code == 0, learned.err
        assert learned.out.count("\n") == 1
        told = json.loads(learned.out)
        assert told["model"] == "words"
        assert told["pairs"] == {"data": 48}
        assert 0 < told["training"]["steps"] <= 40
        assert told["agreement"]["cosine_mean"] > 0.98
        assert told["verdict"]["outcome"] == "better"

    @pytest.mark.slow
    def test_people_see_a_table_and_how_to_use_the_model(self, shell: Shell, learned: Done) -> None:
        done = shell.train("encoder", "data", "--out", "words", *WELL)
        assert done.code == 0
        lines = done.out.splitlines()
        assert lines[0].startswith("48 pairs from 1 source; 0 texts left out")
        assert lines[1].split() == ["data", "set", "measure", "before", "after", "p"]
        assert [line.split()[1] for line in lines[2:5]] == ["ndcg@10", "hit@1", "completeness@10"]
        assert lines[5].startswith("better; to use it, put into toolcrib.yaml")
        assert yaml.safe_load("\n".join(lines[6:8])) == {"encoder": {"dense": "bundled:words"}}
        assert "toolcrib index --rebuild" in done.out
        assert "toolcrib calibrate" in done.out

    def test_another_seed_does_not_go_on_with_it(self, shell: Shell, learned: Done) -> None:
        done = shell.train("encoder", "data", "--out", "words", *WELL, "--seed", "1", "--json")
        assert done.code == 2
        error = json.loads(done.out)["error"]
        assert error["type"] == "TrainingError"
        assert "name another --out" in error["message"]


class TestNotBetter:
    """What did not help is not offered."""

    @pytest.mark.slow
    def test_a_model_that_learned_nothing_is_not_to_be_used(self, shell: Shell) -> None:
        options = (*HARDLY, "--judged", "4", "--keep-work", "--no-imitate")
        done = shell.train("encoder", "data", "--out", "still", *options)
        assert done.code == 0
        assert "no difference" in done.out
        assert "toolcrib.yaml" not in done.out
        assert (shell.folder / "still" / "work" / "model.safetensors").is_file()

    @pytest.mark.slow
    def test_a_reranker_is_trained_judged_and_told_alike(self, shell: Shell) -> None:
        options = (*HARDLY, "--layers", "1", "--limit", "12", "--judged", "4", "--no-imitate")
        done = shell.train("reranker", "data", "--out", "sorter", *options)
        assert done.code == 0, done.err
        assert done.out.startswith("12 pairs from 1 source")
        assert "keep the model that you have" in done.out

    @pytest.mark.slow
    def test_without_test_queries_nobody_knows(self, shell: Shell) -> None:
        shell.write("untested", jargon("train"))
        files = ("--tools", "untested/tools.jsonl", "--queries", "untested/queries.jsonl")
        done = shell.train("encoder", *files, "--out", "untested-out", *HARDLY)
        assert done.code == 0
        assert "the gain is unknown" in done.out
        assert "better" not in done.out


class TestSources:
    """What is learned from."""

    @pytest.mark.slow
    def test_resplit_deals_out_a_set_of_test_queries_alone(self, shell: Shell) -> None:
        shell.write("tested", jargon("test"))
        options = ("--out", "dealt", *HARDLY, "--no-imitate", "--json")
        refused = shell.train("encoder", "tested", *options)
        assert refused.code == 2
        assert "--resplit" in json.loads(refused.out)["error"]["message"]
        told = json.loads(shell.train("encoder", "tested", "--resplit", *options).out)
        assert 12 <= told["pairs"]["tested"] <= 16
        assert told["verdict"] is not None

    @pytest.mark.slow
    def test_tools_without_queries_teach_but_not_those_of_a_set_named_unseen(
        self, shell: Shell
    ) -> None:
        shell.write("unseen", jargon("dev"))
        rows = [
            {"name": "water_plants", "description": "Water the plants in the garden."},
            {"name": "open_gate", "description": "Open the gate of the long drive."},
            {"description": "has no name"},
            *(tool.model_dump(mode="json") for tool in jargon("dev").tools),
        ]
        _lines(shell.folder / "corpus.jsonl", rows)
        options = ("--unseen", "unseen", "--corpus", "corpus.jsonl", "--out", "taught")
        done = shell.train("encoder", *options, *HARDLY, "--json")
        assert done.code == 0, done.err
        told = json.loads(done.out)
        assert (told["pairs"], told["verdict"]) == ({"corpus.jsonl": 2}, None)
        assert told["left_out_as_near_duplicates"]["corpus.jsonl"] == 12
        assert "corpus.jsonl: " in done.err


class TestWrongUsage:
    """One line that says what is wrong."""

    @pytest.mark.parametrize(
        "sources", [(), ("data", "--queries", "data/queries.jsonl"), ("--tools", "x.jsonl")]
    )
    def test_data_sets_or_queries_but_one_of_them(
        self, shell: Shell, sources: tuple[str, ...]
    ) -> None:
        done = shell.train("encoder", *sources, "--out", "none")
        assert done.code == 2
        assert "--queries" in done.err
        assert not (shell.folder / "none").exists()

    def test_data_that_is_not_there(self, shell: Shell) -> None:
        done = shell.train("encoder", "nowhere", "--out", "none")
        assert done.code == 2
        assert "nowhere" in done.err

    def test_a_kind_that_there_is_not(self, shell: Shell) -> None:
        assert shell.train("decoder", "data", "--out", "none").code == 2

    @pytest.mark.parametrize("module", ["datasketch", "sentence_transformers"])
    def test_without_the_extra_it_is_named(
        self, shell: Shell, module: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, module, None)
        done = shell.train("encoder", "data", "--out", f"without-{module}", *HARDLY)
        assert (done.code, done.out) == (5, "")
        assert "pip install 'toolcrib[train]'" in done.err
        assert "download.pytorch.org/whl/cpu" in done.err
