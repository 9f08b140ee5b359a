"""The tools of all servers as FastMCP has them: listed, looked up and run like its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.server.providers import Provider
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.authorization import AuthContext
from fastmcp.utilities.versions import VersionSpec
from mcp.types import ToolAnnotations
from pydantic import PrivateAttr, ValidationError

from toolcrib.gateway.auth import reach
from toolcrib.gateway.catalogue import Catalogue, Offer
from toolcrib.records import Scope

__all__ = ["OfferedTool", "Offering"]


class Runs(Protocol):
    """What runs a tool for a request."""

    async def __call__(
        self, offer: Offer, arguments: dict[str, Any], context: Context
    ) -> ToolResult:
        """Call the tool."""
        ...


class OfferedTool(Tool):
    """A tool of a server behind the gateway.

    It is made of what was judged and nothing else: icons and `_meta` of its server are left out.
    """

    _offer: Offer = PrivateAttr()
    _runs: Runs = PrivateAttr()

    @classmethod
    def of(cls, offer: Offer, note: str, scope: Scope, runs: Runs) -> OfferedTool:
        """A tool on offer within a scope; `note` stands before its description."""
        spec = offer.spec

        def is_granted(asked: AuthContext) -> bool:
            return offer.is_within(reach(asked.token, scope))

        tool = cls(
            name=offer.name,
            title=_title(spec.annotations),
            description=" ".join(filter(None, (note, spec.description))) or None,
            parameters={"type": "object", "properties": {}, **spec.input_schema},
            output_schema=spec.output_schema or None,
            annotations=_annotations(spec.annotations),
            tags=set(spec.tags),
            auth=is_granted,
        )
        tool._offer, tool._runs = offer, runs
        return tool

    @property
    def offer(self) -> Offer:
        """What it is made of."""
        return self._offer

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call it at its server."""
        return await self._runs(self._offer, arguments, get_context())


class Offering(Provider):
    """Gives FastMCP what is on offer now, within what this gateway is for.

    `note` says what is the matter with a server whose tools cannot be called at the moment.
    """

    def __init__(
        self,
        catalogue: Callable[[], Catalogue],
        scope: Scope,
        note: Callable[[str], str],
        runs: Runs,
    ) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._scope = scope
        self._note = note
        self._runs = runs
        self._made: dict[str, tuple[Offer, str, OfferedTool]] = {}

    async def _list_tools(self) -> Sequence[Tool]:
        return self.tools()

    async def _get_tool(self, name: str, version: VersionSpec | None = None) -> Tool | None:
        # Servers do not tell versions apart by name, so there is but one.
        del version
        offer = self._catalogue().named(name)
        return None if offer is None or not offer.is_within(self._scope) else self._tool(offer)

    def tools(self) -> list[OfferedTool]:
        """Every tool on offer, by id."""
        offers = self._catalogue().within(self._scope)
        made = [self._tool(offer) for offer in offers]
        if len(self._made) > 2 * len(offers) + 100:
            kept = {offer.spec.id for offer in offers}
            self._made = {key: each for key, each in self._made.items() if key in kept}
        return made

    def _tool(self, offer: Offer) -> OfferedTool:
        """Make it once: a listing may be asked for with every call."""
        note = self._note(offer.spec.server)
        known = self._made.get(offer.spec.id)
        if known is not None and known[0] is offer and known[1] == note:
            return known[2]
        tool = OfferedTool.of(offer, note, self._scope, self._runs)
        self._made[offer.spec.id] = (offer, note, tool)
        return tool


def _title(annotations: dict[str, Any]) -> str | None:
    title = annotations.get("title")
    return title if isinstance(title, str) else None


def _annotations(annotations: dict[str, Any]) -> ToolAnnotations | None:
    """The hints, as far as they are any."""
    if not annotations:
        return None
    try:
        return ToolAnnotations.model_validate(annotations)
    except ValidationError:
        return None
