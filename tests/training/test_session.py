"""A training from start to end: what it makes, what it says of it, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.training.tiny import base, jargon
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.onnx import read_card
from toolcrib.errors import TrainingError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import dense_text
from toolcrib.retrieval.rerank import RerankSettings
from toolcrib.settings import EncoderSettings
from toolcrib.training.data import from_labels, prune_documents, sample_data
from toolcrib.training.session import (
    COMPARED_MEASURES,
    GatheredData,
    TrainingPlan,
    TrainingResult,
    TrainingVerdict,
    gather,
    judge,
    ranking_evaluator,
    retrieval_evaluator,
    train,
)
from toolcrib.training.trainer import BEST_METRIC, EncoderTraining, LoopSettings, RerankerTraining

IN_USE = Settings(encoder=EncoderSettings(dense="deterministic"))
LOOP = LoopSettings(epochs=10, batch=12, rate=5e-3, checks=1, patience=10)
SHORT = EncoderTraining(replace(LOOP, epochs=1))
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
def plan(start: str, tmp_path_factory: pytest.TempPathFactory) -> TrainingPlan:
    out = tmp_path_factory.mktemp("session") / "office-words"
    settings = EncoderTraining(LOOP)
    return TrainingPlan(
        out, [jargon()], base=start, settings=settings, imitated=False, keep_work=True
    )


@pytest.fixture(scope="module")
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="module")
def outcome(plan: TrainingPlan, listener: Listener) -> TrainingResult:
    """The toy problem, learned in full."""
    return train(plan, IN_USE, listener)


def _card(out: Path) -> dict[str, Any]:
    return json.loads((out / "card.json").read_bytes())


def _quiet(_stage: str, _done: int, _total: int) -> None:
    """Nobody listens."""


class TestEncoder:
    """What a training of an encoder leaves behind."""

    @pytest.mark.slow
    def test_the_outcome_says_what_was_learned_from_and_what_it_was_worth(
        self, outcome: TrainingResult
    ) -> None:
        told = json.loads(json.dumps(asdict(outcome)))
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

    def test_what_was_learned_is_judged_better(self, outcome: TrainingResult) -> None:
        assert outcome.verdict is not None
        assert outcome.verdict.outcome == "better"
        first = outcome.verdict.changes[0]
        assert (first.data_set, first.measure) == ("jargon", "ndcg@10")
        assert first.after > first.before + 0.1

    def test_the_card_keeps_the_outcome(self, plan: TrainingPlan, outcome: TrainingResult) -> None:
        card = _card(plan.out)
        assert card.items() >= json.loads(json.dumps(asdict(outcome))).items()
        assert (card["name"], card["base"]) == ("office-words", plan.base)
        assert set(card["sha256"]) == {"model.onnx", "tokenizer.json"}

    def test_settings_can_name_the_folder_as_it_is(
        self, plan: TrainingPlan, outcome: TrainingResult
    ) -> None:
        chosen = Settings(encoder=EncoderSettings(dense=f"bundled:{plan.out}"))
        asked = jargon("test")
        with Crib.open(":memory:", settings=chosen) as crib:
            crib.index_tools(*asked.tools)
            found = [crib.find_tools(query.text, k=3, gate=False).tools for query in asked.queries]
        right = [
            any(hit.id in query.relevant for hit in hits)
            for query, hits in zip(asked.queries, found, strict=True)
        ]
        assert sum(right) > len(right) / 2

    def test_every_stage_is_told_in_its_order(
        self, listener: Listener, outcome: TrainingResult
    ) -> None:
        assert listener.stages() == [
            "gathering",
            "mining negatives",
            "loading the training libraries",
            "training",
            "exporting",
            "judging jargon: before",
            "judging jargon: after",
        ]
        assert listener.steps() == list(range(1, 41))

    @pytest.mark.slow
    def test_the_same_plan_again_takes_no_step_and_gives_the_same_model(
        self, plan: TrainingPlan, outcome: TrainingResult
    ) -> None:
        before, again = read_card(plan.out), Listener()
        found = train(plan, IN_USE, again)
        assert (again.steps(), found.training["resumed"]) == ([], True)
        assert read_card(plan.out) == before
        assert found.verdict == outcome.verdict

    @pytest.mark.slow
    def test_the_shipped_model_is_the_base_where_none_is_named(self, tmp_path: Path) -> None:
        named = TrainingPlan(tmp_path, [jargon("train")], imitated=False)
        assert named.base == "bundled"
        with pytest.raises(KilledError):
            train(named, IN_USE, Listener(killed_at=1))
        config = json.loads((tmp_path / "work" / "base" / "config.json").read_bytes())
        assert (config["hidden_size"], config["num_hidden_layers"]) == (384, 6)


class TestReranker:
    """What a training of a reranker leaves behind."""

    @pytest.mark.slow
    def test_it_is_made_checked_and_judged(self, start: str, tmp_path: Path) -> None:
        settings = RerankerTraining(replace(LOOP, epochs=1), layers=1)
        plan = TrainingPlan(
            tmp_path / "sorter", [jargon()], base=start, settings=settings, judged=6
        )
        found = train(plan, IN_USE, _quiet)
        assert plan.kind == "reranker"
        assert found.agreement["correlation"] > 0.98
        assert found.pairs == {"jargon": 48, "jargon: tools": 12}
        assert found.verdict is not None
        assert found.verdict.outcome in {"no difference", "worse", "better"}
        assert _card(plan.out)["outputs"] == ["logit"]
        left = {path.name for path in plan.out.iterdir()}
        assert left == {"card.json", "model.onnx", "tokenizer.json"}
        with pytest.raises(TrainingError, match="other data"):
            train(replace(plan, limit=20), IN_USE, _quiet)
        assert {path.name for path in plan.out.iterdir()} == left
        models = EncoderSettings(dense="deterministic", reranker=f"bundled:{plan.out}")
        chosen = Settings(encoder=models, rerank=RerankSettings(lead=1))
        with Crib.open(":memory:", settings=chosen) as crib:
            crib.index_tools(*jargon().tools)
            hits = crib.find_tools("play a song", k=3, explain=True, gate=False).tools
        assert all("rerank" in hit.legs for hit in hits)


class TestSources:
    """What is learned from."""

    def _pairs(self, start: str, out: Path, data: Sequence[Any], **more: Any) -> TrainingResult:
        return train(TrainingPlan(out, data, base=start, settings=SHORT, **more), IN_USE, _quiet)

    def test_without_test_queries_there_is_no_verdict(self, start: str, tmp_path: Path) -> None:
        found = self._pairs(start, tmp_path, [jargon("train")], imitated=False)
        assert found.verdict is None
        assert asdict(found)["verdict"] is None
        assert _card(tmp_path)["verdict"] is None

    def test_development_queries_need_not_choose(self, start: str, tmp_path: Path) -> None:
        data = jargon("train", "dev")
        found = self._pairs(start, tmp_path, [data], imitated=False, checked=False)
        assert (found.training["best"], found.training["mix"]) == (None, 0.5)


class TestRefused:
    """Said before anything is trained."""

    def test_nothing_to_learn_from(self, start: str, tmp_path: Path) -> None:
        plan = TrainingPlan(tmp_path / "out", [jargon("test")], base=start, imitated=False)
        with pytest.raises(TrainingError, match="--resplit"):
            train(plan, IN_USE, _quiet)
        assert not plan.out.exists()

    @pytest.mark.parametrize(
        "other",
        [
            {"settings": EncoderTraining(replace(LOOP, epochs=11))},
            {"settings": RerankerTraining(LOOP, layers=1)},
            {"limit": 20},
        ],
    )
    def test_another_plan_in_the_same_folder(
        self, plan: TrainingPlan, outcome: TrainingResult, other: dict[str, Any]
    ) -> None:
        card = _card(plan.out)
        with pytest.raises(TrainingError, match=r"other data.*--out"):
            train(replace(plan, **other), IN_USE, Listener(killed_at=1))
        assert _card(plan.out) == card

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            ({"settings": RerankerTraining(LOOP, layers=2)}, "in 1 layers; 256 and 2 are needed"),
            ({"base": "./elsewhere"}, "elsewhere cannot be read"),
        ],
    )
    def test_a_base_that_will_not_do_before_anything_is_mined(
        self, plan: TrainingPlan, other: dict[str, Any], said: str
    ) -> None:
        listener = Listener()
        with pytest.raises(TrainingError, match=said):
            train(replace(plan, **other), IN_USE, listener)
        assert listener.told == []


ISSUE = "show me every open issue of the website that nobody has looked at since last March"
MAIL = "send the quarterly report to all of my colleagues in the Oslo office by mail"

TOOLS = (
    ToolSpec(name="list_issues", server="git", description="Lists the issues of a repository."),
    ToolSpec(name="send_mail", server="post", description="Sends a mail to one or many people."),
)
PARCEL = ToolSpec(name="track_parcel", server="ship", description="Tells where a parcel is now.")


def labelled(text, split="train", tool="git/list_issues"):
    return LabelledQuery(f"{split}: {text}", text, split, {tool: 1} if tool else {})


def desk(*queries):
    return DataSet("desk", TOOLS, queries)


def asked(gathered, source):
    part = gathered.parts.get(source)
    return [example.query for example in part.examples] if part else []


def gathered(data_sets, corpora=None, **options) -> GatheredData:
    return gather(TrainingPlan(Path(), data_sets, corpora or {}, **options))


def gathered_from(*queries, **options) -> GatheredData:
    return gathered([desk(*queries)], imitated=False, **options)


def test_only_training_queries_that_a_tool_answers_teach():
    found = gathered_from(labelled(MAIL), labelled("hello", tool=""), labelled("red", "test"))
    assert asked(found, "desk") == [MAIL]
    assert found.pairs == {"desk": 1}
    assert found.left_out == {"desk": 0}


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize("repeat", [ISSUE, ISSUE.upper(), ISSUE.replace("March", "April")])
def test_a_training_query_that_nearly_repeats_one_held_back_is_left_out_and_counted(split, repeat):
    found = gathered_from(labelled(MAIL), labelled(repeat), labelled(ISSUE, split))
    assert asked(found, "desk") == [MAIL]
    assert found.left_out == {"desk": 1}


def test_queries_of_another_set_are_held_back_as_well_even_unanswerable_ones():
    other = DataSet("other", TOOLS, (labelled(ISSUE, "test", tool=""),))
    trained_on = gathered([desk(labelled(ISSUE)), other], {}, imitated=False)
    kept_out = gathered_from(labelled(ISSUE), unseen=[other])
    assert trained_on.pairs == kept_out.pairs == {}
    assert trained_on.left_out == {"desk": 1, "other": 0}
    assert kept_out.left_out == {"desk": 1}


def test_training_queries_that_repeat_each_other_all_stay():
    assert gathered_from(labelled(ISSUE), labelled(ISSUE.upper())).pairs == {"desk": 2}


def test_the_tools_of_a_data_set_make_pairs_of_their_own():
    found = gathered([desk(labelled(MAIL))], {})
    assert found.pairs == {"desk": 1, "desk: tools": 2}
    assert {e.source for e in found.parts["desk: tools"].examples} == {"desk: tools"}


def test_an_imitated_query_that_repeats_one_held_back_is_left_out():
    made = asked(gathered([desk()], {}), "desk: tools")
    again = gathered([desk(labelled(made[0], "test"))], {})
    assert asked(again, "desk: tools") == made[1:]


@pytest.mark.parametrize(
    "copy",
    [
        TOOLS[0],
        TOOLS[0].on_server("hub"),
        ToolSpec(name="listIssues", description="lists the issues, of a repository"),
        ToolSpec(name="list_issues", description=TOOLS[0].description, tags=("new",)),
    ],
)
def test_a_corpus_tool_that_repeats_one_of_a_data_set_is_left_out_and_counted(copy):
    found = gathered([desk()], {"corpus": [copy, PARCEL]}, imitated=False)
    assert found.pairs == {"corpus": 1}
    assert found.left_out == {"desk": 0, "corpus": 1}
    assert all("issues" not in text for text in found.parts["corpus"].documents)


def test_a_corpus_tool_that_repeats_one_of_an_unseen_set_is_left_out():
    found = gathered([], {"corpus": [TOOLS[0], PARCEL]}, unseen=[desk()])
    assert found.pairs == {"corpus": 1}
    assert found.left_out == {"corpus": 1}


def test_a_query_from_a_corpus_that_repeats_one_held_back_is_left_out():
    (query,) = asked(gathered([], {"corpus": [PARCEL]}), "corpus")
    held_back = desk(labelled(query, "test"))
    assert gathered([], {"corpus": [PARCEL]}, unseen=[held_back]).pairs == {}


def test_a_source_that_gives_nothing_is_no_part():
    found = gathered([desk()], {"empty": []}, imitated=False)
    assert found.parts == {}
    assert found.left_out == {"desk": 0, "empty": 0}


def test_a_data_set_gives_at_most_its_limit_and_so_do_its_tools():
    queries = [labelled(f"word{n}") for n in range(20)]
    assert gathered([desk(*queries)], {}, limit=1).pairs == {"desk": 1, "desk: tools": 1}
    assert gathered_from(*queries, limit=20).pairs == {"desk": 20}


def test_a_corpus_gives_all_it_has_unless_it_is_bounded():
    specs = [ToolSpec(name=f"item{n}", description=f"Counts the items of {n}.") for n in range(9)]
    assert gathered([], {"corpus": specs}, limit=1).pairs == {"corpus": 9}
    bounded = gathered([], {"corpus": specs}, corpus_limit=4)
    assert bounded.pairs == {"corpus": 4}
    whole = gathered([], {"corpus": specs}).parts["corpus"]
    assert bounded.parts["corpus"] == prune_documents(sample_data(whole, 4, 0))
    assert len(bounded.parts["corpus"].documents) < len(whole.documents)


def test_a_data_set_keeps_the_texts_of_all_its_tools_however_few_pairs_it_gives():
    found = gathered_from(labelled(MAIL), labelled(ISSUE), limit=1)
    assert len(found.parts["desk"].documents) == len(TOOLS)


GUIDE = DeterministicEncoder()
NAME = BEST_METRIC.removeprefix("eval_")
SECOND = 1 / np.log2(3)
"""nDCG of a right answer in the second place."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(base(tmp_path_factory.mktemp("base")), device="cpu")


