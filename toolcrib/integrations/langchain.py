"""LangChain integration: tools of each turn for `create_agent`, and passages as a retriever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any, NotRequired, cast

from typing_extensions import TypedDict

from toolcrib.extras import needs_extra

with needs_extra("agents of LangChain", "langchain"):
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
        ToolCallRequest,
    )
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.messages import (
        AIMessage,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        SystemMessage,
        ToolCall,
        ToolMessage,
    )
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command

from toolcrib.integrations.formats import (
    fitting_definition,
    restore_arguments,
    tool_addition,
    tool_removal,
)
from toolcrib.integrations.selection import (
    DEFAULT_STEPS,
    NOTHING_FOUND,
    SEARCH,
    AgentTools,
    AnyCrib,
    RunStep,
    ScopeOf,
    ShownTools,
    StepOptions,
    absence,
    may_call,
    passage_metadata,
    refusal,
    report_outcome,
    scope_in,
)
from toolcrib.records import Attachment, Message, Scope, ToolSpec, Turn
from toolcrib.records.codec import is_object

# -- turns -----------------------------------------------------------------------------------------


def last_user_message(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Last message of the user; a summary of earlier messages is not the user's."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return message
    return None


def turn_of(messages: Sequence[BaseMessage], scope: Scope | None = None) -> Turn:
    """Turn of the user's last message, with the messages before as history."""
    last = last_user_message(messages)
    if last is None:
        return Turn(scope=scope)
    before = messages[: next(at for at, each in enumerate(messages) if each is last)]
    history = tuple(
        Message(role="user" if isinstance(each, HumanMessage) else "assistant", content=each.text)
        for each in before
        if isinstance(each, HumanMessage | AIMessage) and each.text
    )
    return Turn(text=last.text, history=history, attachments=_attachments(last), scope=scope)


def step_of(messages: Sequence[BaseMessage]) -> RunStep:
    """Step after the user's last message: the model's last text, and its calls."""
    last = last_user_message(messages)
    at = next((at for at, each in enumerate(messages) if each is last), -1)
    turn = messages[at + 1 :]
    at = max((at for at, each in enumerate(turn) if isinstance(each, AIMessage)), default=0)
    calls = [[c["name"] for c in each.tool_calls] for each in turn if isinstance(each, AIMessage)]
    found = [
        name
        for each in turn[at + 1 :]
        if isinstance(each, ToolMessage) and is_object(each.artifact)
        for name in each.artifact.get("toolcrib", ())
    ]
    return RunStep.of(turn[at].text if calls else "", calls, found)


def _attachments(message: HumanMessage) -> tuple[Attachment, ...]:
    found: list[Attachment] = []
    for block in message.content_blocks:
        part: Mapping[str, Any] = block
        extras: Mapping[str, Any] = part.get("extras") or part.get("metadata") or {}
        name, mime = extras.get("filename") or extras.get("name"), part.get("mime_type")
        if part["type"] in {"image", "audio", "video", "file"}:
            kind = {"file": "application/octet-stream"}.get(part["type"], f"{part['type']}/*")
            found.append(Attachment(name=str(name or ""), mime=str(mime or kind)))
    return tuple(found)


# -- tools -----------------------------------------------------------------------------------------


class InlineChanges(TypedDict):
    """Changes of the tools within a conversation, for a model that supports them.

    `tools` are the names before all messages, `offered` the names that the model has now. Each of
    `changes` is the id of a message, and the blocks after that message.
    """

    tools: list[str]
    offered: list[str]
    defined: list[str]
    changes: list[tuple[str, list[dict[str, Any]]]]


class _ToolcribState(AgentState[Any]):
    toolcrib: NotRequired[Annotated[ShownTools, PrivateStateAttr]]
    toolcrib_inline: NotRequired[Annotated[InlineChanges | None, PrivateStateAttr]]


