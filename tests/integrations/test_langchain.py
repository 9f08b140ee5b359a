"""LangChain's agents get the tools of each turn, and its chains the passages."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.integrations.conftest import ScriptedModel, calls, odd_tool, open_desk
from tests.router.conftest import TOOLS, free_of_models
from toolcrib import Crib, Scope
from toolcrib.build import MEMORY
from toolcrib.errors import QueryError, SettingsError
from toolcrib.integrations.langchain import ToolcribMiddleware, ToolcribRetriever, turn_of
from toolcrib.integrations.selection import StepOptions

THREAD = {"configurable": {"thread_id": "1"}}
MAIL = "send a mail to Ana"


def tool_named(
    name: str, does=lambda to="": f"done for {to}", description="Something."
) -> StructuredTool:
    return StructuredTool.from_function(does, name=name, description=description)


def own_tools(*more: str) -> list[StructuredTool]:
    named = [tool_named(spec.name, description=spec.description) for spec in TOOLS]
    return [*named, *(tool_named(name) for name in more)]


def agent(crib, script, tools=None, *others, model=None, **options):
    model = model or ScriptedModel(script=script)
    middleware = [ToolcribMiddleware(crib, **options), *others]
    tools = tools or own_tools()
    made = create_agent(model, tools, middleware=middleware, checkpointer=InMemorySaver())
    return made, model


def run(crib, script, tools=None, *others, **options):
    """Messages of a turn that wants a mail sent, and the model of its agent."""
    made, model = agent(crib, script, tools, *others, **options)
    return ask(made, MAIL), model


def ask(made, text, config=THREAD):
    return made.invoke({"messages": [("user", text)]}, config)["messages"]


def shown(model) -> list[tuple[str, ...]]:
    """Names of the tools at each call of the model, beside the search."""
    return [tuple(name for name in names if name != "find_tools") for names, _ in model.seen]


def test_a_model_is_given_the_tools_of_the_turn_also_after_a_call(desk):
    said, model = run(desk, [calls("send_mail", to="Ana"), AIMessage("sent")])
    assert [message.text for message in said[-2:]] == ["done for Ana", "sent"]
    first, second = shown(model)
    assert first[0] == "send_mail"
    assert len(first) == 2
    assert second[:2] == first


def test_the_search_is_made_once_a_turn(desk, monkeypatch):
    asked = []
    route = desk.route
    monkeypatch.setattr(desk, "route", lambda *a, **k: asked.append(a) or route(*a, **k))
    made, _ = agent(desk, [calls("send_mail"), AIMessage("sent"), AIMessage("there")])
    ask(made, MAIL)
    ask(made, "and where is the parcel?")
    assert [turn.text for turn, *_ in asked] == [MAIL, "and where is the parcel?"]
    assert [message.content for message in asked[1][0].history] == [MAIL, "sent"]


def test_what_must_come_and_what_the_index_does_not_know_come_first(desk):
    class Files(AgentMiddleware):
        """As the file system and the to-do list of deep agents."""

        tools = (tool_named("write_todos"), tool_named("read_file"))

    _, model = run(desk, [AIMessage("sent")], None, Files(), always_include=["track_parcel"], k=1)
    assert set(shown(model)[0][:3]) == {"write_todos", "read_file", "track_parcel"}
    assert shown(model)[0][3:] == ("send_mail",)


def test_an_agent_must_have_what_it_is_always_to_get(desk):
    with pytest.raises(SettingsError, match="no tool 'send_male'; did you mean 'send_mail'"):
        run(desk, [AIMessage("")], always_include=["send_male"])


def test_tools_of_the_provider_stay(desk):
    search = {"type": "web_search_20250305", "name": "web_search"}
    _, model = run(desk, [AIMessage("sent")], [*own_tools(), search])
    assert shown(model)[0][-1] == "web_search"


@pytest.mark.parametrize("append_only", [True, False])
def test_tools_of_earlier_turns_keep_their_places(append_only):
    with open_desk(tools={"pass_through": 0, "k": 1, "append_only": append_only}) as crib:
        made, model = agent(crib, [AIMessage("sent"), AIMessage("there")])
        ask(made, MAIL)
        ask(made, "track a parcel")
    then = ("send_mail", "track_parcel") if append_only else ("track_parcel",)
    assert shown(model) == [("send_mail",), then]


def test_a_scope_may_come_from_the_run(desk):
    made, model = agent(
        desk, [AIMessage("sent")], scope=lambda runtime: Scope(servers=frozenset({runtime.context}))
    )
    made.invoke({"messages": [("user", MAIL)]}, THREAD, context="post")
    assert set(shown(model)[0]) <= {"send_parcel", "track_parcel"}


def test_a_tool_that_the_turn_does_not_have_is_not_called(desk):
    script = [calls("send_mail", to="Ana"), AIMessage("I cannot")]
    said, _ = run(desk, script, scope=Scope(servers=frozenset({"post"})))
    assert said[-2].status == "error"
    assert "send_mail is not among the tools of this turn" in said[-2].text


def test_an_answer_says_that_a_turn_has_no_tools(desk):
    nowhere = Scope(servers=frozenset({"nowhere"}))
    script = [calls("send_mail"), AIMessage("no")]
    said, _ = run(desk, script, scope=nowhere, steps=StepOptions(search=False))
    assert "this turn: none." in said[-2].text


async def test_a_call_of_a_tool_that_nobody_has_names_no_hidden_tools(desk):
    said, _ = run(desk, [calls("send_male"), AIMessage("no")], k=1)
    assert said[-2].status == "error"
    assert "send_male" in said[-2].text
    assert "send_mail" in said[-2].text
    assert "track_parcel" not in said[-2].text
    made, _ = agent(desk, [calls("send_male"), AIMessage("no")], k=1)
    again = await made.ainvoke({"messages": [("user", MAIL)]}, THREAD)
    assert again["messages"][-2].text == said[-2].text


def test_tools_that_others_have_take_no_place(desk):
    """The index holds more than the agent has: its own are still ranked."""
    _, model = run(desk, [AIMessage("sent")], own_tools()[2:])
    assert len(shown(model)[0]) == 2
    assert "send_parcel" in shown(model)[0]


@pytest.mark.parametrize("name", ["mail_send_mail", "mail__send_mail", "mail/send_mail"])
def test_names_may_have_the_servers_in_front(desk, name):
    tools = [tool_named(name), tool_named("track_parcel")]
    _, model = run(desk, [AIMessage("sent")], tools, k=1)
    assert shown(model) == [(name,)]


def failing(to: str = "") -> str:
    raise ConnectionError


def test_how_calls_end_is_reported(desk, monkeypatch):
    tools = [tool_named("send_mail", failing), tool_named("track_parcel")]
    told = []
    monkeypatch.setattr(desk, "report_outcome", lambda _, *said, **__: told.append(said))
    with pytest.raises(ConnectionError):
        run(desk, [calls("send_mail"), AIMessage("sent")], tools)
    made, _ = agent(desk, [calls("track_parcel"), AIMessage("there")], tools)
    ask(made, "track the parcel")
    assert told == [("mail/send_mail", "failure"), ("post/track_parcel", "success")]


def test_a_turn_has_what_was_said_and_what_came_with_it():
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    summary = HumanMessage("Earlier ...", additional_kwargs={"lc_source": "summarization"})
    now = HumanMessage([{"type": "text", "text": "what is this?"}, image])
    turn = turn_of([summary, AIMessage("hello"), now, calls("look")])
    assert turn.text == "what is this?"
    history = [(message.role, message.content) for message in turn.history]
    assert history == [("user", "Earlier ..."), ("assistant", "hello")]
    assert [each.mime for each in turn.attachments] == ["image/png"]
    assert turn_of([summary]).text == ""


async def test_a_retriever_gives_the_passages_with_their_places(office):
    retriever = ToolcribRetriever(crib=office, k=1)
    [found] = retriever.invoke("how is glass in a parcel wrapped?")
    assert found.page_content == "Glass in a parcel is wrapped in paper twice."
    assert found.metadata["citation"] == "glass.md, part 1"
    assert found.metadata["collection"] == "post_rules"
    assert await retriever.ainvoke("how is glass in a parcel wrapped?") == [found]
    nobody = ToolcribRetriever(crib=office, scope=Scope(collections=frozenset()))
    assert nobody.invoke("how is glass in a parcel wrapped?") == []


def test_a_schema_that_a_provider_refuses_is_replaced_and_the_call_restored(desk):
    given = []
    script = [calls("send_mail", to="Ana"), AIMessage("sent")]
    _, model = run(desk, script, [odd_tool(given)])
    assert model.offered[0].args_schema["required"] == ["to"]
    assert given == [{"$to": "Ana"}]


def test_a_class_whose_schema_a_provider_refuses_is_replaced(desk):
    def send(size: tuple[int, int]) -> str:
        return f"sent {size}"

    tool = tool_named("send_mail", send)
    said, model = run(desk, [calls("send_mail", size=[1, 2]), AIMessage("done")], [tool])
    assert "items" in model.offered[0].args_schema["properties"]["size"]
    assert said[-2].text == "sent (1, 2)"


def edited(crib, name, *, inside=False, **options):
    """Messages of a turn whose call of `send_mail` a person replaced by a call of `name`."""
    model = ScriptedModel(script=[calls("send_mail", to="Ana"), AIMessage("done")])
    person = HumanInTheLoopMiddleware(interrupt_on={"send_mail": True})
    middleware = [person, ToolcribMiddleware(crib, **{"k": 1, **options})]
    made = create_agent(
        model,
        own_tools(),
        middleware=middleware[::-1] if inside else middleware,
        checkpointer=InMemorySaver(),
    )
    ask(made, MAIL)
    action = {"name": name, "args": {"to": "Bob"}}
    decision = {"decisions": [{"type": "edit", "edited_action": action}]}
    return made.invoke(Command(resume=decision), THREAD)["messages"]


@pytest.mark.parametrize(
    ("servers", "text"),
    [({"mail", "post"}, "done for Bob"), ({"mail"}, "not among the tools")],
    ids=["in the scope", "outside"],
)
def test_a_person_may_choose_a_tool_that_the_model_was_not_given(desk, servers, text):
    said = edited(desk, "track_parcel", scope=Scope(servers=frozenset(servers)))
    assert text in said[-2].text


def test_the_outcome_of_an_edited_call_is_that_of_the_tool_that_was_called(desk, monkeypatch):
    told = []
    monkeypatch.setattr(desk, "report_outcome", lambda _, *said, **__: told.append(said))
    edited(desk, "read_mail", inside=True, k=2)
    assert told == [("mail/read_mail", "success")]


# -- steps -----------------------------------------------------------------------------------------

STEPS = StepOptions(first=1, added=1, most=2)
THERE = AIMessage("there")


def test_the_list_stays_while_the_first_tools_found_are_in_it(desk):
    script = [calls("track_parcel", text="Now I call send_mail."), AIMessage("sent")]
    _, model = run(desk, script, always_include=["track_parcel"], k=1, steps=STEPS)
    assert shown(model) == [("track_parcel", "send_mail")] * 2


def test_above_the_limit_the_oldest_tool_that_was_not_called_goes(desk):
    script = [
        calls("send_mail", text="Then I call track_parcel."),
        calls("send_mail", text="And I call read_mail."),
        AIMessage("read"),
    ]
    _, model = run(desk, script, k=1, steps=STEPS)
    assert shown(model)[1:] == [("send_mail", "track_parcel"), ("send_mail", "read_mail")]


def test_tools_may_be_chosen_once_a_turn(desk):
    script = [calls("send_mail", text="Then I call track_parcel."), AIMessage("there")]
    _, model = run(desk, script, k=1, steps=StepOptions(each=False, search=False))
    assert [names for names, _ in model.seen] == [("send_mail",)] * 2


def test_the_steps_are_followed_where_messages_have_no_ids(desk):
    """As in deep agents."""

    class WithoutIds(AgentMiddleware):
        def wrap_model_call(self, request, handler):
            messages = [each.model_copy(update={"id": None}) for each in request.messages]
            return handler(request.override(messages=messages))

    script = [calls("send_mail", text="Then I call track_parcel."), THERE, AIMessage("read")]
    model = ScriptedModel(script=script)
    middleware = [WithoutIds(), ToolcribMiddleware(desk, k=1, steps=STEPS)]
    made = create_agent(model, own_tools(), middleware=middleware, checkpointer=InMemorySaver())
    ask(made, MAIL)
    ask(made, "read the mail")
    assert shown(model) == [("send_mail",), ("send_mail", "track_parcel"), ("read_mail",)]


async def test_a_model_finds_a_tool_that_it_lacks_by_its_own_search(desk):
    wish = calls("find_tools", needs=["track a parcel"])
    script = [wish, calls("track_parcel"), AIMessage("there")]
    made, model = agent(desk, script, k=1, steps=StepOptions(each=False))
    said = (await made.ainvoke({"messages": [("user", MAIL)]}, THREAD))["messages"]
    assert model.seen[0][0][0] == "find_tools"
    assert "- track_parcel: " in said[2].text
    assert "track_parcel" in shown(model)[1]
    assert said[4].text == "done for "


# -- tools within the conversation -----------------------------------------------------------------


class ClaudeModel(ScriptedModel):
    """Says of itself what LangChain's models of Anthropic say."""

    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"


