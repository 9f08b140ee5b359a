"""A model is asked once a tool, what it says is judged, and nothing that came is lost."""

from __future__ import annotations

import asyncio
import errno
import json

import pytest

from toolcrib import Settings, ToolSpec, build
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import LanguageModelRefusedError, SourceError
from toolcrib.indexers.enricher import (
    ENRICHMENT_PROMPT_VERSION,
    MAX_FAILURES_IN_A_ROW,
    SIBLINGS_PER_PROMPT,
    Enricher,
    EnrichmentFile,
    current_lines,
    questions,
)
from toolcrib.indexers.enrichment import EnrichmentLine
from toolcrib.indexers.points import dense_text
from toolcrib.language_models import LanguageModel
from toolcrib.language_models.testing import ChatServer, faulty_share

TOOLS = [
    ToolSpec(name=f"tool_{n}", server="s", description=f"Does thing number {n}.") for n in range(24)
]
ANSWER = {
    "purpose": "For whoever wants it done.",
    "examples": ["do it", "please use s/tool_3 for it"],
    "not_for": ["the other thing"],
    "safety_tags": ["writes"],
    "goes_with": ["s/tool_3"],
}


@pytest.fixture
def run(tmp_path):
    """Ask a server for what is missing of tools, with the file of the test."""

    def asked(server, tools=TOOLS, model="double"):
        settings = Settings.model_validate({"llm": {**server.settings, "model": model}})
        chat = build.language_model(settings, "enrich")
        file = EnrichmentFile(tmp_path / "enrichment.jsonl")
        with file.locked():
            current = current_lines(tools, file.read(), model)
            enricher = Enricher(tools, file, chat)
            return asyncio.run(enricher.run(questions(tools, DeterministicEncoder(), current)))

    return asked


