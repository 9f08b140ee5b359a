"""LangChain integration: tools of each turn for `create_agent`, and passages as a retriever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import Annotated, Any, NotRequired, TypeAlias

from toolcrib.errors import MissingExtraError, ToolcribError

try:
    from langchain.agents.middleware.types import (
        AgentMiddleware,
        AgentState,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
        PrivateStateAttr,
        ToolCallRequest,
    )
    from langchain_core.callbacks import (
        AsyncCallbackManagerForRetrieverRun,
        CallbackManagerForRetrieverRun,
    )
    from langchain_core.documents import Document
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
    from langchain_core.retrievers import BaseRetriever
    from langgraph.errors import GraphBubbleUp
    from langgraph.types import Command
    from typing_extensions import TypedDict
except ImportError as missing:
    raise MissingExtraError("agents of LangChain", "langchain") from missing

from toolcrib.integrations.selection import AnyCrib, passage_metadata, tools_for_turn
from toolcrib.records import Attachment, KnowledgeResult, Message, Outcome, Scope, Turn

logger = logging.getLogger(__name__)

ScopeOf: TypeAlias = Scope | Callable[[Any], Scope | None] | None
"""A caller's scope, or what gives it for the runtime of a run, whose `context` says who asks."""


# -- turns -----------------------------------------------------------------------------------------