def _asked_for(name: str, other: int) -> DataSet:
    """Two tools, each asked for in the words of the tool that is so many places further."""
    tools = jargon().tools[:2]
    texts = [dense_text(tools[(at + other) % 2]) for at in range(2)]
    queries = [
        LabelledQuery(f"q{at}", texts[at], "dev", {tool.id: 1}) for at, tool in enumerate(tools)
    ]
    return DataSet(name, tools, tuple(queries))


class Oracle:
    """What a cross-encoder is to the library: it scores pairs, here by a rule."""

    model_card_data = property(lambda self: self)

    def __init__(self, right: Sequence[tuple[str, str]]) -> None:
        self._right = set(right)
        self.asked: list[tuple[str, str]] = []

    def predict(self, pairs: Sequence[Sequence[str]], **_options: Any) -> Any:
        self.asked += [(query, text) for query, text in pairs]
        return np.array([float((query, text) in self._right) for query, text in pairs])

    def set_evaluation_metrics(self, *_about: Any) -> None:
        """Nothing: no card is written."""


class TestRetrieval:
    """For an encoder: each query among the tools of its own data set."""

    def test_the_mean_over_data_sets_is_the_figure(self, model: Any) -> None:
        found = retrieval_evaluator([_asked_for("a", 0), _asked_for("b", 1)])(model)
        assert found == {NAME: pytest.approx((1 + SECOND) / 2)}

    def test_sets_without_development_queries_have_no_say(self, model: Any) -> None:
        found = retrieval_evaluator([jargon("train", "test"), _asked_for("a", 1)])(model)
        assert found == {NAME: pytest.approx(SECOND)}

    def test_without_any_there_is_no_evaluator(self) -> None:
        assert retrieval_evaluator([]) is None
        assert retrieval_evaluator([jargon("train", "test")]) is None


