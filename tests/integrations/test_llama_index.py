"""LlamaIndex's agents get the tools of what is asked, and its engines the passages."""

from __future__ import annotations

import pytest
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool

from tests.router.conftest import TOOLS
from toolcrib import Scope
from toolcrib.integrations.llama_index import (
    ToolcribNodeRetriever,
    ToolcribObjectRetriever,
    tool_spec,
)

GLASS = "how is glass in a parcel wrapped?"


def act(to: str) -> str:
    return f"done for {to}"


def tools(*more: str) -> list[FunctionTool]:
    named = [FunctionTool.from_defaults(act, spec.name, spec.description) for spec in TOOLS]
    return [*named, *(FunctionTool.from_defaults(act, name, "Something.") for name in more)]


def names(found) -> list[str]:
    return [tool.metadata.name for tool in found]


async def test_tools_come_for_what_is_asked(desk):
    retriever = ToolcribObjectRetriever(desk, tools("ponder"), k=1)
    assert names(retriever.retrieve("send a mail to Ana")) == ["ponder", "send_mail"]
    assert names(await retriever.aretrieve(QueryBundle("track a parcel"))) == [
        "ponder",
        "track_parcel",
    ]
    assert names(retriever.retrieve("")) == ["ponder"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # what its workflows look at
async def test_an_agent_takes_it_as_its_retriever_of_tools(desk):
    agent = FunctionAgent(
        llm=MockFunctionCallingLLM(),
        tool_retriever=ToolcribObjectRetriever(desk, tools(), k=1),
    )
    assert names(await agent.get_tools("send a mail to Ana")) == ["send_mail"]


def test_what_comes_after_retrieval_is_called(desk):
    class Last:
        def postprocess_nodes(self, nodes, query_bundle=None):
            assert nodes[0].score > 0
            return nodes[-1:]

    retriever = ToolcribObjectRetriever(desk, tools(), node_postprocessors=[Last()])
    assert names(retriever.retrieve("send a mail to Ana")) == ["read_mail"]


def test_a_tool_can_be_indexed():
    spec = tool_spec(tools()[0])
    assert (spec.name, spec.description) == ("send_mail", "Send a mail to somebody.")
    assert spec.input_schema["properties"]["to"]["type"] == "string"


@pytest.mark.parametrize("scope", [None, Scope(collections=frozenset())])
async def test_passages_are_nodes_with_their_places(office, scope):
    retriever = ToolcribNodeRetriever(office, k=1, scope=scope)
    found = retriever.retrieve(GLASS)
    assert [each.text for each in found] == [
        "Glass in a parcel is wrapped in paper twice." for _ in range(scope is None)
    ]
    assert {each.metadata["citation"] for each in found} <= {"glass.md, part 1"}
    assert [each.node_id for each in await retriever.aretrieve(GLASS)] == [
        each.node_id for each in found
    ]
