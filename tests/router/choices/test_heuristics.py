"""Without a model turns are sent by what they say, measured on labelled ones."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from toolcrib.build import make_agents
from toolcrib.context.cues import load_cues
from toolcrib.records import KnowledgeResult, Message, PassageHit, Turn
from toolcrib.router.choices.agents import AgentRouter, PendingTarget
from toolcrib.router.choices.allowlist import load_allowlist
from toolcrib.router.choices.evidence import EvidenceReader
from toolcrib.router.choices.targets import load_targets
from toolcrib.router.settings import AgentSettings
from toolcrib.settings import Settings

LABELLED = Path(__file__).parents[3] / "data" / "agents.jsonl"
LEAST = {"dev": 0.97, "test": 0.85}

INVOICE = {"name": "invoice_12.pdf", "mime": "application/pdf"}


@pytest.fixture(scope="module")
def router() -> AgentRouter:
    return make_agents(Settings(agents=AgentSettings(targets="preset")))


@pytest.mark.parametrize("split", LEAST)
def test_labelled_turns_go_where_they_should(router, split):
    right = []
    for row in map(json.loads, LABELLED.read_text().splitlines()):
        if row["split"] == split:
            fields = {"text", "history", "attachments"} & row.keys()
            made, _ = router.route(Turn.model_validate({field: row[field] for field in fields}))
            right.append(made.target == row["labels"]["agent"])
    assert sum(right) / len(right) >= LEAST[split]


@pytest.mark.parametrize(
    ("turn", "target", "signals"),
    [
        (Turn(text="thanks, now show me the orders of May"), "analytics", {"allowlist:orders"}),
        (Turn(text="SELECT 1 FROM orders"), "analytics", {"sql_probe_true"}),
        (Turn(text="book this", attachments=[INVOICE]), "commerce", {"attachment_present"}),
        (Turn(text="obrigado, até amanhã!"), "triage", set()),
        (Turn(text="o que você sabe fazer?"), "triage", {"meta_question_capabilities"}),
        (Turn(text="how do I use you?"), "triage", {"meta_question", "meta_question_usage"}),
        (Turn(text="", attachments=[INVOICE]), "commerce", {"attachment_mime:application/pdf"}),
        (Turn(text="?!"), "triage", set()),
    ],
    ids=lambda value: getattr(value, "text", None),
)
def test_what_is_noticed_is_said(router, turn, target, signals):
    made, _ = router.route(turn)
    assert made.target == target
    assert signals <= set(made.signals)


def test_a_follow_up_goes_where_the_turn_before_went(router):
    before = Message(content="Total sales in May please"), Message(role="assistant", content="1,2")
    made, _ = router.route(Turn(text="e isso por loja?", history=before))
    assert made.target == "analytics"
    assert "conversation_follow_up" in made.signals


OFFICE = """
targets: {billing: {description: Invoices.}, human: {description: Everything else.}}
fallback: human
always: {human: 1.0}
cues: {money: [invoice, refund]}
heuristics: [{target: billing, if: money, weight: 3.0}]
"""


def test_a_weight_without_condition_counts_once_in_a_follow_up(tmp_path):
    file = tmp_path / "targets.yaml"
    file.write_text(OFFICE)
    office = make_agents(Settings(agents=AgentSettings(targets=str(file))))
    before = (Message(content="where is my refund?"), Message(role="assistant", content="Sent."))
    made, _ = office.route(Turn(text="has it come by now?", history=before))
    assert made.target == "billing"


def test_passages_found_are_evidence(router):
    hit = PassageHit("guides", "glass.md", "Lids crack", "Lids", 0, 0)
    found = KnowledgeResult(passages=(hit,) * 7, fit=0.8)
    made, _ = router.route(Turn(text="thermal shock, glass lids", thread_id="t1"), found)
    assert made.target == "knowledge"
    assert made.thread_id == "t1"
    assert {"rag_probe_hit", "rag_hits:5"} <= set(made.signals)


@pytest.mark.parametrize(
    ("time_s", "read", "late"),
    [(9.0, {"sql", "follow_up"}, False), (1.5, {"sql"}, True), (0.0, set(), True)],
)
def test_probes_that_there_is_no_time_for_are_left_out_and_it_says_so(time_s, read, late):
    ticks = itertools.count()
    given = load_targets(), load_allowlist(), load_cues()
    reader = EvidenceReader(*given, now=lambda: float(next(ticks)))
    before = (Message(content="Total sales in May please"),)
    evidence = reader.read(Turn(text="SELECT id FROM orders;", history=before), time_s)
    assert evidence.facts & {"sql", "follow_up"} == read
    assert evidence.late is late
    _, failed = AgentRouter(reader, given[0], AgentSettings()).finish(
        PendingTarget(Turn(), evidence)
    )
    assert failed == (("probes",) if late else ())
