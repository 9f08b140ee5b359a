"""Skills of the gateway: found by what they are for, and read, text and files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fastmcp.server.context import Context
from fastmcp.tools.base import Tool, ToolResult

from toolcrib.caches import BoundedMap
from toolcrib.crib import Crib
from toolcrib.errors import QueryError, StoreError, nearest
from toolcrib.gateway.catalog import MAX_SCOPES_BYTES, CatalogEntry, scope_bytes
from toolcrib.gateway.index import IS_SKILL, OPENING, GatewayIndex
from toolcrib.indexers.readers.skills import MAX_DESCRIPTION_CHARS
from toolcrib.integrations.fastmcp import (
    MAX_FOUND_TOOLS,
    NOT_SURE,
    READS_ONLY,
    SearchTool,
    failure,
    structured_answer,
)
from toolcrib.integrations.formats import RESERVED
from toolcrib.records import Scope
from toolcrib.retrieval.options import SearchOptions
from toolcrib.store.filters import from_scope
from toolcrib.store.payload import tool_payload

__all__ = ["GatewaySkills"]

FIND, READ = RESERVED[-2:]

FIND_SAYS = (
    "Find skills: texts that say how a kind of task is done well. Search before you begin a task "
    "of several steps, then read the one that fits by read_skill."
)
READ_SAYS = "Read a skill that find_skills has named, or one of the files that it lists."
FIND_TAKES = {
    "query": {"type": "string", "description": "What is to be done, in a few words"},
    "k": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_FOUND_TOOLS,
        "description": "How many at most",
    },
}
READ_TAKES = {
    "name": {"type": "string", "description": "The skill's name, as find_skills gave it"},
    "file": {"type": "string", "description": "A path among its files, in place of its text"},
}
K = 5


class GatewaySkills:
    """The two tools, shown to callers within whose scope there are skills.

    What is read stands in the index, as it was audited: no file is opened for a caller.
    """

    def __init__(self, index: GatewayIndex, scope: Callable[[], Scope]) -> None:
        self._index, self._scope = index, scope
        self._skills: list[CatalogEntry] = []
        find = SearchTool.of(FIND, FIND_SAYS, FIND_TAKES, self._find, READS_ONLY)
        read = SearchTool.of(READ, READ_SAYS, READ_TAKES, self._read, READS_ONLY)
        self._tools: dict[str, Tool] = {FIND: find, READ: read}
        self._of_scopes: BoundedMap[Scope, dict[str, CatalogEntry]] = BoundedMap(
            MAX_SCOPES_BYTES, scope_bytes
        )

    def open(self, crib: Crib) -> None:
        """Offer the skills of a crib."""
        self._skills = [
            CatalogEntry(spec.name, spec, tool_payload(spec))
            for spec in crib.list_tools(where=IS_SKILL)
            if spec.enabled
        ]
        self._of_scopes.clear()

    def tools(self, scope: Scope) -> list[Tool]:
        """Both, where there is anything to be found within a scope; else none."""
        return list(self._tools.values()) if self._within(scope) else []

    def named(self, name: str) -> Tool | None:
        """One of them, where the caller is shown it."""
        # Asked for with every call of any tool.
        tool = self._tools.get(name)
        return tool if tool and self._visible() else None

    def _visible(self) -> dict[str, CatalogEntry]:
        """The caller's skills by id, and by name where no other is called so."""
        return self._within(self._scope())

    def _within(self, scope: Scope) -> dict[str, CatalogEntry]:
        return self._of_scopes.get_or_make(scope, partial(self._seen, scope))

    def _seen(self, scope: Scope) -> dict[str, CatalogEntry]:
        where = from_scope(scope)
        here = [each for each in self._skills if each.fits(where)]
        named = Counter(each.name for each in here)
        return {each.name: each for each in here if named[each.name] == 1} | {
            each.spec.id: each for each in here
        }

    async def _find(self, given: dict[str, Any], _context: Context) -> ToolResult:
        if not self._index.is_open.is_set():
            return failure(OPENING)
        options = SearchOptions(given.get("k", K), scope=self._scope(), where=IS_SKILL)
        try:
            find = self._index.crib.tools.find
            result = await self._index.work(find, given["query"], options)
        except QueryError as error:
            return failure(f"{error}.")
        except StoreError as error:
            return failure(f"The search does not work at the moment: {error}.")
        visible = self._visible()
        shown = tuple(hit for hit in result.tools if hit.id in visible)
        result = replace(result, tools=shown)
        skills = [
            {
                "name": hit.name if hit.name in visible else hit.id,
                "description": hit.description[:MAX_DESCRIPTION_CHARS],
            }
            for hit in result.tools
        ]
        doubt = {} if result.verdict == "accept" else {"note": NOT_SURE.format(result.reason)}
        return structured_answer({"skills": skills, "verdict": result.verdict, **doubt})

    async def _read(self, given: dict[str, Any], _context: Context) -> ToolResult:
        visible = self._visible()
        entry, path = visible.get(given["name"]), given.get("file")
        if entry is None or entry.spec.skill is None:
            return _unknown(f"skill {given['name'][:100]!r}", given["name"], visible, FIND)
        skill = entry.spec.skill
        if path is None:
            told = {"name": entry.name, "text": skill.body, "files": list(skill.files)}
            return structured_answer(told)
        if path not in skill.files:
            return _unknown(f"file {path[:100]!r}", path, skill.files, READ)
        text = skill.files[path]
        if text is None:
            return failure(f"{path} cannot be read here: it is no text, or too long.")
        return structured_answer({"name": entry.name, "file": path, "text": text})


def _unknown(what: str, name: str, names: Any, where: str) -> ToolResult:
    near = nearest(name, names)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    return failure(f"There is no {what}.{hint} {where} says what there is.")
