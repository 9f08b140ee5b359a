"""Tenants share a service and a store, and each sees what it would see alone.

The model is one embedded crib for each tenant, in a store of its own that has never heard of
another. Whatever a tenant is answered, over any sequence of what all of them do, must be what its
own crib says: results, scores, counts, facets, suggestions, refusals and the words of errors.
"""

from __future__ import annotations

import itertools
from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import rounds
from toolcrib import Collection, Passage, Scope, Settings, ToolSpec, Turn
from toolcrib.errors import ToolcribError
from toolcrib.indexers.sync import ReadSources
from toolcrib.records.codec import as_json
from toolcrib.tenants import Tenants

SETTINGS = Settings.model_validate(
    {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}
)
TENANTS = ("acme", "beta", "gamma")
NUMBERS = itertools.count()

WORDS = ("send", "mail", "file", "read", "table", "drop", "door", "code")
SERVERS = ("mail", "files")

texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
names = st.sampled_from(("send_mail", "read_mail", "send_file", "open_door"))
tools = st.builds(
    lambda name, server, text, tags, sensitivity: {
        "name": name,
        "server": server,
        "description": text,
        "tags": tags,
        "sensitivity": sensitivity,
        "version": "1",
    },
    names,
    st.sampled_from(SERVERS),
    texts,
    st.lists(st.sampled_from(("safe", "fast")), max_size=2, unique=True),
    st.sampled_from(("public", "pii")),
)
ids = st.builds("{}/{}".format, st.sampled_from(SERVERS), names)
scopes = st.sampled_from(
    (
        {},
        {"servers": ["mail"]},
        {"tags": ["safe"], "max_sensitivity": "internal"},
        {"servers": [], "collections": ["faq"]},
    )
)
collections = st.sampled_from(("faq", "handbook"))
passages = st.lists(st.tuples(st.sampled_from(("a.md", "b.md")), texts), min_size=1, max_size=3)

actions = st.one_of(
    st.tuples(st.just("write"), st.lists(tools, max_size=4), st.just(False)),
    st.tuples(st.just("write"), st.lists(tools, min_size=1, max_size=4), st.just(True)),
    st.tuples(st.just("delete"), ids),
    st.tuples(st.just("search"), texts, st.integers(1, 5), scopes),
    st.tuples(st.just("list"), scopes),
    st.tuples(st.just("get"), ids),
    st.tuples(st.just("facets")),
    st.tuples(st.just("describe"), collections, texts),
    st.tuples(st.just("fill"), collections, passages),
    st.tuples(st.just("empty"), collections),
    st.tuples(st.just("ask"), texts, scopes),
    st.tuples(st.just("detect"), texts),
    st.tuples(st.just("route"), texts, scopes),
    st.tuples(st.just("alternates"), ids, texts),
    st.tuples(st.just("decisions")),
)


def scope_of(fields):
    return Scope(**{k: frozenset(v) if isinstance(v, list) else v for k, v in fields.items()})


class Alone:
    """A tenant that nobody shares anything with: the model."""

    def __init__(self, crib):
        self.crib = crib
        self.decided = 0

    def write(self, sent, prune):
        entries = [("the request", ToolSpec(**fields)) for fields in sent]
        report = self.crib.index_tools(ReadSources(entries), prune=prune)
        return {**as_json(report, full=True), "quarantined": []}

    def delete(self, tool_id):
        self.crib.remove_tools(tool_id)

    def search(self, query, k, scope):
        return as_json(self.crib.find_tools(query, k, scope=scope_of(scope), explain=True))

    def list(self, scope):
        found = self.crib.list_tools(scope=scope_of(scope))
        return sorted((spec.model_dump(mode="json") for spec in found), key=lambda tool: tool["id"])

    def get(self, tool_id):
        return self.crib.get_tool(tool_id).model_dump(mode="json")

    def facets(self):
        return as_json(self.crib.facets())

    def describe(self, name, text):
        self.crib.add_collections(Collection(name=name, description=text))
        known = self.crib.list_collections()
        return [{**each.model_dump(mode="json"), "passages": n} for each, n in known]

    def fill(self, name, given):
        passages = [Passage(name, d, text, (), n) for n, (d, text) in enumerate(given)]
        report = self.crib.knowledge.put([(each.document, each) for each in passages])
        return as_json(report, full=True)

    def empty(self, name):
        if name not in [each.name for each, _ in self.crib.list_collections()]:
            self.crib.knowledge.collection(name)
        self.crib.remove_docs(name)

    def ask(self, query, scope):
        return as_json(self.crib.find_knowledge(query, scope=scope_of(scope)))

    def detect(self, text):
        return as_json(self.crib.detect(Turn(text=text, scope=Scope())))

    def route(self, text, scope):
        self.decided += 1
        return as_json(self.crib.route(Turn(text=text, scope=scope_of(scope))))

    def alternates(self, failed, text):
        hits = self.crib.alternates(failed, Turn(text=text, scope=Scope()))
        return [as_json(hit) for hit in hits]

    def decisions(self):
        return self.decided