def inline_run(crib, *script, profile=True, **options):
    model = ClaudeModel(script=list(script), profile={"mid_conversation_system_messages": profile})
    return run(crib, [], model=model, k=1, steps=STEPS, **options)


def kinds(model) -> list[list[str]]:
    """The messages of each call of the model: their kinds, or the tools that come and go."""
    signs = {"tool_addition": "&", "tool_removal": "-"}

    def change(kind: str, tool: dict) -> str:
        defined = tool.get("definition")
        return f"+{defined['name']}" if defined else signs[kind] + tool["name"]

    def of(message) -> str:
        if message.type != "system":
            return message.type
        return " ".join(change(block["type"], block["tool"]) for block in message.content)

    return [[of(message) for message in messages] for _, messages in model.seen]


def test_tools_come_and_go_within_the_conversation_where_the_model_takes_them_there(desk):
    said, model = inline_run(
        desk,
        calls("send_mail", text="Then I call track_parcel."),
        calls("send_mail", text="And I call read_mail."),
        calls("send_mail", text="And I call track_parcel."),
        AIMessage("there"),
    )
    assert shown(model) == [("send_mail",)] * 4
    turn, brought = ["human"], ["human", "ai", "tool", "+track_parcel"]
    changed = [*brought, "ai", "tool", "+read_mail -track_parcel"]
    assert kinds(model)[:3] == [turn, brought, changed]
    assert kinds(model)[3] == [*changed, "ai", "tool", "&track_parcel -read_mail"]
    assert all(message.type != "system" for message in said)


