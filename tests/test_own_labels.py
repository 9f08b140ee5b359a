"""How a crib reads turns: names of servers are known, own labels are fitted once and kept."""

from __future__ import annotations

import yaml

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.turn_router import CONTEXT_MODEL_KEY

MOODS = {
    "calm": ["all is well here", "no trouble at all", "quiet as can be", "nothing to report"],
    "upset": ["this is a mess", "what a disaster", "everything is broken", "I am so angry"],
}


def own_labels(folder, moods=MOODS):
    labels = {name: {"utterances": said} for name, said in moods.items()}
    file = folder / "moods.yaml"
    file.write_text(yaml.safe_dump({"labels": labels}))
    return Settings.model_validate({"context": {"labels": {"urgency": str(file)}}})


def kept(crib):
    return crib.tools.store.read_meta().get(CONTEXT_MODEL_KEY)


def test_labels_of_ones_own_are_fitted_and_kept_beside_the_index(tmp_path):
    settings = own_labels(tmp_path)
    with Crib.open(tmp_path / "store", settings=settings) as crib:
        assert crib.detect("what a terrible mess, all broken").urgency == "upset"
        assert kept(crib) is None
        crib.learn_labels()
        assert kept(crib)
    with Crib.open(tmp_path / "store", settings=settings) as crib:
        assert crib.detect("nothing to report, all quiet and well").urgency == "calm"
        assert crib.detect("what a terrible mess, all broken").intent != "calm"


def test_what_ships_is_not_kept_again():
    with Crib.open(":memory:") as crib:
        crib.learn_labels()
        assert kept(crib) is None


def test_what_was_kept_for_other_labels_is_fitted_anew(tmp_path):
    with Crib.open(tmp_path / "store", settings=own_labels(tmp_path)) as crib:
        crib.learn_labels()
    swapped = own_labels(tmp_path, {"calm": MOODS["upset"], "upset": MOODS["calm"]})
    with Crib.open(tmp_path / "store", settings=swapped) as crib:
        assert crib.detect("what a terrible mess, all broken").urgency == "calm"


def test_servers_are_services_and_a_plain_word_is_no_tool():
    with Crib.open(":memory:") as crib:
        crib.index_tools(ToolSpec(name="search", server="acme-wiki", description="Search it."))
        found = crib.detect("search acme-wiki for the onboarding page").entities
        assert [(entity.type, entity.text) for entity in found] == [("service", "acme-wiki")]
