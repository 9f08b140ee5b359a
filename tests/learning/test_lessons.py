"""What counts of observations: who saw it, how old it is, and how much of it one may give."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.learning.lessons_of import ENCODER, NOW, observation
from toolcrib.learning.lessons import (
    MAX_EXAMPLES,
    MAX_LEARNED_COMPANIONS,
    learned_companions,
    make_lessons,
)

SEEN = st.lists(
    st.builds(
        observation,
        tool=st.sampled_from(["a/x", "a/y", "gone/z"]),
        angle=st.floats(0, 360),
        days=st.floats(0, 400),
        session=st.sampled_from("1234567"),
        by=st.sampled_from(["", "ana", "bob", "eve"]),
        digest=st.sampled_from(["d", "another"]),
        encoder=st.sampled_from([ENCODER, "another"]),
    ),
    max_size=80,
)


def lessons(seen, digest="d", now=NOW):
    digests = {"a/x": digest, "a/y": digest}
    return {each.tool: each for each in make_lessons(seen, digests, ENCODER, now)}


@given(SEEN)
def test_no_session_gives_more_than_a_fifth_and_no_key_more_than_half(seen):
    for lesson in lessons(seen).values():
        assert 1 <= len(lesson.examples) <= MAX_EXAMPLES
        sessions = Counter((each.by, each.session) for each in lesson.examples)
        keys = Counter(each.by for each in lesson.examples if each.by)
        assert max(sessions.values()) <= MAX_EXAMPLES / 5
        assert max(keys.values(), default=0) <= MAX_EXAMPLES / 2
        assert 0 < lesson.support <= min(1, len(sessions) / 5) + 1e-9
        for by, _ in sessions:
            rest = [each for each in seen if each.by != by]
            without = lessons(rest).get(lesson.tool)
            if by and without is None:
                assert lesson.support <= 1 / 2


@given(SEEN, st.floats(0, 400))
def test_what_gets_older_counts_less_and_what_is_not_there_not_at_all(seen, days):
    now, later = lessons(seen), lessons(seen, now=NOW + days * 86_400)
    assert later.keys() <= now.keys() <= {"a/x", "a/y"}
    for each in now.values():
        assert {one.encoder for one in each.examples} == {ENCODER}
    for tool, lesson in later.items():
        assert lesson.weights[0] <= now[tool].weights[0]


def test_an_observation_is_worth_half_after_90_days_and_half_of_that_where_the_tool_changed():
    seen = [observation(days=90, session=name) for name in "ab"]
    assert lessons(seen)["a/x"].support == pytest.approx(2 * 0.5 / 5)
    assert lessons(seen, digest="new")["a/x"].support == pytest.approx(2 * 0.25 / 5)
    assert lessons([observation(days=400)]) == {}


def test_a_tool_is_taught_by_two_sessions_or_by_one_where_nobody_needs_a_key():
    def is_live(*seen):
        return lessons(seen)["a/x"].is_live

    assert is_live(observation())
    assert not is_live(observation(by="ana"), observation(by="ana"))
    assert is_live(observation(by="ana"), observation(by="ana", session="t"))


def test_the_examples_that_are_kept_are_the_newest_and_the_least_alike():
    old = [observation(angle=n % 8, days=9, session=f"s{n}") for n in range(40)]
    far = observation(angle=90, days=300, session="far")
    newest = observation(angle=1, session="new")
    examples = lessons([*old, far, newest])["a/x"].examples
    assert examples[:2] == (newest, far)
    assert len(examples) == MAX_EXAMPLES


def test_the_support_without_a_session_or_a_key_is_that_of_the_rest():
    seen = [observation(by=key, session=f"{key}{n}") for key in ("ana", "bob") for n in range(2)]
    lesson = lessons(seen)["a/x"]
    assert lesson.support == pytest.approx(0.8)
    assert lesson.support_without(seen[0].session) == pytest.approx(0.6)
    assert lesson.support_without(key="ana") == pytest.approx(0.4)
    assert lesson.support_without(seen[0].session, "bob") == 0


def decision(name, *tools, **told):
    return [replace(observation(tool, **told), decision=name) for tool in tools]


def test_what_the_same_decisions_called_goes_together():
    seen = decision("1", "a/x", "a/y") + decision("2", "a/x", "a/y") + decision("3", "a/y", "a/z")
    assert learned_companions(seen, NOW) == {"a/x": ["a/y"], "a/y": ["a/x"]}
    old = [replace(each, at=NOW - 400 * 86_400) for each in seen]
    assert learned_companions(old, NOW) == {}


def test_a_pair_is_rare_where_most_decisions_of_the_tool_do_without():
    seen = decision("1", "a/x", "a/y") + decision("2", "a/x", "a/y")
    alone = [call for n in range(6) for call in decision(f"alone {n}", "a/x")]
    assert learned_companions(seen + alone, NOW) == {"a/y": ["a/x"]}


def test_a_key_moves_companions_by_no_more_than_its_share():
    loud = [c for n in range(9) for c in decision(f"e{n}", "a/x", "b/y", by="eve", session=f"{n}")]
    quiet = [
        c for n in range(91) for c in decision(f"q{n}", "c/x", "c/y", by=f"k{n}", session=f"{n}")
    ]
    assert learned_companions(loud + quiet, NOW).keys() == {"c/x", "c/y"}
    one = [c for n in range(5) for c in decision(f"s{n}", "a/x", "b/y", by="ana", session="one")]
    assert learned_companions(one, NOW) == {}


def test_a_tool_has_few_learned_companions():
    tools = [f"a/{n}" for n in range(9)]
    found = learned_companions(decision("1", *tools) + decision("2", *tools), NOW)
    assert {len(each) for each in found.values()} == {MAX_LEARNED_COMPANIONS}