class TestRanking:
    """For a reranker: each query's best candidates, the right one among them."""

    def test_one_that_knows_the_right_text_gets_full_marks(self) -> None:
        data = jargon("dev")
        labels = from_labels(data, data.queries)
        right = [(e.query, labels.documents[e.positive]) for e in labels.examples]
        assert ranking_evaluator([data], GUIDE)(Oracle(right))[NAME] == pytest.approx(1)

    def test_one_that_always_prefers_a_wrong_text_gets_less(self) -> None:
        data = jargon("dev")
        labels = from_labels(data, data.queries)
        wrong = [
            (e.query, text)
            for e in labels.examples
            for text in labels.documents
            if text != labels.documents[e.positive]
        ]
        assert ranking_evaluator([data], GUIDE)(Oracle(wrong))[NAME] < 0.5

    def test_each_query_is_asked_of_twenty_texts(self) -> None:
        data, oracle = jargon("dev"), Oracle([])
        ranking_evaluator([data], GUIDE)(oracle)
        queries = [query for query, _ in oracle.asked]
        assert {queries.count(query.text) for query in data.queries} == {20}

    def test_without_development_queries_there_is_no_evaluator(self) -> None:
        assert ranking_evaluator([jargon("train")], GUIDE) is None


ASKED = (
    "compose correspondence for my grandmother",
    "put on some music",
    "will it rain in Berlin tomorrow",
    "I need accommodation for tonight",
    "how do you say thanks in Paris",
    "what is my balance",
    "my son has a fever",
    "railway journey to Vienna",
    "sketch the geography of Spain",
    "what happened in politics",
    "shut the entrance",
    "look up a novel",
)
"""For each tool of the toy problem, words that its text does not hold."""

