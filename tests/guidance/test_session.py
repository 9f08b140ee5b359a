"""A session gives one hint at a time; clients' messages and hooks are read for events."""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle

import pytest

from toolcrib.guidance import (
    GuidanceHooks,
    GuidanceInjection,
    GuidanceSession,
    analyse,
    events_of,
    with_guidance,
)


def test_a_session_says_one_thing_and_is_quiet_for_five_calls():
    session, heard = GuidanceSession(), []
    for number in range(60):
        session.trajectory.tool_invoked(name="send", success=False, error="no", at=number)
        heard += [(number, made.key)] if (made := session.hint()) else []

    assert heard[0] == (2, "doom-loop")
    assert all(two[0] - one[0] == 6 for one, two in itertools.pairwise(heard))


def test_a_session_can_be_kept_and_goes_on_where_it_was():
    session = GuidanceSession()
    for _ in range(2):
        session.trajectory.tool_invoked(name="send", parameters={"to": "ana"}, error="no")
    kept = pickle.loads(pickle.dumps(session))
    kept.trajectory.tool_invoked(name="send", parameters={"to": "ana"}, error="no")

    assert session.hint() is None
    assert copy.deepcopy(kept).hint() == kept.hint() is not None


def test_a_stall_alone_is_no_hint():
    session = GuidanceSession()
    for number in range(9):
        session.trajectory.tool_invoked(name=f"look_{number}", result="the same words")
        assert session.hint() is None
    assert "progress_stall" in session.trajectory.build().patterns()


def test_the_tool_an_agent_is_stuck_with_is_told_while_a_hint_is_due():
    session = GuidanceSession()
    session.trajectory.prompt_executed("write to Ana")
    for _ in range(3):
        session.trajectory.tool_invoked(name="send", error="refused")
    stuck = session.stuck()

    assert (stuck.name, stuck.calls, stuck.goal) == ("send", 3, "write to Ana")
    assert session.hint(lambda tool, goal: [tool, goal]).content.endswith("write to Ana.")
    assert session.stuck() is None


# -- messages ------------------------------------------------------------------------------------

ARGUMENTS = '{"to": "ana"}'
FUNCTION = {"id": "1", "type": "function", "function": {"name": "send", "arguments": ARGUMENTS}}
CHAT = [
    {"role": "user", "content": "write to Ana"},
    {"role": "assistant", "content": None, "tool_calls": [FUNCTION]},
    {"role": "tool", "tool_call_id": "1", "content": '{"error": "no"}'},
]
RESPONSES = [
    {"role": "user", "content": [{"type": "input_text", "text": "write to Ana"}]},
    {"type": "function_call", "call_id": "1", "name": "send", "arguments": ARGUMENTS},
    {"type": "function_call_output", "call_id": "1", "output": "Error: no"},
]
USE = {"type": "tool_use", "id": "1", "name": "send", "input": {"to": "ana"}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "is_error": True}
BLOCKS = [
    {"role": "user", "content": "write to Ana"},
    {"role": "assistant", "content": [USE]},
    {"role": "user", "content": [RESULT | {"content": [{"type": "text", "text": "no"}]}]},
]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, BLOCKS], ids=["chat", "responses", "blocks"])
def test_a_trajectory_is_read_from_what_clients_keep(messages):
    said, called = events_of(messages)

    assert (said.type, said.text) == ("prompt", "write to Ana")
    assert (called.name, called.parameters) == ("send", {"to": "ana"})
    assert analyse([called]).error_count == 1
    assert events_of([*messages[:2], {"role": "tool"}, "no message"]) == (said,)


