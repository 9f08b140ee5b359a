"""A head over the examples of tools: fitted on these alone, within one scope, when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import encoded_once
from tests.retrieval.calibrations import calibration
from toolcrib import Crib, Scope, Settings, ToolSpec
from toolcrib.retrieval.calibration import default_calibration
from toolcrib.retrieval.examples import ToolExamples, fit

SETTINGS = Settings.model_validate({"tools": {"pass_through": 0}})
SAID = {
    "balance": "how much money do I have|what is left on my account|show my balance|funds I own",
    "transfer": "send money to a friend|pay my rent by wire|move funds over|wire it to my mother",
    "block": "my card was stolen|I lost my card|freeze my card now|nobody may use this card",
    "rate": "what does a euro cost|dollars for a pound|today's currency prices|yen against dollars",
}
FILLER = ("", " please", " quickly", " today")


def _tools(said: dict[str, str] = SAID, server: str = "mine") -> list[ToolSpec]:
    """Tools whose names say nothing, with sixteen examples each."""
    return [
        ToolSpec(
            name=f"operation_{number}",
            description=name,
            success_examples=tuple(f"{text}{end}" for text in texts.split("|") for end in FILLER),
            server=server,
        )
        for number, (name, texts) in enumerate(said.items())
    ]


@pytest.fixture(autouse=True, scope="module")
def texts_encoded_once() -> Iterator[None]:
    with encoded_once():
        yield


@pytest.fixture
def crib() -> Iterator[Crib]:
    with Crib.open(":memory:", settings=SETTINGS) as opened:
        yield opened


def _heads(crib: Crib, query: str, scope: Scope | None = None) -> list[float]:
    found = crib.find_tools(query, scope=scope, explain=True, gate=False)
    return [hit.legs["head"] for hit in found.tools if "head" in hit.legs]


def test_its_probabilities_add_up_to_one_among_the_candidates(crib: Crib) -> None:
    crib.index_tools(*_tools())
    shares = np.exp(_heads(crib, "somebody took my card"))
    assert len(shares) == len(SAID)
    assert shares.sum() == pytest.approx(1.0, abs=1e-5)


def test_examples_that_speak_alike_say_who_is_meant_and_how_sure_that_is(crib: Crib) -> None:
    crib.index_tools(*_tools())
    right = crib.find_tools("a thief has my card", gate=False)
    far = crib.find_tools("the height of mount everest in feet", gate=False)
    assert right.tools[0].tool.description == "block"
    assert right.confidence is not None
    assert far.confidence is not None
    assert right.confidence > 0.5 > far.confidence
    likely = [hit.probability or 0.0 for hit in right.tools]
    assert likely == sorted(likely, reverse=True)


def test_examples_that_tell_nothing_of_one_another_count_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 5, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    head = fit({point: ToolExamples(own, own[0]) for point, own in enumerate(rows)})
    assert head is not None
    assert head.plain_weight < 3.0


@pytest.mark.parametrize(
    "tools",
    [
        _tools()[:1],
        [tool.model_copy(update={"success_examples": ("one",)}) for tool in _tools()],
    ],
    ids=["one tool", "few examples"],
)
def test_too_few_make_none(crib: Crib, tools: Sequence[ToolSpec]) -> None:
    crib.index_tools(*tools)
    assert crib.tools.example_head() is None
    assert _heads(crib, "my card") == []


def test_it_follows_every_change_of_the_examples(crib: Crib) -> None:
    first, *rest = _tools()
    crib.index_tools(first, *rest)
    before = crib.tools.example_head()
    assert before is not None
    crib.index_tools(first.model_copy(update={"success_examples": ("only one",)}))
    changed = crib.tools.example_head()
    crib.remove_tools(first.id)
    gone = crib.tools.example_head()
    assert changed is not None
    assert gone is not None
    sizes = [sum(len(t.rows) for t in head.tools.values()) for head in (before, changed, gone)]
    assert sizes == [4 * 17, 3 * 17 + 2, 3 * 17]
    crib.index_tools(*[tool.model_copy(update={"enabled": False}) for tool in rest])
    assert crib.tools.example_head() is None


@pytest.mark.slow
@settings(max_examples=5)
@given(
    others=st.lists(
        st.lists(st.sampled_from(["card", "money", "rent", "euro"]), min_size=1, max_size=3),
        min_size=1,
        max_size=12,
    )
)
def test_what_is_beyond_a_scope_changes_nothing(others: list[list[str]]) -> None:
    scope = Scope(servers=frozenset({"mine"}))
    with Crib.open(":memory:", settings=SETTINGS) as crib:
        crib.index_tools(*_tools())

        def told() -> list[tuple[str, float, float]]:
            found = crib.find_tools("a thief has my card", scope=scope, gate=False)
            return [
                (hit.id, round(hit.score, 5), round(hit.probability or 0, 5)) for hit in found.tools
            ]

        before = told()
        theirs = dict(zip(map(str, range(len(others))), map(" ".join, others), strict=True))
        crib.index_tools(*_tools(theirs, server="theirs"))
        assert told() == before


def test_an_index_calibrated_without_it_keeps_its_scores(crib: Crib) -> None:
    crib.index_tools(*_tools())
    assert _heads(crib, "my card")
    identity = crib.tools.calibration_fingerprint()
    crib.tools.use_calibration(calibration(identity))
    assert not _heads(crib, "my card")
    crib.tools.use_calibration(calibration(identity, by_examples=True))
    assert _heads(crib, "my card")
    crib.tools.use_calibration(default_calibration())
    assert _heads(crib, "my card")


def test_many_tools_are_judged_without_corrections(
    crib: Crib, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.retrieval.examples.MAX_CORRECTED_CELLS", 10)
    crib.index_tools(*_tools(), ToolSpec(name="bare", description="Cards for birthdays."))
    head = crib.tools.example_head()
    assert head is not None
    assert not len(head.corrections)
    assert len(_heads(crib, "a thief has my card")) == len(SAID) + 1
