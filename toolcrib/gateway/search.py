"""What clients see of the gateway: a search in place of a long list, and where they end up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

from fastmcp.exceptions import NotFoundError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.transforms import GetToolNext
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp.types import CallToolRequestParams, TextContent

from toolcrib.errors import QueryError, StoreError
from toolcrib.gateway.auth import reach
from toolcrib.gateway.catalogue import RESERVED, Offer
from toolcrib.gateway.knowledge import Knowledge
from toolcrib.gateway.offering import OfferedTool
from toolcrib.gateway.stock import Stock
from toolcrib.gateway.summary import summary
from toolcrib.gateway.turns import Turns
from toolcrib.gateway.waiting import Waiting
from toolcrib.integrations.fastmcp import ToolcribSearchTransform
from toolcrib.integrations.fastmcp_answers import (
    SEARCHES,
    definition,
    failure,
    found,
    spoken,
    unknown_tool,
)
from toolcrib.records import FindResult, Scope
from toolcrib.settings import GatewaySettings
from toolcrib.store.filters import from_scope

__all__ = ["GatewaySearch", "UnknownTools"]

FIND, _, KNOWLEDGE = RESERVED

Question = Annotated[str, "What is to be known, as a question or in a few words"]


class GatewaySearch(ToolcribSearchTransform):
    """Shows everything where it is little; else the search, what is pinned, what is always active.

    `scope` is what this gateway is for; a key narrows it. `key_of` names a conversation.
    """

    def __init__(
        self,
        stock: Stock,
        waiting: Waiting,
        turns: Turns,
        *,
        scope: Scope,
        settings: GatewaySettings,
        pinned: Sequence[str],
        key_of: Callable[[Context], str],
    ) -> None:
        super().__init__(k=settings.k)
        self._stock = stock
        self._waiting = waiting
        self._turns = turns
        self._scope = scope
        self._pass_through = settings.pass_through
        self._pinned = pinned
        self._key_of = key_of
        self._knowledge: Knowledge | None = None
        self._asking_tool = self._asking()

    def open(self, knowledge: Knowledge) -> None:
        """Answer questions from these collections too."""
        self._knowledge = knowledge

    def scope(self) -> Scope:
        """What whoever is being answered may use."""
        return reach(get_access_token(), self._scope)

    # -- what is shown -----------------------------------------------------------------------

    async def transform_tools(self, tools: Sequence[Tool]) -> Sequence[Tool]:
        """What a client is listed, out of all that there is: FastMCP looks at keys after this."""
        scope = self.scope()
        where = from_scope(scope)
        reach = (tool for tool in tools if isinstance(tool, OfferedTool) and tool.offer.fits(where))
        return self.shown(list(reach), scope)

    def shown(self, offered: Sequence[OfferedTool], scope: Scope) -> list[Tool]:
        """What a client with this scope is listed, when these are all that it may use."""
        knowledge = self._knowledge_tool(scope)
        others: list[Tool] = [knowledge] if knowledge is not None else []
        if len(offered) <= self._pass_through and self._waiting.is_complete:
            return [*offered, *others]
        by_id = {tool.offer.spec.id: tool for tool in offered}
        pinned = [by_id[tool_id] for tool_id in self._pinned if tool_id in by_id]
        active = [tool for tool in offered if tool.offer.spec.always_active and tool not in pinned]
        return [*pinned, *active, self._search_for(offered), self._make_call_tool(), *others]

    async def get_tool(
        self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None
    ) -> Tool | None:
        """A tool by its name: ours, listed or not, or one on offer."""
        if name == KNOWLEDGE:
            return self._knowledge_tool(self.scope())
        return await super().get_tool(name, call_next, version=version)

    def _search_for(self, offered: Sequence[OfferedTool]) -> Tool:
        """The search, with a description that says what it may find."""
        tool = self._make_search_tool()
        behind = summary(each.offer.spec for each in offered)
        told = f"{tool.description}\n\nHere are tools of: {behind}." if behind else tool.description
        return tool.model_copy(update={"description": told})

    def _knowledge_tool(self, scope: Scope) -> Tool | None:
        about = self._knowledge.about(scope) if self._knowledge is not None else ""
        if not about:
            return None
        told = f"{self._asking_tool.description}\n\nHere are: {about}."
        return self._asking_tool.model_copy(update={"description": told})

    def _asking(self) -> Tool:
        async def find_knowledge(query: Question) -> ToolResult:
            """Find passages of documents that answer a question, each with where it stands."""
            return await self._ask(query)

        return Tool.from_function(fn=find_knowledge, name=KNOWLEDGE, annotations=SEARCHES)

    # -- what they do ------------------------------------------------------------------------

    async def _find(self, ctx: Context, query: str, k: int | None) -> ToolResult:
        await self._waiting.wait(ctx)
        if not self._stock.is_open.is_set():
            return failure("The index of tools is still being opened. Search again in a moment.")
        # What FastMCP hides from this caller, by whatever means, is not found either.
        visible = {tool.name for tool in await self.get_tool_catalog(ctx)}
        scope = self.scope()
        try:
            result = await self._stock.work(self._searched, query, k, scope)
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The search does not work at the moment: {error}.")
        self._turns.begin(self._key_of(ctx), query)
        offers = [self._stock.catalogue.get(hit.id) for hit in result.tools]
        here = [self._defined(each) for each in offers if each is not None and each.name in visible]
        return found(result, here, missing=self._waiting.missing(scope))

    def _searched(self, query: str, k: int | None, scope: Scope) -> FindResult:
        most = min(max(1, k or self._max_results), 50)
        return self._stock.crib.find_tools(query, most, scope=scope)

    def _defined(self, offer: Offer) -> dict[str, Any]:
        spec = offer.spec
        schema: dict[str, Any] = {"type": "object", "properties": {}, **spec.input_schema}
        told = {"name": offer.name, "description": spec.description, "inputSchema": schema}
        note = self._waiting.note(spec.server)
        return definition(told) | ({"unavailable": note} if note else {})

    async def _call(self, ctx: Context, name: str, arguments: Mapping[str, Any] | None) -> Any:
        for is_last in (False, True):
            names = {tool.name for tool in await self.get_tool_catalog(ctx)}
            offer = self._stock.catalogue.named(name)
            if offer is not None and offer.name in names:
                return await ctx.fastmcp.call_tool(offer.name, dict(arguments or {}))
            if not is_last and not await self._waiting.wait(ctx):
                break
        return await self.unknown(ctx, name)

    async def unknown(self, ctx: Context, name: str) -> ToolResult:
        """The answer to a call of a tool that is not there, or not for this caller, or not yet."""
        names = [tool.name for tool in await self.get_tool_catalog(ctx)]
        missing = [each["server"] for each in self._waiting.missing(self.scope())]
        answer = unknown_tool(name, names, FIND)
        if not missing:
            return answer
        more = f"Not there at the moment are the tools of: {', '.join(missing)}."
        return answer.model_copy(
            update={"content": [*answer.content, TextContent(type="text", text=more)]}
        )

    async def _ask(self, query: str) -> ToolResult:
        if self._knowledge is None:
            return failure("There are no documents here.")
        try:
            answer = await self._stock.work(self._knowledge.find, query, self.scope())
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The documents cannot be searched at the moment: {error}.")
        return spoken(answer)


class UnknownTools(Middleware):
    """Answers a call of a tool that is not there with the names that are like it."""

    def __init__(self, search: GatewaySearch, waiting: Waiting) -> None:
        self._search = search
        self._waiting = waiting

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Look again when all servers have come; then for near names among what is in reach."""
        asked = context.fastmcp_context
        try:
            return await call_next(context)
        except NotFoundError:
            if asked is None:
                raise
        if await self._waiting.wait(asked):
            with suppress(NotFoundError):
                return await call_next(context)
        return await self._search.unknown(asked, context.message.name)
