"""Offers: prompts and resources of upstream servers, screened like tools, and relayed."""

from __future__ import annotations

import logging
import posixpath
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from fastmcp.exceptions import PromptError, ResourceError
from fastmcp.prompts.base import Message, Prompt, PromptArgument, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.providers import Provider
from fastmcp.utilities.versions import VersionSpec
from mcp import ClientSession, types
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp.types import ReadResourceResult
from mcp.types import Resource as McpResource
from pydantic import AnyUrl, BaseModel, Field, PrivateAttr, ValidationError

from toolcrib.errors import ServiceError
from toolcrib.gateway.approval import NON_TOOL_ID_MARK
from toolcrib.gateway.catalog import CatalogEntry
from toolcrib.gateway.downstream import conversation_key
from toolcrib.gateway.upstream import OFFER_KINDS, OfferKind, Offers, UpstreamPool
from toolcrib.indexers.readers.base import build_spec
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.records.definitions import provider_name
from toolcrib.records.tools import default_id

if TYPE_CHECKING:
    from toolcrib.gateway.index import GatewayIndex

logger = logging.getLogger(__name__)


# -- specs of offers ---------------------------------------------------------------------------

_LISTED: dict[OfferKind, type[BaseModel]] = {
    "prompt": types.Prompt,
    "resource": types.Resource,
    "template": types.ResourceTemplate,
}
"""Shapes of listed offers."""


def offer_specs(server: str, offers: Offers) -> list[ToolSpec | Refusal]:
    """Specs of offers for screening, with everything that a client sees."""
    return [
        _spec(server, kind, f"{kind}s[{place}]", item)
        for kind, items in offers.items()
        for place, item in enumerate(items)
    ]


def is_offer(spec: ToolSpec, kind: OfferKind) -> bool:
    """True for the spec of an offer of this kind."""
    return spec.id.startswith(f"{spec.server}{NON_TOOL_ID_MARK}{kind}/")


def _spec(server: str, kind: OfferKind, place: str, listed: Any) -> ToolSpec | Refusal:
    try:
        parsed = _LISTED[kind].model_validate(listed, by_alias=True, by_name=False)
    except ValidationError as error:
        return Refusal(server, place, in_words(error, kind))
    item = parsed.model_dump(mode="json", by_alias=True, exclude_none=True)
    uri = item.get("uri") or item.get("uriTemplate")
    key = uri or item["name"]
    shown = {"title": item.get("title"), "uri": uri, "mimeType": item.get("mimeType")}
    fields: dict[str, Any] = {
        "id": f"{server}{NON_TOOL_ID_MARK}{kind}/{key}",
        "name": item["name"] or key,
        "server": server,
        "description": item.get("description"),
        "annotations": {name: value for name, value in shown.items() if value},
        "input_schema": _schema(item.get("arguments", [])),
        "enabled": False,
    }
    place = f"{kind} {key}"
    if kind == "template" and "{" in key.partition(":")[0]:
        return Refusal(server, place, "has no scheme of its own, and would read any server's URIs")
    spec = build_spec(server, place, fields)
    if isinstance(spec, ToolSpec):
        try:
            _component(kind, spec, spec.name)
        except ValidationError as error:
            return Refusal(server, place, in_words(error, kind))
    return spec


def _schema(arguments: list[dict[str, Any]]) -> dict[str, Any]:
    """Arguments of a prompt as the input schema of a tool."""
    if not arguments:
        return {}
    properties = {each["name"]: {"description": each.get("description", "")} for each in arguments}
    required = [each["name"] for each in arguments if each.get("required")]
    return {"type": "object", "properties": properties, "required": required}


