"""An integration whose framework is not installed says which extra brings it."""

from __future__ import annotations

import importlib
import sys

import pytest

from toolcrib import ToolSpec
from toolcrib.errors import MissingExtraError
from toolcrib.integrations.formats import export
from toolcrib.records.tools import INPUT_EXAMPLES


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("anthropic", "anthropic.types", "anthropic"),
        ("fastmcp", "fastmcp.server.context", "gateway"),
        ("langchain", "langchain.agents.middleware.types", "langchain"),
        ("langgraph", "langgraph.prebuilt", "langgraph"),
        ("llama_index", "llama_index.core.objects", "llama-index"),
        ("openai_agents", "agents", "openai-agents"),
        ("pydantic_ai", "pydantic_ai.messages", "pydantic-ai"),
    ],
)
def test_the_extra_is_named(monkeypatch, module, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"toolcrib.integrations.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=rf"toolcrib\[{extra}\]"):
        importlib.import_module(f"toolcrib.integrations.{module}")


def test_input_examples_name_the_extra_that_checks_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.delitem(sys.modules, "toolcrib.integrations.arguments", raising=False)
    tool = ToolSpec(name="send", annotations={INPUT_EXAMPLES: [{"to": "Ana"}]})
    with pytest.raises(MissingExtraError, match=r"toolcrib\[gateway\]"):
        export([tool], "anthropic")
