"""Replay: lessons count only where past requests would not have been answered worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.learning.lessons_of import ENCODER, NOW, observation
from toolcrib.learning.lessons import contradicting_keys, make_lessons, replay

SERVERS = {"a/x": "a", "a/y": "a", "b/z": "b"} | {f"b/z{n}": "b" for n in range(9)}
RANKING = (("a/y", 0.42), ("a/x", 0.4), ("b/z", 0.1))


def replayed(*seen):
    lessons = make_lessons(seen, dict.fromkeys(SERVERS, "d"), ENCODER, NOW)
    return {each.server: each for each in replay(seen, lessons, SERVERS)}


def asked(tool, session, angle=0.0, by="", ranking=RANKING):
    return observation(tool, session=session, angle=angle, by=by, ranking=ranking)


def left_out(*seen):
    return contradicting_keys(seen, make_lessons(seen, dict.fromkeys(SERVERS, "d"), ENCODER, NOW))


def test_what_other_sessions_taught_helps_and_goes_live():
    found = replayed(*(asked("a/x", f"s{n}") for n in range(4)))["a"]
    assert (found.verdict, found.requests, found.sessions) == ("live", 4, 4)
    assert (found.strength, found.copies) == (0, 1)
    assert found.before == pytest.approx(0.6309, abs=1e-4)
    assert found.after == 1.0


def test_a_session_does_not_prove_itself():
    found = replayed(*(asked("a/x", "one") for _ in range(4)))["a"]
    assert (found.verdict, found.requests) == ("shadow", 0)


def test_what_makes_answers_worse_stays_in_shadow():
    # One server's tool was called for requests like those that other tools answered, once each.
    def ranking(n):
        return ((f"b/z{n}", 0.42), ("a/x", 0.41))

    wrong = [asked("a/x", f"w{n}", ranking=ranking(0)) for n in range(3)]
    right = [asked(f"b/z{n}", f"s{n}", ranking=ranking(n)) for n in range(9)]
    found = replayed(*wrong, *right)
    assert found["a"].after < found["a"].before
    assert (found["a"].verdict, found["a"].strength) == ("shadow", 0)


def test_tools_of_one_request_that_rise_together_do_no_harm():
    def both(n):
        return [replace(asked(tool, f"s{n}"), decision=f"d{n}") for tool in ("a/x", "b/z")]

    found = replayed(*(each for n in range(4) for each in both(n)))
    assert found["a"].before == pytest.approx(0.92, abs=0.01)
    assert {each.after for each in found.values()} == {1.0}
    assert {each.verdict for each in found.values()} == {"live"}


def similar(tool, number, session):
    """A request whose cosine with every other such request is 0.88."""
    vector = np.zeros(40, dtype=np.float32)
    vector[0], vector[number + 1] = np.sqrt(0.88), np.sqrt(0.12)
    return replace(asked(tool, session), vector=vector)


def test_the_strength_grows_as_the_effect_stands_out_of_chance():
    def strength(helped, harmed):
        # Similar requests: of `harmed` ones the tool that is first without lessons was right.
        seen = [similar("a/x", n, f"s{n}") for n in range(helped)]
        seen += [similar("a/y", helped + n, f"t{n}") for n in range(harmed)]
        return replayed(*seen)["a"].strength

    assert strength(4, 0) == 1.0
    # Few requests prove little: the effect over all servers counts no more than there were.
    assert strength(3, 2) == 0
    assert 0 < strength(12, 8) < 1
    assert strength(4, 12) == 0


def test_copies_of_a_request_prove_nothing_for_other_requests():
    right = [similar(("a/x", "a/y")[n % 2], n, f"s{n}") for n in range(6)]
    repeated = [replace(each, session=f"r{n}", decision=f"r{n}") for n, each in enumerate(right)]
    once, found = replayed(*right)["a"], replayed(*right, *repeated)["a"]
    assert (once.strength, once.copies) == (found.strength, 0) == (0, 0)
    assert found.copies > 0.9
    assert found.verdict == "live"


def test_every_key_counts_once():
    eve = [asked("b/z", f"e{n}", by="eve") for n in range(40)]
    others = [asked("a/x", f"s{n}", by=f"key-{n}") for n in range(5)]
    many, one = replayed(*eve, *others)["a"], replayed(*eve[:1], *others)["a"]
    assert (many.requests, one.requests) == (45, 6)
    assert (many.before, many.after) == pytest.approx((one.before, one.after))


def test_a_key_whose_calls_contradict_the_others_is_left_out_alone():
    honest = [asked("a/x", f"s{n}", by=f"key-{n % 4}") for n in range(12)]
    eve = [asked("a/y", f"e{n}", by="eve") for n in range(12)]
    assert left_out(*honest) == ()
    assert left_out(*honest, *eve) == ("eve",)


def test_of_two_keys_nobody_can_say_who_is_wrong():
    ana = [asked("a/x", f"s{n}", by="ana") for n in range(6)]
    eve = [asked("a/y", f"e{n}", by="eve") for n in range(6)]
    assert left_out(*ana, *eve) == left_out() == ()
