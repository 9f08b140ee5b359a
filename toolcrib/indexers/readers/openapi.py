"""OpenAPI 3 and Swagger 2: every operation is a tool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar, cast

from toolcrib.indexers.readers.openapi import input_schema
from toolcrib.indexers.readers.openapi import Schemas
from toolcrib.indexers.readers.json_schema import References
from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.indexers.readers.base import kind_of
from toolcrib.records import Refusal, ToolSpec

__all__ = ["OpenApiReader"]

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

HINTS = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "delete": {"destructiveHint": True},
}
"""What a method promises, in the words of MCP's annotations."""

VERSION = re.compile(r"2\.0|3\.\d+(\.\d+)?")


class OpenApiReader:
    """Reads Swagger 2.0 and OpenAPI 3.x, JSON or YAML, in one file.

    A tool is named by its `operationId`, or by method and path: `GET /orders/{id}/items`
    is `get_orders_id_items`. Webhooks and callbacks are what others call, so no tools.
    """

    format: ClassVar[str] = "openapi"

    def recognises(self, source: Source) -> bool:
        """Whether the file is an object that says `openapi` or `swagger`."""
        sample = source.sample
        return isinstance(sample, dict) and ("openapi" in sample or "swagger" in sample)

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every operation; its server is `server` or else the file's stem.

        Raises:
            SourceError: the file cannot be read, or says no version that is known.
        """
        document = source.data
        if not isinstance(document, dict):
            raise source.error(f"must be an object, not {kind_of(document)}")
        document = cast("dict[str, Any]", document)
        version = document.get("openapi", document.get("swagger"))
        if not VERSION.fullmatch(str(version)):
            raise source.error(
                f"version {version!r} is not known; 2.0 and 3.x are read",
                "swagger" if "swagger" in document else "openapi",
            )
        operations = _Operations(source, document, source.stem if server is None else server)
        yield from operations.read()


class _Operations:
    """The operations of one document, read one by one."""

    def __init__(self, source: Source, document: dict[str, Any], server: str) -> None:
        self._source = source
        self._server = server
        self._document = document
        self._references = References(document)
        self._schemas = Schemas(self._references)

    def read(self) -> Reading:
        """Yield every operation as a tool, or what is wrong with it."""
        paths: Any = self._document.get("paths") or {}
        if not isinstance(paths, dict):
            raise self._source.error(f"must be an object, not {kind_of(paths)}", "paths")
        for path, item in cast("dict[str, Any]", paths).items():
            # Extensions may stand among the paths; a path begins with a slash.
            if path.startswith("x-"):
                continue
            try:
                operations = list(self._operations_of(item))
            except ValueError as error:
                yield self._source.refusal(str(error), path)
                continue
            for method, shared, operation in operations:
                yield self._tool(path, method, shared, operation)

    def _operations_of(self, item: Any) -> Iterator[tuple[str, list[Any], Any]]:
        item = self._references.follow(item)
        if not isinstance(item, dict):
            raise ValueError(f"must be an object, not {kind_of(item)}")  # noqa: TRY004
        methods = cast("dict[str, Any]", item)
        shared: Any = methods.get("parameters") or []
        if not isinstance(shared, list):
            raise ValueError(f"parameters: must be a list, not {kind_of(shared)}")  # noqa: TRY004
        for method in METHODS:
            if method in methods:
                yield method, cast("list[Any]", shared), methods[method]

    def _tool(
        self, path: str, method: str, shared: list[Any], operation: Any
    ) -> ToolSpec | Refusal:
        place = f"{method.upper()} {path}"
        if not isinstance(operation, dict):
            reason = f"an operation must be an object, not {kind_of(operation)}"
            return self._source.refusal(reason, place)
        described = cast("dict[str, Any]", operation)
        try:
            takes = input_schema(self._references, self._schemas, shared, described)
            gives = self._output_schema(described)
        except ValueError as error:
            return self._source.refusal(str(error), place)
        tags: Any = described.get("tags") or []
        fields: dict[str, Any] = {
            "name": described.get("operationId") or _slug(method, path),
            "description": _description(described),
            "server": self._server,
            "input_schema": takes,
            "output_schema": gives,
            "category": tags[0] if isinstance(tags, list) and tags else None,
            "tags": tags,
            "annotations": _annotations(method, path, described),
        }
        return build_spec(self._source.name, place, fields)

    def _output_schema(self, operation: dict[str, Any]) -> dict[str, Any] | None:
        """Give the schema of the first successful response that has one."""
        responses: Any = operation.get("responses") or {}
        if not isinstance(responses, dict):
            raise ValueError(f"responses: must be an object, not {kind_of(responses)}")  # noqa: TRY004
        by_status = cast("dict[str, Any]", responses)
        for status in sorted(status for status in by_status if status.startswith("2")):
            response = self._references.follow(by_status[status])
            if not isinstance(response, dict):
                continue
            described = cast("dict[str, Any]", response)
            if "schema" in described:
                return self._schemas.plain(described["schema"])
            schema = self._schemas.of_content(described.get("content"))
            if schema is not None:
                return schema
        return None


def _slug(method: str, path: str) -> str:
    return re.sub(r"\W+", "_", f"{method} {path}").strip("_")


def _description(operation: dict[str, Any]) -> Any:
    """Give summary and description as two paragraphs, or one where they say the same."""
    summary, description = operation.get("summary"), operation.get("description")
    if not (isinstance(summary, str) and isinstance(description, str)):
        return description or summary
    if description.strip().startswith(summary.strip().rstrip(".")):
        return description
    return f"{summary}\n\n{description}".strip()


def _annotations(method: str, path: str, operation: dict[str, Any]) -> dict[str, Any]:
    deprecated = {"deprecated": True} if operation.get("deprecated") is True else {}
    return {"httpMethod": method.upper(), "path": path, **HINTS.get(method, {}), **deprecated}