def last_said(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """What the user said last; a summary of earlier messages is none of theirs."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs:
            return message
    return None


def turn_of(messages: Sequence[BaseMessage], scope: Scope | None = None) -> Turn:
    """The turn that begins with what the user said last, after what was said before it."""
    said = last_said(messages)
    if said is None:
        return Turn(scope=scope)
    before = messages[: next(at for at, each in enumerate(messages) if each is said)]
    history = tuple(
        Message(role="user" if isinstance(each, HumanMessage) else "assistant", content=each.text)
        for each in before
        if isinstance(each, HumanMessage | AIMessage) and each.text
    )
    return Turn(text=said.text, history=history, attachments=_attachments(said), scope=scope)


def _attachments(message: HumanMessage) -> tuple[Attachment, ...]:
    """The files among a message's parts."""
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


class _Chosen(TypedDict):
    """What was chosen for a turn; `turn` is the id of the user's message, `shown` ids so far."""

    turn: str
    decision: str
    names: list[str]
    hidden: list[str]
    ids: dict[str, str]
    shown: list[str]


class _ToolcribState(AgentState[Any]):
    toolcrib: NotRequired[Annotated[_Chosen, PrivateStateAttr]]


class ToolcribMiddleware(AgentMiddleware[_ToolcribState, Any, Any]):
    """Gives an agent's model the tools that each turn needs, out of all that the agent has.

    The tools are chosen once for what the user says, by their names in the index, and stay for
    all calls of the model that follow. Those that the index does not know stay anyway (what
    other middleware brings, as in deep agents), as do those in `always_include`, and tools that
    the provider carries out. `k` in place of `tools.k`. How calls end is reported to the crib.
    Tools of earlier turns keep their places; with `tools.append_only` they also stay.

    Raises:
        SettingsError: the agent has no tool of a name in `always_include`.
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
    ) -> None:
        super().__init__()
        self.crib = crib
        self.k = k
        self.always_include = tuple(always_include)
        self.scope = scope

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ExtendedModelResponse[Any]:
        """Call the model with the turn's tools."""
        chosen = self._known(request) or self._choose(request)
        return _with_state(handler(_narrowed(request, chosen)), chosen)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """As `wrap_model_call`; the crib is asked in a thread."""
        chosen = self._known(request) or await asyncio.to_thread(self._choose, request)
        return _with_state(await handler(_narrowed(request, chosen)), chosen)

    def _known(self, request: ModelRequest[Any]) -> _Chosen | None:
        """What was chosen for this turn already."""
        chosen: _Chosen | None = request.state.get("toolcrib")
        said = last_said(request.messages)
        return chosen if chosen and (said is None or said.id == chosen["turn"]) else None

    def _choose(self, request: ModelRequest[Any]) -> _Chosen | None:
        said = last_said(request.messages)
        names = [tool.name for tool in request.tools if not isinstance(tool, dict)]
        if said is None or not names:
            return None
        last: _Chosen | None = request.state.get("toolcrib")
        shown = last["shown"] if last else []
        always = set(self.always_include)
        if request.tool_choice in names:
            always.add(request.tool_choice)
        scope = self.scope(request.runtime) if callable(self.scope) else self.scope
        found = tools_for_turn(
            self.crib,
            turn_of(request.messages, scope),
            names,
            k=self.k,
            always=sorted(always),
            shown=shown,
        )
        return {
            "turn": said.id or "",
            "decision": found.decision.id,
            "names": list(found.names),
            "hidden": [name for name in names if name not in found.names],
            "ids": dict(found.ids),
            "shown": list(dict.fromkeys((*shown, *found.ids.values()))),
        }

    # -- what came of them -------------------------------------------------------------------

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        """Call the tool, and report how that ended; one that the turn does not have is refused."""
        if refused := _refused(request):
            return refused
        began = perf_counter()
        try:
            result = handler(request)
        except GraphBubbleUp:
            raise
        except Exception:
            self._report(request, "failure", began)
            raise
        self._report(request, _outcome(result), began)
        return result

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        """As `wrap_tool_call`; the crib is told in a thread."""
        if refused := _refused(request):
            return refused
        began = perf_counter()
        try:
            result = await handler(request)
        except GraphBubbleUp:
            raise
        except Exception:
            await asyncio.to_thread(self._report, request, "failure", began)
            raise
        await asyncio.to_thread(self._report, request, _outcome(result), began)
        return result

    def _report(self, request: ToolCallRequest, outcome: Outcome, began: float) -> None:
        chosen: _Chosen | None = request.state.get("toolcrib")
        tool = chosen and chosen["ids"].get(request.tool_call["name"])
        if chosen and tool:
            took_ms = (perf_counter() - began) * 1000
            report_outcome(self.crib, chosen["decision"], tool, outcome, took_ms)


def _narrowed(request: ModelRequest[Any], chosen: _Chosen | None) -> ModelRequest[Any]:
    if chosen is None:
        return request
    named = {tool.name: tool for tool in request.tools if not isinstance(tool, dict)}
    tools = [named.pop(name) for name in chosen["names"] if name in named]
    # What other middleware brought since then stays.
    tools += [tool for name, tool in named.items() if name not in chosen["hidden"]]
    provided = [tool for tool in request.tools if isinstance(tool, dict)]
    return request.override(tools=[*tools, *provided])


def _refused(request: ToolCallRequest) -> ToolMessage | None:
    """What a model hears that calls a tool which this turn, or its scope, does not have."""
    chosen: _Chosen | None = request.state.get("toolcrib")
    call = request.tool_call
    if chosen is None or call["name"] not in chosen["hidden"]:
        return None
    told = f"{call['name']} is not among the tools of this turn: {', '.join(chosen['names'])}"
    return ToolMessage(told, tool_call_id=call["id"] or "", name=call["name"], status="error")


def _with_state(response: ModelResponse[Any], chosen: _Chosen | None) -> ExtendedModelResponse[Any]:
    command: Command[Any] | None = Command(update={"toolcrib": chosen}) if chosen else None
    return ExtendedModelResponse(response, command)


def _outcome(result: ToolMessage | Command[Any]) -> Outcome:
    failed = isinstance(result, ToolMessage) and result.status == "error"
    return "failure" if failed else "success"


def report_outcome(
    crib: AnyCrib, decision: str, tool: str, outcome: Outcome, took_ms: float
) -> None:
    """Say how a call ended; an agent goes on where that cannot be said."""
    try:
        crib.report_outcome(decision, tool, outcome, took_ms=took_ms)
    except ToolcribError:
        logger.warning("how a call of %s ended could not be reported", tool, exc_info=True)


# -- knowledge -------------------------------------------------------------------------------------


class ToolcribRetriever(BaseRetriever):
    """The passages that answer a question, out of the collections that fit it, best first.

    At most `k`, where it is given. Where no collection fits there are none. The metadata of a
    document have `collection`, `source`, `title`, `position`, `citation`, `score` and the
    answer's `confidence`.
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
        return documents(self.crib.find_knowledge(query, self.k, scope=self.scope))

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,  # noqa: ARG002
    ) -> list[Document]:
        return documents(await self.crib.afind_knowledge(query, self.k, scope=self.scope))


def documents(found: KnowledgeResult) -> list[Document]:
    """The passages of an answer as LangChain's documents."""
    return [
        Document(
            page_content=hit.text,
            id=hit.id,
            metadata={
                **passage_metadata(hit),
                "score": hit.score,
                "confidence": found.confidence,
            },
        )
        for hit in found.passages
    ]
