"""Skills of the gateway: two tools that search and read skills, and MCP's extension.

The extension (SEP-2640) lists skills, with the digest of each file, and serves files as resources.
Texts come from the index, as audited: no file is opened for a caller.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import yaml
from fastmcp import skills as fastmcp_skills
from fastmcp.resources.base import Resource
from fastmcp.resources.types import TextResource
from fastmcp.server.auth import AccessToken
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.extensions import MethodBinding, ServerExtension
from fastmcp.server.providers import Provider
from fastmcp.skills.models import (
    GetSkillParams,
    GetSkillResult,
    ListSkillsParams,
    ListSkillsResult,
)
from fastmcp.tools.base import Tool, ToolResult
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError
from mcp.types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolcrib.crib import Crib
from toolcrib.gateway.auth import granted_scope
from toolcrib.gateway.catalog import CatalogEntry, ToolCatalog, by_own_name
from toolcrib.gateway.index import IS_SKILL, OPENING_MESSAGE, GatewayIndex
from toolcrib.indexers.readers.mcp_skills import SKILLS_EXTENSION, file_digest
from toolcrib.indexers.readers.skills import (
    FRONT_MATTER_FENCE,
    MAX_SKILL_DESCRIPTION_CHARS,
    SKILL_FILE,
)
from toolcrib.integrations.fastmcp import (
    NOT_SURE,
    READ_ONLY,
    SearchTool,
    count_parameter,
    failure,
    structured_answer,
    unknown_name,
)
from toolcrib.records import Scope, ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.records.definitions import OwnTool
from toolcrib.retrieval.options import SearchOptions

if TYPE_CHECKING:
    from fastmcp.skills.models import Skill
else:
    # FastMCP 4.2 renames the class, warns of the old name, and removes it in 4.3.
    Skill = getattr(fastmcp_skills, "MCPSkill", None) or fastmcp_skills.Skill

logger = logging.getLogger(__name__)

FIND_SKILLS_TEXT = (
    "Find skills: texts that say how a kind of task is done well. Search before you begin a task "
    "of several steps, then read the one that fits by read_skill."
)
READ_SKILL_TEXT = "Read a skill that find_skills has named, or one of the files that it lists."
FIND_SKILLS_PARAMETERS = {
    "query": {"type": "string", "description": "What is to be done, in a few words"},
    "k": count_parameter("How many at most"),
}
READ_SKILL_PARAMETERS = {
    "name": {"type": "string", "description": "The skill's name, as find_skills gave it"},
    "file": {"type": "string", "description": "A path among its files, in place of its text"},
}
DEFAULT_SKILLS_K = 5

LEFT_OUT_META_KEY = "toolcrib/left_out"
"""Key in an entry's `_meta` for files that are not served: binary, or too long."""

MAX_URI_CHARS = 200
"""Length of a URI in an error."""


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """Skill for the extension: its entry, and the texts of its files by URI."""

    entry: Skill
    texts: Mapping[str, str]

    @classmethod
    def of(cls, spec: ToolSpec) -> PublishedSkill:
        """Convert a skill for the extension; `_meta` names files without a text.

        Raises:
            ValidationError: the extension forbids the name or front matter.
        """
        assert spec.skill is not None
        folder = "/".join(quote(part) for part in (spec.server.lower(), spec.name) if part)
        front = {"name": spec.name, "description": spec.description, **spec.annotations}
        head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
        files = {
            SKILL_FILE: f"{FRONT_MATTER_FENCE}\n{head}{FRONT_MATTER_FENCE}\n\n{spec.skill.body}\n",
            **spec.skill.files,
        }
        left_out = [path for path, text in files.items() if text is None]
        uris = {path: f"skill://{folder}/{quote(path)}" for path in files}
        texts = {uris[path]: text for path, text in files.items() if text is not None}
        entry = {
            "uri": uris[SKILL_FILE],
            "frontmatter": front,
            "resources": [_file(uri, text.encode()) for uri, text in texts.items()],
            "_meta": {LEFT_OUT_META_KEY: left_out} if left_out else None,
        }
        return cls(Skill.model_validate(entry), texts)

    def resource(self, uri: str) -> Resource:
        """Resource of one of the files."""
        about = self.entry.frontmatter if uri == self.entry.uri else None
        return TextResource.model_validate(
            {
                "uri": uri,
                "name": about.name if about else uri.rpartition("/")[2],
                "description": about.description if about else None,
                "mime_type": "text/markdown" if about else guess_type(uri)[0] or "text/plain",
                "text": self.texts[uri],
            }
        )


def _file(uri: str, content: bytes) -> dict[str, Any]:
    return {"uri": uri, "digest": file_digest(content), "size": len(content)}