def _canonical(uri: str) -> str:
    """Canonical form of a URI, equal for spellings that a server may treat as equal.

    Used to refuse quarantined resources: too many refusals are better than too few.
    """
    while (decoded := unquote(uri)) != uri:
        uri = decoded
    uri = unicodedata.normalize("NFKC", uri).casefold().replace("\\", "/")
    # Some servers end a path at NUL, strip parameters (`;v=1`), or trailing dots and blanks.
    uri = uri.partition("#")[0].partition("\0")[0]
    scheme, _, rest = uri.strip().partition(":")
    plain = "/".join(part.partition(";")[0] for part in rest.lstrip("/").split("/"))
    parts = posixpath.normpath(f"/{plain}").split("/")
    path = "/".join(part.rstrip(". ?") for part in parts)
    return f"{scheme}:{path.removeprefix('/localhost') if scheme == 'file' else path}"


# -- offers for FastMCP ------------------------------------------------------------------------


class OffersProvider(Provider):
    """Provider of approved prompts and resources for FastMCP, within the caller's scope.

    A prompt's name is `server__name`, like a tool's. URIs are unchanged, because results of tools
    contain them; of several servers with one URI the first in the configuration counts.
    """

    def __init__(self, index: GatewayIndex, pool: UpstreamPool) -> None:
        super().__init__()
        self._index, self._pool = index, pool

    def lists(self, token: AccessToken | None) -> dict[str, object]:
        """Content of each list that a key's holder sees, for comparison with later content."""
        prompts, *resources = (self._entries(kind, token) for kind in OFFER_KINDS)
        return {"prompts": prompts, "resources": [*chain(*resources)]}

    def _entries(self, kind: OfferKind, token: AccessToken | None) -> list[CatalogEntry]:
        order = self._order()
        within = self._index.offers.within(self._index.scope_of(token))
        # A server that is being removed has offers, and is no longer in the pool.
        here = (e for e in within if is_offer(e.spec, kind) and e.spec.server in order)
        by_key = {
            entry.spec.annotations.get("uri", entry.name): entry
            for entry in sorted(here, key=lambda entry: order[entry.spec.server], reverse=True)
        }
        return sorted(by_key.values(), key=lambda entry: entry.spec.id)

    def _order(self) -> dict[str, int]:
        """Places of the servers in the configuration."""
        return {each.name: place for place, each in enumerate(self._pool)}

    async def _list_prompts(self) -> Sequence[Prompt]:
        return list(self._offers_of("prompt"))

    async def _list_resources(self) -> Sequence[Resource]:
        return list(self._offers_of("resource"))

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return list(self._offers_of("template"))

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        # Clients send the server's spelling, which is listed, or FastMCP's.
        del version
        offered: list[RelayedResource] = list(self._offers_of("resource"))
        own = (each for each in offered if each.own_uri == uri)
        return next(own, None) or next((each for each in offered if str(each.uri) == uri), None)

    async def _get_resource_template(
        self, uri: str, version: VersionSpec | None = None
    ) -> ResourceTemplate | None:
        del version
        # A template must not read a quarantined resource either.
        held = (each.spec for each in self._index.list_held() if is_offer(each.spec, "resource"))
        if _canonical(uri) in (_canonical(spec.annotations["uri"]) for spec in held):
            return None
        order = self._order()
        offered: list[RelayedTemplate] = [*self._offers_of("template")]
        matching = (each for each in offered if each.matches(uri) is not None)
        return min(matching, key=lambda each: order[each.server], default=None)

    def _offers_of(self, kind: OfferKind) -> Iterator[Any]:
        for entry in self._entries(kind, get_access_token()):
            try:
                made = _component(kind, entry.spec, _offered_name(kind, entry.spec))
            except ValidationError as error:
                # Another version of FastMCP recorded the offer: skip it, keep the others.
                logger.warning("%s cannot be offered: %s", entry.spec.id, error)
                continue
            made._ask = self._asker(kind, entry.spec.server)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            yield made

    def _asker(self, kind: OfferKind, server: str) -> Ask:
        refused = PromptError if kind == "prompt" else ResourceError

        async def ask(work: Callable[[ClientSession], Awaitable[Any]]) -> Any:
            key = conversation_key(get_context())
            try:
                return await self._pool[server].ask(key, work)
            except ServiceError:
                text = f"The server {server!r} does not answer."
            except TimeoutError:
                call_s = self._pool.intervals.call_s
                text = f"The server {server!r} gave no answer within {call_s:g} s."
            except ValidationError:
                text = f"The server {server!r} sent a reply that is not valid MCP."
            raise refused(text)

        return ask


