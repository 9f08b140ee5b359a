"""Offers: prompts and resources of upstream servers, judged as tools are, and handed on."""

from __future__ import annotations

import base64
import logging
import posixpath
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias
from urllib.parse import unquote

from fastmcp.exceptions import PromptError, ResourceError
from fastmcp.prompts.base import Message, Prompt, PromptArgument, PromptResult
from fastmcp.resources.base import Resource, ResourceContent, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.auth import AccessToken
from fastmcp.server.dependencies import get_access_token, get_context
from fastmcp.server.providers import Provider
from fastmcp.utilities.versions import VersionSpec
from mcp import ClientSession, MCPError
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from mcp.types import BlobResourceContents
from mcp.types import Resource as McpResource
from pydantic import PrivateAttr, ValidationError

from toolcrib.errors import ServiceError
from toolcrib.gateway.auth import reach
from toolcrib.gateway.catalog import CatalogEntry, ToolCatalog
from toolcrib.gateway.downstream import conversation_key
from toolcrib.gateway.upstream import OFFER_KINDS, OfferKind, Offers, UpstreamPool
from toolcrib.indexers.readers.base import build_spec
from toolcrib.integrations.formats import provider_name
from toolcrib.records import Refusal, Scope, ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.records.tools import default_id

__all__ = ["MARK", "OffersProvider", "is_offer", "offer_specs"]

MARK = "#"
"""Stands behind the server's name in the id under which something that is no tool is judged."""

logger = logging.getLogger(__name__)


# -- as servers list them ----------------------------------------------------------------------


def offer_specs(server: str, offers: Offers) -> list[ToolSpec | Refusal]:
    """What is judged of offers: all that a client is shown of them."""
    return [_spec(server, kind, item) for kind, items in offers.items() for item in items]


def is_offer(spec: ToolSpec, kind: OfferKind) -> bool:
    """Whether it is an offer of this kind, as it is judged."""
    return spec.id.startswith(f"{spec.server}{MARK}{kind}/")


def _spec(server: str, kind: OfferKind, item: dict[str, Any]) -> ToolSpec | Refusal:
    uri = item.get("uri") or item.get("uriTemplate")
    key = uri or item["name"]
    shown = {"title": item.get("title"), "uri": uri, "mimeType": item.get("mimeType")}
    fields: dict[str, Any] = {
        "id": f"{server}{MARK}{kind}/{key}",
        "name": item["name"] or key,
        "server": server,
        "description": item.get("description"),
        "annotations": {name: value for name, value in shown.items() if value},
        "input_schema": _schema(item.get("arguments", [])),
        "enabled": False,
    }
    spec = build_spec(server, place := f"{kind} {key}", fields)
    if isinstance(spec, ToolSpec):
        try:
            _made(kind, spec, spec.name)
        except ValidationError as error:
            return Refusal(server, place, in_words(error, kind))
    return spec


def _schema(arguments: list[dict[str, Any]]) -> dict[str, Any]:
    """The arguments of a prompt, as those of a tool stand."""
    if not arguments:
        return {}
    properties = {each["name"]: {"description": each.get("description", "")} for each in arguments}
    required = [each["name"] for each in arguments if each.get("required")]
    return {"type": "object", "properties": properties, "required": required}


def _plain(uri: str) -> str:
    """A URI so that two ways to write what a server may take for one are alike.

    What has been held back is compared so: to refuse too much is better than too little.
    """
    while (decoded := unquote(uri)) != uri:
        uri = decoded
    uri = unicodedata.normalize("NFKC", uri).casefold().replace("\\", "/").partition("#")[0]
    scheme, _, rest = uri.strip().partition(":")
    path = posixpath.normpath("/" + rest.lstrip("/"))
    return f"{scheme}:{path.removeprefix('/localhost') if scheme == 'file' else path}"


# -- as clients have them ----------------------------------------------------------------------


class OffersProvider(Provider):
    """Gives FastMCP the prompts and resources that passed, to each caller those in its scope.

    A prompt is called `server__name`, as tools are. A URI stays as it is, since results of tools
    name it; of two servers with one URI the first in the configuration has it.
    """

    def __init__(
        self,
        catalog: Callable[[OfferKind], ToolCatalog],
        scope: Scope,
        pool: UpstreamPool,
        held: Callable[[], Iterable[ToolSpec]],
        *,
        timeout_s: float,
    ) -> None:
        super().__init__()
        self._held = held
        self._catalog, self._scope, self._pool = catalog, scope, pool
        self._timeout_s = timeout_s

    def shown(self, token: AccessToken | None) -> dict[str, object]:
        """By list, something that is another thing when a key's holder is shown another list."""
        prompts, *resources = (self._entries(kind, token) for kind in OFFER_KINDS)
        return {"prompts": prompts, "resources": [*chain(*resources)]}

    def _entries(self, kind: OfferKind, token: AccessToken | None) -> list[CatalogEntry]:
        order = {each.name: place for place, each in enumerate(self._pool)}
        here = self._catalog(kind).within(reach(token, self._scope))
        by_key = {
            entry.spec.annotations.get("uri", entry.name): entry
            for entry in sorted(here, key=lambda entry: order[entry.spec.server], reverse=True)
        }
        return sorted(by_key.values(), key=lambda entry: entry.spec.id)

    async def _list_prompts(self) -> Sequence[Prompt]:
        return list(self._offered("prompt"))

    async def _list_resources(self) -> Sequence[Resource]:
        return list(self._offered("resource"))

    async def _list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return list(self._offered("template"))

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        # As its server spells it, which is how it is listed, or as FastMCP does.
        del version
        offered: list[RelayedResource] = list(self._offered("resource"))
        own = (each for each in offered if each.own_uri == uri)
        return next(own, None) or next((each for each in offered if str(each.uri) == uri), None)

    async def _get_resource_template(
        self, uri: str, version: VersionSpec | None = None
    ) -> ResourceTemplate | None:
        # What is held back is not read by another way to it.
        held = (spec.annotations["uri"] for spec in self._held() if is_offer(spec, "resource"))
        if _plain(uri) in map(_plain, held):
            return None
        return await super()._get_resource_template(uri, version)

    def _offered(self, kind: OfferKind) -> Iterator[Any]:
        for entry in self._entries(kind, get_access_token()):
            try:
                made = _made(kind, entry.spec, _offered_name(kind, entry.spec))
            except ValidationError as error:
                # It was remembered from a time when it could be held: the others stay.
                logger.warning("%s cannot be offered: %s", entry.spec.id, error)
                continue
            made._ask = self._asking(entry.spec)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            yield made

    def _asking(self, spec: ToolSpec) -> Ask:
        async def ask(work: Callable[[ClientSession], Awaitable[Any]]) -> Any:
            key = conversation_key(get_context())
            try:
                return await self._pool[spec.server].ask(key, work, self._timeout_s)
            except ServiceError:
                raise _OfferError(f"The server {spec.server!r} does not answer.") from None
            except TimeoutError:
                why = f"no answer within {self._timeout_s:g} s"
                raise _OfferError(f"The server {spec.server!r} gave {why}.") from None
            except MCPError as error:
                raise _OfferError(f"{error.message} (code {error.code})") from None
            except ValidationError:
                raise _OfferError(f"The server {spec.server!r} answered with no MCP.") from None

        return ask


