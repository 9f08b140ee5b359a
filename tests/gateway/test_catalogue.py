"""Names at the gateway: safe for every client, stable, and never another tool's."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.gateway.catalogue import RESERVED, Catalogue
from toolcrib.records import Scope, ToolSpec

ACCEPTED = re.compile(r"[a-zA-Z0-9_-]{1,64}")

texts = st.text(min_size=1, max_size=80).filter(lambda text: any(map(str.isalnum, text)))
specs = st.lists(
    st.builds(lambda server, name: ToolSpec(server=server, name=name), st.text(max_size=60), texts),
    max_size=12,
    unique_by=lambda spec: spec.id,
)


def tool(server: str, name: str, **fields) -> ToolSpec:
    return ToolSpec(server=server, name=name, **fields)


def names(catalogue):
    return [offer.name for offer in catalogue]


def test_a_tool_is_called_by_its_server_and_its_own_name():
    catalogue = Catalogue([tool("post", "send"), tool("my server", "get/it"), tool("", "alone")])

    assert names(catalogue) == ["alone", "my_server_get_it", "post_send"]


def test_a_server_that_is_in_the_name_already_is_not_put_there_again():
    assert names(Catalogue([tool("github", "GitHub_search")])) == ["GitHub_search"]


def test_two_tools_that_would_be_called_alike_are_both_called_otherwise():
    catalogue = Catalogue([tool("a", "b_c"), tool("a_b", "c"), tool("x", "y")])

    one, two, other = names(catalogue)
    assert other == "x_y"
    assert one != two
    assert all(re.fullmatch(r"a_b_c_[0-9a-f]{6}", name) for name in (one, two))
    assert catalogue.named("a_b_c") is None


def test_no_server_can_take_the_names_of_the_search():
    for name in RESERVED:
        server = name.partition("_")[0]
        (called,) = names(Catalogue([tool(server, name)]))
        assert called not in RESERVED


@given(specs)
def test_names_are_accepted_everywhere_and_belong_to_one_tool(specs):
    catalogue = Catalogue(specs)

    assert all(ACCEPTED.fullmatch(name) for name in names(catalogue))
    assert len(set(names(catalogue))) == len(specs)
    for offer in catalogue:
        assert catalogue.named(offer.name) is offer


@given(specs, st.integers(0, 100))
def test_a_name_never_comes_to_mean_another_tool(specs, cut):
    before = Catalogue(specs[: cut % (len(specs) + 1)])
    after = Catalogue(specs)

    for offer in before:
        found = after.named(offer.name)
        assert found is None or found.name != offer.name or found.spec.id == offer.spec.id


def test_a_tool_is_known_by_its_id_and_by_its_own_name_where_only_one_has_it():
    catalogue = Catalogue([tool("post", "send"), tool("fax", "send"), tool("fax", "dial")])

    assert catalogue.named("fax/send") is catalogue.get("fax/send")
    assert catalogue.named("dial") is catalogue.get("fax/dial")
    assert catalogue.named("send") is None


def test_disabled_tools_are_not_on_offer():
    assert len(Catalogue([tool("post", "send", enabled=False)])) == 0


def test_the_tools_of_one_server_are_replaced_and_the_others_are_the_same():
    before = Catalogue([tool("post", "send"), tool("fax", "dial")])
    after = before.replaced({"fax": [tool("fax", "hang")]})

    assert [offer.spec.id for offer in after] == ["fax/hang", "post/send"]
    assert after.get("post/send") is before.get("post/send")
    assert [offer.spec.id for offer in after.of("fax")] == ["fax/hang"]


def test_what_is_within_a_scope_is_what_a_search_could_find():
    catalogue = Catalogue(
        [
            tool("post", "send", tags=("home",)),
            tool("post", "read", tags=("work",)),
            tool("vault", "open", tags=("home",), sensitivity="pii"),
        ]
    )
    scope = Scope(tags=frozenset({"home"}), max_sensitivity="internal")

    assert [offer.spec.id for offer in catalogue.within(scope)] == ["post/send"]
    assert len(catalogue.within(None)) == 3
    assert not catalogue.within(Scope(servers=frozenset()))
