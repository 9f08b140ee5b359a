"""Prerequisites in an answer: who is brought for whom, where it stands, and who is not."""

from __future__ import annotations

import pytest

from toolcrib import Crib, Scope, Settings, ToolSpec
from toolcrib.records import Enrichment
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.learned import UseData
from toolcrib.settings import EncoderSettings

MODEL_FREE = Settings(encoder=EncoderSettings(dense="deterministic"))


def takes(*names):
    return {
        "type": "object",
        "properties": {n: {"type": "string"} for n in names},
        "required": list(names),
    }


CREDITS = ToolSpec(
    name="movie_credits", description="Cast of a film", server="db", input_schema=takes("person_id")
)
SEARCH = ToolSpec(
    name="search_person", description="Look up", server="db", input_schema=takes("query")
)
OTHERS = [
    ToolSpec(name=f"cast_{n}", description="Cast of a film and crew", server="db") for n in range(6)
]
FILM = "movie credits: the cast of a film"


def answers(tools, query=FILM, settings=MODEL_FREE, **options):
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(tools)
        return crib.find_tools(query, options.pop("k", 3), gate=False, **options)


def brought(found):
    return {hit.id: hit.needed_for for hit in found.tools if hit.needed_for}


def test_a_chosen_tool_brings_its_provider_below_itself_within_k():
    found = answers([CREDITS, SEARCH, *OTHERS])
    first = found.tools[0]
    assert first.id == "db/movie_credits"
    assert brought(found) == {"db/search_person": ("db/movie_credits",)}
    assert [hit.rank for hit in found.tools] == [1, 2, 3]
    scores = [hit.score for hit in found.tools]
    assert scores == sorted(scores, reverse=True)
    assert found.confidence == first.probability


def test_nothing_is_brought_where_the_query_states_the_id():
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools([CREDITS, SEARCH, *OTHERS])
        for told in ("person nm0000123", "person 287", "the person with id 7"):
            assert not brought(crib.find_tools(f"{FILM} for {told}", 3, gate=False))
        assert brought(crib.find_tools(f"{FILM} for 1 person 1999", 3, gate=False))


def test_a_provider_of_another_server_or_beyond_the_caller_is_not_brought():
    elsewhere = SEARCH.on_server("web")
    assert not brought(answers([CREDITS, elsewhere, *OTHERS]))
    secret = SEARCH.model_copy(update={"sensitivity": "pii"})
    scope = Scope(max_sensitivity="internal")
    assert not brought(answers([CREDITS, secret, *OTHERS], scope=scope))


def test_a_share_of_nothing_brings_nothing():
    off = MODEL_FREE.model_copy(update={"fusion": FusionWeights(prerequisites=0)})
    assert not brought(answers([CREDITS, SEARCH, *OTHERS], settings=off))


def test_what_authors_wrote_wins():
    required = CREDITS.model_copy(update={"requires": ("cast_5",)})
    assert set(brought(answers([required, SEARCH, *OTHERS]))) == {"db/cast_5"}
    providing = OTHERS[5].model_copy(update={"provides": ("person_id",)})
    assert set(brought(answers([CREDITS, SEARCH, *OTHERS[:5], providing]))) == {"db/cast_5"}


def test_what_searches_is_brought_before_what_lists():
    listing = ToolSpec(name="list_persons", description="All", server="db")
    assert "db/search_person" in brought(answers([CREDITS, listing, SEARCH, *OTHERS]))
    assert "db/list_persons" in brought(answers([CREDITS, listing, *OTHERS]))


def test_of_level_providers_the_one_of_the_same_name_is_brought_and_of_many_none():
    logins = [
        ToolSpec(name=f"{shop}_login", description="Sign in")
        for shop in ("acme", "bolt", "corp", "dell")
    ]
    cart = ToolSpec(
        name="acme_cart", description="Put into the cart", input_schema=takes("session_id")
    )
    assert set(brought(answers([cart, *logins], "put into the cart"))) == {"acme_login"}
    stray = cart.model_copy(update={"name": "cart", "id": "cart"})
    assert not brought(answers([stray, *logins], "put into the cart"))


@pytest.mark.parametrize(
    ("name", "parameter", "finder", "takes_id"),
    [
        ("remove_contact", "person_id", "search_contacts", ()),
        ("freeze_debit_card", "card_id", "get_debit_cards_by_account_id", ("account_id",)),
    ],
)
def test_the_only_finder_is_brought_also_by_another_word_or_at_a_greater_effort(
    name, parameter, finder, takes_id
):
    user = ToolSpec(name=name, description=FILM, server="db", input_schema=takes(parameter))
    found = ToolSpec(name=finder, description="Look up", server="db", input_schema=takes(*takes_id))
    assert brought(answers([user, found, *OTHERS]))[f"db/{finder}"] == (f"db/{name}",)


def test_what_is_to_be_changed_needs_no_tool_that_makes_it():
    change = ToolSpec(
        name="update_task", description=FILM, server="db", input_schema=takes("task_id")
    )
    make = ToolSpec(name="add_task", description="Write down", server="db")
    assert brought(answers([change, make, *OTHERS])) == {}


def test_what_every_tool_of_a_server_needs_is_brought_once_and_last():
    others = [tool.model_copy(update={"input_schema": takes("person_id")}) for tool in OTHERS]
    found = answers([CREDITS, SEARCH, *others], k=5)
    assert [hit.id for hit in found.tools if hit.needed_for] == [found.tools[-1].id]
    assert found.tools[-1].id == "db/search_person"


def test_tools_that_need_each_other_are_there_once():
    one = ToolSpec(
        name="list_teams", description="Teams of players", input_schema=takes("player_id")
    )
    two = ToolSpec(
        name="list_players", description="Players of teams", input_schema=takes("team_id")
    )
    found = answers([one, two], "teams of players", k=5)
    assert len(found.tools) == 2
    assert len(brought(found)) == 1


