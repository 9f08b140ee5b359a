"""What a key allows, and that nobody gets more by asking for it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from toolcrib.access.keys import Caller, Grant, intersection
from toolcrib.errors import ForbiddenError
from toolcrib.records import SENSITIVITIES, Scope
from toolcrib.store.filters import from_scope, matches

NAMES = st.sampled_from(["a", "b", "c"])
SETS = st.none() | st.frozensets(NAMES)
SCOPES = st.builds(
    Scope,
    servers=SETS,
    tags=SETS,
    categories=SETS,
    without_safety_tags=st.frozensets(NAMES),
    max_sensitivity=st.none() | st.sampled_from(SENSITIVITIES),
    collections=SETS,
)
TOOLS = st.fixed_dictionaries(
    {
        "server": NAMES,
        "tags": st.lists(NAMES),
        "safety_tags": st.lists(NAMES, max_size=1),
        "sensitivity": st.sampled_from(SENSITIVITIES),
    },
    optional={"category": NAMES},
)


def holds(scope: Scope | None, tool) -> bool:
    where = from_scope(scope)
    return where is None or matches(where, 1, tool)


def asks(scope: Scope, collection: str) -> bool:
    return scope.collections is None or collection in scope.collections


@pytest.mark.slow
@settings(max_examples=300)
@given(SCOPES, st.none() | SCOPES, TOOLS)
def test_what_is_within_both_is_in_each(granted, asked, tool):
    if holds(intersection(granted, asked), tool):
        assert holds(granted, tool)
        assert holds(asked, tool)


@settings(max_examples=300)
@given(SCOPES, SCOPES, TOOLS)
def test_what_is_in_each_is_within_both_where_its_tags_are_one(granted, asked, tool):
    tool = {**tool, "tags": tool["tags"][:1]}
    assert holds(intersection(granted, asked), tool) == (
        holds(granted, tool) and holds(asked, tool)
    )


@given(SCOPES, SCOPES, NAMES)
def test_a_collection_may_be_asked_if_both_allow_it(granted, asked, name):
    assert asks(intersection(granted, asked), name) == (asks(granted, name) and asks(asked, name))


def test_a_grant_is_a_scope_and_the_right_to_write():
    sets = {"servers": {"mail"}, "tags": {"safe"}, "collections": {"handbook"}}
    grant = Grant(**sets, max_sensitivity="internal", access="write")
    caller = Caller("k1", "ann", grant)
    assert caller.may_write
    allowed = {name: frozenset(values) for name, values in sets.items()}
    assert caller.grant.scope() == Scope(**allowed, max_sensitivity="internal")
    assert hash(caller) == hash(Caller("k1", "ann", grant))


def test_a_grant_that_says_nothing_reads_the_default_namespace():
    caller = Caller("k1", "ann", Grant())
    assert not caller.may_write
    assert caller.grant.scope() == Scope()
    assert caller.namespace(None) == "default"
    with pytest.raises(ForbiddenError):
        caller.namespace("acme")


@pytest.mark.parametrize(
    ("granted", "asked", "meant"),
    [
        (("acme",), None, "acme"),
        (("acme",), "acme", "acme"),
        (("default", "acme"), None, "default"),
        (("default", "acme"), "acme", "acme"),
        (("*",), None, "default"),
        (("acme", "*"), None, "default"),
        (("acme", "*"), "other", "other"),
    ],
)
def test_a_namespace_is_the_one_asked_for_or_the_only_one_or_the_default_one(granted, asked, meant):
    assert Caller("k1", "ann", Grant(namespaces=granted)).namespace(asked) == meant


@pytest.mark.parametrize(
    ("granted", "asked"),
    [
        (("acme",), "default"),
        (("acme",), "*"),
        (("acme",), ""),
        (("acme",), "ACME"),
        (("acme", "bolt"), None),
        (("acme", "bolt"), "other"),
    ],
)
def test_a_namespace_of_others_is_forbidden(granted, asked):
    caller = Caller("k1", "ann", Grant(namespaces=granted))
    wanted, known = "default" if asked is None else asked, ", ".join(map(repr, granted))
    with pytest.raises(ForbiddenError, match=re.escape(f"{wanted!r}, only for {known}")):
        caller.namespace(asked)


@pytest.mark.parametrize(
    "fields",
    [
        {"namespaces": []},
        {"namespaces": ["Acme"]},
        {"namespaces": ["a" * 64]},
        {"namespaces": ["-a"]},
        {"namespaces": ["acme\n"]},
        {"max_sensitivity": "secret"},
        {"access": "root"},
        {"access": "admin"},
        {"access": "admin", "namespaces": ["*"], "servers": ["mail"]},
        {"access": "admin", "namespaces": ["*"], "profile": "writing"},
        {"rate": "0/second"},
        {"rate": "5/day"},
        {"rate": "٣/second"},
        {"everything": True},
    ],
    ids=str,
)
def test_a_grant_that_cannot_be_meant_is_refused(fields):
    with pytest.raises(ValidationError):
        Grant.model_validate(fields)
