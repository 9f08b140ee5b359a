"""What an index learns: a head where tools have examples enough, and a calibration on top."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.head import fit_head
from toolcrib.evaluation.learning import learn

TOPICS = {
    "bank/balance": ("account balance", "how much money", "my balance", "money left", "funds"),
    "bank/transfer": ("send money", "transfer funds", "pay a friend", "wire money", "pay rent"),
    "bank/block": ("lost card", "block my card", "card stolen", "freeze the card", "stop card"),
}


def _tools(examples: int = 5) -> list[ToolSpec]:
    return [
        ToolSpec(
            name=key.partition("/")[2],
            server="bank",
            description=key.partition("/")[2],
            success_examples=texts[:examples],
        )
        for key, texts in TOPICS.items()
    ]


def _queries() -> list[LabelledQuery]:
    asked = [
        LabelledQuery(f"{key}-{n}", f"{text} {extra}", "dev", {key: 1.0})
        for key, texts in TOPICS.items()
        for n, (text, extra) in enumerate(
            zip(texts, ("now", "please", "today", "", "quick"), strict=True)
        )
    ]
    nothing = ("weather in Rome", "play a song", "cook pasta", "learn Greek", "walk the dog")
    return [
        *(
            LabelledQuery(f"{q.id}-{n}", f"{q.text} {n}", "dev", q.relevant)
            for q in asked
            for n in "ab"
        ),
        *(LabelledQuery(text, text, "dev", answerable=False) for text in nothing),
    ]


@pytest.fixture
def bank(settings: Settings) -> Iterator[Crib]:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools())
        yield crib


def test_a_head_is_fitted_where_nearly_every_tool_has_five_examples(bank: Crib) -> None:
    head = fit_head(bank)
    assert head is not None
    assert head.ids == tuple(sorted(TOPICS))


def test_two_tools_are_enough(bank: Crib) -> None:
    bank.remove_tools("bank/block")
    head = fit_head(bank)
    assert head is not None
    assert len(head.offsets) == len(head.ids) == 2


@pytest.mark.parametrize("examples", [0, 4])
def test_fewer_examples_make_no_head(settings: Settings, examples: int) -> None:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(examples))
        assert fit_head(crib) is None


def test_some_tools_without_examples_make_no_head(bank: Crib) -> None:
    bank.index_tools(ToolSpec(name="other", description="Something else."))
    assert fit_head(bank) is None


def test_the_head_speaks_in_every_answer_once_it_is_in_use(bank: Crib) -> None:
    before = bank.find_tools("stop my card", explain=True, gate=False)
    fitted = learn(bank, _queries())
    bank.tools.save_calibration(fitted)
    after = bank.find_tools("stop my card", explain=True, gate=False)
    assert all("head" not in hit.legs for hit in before.tools)
    assert all(hit.legs["head"] <= 0 for hit in after.tools)
    assert after.tools[0].id == "bank/block"
    assert after.confidence is not None


def test_without_a_head_learning_is_calibrating(settings: Settings) -> None:
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(_tools(1))
        fitted = learn(crib, _queries())
    assert fitted.head is None
    assert fitted.queries == 35
