"""A routing graph gives each turn what it needs, gets over failures, and ends."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import tools_condition
from langgraph.types import Command

from tests.integrations.conftest import ScriptedModel, calls, odd_tool, open_desk
from tests.router.conftest import TOOLS
from toolcrib import Collection, Crib, Passage, Scope, ToolSpec
from toolcrib.errors import SettingsError
from toolcrib.integrations.langgraph import (
    RoutingNodes,
    RoutingOptions,
    RoutingState,
    build_routing_graph,
    may_repeat,
)
from toolcrib.integrations.selection import StepOptions

MAIL = "send a mail to Ana"


def own_tools(specs=TOOLS, **does) -> list[StructuredTool]:
    """The agent's tools; what they do, by name, is else to say so."""

    def made(name, description):
        def say(to: str = "") -> str:
            return f"{name} for {to}"

        acts = does.get(name, say)
        return StructuredTool.from_function(acts, name=name, description=description)

    return [made(spec.name, spec.description) for spec in specs]


def raising(*errors):
    """A function that raises each error, then says that it is done."""
    left = list(errors)

    def act(to: str = "") -> str:
        if left:
            raise left.pop(0)
        return f"done for {to}"

    return act


ONCE = StepOptions(each=False)


class Run:
    """A graph over a crib, its scripted model, and what came of the last turn."""

    def __init__(self, crib, *script, tools=None, steps=ONCE, **options):
        self.model = ScriptedModel(script=list(script))
        self.graph = build_routing_graph(
            crib,
            self.model,
            tools or own_tools(),
            RoutingOptions(**options, steps=steps),
            checkpointer=InMemorySaver(),
        )
        self.config = {"configurable": {"thread_id": "1"}}
        self.path: list[str] = []

    def ask(self, text, **more):
        return self.go({"messages": [HumanMessage(text)]}, **more)

    def go(self, given, **more):
        self.path = []
        for step in self.graph.stream(given, self.config, stream_mode="updates", **more):
            self.path += step
        return self.state

    @property
    def state(self):
        return self.graph.get_state(self.config).values

    @property
    def results(self):
        """Text of the last result of each tool."""
        found = self.state["messages"]
        return {each.name: each.text for each in found if isinstance(each, ToolMessage)}

    @property
    def last(self):
        """Text of the last message."""
        return self.state["messages"][-1].text

    @property
    def bound(self):
        """The names of the tools that each call of the model had."""
        return [names for names, _ in self.model.seen]

    @property
    def told(self):
        """What the model was told first, at its last call."""
        return self.model.seen[-1][1][0].text


CALL = ["tools", "reflect"]
FLOW = ["classify", "select_tools", "plan", "agent", *CALL, "follow_steps", "agent", "answer"]


def test_a_turn_is_routed_carried_out_and_answered(desk):
    run = Run(desk, calls("send_mail", to="Ana"), AIMessage("It is sent."))
    state = run.ask(MAIL)
    assert run.path == FLOW
    told = [MAIL, "", "send_mail for Ana", "It is sent."]
    assert [message.text for message in state["messages"]] == told
    assert run.bound == [("send_mail", "read_mail")] * 2
    assert (state["calls"], state["tools"][0]) == (1, "send_mail")
    assert run.told == "Make at most 5 calls of tools."


async def test_a_graph_may_be_awaited_and_streamed(desk):
    run = Run(desk, calls("send_mail", to="Ana"), AIMessage("It is sent."))
    given = {"messages": [("user", MAIL)]}
    steps = run.graph.astream(given, run.config, stream_mode="updates")
    assert [name async for step in steps for name in step] == FLOW
    assert run.last == "It is sent."


def test_the_tools_follow_what_the_model_writes_and_called_ones_stay(desk):
    said = calls("send_mail", text="Then I call track_parcel.", to="Ana")
    steps = StepOptions(first=1, added=1, most=1)
    run = Run(desk, said, AIMessage("Done."), k=1, steps=steps)
    run.ask(MAIL)
    assert run.bound == [("send_mail",), ("send_mail", "track_parcel")]


# -- plans -------------------------------------------------------------------------------------

PERSON = {"type": "object", "properties": {"person_id": {"type": "string"}}}
FIND = ToolSpec(
    name="find_person",
    server="crm",
    description="Find a person by name.",
    input_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    output_schema=PERSON,
)
PAY = ToolSpec(
    name="pay_person",
    server="crm",
    description="Pay a bonus to a person.",
    input_schema={**PERSON, "required": ["person_id"]},
)


