"""Toolcrib as it is measured: it keeps the contract, and each variant is what it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.evaluation.systems.conformance import SystemContract, ids
from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from tests.retrieval.calibrations import flat
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.errors import SettingsError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.systems.base import Answer, System
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.settings import EncoderSettings

SETTINGS = Settings(encoder=EncoderSettings(dense="deterministic:512"))
HINTED = [
    ToolSpec(name="one", description="An alpha.", success_examples=("zebra crossing",)),
    ToolSpec(name="two", description="A beta zebra.", anti_patterns=("zebra crossing",)),
    ToolSpec(name="three", description="A gamma."),
]


@pytest.fixture(scope="module")
def shelf() -> Iterator[OwnSystems]:
    made = OwnSystems(SETTINGS)
    yield made
    made.close()


class OursContract(SystemContract):
    """The contract of all systems, on one shelf."""

    name: str

    @pytest.fixture
    def fresh(self, shelf: OwnSystems) -> Callable[[], System]:
        return lambda: shelf.make(self.name)

    def test_without_tools_nothing_is_found(self, fresh: Callable[[], System]) -> None:
        with closing(fresh()) as system:
            system.index(())
            # Unlike the baselines, we say that nothing fits.
            assert system.search("anything", 5) == Answer((), None, "abstain")

    def test_its_version_is_the_packages(self, system: System) -> None:
        assert system.version.startswith("toolcrib ")


class TestToolcrib(OursContract):
    """The whole."""

    name = "toolcrib"


class TestLexical(OursContract):
    """Words alone."""

    name = "lexical"


def test_an_unknown_name_is_answered_with_the_known_ones(shelf: OwnSystems) -> None:
    with pytest.raises(SettingsError, match="'sparse'; known are toolcrib, l"):
        shelf.make("sparse")


def test_reranking_needs_a_reranker(shelf: OwnSystems) -> None:
    with pytest.raises(SettingsError, match=r"^fusion\+rerank: .* no encoder\.reranker"):
        shelf.make("fusion+rerank")


def _scores(name: str, query: str, tools: list[ToolSpec] | None = None) -> dict[str, float]:
    own = OwnSystems(SETTINGS)
    with closing(own), closing(own.make(name)) as system:
        system.index(tools or HINTED)
        return {tool.id: tool.score for tool in system.search(query, 10).ranked}


def test_words_alone_know_nothing_but_words() -> None:
    scores = _scores("lexical", "gamma")
    assert scores["three"] > 0
    assert {scores["one"], scores["two"]} <= {0.0}


def test_vectors_alone_are_cosines_and_look_at_no_hints() -> None:
    scores, plain = (
        _scores("dense", "zebra crossing", tools)
        for tools in (HINTED, [ToolSpec(name=t.name, description=t.description) for t in HINTED])
    )
    assert scores == pytest.approx(plain)


def test_a_leg_stays_alone_for_a_query_in_a_language_that_is_not_read() -> None:
    own = OwnSystems(Settings())
    with closing(own):
        found: list[Answer] = []
        for name in ("lexical", "dense"):
            with closing(own.make(name)) as system:
                system.index([*HINTED, ToolSpec(name="prueba", description="Una prueba alfa.")])
                found.append(system.search("una prueba para todos", 10))
    lexical, dense = found
    assert [tool.score for tool in lexical.ranked] != [tool.score for tool in dense.ranked]


def test_without_examples_a_tool_is_judged_by_its_description() -> None:
    whole, without = (
        _scores(name, "zebra crossing")["one"] for name in ("toolcrib", "without-examples")
    )
    assert whole > without


def test_without_anti_patterns_nothing_is_held_back() -> None:
    whole, without = (
        _scores(name, "zebra crossing")["two"] for name in ("toolcrib", "without-anti-patterns")
    )
    assert whole < without


def test_variants_that_search_the_same_tools_share_an_index(shelf: OwnSystems) -> None:
    with closing(shelf.make("toolcrib")) as whole, closing(shelf.make("dense")) as dense:
        whole.index(TOOLS)
        before = whole.search("weather forecast", 3)
        dense.index(TOOLS)
        assert dense.search("weather forecast", 3).ranked != ()
        assert whole.search("weather forecast", 3) == before


def test_other_tools_have_an_index_of_their_own(shelf: OwnSystems) -> None:
    for tools in (TOOLS[:3], TOOLS[3:6]):
        with closing(shelf.make("toolcrib")) as system:
            system.index(tools)
            assert set(ids(system.search("a text or a flight", 10))) == {tool.id for tool in tools}


def test_a_closed_shelf_can_be_closed_again_and_used_again() -> None:
    own = OwnSystems(SETTINGS)
    for _ in range(2):
        with closing(own.make("fusion")) as system:
            system.index(TOOLS)
            assert ids(system.search("weather forecast", 1)) == ["weather/weather_forecast"]
        own.close()
        own.close()


@pytest.fixture
def judged(settings: Settings) -> Iterator[Crib]:
    """An index at hand that is unsure of everything."""
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(*TOOLS)
        crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.25))
        yield crib


def test_an_index_at_hand_is_measured_as_it_is_whatever_its_gate_says(
    judged: Crib, settings: Settings
) -> None:
    own = OwnSystems(settings, judged)
    with closing(own), closing(own.make("toolcrib")) as system:
        system.index(TOOLS)
        answer = system.search("will it rain in Lisbon", 3)
    assert ids(answer)[0] == "weather/weather_forecast"
    assert len(answer.ranked) == 3
    assert (answer.confidence, answer.verdict) == (pytest.approx(0.25), "abstain")
    assert [tool.probability for tool in answer.ranked] == pytest.approx([0.25] * 3)
    # It is not ours to close.
    assert judged.find_tools("weather forecast", gate=False).tools


def test_variants_do_not_search_as_the_index_at_hand_does(judged: Crib, settings: Settings) -> None:
    own = OwnSystems(settings, judged)
    with closing(own), closing(own.make("lexical")) as system:
        system.index(TOOLS)
        assert system.search("weather forecast", 3).confidence is None


def _queries() -> list[LabelledQuery]:
    asked = [
        LabelledQuery(f"{place} {again}", f"{text} {again}", relevant={wanted: 1.0})
        for place, (text, wanted) in enumerate(OBVIOUS.items())
        for again in ("please", "now", "at once", "today")
    ]
    idle = ["sing", "why is the sky blue", "tell me a joke", "zzz", "who are you"]
    return asked + [LabelledQuery(text, text, answerable=False) for text in idle]


def test_what_it_learns_from_queries_is_how_sure_it_may_be(shelf: OwnSystems) -> None:
    learnt: dict[str, Any] = {}
    with closing(shelf.make("toolcrib")) as system:
        system.index(TOOLS)
        assert system.search("weather forecast", 3).confidence is None
        system.learn(_queries())  # pyright: ignore[reportAttributeAccessIssue]
        for text in ("give me the weather forecast of a city", "why is the sky blue"):
            learnt[text] = system.search(text, 3).confidence
    sure, unsure = learnt.values()
    assert 0 < unsure < sure < 1