class ToolcribMiddleware(AgentMiddleware[_ToolcribState, Any, Any]):
    """Middleware that gives an agent's model the tools that each turn, and each step of it, needs.

    The tools are chosen for the user's message, by their names in the index. Before later calls of
    the model in the turn, the index is searched by the model's last text, and the list grows as
    `steps` say. Tools unknown to the index stay (such as other middleware's), as do tools in
    `always_include` and tools that the provider runs. `k` replaces `tools.k`. JSON schemas are
    converted to the form that all providers accept, and calls back to the tool's own names.
    Outcomes of calls are reported to the crib. Tools of earlier turns keep their places; with
    `tools.append_only` they also stay. For Anthropic's models that support it, tools are added and
    removed by `system` messages of the conversation, so that the prompt cache holds; `inline`
    overrides this.

    Raises:
        QueryError: `k` is less than 1.
        SettingsError: a name in `always_include` is no tool of the agent.
        StoreError: a store does not answer.
    """

    state_schema = _ToolcribState

    def __init__(
        self,
        crib: AnyCrib,
        *,
        k: int | None = None,
        always_include: Sequence[str] = (),
        scope: ScopeOf = None,
        steps: StepOptions = DEFAULT_STEPS,
        inline: bool | None = None,
    ) -> None:
        super().__init__()
        self.crib, self._inline = crib, inline
        self.scope = scope
        self._choice = AgentTools(crib, k, tuple(always_include), steps)
        self.tools = [_search_tool()] if steps.search else []

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Call the model with the tools of the turn and the step."""
        given, update = self._prepare(request)
        return ExtendedModelResponse(handler(given), update)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """As `wrap_model_call`; the crib works in a thread."""
        given, update = await asyncio.to_thread(self._prepare, request)
        return ExtendedModelResponse(await handler(given), update)

    def _prepare(self, request: ModelRequest[Any]) -> tuple[ModelRequest[Any], Command[Any] | None]:
        """Request with the chosen tools, and the update of the state."""
        if (chosen := self._choose(request)) is None:
            return request, None
        takes = _takes_tools_inline(request.model) if self._inline is None else self._inline
        before = request.state.get("toolcrib_inline")
        # Without changes within the conversation, the list itself changes.
        changes = _changes_to(before, chosen["names"], request) if takes else None
        update = {"toolcrib": chosen, "toolcrib_inline": changes}
        return _with_chosen_tools(request, chosen, changes), Command(update=update)

    def _choose(self, request: ModelRequest[Any]) -> ShownTools | None:
        before: ShownTools | None = request.state.get("toolcrib")
        scope = scope_in(request.runtime, self.scope)
        message = last_user_message(request.messages)
        if before and _is_same_turn(before, message):
            return self._choice.for_step(before, step_of(request.messages), scope)
        own = [tool for tool in request.tools if not any(tool is each for each in self.tools)]
        names = [tool.name for tool in own if not isinstance(tool, dict)]
        if message is None or not names:
            return None
        return self._choice.for_turn(
            turn_of(request.messages, scope),
            names,
            key=message.id or "",
            always=[name for name in names if name == request.tool_choice],
            shown=before["shown"] if before else (),
        )

    def _answer(self, request: ToolCallRequest) -> ToolMessage | None:
        """Answer to a call of `find_tools`, or of a tool that the turn or its scope lacks."""
        call, shown = request.tool_call, request.state.get("toolcrib")
        name, call_id = call["name"], call["id"] or ""
        said = [each for each in request.state["messages"] if isinstance(each, AIMessage)]
        asked = said[-1].tool_calls if said else ()
        is_allowed = is_allowed_edit(self.crib, request, asked, self.scope)
        if text := "" if is_allowed else refusal(shown, name):
            return ToolMessage(text, tool_call_id=call_id, name=name, status="error")
        if name != SEARCH.name or not self.tools or shown is None:
            return None
        called = step_of(request.state["messages"]).called
        scope = scope_in(cast("Any", request).runtime, self.scope)
        text, found = self._choice.search(shown, call["args"], called, scope)
        return ToolMessage(text, tool_call_id=call_id, name=name, artifact={"toolcrib": found})

    # -- outcomes of calls -------------------------------------------------------------------

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Call the tool and report the outcome; a tool outside the turn is refused."""
        if answer := self._answer(request):
            return answer
        began = perf_counter()
        try:
            result = handler(with_own_names(request))
        except GraphBubbleUp:
            raise
        except Exception:
            self._report(request, None, began)
            raise
        self._report(request, result, began)
        return _without_hidden_names(request, result)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`; the crib works in a thread."""
        if answer := await asyncio.to_thread(self._answer, request):
            return answer
        began = perf_counter()
        try:
            result = await handler(with_own_names(request))
        except GraphBubbleUp:
            raise
        except Exception:
            await asyncio.to_thread(self._report, request, None, began)
            raise
        await asyncio.to_thread(self._report, request, result, began)
        return _without_hidden_names(request, result)

    def _report(
        self, request: ToolCallRequest, result: ToolMessage | Command[Any] | None, began: float
    ) -> None:
        """Report the outcome of a call; a call that raised has no result."""
        failed = result is None or getattr(result, "status", "") == "error"
        chosen: ShownTools | None = request.state.get("toolcrib")
        # Middleware within this may have called another tool, as after a person's edit.
        name = getattr(result, "name", None) or request.tool_call["name"]
        if chosen and (tool := chosen["ids"].get(name)):
            took_ms = (perf_counter() - began) * 1000
            report_outcome(self.crib, chosen["decision"], tool, took_ms, failed=failed)


def _search_tool() -> BaseTool:
    """Tool `find_tools`, which the middleware answers itself."""

    def find_tools(**_: Any) -> str:
        return NOTHING_FOUND

    return StructuredTool(
        name=SEARCH.name,
        description=SEARCH.description,
        args_schema=dict(SEARCH.input_schema),
        func=find_tools,
    )


def _is_same_turn(before: ShownTools, message: HumanMessage | None) -> bool:
    """True if the tools were chosen for this message; deep agents' messages have no id."""
    if message is None:
        return True
    if message.id and before["turn"]:
        return message.id == before["turn"]
    return message.text == before["task"]


def _takes_tools_inline(model: Any) -> bool:
    """True for a model whose integration can send tools within a conversation."""
    profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
    is_anthropic = getattr(model, "_llm_type", "") == "anthropic-chat"
    return is_anthropic and bool(profile.get("mid_conversation_system_messages"))


def _changes_to(
    before: InlineChanges | None, names: list[str], request: ModelRequest[Any]
) -> InlineChanges:
    """Changes that bring the list to `names`; a new list if no message can have the blocks."""
    messages = request.messages
    here, last = {message.id for message in messages}, messages[-1]
    new_list: InlineChanges = {"tools": names, "offered": names, "defined": names, "changes": []}
    if before is None or not here.issuperset(anchor for anchor, _ in before["changes"]):
        return new_list
    if {*names} == {*before["offered"]}:
        return before
    if not (last.id and isinstance(last, HumanMessage | ToolMessage)):
        return new_list
    tools = {tool.name: tool for tool in request.tools if not isinstance(tool, dict)}
    added = [name for name in names if name not in before["offered"] and name in tools]
    blocks = [
        tool_addition(name if name in before["defined"] else _definition(tools[name]))
        for name in added
    ]
    blocks += [tool_removal(name) for name in before["offered"] if name not in names]
    return {
        "tools": before["tools"],
        "offered": names,
        "defined": list(dict.fromkeys((*before["defined"], *added))),
        "changes": [*before["changes"], (last.id, blocks)],
    }


def _definition(tool: BaseTool) -> dict[str, Any]:
    function = convert_to_openai_tool(fit_tool(tool))["function"]
    shown = {"name": function["name"], "description": function.get("description", "")}
    return {**shown, "input_schema": function["parameters"]}


def _with_blocks(messages: Sequence[AnyMessage], changes: InlineChanges | None) -> list[AnyMessage]:
    """Messages, with a system message after each message that changes of the tools follow."""
    behind = dict(changes["changes"]) if changes else {}
    given: list[AnyMessage] = []
    for message in messages:
        given.append(message)
        if blocks := behind.get(message.id or ""):
            given.append(SystemMessage(cast("Any", blocks)))
    return given


def _with_chosen_tools(
    request: ModelRequest[Any], chosen: ShownTools, changes: InlineChanges | None
) -> ModelRequest[Any]:
    names = changes["tools"] if changes else chosen["names"]
    named = {tool.name: tool for tool in request.tools if not isinstance(tool, dict)}
    tools = [named.pop(name) for name in names if name in named]
    # Tools that other middleware added meanwhile stay.
    hidden = {*chosen["hidden"], *chosen["names"], SEARCH.name}
    tools += [tool for name, tool in named.items() if name not in hidden]
    provided = [tool for tool in request.tools if isinstance(tool, dict)]
    messages = _with_blocks(request.messages, changes)
    return request.override(tools=[*map(fit_tool, tools), *provided], messages=messages)


def fit_tool(tool: BaseTool) -> BaseTool:
    """Tool whose JSON Schema has the form that all providers accept."""
    if (shown := fitting_definition(_schema_spec(tool))) is None:
        return tool
    changed = {"args_schema": shown["input_schema"], "description": shown["description"]}
    return tool.model_copy(update=changed)


def _schema_spec(tool: BaseTool) -> ToolSpec:
    """Specification of a tool; the schema of a Python class is the one that LangChain sends."""
    schema: Any = tool.args_schema
    if not is_object(schema):
        schema = convert_to_openai_tool(tool)["function"].get("parameters", {})
    return ToolSpec(name=tool.name, description=tool.description, input_schema=schema)


def with_own_names(request: ToolCallRequest) -> ToolCallRequest:
    """The call with the argument names of the tool's own schema."""
    if request.tool is None:
        return request
    own = restore_arguments(_schema_spec(request.tool), request.tool_call["args"])
    return request.override(tool_call={**request.tool_call, "args": own})


def is_allowed_edit(
    crib: AnyCrib, request: ToolCallRequest, asked: Sequence[ToolCall], scope: ScopeOf
) -> bool:
    """True if a person put an allowed tool in place of the tool that the model asked for."""
    name, names = request.tool_call["name"], {each["id"]: each["name"] for each in asked}
    is_edited = names.get(request.tool_call["id"], name) != name
    return is_edited and may_call(crib, name, scope_in(cast("Any", request).runtime, scope))


def _without_hidden_names(
    request: ToolCallRequest, result: ToolMessage | Command[Any]
) -> ToolMessage | Command[Any]:
    """The result; for an unknown tool an error that does not list the hidden tools."""
    shown: ShownTools | None = request.state.get("toolcrib")
    if request.tool is not None or shown is None or not isinstance(result, ToolMessage):
        return result
    if result.status != "error" or not any(name in result.text for name in shown["hidden"]):
        return result
    return result.model_copy(update={"content": absence(shown, request.tool_call["name"])})


# -- knowledge -------------------------------------------------------------------------------------


class ToolcribRetriever(BaseRetriever):
    """Retriever of passages from the collections that fit a question, best first.

    At most `k` if given; none if no collection fits. The metadata of a document have
    `collection`, `source`, `title`, `position`, `citation`, `score` and the answer's
    `confidence`.
    """

    crib: AnyCrib
    scope: Scope | None = None
    k: int | None = None

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002
    ) -> list[Document]:
        found = self.crib.find_knowledge(query, self.k, scope=self.scope)
        sure = found.confidence
        return [
            Document(
                page_content=hit.text,
                id=hit.id,
                metadata={**passage_metadata(hit), "score": hit.score, "confidence": sure},
            )
            for hit in found.passages
        ]