@pytest.fixture(scope="module")
def payroll():
    """Two tools, one of which gives what the other requires."""
    with open_desk() as crib:
        crib.index_tools([FIND, PAY])
        yield crib


def payroll_run(crib, *script, **options):
    return Run(crib, *script, tools=own_tools((FIND, PAY)), **options)


def model_plan(*steps):
    """A model's plan: goals and tools."""
    return calls("_Plan", steps=[{"goal": goal, "tool": tool} for goal, tool in steps])


def plan_of(run):
    return [(step["tool"], step["state"]) for step in run.state["plan_steps"]]


BONUS = "pay a bonus to a person"


def test_without_a_planning_model_what_a_tool_requires_is_an_earlier_step(payroll):
    run = payroll_run(payroll, calls("find_person"), AIMessage("Found."))
    run.ask(BONUS)
    assert plan_of(run) == [("find_person", "done"), ("pay_person", "open")]
    assert "1. find_person: Find a person by name." in run.told
    run.model.script.append(AIMessage("Hello."))
    run.ask("hello")
    assert plan_of(run) == []


def test_a_model_may_make_the_plan_and_unknown_tools_are_left_out(payroll):
    plan = model_plan(("look Ana up", "find_person"), ("fly", "fly"), ("pay Ana", "pay_person"))
    run = payroll_run(payroll, plan, AIMessage("Done."), model_plans=True)
    run.ask(BONUS)
    assert plan_of(run) == [("find_person", "open"), ("pay_person", "open")]
    assert "2. pay_person: pay Ana" in run.told


async def test_a_failing_planner_leaves_the_order_of_prerequisites(payroll):
    def fail(_messages):
        raise ConnectionError("no model")

    run = payroll_run(payroll, fail, AIMessage("Done."), model_plans=True)
    async for _ in run.graph.astream({"messages": [("user", BONUS)]}, run.config):
        pass
    assert plan_of(run) == [("find_person", "open"), ("pay_person", "open")]


# -- failures ----------------------------------------------------------------------------------


SHOP = (
    *(
        ToolSpec(
            name=name,
            server=server,
            description=f"Look up the {what} of a city.",
            annotations={"readOnlyHint": True},
        )
        for name, server, what in (
            ("get_weather", "sky", "weather"),
            ("fetch_forecast", "sun", "weather forecast"),
        )
    ),
    TOOLS[0],
)
RAIN = "look up the weather of the city of Graz"


@pytest.fixture(scope="module")
def sky():
    """Two tools that do the same, one at a time; nothing is waited for."""
    with open_desk(
        tools={"pass_through": 0, "k": 1}, recovery={"likeness": 0, "base_s": 0, "max_attempts": 2}
    ) as crib:
        crib.remove_tools(*(spec.id for spec in TOOLS))
        crib.index_tools(list(SHOP))
        yield crib


def test_a_call_that_may_work_later_is_made_again_as_it_was(sky):
    tools = own_tools(SHOP, get_weather=raising(TimeoutError("late")))
    run = Run(sky, calls("get_weather", to="Graz"), AIMessage("Rain."), tools=tools)
    state = run.ask(RAIN)
    assert run.path == [*FLOW[:6], *CALL, *FLOW[6:]]
    assert run.results == {"get_weather": "done for Graz"}
    assert state["calls"] == 2


def test_what_succeeded_beside_a_call_made_again_is_reported_once(sky, monkeypatch):
    told = []
    monkeypatch.setattr(
        Crib, "report_outcome", lambda _, __, tool, outcome, **___: told.append((tool, outcome))
    )
    tools = own_tools(SHOP, get_weather=raising(TimeoutError("late")))
    script = calls("get_weather", "fetch_forecast"), AIMessage("Rain.")
    Run(sky, *script, tools=tools, k=2).ask(RAIN)
    assert sorted(told) == [
        ("sky/get_weather", "failure"),
        ("sky/get_weather", "success"),
        ("sun/fetch_forecast", "success"),
    ]


def test_after_the_last_attempt_an_alternate_takes_its_place(sky):
    tools = own_tools(SHOP, get_weather=raising(*[ConnectionError("down")] * 2))
    script = [calls("get_weather"), calls("fetch_forecast"), AIMessage("Rain.")]
    run = Run(sky, *script, tools=tools)
    state = run.ask(RAIN)
    assert run.bound[0] == ("get_weather",)
    assert "fetch_forecast" in run.bound[1]
    assert "get_weather" not in run.bound[1]
    assert state["failed"] == ["sky/get_weather"]
    assert plan_of(run) == [("fetch_forecast", "done")]
    assert "get_weather: retriable (ConnectionError), attempt 2" in run.told
    assert run.last == "Rain."


