"""A language model gives an answer of the shape asked for, in time, or one of our errors."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from contextlib import suppress
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from toolcrib import Message, Settings, build
from toolcrib.errors import (
    LanguageModelAnswerError,
    LanguageModelError,
    LanguageModelLateError,
    LanguageModelRefusedError,
    SettingsError,
)
from toolcrib.language_models import ChatFailure, FieldwiseAnswer, LanguageModel, count_usage
from toolcrib.language_models.base import failure_of, token_count
from toolcrib.language_models.langchain import LangChainChatModel
from toolcrib.language_models.model import read_answer
from toolcrib.language_models.openai import OpenAIChatModel
from toolcrib.language_models.testing import FAULTS, ChatServer, faulty_share
from toolcrib.retries import Retries

SECRET = "the-prompt-of-nobody-else"
ASKED = [
    Message(role="system", content="You sort mail."),
    Message(content=f"Where does this belong? {SECRET}"),
]


class Label(BaseModel):
    """Where a letter belongs."""

    label: Literal["billing", "support"]
    sure: bool = True


ANSWER = {"label": "billing", "sure": False}


def model_of(server, protocol="openai", **own):
    settings = Settings.model_validate({"llm": {**server.settings, "protocol": protocol, **own}})
    model = build.language_model(settings, "judge")
    assert model is not None
    return model


def ask(model, **named):
    return model.ask_sync("judge", ASKED, Label, **named)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
@pytest.mark.parametrize(
    ("refuses", "modes"),
    [
        ((), ["tool"]),
        (("tool",), ["tool", "schema"]),
        (("tool", "schema"), ["tool", "schema", "text"]),
    ],
)
def test_the_first_way_of_asking_that_the_server_takes_is_kept(protocol, refuses, modes):
    with ChatServer(ANSWER, refuses=refuses) as server:
        model = model_of(server, protocol)
        assert [ask(model).label, ask(model).label] == ["billing", "billing"]
    assert [each.mode for each in server.requests] == [*modes, modes[-1]]
    assert {each.key for each in server.requests} == {"key-of-the-double"}
    assert server.requests[-1].messages[0] == ASKED[0]
    last, schema = server.requests[-1], json.dumps(Label.model_json_schema())
    assert schema in (last.text if last.mode == "text" else json.dumps(last.body))


OTHER_SHAPES = ("arguments-object", "content-parts", "events", "other-tool")
"""Answers in another shape than OpenAI's, which are read all the same."""


@pytest.mark.parametrize(
    ("protocol", "fault"),
    [*(("openai", fault) for fault in FAULTS), *(("anthropic", fault) for fault in FAULTS[:9])],
)
def test_a_fault_costs_one_more_request_and_another_shape_none(protocol, fault):
    with ChatServer(ANSWER, [fault]) as server:
        assert ask(model_of(server, protocol)).label == "billing"
    assert len(server.requests) == (1 if fault in ("slow", *OTHER_SHAPES) else 2)


def test_an_environment_that_no_client_takes_is_named(monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "nowhere.pem")
    with pytest.raises(SettingsError, match=r"http://localhost:1 .*SSL_CERT_FILE"):
        OpenAIChatModel("double", base_url="http://localhost:1")


def test_a_model_that_refuses_max_tokens_is_given_max_completion_tokens():
    with ChatServer(ANSWER, refuses=["max_tokens"]) as server:
        # One model: each closes the connections of its chat when it goes.
        model = LanguageModel(OpenAIChatModel("double", base_url=server.url, max_tokens=16))
        assert [ask(model).label for _ in range(2)] == ["billing", "billing"]
    limits = [
        (each.body.get("max_tokens"), each.body.get("max_completion_tokens"))
        for each in server.requests
    ]
    assert limits == [(16, None), (None, 16), (None, 16)]


def test_what_does_not_fit_is_asked_for_again_with_what_is_wrong_and_the_schema():
    with ChatServer([{"label": "mail"}, ANSWER]) as server:
        assert ask(model_of(server)).label == "billing"
    before, again = server.requests[-1].messages[-2:]
    assert before.content == '{"label": "mail"}'
    assert "label: Input should be 'billing' or 'support'" in again.content
    assert '"properties"' in again.content


