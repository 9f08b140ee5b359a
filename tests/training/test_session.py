"""A training from start to end: what it makes, what it says of it, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.training.tiny import base, jargon
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.encoders.onnx import read_card
from toolcrib.errors import TrainingError
from toolcrib.retrieval.rerank import RerankSettings
from toolcrib.settings import EncoderSettings as Encoders
from toolcrib.training.encoder import EncoderSettings
from toolcrib.training.loop import LoopSettings
from toolcrib.training.reranker import RerankerSettings
from toolcrib.training.session import Outcome, Plan, train

IN_USE = Settings(encoder=Encoders(dense="deterministic"))
LOOP = LoopSettings(epochs=10, batch=12, rate=5e-3, checks=1)
SHORT = EncoderSettings(replace(LOOP, epochs=1))
CORPUS = [
    ToolSpec(name="water_plants", server="garden", description="Water the plants in the garden."),
    ToolSpec(name="open_gate", server="garden", description="Open the gate of the drive."),
    ToolSpec(name="write_letter", server="copied", description="Write a letter to a person."),
]


class KilledError(Exception):
    """Stands for the machine going down."""


class Listener:
    """Hears how far a session is, and kills it at a step of the training where it is told to."""

    def __init__(self, killed_at: int = 0) -> None:
        self._killed_at = killed_at
        self.told: list[tuple[str, int, int]] = []

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.told.append((stage, done, total))
        if stage == "training" and done == self._killed_at:
            raise KilledError

    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, _, _ in self.told))

    def steps(self) -> list[int]:
        return [done for stage, done, _ in self.told if stage == "training"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    return base(tmp_path_factory.mktemp("start"))


@pytest.fixture(scope="module")
def plan(start: str, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    out = tmp_path_factory.mktemp("session") / "office-words"
    return Plan(out, [jargon()], base=start, settings=EncoderSettings(LOOP), imitated=False)


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="module")
def outcome(plan: Plan, listener: Listener) -> Outcome:
    """The toy problem, learned in full."""
    return train(plan, IN_USE, listener)


def _card(out: Path) -> dict[str, Any]:
    return json.loads((out / "card.json").read_bytes())


def _quiet(_stage: str, _done: int, _total: int) -> None:
    """Nobody listens."""


class TestEncoder:
    """What a training of an encoder leaves behind."""

    def test_the_outcome_says_what_was_learned_from_and_what_it_was_worth(
        self, outcome: Outcome
    ) -> None:
        told = json.loads(json.dumps(outcome.as_dict()))
        assert list(told) == [
            "pairs",
            "left_out_as_near_duplicates",
            "data_sha256",
            "training",
            "agreement",
            "verdict",
        ]
        assert told["pairs"] == {"jargon": 48}
        assert told["left_out_as_near_duplicates"] == {"jargon": 0}
        assert len(told["data_sha256"]) == 64
        assert told["training"]["steps"] == 40
        assert 0.4 < told["training"]["best"] <= 1
        assert told["agreement"]["cosine_mean"] > 0.98
        assert told["verdict"] == json.loads(json.dumps(asdict(outcome.verdict)))

    def test_what_was_learned_is_judged_better(self, outcome: Outcome) -> None:
        assert outcome.verdict is not None
        assert outcome.verdict.outcome == "better"
        first = outcome.verdict.changes[0]
        assert (first.data_set, first.measure) == ("jargon", "ndcg@10")
        assert first.after > first.before + 0.1

    def test_the_card_keeps_the_outcome(self, plan: Plan, outcome: Outcome) -> None:
        card = _card(plan.out)
        assert card.items() >= json.loads(json.dumps(outcome.as_dict())).items()
        assert (card["name"], card["base"]) == ("office-words", plan.base)
        assert set(card["sha256"]) == {"model.onnx", "tokenizer.json"}

    def test_settings_can_name_the_folder_as_it_is(self, plan: Plan, outcome: Outcome) -> None:
        chosen = Settings(encoder=Encoders(dense=f"bundled:{plan.out}"))
        asked = jargon("test")
        with Crib.open(":memory:", settings=chosen) as crib:
            crib.index_tools(*asked.tools)
            found = [crib.find_tools(query.text, k=3, gate=False).tools for query in asked.queries]
        right = [
            any(hit.id in query.relevant for hit in hits)
            for query, hits in zip(asked.queries, found, strict=True)
        ]
        assert sum(right) > len(right) / 2

    def test_every_stage_is_told_in_its_order(self, listener: Listener, outcome: Outcome) -> None:
        assert listener.stages() == [
            "gathering",
            "mining negatives",
            "training",
            "exporting",
            "judging jargon: before",
            "judging jargon: after",
        ]
        assert listener.steps() == list(range(1, 41))

    def test_the_same_plan_again_takes_no_step_and_gives_the_same_model(
        self, plan: Plan, outcome: Outcome
    ) -> None:
        before, again = read_card(plan.out), Listener()
        found = train(plan, IN_USE, again)
        assert (again.steps(), found.training["resumed"]) == ([], True)
        assert read_card(plan.out) == before
        assert found.verdict == outcome.verdict

    def test_a_model_that_was_made_here_can_be_the_base(
        self, plan: Plan, outcome: Outcome, tmp_path: Path
    ) -> None:
        still = EncoderSettings(replace(LOOP, epochs=1, rate=0.0), mix=0.0)
        data = jargon("train", "test")
        more = Plan(tmp_path, [data], base=str(plan.out), settings=still, imitated=False)
        found = train(more, IN_USE, _quiet)
        assert found.verdict is not None
        assert outcome.verdict is not None
        after = [verdict.changes[0].after for verdict in (outcome.verdict, found.verdict)]
        assert after[1] == pytest.approx(after[0], abs=0.05)

    def test_the_shipped_model_is_the_base_where_none_is_named(self, tmp_path: Path) -> None:
        named = Plan(tmp_path, [jargon("train")], imitated=False)
        assert named.base == "bundled"
        with pytest.raises(KilledError):
            train(named, IN_USE, Listener(killed_at=1))
        config = json.loads((tmp_path / "work" / "base" / "config.json").read_bytes())
        assert (config["hidden_size"], config["num_hidden_layers"]) == (384, 6)


class TestReranker:
    """What a training of a reranker leaves behind."""

    def test_it_is_made_checked_and_judged(self, start: str, tmp_path: Path) -> None:
        settings = RerankerSettings(replace(LOOP, epochs=1), layers=1)
        plan = Plan(tmp_path / "sorter", [jargon()], base=start, settings=settings, judged=6)
        found = train(plan, IN_USE, _quiet)
        assert plan.kind == "reranker"
        assert found.agreement["correlation"] > 0.98
        assert found.pairs == {"jargon": 48, "jargon: tools": 12}
        assert found.verdict is not None
        assert found.verdict.outcome in {"no difference", "worse", "better"}
        assert _card(plan.out)["outputs"] == ["logit"]
        models = Encoders(dense="deterministic", reranker=f"bundled:{plan.out}")
        chosen = Settings(encoder=models, rerank=RerankSettings(lead=1))
        with Crib.open(":memory:", settings=chosen) as crib:
            crib.index_tools(*jargon().tools)
            hits = crib.find_tools("play a song", k=3, explain=True, gate=False).tools
        assert all("rerank" in hit.legs for hit in hits)


class TestSources:
    """What is learned from."""

    def _pairs(self, start: str, out: Path, data: Sequence[Any], **more: Any) -> Outcome:
        return train(Plan(out, data, base=start, settings=SHORT, **more), IN_USE, _quiet)

    def test_without_test_queries_there_is_no_verdict(self, start: str, tmp_path: Path) -> None:
        found = self._pairs(start, tmp_path, [jargon("train")], imitated=False)
        assert found.verdict is None
        assert found.as_dict()["verdict"] is None
        assert _card(tmp_path)["verdict"] is None

    def test_development_queries_need_not_choose(self, start: str, tmp_path: Path) -> None:
        data = jargon("train", "dev")
        found = self._pairs(start, tmp_path, [data], imitated=False, checked=False)
        assert (found.training["best"], found.training["mix"]) == (None, 0.5)

    def test_tools_alone_teach_as_well_but_not_those_of_a_data_set_again(
        self, start: str, tmp_path: Path
    ) -> None:
        found = self._pairs(start, tmp_path, [jargon("train")], corpora={"garden": CORPUS})
        assert found.pairs["jargon: tools"] > 0
        assert 0 < found.pairs["garden"] <= 2
        assert found.left_out["garden"] == 1

    def test_a_query_of_an_unseen_set_is_not_learned(self, start: str, tmp_path: Path) -> None:
        data = jargon("train")
        hidden = replace(data.queries[0], split="test")
        held = replace(data, name="held", queries=(hidden,))
        found = self._pairs(start, tmp_path, [data], unseen=[held], imitated=False)
        assert found.left_out == {"jargon": 1}


class TestRefused:
    """Said before anything is trained."""

    def test_nothing_to_learn_from(self, start: str, tmp_path: Path) -> None:
        plan = Plan(tmp_path / "out", [jargon("test")], base=start, imitated=False)
        with pytest.raises(TrainingError, match=r"nothing to learn from.*--resplit"):
            train(plan, IN_USE, _quiet)
        assert not plan.out.exists()

    @pytest.mark.parametrize(
        "other",
        [
            {"settings": EncoderSettings(replace(LOOP, epochs=11))},
            {"settings": RerankerSettings(LOOP, layers=1)},
            {"limit": 20},
        ],
    )
    def test_another_plan_in_the_same_folder(
        self, plan: Plan, outcome: Outcome, other: dict[str, Any]
    ) -> None:
        card = _card(plan.out)
        with pytest.raises(TrainingError, match=r"other data or with other settings.*--out"):
            train(replace(plan, **other), IN_USE, Listener(killed_at=1))
        assert _card(plan.out) == card

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"settings": RerankerSettings(LOOP, layers=2)}, "in 1 layers; 256 and 2 are needed"),
            ({"base": "./elsewhere"}, "elsewhere cannot be read"),
        ],
    )
    def test_a_base_that_will_not_do_before_anything_is_mined(
        self, plan: Plan, other: dict[str, Any], said: str
    ) -> None:
        listener = Listener()
        with pytest.raises(TrainingError, match=said):
            train(replace(plan, **other), IN_USE, listener)
        assert listener.told == []


def test_killed_it_goes_on_where_it_was_and_makes_the_same_model(
    plan: Plan, outcome: Outcome, tmp_path: Path
) -> None:
    same = replace(plan, out=tmp_path / "office-words")
    with pytest.raises(KilledError):
        train(same, IN_USE, Listener(killed_at=11))
    assert not (same.out / "card.json").exists()
    listener = Listener()
    found = train(same, IN_USE, listener)
    assert found.training["resumed"] is True
    assert listener.steps() == list(range(9, 41))
    assert read_card(same.out) == read_card(plan.out)
    assert found.verdict == outcome.verdict
