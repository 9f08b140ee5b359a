"""Documents of a crib: in by what changed, kept with what is said of their collections."""

from __future__ import annotations

import pytest

from tests.router.conftest import PASSAGES, TOOLS, free_of_models
from toolcrib import Collection, Crib, Passage, Scope
from toolcrib.build import MEMORY


@pytest.fixture
def settings():
    return free_of_models()


def test_it_is_all_there_after_opening_again(tmp_path, settings):
    rules = tmp_path / "weight.md"
    rules.write_text("# Parcels\n\nA parcel may weigh at most thirty kilograms.\n")
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        crib.index_tools(*TOOLS)
        crib.index_docs(rules, collection="post")
        crib.add_collections(Collection(name="post", description="How heavy parcels may be."))
    with Crib.open(tmp_path / "s", settings=settings) as crib:
        decision = crib.route("How heavy may a parcel be?")
        assert [hit.id for hit in decision.knowledge.collections] == ["post"]
        assert crib.knowledge.collection("post").description == "How heavy parcels may be."


def test_a_collection_that_ships_is_described_and_another_can_be(settings):
    with Crib.open(MEMORY, settings=settings) as crib:
        crib.index_passages([Passage("agile", "a.md", "We meet at nine."), *PASSAGES])
        agile = crib.knowledge.collection("agile")
        assert (bool(agile.description), len(agile.examples)) == (True, 10)
        assert crib.knowledge.collection("wards") == Collection(name="wards")
        crib.add_collections(Collection(name="wards", sensitivity="pii"))
        scope = Scope(max_sensitivity="internal")
        found = crib.find_knowledge("when are patients visited?", scope=scope)
        assert "wards" not in {hit.passage.collection for hit in found.passages}


def test_knowledge_can_be_turned_off():
    off = free_of_models(knowledge={"enabled": False})
    with Crib.open(MEMORY, settings=off) as crib:
        crib.index_passages(PASSAGES)
        decision = crib.route("How is glass wrapped in a parcel?")
        assert (decision.knowledge.passages, decision.degraded) == ((), ())


def test_what_the_settings_state_of_a_collection_wins_at_once():
    stated = free_of_models(collections=[{"name": "wards", "sensitivity": "pii"}])
    with Crib.open(MEMORY, settings=stated) as crib:
        crib.index_passages(PASSAGES)
        crib.add_collections(Collection(name="wards", description="Visits.", sensitivity="public"))
        found = crib.knowledge.collection("wards")
        assert (found.description, found.sensitivity) == ("Visits.", "pii")
        public = crib.list_collections(scope=Scope(max_sensitivity="public"))
        assert "wards" not in {each.name for each, _ in public}