@pytest.mark.parametrize(
    ("fault", "attempts", "error"),
    [
        *((fault, 2, LanguageModelRefusedError) for fault in FAULTS[1:5]),
        # An answer is asked for again once, however often a request may be tried.
        *((fault, 5, LanguageModelAnswerError) for fault in FAULTS[5:8]),
    ],
)
def test_what_may_pass_is_tried_so_often_and_no_more(fault, attempts, error):
    with (
        ChatServer(ANSWER, lambda _: fault) as server,
        pytest.raises(error, match=r"double: it |no Label"),
    ):
        ask(model_of(server, attempts=attempts))
    assert len(server.requests) == 2


def test_a_wait_longer_than_the_time_is_not_begun():
    with (
        ChatServer(ANSWER, ["busy"], retry_after_s=60) as server,
        pytest.raises(LanguageModelRefusedError, match="status 429") as raised,
    ):
        ask(model_of(server), timeout_s=20)
    assert raised.value.retry_after_s == 60
    assert len(server.requests) == 1


def test_nobody_waits_longer_than_the_time_of_the_use():
    with ChatServer(ANSWER, lambda _: "slow", slow_s=60) as server:
        model = model_of(server, uses={"judge": {"timeout_s": 0.1}})
        with pytest.raises(LanguageModelLateError, match=r"within 0.1 s; raise llm.uses.judge"):
            ask(model)
        with pytest.raises(LanguageModelLateError):
            asyncio.run(model.ask("judge", ASKED, Label))


def test_a_server_that_is_not_there_is_one_of_our_errors():
    with ChatServer() as server:
        pass
    with pytest.raises(LanguageModelRefusedError, match="cannot be reached"):
        ask(model_of(server, attempts=1))


async def test_it_answers_with_a_loop_without_one_and_in_many_at_once():
    with ChatServer(ANSWER) as server:
        model = model_of(server)
        answers = await asyncio.gather(
            *(model.ask("judge", ASKED, Label) for _ in range(10)),
            *(asyncio.to_thread(ask, model) for _ in range(10)),
        )
        # In a running loop, where nothing can be awaited.
        assert ask(model) == Label.model_validate(ANSWER)
    assert {each.label for each in answers} == {"billing"}


@pytest.mark.parametrize("uses", [("judge",), ("judge", "rerank", "agents")])
def test_no_more_requests_to_a_server_than_allowed_are_under_way_over_all_uses(uses):
    under_way, most, lock = 0, 0, threading.Lock()

    def reply(_):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        threading.Event().wait(0.01)
        with lock:
            under_way -= 1
        return ANSWER

    async def ask_all(models):
        await asyncio.gather(
            *(each.ask(use, ASKED, Label, timeout_s=60) for use, each in models for _ in range(12))
        )

    with ChatServer(reply) as server:
        asyncio.run(ask_all([(use, model_of(server, parallel=3)) for use in uses]))
    assert most == 3


def test_calls_tokens_and_cost_are_added_up_for_whoever_meters():
    prices = {"double": {"input": 1_000_000, "output": 2_000_000}}
    with ChatServer(ANSWER, ["error"]) as server, count_usage() as outer:
        model = model_of(server, prices=prices)
        ask(model)
        with count_usage() as inner:
            asyncio.run(model.ask("rerank", ASKED, Label))
    judged, reranked = model.meter.usage
    assert outer.usage == (judged, reranked)
    assert inner.usage == (reranked,)
    assert (judged.use, judged.model, judged.calls, judged.failed) == ("judge", "double", 2, 1)
    assert judged.cost == judged.input_tokens + 2 * judged.output_tokens > 0


