"""LlamaIndex's agents get the tools of what is asked, and its engines the passages."""

from __future__ import annotations

from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from pydantic import BaseModel, Field

from tests.router.conftest import TOOLS
from toolcrib import Scope
from toolcrib.integrations.llama_index import (
    ToolcribFunctionAgent,
    ToolcribNodeRetriever,
    ToolcribObjectRetriever,
    tool_spec,
)
from toolcrib.integrations.selection import StepCost, StepOptions

LOOKED_AT = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""What LlamaIndex's workflows look at of their own."""

MAIL = "send a mail to Ana"
GLASS = "how is glass in a parcel wrapped?"


def tools(*more: str, called: list[str] | None = None) -> list[FunctionTool]:
    """The house's tools and more; whom they are called for is noted."""

    def act(to: str) -> str:
        if called is not None:
            called.append(to)
        return f"done for {to}"

    described = {spec.name: spec.description for spec in TOOLS} | dict.fromkeys(more, "Something.")
    return [FunctionTool.from_defaults(act, name, text) for name, text in described.items()]


def names(found) -> list[str]:
    return [tool.metadata.name for tool in found]


async def test_tools_come_for_what_is_asked(desk):
    retriever = ToolcribObjectRetriever(desk, tools("ponder"), k=1)
    assert names(retriever.retrieve(MAIL)) == ["ponder", "send_mail"]
    found = await retriever.aretrieve(QueryBundle("track a parcel"))
    assert names(found) == ["ponder", "track_parcel"]
    assert names(retriever.retrieve("")) == ["ponder"]


def test_every_tool_is_found_by_its_name_within_the_scope(desk):
    """An agent retrieves by the name of a called tool to make the call."""
    retriever = ToolcribObjectRetriever(desk, tools("hello"), k=1)
    every = [*(spec.name for spec in TOOLS), "hello"]
    assert [names(retriever.retrieve(name)) for name in every] == [[name] for name in every]
    post = ToolcribObjectRetriever(desk, tools(), scope=Scope(servers=frozenset({"post"})))
    assert names(post.retrieve("send_mail")) == []


@LOOKED_AT
async def test_an_agent_takes_it_as_its_retriever_of_tools(desk):
    agent = FunctionAgent(
        llm=MockFunctionCallingLLM(), tool_retriever=ToolcribObjectRetriever(desk, tools(), k=1)
    )
    assert names(await agent.get_tools(MAIL)) == ["send_mail"]


def test_what_comes_after_retrieval_is_called(desk):
    class Last:
        def postprocess_nodes(self, nodes, query_bundle=None):
            assert nodes[0].score > 0
            return nodes[-1:]

    retriever = ToolcribObjectRetriever(desk, tools(), node_postprocessors=[Last()])
    assert names(retriever.retrieve(MAIL)) == ["read_mail"]


# -- an agent that follows the steps ---------------------------------------------------------------


class Script:
    """Answers of a model in turn; remembers the names of the tools that it was given."""

    def __init__(self, *answers: ChatMessage) -> None:
        self._answers = list(answers)
        self.seen: list[tuple[str, ...]] = []
        self.schemas: list[dict[str, Any]] = []

    def __call__(self, messages, **given):
        offered = given.get("tools") or []
        self.seen.append(tuple(tool.metadata.get_name() for tool in offered))
        self.schemas = [tool.metadata.get_parameters_dict() for tool in offered]
        return self._answers.pop(0)


def answer(text: str, **calls: dict[str, Any]) -> ChatMessage:
    """What a model writes, and the calls that it makes."""
    blocks = [
        ToolCallBlock(tool_call_id=name, tool_name=name, tool_kwargs=given)
        for name, given in calls.items()
    ]
    return ChatMessage(role="assistant", blocks=[TextBlock(text=text), *blocks])


def made(desk, script: Script, own=None, **options: Any) -> ToolcribFunctionAgent:
    llm = MockFunctionCallingLLM(response_generator=script)
    return ToolcribFunctionAgent(llm=llm, tools=own or tools(), crib=desk, k=1, **options)


async def ran(desk, script: Script, own=None, **options: Any) -> str:
    """What an agent says in the end to one who wants a mail sent."""
    return str(await made(desk, script, own, **options).run(MAIL))


TO = {"to": "Ana"}


