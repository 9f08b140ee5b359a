"""What a scope or a ceiling keeps out changes no score, no probability and no answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.retrieval.calibrations import calibration
from toolcrib import Crib, Scope, Settings, ToolSpec, Turn
from toolcrib.build import make_dense
from toolcrib.indexers.points import layout
from toolcrib.records.codec import as_json
from toolcrib.retrieval.calibration import Answerability
from toolcrib.store.base import Store
from toolcrib.store.filters import SCOPE_FIELDS, AnyOf, Filter, Not, all_of, from_scope
from toolcrib.store.namespaced import NamespacedStore
from toolcrib.store.qdrant_edge import EdgeStore

CHOSEN = Settings.model_validate(
    {
        "encoder": {"dense": "deterministic"},
        "context": {"detector": "heuristic"},
        "tools": {"pass_through": 0},
    }
)
DENSE = make_dense(CHOSEN)
QUERIES = ("send a mail to a friend", "read the long report of acme")
WORDS = st.sampled_from(["mail", "friend", "report", "bank", "acme", "read", "send", "rota"])
LENGTHS = st.sampled_from([1, 5, 300])

KEPT_OUT = {
    "server": ({"server": "theirs"}, Scope(servers=frozenset({"mine"}))),
    "tags": ({"tags": ("theirs",)}, Scope(tags=frozenset({"mine"}))),
    "category": ({"category": "theirs"}, Scope(categories=frozenset({"mine"}))),
    "safety tag": ({"safety_tags": ("theirs",)}, Scope(without_safety_tags=frozenset({"theirs"}))),
    "caller's ceiling": ({"sensitivity": "pii"}, Scope(max_sensitivity="internal")),
    "destination's ceiling": ({"sensitivity": "pii"}, None),
}
"""How other tools differ from the caller's, which else they may equal in all, and the scope."""


def _text(draw: Any) -> str:
    return " ".join(draw(st.lists(WORDS, min_size=2, max_size=6)) * draw(LENGTHS))


@st.composite
def registries(draw: Any, stem: str, least: int, **fields: Any) -> list[ToolSpec]:
    """Tools of one server, with a name prefix that they may share, short or very long."""
    mine = {"server": "mine", "tags": ("mine",), "category": "mine"}
    prefix = draw(st.sampled_from(["acme_", ""]))
    return [
        ToolSpec(
            name=f"{prefix}{draw(WORDS)}_{stem}{number}",
            description=_text(draw),
            success_examples=tuple(draw(st.lists(WORDS, max_size=1))),
            requires=tuple(draw(st.lists(st.sampled_from(["acme_read_a0", "x"]), max_size=1))),
            **{**mine, **fields},
        )
        for number in range(draw(st.integers(least, 12)))
    ]


def _edge(folder: Any) -> Store:
    return EdgeStore.open(folder, layout(DENSE.dimensions))


def _tenant(folder: Any) -> Store:
    return NamespacedStore(_edge(folder), "tenant")


@pytest.fixture(params=[_edge, _tenant], ids=["edge", "tenant"], scope="module")
def crib(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Crib]:
    store = request.param(tmp_path_factory.mktemp("scope"))
    with Crib.over(store, DENSE, CHOSEN) as opened:
        yield opened


def _answers(crib: Crib, scope: Scope | None, ceiling: Any) -> list[Any]:
    """Everything that a caller is told, without times and ids."""
    able = Answerability(weights=(2.0, 1.0, 1.0, 1.0, 0.1), offset=-1.0)
    judge = calibration(crib.tools.calibration_fingerprint(), answerability=able)
    crib.tools.use_calibration(judge)
    told: list[Any] = []
    for query in QUERIES:
        if scope is not None:
            told += [crib.find_tools(query, k, scope=scope, explain=True) for k in (3, "auto")]
        decision = crib.route(Turn(text=query, scope=scope, max_sensitivity=ceiling))
        told += [decision.tools, decision.route, decision.context, decision.signals]
    return [_numbers(as_json(each)) for each in told]


def _numbers(found: Any) -> Any:
    """JSON whose numbers are as exact as the engine's own single precision."""
    if isinstance(found, dict):
        return {key: _numbers(value) for key, value in found.items() if key != "took_ms"}
    if isinstance(found, list):
        return [_numbers(value) for value in found]
    return float(f"{found:.5g}") if isinstance(found, float) else found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEPT_OUT)
@settings(max_examples=6)
@given(data=st.data())
def test_tools_beyond_reach_change_nothing(crib: Crib, kind: str, data: st.DataObject) -> None:
    differing, scope = KEPT_OUT[kind]
    ceiling = "internal" if scope is None else None
    mine = data.draw(registries("a", 1))
    theirs = data.draw(registries("b", 4, **differing))
    crib.tools.store.delete([r.id for r in crib.tools.store.scroll(fields=("id",))])
    crib.index_tools(*mine)
    before = _answers(crib, scope, ceiling)
    crib.index_tools(*theirs)
    assert _answers(crib, scope, ceiling) == before


def test_the_fields_that_scopes_go_by_are_all_named() -> None:
    some = frozenset({"x"})
    whole = Scope(
        servers=some,
        tags=some,
        categories=some,
        without_safety_tags=some,
        max_sensitivity="public",
        collections=some,
    )

    def fields(part: Filter | None) -> set[str]:
        match part:
            case AnyOf(field=field):
                return {field}
            case Not(part=inner):
                return fields(inner)
            case _:
                return set[str]().union(*map(fields, getattr(part, "parts", ())))

    assert fields(all_of(from_scope(whole))) == set(SCOPE_FIELDS)