POOR = Settings(encoder=EncoderSettings(dense="deterministic:16"))
GOOD = Settings(encoder=EncoderSettings(dense="bundled"))


@pytest.fixture(scope="module")
def office() -> DataSet:
    tools = jargon().tools
    queries = tuple(
        LabelledQuery(tool.id, text, "test", {tool.id: 1})
        for tool, text in zip(tools, ASKED, strict=True)
    )
    return DataSet("office", tools, queries)


@pytest.fixture(scope="module")
def improved(office: DataSet) -> TrainingVerdict:
    return judge([office], POOR, GOOD)


def _named(data: DataSet, name: str) -> DataSet:
    return replace(data, name=name)


def test_a_model_is_no_better_than_itself(office: DataSet) -> None:
    found = judge([office], POOR, POOR)
    assert (found.outcome, found.p) == ("no difference", 1)
    assert all(change.before == change.after for change in found.changes)


def test_a_model_that_understands_is_better_than_one_that_does_not(
    improved: TrainingVerdict,
) -> None:
    assert improved.outcome == "better"
    assert improved.p < 0.05


def test_the_other_way_round_it_is_worse(office: DataSet, improved: TrainingVerdict) -> None:
    found = judge([office], GOOD, POOR)
    assert (found.outcome, found.p) == ("worse", pytest.approx(improved.p, abs=0.01))
    before = [(change.measure, change.before) for change in found.changes]
    assert before == [(change.measure, change.after) for change in improved.changes]