@LOOKED_AT
async def test_an_agents_tools_follow_its_steps_and_called_ones_stay(desk):
    script = Script(answer("Then I call track_parcel.", send_mail=TO), answer("sent"))
    steps = StepOptions(first=1, added=1, most=1)
    assert await ran(desk, script, steps=steps) == "sent"
    assert script.seen == [("find_tools", "send_mail"), ("find_tools", "send_mail", "track_parcel")]


@LOOKED_AT
@pytest.mark.parametrize("workflow", [False, True])
async def test_an_agent_finds_a_tool_that_it_lacks_also_in_a_workflow(desk, workflow):
    asked = answer("", find_tools={"needs": ["track a parcel"]})
    script = Script(asked, answer("", track_parcel=TO), answer("there"))
    steps = StepOptions(each=False)
    first, second = (
        made(desk, script, name=name, description=name, steps=steps) for name in ("first", "second")
    )
    agents = AgentWorkflow(agents=[first, second], root_agent="first") if workflow else first
    assert str(await agents.run(MAIL)) == "there"
    assert ["track_parcel" in names for names in script.seen] == [False, True, True]


@LOOKED_AT
async def test_the_tool_that_the_model_must_call_is_among_the_tools(desk):
    script = Script(answer("", track_parcel=TO), answer("there"))
    await ran(desk, script, initial_tool_choice="track_parcel")
    assert "track_parcel" in script.seen[0]


@LOOKED_AT
async def test_a_tool_that_the_turn_does_not_have_is_not_called(desk):
    called: list[str] = []
    script = Script(answer("", track_parcel=TO), answer("", send_mail=TO), answer("no"))
    costs: list[StepCost] = []
    scope = Scope(servers=frozenset({"mail"}))
    steps = StepOptions(each=False, report=costs.append)
    await ran(desk, script, tools(called=called), scope=scope, steps=steps)
    assert called == ["Ana"]
    assert "track_parcel" not in script.seen[1]
    changes = [(cost.shown, cost.added, cost.dropped) for cost in costs]
    assert changes == [(2, 2, 0), (2, 0, 0), (2, 0, 0)]
    assert costs[0].tokens > 0 == costs[1].tokens


@LOOKED_AT
async def test_a_call_gets_the_names_of_the_tools_own_schema_back(desk):
    class Order(BaseModel):
        top: int = Field(alias="$top")

    given: list[dict[str, Any]] = []

    def list_orders(**arguments: Any) -> str:
        given.append(arguments)
        return "three"

    tool = FunctionTool.from_defaults(list_orders, "list_orders", "List.", fn_schema=Order)
    for made in (ToolcribObjectRetriever(desk, [tool]).retrieve(""), [tool]):
        script = Script(answer("", list_orders={"top": 3}), answer("three"))
        await ran(desk, script, made)
        assert list(script.schemas[0]["properties"]) == ["top"]
    assert given == [{"$top": 3}, {"$top": 3}]


@LOOKED_AT
async def test_a_tool_that_takes_the_context_has_a_fitting_schema(desk):
    async def send_mail(ctx, size):
        return f"sent {size} {await ctx.store.get('toolcrib_shown') is not None}"

    # LlamaIndex reads no annotations that are texts.
    send_mail.__annotations__ = {"ctx": Context, "size": tuple[int, int]}
    tool = FunctionTool.from_defaults(async_fn=send_mail)
    script = Script(answer("", send_mail={"size": [1, 2]}), answer("done"))
    agent = made(desk, script, [tool])
    result = await agent.run(MAIL)
    assert "items" in script.schemas[0]["properties"]["size"]
    assert str(result.tool_calls[0].tool_output) == "sent [1, 2] True"


def test_a_tool_can_be_indexed():
    spec = tool_spec(tools()[0])
    assert (spec.name, spec.description) == ("send_mail", "Send a mail to somebody.")
    assert spec.input_schema["properties"]["to"]["type"] == "string"


@pytest.mark.parametrize("scope", [None, Scope(collections=frozenset())])
async def test_passages_are_nodes_with_their_places(office, scope):
    retriever = ToolcribNodeRetriever(office, k=1, scope=scope)
    found = retriever.retrieve(GLASS)
    glass = ("Glass in a parcel is wrapped in paper twice.", "glass.md, part 1")
    assert [(each.text, each.metadata["citation"]) for each in found] == [glass][: scope is None]
    again = await retriever.aretrieve(GLASS)
    assert [each.node_id for each in again] == [each.node_id for each in found]