@pytest.mark.parametrize("options", [{"profile": False}, {"inline": False}])
def test_elsewhere_the_list_of_tools_changes(desk, options):
    sends = calls("send_mail", text="Then I call track_parcel.")
    _, model = inline_run(desk, sends, THERE, **options)
    assert shown(model) == [("send_mail",), ("send_mail", "track_parcel")]


def test_langchains_model_sends_the_changes_in_their_places(desk):
    anthropic = pytest.importorskip("langchain_anthropic")
    _, model = inline_run(desk, calls("send_mail", text="Then I call track_parcel."), THERE)
    claude = anthropic.ChatAnthropic(model="claude-opus-5-5", api_key="none")
    payload = claude._get_request_payload(model.seen[-1][1])
    assert [each["role"] for each in payload["messages"]] == ["user", "assistant", "user", "system"]
    assert "inline-tools-2026-09-15" in payload["betas"]


# -- searches of the model -------------------------------------------------------------------------


def test_an_agent_with_a_search_of_its_own_is_refused_unless_ours_is_off(desk):
    with pytest.raises(SettingsError, match=r"its own tool 'find_tools'.*search=False"):
        run(desk, [AIMessage("")], own_tools("find_tools"))
    steps = StepOptions(search=False)
    _, model = run(desk, [AIMessage("sent")], own_tools("find_tools"), steps=steps)
    assert model.seen[0][0][0] == "find_tools"


