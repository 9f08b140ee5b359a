"""Embedded and remote crib: the same public methods with the same parameters."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from toolcrib import Crib, RemoteCrib
from toolcrib.retrieval.options import SearchKeywords, SearchOptions
from toolcrib.router.decision_log import Feedback, FeedbackKeywords

EMBEDDED_ONLY = {
    "alearn_labels", "arefresh", "learn_labels", "open", "over", "refresh", "turns",
}  # fmt: skip
"""What a service does for all its callers: opening, fitting labels, hearing of other writers; and a
part that is made at its first use."""

REMOTE_ONLY = {
    "aapprove_tool", "agateway_activity", "aheld_tools", "alogged_records", "approve_tool",
    "areject_tool", "gateway_activity", "held_tools", "logged_records", "reject_tool",
}  # fmt: skip
"""What an embedded crib leaves to the `Quarantine` beside it, if there is one."""

NOT_AWAITED = {"recovery"}
"""What reads no store, and so needs no asynchronous method."""


def public(crib: type) -> set[str]:
    return {name for name in dir(crib) if not name.startswith("_")}


def parameters(crib: type, name: str) -> list[tuple[str, object, object]]:
    found = inspect.signature(getattr(crib, name)).parameters.values()
    return [(each.name, each.kind, each.default) for each in found]


SHARED = sorted(public(Crib) - EMBEDDED_ONLY - NOT_AWAITED)


def test_what_one_can_the_other_can():
    assert public(Crib) - EMBEDDED_ONLY == public(RemoteCrib) - REMOTE_ONLY


def test_a_method_takes_the_same_on_both_sides():
    for name in SHARED:
        assert parameters(Crib, name) == parameters(RemoteCrib, name), name


def test_an_asynchronous_method_takes_what_the_one_without_its_a_takes():
    for name in (name for name in SHARED if f"a{name}" in SHARED):
        assert parameters(Crib, f"a{name}") == parameters(Crib, name), name


def test_every_method_that_waits_has_an_asynchronous_one():
    for known in (SHARED, REMOTE_ONLY):
        alone = {name for name in known if f"a{name}" not in known}
        twins = {f"a{name}" for name in known}
        assert alone - twins == set(), "these methods have no asynchronous twin"


def test_the_keywords_of_a_search_are_the_fields_of_its_options():
    assert {"k", *SearchKeywords.__annotations__} == {each.name for each in fields(SearchOptions)}


def test_the_keywords_of_feedback_are_its_fields():
    assert set(FeedbackKeywords.__annotations__) == set(Feedback.model_fields)


@pytest.mark.parametrize("more", [{}, {"api_key": "tc_x", "namespace": "acme"}])
def test_a_crib_is_made_of_parts_and_its_help_names_what_opens_one(more):
    with pytest.raises(TypeError, match="Crib"):
        Crib("https://tools.example.org", **more)
    assert "Crib.open" in Crib.__doc__
    assert "RemoteCrib" in Crib.__doc__