@pytest.mark.parametrize(("wrong", "is_known"), [("repair_roof", False), ("send_mail", True)])
def test_a_wrong_tool_leads_to_a_new_search_for_what_was_missed(sky, wrong, is_known):
    run = Run(sky, calls(wrong), calls("get_weather"), AIMessage("Rain."), tools=own_tools(SHOP))
    state = run.ask(RAIN)
    assert run.path[5:9] == ["reflect", "classify", "select_tools", "plan"]
    assert state["needs"] in (["repair roof"], ["Send a mail to somebody."])
    assert run.bound[1][0] == "get_weather"
    assert len(run.bound[1]) == 2
    assert state["messages"][2].text.startswith("There is no tool")
    assert ("call it again" in state["messages"][2].text) is is_known
    assert run.last == "Rain."


def test_a_tool_that_is_not_there_any_more_is_given_no_more(sky):
    tools = own_tools(SHOP, get_weather=raising(ToolException("404 not found: no such operation")))
    run = Run(sky, calls("get_weather"), calls("fetch_forecast"), AIMessage("Rain."), tools=tools)
    state = run.ask(RAIN)
    assert state["failed"] == ["sky/get_weather"]
    assert run.bound[:2] == [("get_weather",), ("fetch_forecast",)]
    assert plan_of(run) == [("fetch_forecast", "done")]


def test_wrong_arguments_are_shown_to_the_model_which_thinks_again(desk):
    def strict(day: int) -> str:
        return "sent"

    wrong, right = calls("send_mail", day="soon"), calls("send_mail", day=3)
    run = Run(desk, wrong, right, AIMessage("It is sent."), tools=own_tools(send_mail=strict))
    state = run.ask(MAIL)
    assert run.path[5:8] == ["reflect", "plan", "agent"]
    assert "send_mail: replan" in run.told
    statuses = [m.status for m in state["messages"] if isinstance(m, ToolMessage)]
    assert statuses == ["error", "success"]


@pytest.mark.parametrize("others", [(), ("read_mail",)], ids=["alone", "beside another"])
def test_a_call_with_broken_arguments_is_answered_and_the_model_goes_on(desk, others):
    broken = {"name": "send_mail", "args": '{"to": "A', "id": "1", "error": None}
    asked = calls(*others, to="Ana").model_copy(update={"invalid_tool_calls": [broken]})
    run = Run(desk, asked, calls("send_mail", to="Ana"), AIMessage("Sent."))
    state = run.ask(MAIL)
    [told] = [each for each in run.model.seen[1][1] if getattr(each, "tool_call_id", "") == "1"]
    assert (told.status, run.last) == ("error", "Sent.")
    assert run.results["send_mail"] == "send_mail for Ana"
    assert state["calls"] == 2 + len(others)


def test_what_is_not_allowed_ends_the_turn_with_an_answer_without_tools(desk):
    tools = own_tools(send_mail=raising(PermissionError("forbidden")))
    run = Run(desk, calls("send_mail"), AIMessage("I may not send mail."), tools=tools)
    run.ask(MAIL)
    assert run.path[-2:] == ["reflect", "answer"]
    assert run.bound[-1] == ()
    assert "No more tools can be called (critical (PermissionError)" in run.told
    assert run.last == "I may not send mail."


def test_what_must_not_happen_twice_is_not_repeated(desk):
    assert [may_repeat(spec) for spec in TOOLS[:2]] == [False, True]
    tools = own_tools(send_mail=raising(TimeoutError()))
    run = Run(desk, calls("send_mail"), AIMessage("Perhaps it is sent."), tools=tools)
    run.ask(MAIL)
    assert run.path[5:8] == ["reflect", "plan", "agent"]


async def test_a_tool_that_takes_too_long_is_left():
    with open_desk(limits={"tool_timeout_s": 0.01}) as crib:

        def slow(to: str = "") -> str:
            time.sleep(0.2)
            return "late"

        script, tools = (calls("send_mail"), AIMessage("Perhaps.")), own_tools(send_mail=slow)
        given = {"messages": [("user", MAIL)]}
        for go in ("invoke", "ainvoke"):
            run = Run(crib, *script, tools=tools)
            state = getattr(run.graph, go)(given, run.config)
            state = state if go == "invoke" else await state
            assert state["messages"][2].text == "TimeoutError: "
            assert state["attempts"] == {"send_mail": 1}


