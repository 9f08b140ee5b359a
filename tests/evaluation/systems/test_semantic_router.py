"""semantic-router ranks routes by their utterances, dense alone or with its TF-IDF."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.evaluation.systems.conformance import BaselineContract
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.systems.semantic_router import HybridRouter, SemanticRouter
from toolcrib.records import ToolSpec

SEA = ToolSpec(name="tide_table", description="When the sea rises.")
SKY = ToolSpec(name="moonPhase", success_examples=("is the moon full", "how old is the moon"))
ASKED = "when does the sea rise"


def cosines(encoder: DeterministicEncoder, *texts: str) -> list[float]:
    return (encoder.encode_documents(texts) @ encoder.encode_query(ASKED)).tolist()


class TestSemanticRouter(BaselineContract):
    """`semantic-router` keeps the contract."""

    name = "semantic-router"
    module = "semantic_router"

    def test_the_score_is_the_mean_cosine_of_the_utterances(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        pytest.importorskip("semantic_router")
        with closing(SemanticRouter(encoder)) as system:
            system.index([SEA, SKY])
            found = {tool.id: tool.score for tool in system.search(ASKED, 2).ranked}
        sky = cosines(encoder, *SKY.success_examples, "moon Phase")
        assert found == {
            "tide_table": pytest.approx(*cosines(encoder, "tide table: When the sea rises.")),
            "moonPhase": pytest.approx(sum(sky) / 3),
        }

    def test_enough_utterances_are_looked_at_to_rank_k_tools(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        pytest.importorskip("semantic_router")
        crowd = [
            ToolSpec(name=f"sea_{n}", success_examples=tuple(f"{ASKED} {n}{m}" for m in range(9)))
            for n in range(3)
        ]
        with closing(SemanticRouter(encoder)) as system:
            system.index([*crowd, SEA])
            found = system.search(ASKED, 4).ranked
        assert len(found) == 4
        assert found[-1].id == "tide_table"
        assert found[-1].score == pytest.approx(
            *cosines(encoder, "tide table: When the sea rises."),
        )


class TestHybridRouter(BaselineContract):
    """`semantic-router-hybrid` keeps the contract."""

    name = "semantic-router-hybrid"
    module = "semantic_router"

    def test_the_score_is_seven_parts_cosine_and_three_parts_tf_idf(
        self,
        encoder: DeterministicEncoder,
    ) -> None:
        pytest.importorskip("semantic_router")
        texts = ["tide table: When the sea rises.", "moon phase: Age of the moon."]
        with closing(HybridRouter(encoder)) as system:
            system.index([SEA, ToolSpec(name="moon_phase", description="Age of the moon.")])
            found = {tool.id: tool.score for tool in system.search("the sea", 2).ranked}
        dense = encoder.encode_documents(texts) @ encoder.encode_query("the sea")
        # Idf: `the` is in both documents, ln(3/3) + 1 = 1; all else in one, 1 + ln(3/2) = w.
        # One document has `the` and five such words, the other `the`, three of them and `moon`
        # twice; the query is `the` and one such word.
        w = 1.4054651081
        query, sea, moon = (1 + w * w) ** 0.5, (1 + 5 * w * w) ** 0.5, (1 + 7 * w * w) ** 0.5
        assert found == {
            "tide_table": pytest.approx(0.7 * dense[0] + 0.3 * (1 + w * w) / (query * sea)),
            "moon_phase": pytest.approx(0.7 * dense[1] + 0.3 * 1 / (query * moon)),
        }


def test_it_learns_the_aggregation_that_is_right_most_often() -> None:
    pytest.importorskip("semantic_router")
    ring = ToolSpec(
        name="ring",
        success_examples=(
            "ring the bell",
            *("water the plants", "feed the cat", "paint a wall", "sweep floors", "bake bread"),
        ),
    )
    bell = ToolSpec(name="bell", success_examples=("ring a large bell",))
    query = LabelledQuery("q", "ring the bell", relevant={"ring": 1})
    with closing(SemanticRouter(DeterministicEncoder())) as system:
        system.index([ring, bell])
        # The mean over its other examples holds the right route back.
        assert system.search(query.text, 1).ranked[0].id == "bell"
        system.learn([query])
        assert system.search(query.text, 1).ranked[0].id == "ring"
