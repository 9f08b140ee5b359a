"""OpenAI's agents get the functions of a turn, and its Responses API loads what it searches."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    ModelResponse,
    ModelSettings,
    RunConfig,
    Runner,
    Usage,
    WebSearchTool,
    function_tool,
)
from agents.models.interface import Model
from openai.types.responses import (
    FunctionToolParam,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseToolSearchCall,
    ResponseToolSearchOutputItem,
    ToolSearchTool,
)
from pydantic import TypeAdapter

from tests.router.conftest import TOOLS
from toolcrib import Scope
from toolcrib.errors import SettingsError
from toolcrib.integrations.openai_agents import (
    SEARCH_TOOL,
    agent_for_turn,
    search_output,
    tool_spec,
    turn_of,
    turn_tools,
)
from toolcrib.integrations.selection import StepOptions

UNTRACED = RunConfig(tracing_disabled=True)
MAIL = "send a mail to Ana"


async def act(_context, _arguments) -> str:
    return "done"


def function(name: str, description: str = "") -> FunctionTool:
    return FunctionTool(name, description, {"type": "object", "properties": {}}, act)


class Scripted(Model):
    """Writes a text and calls a tool as its script says, then says that it is done.

    It keeps the names of the tools that it was given, beside the search.
    """

    def __init__(self, *script):
        self.script, self.seen = list(script), []

    async def get_response(self, *, tools, **_):
        self.seen.append([tool.name for tool in tools if tool.name != "find_tools"])
        written, *call = self.script.pop(0) if self.script else ("done",)
        text = ResponseOutputText(annotations=[], text=written, type="output_text")
        output = [
            ResponseOutputMessage(
                id="1", content=[text], role="assistant", status="completed", type="message"
            )
        ]
        if call:
            name, arguments = call
            output.append(
                ResponseFunctionToolCall(
                    arguments=arguments, call_id=f"call-{name}", name=name, type="function_call"
                )
            )
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


def office_agent(model=None, **fields) -> Agent:
    tools = [function(spec.name, spec.description) for spec in TOOLS]
    tools += [function("ponder"), WebSearchTool()]
    return Agent(**{"name": "office", "model": model, "tools": tools, **fields})


async def run(agent, crib, config=UNTRACED, **options):
    """Result of a run that wants a mail sent."""
    made = await agent_for_turn(agent, MAIL, crib, k=1, **options)
    return await Runner.run(made, MAIL, run_config=config)


def outputs(result):
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_an_agent_has_the_functions_of_the_turn(desk):
    model = Scripted()
    result = await run(office_agent(model), desk, always_include=["read_mail"])
    assert result.final_output == "done"
    assert model.seen == [["read_mail", "ponder", "send_mail", "web_search"]]


async def test_the_function_that_the_model_must_call_is_among_the_functions(desk):
    model, forced = Scripted(), ModelSettings(tool_choice="track_parcel")
    await run(office_agent(model, model_settings=forced), desk)
    assert "track_parcel" in model.seen[0]


async def test_a_step_brings_the_functions_of_the_models_last_words_behind_the_others(desk):
    ended = []

    class Ends(AgentHooks):
        async def on_llm_end(self, context, agent, response):
            ended.append(agent.name)

    model = Scripted(("Then I call track_parcel.", "send_mail", "{}"))
    await run(office_agent(model, hooks=Ends()), desk, steps=StepOptions(first=1, added=1))
    first = ["ponder", "send_mail", "web_search"]
    assert model.seen == [first, ["ponder", "send_mail", "track_parcel", "web_search"]]
    assert ended == ["office"] * 2


async def test_a_model_finds_a_function_that_it_lacks_by_its_own_search(desk):
    wish = '{"needs": ["track a parcel"]}'
    model = Scripted(("", "find_tools", wish), ("", "track_parcel", "{}"))
    found, called = outputs(await run(office_agent(model), desk, steps=StepOptions(each=False)))
    assert "track_parcel" in model.seen[1]
    assert "- track_parcel: " in found
    assert called == "done"


async def test_a_function_that_was_called_by_name_comes_where_the_run_goes_on(desk):
    model = Scripted(("", "track_parcel", "{}"))
    goes_on = replace(UNTRACED, tool_not_found_behavior="return_error_to_model")
    result = await run(office_agent(model), desk, goes_on, steps=StepOptions(each=False))
    assert "not found" in outputs(result)[0]
    assert ["track_parcel" in names for names in model.seen] == [False, True]


async def test_an_agent_that_is_handed_the_run_has_its_own_functions(desk):
    other = await agent_for_turn(office_agent(Scripted(), name="other"), MAIL, desk, k=1)
    office = office_agent(Scripted(("", "transfer_to_other", "{}")), handoffs=[other])
    result = await run(office, desk)
    assert result.last_agent.name == "other"
    assert other.model.seen == office.model.seen == [["ponder", "send_mail", "web_search"]]


async def test_a_broken_search_finds_nothing_and_the_run_goes_on(desk):
    result = await run(office_agent(Scripted(("", "find_tools", "{"))), desk)
    assert result.final_output == "done"


async def test_an_agent_must_have_what_it_is_always_to_get(desk):
    with pytest.raises(SettingsError, match="no tool 'fly'"):
        await run(office_agent(), desk, always_include=["fly"])


def test_a_turn_is_the_last_that_the_user_says():
    parts = [{"type": "input_text", "text": "and where is it?"}]
    said = [
        {"role": "user", "content": "send a parcel"},
        {"type": "function_call", "name": "send_parcel"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "sent"}]},
        {"role": "user", "content": parts},
    ]
    turn = turn_of(said)
    assert turn.text == "and where is it?"
    assert [message.content for message in turn.history] == ["send a parcel", "sent"]
    assert turn_of([]).text == ""


def test_a_request_has_the_functions_of_the_turn(desk):
    tools, ids = turn_tools(desk, MAIL, k=1)
    assert ids == {"mail__send_mail": "mail/send_mail"}
    assert TypeAdapter(list[FunctionToolParam]).validate_python(tools, extra="forbid") == tools


def test_a_search_by_the_client_loads_what_it_finds(desk):
    assert ToolSearchTool.model_validate(SEARCH_TOOL).execution == "client"
    call = ResponseToolSearchCall(
        id="1",
        call_id="c",
        arguments={"needs": ["send a mail"]},
        execution="client",
        status="completed",
        type="tool_search_call",
    )
    output, ids = search_output(desk, call, k=1)
    read = ResponseToolSearchOutputItem.model_validate({"id": "2", **output})
    assert (read.call_id, [space.name for space in read.tools]) == ("c", ["mail"])
    assert ids == {"mail.send_mail": "mail/send_mail"}
    elsewhere = Scope(servers=frozenset({"web"}))
    assert list(search_output(desk, call, scope=elsewhere)[1].values()) == ["web/search"]
    by_server = call.model_copy(update={"execution": "server"})
    assert search_output(desk, by_server) == (None, {})


def test_a_tool_can_be_indexed():
    assert tool_spec(function("send_mail", "Send.")).description == "Send."


async def test_a_schema_that_is_refused_is_replaced_and_the_call_restored(desk):
    given = []

    async def send(_context, arguments):
        given.append(arguments)
        return "sent"

    schema = {"type": "object", "properties": {"$to": {"type": "string"}}, "required": ["$to"]}
    tool = FunctionTool("send_mail", "Send.", schema, send, strict_json_schema=False)
    office = Agent(name="office", tools=[tool])
    [chosen] = (await agent_for_turn(office, MAIL, desk, k=1)).tools
    assert chosen.params_json_schema["required"] == ["to"]
    await chosen.on_invoke_tool(None, '{"to": "Ana"}')
    await chosen.on_invoke_tool(None, "no json")
    assert given == ['{"$to": "Ana"}', "no json"]


async def test_a_strict_schema_is_replaced_only_if_it_is_refused(desk):
    def send_mail(size: tuple[int, int]) -> str:
        """Send."""
        return f"sent {size}"

    def read_mail(folder: str) -> str:
        """Read."""
        return folder

    office = Agent(name="office", tools=[function_tool(send_mail), function_tool(read_mail)])
    sent, read = (await agent_for_turn(office, MAIL, desk, k=2)).tools
    assert (sent.strict_json_schema, read.strict_json_schema) == (False, True)
    assert "items" in sent.params_json_schema["properties"]["size"]
