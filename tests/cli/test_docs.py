"""`toolcrib docs` and `toolcrib schema`."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from jsonschema import FormatChecker
from typer.testing import CliRunner

from toolcrib.cli.app import app
from toolcrib.errors import QueryError

ROOT = Path(__file__).resolve().parents[2]


def printed(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_every_page_of_the_manual_is_a_topic():
    topics = json.loads(printed("docs", "--json"))
    pages = {path.relative_to(ROOT / "docs").with_suffix("") for path in ROOT.glob("docs/**/*.md")}
    assert set(topics) == {page.as_posix() for page in pages}
    assert all(topics.values())


@pytest.mark.parametrize("topic", ["gateway", "how-to/gateway", "docs/how-to/gateway.md"])
def test_a_topic_is_found_with_and_without_its_folder(topic):
    assert printed("docs", topic).startswith("# Put the gateway before MCP servers")


def test_an_unknown_topic_names_the_nearest():
    done = CliRunner().invoke(app, ["docs", "gatway"])
    assert isinstance(done.exception, QueryError)
    assert "'gateway'" in str(done.exception)


@pytest.mark.parametrize("kind", ["settings", "toolspec", "overlay", "mcp"])
def test_a_schema_is_one_that_validators_take(kind):
    # Patterns are JavaScript's, which Python's own regular expressions do not all read.
    schema = json.loads(printed("schema", kind))
    jsonschema.Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))


@pytest.mark.parametrize("rerank", ["llm", {"depth": 5}])
def test_the_schema_of_settings_takes_both_forms_of_rerank(rerank):
    validator = jsonschema.Draft202012Validator(json.loads(printed("schema", "settings")))
    assert validator.is_valid({"rerank": rerank})
    assert not validator.is_valid({"rerank": {"dept": 5}})


def test_the_schema_of_a_tool_takes_a_tool_and_no_other_type():
    schema = json.loads(printed("schema", "toolspec"))
    jsonschema.validate({"id": "a/b", "name": "b", "description": "B."}, schema)
    with pytest.raises(jsonschema.ValidationError, match="name"):
        jsonschema.validate({"id": "a/b", "name": 5}, schema)


def test_the_schema_of_an_overlay_takes_every_name_of_a_field():
    schema = json.loads(printed("schema", "overlay"))
    overlay = "tools: {'mail/*': {cost: 1, avg_latency_ms: 5, examples: [write], not_for: [call]}}"
    jsonschema.validate(yaml.safe_load(overlay), schema)
    with pytest.raises(jsonschema.ValidationError, match="price"):
        jsonschema.validate({"tools": {"mail/*": {"price": 1}}}, schema)


def test_the_schema_of_an_mcp_json_takes_what_hosts_write_and_no_other_type():
    schema = json.loads(printed("schema", "mcp"))
    entry = {
        "httpUrl": "https://example.com/mcp",
        "headers": {"X-Team": "a", "X-Number": 1},
        "excludeTools": ["drop_*"],
        "alwaysAllow": ["read"],
        "toolcrib": {"tags": ["out"], "sensitivity": "internal"},
    }
    jsonschema.validate({"mcpServers": {"tickets": entry}, "inputs": []}, schema)
    jsonschema.validate({"servers": {"clock": {"command": "c", "args": [1], "env": {}}}}, schema)
    for wrong in (
        {"args": "-v"},
        {"disabledTools": "drop"},
        {"toolcrib": {"tag": ["out"]}},
        {"toolcrib": {"sensitivity": "none"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"mcpServers": {"clock": {"command": "c", **wrong}}}, schema)