class _OfferError(Exception):
    """Why a server gave nothing."""


Ask: TypeAlias = Callable[[Callable[[ClientSession], Awaitable[Any]]], Awaitable[Any]]


class RelayedPrompt(Prompt):
    """A prompt of a server behind the gateway."""

    _ask: Ask = PrivateAttr()
    _spec: ToolSpec = PrivateAttr()

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Get it from its server."""
        given = {name: str(value) for name, value in (arguments or {}).items()}
        try:
            found = await self._ask(lambda session: session.get_prompt(self._spec.name, given))
        except _OfferError as error:
            raise PromptError(str(error)) from None
        messages = [Message(content=each.content, role=each.role) for each in found.messages]
        return PromptResult(messages=messages, description=found.description, meta=found.meta)


class RelayedResource(Resource):
    """A resource of a server behind the gateway."""

    _ask: Ask = PrivateAttr()
    _spec: ToolSpec = PrivateAttr()

    @property
    def own_uri(self) -> str:
        """Its URI as its server spells it: FastMCP's own is another, be it but a slash."""
        return self._spec.annotations["uri"]

    def to_mcp_resource(self, **overrides: Any) -> McpResource:
        """As clients are listed it."""
        return super().to_mcp_resource(**{**overrides, "uri": self.own_uri})

    async def read(self) -> ResourceResult:
        """Read it at its server."""
        return await _read_at(self._ask, self.own_uri)


class RelayedTemplate(ResourceTemplate):
    """A template for resources of a server behind the gateway."""

    _ask: Ask = PrivateAttr()
    _spec: ToolSpec = PrivateAttr()

    def matches(self, uri: str) -> dict[str, Any] | None:
        """What of a URI stands for its variables; FastMCP knows templates of its own alone."""
        try:
            return UriTemplate.parse(self.uri_template).match(uri)
        except InvalidUriTemplate:
            return None

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        del params
        return await _read_at(self._ask, uri)


async def _read_at(ask: Ask, uri: str) -> ResourceResult:
    try:
        found = await ask(lambda session: session.read_resource(uri))
    except _OfferError as error:
        raise ResourceError(str(error)) from None
    contents = [
        ResourceContent(
            base64.b64decode(each.blob) if isinstance(each, BlobResourceContents) else each.text,
            mime_type=each.mime_type,
            meta=each.meta,
        )
        for each in found.contents
    ]
    return ResourceResult(contents=contents, meta=found.meta)


def _offered_name(kind: OfferKind, spec: ToolSpec) -> str:
    """A prompt's name at the gateway; resources and templates are told apart by their URI."""
    if kind != "prompt":
        return spec.name
    # Its id has a mark that no tool's has, and says no more than server and name.
    return provider_name(spec.model_copy(update={"id": default_id(spec.server, spec.name)}))


def _made(kind: OfferKind, spec: ToolSpec, name: str) -> Any:
    """What FastMCP has of an offer; raises ValidationError where it cannot hold it."""
    about = spec.annotations
    shown = {"title": about.get("title"), "description": spec.description}
    if kind != "prompt":
        shown["mime_type"] = about.get("mimeType")
    given: dict[str, Any] = {"name": name} | {k: v for k, v in shown.items() if v}
    made: Any
    if kind == "prompt":
        made = RelayedPrompt(arguments=_arguments(spec), **given)
    elif kind == "resource":
        made = RelayedResource(uri=about["uri"], **given)
    else:
        # What fits the template is the server's own business: it is its own paths that are named.
        given |= {"parameters": {}, "security": None}
        made = RelayedTemplate(uri_template=about["uri"], **given)
    made._spec = spec  # noqa: SLF001
    return made


def _arguments(spec: ToolSpec) -> list[PromptArgument]:
    required = spec.input_schema.get("required", ())
    return [
        PromptArgument(
            name=name, description=about["description"] or None, required=name in required
        )
        for name, about in spec.input_schema.get("properties", {}).items()
    ]
