"""Link facts: what the indexer writes into a point is what retrieval reads from it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.store.payload import LinkFacts

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
