"""Tools into a service and out of it, one call after the other, as a service answers them."""

from __future__ import annotations

import pytest

from toolcrib import Refusal, ToolSpec
from toolcrib.client import indexing, parcels
from toolcrib.client.answers import Page, Written
from toolcrib.client.indexing import index_tools, read_sources, remove_tools
from toolcrib.errors import StoreUnavailableError, UnknownToolError
from toolcrib.records import IndexReport


def specs(*names, server="mail"):
    return [ToolSpec(name=name, server=server) for name in names]


def played(steps, *answers):
    """Run steps against these answers; gives the calls that were made, and the result."""
    calls, coming = [], iter(answers)
    try:
        call = next(steps)
        while True:
            calls.append(call)
            given = next(coming)
            call = steps.throw(given) if isinstance(given, Exception) else steps.send(given)
    except StopIteration as end:
        assert list(coming) == []
        return calls, end.value


def named(calls):
    return [f"{call.method} {call.path}" for call in calls]


def added(*names):
    return Written(IndexReport(added=tuple(f"mail/{name}" for name in names)))


def listed(*tools):
    return Page(tuple(tools), None)


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(parcels, "PART", 2)


def test_sources_are_read_here_whatever_they_are(tmp_path):
    (tmp_path / "tools.json").write_text('[{"name": "read", "tags": ["x"]}]')

    def weigh(parcel: str) -> float:
        """Weigh a parcel."""
        return len(parcel)

    sources = [tmp_path / "tools.json", weigh, specs("send"), tmp_path / "none.json"]
    found, refused = read_sources(sources, server="desk")
    assert [each.id for each in found] == ["desk/read", "desk/weigh", "desk/send"]
    assert [each.source for each in refused] == [str(tmp_path / "none.json")]


def test_tools_go_in_parts_and_progress_is_told_after_each(small_parts):
    heard = []
    steps = index_tools(read_sources(specs(*"abc")), progress=heard.append)
    calls, report = played(steps, added("a", "b"), added("c"))
    assert named(calls) == ["POST /v1/tools"] * 2
    assert [[each["name"] for each in call.body["tools"]] for call in calls] == [["a", "b"], ["c"]]
    assert [call.body["prune"] for call in calls] == [False, False]
    assert report.added == ("mail/a", "mail/b", "mail/c")
    assert [(each.done, each.total, each.ids) for each in heard] == [
        (0, 3, ()), (2, 3, ("mail/a", "mail/b")), (3, 3, ("mail/c",)),
    ]  # fmt: skip


def test_without_tools_nothing_is_asked():
    assert played(index_tools(read_sources([]))) == ([], IndexReport())


def test_what_is_refused_or_held_is_told_by_where_it_came_from_here():
    there = Refusal("the request", "[1]", "name: invisible character")
    about = Refusal("the request", "mail/a", "this key's scope does not allow it")
    other = Refusal("the request", "[7]", "who knows")
    held = Refusal("", "mail/c", "held back")
    heard = []
    written = Written(IndexReport(refused=(there, about, other)), (held,))
    steps = index_tools(read_sources(specs(*"abcd")), progress=heard.append)
    _, report = played(steps, written)
    assert [(each.source, each.place) for each in report.refused] == [
        ("a ToolSpec", "mail/b"), ("a ToolSpec", "mail/a"), ("the request", "[7]"),
        ("a ToolSpec", "mail/c"),
    ]  # fmt: skip
    assert heard[-1].ids == ("mail/d",)


@pytest.mark.parametrize(("names", "server"), [("a", None), ("a", "mail"), ("", None)])
def test_what_fits_into_one_request_is_pruned_there(names, server):
    packed = read_sources(specs(*names))
    (call,), report = played(
        index_tools(packed, prune=True, server=server), Written(IndexReport(removed=("mail/z",)))
    )
    assert (call.body["prune"], call.body.get("server")) == (True, server)
    assert report.removed == ("mail/z",)


def test_of_more_requests_the_rest_is_pruned_when_all_is_in(small_parts):
    steps = index_tools(read_sources(specs(*"abc")), prune=True, server="mail")
    answers = added("a", "b"), added("c"), listed(*specs(*"zacy")), None, UnknownToolError("mail/z")
    calls, report = played(steps, *answers)
    assert named(calls)[2:] == [
        "POST /v1/tools/list", "DELETE /v1/tools/mail/y", "DELETE /v1/tools/mail/z",
    ]  # fmt: skip
    assert calls[2].body["where"] == {"field": "server", "equals": "mail"}
    assert report.removed == ("mail/y", "mail/z")


@pytest.mark.parametrize("kept", [("y", "z"), ()])
def test_nothing_is_pruned_while_anything_is_refused(kept, tmp_path):
    packed = read_sources([*specs("a"), tmp_path / "none.json"])
    calls, report = played(index_tools(packed, prune=True), added("a"), listed(*specs(*kept)))
    assert named(calls) == ["POST /v1/tools", "POST /v1/tools/list"]
    assert report.removed == ()
    told = [each.reason for each in report.refused if each.source == "--prune"]
    why = (
        "2 tools are in no source, but were kept: 1 entries were refused and may stand for them; "
        "mend those and prune again"
    )
    assert told == ([why] if kept else [])


def test_tools_of_no_server_are_not_taken_for_those_of_all(small_parts):
    steps = index_tools(read_sources(specs("a", server="")), prune=True, server="")
    (first, second), _ = played(steps, Written(IndexReport(added=("a",))), listed())
    assert first.body["prune"] is False
    assert second.body["where"] == {"field": "server", "equals": ""}


def test_tools_are_removed_when_all_are_known_to_be_there():
    calls, _ = played(remove_tools(["mail/a", "mail/b"]), *specs("a", "b"), None, None)
    assert named(calls) == [
        "GET /v1/tools/mail/a", "GET /v1/tools/mail/b",
        "DELETE /v1/tools/mail/a", "DELETE /v1/tools/mail/b",
    ]  # fmt: skip


def test_no_tool_is_removed_where_one_is_unknown():
    with pytest.raises(UnknownToolError, match="'mail/b'"):
        played(remove_tools(["mail/a", "mail/b"]), *specs("a"), UnknownToolError("mail/b"))


def test_a_tool_that_is_gone_when_it_is_to_go_is_gone():
    _, result = played(remove_tools(["mail/a"]), *specs("a"), UnknownToolError("mail/a"))
    assert result is None


def test_any_other_failure_ends_the_work():
    with pytest.raises(StoreUnavailableError):
        played(remove_tools(["mail/a"]), *specs("a"), StoreUnavailableError("away"))
    assert indexing.__all__ == ["index_tools", "read_sources", "remove_tools"]
