"""`toolcrib docs` and `toolcrib schema`: the manual's pages, and JSON schemas for editors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import AliasChoices
from rich.markdown import Markdown

import toolcrib
from toolcrib.cli.options import Json
from toolcrib.cli.output import out, print_either, print_json, print_rows
from toolcrib.errors import QueryError, did_you_mean, nearest

GROUPS = ("", "how-to", "explanation", "reference", "reference/formats")
"""Folders of pages, in the order of the list."""


def docs(
    topic: Annotated[
        str | None, typer.Argument(help="Page to read, such as gateway or reference/commands.")
    ] = None,
    json: Json = False,
) -> None:
    """Print a page of the manual, or list all pages."""
    pages = _pages()
    if topic is None:
        titles = {name: _title(path) for name, path in pages.items()}
        rows = list(titles.items())
        print_either(titles, partial(print_rows, rows, ("topic", "page"), headed=True), json=json)
        return
    text = _page(topic, pages).read_text(encoding="utf-8")
    if json or not out.is_terminal:
        typer.echo(text)
        return
    with out.pager(styles=True):
        out.print(Markdown(text))


def _pages() -> dict[str, Path]:
    """Pages by topic: from the wheel, or from the package's repository."""
    package = Path(toolcrib.__file__).parent
    folder = next(place for place in (package / "docs", package.parent / "docs") if place.is_dir())
    return {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for group in GROUPS
        for path in sorted((folder / group).glob("*.md"))
    }


def _page(topic: str, pages: dict[str, Path]) -> Path:
    """Page of a topic, which may lack its folder; how-to pages go first."""
    wanted = topic.casefold().removesuffix(".md").removeprefix("docs/")
    for name in (wanted, *(f"{group}/{wanted}" for group in GROUPS)):
        if name in pages:
            return pages[name]
    names = [name.rpartition("/")[2] for name in pages]
    raise QueryError(
        f"there is no page {topic!r}{did_you_mean(nearest(wanted, names)) or ';'}"
        " `toolcrib docs` lists all pages"
    )


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        heads = (line[2:].strip() for line in file if line.startswith("# "))
        return next(heads, path.stem)


def schema(
    kind: Annotated[
        Literal["settings", "toolspec", "overlay", "mcp"],
        typer.Argument(help="toolcrib.yaml, one tool of a list, overlay.yaml, or mcp.json."),
    ],
) -> None:
    """Print the JSON schema of a kind of file, for editors and checks."""
    from toolcrib.records import ToolSpec

    schemas = {
        "settings": _settings_schema,
        "toolspec": ToolSpec.model_json_schema,
        "overlay": _overlay_schema,
        "mcp": _mcp_schema,
    }
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **schemas[kind]()})


def _settings_schema() -> dict[str, Any]:
    """Schema of the settings, where the name of a reranker may stand for the section `rerank`."""
    from toolcrib.settings import Settings

    made = Settings.model_json_schema()
    made["properties"]["rerank"] = {"anyOf": [made["properties"]["rerank"], {"type": "string"}]}
    return made


def _overlay_schema() -> dict[str, Any]:
    """Schema of an overlay, with all aliases of fields."""
    from toolcrib.indexers.overlay import OverlayEntry

    entry = OverlayEntry.model_json_schema(by_alias=False)
    for name, field in OverlayEntry.model_fields.items():
        if isinstance(field.validation_alias, AliasChoices):
            names = map(str, field.validation_alias.choices)
            entry["properties"] |= dict.fromkeys(names, entry["properties"][name])
    return {
        "title": "Overlay",
        "type": "object",
        "required": ["tools"],
        "properties": {"tools": {"type": "object", "additionalProperties": entry}},
    }


def _mcp_schema() -> dict[str, Any]:
    """JSON schema of an mcp.json; unknown keys are allowed, as hosts add their own."""
    from toolcrib.indexers.readers import mcp_config as config

    entry = config.ConfigEntry.model_json_schema(by_alias=False)
    known = entry["properties"]
    del known["env_file"]
    known |= {"transport": known["type"]} | dict.fromkeys(config.URL_KEYS, known["url"])
    known |= dict.fromkeys(
        (*config.INCLUDE_NAMES, *config.EXCLUDE_NAMES), config.TOOL_NAMES.json_schema()
    )
    known[config.OVERLAY_KEY] = config.Overlay.model_json_schema()
    servers = {"type": "object", "additionalProperties": entry}
    properties = {"mcpServers": servers, "servers": servers}
    return {"title": "McpServers", "type": "object", "properties": properties}