def passages_of(given):
    return [{"document": d, "text": text, "position": n} for n, (d, text) in enumerate(given)]


REQUESTS = {
    "write": lambda sent, prune: (
        "POST", "tools", {"tools": sent, "prune": prune, "format": "toolspec"},
    ),
    "delete": lambda tool_id: ("DELETE", f"tools/{tool_id}"),
    "search": lambda query, k, scope: (
        "POST", "tools/search", {"query": query, "k": k, "scope": scope, "explain": True},
    ),
    "list": lambda scope: ("POST", "tools/list", {"scope": scope}),
    "get": lambda tool_id: ("GET", f"tools/{tool_id}"),
    "facets": lambda: ("GET", "facets"),
    "describe": lambda name, text: (
        "POST", "collections", {"collections": [{"name": name, "description": text}]},
    ),
    "fill": lambda name, given: (
        "POST", "documents", {"collection": name, "passages": passages_of(given)},
    ),
    "empty": lambda name: ("DELETE", f"collections/{name}"),
    "ask": lambda query, scope: ("POST", "knowledge/search", {"query": query, "scope": scope}),
    "detect": lambda text: ("POST", "detect", {"text": text}),
    "route": lambda text, scope: ("POST", "route", {"text": text, "scope": scope}),
    "alternates": lambda tool, text: ("POST", "alternates", {"failed_tool": tool, "turn": text}),
    "decisions": lambda: ("GET", "decisions?limit=200"),
}  # fmt: skip
"""Requests by which the service is asked what the model is asked by a method."""

READINGS = {
    "list": lambda found: sorted(found["tools"], key=lambda tool: tool["id"]),
    "describe": lambda found: found["collections"],
    "alternates": lambda found: found["tools"],
    "decisions": lambda found: len(found["decisions"]),
}


def told_by_service(client, action):
    """The answer to a tenant of the service, or the words of the error; without times."""
    name, *arguments = action
    method, path, *body = REQUESTS[name](*arguments)
    answer = client.request(method, f"/v1/{path}", json=body[0] if body else None)
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        return answer.json()["detail"]
    found = answer.json() if answer.content else None
    return lasting(READINGS[name](found) if name in READINGS else found)


def told_by_model(alone, action):
    """The same by the model."""
    name, *arguments = action
    try:
        return lasting(getattr(alone, name)(*arguments))
    except ToolcribError as error:
        return str(error)


def lasting(answer):
    """An answer without what is never the same."""
    if isinstance(answer, dict):
        passing = {"id", "took_ms"} if "route" in answer else {"took_ms"}
        return {key: lasting(value) for key, value in answer.items() if key not in passing}
    return answer


@pytest.fixture(scope="module")
def stores():
    """A store of its own for each tenant of the model."""
    with ExitStack() as opened:
        yield {
            name: opened.enter_context(Tenants.open(":memory:", settings=SETTINGS))
            for name in TENANTS
        }


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(TENANTS), actions), min_size=4, max_size=25))
@settings(max_examples=rounds(4, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_tenant_is_answered_as_though_it_were_alone(service, stores, steps):
    number = next(NUMBERS)
    names = {tenant: f"{tenant}-{number}" for tenant in TENANTS}
    alone = {tenant: Alone(stores[tenant].crib(name)) for tenant, name in names.items()}
    with ExitStack() as opened:
        clients = {each: opened.enter_context(service.client(names[each])) for each in TENANTS}
        opened.callback(lambda: [stores[each].remove(names[each]) for each in TENANTS])
        for tenant, action in steps:
            expected = told_by_model(alone[tenant], action)
            assert told_by_service(clients[tenant], action) == expected, (tenant, action)