def test_each_measure_of_each_set_is_told_the_deciding_one_first(improved: TrainingVerdict) -> None:
    assert [change.measure for change in improved.changes] == list(COMPARED_MEASURES)
    assert COMPARED_MEASURES[0] == "ndcg@10"
    for change in improved.changes:
        assert change.data_set == "office"
        assert 0 <= change.before <= change.after <= 1
        assert 0 <= change.p <= 1


def test_so_few_queries_prove_nothing(office: DataSet) -> None:
    found = judge([office], POOR, GOOD, limit=3)
    assert found.outcome == "no difference"
    assert found.changes[0].before < found.changes[0].after


def test_over_several_sets_the_mean_decides(office: DataSet) -> None:
    easy = [
        replace(q, text=tool.description)
        for q, tool in zip(office.queries, office.tools, strict=True)
    ]
    sets = [
        _named(office, "hard"),
        replace(office, name="easy", queries=tuple(easy)),
    ]
    found = judge(sets, POOR, GOOD)
    assert found.outcome == "better"
    assert [change.data_set for change in found.changes] == ["hard"] * 3 + ["easy"] * 3


def test_queries_that_nothing_answers_have_no_say(
    office: DataSet, improved: TrainingVerdict
) -> None:
    unanswerable = LabelledQuery("none", "mow the lawn", "test", answerable=False)
    found = judge([replace(office, queries=(*office.queries, unanswerable))], POOR, GOOD)
    assert found == improved


def test_where_nothing_can_be_answered_nothing_is_known(office: DataSet) -> None:
    nothing = tuple(replace(query, relevant={}, answerable=False) for query in office.queries)
    found = judge([replace(office, queries=nothing)], POOR, GOOD)
    assert found.outcome == "no difference"
