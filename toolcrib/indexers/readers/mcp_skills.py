"""Skills of one live MCP server, by the extension for skills (SEP-2640), with verified files."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TextIO
from urllib.parse import unquote

from toolcrib.indexers.readers.base import Reading, Source, is_object
from toolcrib.indexers.readers.mcp import McpLiveReader
from toolcrib.indexers.readers.mcp_session import (
    Follow,
    ListError,
    SessionState,
    connect,
    follow_cursors,
    implementation,
)
from toolcrib.indexers.readers.skills import (
    MAX_FILES,
    MAX_SKILL_CHARS,
    MAX_SKILL_FILE_BYTES,
    SKILL_FILE,
    front_matter_and_body,
    skill_spec,
)
from toolcrib.records import Refusal
from toolcrib.records.codec import list_of

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp.types import PaginatedRequestParams, PaginatedResult

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"


def file_digest(content: bytes) -> str:
    """Digest of a skill's file, in the extension's format."""
    return f"sha256:{sha256(content).hexdigest()}"


async def follow_skills(state: SessionState, stderr: TextIO, max_pages: int) -> None:
    """Connect and collect every skill into `state.tools`, with `files` by path or a `problem`.

    The extension needs the protocol of 2026, so that is the first handshake.
    """
    from mcp import ClientSession
    from mcp.types import PaginatedResult, Request

    class SkillList(PaginatedResult):
        skills: list[dict[str, Any]]

    async with (
        connect(state, stderr) as (incoming, outgoing),
        ClientSession(incoming, outgoing, client_info=implementation()) as session,
    ):
        state.request = "server/discover"
        hello = await session.discover()
        state.server = session.server_info.name if session.server_info else ""
        if SKILLS_EXTENSION not in (hello.capabilities.extensions or {}):
            without = "without --format its tools are read"
            raise ListError(f"does not announce the extension for skills; {without}")
        listed: list[dict[str, Any]] = []

        async def ask(params: PaginatedRequestParams) -> PaginatedResult:
            page = await session.send_request(
                Request[Any, str](method="skills/list", params=params), SkillList
            )
            listed.extend(page.skills)
            return page

        await follow_cursors("skills/list", ask, state, max_pages)
        for entry in listed:
            state.request = f"resources/read of {entry.get('uri')}"
            state.tools.append(await _fetch_files(session, entry))
        state.complete = True


async def _fetch_files(session: ClientSession, entry: dict[str, Any]) -> dict[str, Any]:
    """Entry with the texts of its files, or with a `problem`."""
    try:
        files: dict[str, str | None] = {}
        left = MAX_SKILL_CHARS
        listed = _listed_files(entry)
        for path in sorted(listed, key=lambda path: path != SKILL_FILE):
            file, is_main = listed[path], path == SKILL_FILE
            fits = is_main or file["size"] <= min(MAX_SKILL_FILE_BYTES, left)
            files[path] = await _text(session, file) if fits else None
            left -= 0 if is_main else len(files[path] or "")
    except (ValueError, KeyError, TypeError) as error:
        return {**entry, "problem": str(error)}
    return {**entry, "files": files}


def _listed_files(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Files of a skill by path; raises ValueError for a file outside its folder, or too many."""
    folder = str(entry["uri"]).removesuffix(SKILL_FILE)
    files = {str(file["uri"]): file for file in filter(is_object, list_of(entry["resources"]))}
    if not 0 < len(files) <= MAX_FILES:
        raise ValueError(f"has {len(files)} files with digests; from 1 to {MAX_FILES} are read")
    if outside := [uri for uri in files if not uri.startswith(folder)]:
        raise ValueError(f"{outside[0]} is not in the skill's folder")
    return {unquote(uri.removeprefix(folder)): file for uri, file in files.items()}


async def _text(session: ClientSession, file: Mapping[str, Any]) -> str | None:
    """Text of a file; None for a binary file. Raises ValueError if its digest is wrong."""
    from mcp.types import TextResourceContents

    contents = (await session.read_resource(file["uri"])).contents
    parts = (
        e.text.encode() if isinstance(e, TextResourceContents) else base64.b64decode(e.blob)
        for e in contents
    )
    content = b"".join(parts)
    if (file_digest(content), len(content)) != (file["digest"], file["size"]):
        raise ValueError(f"{file['uri']} does not have the digest that the server lists")
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


class McpSkillsReader(McpLiveReader):
    """Reads the skills of one running (HTTP) or started (stdio) server.

    Only used by `--format`, as it reads every file of every skill, for the audit. A skill whose
    files differ from the listed digests or front matter is refused.
    """

    format: ClassVar[str] = "mcp-skills"
    follow: ClassVar[Follow] = staticmethod(follow_skills)

    def recognises(self, source: Source) -> bool:
        """Recognise nothing: without `--format` a server's tools are read."""
        del source
        return False

    def _specs(self, source: str, listed: list[Any], server: str) -> Reading:
        for entry in listed:
            place = str(entry.get("uri"))
            if problem := entry.get("problem"):
                yield Refusal(source, place, problem)
                continue
            files = dict(entry["files"])
            try:
                front, body = front_matter_and_body(files.pop(SKILL_FILE) or "")
            except (KeyError, ValueError) as error:
                yield Refusal(source, place, str(error))
                continue
            if front != entry.get("frontmatter"):
                yield Refusal(source, place, "its front matter differs from the server's list")
                continue
            yield skill_spec(source, front, body, files, server)