@pytest.mark.parametrize("fault", [None, "error", "not-json", "wrong-schema", "refuses-tools"])
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_no_prompt_and_no_key_is_logged_or_raised(protocol, fault, caplog):
    caplog.set_level(logging.DEBUG)
    said = ""
    with ChatServer(lambda each: {"echo": each.text}, lambda _: fault) as server:
        try:
            ask(model_of(server, protocol, attempts=1))
        except LanguageModelError as error:
            logging.getLogger("anybody").warning("it failed", exc_info=True)
            said = str(error)
    told = caplog.text + said
    assert SECRET not in told
    assert "key-of-the-double" not in told
    assert "it failed" in told


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_what_the_environment_says_of_other_servers_goes_to_none(protocol, monkeypatch):
    for name in ("OPENAI", "ANTHROPIC"):
        monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "Authorization: Bearer real\nx-api-key: real")
        monkeypatch.setenv(f"{name}_API_KEY", "real")
    monkeypatch.setenv("OPENAI_ORG_ID", "real")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "real")
    with ChatServer(ANSWER) as server:
        ask(model_of(server, protocol))
    [request] = server.requests
    assert request.key == "key-of-the-double"


def test_where_an_answer_is_wrong_is_told_without_the_model_s_words():
    class Named(BaseModel):
        model_config = ConfigDict(extra="forbid")
        scores: dict[str, int]

    said = {"scores": {SECRET: "much"}, SECRET: 1}
    with ChatServer(said) as server, pytest.raises(LanguageModelAnswerError) as raised:
        model_of(server).ask_sync("judge", ASKED, Named)
    assert SECRET not in str(raised.value)
    assert "scores.*" in str(raised.value)


@pytest.mark.parametrize(
    ("status", "body", "is_mode"),
    [
        (400, None, True),
        (400, {"message": "this model does not support tools"}, True),
        (500, {"message": "tools param requires --jinja flag"}, True),
        (400, {"message": "maximum context length is 4096 tokens"}, False),
        (404, {"message": "The model does not exist"}, False),
        (500, None, False),
    ],
)
def test_only_what_is_about_the_way_of_asking_is_asked_another_way(status, body, is_mode):
    error = RuntimeError("no")
    error.status_code, error.body = status, body
    assert failure_of(error).mode_refused == is_mode


class Double:
    """A chat model that does as it is told."""

    name, provider, server, modes = "double", "none", "here", ("tool",)

    def __init__(self, complete):
        self.complete = complete

    async def aclose(self):
        pass


@pytest.mark.parametrize("sync", [True, False])
def test_a_model_that_is_closed_while_asked_is_one_of_our_errors(sync):
    async def complete(*_):
        raise asyncio.CancelledError

    model = LanguageModel(Double(complete))
    with pytest.raises(LanguageModelRefusedError, match="closed"):
        ask(model) if sync else asyncio.run(model.ask("judge", ASKED, Label))


def test_a_bug_in_a_callers_own_model_is_named_with_its_place_and_without_its_text():
    async def complete(*_):
        raise KeyError(SECRET)

    with pytest.raises(LanguageModelRefusedError) as caught:
        ask(LanguageModel(Double(complete)))
    assert str(caught.value) == "double: its client raised KeyError in test_model.py, complete"


@pytest.mark.parametrize(
    ("usage", "count"),
    [({"sent": 3}, 3), ({"sent": "3"}, 0), ({"sent": None}, 0), ({}, 0), (None, 0), ("3", 0)],
)
def test_tokens_that_are_no_number_count_as_unreported(usage, count):
    assert token_count(usage, "sent") == count


def test_who_is_late_after_failures_is_late_and_says_what_failed():
    async def complete(*_):
        raise ChatFailure("it answered with status 500", transient=True)

    model = LanguageModel(Double(complete))
    model.retries = Retries(2, first_pause_s=60, max_pause_s=60, jitter_s=0)
    with pytest.raises(LanguageModelLateError, match="status 500"):
        ask(model, timeout_s=0.2)


def test_prompts_are_logged_for_who_wants_them(caplog):
    caplog.set_level(logging.INFO)
    with ChatServer(ANSWER) as server:
        ask(model_of(server, log_text=True))
    assert SECRET in caplog.text


def test_a_temperature_that_the_model_refuses_is_left_out_from_then_on():
    with ChatServer(ANSWER, refuses=["temperature"]) as server:
        model = model_of(server, attempts=1)
        ask(model)
        ask(model)
    assert [each.body.get("temperature") for each in server.requests] == [0.0, None, None]
    assert {each.mode for each in server.requests} == {"tool"}
    assert (model.meter.usage[0].calls, model.meter.usage[0].failed) == (3, 1)