def test_links_follow_what_is_added_and_removed():
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools([CREDITS, *OTHERS])
        assert not brought(crib.find_tools(FILM, 3, gate=False))
        crib.index_tools([SEARCH])
        assert brought(crib.find_tools(FILM, 3, gate=False))
        assert not list(crib.tools.faults())
        crib.remove_tools("db/search_person")
        assert not brought(crib.find_tools(FILM, 3, gate=False))


def test_a_deprecated_tool_stands_right_under_its_successor():
    old = ToolSpec(
        name="send_letter", description="Deprecated: use post_mail instead. Send a letter."
    )
    new = ToolSpec(name="post_mail", description="Writes")
    found = answers([old, new, *OTHERS], "send a letter", k=4)
    assert [hit.id for hit in found.tools[:2]] == ["post_mail", "send_letter"]
    assert found.tools[1].replaced_by == "post_mail"
    assert found.confidence == found.tools[0].probability


@pytest.mark.parametrize("k", [1, 2])
def test_no_more_than_k_are_given_and_the_first_stays(k):
    found = answers([CREDITS, SEARCH, *OTHERS], k=k)
    assert len(found.tools) == k
    assert found.tools[0].id == "db/movie_credits"


PAY = ToolSpec(
    name="pay_invoice", description="Pay", server="shop", input_schema=takes("invoice_id")
)
FIND_INVOICE = ToolSpec(
    name="search_invoices", description="Look up", server="shop", input_schema=takes("query")
)
PLANTS = ToolSpec(name="water_plants", description="Water all plants", server="shop")
LIGHTS = ToolSpec(name="dim_lights", description="Make it dark", server="shop")
SHOP = [PAY, FIND_INVOICE, PLANTS, LIGHTS, *OTHERS]
CALLED = "pay the invoice by pay_invoice, then water_plants and dim_lights"


@pytest.mark.parametrize("k", range(1, 7))
def test_a_tool_that_is_called_by_name_comes_before_what_another_needs(k):
    found = [hit.name for hit in answers(SHOP, CALLED, k=k).tools]
    named = {tool.name for tool in (PAY, PLANTS, LIGHTS)}
    assert len(found) == k
    assert found[0] == PAY.name
    assert set(found[:3]) <= named
    assert (FIND_INVOICE.name in found) == (k > len(named))


def test_each_need_keeps_its_best_tool_and_brings_none():
    found = answers(SHOP, None, needs=["pay_invoice", "water_plants"], k=2)
    assert {hit.name for hit in found.tools} == {PAY.name, PLANTS.name}


# -- companions ------------------------------------------------------------------------------------

WRITE = ToolSpec(name="put", description="Keep a text", server="disk")


def together(found):
    return {hit.id: hit.goes_with for hit in found.tools if hit.goes_with}


@pytest.mark.parametrize("name", ["disk/put", "put"])
def test_a_companion_comes_behind_its_tool_and_behind_what_scores_higher(name):
    film = CREDITS.model_copy(update={"goes_with": (name,)})
    found = answers([film, WRITE, *OTHERS])
    assert together(found) == {"disk/put": ("db/movie_credits",)}
    scores = {hit.id: hit.score for hit in found.tools}
    assert found.tools[0].id == "db/movie_credits"
    assert scores["disk/put"] == pytest.approx(0.8 * scores["db/movie_credits"])
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


def test_a_companion_that_scores_higher_by_itself_stays_where_it_is():
    mates = tuple(each.id for each in OTHERS)
    film = CREDITS.model_copy(update={"goes_with": mates})
    alone = answers([CREDITS, *OTHERS], k=7)
    with_mates = answers([film, *OTHERS], k=7)
    high = [hit for hit in alone.tools if hit.score >= 0.8 * alone.tools[0].score]
    assert [hit.id for hit in with_mates.tools][: len(high)] == [hit.id for hit in high]
    assert not together(with_mates).keys() & {hit.id for hit in high}


def test_a_companion_that_is_gone_or_beyond_the_caller_is_not_brought():
    film = CREDITS.model_copy(update={"goes_with": ("disk/put", "disk/gone")})
    secret = WRITE.model_copy(update={"sensitivity": "pii"})
    scope = Scope(max_sensitivity="internal")
    assert not together(answers([film, secret, *OTHERS], scope=scope))
    off = MODEL_FREE.model_copy(update={"fusion": FusionWeights(companions=0)})
    assert not together(answers([film, WRITE, *OTHERS], settings=off))


def test_what_a_tool_requires_and_what_goes_with_it_come_both():
    film = CREDITS.model_copy(update={"requires": ("search_person",), "goes_with": ("put",)})
    found = answers([film, SEARCH, WRITE, *OTHERS])
    assert set(brought(found)) == {"db/search_person"}
    assert set(together(found)) == {"disk/put"}


def test_companions_of_authors_enrichment_and_use_are_links_of_a_tool():
    film = CREDITS.model_copy(
        update={"goes_with": ("put",), "enrichment": Enrichment(goes_with=("db/cast_1",))}
    )
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools([film, SEARCH, WRITE, *OTHERS])
        learned = {film.id: ["db/cast_2", "disk/put"]}
        crib.tools.use_learned(UseData(goes_with=learned))
        links = crib.tool_links(film.id)
        assert [each.id for each in links.goes_with] == ["disk/put", "db/cast_1", "db/cast_2"]
        assert [each.id for each in links.needs] == ["db/search_person"]
        assert "db/cast_2" in [hit.id for hit in crib.find_tools(FILM, 10, gate=False).tools]
