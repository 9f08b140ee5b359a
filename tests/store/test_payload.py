"""Payloads: what the indexer writes into a point is what retrieval reads from it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ToolSpec
from toolcrib.store.payload import LinkFacts, name_keys, named_tools, only_tools, respell

WORDS = st.text("abc ", min_size=1).filter(str.strip)
FACTS = st.builds(
    LinkFacts,
    needs=st.lists(st.tuples(WORDS, st.lists(WORDS).map(tuple))).map(tuple),
    gives=st.dictionaries(WORDS, st.floats(0, 5)),
    recommended=st.lists(st.tuples(WORDS, WORDS)).map(tuple),
    successors=st.lists(WORDS).map(tuple),
)


@given(FACTS)
def test_facts_come_back_from_a_stored_payload(facts: LinkFacts) -> None:
    assert LinkFacts.from_payload(json.loads(json.dumps(facts.payload()))) == facts


def test_what_is_empty_is_not_stored() -> None:
    assert LinkFacts().payload() == {"links": {}, "yields": []}


def test_a_given_entity_is_found_by_its_last_words() -> None:
    assert LinkFacts(gives={"pull request": 0.0}).payload()["yields"] == ["pull request", "request"]


SEND = ToolSpec(name="send", server="mail")
CHAT = ToolSpec(name="send", server="chat")
FLAT = ToolSpec(name="mail_send")
LONG = ToolSpec(name="send.fax", server="office" * 20)


def mean(names, tools):
    def list_tools(where):
        return [tool for tool in tools if {*name_keys(tool)}.intersection(where.values)]

    return named_tools(names, list_tools), only_tools(names, list_tools)


@pytest.mark.parametrize("name", ["send", "mail/send", "mail_send", "mail__send", "Mail-Send"])
def test_every_spelling_means_the_tool(name):
    assert mean([name], [SEND, LONG]) == ({name: (SEND,)}, {name: SEND})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("send", (SEND, CHAT)),
        ("mail__send", (SEND,)),
        ("mail_send", (FLAT,)),
        ("mail-send", (SEND, FLAT)),
        (respell(LONG, "mail__send", SEND), (LONG,)),
    ],
)
def test_the_nearest_spelling_wins(name, meant):
    all_of_it, alone = mean([name], [SEND, CHAT, FLAT, LONG])
    assert all_of_it == {name: meant}
    assert alone == ({name: meant[0]} if len(meant) == 1 else {})


@pytest.mark.parametrize("name", ["post", "", "?!"])
def test_an_unknown_name_means_nothing(name):
    assert mean([name], [SEND]) == ({}, {})


def test_another_tool_is_spelled_alike():
    spelt = [respell(CHAT, name, SEND) for name in ("mail/send", "send", "mail__send")]
    assert spelt == ["chat/send", "send", "chat__send"]