@pytest.mark.parametrize(
    ("made", "options", "said"),
    [(2, {"max_calls": 2}, "all 2 calls"), (1, {"limit_s": 0.0}, "the 0 seconds")],
)
def test_a_turn_ends_at_its_caps(desk, made, options, said):
    run = Run(desk, *(calls("send_mail") for _ in range(made)), AIMessage("Enough."), **options)
    run.ask(MAIL)
    assert run.path[-2:] == ["reflect", "answer"]
    assert said in run.told
    assert run.last == "Enough."


def test_calls_beyond_the_cap_are_answered_and_not_made(desk):
    run = Run(desk, calls("send_mail", "read_mail"), AIMessage("Half."), max_calls=1)
    run.ask(MAIL)
    assert run.results["send_mail"] == "send_mail for "
    assert run.results["read_mail"].startswith("Not carried out")


# -- knowledge, conversations --------------------------------------------------------------------


def test_an_answer_has_citations_out_of_two_collections():
    with open_desk() as crib:
        for name, described, text in (
            ("post", "Weight of parcels.", "A parcel may weigh thirty kilograms."),
            ("glass", "Glass in parcels.", "Glass in a parcel is wrapped twice."),
        ):
            crib.add_collections(Collection(name=name, description=described))
            crib.index_passages([Passage(name, "rules.md", text)])
        run = Run(crib, AIMessage("At most thirty kilograms [1]."))
        state = run.ask("how much may a parcel with glass weigh?")
    assert "select_knowledge" in run.path
    assert {each["collection"] for each in state["citations"]} == {"post", "glass"}
    assert [each["cited"] for each in state["citations"]] == [True, False]
    assert state["messages"][-1].additional_kwargs["citations"] == state["citations"]
    assert "\n[1] " in run.told


def test_small_talk_is_answered_without_anything(desk):
    run = Run(desk, AIMessage("Good morning!"))
    state = run.ask("good morning!")
    assert run.bound == [()]
    assert (state["citations"], run.model.seen[0][1][0].text) == ([], "good morning!")


def test_a_follow_up_begins_anew_with_the_conversation_as_its_history(desk):
    run = Run(desk, calls("send_mail"), AIMessage("Sent."), AIMessage("Which parcel?"))
    run.ask(MAIL)
    state = run.ask("track a parcel")
    assert state["calls"] == 0
    assert run.bound[-1][0] == "track_parcel"
    assert state["shown"][0] == "mail/send_mail"
    assert len(run.model.seen[-1][1]) == 6


def test_a_scope_may_come_from_the_run(desk):
    run = Run(desk, AIMessage("?"), scope=lambda run: Scope(servers=frozenset({run.context})))
    run.ask(MAIL, context="post")
    assert set(run.bound[0]) <= {"send_parcel", "track_parcel"}


@pytest.mark.parametrize("go", ["invoke", "ainvoke"])
async def test_a_schema_that_a_provider_refuses_is_replaced_and_the_call_restored(desk, go):
    given = []
    run = Run(desk, calls("send_mail", to="Ana"), AIMessage("Sent."), tools=[odd_tool(given)])
    state = getattr(run.graph, go)({"messages": [HumanMessage(MAIL)]}, run.config)
    assert (state if go == "invoke" else await state)["messages"][-1].text == "Sent."
    assert run.model.offered[0].args_schema["required"] == ["to"]
    assert given == [{"$to": "Ana"}]


# -- people ----------------------------------------------------------------------------------------


def waiting_for_approval(crib, *named, ask=MAIL, **options):
    """A run that waits for a person's decision on the first of these calls."""
    script = calls(*named, to="Ana"), AIMessage("Done.")
    run = Run(crib, *script, approve=lambda spec: spec.name == named[0], **options)
    run.ask(ask)
    assert run.path[-1] == "__interrupt__"
    return run


def resume(*decisions):
    return Command(resume={"decisions": [*decisions]})


def edit(name, to):
    return {"type": "edit", "edited_action": {"name": name, "args": {"to": to}}}


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        ({"type": "approve"}, "send_mail for Ana"),
        (edit("send_mail", "Bob"), "send_mail for Bob"),
        ({"type": "reject", "message": "not today"}, "A person refused this call: not today."),
    ],
    ids=["approve", "edit", "reject"],
)
async def test_a_person_approves_calls_of_sensitive_tools(desk, decision, result):
    run = waiting_for_approval(desk, "send_mail", "read_mail")
    [asked] = run.graph.get_state(run.config).interrupts
    assert asked.value["action_requests"] == [
        {"name": "send_mail", "args": {"to": "Ana"}, "description": "Send a mail to somebody."}
    ]
    await run.graph.ainvoke(resume(decision), run.config)
    assert run.results == {"send_mail": result, "read_mail": "read_mail for Ana"}
    assert run.last == "Done."


