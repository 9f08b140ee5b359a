"""Replay: lessons count only where past requests would not have been answered worse."""

from __future__ import annotations

import pytest

from tests.learning.lessons_of import ENCODER, NOW, observation
from toolcrib.learning.lessons import make_lessons
from toolcrib.learning.replay import replay

SERVERS = {"a/x": "a", "a/y": "a", "b/z": "b"}
RANKING = (("a/y", 0.42), ("a/x", 0.4), ("b/z", 0.1))


def replayed(*seen):
    lessons = make_lessons(seen, dict.fromkeys(SERVERS, "d"), ENCODER, NOW)
    return {each.server: each for each in replay(seen, lessons, SERVERS)}


def asked(tool, session, angle=0.0, by="", ranking=RANKING):
    return observation(tool, session=session, angle=angle, by=by, ranking=ranking)


def test_what_other_sessions_taught_helps_and_goes_live():
    found = replayed(*(asked("a/x", f"s{n}") for n in range(4)))["a"]
    assert (found.verdict, found.requests, found.sessions) == ("live", 4, 4)
    assert found.before == pytest.approx(0.6309, abs=1e-4)
    assert found.after == 1.0


def test_a_session_does_not_prove_itself():
    found = replayed(*(asked("a/x", "one") for _ in range(4)))["a"]
    assert (found.verdict, found.requests) == ("shadow", 0)


def test_what_makes_answers_worse_stays_in_shadow():
    # One server's tool was called for the requests that the other server's answer.
    ranking = (("b/z", 0.42), ("a/x", 0.41))
    wrong = [asked("a/x", f"w{n}", ranking=ranking) for n in range(3)]
    right = [asked("b/z", f"s{n}", ranking=ranking) for n in range(9)]
    found = replayed(*wrong, *right)
    assert found["a"].after < found["a"].before
    assert found["a"].verdict == "shadow"


def test_every_key_counts_once():
    # Called as often as there are others, by one key, for what is another tool's.
    eve = [asked("b/z", f"e{n}", by="eve") for n in range(40)]
    others = [asked("a/y", f"s{n}", by=f"key-{n}") for n in range(5)]
    assert replayed(*eve, *others)["b"].before == pytest.approx((0.5 + 5) / 6)
