"""`toolcrib train`: a contract for machines, a verdict for people, and how to use what helps."""

from __future__ import annotations

import json
import sys

import pytest
import yaml

from tests.cli.conftest import Shell
from tests.training.tiny import base, jargon

WELL = ("--epochs", "10", "--batch", "12", "--rate", "5e-3", "--checks", "1", "--no-imitate")
HARDLY = ("--epochs", "1", "--batch", "12", "--rate", "0")


class TrainingShell(Shell):
    """A shell in whose folder there are a model to begin with and a data set."""

    def __init__(self, folder):
        super().__init__(folder)
        base(folder / "base")
        self.write_set("data", jargon())

    def train(self, kind, *arguments):
        return self("train", kind, *arguments, "--base", "base")

    def write_set(self, name, data):
        """Write a data set as a folder."""
        (self.folder / name).mkdir(exist_ok=True)
        self.write(f"{name}/tools.jsonl", *(tool.model_dump(mode="json") for tool in data.tools))
        queries = (
            {"id": q.id, "text": q.text, "split": q.split, "relevant": dict(q.relevant)}
            for q in data.queries
        )
        self.write(f"{name}/queries.jsonl", *queries)


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    return TrainingShell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(scope="module")
def learned(shell):
    """The toy problem, learned into `words`."""
    return shell.train("encoder", "data", "--out", "words", *WELL, "--json")


class TestLearned:
    """An encoder that became better."""

    @pytest.mark.slow
    def test_json_is_all_that_standard_output_holds(self, learned):
        assert learned.returncode == 0, learned.stderr
        assert learned.stdout.count("\n") == 1
        told = json.loads(learned.stdout)
        assert told["model"] == "words"
        assert told["pairs"] == {"data": 48}
        assert 0 < told["training"]["steps"] <= 40
        assert told["agreement"]["cosine_mean"] > 0.98
        assert told["verdict"]["outcome"] == "better"

    @pytest.mark.slow
    def test_people_see_a_table_and_how_to_use_the_model(self, shell, learned):
        done = shell.train("encoder", "data", "--out", "words", *WELL)
        assert done.returncode == 0
        lines = done.stdout.splitlines()
        assert lines[0].startswith("48 pairs from 1 source; 0 texts left out")
        assert lines[1].split() == ["data", "set", "measure", "before", "after", "p"]
        assert [line.split()[1] for line in lines[2:5]] == ["ndcg@10", "hit@1", "completeness@10"]
        assert lines[5].startswith("better; to use it, put into toolcrib.yaml")
        assert yaml.safe_load("\n".join(lines[6:8])) == {"encoder": {"dense": "bundled:words"}}
        assert "toolcrib index --rebuild" in done.stdout
        assert "toolcrib calibrate" in done.stdout

    def test_another_seed_does_not_go_on_with_it(self, shell, learned):
        done = shell.train("encoder", "data", "--out", "words", *WELL, "--seed", "1", "--json")
        assert done.returncode == 2
        error = json.loads(done.stdout)["error"]
        assert error["type"] == "TrainingError"
        assert "name another --out" in error["message"]


class TestNotBetter:
    """What did not help is not offered."""

    @pytest.mark.slow
    def test_a_model_that_learned_nothing_is_not_to_be_used(self, shell):
        options = (*HARDLY, "--judged", "4", "--keep-work", "--no-imitate")
        done = shell.train("encoder", "data", "--out", "still", *options)
        assert done.returncode == 0
        assert "no difference" in done.stdout
        assert "toolcrib.yaml" not in done.stdout
        assert (shell.folder / "still" / "work" / "model.safetensors").is_file()

    @pytest.mark.slow
    def test_a_reranker_is_trained_judged_and_told_alike(self, shell):
        options = (*HARDLY, "--layers", "1", "--limit", "12", "--judged", "4", "--no-imitate")
        done = shell.train("reranker", "data", "--out", "sorter", *options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("12 pairs from 1 source")
        assert "keep the model that you have" in done.stdout

    @pytest.mark.slow
    def test_without_test_queries_nobody_knows(self, shell):
        shell.write_set("untested", jargon("train"))
        files = ("--tools", "untested/tools.jsonl", "--queries", "untested/queries.jsonl")
        done = shell.train("encoder", *files, "--out", "untested-out", *HARDLY)
        assert done.returncode == 0
        assert "the gain is unknown" in done.stdout
        assert "better" not in done.stdout


class TestSources:
    """What is learned from."""

    @pytest.mark.slow
    def test_resplit_deals_out_a_set_of_test_queries_alone(self, shell):
        shell.write_set("tested", jargon("test"))
        options = ("--out", "dealt", *HARDLY, "--no-imitate", "--json")
        refused = shell.train("encoder", "tested", *options)
        assert refused.returncode == 2
        assert "--resplit" in json.loads(refused.stdout)["error"]["message"]
        told = json.loads(shell.train("encoder", "tested", "--resplit", *options).stdout)
        assert 12 <= told["pairs"]["tested"] <= 16
        assert told["verdict"] is not None

    @pytest.mark.slow
    def test_tools_without_queries_teach_but_not_those_of_a_set_named_unseen(self, shell):
        shell.write_set("unseen", jargon("dev"))
        shell.write(
            "corpus.jsonl",
            {"name": "water_plants", "description": "Water the plants in the garden."},
            {"name": "open_gate", "description": "Open the gate of the long drive."},
            {"description": "has no name"},
            *(tool.model_dump(mode="json") for tool in jargon("dev").tools),
        )
        options = ("--unseen", "unseen", "--corpus", "corpus.jsonl", "--out", "taught")
        done = shell.train("encoder", *options, *HARDLY, "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["pairs"], told["verdict"]) == ({"corpus.jsonl": 2}, None)
        assert told["left_out_as_near_duplicates"]["corpus.jsonl"] == 12
        assert "corpus.jsonl: " in done.stderr


class TestWrongUsage:
    """One line that says what is wrong."""

    @pytest.mark.parametrize(
        "sources", [(), ("data", "--queries", "data/queries.jsonl"), ("--tools", "x.jsonl")]
    )
    def test_data_sets_or_queries_but_one_of_them(self, shell, sources):
        assert "--queries" in shell.error("train", "encoder", *sources, "--out", "none")
        assert not (shell.folder / "none").exists()

    @pytest.mark.parametrize(("kind", "data"), [("encoder", "nowhere"), ("decoder", "data")])
    def test_data_or_a_kind_that_is_not_there(self, shell, kind, data):
        unknown = "nowhere" if kind == "encoder" else "decoder"
        assert unknown in shell.error("train", kind, data, "--out", "none")

    @pytest.mark.parametrize("module", ["datasketch", "sentence_transformers"])
    def test_without_the_extra_it_is_named(self, shell, module, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        done = shell.train("encoder", "data", "--out", f"without-{module}", *HARDLY)
        assert (done.returncode, done.stdout) == (5, "")
        assert "pip install 'toolcrib[train]'" in done.stderr
        assert "download.pytorch.org/whl/cpu" in done.stderr