def test_a_person_puts_another_tool_in_place_of_a_call(desk):
    run = waiting_for_approval(desk, "send_mail")
    run.go(resume(edit("read_mail", "Bob")))
    assert run.results == {"read_mail": "read_mail for Bob"}


@pytest.mark.parametrize(
    ("servers", "result"),
    [({"mail", "post"}, "track_parcel for Bob"), ({"mail"}, "no tool 'track_parcel'")],
    ids=["in the scope", "outside"],
)
def test_a_person_may_choose_a_tool_that_the_model_was_not_given(desk, servers, result):
    run = waiting_for_approval(desk, "send_mail", scope=Scope(servers=frozenset(servers)))
    assert "track_parcel" not in run.state["tools"]
    run.go(resume(edit("track_parcel", "Bob")))
    assert result in run.results["track_parcel"]


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({"decisions": [{"type": "Approve"}]}, "decisions[0].type"),
        ({"decisions": [{"type": "approve"}, {"type": "approve"}]}, "1 calls"),
        ({"decisions": [{"type": "edit", "edited_action": {"name": "x"}}]}, "edited_action"),
        ({"type": "approve"}, "1 calls"),
    ],
    ids=["type", "count", "edit", "shape"],
)
def test_a_decision_that_cannot_be_read_is_asked_for_again(desk, answer, field):
    run = waiting_for_approval(desk, "send_mail")
    run.go(Command(resume=answer))
    [asked] = run.graph.get_state(run.config).interrupts
    assert field in asked.value["error"]
    assert asked.value["action_requests"][0]["name"] == "send_mail"
    run.go(resume({"type": "approve"}))
    assert run.results == {"send_mail": "send_mail for Ana"}


def test_a_message_in_place_of_a_decision_leaves_no_call_without_a_result(desk):
    run = waiting_for_approval(desk, "send_mail")
    run.ask("read my mails")
    given = run.model.seen[-1][1]
    [waiting] = [each for each in given if isinstance(each, AIMessage)]
    after = given[given.index(waiting) + 1]
    assert after.tool_call_id == waiting.tool_calls[0]["id"]
    assert run.results == {}


@pytest.mark.parametrize("hint", [True, False])
def test_a_tool_that_the_index_does_not_know_says_itself_whether_a_person_is_asked(desk, hint):
    said = {"name": "wipe_disk", "description": "Wipe.", "metadata": {"destructiveHint": hint}}
    wipe = StructuredTool.from_function(lambda: "wiped", **said)
    run = Run(desk, calls("wipe_disk"), AIMessage("Done."), tools=[*own_tools(), wipe])
    run.ask(MAIL)
    assert (run.path[-1] == "__interrupt__") is hint


def test_a_call_made_again_is_the_one_that_was_approved(sky):
    tools = own_tools(SHOP, get_weather=raising(TimeoutError("late")))
    run = waiting_for_approval(sky, "get_weather", ask=RAIN, tools=tools)
    run.go(resume(edit("get_weather", "Graz")))
    assert run.path == [*CALL, *CALL, *FLOW[6:]]
    assert run.results == {"get_weather": "done for Graz"}


# -- a graph of one's own ------------------------------------------------------------------------


def test_without_reflection_no_call_is_made_again(desk):
    made = []

    def act(to: str = "") -> str:
        made.append(to)
        return f"sent to {to}"

    script = [calls("send_mail", to="Ana"), calls("send_mail", to="Bob"), AIMessage("Both.")]
    nodes = RoutingNodes(desk, ScriptedModel(script=script), own_tools(send_mail=act))
    graph = StateGraph(RoutingState)
    flow = ["classify", "select_tools", "plan", "agent"]
    for name in [*flow, "tools"]:
        graph.add_node(name, getattr(nodes, name))
    for one, next_one in pairwise([START, *flow]):
        graph.add_edge(one, next_one)
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    state = graph.compile().invoke({"messages": [("user", MAIL)]})
    assert made == ["Ana", "Bob"]
    assert (state["calls"], state["tools"]) == (2, ["send_mail", "read_mail"])


def test_an_agent_must_have_what_it_is_always_to_get(desk):
    with pytest.raises(SettingsError, match="no tool 'fly'"):
        Run(desk, always_include=("fly",))