Ask: TypeAlias = Callable[[Callable[[ClientSession], Awaitable[Any]]], Awaitable[Any]]


class RelayedPrompt(Prompt):
    """Prompt of a server behind the gateway, where it is called `own_name`."""

    own_name: str = Field(exclude=True)
    _ask: Ask = PrivateAttr()

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Get the prompt from its server."""
        given = {name: str(value) for name, value in (arguments or {}).items()}
        prompt = await self._ask(lambda session: session.get_prompt(self.own_name, given))
        messages = [Message(content=each.content, role=each.role) for each in prompt.messages]
        return PromptResult(messages=messages, description=prompt.description, meta=prompt.meta)


class RelayedResource(Resource):
    """Resource of a server behind the gateway.

    `own_uri`: URI in its server's spelling, which FastMCP normalises.
    """

    own_uri: str = Field(exclude=True)
    _ask: Ask = PrivateAttr()

    def to_mcp_resource(self, **overrides: Any) -> McpResource:
        """Resource as listed to clients."""
        return super().to_mcp_resource(**{**overrides, "uri": self.own_uri})

    async def read(self) -> ResourceResult:
        """Read the resource at its server."""
        return await _read_resource(self._ask, self.own_uri)


class RelayedTemplate(ResourceTemplate):
    """Template for resources of a server behind the gateway."""

    server: str = Field(exclude=True)
    _ask: Ask = PrivateAttr()

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Variables of the template in a URI, by the rules of MCP instead of FastMCP's."""
        try:
            return UriTemplate.parse(self.uri_template).match(uri)
        except InvalidUriTemplate:
            return None

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        del params
        return await _read_resource(self._ask, uri)


class _RelayedResult(ResourceResult):
    """A server's contents, unchanged: those of FastMCP's own result have no URI each."""

    _read: ReadResourceResult = PrivateAttr()

    def __init__(self, read: ReadResourceResult) -> None:
        super().__init__([], meta=read.meta)
        self._read = read

    def to_mcp_result(self, uri: AnyUrl | str) -> ReadResourceResult:  # noqa: ARG002
        """Result as sent to clients."""
        return ReadResourceResult(contents=self._read.contents, _meta=self.meta)


async def _read_resource(ask: Ask, uri: str) -> ResourceResult:
    return _RelayedResult(await ask(lambda session: session.read_resource(uri)))


def _offered_name(kind: OfferKind, spec: ToolSpec) -> str:
    """A prompt's name at the gateway; URIs identify resources and templates."""
    if kind != "prompt":
        return spec.name
    # The mark in a prompt's id would give the name a digest.
    return provider_name(spec.model_copy(update={"id": default_id(spec.server, spec.name)}))


def _component(kind: OfferKind, spec: ToolSpec, name: str) -> Any:
    """FastMCP's object for an offer; raises ValidationError for a rejected offer."""
    about = spec.annotations
    shown = {"title": about.get("title"), "description": spec.description}
    if kind != "prompt":
        shown["mime_type"] = about.get("mimeType")
    given: dict[str, Any] = {"name": name} | {k: v for k, v in shown.items() if v}
    if kind == "prompt":
        return RelayedPrompt(arguments=_arguments(spec), own_name=spec.name, **given)
    if kind == "resource":
        return RelayedResource(uri=about["uri"], own_uri=about["uri"], **given)
    # The server checks the values, which name its own paths.
    return RelayedTemplate(
        uri_template=about["uri"], parameters={}, security=None, server=spec.server, **given
    )


def _arguments(spec: ToolSpec) -> list[PromptArgument]:
    required = spec.input_schema.get("required", ())
    return [
        PromptArgument(
            name=name, description=about["description"] or None, required=name in required
        )
        for name, about in spec.input_schema.get("properties", {}).items()
    ]
