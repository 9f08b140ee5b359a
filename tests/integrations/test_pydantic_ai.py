"""Pydantic-AI's agents get the tools that a run needs."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent, Tool
from pydantic_ai.capabilities import ToolSearch
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tests.router.conftest import TOOLS
from toolcrib import Scope
from toolcrib.errors import SettingsError
from toolcrib.integrations.pydantic_ai import ToolcribToolset, tool_search, tool_spec
from toolcrib.integrations.selection import StepOptions


def act(to: str = "") -> str:
    """Do it."""
    return f"done for {to}"


def toolset(*more: str, **options) -> FunctionToolset:
    named = [Tool(act, name=spec.name, description=spec.description, **options) for spec in TOOLS]
    return FunctionToolset([*named, *(Tool(act, name=name) for name in more)])


class Scripted:
    """A model that says what stands in its script, and keeps the names that it was given."""

    def __init__(self, *script):
        self.script, self.seen = list(script), []

    def __call__(self, _messages, info):
        self.seen.append([t.name for t in info.function_tools if t.name != "find_tools"])
        says = self.script.pop(0)
        return ModelResponse(says if isinstance(says, list) else [says])

    def agent(self, *toolsets, **options) -> Agent:
        return Agent(FunctionModel(self), toolsets=toolsets, **options)


async def test_a_run_is_given_the_tools_of_its_prompt_at_every_step(desk):
    says = Scripted(ToolCallPart("send_mail", {"to": "Ana"}), TextPart("sent"), TextPart("there"))
    chosen = ToolcribToolset(toolset("ponder"), desk, k=1, always_include=["read_mail"])
    agent = says.agent(chosen)
    result = await agent.run("send a mail to Ana")
    assert result.output == "sent"
    assert [names[:3] for names in says.seen] == [["read_mail", "ponder", "send_mail"]] * 2
    await agent.run("track a parcel", message_history=result.all_messages())
    assert says.seen[-1] == ["read_mail", "ponder", "track_parcel"]


async def test_what_was_said_before_is_the_history(desk, monkeypatch):
    asked = []
    route = desk.route
    monkeypatch.setattr(desk, "route", lambda turn, **k: asked.append(turn) or route(turn, **k))
    agent = Scripted(TextPart("sent"), TextPart("there")).agent(ToolcribToolset(toolset(), desk))
    first = await agent.run("send a mail to Ana")
    await agent.run("and where is it?", message_history=first.all_messages())
    assert [(turn.text, len(turn.history)) for turn in asked] == [
        ("send a mail to Ana", 0),
        ("and where is it?", 2),
    ]


async def test_a_scope_may_come_from_the_run(desk):
    says = Scripted(TextPart("?"))
    by_deps = {"scope": lambda ctx: Scope(servers=frozenset({ctx.deps}))}
    chosen = ToolcribToolset(toolset(), desk, **by_deps)
    await says.agent(chosen, deps_type=str).run("send a mail", deps="post")
    assert set(says.seen[0]) <= {"send_parcel", "track_parcel"}


async def test_a_toolset_must_have_what_is_always_to_come(desk):
    chosen = ToolcribToolset(toolset(), desk, always_include=["fly"])
    with pytest.raises(SettingsError, match="no tool 'fly'"):
        await Scripted().agent(chosen).run("send a mail")


async def test_deferred_tools_are_found_by_the_crib(desk):
    says = Scripted(
        ToolCallPart("search_tools", {"queries": ["send a mail"]}),
        ToolCallPart("send_mail", {"to": "Ana"}),
        TextPart("sent"),
    )
    search = ToolSearch(strategy=tool_search(desk, k=1))
    agent = says.agent(toolset(defer_loading=True), capabilities=[search])
    assert (await agent.run("write to Ana")).output == "sent"
    assert says.seen[0] == ["search_tools"]
    assert set(says.seen[1]) == {"search_tools", "send_mail"}


def test_a_tool_can_be_indexed():
    tool = Tool(act, name="send_mail", description="Send.")
    assert tool_spec(tool).input_schema == tool.tool_def.parameters_json_schema
    assert tool_spec(tool) == tool_spec(tool.tool_def)


async def test_a_step_brings_the_tools_of_the_models_last_words_behind_the_others(desk):
    first = [TextPart("Then I call track_parcel."), ToolCallPart("send_mail", {"to": "Ana"})]
    says, steps = Scripted(first, TextPart("there")), StepOptions(first=1, added=1)
    chosen = ToolcribToolset(toolset(), desk, k=1, steps=steps)
    await says.agent(chosen).run("send a mail to Ana")
    assert says.seen == [["send_mail"], ["send_mail", "track_parcel"]]


async def test_a_model_finds_a_tool_that_it_lacks_by_its_own_search(desk):
    wish = ToolCallPart("find_tools", {"needs": ["track a parcel"]})
    says = Scripted(wish, ToolCallPart("track_parcel", {"to": "Ana"}), TextPart("there"))
    chosen = ToolcribToolset(toolset(), desk, k=1, steps=StepOptions(each=False))
    result = await says.agent(chosen).run("send a mail to Ana")
    assert "track_parcel" in says.seen[1]
    assert "done for Ana" in str(result.all_messages())


@pytest.mark.parametrize("arguments", ['{"to": "Ana"}', {"to": "Ana"}])
async def test_a_schema_that_a_provider_refuses_is_replaced_and_the_call_restored(desk, arguments):
    given = []

    def send(**values):
        given.append(values)

    schema = {"type": "object", "properties": {"$to": {"type": "string"}}, "required": ["$to"]}
    tool = Tool.from_schema(send, "send_mail", "Send.", schema)
    says = Scripted(ToolCallPart("send_mail", arguments), TextPart("sent"))
    chosen = ToolcribToolset(FunctionToolset([tool]), desk)
    await says.agent(chosen).run("send a mail to Ana")
    assert given == [{"$to": "Ana"}]