def lines(tmp_path):
    text = (tmp_path / "enrichment.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_each_tool_is_asked_for_once_beside_its_siblings_and_judged(run, tmp_path):
    with ChatServer(ANSWER) as server:
        report = run(server)
        assert len(server.requests) == len(TOOLS)
        assert run(server).written == {}
        assert len(server.requests) == len(TOOLS)
    written = lines(tmp_path)
    assert sorted(each["id"] for each in written) == sorted(tool.id for tool in TOOLS)
    assert next(each for each in written if each["id"] == "s/tool_0") == {
        "id": "s/tool_0",
        "digest": TOOLS[0].digest,
        "purpose": ANSWER["purpose"],
        "examples": ["do it"],
        "not_for": ["the other thing"],
        "safety_tags": ["writes"],
        "goes_with": ["s/tool_3"],
        "model": "double",
        "prompt": ENRICHMENT_PROMPT_VERSION,
    }
    assert len(report.dropped) == len(TOOLS) - 1
    assert {each.place for each in report.dropped} == {t.id for t in TOOLS} - {"s/tool_3"}
    data = json.loads(server.requests[0].messages[-1].content)
    assert len(data["siblings"]) == SIBLINGS_PER_PROMPT
    assert data["tool"]["name"] not in {each["name"] for each in data["siblings"]}
    others = {tool.id for tool in TOOLS} - {f"s/{data['tool']['name']}"}
    assert data["server_tools"].keys() == others


def test_only_what_changed_is_asked_for_again(run, tmp_path):
    by_hand = EnrichmentLine(id="s/tool_1", purpose="By hand.")
    EnrichmentFile(tmp_path / "enrichment.jsonl").add(by_hand)
    with ChatServer(ANSWER) as server:
        assert set(run(server).written) == {tool.id for tool in TOOLS} - {"s/tool_1"}
        changed = [TOOLS[0].model_copy(update={"description": "Another."}), *TOOLS[1:5]]
        assert set(run(server, changed).written) == {"s/tool_0"}
        assert set(run(server, changed[:3], "other").written) == {"s/tool_0", "s/tool_2"}
    written = {each["id"]: each for each in lines(tmp_path)}
    assert len(written) == len(TOOLS)
    assert written["s/tool_0"]["digest"] == changed[0].digest
    assert written["s/tool_1"]["purpose"] == "By hand."


def test_a_server_that_misbehaves_costs_no_answer_that_came(run, tmp_path):
    with ChatServer(ANSWER, faulty_share(0.3, kinds=("error", "garbage", "busy"))) as server:
        report = run(server)
        assert len(report.written) + len(report.failed) == len(TOOLS)
        left = {each.place for each in report.failed}
    with ChatServer(ANSWER) as server:
        assert set(run(server).written) == left
        assert len(server.requests) == len(left)
    assert sorted(each["id"] for each in lines(tmp_path)) == sorted(tool.id for tool in TOOLS)


def test_a_server_that_refuses_all_is_not_asked_for_every_tool(run):
    with ChatServer(ANSWER, refuses=("tool", "schema", "text")) as server:
        report = run(server)
        assert report.written == {}
        assert len(report.failed) < len(TOOLS)


def test_an_unfinished_line_is_asked_for_again_and_one_that_lacks_its_end_is_not(run, tmp_path):
    path = tmp_path / "enrichment.jsonl"
    with ChatServer(ANSWER) as server:
        run(server, TOOLS[:3])
        last = json.loads(path.read_text().splitlines()[-1])["id"]
        path.write_bytes(path.read_bytes()[:-20])
        assert set(run(server, TOOLS[:3]).written) == {last}
        path.write_bytes(path.read_bytes().rstrip())
        assert set(run(server, TOOLS[:3]).written) == set()
    assert len(lines(tmp_path)) == len(TOOLS[:3])


def test_what_others_wrote_stays_as_it_is(run, tmp_path):
    of_staging = {"id": "s/tool_0", "digest": "other", "purpose": "v2", "note": "reviewed by me"}
    before = json.dumps(of_staging) + "\nno line at all\n"
    path = tmp_path / "enrichment.jsonl"
    path.write_text(before)
    with ChatServer(ANSWER) as server:
        assert set(run(server, TOOLS[:1]).written) == {"s/tool_0"}
    assert path.read_text().startswith(before)


def test_siblings_are_the_nearest(monkeypatch):
    monkeypatch.setattr("toolcrib.indexers.enricher.SIBLING_SEARCH_ROWS", 5)
    dense = DeterministicEncoder()
    vectors = dense.encode_documents([dense_text(tool) for tool in TOOLS])
    found = questions(TOOLS, dense, known=[TOOLS[3].id])
    assert [each.spec for each in found] == [*TOOLS[:3], *TOOLS[4:]]
    for each in found:
        own = TOOLS.index(each.spec)
        likeness = {tool.id: vectors[own] @ vectors[n] for n, tool in enumerate(TOOLS) if n != own}
        least = sorted(likeness.values())[-SIBLINGS_PER_PROMPT]
        assert len(each.siblings) == SIBLINGS_PER_PROMPT
        assert all(likeness[sibling.id] >= least - 1e-6 for sibling in each.siblings)
    [alone] = questions(TOOLS[:1], dense)
    assert alone.siblings == ()


def test_a_server_that_says_when_to_come_back_is_waited_for(run, monkeypatch):
    asked = []

    async def ask(_model, _use, messages, shape):
        asked.append(messages)
        if len(asked) <= MAX_FAILURES_IN_A_ROW // 2:
            raise LanguageModelRefusedError("busy", retry_after_s=0.0)
        return shape(**ANSWER)

    monkeypatch.setattr(LanguageModel, "ask", ask)
    with ChatServer() as server:
        assert len(run(server, TOOLS[:1]).written) == 1


def test_a_disk_that_refuses_leaves_no_half_a_line(tmp_path, monkeypatch):
    file = EnrichmentFile(tmp_path / "enrichment.jsonl")
    file.add(EnrichmentLine(id="a", purpose="whole"))
    before = file.path.read_bytes()

    def full(_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SourceError, match="cannot be written"):
        file.add(EnrichmentLine(id="b", purpose="lost"))
    assert file.path.read_bytes() == before


def test_two_runs_do_not_write_one_file(tmp_path):
    file = EnrichmentFile(tmp_path / "enrichment.jsonl")
    other = EnrichmentFile(tmp_path / "enrichment.jsonl")
    with file.locked(), pytest.raises(SourceError, match="another"), other.locked():
        pass
    assert list(tmp_path.iterdir()) == []
