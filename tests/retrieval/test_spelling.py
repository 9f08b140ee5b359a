"""Spelling: misspelt words of a query are read as words of the tools in reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Crib, Scope, ToolSpec, Turn
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.errors import StoreUnavailableError
from toolcrib.retrieval.gate import ENABLED
from toolcrib.retrieval.spelling import Speller, correct

TOOLS = [
    ToolSpec(name="search_confluence", server="wiki", description="Search pages in Confluence."),
    ToolSpec(name="create_checklist", server="wiki", description="Create a checklist of tasks."),
    ToolSpec(name="pay_invoice", server="bank", description="Pay an invoice of a supplier."),
    ToolSpec(name="list_jobs", server="ci", description="List the jobs of a pipeline."),
]
WIKI = Scope(servers=frozenset({"wiki"}))


def speller_of(crib: Crib) -> Speller:
    return Speller(crib.tools.store, LexicalEncoder(), BundledEncoder())


@pytest.fixture(scope="module")
def crib() -> Iterator[Crib]:
    with Crib.open(":memory:") as made:
        made.index_tools(TOOLS)
        yield made


@pytest.mark.parametrize(
    ("query", "spelling"),
    [
        ("find it in conflunce", {"conflunce": "confluence"}),
        ("find it in confluennce", {"confluennce": "confluence"}),
        ("find it in confleunce", {"confleunce": "confluence"}),
        ("find it in confluance", {"confluance": "confluence"}),
        ("Serch the chekclist", {"serch": "search", "chekclist": "checklist"}),
        ("pay the invioces", {"invioces": "invoice"}),
    ],
)
def test_a_word_with_one_slip_is_read_as_a_tools_word(crib, query, spelling):
    assert crib.find_tools(query).spelling == spelling


@pytest.mark.parametrize(
    "query",
    [
        "find it in confluence",  # as a tool has it
        "pay the involve",  # a word of the encoder
        "ask Conflunce about it",  # a name
        "read conflunce.txt and user@conflunce.org and x_conflunce",  # parts of longer names
        "the cnflunce",  # two slips
        "onfluence",  # another first letter
        "pai teh wki",  # too short
        "envoyer le contrat au client avec une reponse",  # another language
    ],
)
def test_other_words_keep_their_spelling(crib, query):
    assert crib.find_tools(query).spelling == {}


def test_a_misspelt_query_finds_what_the_right_one_finds(crib):
    right, wrong = (crib.find_tools(f"find it in {word}") for word in ("confluence", "conflunce"))
    assert [hit.id for hit in wrong.tools] == [hit.id for hit in right.tools]
    assert [hit.score for hit in wrong.tools] == [hit.score for hit in right.tools]
    assert wrong.query == "find it in conflunce"


def test_only_tools_in_scope_tell_how_a_word_is_spelt(crib):
    assert crib.find_tools("pay the invoce").spelling == {"invoce": "invoice"}
    assert crib.find_tools("pay the invoce", scope=WIKI).spelling == {}


def test_a_turn_and_needs_are_corrected_too(crib):
    assert crib.route(Turn(text="please pay the invoce")).tools.spelling == {"invoce": "invoice"}
    found = crib.find_tools(needs=["Pay an invoce", "Search in conflunce"])
    assert found.spelling == {"invoce": "invoice", "conflunce": "confluence"}


def test_a_common_word_is_meant_where_no_tool_has_one(crib):
    assert crib.find_tools("a langauge of wikis").spelling == {"langauge": "language"}


def test_what_only_a_document_may_have_is_not_read_as_a_tools_word(crib):
    retriever = crib.tools.retriever
    assert retriever.encode("the invoce").spelling == {}
    assert retriever.encode("the langauge").spelling == {"langauge": "language"}


def test_tools_out_of_scope_do_not_decide_which_tools_are_read():
    """A frequent word would count less than a rare one: frequencies would tell of other tools."""
    tools = [
        ToolSpec(name=f"{word}{n}", server=server, description=f"Look after the {word}{more}.")
        for server, word, more, count in (
            ("a", "qorvexa", "", 6),
            ("a", "qorvexo", ", by day and by night", 5),
            ("b", "qorvexa", "", 40),
        )
        for n in range(count)
    ]
    found = list[Mapping[str, str]]()
    for indexed in (tools[:11], tools):
        with Crib.open(":memory:") as made:
            made.index_tools(indexed)
            found.append(
                made.find_tools("the qorvex", scope=Scope(servers=frozenset("a"))).spelling
            )
    assert found == [{"qorvex": "qorvexa"}] * 2


def test_a_remote_store_takes_three_requests(crib, monkeypatch):
    speller, store = speller_of(crib), crib.tools.store
    requests = list[str]()
    for name in ("search", "retrieve"):
        work = getattr(store, name)
        monkeypatch.setattr(store, name, lambda *a, n=name, w=work: requests.append(n) or w(*a))
    found = speller.corrections(["serch", "conflunnce", "chekclist", "invioces"], ENABLED)
    assert len(found) == 4
    assert requests == ["search", "search", "retrieve"]


def test_a_failing_store_leaves_the_spelling(crib, monkeypatch):
    def fail(*_: object) -> None:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(crib.tools.store, "search", fail)
    assert crib.tools.retriever.encode("the invoce", vocabulary=ENABLED).spelling == {}
    assert crib.detect("pay the invoce").text == "pay the invoce"


def test_an_encoder_without_a_known_vocabulary_leaves_the_spelling():
    with Crib.open(":memory:", dense=DeterministicEncoder()) as made:
        made.index_tools(TOOLS)
        assert made.find_tools("find it in conflunce").spelling == {}


@given(text=st.text(max_size=200))
def test_any_text_is_taken(crib, text):
    unknown = BundledEncoder().unknown_words(text)
    made = speller_of(crib).corrections(unknown, None)
    assert all(word in text.lower() for word in made)
    assert (correct(text, made) == text) == (not made)
