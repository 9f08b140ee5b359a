"""Public data sets: rows of the hub become data sets, and its absence a clear error."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from typing import ClassVar

import pytest

from toolcrib.errors import MissingExtraError, SourceError
from toolcrib.evaluation.loaders import HUB_SETS, load, load_from_hub


def document(**fields):
    return json.dumps(fields)


def labels(**grades):
    return json.dumps([{"id": i, "doc": {}, "relevance": grade} for i, grade in grades.items()])


def rows_of(tables):
    """Give hand-made rows by configuration and name of the rows; other tables are empty."""
    return lambda table: tables.get((table.config, table.rows), [])


TOOLRET = {
    ("web", "tools"): [
        {
            "id": "bank_1",
            "documentation": document(
                name="transfer",
                description="Send money.",
                parameters={"amount": {"type": "float"}, "note": "free"},
            ),
        },
        {"id": "bank_2", "documentation": document(functionality="Balance", domain="Banking")},
        {"id": "bank_3", "documentation": "not JSON at all"},
    ],
    ("code", "tools"): [
        {
            "id": "model_1",
            "documentation": document(
                api_name="bert",
                description="Embeds text.",
                api_arguments={"type": "object", "properties": {"text": {}}},
            ),
        },
    ],
    ("apibank", "queries"): [
        {"id": "q1", "query": "pay Ada", "instruction": "", "labels": labels(bank_1=1, bank_2=0)},
        {"id": "q2", "query": "", "instruction": "", "labels": labels(bank_2=1)},
        {"id": "q3", "query": "how rich am I", "instruction": "", "labels": "broken"},
    ],
    ("toolink", "queries"): [
        {"id": "q4", "query": "vectors, please", "labels": labels(model_1=1, bank_2=1)},
    ],
}


def test_documents_of_toolret_become_tools():
    data = load_from_hub("toolret", rows_of(TOOLRET))
    bert, transfer, balance, text = data.tools
    assert (transfer.id, transfer.name, transfer.description, transfer.category) == (
        "bank_1",
        "transfer",
        "Send money.",
        "web",
    )
    assert transfer.input_schema == {"type": "object", "properties": {"amount": {"type": "float"}}}
    assert (bert.name, bert.input_schema["properties"]) == ("bert", {"text": {}})
    assert (balance.name, balance.description) == (
        "bank_2",
        '{"functionality": "Balance", "domain": "Banking"}',
    )
    assert (text.description, text.input_schema) == ("not JSON at all", {})


def test_labels_of_toolret_become_grades():
    data = load_from_hub("toolret", rows_of(TOOLRET))
    assert [(q.id, q.split, dict(q.relevant)) for q in data.queries] == [
        ("q4", "test", {"model_1": 1.0, "bank_2": 1.0}),
        ("q1", "test", {"bank_1": 1.0}),
    ]
    assert data.notes == (
        (
            "queries left out: 2 (ToolRet-Queries: id q2: text: empty; ToolRet-Queries: id q3: "
            "answerable: true, although relevant names no tool)"
        ),
    )


def test_a_part_of_toolret_has_its_own_tools_and_tasks():
    data = load_from_hub("toolret-web", rows_of(TOOLRET))
    assert {tool.category for tool in data.tools} == {"web"}
    assert [query.id for query in data.queries] == ["q1"]


def test_toolret_has_its_35_tasks_each_once():
    tasks = [table.config for table in HUB_SETS["toolret"].queries]
    assert len(tasks) == len(set(tasks)) == 35
    parts = [HUB_SETS[f"toolret-{part}"] for part in ("code", "customized", "web")]
    assert sum(len(part.queries) for part in parts) == 35
    assert [table.config for table in HUB_SETS["metatool"].queries] == ["metatool"]
    assert "metatool" in [table.config for table in HUB_SETS["toolret-customized"].queries]


def test_utterances_become_queries_and_their_labels_tools():
    tables = {
        ("plus", "train"): [
            {"text": "say it in French", "intent": "translate"},
            {"text": "who won", "intent": "oos"},
        ],
        ("plus", "validation"): [{"text": "wake me", "intent": "alarm_set"}],
        ("plus", "test"): [{"text": "adieu", "intent": "translate"}, {"text": "unlabelled"}],
    }
    data = load_from_hub("clinc150", rows_of(tables))
    assert data.kind == "intents"
    assert [(tool.id, tool.description) for tool in data.tools] == [
        ("translate", "translate"),
        ("alarm_set", "alarm set"),
    ]
    assert [(q.id, q.split, q.answerable, q.unanswerable_scope) for q in data.queries] == [
        ("train-0", "train", True, ""),
        ("train-1", "train", False, "corpus"),
        ("dev-0", "dev", True, ""),
        ("test-0", "test", True, ""),
    ]
    assert data.notes == (
        (
            "queries left out: 1 (clinc_oos: test: row 1: "
            "answerable: true, although relevant names no tool)"
        ),
    )


def test_banking77_says_its_labels_in_words():
    tables = {
        (None, "train"): [{"text": "where is it", "label": 11, "label_text": "card_arrival"}],
        (None, "test"): [{"text": "still nothing", "label": 11, "label_text": "card_arrival"}],
    }
    data = load_from_hub("banking77", rows_of(tables))
    assert [query.relevant for query in data.queries] == [{"card_arrival": 1.0}] * 2


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match="data set 'toolret' from the hub") as caught:
        load("toolret")
    assert caught.value.extra == "hub"


class Names(list):
    """A column of class labels, as far as the loader looks at it."""

    names = ("alarm_set", "oos")

    def int2str(self, number):
        return self.names[number]


class Loaded(list):
    features: ClassVar = {"text": "string", "intent": Names()}


@pytest.fixture
def hub(monkeypatch):
    """The loader's place, for what no machine without a network can show."""
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("datasets", None))
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_class_labels_are_read_as_their_names(hub):
    asked = []

    def load_dataset(repo, config, *, split, revision):
        asked.append((repo, config, split, revision))
        return Loaded([{"text": f"{split}: ring at six", "intent": 0}])

    hub.load_dataset = load_dataset
    data = load("clinc150")
    assert [tool.id for tool in data.tools] == ["alarm_set"]
    assert [query.split for query in data.queries] == ["train", "dev", "test"]
    assert asked[1] == ("clinc/clinc_oos", "plus", "validation", None)


def test_a_hub_that_is_away_is_an_error_that_says_what_to_do(hub):
    def load_dataset(*_, **__):
        raise ConnectionError("Couldn't reach it\nlong trace")

    hub.load_dataset = load_dataset
    with pytest.raises(SourceError) as caught:
        load("metatool")
    assert str(caught.value) == (
        "hub:mangopy/ToolRet-Tools: customized: cannot be loaded (Couldn't reach it); check that "
        "the hub is reachable, or name a folder with the data"
    )


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("datasets") is None, reason="the extra hub is absent")
def test_the_real_loader_without_a_network_is_an_error(tmp_path):
    code = "from toolcrib.evaluation.loaders import load; load('banking77')"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert "SourceError: hub:mteb/banking77: cannot be loaded (" in done.stderr