CUSTOM = {"id": "1", "type": "custom", "custom": {"name": "send", "input": "ana"}}
OF_A_SERVER = {"name": "send", "id": "1", "type": "mcp_call", "arguments": ARGUMENTS}


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "assistant", "tool_calls": [CUSTOM]}, CHAT[2]],
        [
            {"role": "assistant", "function_call": FUNCTION["function"]},
            {"role": "function", "name": "send", "content": "Error: no"},
        ],
        [OF_A_SERVER | {"output": None, "error": "no"}],
        [
            {"type": "custom_tool_call", "call_id": "1", "name": "send", "input": "ana"},
            {"type": "custom_tool_call_output", "call_id": "1", "output": "Error: no"},
        ],
        [
            {"type": "send_call", "call_id": "1", "action": {"to": "ana"}},
            {"type": "send_call_output", "call_id": "1", "status": "failed", "output": "no"},
        ],
        [
            {"role": "assistant", "content": [USE | {"type": "mcp_tool_use"}]},
            {"role": "assistant", "content": [RESULT | {"type": "mcp_tool_result"}]},
        ],
        [
            {"role": "assistant", "content": [USE | {"type": "server_tool_use"}]},
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "send_tool_result",
                        "tool_use_id": "1",
                        "content": {"type": "send_tool_result_error", "error_code": "unavailable"},
                    }
                ],
            },
        ],
    ],
    ids=["custom", "function", "mcp", "custom-item", "own-item", "mcp-block", "server-block"],
)
def test_calls_of_other_kinds_are_read_too(messages):
    (called,) = events_of(messages)

    assert called.name == "send"
    assert "ana" in str(called.parameters)
    assert analyse([called]).error_count == 1


def test_messages_of_an_unknown_format_are_told(caplog):
    assert events_of([{"role": "model", "parts": [{"functionCall": {"name": "send"}}]}]) == ()
    assert "in 1 messages" in caplog.text
    caplog.clear()
    asked = {"role": "user", "content": "who is ana?"}
    called = {"role": "assistant", "tool_calls": [{"id": "1", "name": "get", "arguments": {}}]}
    events_of([asked, called, {"role": "tool", "id": "1", "content": "nobody"}])
    assert "no call in 3 messages, but 1 results" in caplog.text
    caplog.clear()
    assert events_of([]) == ()
    assert len(events_of([asked])) == 1
    assert not caplog.text


def test_a_failure_is_read_beside_a_picture_and_two_pictures_are_two_answers():
    def screenshot(text, picture):
        image = {"type": "image", "source": {"data": picture * 10_000}}
        return analyse(events_of([*BLOCKS[:2], {"role": "user", "content": [block(text, image)]}]))

    def block(text, image):
        return RESULT | {"is_error": False, "content": [{"type": "text", "text": text}, image]}

    first, second = screenshot("Error: no", "a"), screenshot("Error: no", "b")
    assert first.error_count == 1
    assert first.calls[0].message.startswith("Error: no\n[image ")
    assert first.calls[0].message != second.calls[0].message
    assert len(first.calls[0].message) < 40


@pytest.mark.parametrize(
    ("result", "failed"),
    [("MCP error -32602: no such tool", True), ("12 passed, 0 failed", False)],
)
def test_a_result_without_a_mark_is_read_for_its_failure(result, failed):
    session = GuidanceSession()
    for event in events_of([*CHAT[:2], {**CHAT[2], "content": result}]):
        session.trajectory.on_event(event)

    assert session.trajectory.build().error_count == failed


def test_a_hint_stands_at_the_end_of_what_is_sent_and_in_no_history():
    before = copy.deepcopy(CHAT)
    sent = with_guidance(CHAT, [GuidanceInjection(key="a", content="about a")], role="developer")

    assert sent[:-1] == before == CHAT
    assert sent[-1] == {"role": "developer", "content": "Hint, for this turn only: about a"}
    assert with_guidance(CHAT, []) == before


def test_hooks_answer_with_context_once_each_session_for_itself():
    hooks = GuidanceHooks(lambda _tool, _text: ["post_letter"])
    failed = {"tool_name": "send", "tool_input": {"to": "ana"}, "error": "refused"}

    def happens(event, session="one", **more):
        given = {"hook_event_name": event, "session_id": session, **more}
        return asyncio.run(hooks(given, "id", {}))

    assert happens("UserPromptSubmit", prompt="write") == {}
    answers = [happens("PostToolUseFailure", **failed) for _ in range(5)]
    others = [happens("PostToolUse", "two", tool_name="t", tool_response=n) for n in range(5)]

    assert [bool(each) for each in answers] == [False, False, True, False, False]
    told = answers[2]["hookSpecificOutput"]
    assert told["hookEventName"] == "PostToolUseFailure"
    assert "post_letter" in told["additionalContext"]
    assert others == [{}] * 5
    assert (
        happens("Stop") == hooks.answer({"tool_input": 3, "hook_event_name": "PostToolUse"}) == {}
    )
