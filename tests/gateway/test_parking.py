"""Calls that wait for an answer: only who left one gets it back, once, and in time."""

from __future__ import annotations

from toolcrib.gateway.parking import MAX_PARKED, Parking


def parking(keep_s=60.0):
    dropped: list[str] = []
    return Parking[str](keep_s, dropped.append), dropped


def test_what_was_left_is_given_back_once():
    place, dropped = parking()
    ticket = place.put("call", "ada", "post/send")

    assert place.take(ticket, "ada", "post/send") == "call"
    assert place.take(ticket, "ada", "post/send") is None
    assert dropped == []


def test_nobody_else_gets_it_and_nothing_else_does():
    place, _ = parking()
    ticket = place.put("call", "ada", "post/send")

    assert place.take(ticket, "bob", "post/send") is None
    assert place.take(ticket, "ada", "post/read") is None
    assert place.take("another", "ada", "post/send") is None
    assert place.take(ticket, "ada", "post/send") == "call"


def test_what_nobody_came_back_for_is_dropped():
    place, dropped = parking(keep_s=-1.0)
    place.put("late", "ada", "post/send")
    place.put("later", "ada", "post/send")

    assert dropped == ["late"]


def test_there_is_room_for_so_many():
    place, dropped = parking()
    tickets = [place.put(str(n), "ada", "x") for n in range(MAX_PARKED + 1)]

    assert dropped == ["0"]
    assert place.take(tickets[-1], "ada", "x") == str(MAX_PARKED)


def test_whoever_leaves_takes_all_along_and_at_the_end_all_goes():
    place, dropped = parking()
    for who in ("ada", "bob", "ada"):
        place.put(who, who, "x")

    place.leave("ada")
    assert dropped == ["ada", "ada"]
    place.close()
    assert dropped == ["ada", "ada", "bob"]
