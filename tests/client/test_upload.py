"""Uploads: one request for all of it, told of while it is worked on."""

from __future__ import annotations

import json

import pytest

from tests.client.faulty import answer, drop, problem
from toolcrib import Passage, ToolSpec
from toolcrib.client import RemoteCrib
from toolcrib.errors import ForbiddenError, ServiceError, ServiceUnavailableError, StoreError
from toolcrib.records import IndexReport

KIND = "application/jsonl"
REPORT = {
    "added": 1, "changed": 0, "removed": 0, "unchanged": 0, "refused": [],
    "ids": {"added": ["mail/send"], "changed": [], "removed": [], "unchanged": []},
}  # fmt: skip
SEND = ToolSpec(name="send", server="mail")


def lines(*told):
    return answer(200, "".join(json.dumps(each) + "\n" for each in told), KIND)


@pytest.fixture
def crib(faulty):
    with RemoteCrib(faulty.url) as made:
        yield made


def test_tools_go_in_one_request_with_where_they_came_from(faulty, crib, tmp_path):
    faulty.script.append(lines({"report": REPORT}))
    missing = tmp_path / "none.json"
    report = crib.index_tools(SEND, missing, prune=True, server="mail")
    assert report == IndexReport(added=("mail/send",))
    (request,) = faulty.record.arrived
    assert request.path == "/v1/tools?prune=true&server=mail"
    assert request.headers["content-type"] == KIND
    tool, reply_failure = map(json.loads, request.body.splitlines())
    assert (tool[0], tool[1]["id"]) == ("a ToolSpec", "mail/send")
    assert reply_failure[1]["source"] == str(missing)


def test_passages_bring_their_collections(faulty, crib):
    faulty.script.append(lines({"report": REPORT}))
    crib.index_passages([Passage("rules", "a.md", "One."), Passage("wards", "b.md", "Two.")])
    sent = [json.loads(line)[1] for line in faulty.record.arrived[0].body.splitlines()]
    assert [each["collection"] for each in sent] == ["rules", "wards"]


def test_progress_is_told_as_it_comes(faulty, crib):
    heard = []
    steps = [{"progress": {"done": n, "total": 2, "ids": [], "stage": "write"}} for n in range(3)]
    faulty.script.append(lines(*steps, {"report": REPORT}))
    crib.index_tools(SEND, progress=heard.append)
    assert [(each.done, each.total) for each in heard] == [(0, 2), (1, 2), (2, 2)]


def test_what_fails_in_the_middle_is_raised(faulty, crib):
    failed = {"type": "urn:toolcrib:problem:store", "status": 500, "detail": "full"}
    faulty.script.append(lines({"problem": failed}))
    with pytest.raises(StoreError, match="full"):
        crib.index_tools(SEND)


def test_what_fails_before_is_raised_too(faulty, crib):
    faulty.script.append(problem("forbidden", 403))
    with pytest.raises(ForbiddenError):
        crib.index_tools(SEND)


@pytest.mark.parametrize("fault", [drop, lines({"progress": None})])
def test_a_broken_upload_is_sent_again(faulty, crib, fault):
    faulty.script += [fault, lines({"report": REPORT})]
    assert crib.index_tools(SEND).added == ("mail/send",)


def test_one_that_breaks_always_is_told(faulty, crib):
    faulty.script += [lines()] * 4
    with pytest.raises(ServiceError, match="broke off an upload"):
        crib.index_tools(SEND)


@pytest.mark.parametrize("wrong", [answer(200, "<html>", "text/html"), answer(200, "{", KIND)])
def test_what_is_no_answer_of_a_service_is_not_taken_for_one(faulty, crib, wrong):
    faulty.script += [wrong] * 4
    with pytest.raises((ServiceError, ServiceUnavailableError)):
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
    sent = [json.loads(line)[1] for line in faulty.record.arrived[0].body.splitlines()]
    (refused,) = (item for item in sent if "reason" in item)
    assert len(sent) == 2
    assert said in refused["reason"]
