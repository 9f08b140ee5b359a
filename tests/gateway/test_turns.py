"""What was searched for last, and the calls that are left."""

from __future__ import annotations

from toolcrib.gateway.turns import MAX_CONVERSATIONS, Turns


def test_a_search_begins_a_turn_with_all_its_calls():
    turns = Turns(2)
    first = turns.begin("ada", "a room")

    assert [first.take() for _ in range(3)] == [True, True, False]
    second = turns.begin("ada", "a hall")
    assert turns.of("ada") is second
    assert second.take()
    assert first.id != second.id


def test_who_has_not_searched_has_a_turn_too():
    turns = Turns(1)

    assert turns.of("ada").query == ""
    assert turns.of("ada").take()
    assert not turns.of("ada").take()


def test_without_a_limit_there_is_none():
    turn = Turns(None).of("ada")

    assert all(turn.take() for _ in range(1000))


def test_the_longest_unused_are_forgotten():
    turns = Turns(1)
    turns.begin("first", "x").take()
    for n in range(MAX_CONVERSATIONS):
        turns.begin(str(n), "x")

    assert turns.of("first").take()
    turns.leave("5")
    assert turns.of("5").query == ""