@pytest.mark.parametrize("tools", [True, False])
def test_a_chat_model_of_langchain_can_be_passed_in(tools):
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Fake(GenericFakeChatModel):
        def bind_tools(self, given, **_named):
            if not tools:
                raise NotImplementedError
            assert given[0]["function"]["name"] == "Label"
            return self

    call = {"name": "Label", "args": ANSWER, "id": "1", "type": "tool_call"}
    usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
    said = AIMessage(content="", tool_calls=[call], usage_metadata=usage)
    words = AIMessage(content='Sure: {"label": "support"}.')
    model = LanguageModel(LangChainChatModel(Fake(messages=iter([said if tools else words]))))
    assert ask(model).label == ("billing" if tools else "support")
    assert model.meter.usage[-1].output_tokens == (2 if tools else 0)


def test_connections_are_closed_with_the_model():
    with ChatServer(ANSWER) as server:
        model = model_of(server)
        ask(model)
        model.close()
        del model
        gc.collect()


def test_without_a_model_there_is_none_and_half_a_setting_is_an_error():
    assert build.language_model(Settings(), "judge") is None
    own = Settings.model_validate({"llm": {"uses": {"judge": {"model": "small"}}}})
    assert build.language_model(own, "rerank") is None
    judge = build.language_model(own, "judge")
    assert judge is not None
    assert judge.name == "small"
    half = Settings.model_validate({"llm": {"base_url": "http://127.0.0.1:1/v1"}})
    with pytest.raises(SettingsError, match=r"llm.model is not"):
        build.language_model(half, "judge")


def test_with_many_faults_every_question_is_answered_or_one_of_our_errors():
    with ChatServer(ANSWER, faulty_share(0.5, seed=3), slow_s=0.05) as server:
        model = model_of(server, attempts=2)

        async def asked():
            try:
                return await model.ask("judge", ASKED, Label)
            except LanguageModelError as error:
                return error

        async def ask_all():
            return await asyncio.gather(*(asked() for _ in range(40)))

        answers = asyncio.run(ask_all())
    assert {type(each).__name__ for each in answers} >= {"Label"}
    assert all(isinstance(each, Label | LanguageModelError) for each in answers)


ANSWERS = [
    '{"label": "billing"}',
    'Here you are:\n```json\n{"label": "billing"}\n```\nAnything else?',
    '"{\\"label\\": \\"billing\\"}"',
    "{'label': 'billing', 'sure': True}",
    "{“label”: “billing”}",
    'I weighed {this} and {that}. {"label": "billing"} is what fits.',
    'First {"label": "mail"}, no: {"label": "billing"}',
    # What was thought before an answer is none.
    '<think>{"label": "support"}</think>\n{"label": "billing"}',
    '<thinking>no: {"label": "support"}</thinking>```json\n{"label": "billing"}\n```',
    '<reasoning effort="high">{"label": "support"}</reasoning>{"label": "billing"}',
    '{"label": "support"} rather not.</think>{"label": "billing"}',
    '<think>a <think>{"label": "support"}</think> {"label": "support"}</think>{"label": "billing"}',
    '[THINK]{"label": "support"}[/THINK]{"label": "billing"}',
    '{"label": "billing"}<think>{"label": "support"}',
    # The last that fits is the answer.
    'Is it {"label": "support"}? It is {"label": "billing"}.',
    '{"label": "billing"} {"error": "none"} {}',
    "{} " * 200 + "{no} " * 40 + '{"label": "billing"}',
]


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_found_in_what_surrounds_it(text):
    assert read_answer(text, Label).label == "billing"


@given(st.text(), st.text())
def test_whatever_stands_around_an_answer(before, after):
    # Brackets of its own may take the answer in.
    with suppress(ValueError):
        assert read_answer(before + '{"label": "support"}' + after, Label).label == "support"