@pytest.mark.parametrize("field", ["first", "added"])
def test_steps_that_add_no_tool_are_refused_before_the_run(field):
    with pytest.raises(SettingsError, match=f"{field}=0.*each=False"):
        StepOptions(**{field: 0})


def test_no_tools_at_all_are_refused_before_the_run(desk):
    with pytest.raises(QueryError, match="k is 0"):
        ToolcribMiddleware(desk, k=0)


def test_an_agent_that_is_shown_all_its_tools_gets_no_search(desk):
    _, model = run(desk, [AIMessage("sent")], own_tools()[:2], k=2)
    assert "find_tools" not in model.seen[0][0]


def test_a_tool_that_was_called_by_name_is_shown_from_then_on_within_the_scope(desk):
    script = [calls("read_mail"), calls("track_parcel"), AIMessage("there")]
    scope = Scope(servers=frozenset({"mail"}))
    _, model = run(desk, script, k=1, scope=scope, steps=StepOptions(first=1, added=1))
    assert "read_mail" in shown(model)[1]
    assert "track_parcel" not in shown(model)[2]


def test_a_disabled_tool_that_was_called_by_name_is_not_shown():
    script = [calls("read_mail"), calls("read_mail"), AIMessage("no")]
    with open_desk(tools={"pass_through": 0, "k": 1}) as crib:
        disabled = [spec.model_copy(update={"enabled": False}) for spec in TOOLS]
        crib.index_tools([spec for spec in disabled if spec.name == "read_mail"])
        said, model = run(crib, script)
    assert "read_mail" not in {name for names in shown(model) for name in names}
    assert [message.status for message in said if message.type == "tool"] == ["error"] * 2


def test_a_step_keeps_the_limits_of_the_settings():
    script = [calls("track_parcel", text="Then I call track_parcel."), AIMessage("there")]
    with open_desk(tools={"pass_through": 0, "k": 1, "servers": ["mail"]}) as crib:
        _, model = run(crib, script)
    assert shown(model)[1] == ("send_mail", "read_mail")


def test_an_index_that_knows_none_of_the_tools_is_told_once(caplog):
    with Crib.open(MEMORY, settings=free_of_models()) as empty:
        made, model = agent(empty, [AIMessage("sent"), AIMessage("there")])
        ask(made, MAIL)
        ask(made, "and where is the parcel?")

    assert set(shown(model)[0]) == {spec.name for spec in TOOLS}
    told = [each for each in caplog.records if "knows none of the agent's" in each.message]
    assert [each.levelname for each in told] == ["WARNING"]


def test_an_index_that_lacks_many_of_the_tools_is_told(caplog):
    with open_desk() as crib:
        more = [f"unknown_{number}" for number in range(40)]
        _, model = run(crib, [AIMessage("sent")], own_tools(*more))

    assert {*more} <= {*shown(model)[0]}
    [told] = [each for each in caplog.records if "the other 40" in each.message]
    assert told.levelname == "WARNING"
