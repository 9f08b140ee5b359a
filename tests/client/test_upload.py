"""Uploads: one request for all of it, told of while it is worked on."""

from __future__ import annotations

import json

import pytest

from tests.client.faulty import answer, drop, problem
from toolcrib import Passage, ToolSpec
from toolcrib.client import RemoteCrib
from toolcrib.errors import ServiceError, StoreError
from toolcrib.records import IndexReport

KIND = "application/jsonl"
REPORT = {
    "added": 1, "changed": 0, "removed": 0, "unchanged": 0, "refused": [],
    "ids": {"added": ["mail/send"], "changed": [], "removed": [], "unchanged": []},
}  # fmt: skip
SEND = ToolSpec(name="send", server="mail")


def lines(*told):
    return answer(200, "".join(json.dumps(each) + "\n" for each in told), KIND)


def entries(faulty):
    return [json.loads(line)[1] for line in faulty.arrived[0].body.splitlines()]


@pytest.fixture
def crib(faulty):
    with RemoteCrib(faulty.url) as made:
        yield made


def test_tools_go_in_one_request_with_where_they_came_from(faulty, crib, tmp_path):
    faulty.script.append(lines({"report": REPORT}))
    missing = tmp_path / "none.json"
    report = crib.index_tools(SEND, missing, prune=True, server="mail")
    assert report == IndexReport(added=("mail/send",))
    (request,) = faulty.arrived
    assert request.path == "/v1/tools?prune=true&server=mail"
    assert request.headers["content-type"] == KIND
    tool, reply_failure = map(json.loads, request.body.splitlines())
    assert (tool[0], tool[1]["id"]) == ("a ToolSpec", "mail/send")
    assert reply_failure[1]["source"] == str(missing)


def test_passages_bring_their_collections(faulty, crib):
    faulty.script.append(lines({"report": REPORT}))
    crib.index_passages([Passage("rules", "a.md", "One."), Passage("wards", "b.md", "Two.")])
    assert [each["collection"] for each in entries(faulty)] == ["rules", "wards"]


def test_progress_is_told_as_it_comes(faulty, crib):
    heard = []
    steps = [{"progress": {"done": n, "total": 2, "ids": [], "stage": "write"}} for n in range(3)]
    faulty.script.append(lines(*steps, {"report": REPORT}))
    crib.index_tools(SEND, progress=heard.append)
    assert [(each.done, each.total) for each in heard] == [(0, 2), (1, 2), (2, 2)]


FULL = {"type": "urn:toolcrib:problem:store", "status": 500, "detail": "full"}


@pytest.mark.parametrize(
    "fault", [lines({"problem": FULL}), problem("store", 500, "full")], ids=["amid", "before"]
)
def test_what_fails_is_raised(faulty, crib, fault):
    faulty.script.append(fault)
    with pytest.raises(StoreError, match="full"):
        crib.index_tools(SEND)


@pytest.mark.parametrize("fault", [drop, lines({"progress": None})])
def test_a_broken_upload_is_sent_again(faulty, crib, fault):
    faulty.script += [fault, lines({"report": REPORT})]
    assert crib.index_tools(SEND).added == ("mail/send",)


@pytest.mark.parametrize(
    "wrong",
    [lines(), answer(200, "<html>", "text/html"), answer(200, "{", KIND)],
    ids=["nothing", "a page", "half a line"],
)
def test_what_is_never_an_answer_of_a_service_is_told(faulty, crib, wrong):
    faulty.script += [wrong] * 4
    with pytest.raises(ServiceError, match=r"broke off an upload|is not toolcrib"):
        crib.index_tools(SEND)


def nested(depth):
    found = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (ToolSpec(name="bad", description="half \ud800"), "holds half of a surrogate pair"),
        (ToolSpec(name="bad", annotations=nested(199)), "cannot be sent: recursion limit"),
        (Passage("rules", "half \ud800.md", "x", position=3), "holds half a character"),
    ],
)
def test_what_cannot_be_sent_goes_as_a_refusal_and_keeps_nothing_out(faulty, crib, bad, said):
    faulty.script.append(lines({"report": REPORT}))
    if isinstance(bad, Passage):
        crib.index_passages([bad, Passage("rules", "a.md", "One.")])
    else:
        crib.index_tools(bad, SEND)
    sent = entries(faulty)
    (refused,) = (item for item in sent if "reason" in item)
    assert len(sent) == 2
    assert said in refused["reason"]