class GatewaySkills(Provider):
    """Skills of an index, within the scope of each caller.

    For FastMCP it provides their files as resources; the list has each skill's `SKILL.md`.
    """

    def __init__(self, index: GatewayIndex) -> None:
        super().__init__()
        self._index, self._skills = index, ToolCatalog()
        self._published_skills: dict[str, PublishedSkill] = {}
        self._tools: dict[str, Tool] = {
            name: SearchTool.of(name, says, takes, act, READ_ONLY)
            for name, says, takes, act in (
                (OwnTool.FIND_SKILLS, FIND_SKILLS_TEXT, FIND_SKILLS_PARAMETERS, self._find),
                (OwnTool.READ_SKILL, READ_SKILL_TEXT, READ_SKILL_PARAMETERS, self._read),
            )
        }

    def open(self, crib: Crib) -> None:
        """Offer the skills of a crib."""
        self._skills = ToolCatalog(crib.list_tools(where=IS_SKILL))
        for spec in (each.spec for each in self._skills):
            try:
                self._published_skills[spec.id] = PublishedSkill.of(spec)
            except ValidationError as error:
                why = in_words(error, "front matter")
                logger.warning(
                    "%s is searchable, but not listed among MCP's skills: %s", spec.id, why
                )

    def tools(self, token: AccessToken | None) -> list[Tool]:
        """Both tools for a key's holder who may see a skill; otherwise none."""
        return list(self._tools.values()) if self._within_scope(token) else []

    def get(self, name: str) -> Tool | None:
        """Tool by its name, if the caller may see a skill."""
        tool = self._tools.get(name)
        return tool if tool and self._within_scope(get_access_token()) else None

    def published_by_uri(self, token: AccessToken | None) -> dict[str, PublishedSkill]:
        """Skills of a key's holder that the extension lists, by URI."""
        here = (self._published_skills.get(each.spec.id) for each in self._within_scope(token))
        return {each.entry.uri: each for each in here if each is not None}

    async def _list_resources(self) -> Sequence[Resource]:
        here = self.published_by_uri(get_access_token())
        return [each.resource(uri) for uri, each in here.items()]

    async def _get_resource(self, uri: str, version: VersionSpec | None = None) -> Resource | None:
        del version
        here = self.published_by_uri(get_access_token()).values()
        return next((each.resource(uri) for each in here if uri in each.texts), None)

    def _within_scope(self, token: AccessToken | None) -> tuple[CatalogEntry, ...]:
        return self._skills.within(self._scope_of(token))

    def _scope_of(self, token: AccessToken | None) -> Scope:
        # Skills belong to no server.
        return granted_scope(token, replace(self._index.scope, servers=None))

    def _visible(self) -> dict[str, ToolSpec]:
        """The caller's skills, by id and by unique name."""
        here = self._within_scope(get_access_token())
        named = by_own_name(here).items()
        return {name: same[0].spec for name, same in named if len(same) == 1} | {
            entry.spec.id: entry.spec for entry in here
        }

    async def _find(self, given: dict[str, Any], _context: Context) -> ToolResult:
        if not self._index.is_open.is_set():
            return failure(OPENING_MESSAGE)
        options = SearchOptions(
            given.get("k", DEFAULT_SKILLS_K),
            scope=self._scope_of(get_access_token()),
            where=IS_SKILL,
        )
        result = await self._index.work(self._index.crib.tools.find, given["query"], options)
        visible = self._visible()
        skills = [
            {
                "name": hit.name if hit.name in visible else hit.id,
                "description": hit.description[:MAX_SKILL_DESCRIPTION_CHARS],
            }
            for hit in result.tools
            if hit.id in visible
        ]
        doubt = {} if result.verdict == "accept" else {"note": NOT_SURE.format(result.reason)}
        return structured_answer({"skills": skills, "verdict": result.verdict, **doubt})

    async def _read(self, given: dict[str, Any], _context: Context) -> ToolResult:
        visible = self._visible()
        spec, path = visible.get(given["name"]), given.get("file")
        if spec is None or spec.skill is None:
            return unknown_name("skill", given["name"], visible, OwnTool.FIND_SKILLS)
        files = spec.skill.files
        if path is None:
            skill = {"name": spec.name, "text": spec.skill.body, "files": list(files)}
            return structured_answer(skill)
        if path not in files:
            return unknown_name("file", path, files, OwnTool.READ_SKILL)
        text = files[path]
        if text is None:
            return failure(f"{path} cannot be read here: it is no text, or too long.")
        return structured_answer({"name": spec.name, "file": path, "text": text})


# -- MCP's extension for skills ------------------------------------------------------------------


class SkillsExtension(ServerExtension):
    """Methods `skills/list` and `skills/get`."""

    identifier = SKILLS_EXTENSION

    def __init__(self, skills: GatewaySkills) -> None:
        self._skills = skills

    def methods(self) -> Sequence[MethodBinding]:
        """Methods for clients since 2026."""
        since = frozenset(MODERN_PROTOCOL_VERSIONS)
        return (
            MethodBinding("skills/list", ListSkillsParams, self._list, since),
            MethodBinding("skills/get", GetSkillParams, self._get, since),
        )

    async def _list(self, _context: Any, _params: ListSkillsParams) -> ListSkillsResult:
        here = self._skills.published_by_uri(get_access_token()).values()
        return ListSkillsResult(skills=[each.entry for each in here])

    async def _get(self, _context: Any, params: GetSkillParams) -> GetSkillResult:
        here = self._skills.published_by_uri(get_access_token())
        if params.uri not in here:
            raise MCPError(INVALID_PARAMS, f"No skill is served at {params.uri[:MAX_URI_CHARS]}")
        return GetSkillResult(skill=here[params.uri].entry)