def test_an_answer_may_speak_of_tags():
    assert read_answer('{"text": "write <think> first"}', Sentence).text == "write <think> first"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((text, "not JSON") for text in ("", "[" * 100_000, '{"a":' * 50_000, "{" * 100_000)),
        *((text, "not JSON") for text in ('<think>{"text": "x"}', "<think " * 20_000, "</think>")),
        *((text, "no field") for text in ("{}", '{"error": "busy"}', '{"detail": {"text": "x"}}')),
    ],
)
def test_what_is_no_answer_or_a_thought_alone_is_unreadable_and_no_more(text, told):
    with pytest.raises(ValueError, match=told):
        read_answer(text, Sentence)


class Sentence(BaseModel):
    """A sentence, all of whose fields have a default."""

    text: str = ""


class Letter(FieldwiseAnswer):
    """A letter: it is expected to have a sender; without a label it is none."""

    expected = frozenset({"sender"})

    label: Literal["billing", "support"]
    sender: str = "nobody"
    pages: int = 1


@pytest.mark.parametrize(
    ("reply", "letter", "lacking", "requests"),
    [
        ({"label": "billing", "sender": "Ana"}, ("Ana", 1), (), 1),
        ({"label": "billing", "sender": 7, "pages": 3}, ("nobody", 3), ("sender",), 2),
        ({"label": "billing", "pages": "many"}, ("nobody", 1), ("sender", "pages"), 2),
        ({"label": "billing"}, ("nobody", 1), ("sender",), 1),
    ],
)
def test_a_field_that_is_wrong_or_missing_falls_back_alone_and_is_told(
    reply, letter, lacking, requests
):
    with ChatServer(reply) as server:
        found, marks = model_of(server).try_ask("judge", ASKED, Letter)
    assert found is not None
    assert (found.sender, found.pages) == letter
    assert marks == tuple(f"judge-llm:{name}" for name in lacking)
    assert len(server.requests) == requests


@pytest.mark.parametrize("second", ["not-json", "error"])
def test_fields_that_fit_are_kept_where_asking_again_fails(second):
    reply = {"label": "billing", "sender": "Ana", "pages": "many"}
    with ChatServer(reply, [None, second, second, second]) as server:
        found, marks = model_of(server, attempts=1).try_ask("judge", ASKED, Letter)
    assert found is not None
    assert (found.label, found.sender, marks) == ("billing", "Ana", ("judge-llm:pages",))


@pytest.mark.parametrize("reply", [{"sender": "Ana"}, {}, {"error": "x"}])
def test_without_what_it_cannot_do_without_there_is_no_answer(reply):
    with ChatServer(lambda _: reply) as server:
        assert model_of(server).try_ask("judge", ASKED, Letter) == (None, ("judge-llm",))


# -- several prompts at once -------------------------------------------------------------------

LETTERS = [[Message(content=f"letter {number}")] for number in range(4)]


def test_prompts_are_asked_at_once_and_an_error_stands_for_a_missing_answer():
    together = threading.Barrier(4, timeout=20)

    def reply(request):
        # Requests behind the first four are repairs.
        if request.number < len(LETTERS):
            together.wait()
        return "nothing of use" if "letter 2" in request.text else ANSWER

    with ChatServer(reply) as server:
        model = model_of(server, attempts=1)
        with count_usage() as meter:
            found = model.ask_each("judge", LETTERS, Label, timeout_s=30)
    assert [isinstance(each, LanguageModelAnswerError) for each in found] == [0, 0, 1, 0]
    assert {each.use for each in meter.usage} == {"judge"}
    assert model.ask_each("judge", [], Label, timeout_s=30) == []


def test_prompts_that_wait_for_a_free_request_share_the_time():
    with ChatServer(ANSWER, lambda _: "slow", slow_s=0.3) as server:
        found = model_of(server, parallel=1).ask_each("judge", LETTERS, Label, timeout_s=0.5)
    assert LanguageModelLateError in {type(each) for each in found}


def test_an_unknown_protocol_is_refused_and_the_known_ones_are_named():
    with pytest.raises(ValueError, match=r"llm\.protocol[\s\S]*'openai' or 'anthropic'"):
        Settings.model_validate({"llm": {"protocol": "opnai"}})
