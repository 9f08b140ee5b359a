"""Skills: folders with a `SKILL.md`, as Anthropic's Agent Skills have them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from toolcrib.indexers.readers.base import Reading, Source, build_spec, is_object, kind_of
from toolcrib.parsing import parse_front_matter
from toolcrib.records import Refusal, ToolSpec

SKILL_FILE = "SKILL.md"
DEFAULT_SERVER = "skills"
"""Default server of a skill, also in its id."""

FRONT_MATTER_FENCE = "---"

REQUIRED_FIELDS = frozenset({"name", "description"})
SKILL_FIELDS = REQUIRED_FIELDS | {"sensitivity"}
"""Keys that become fields of the tool; an unknown sensitivity is refused."""

MAX_SKILL_DESCRIPTION_CHARS = 1_024
"""Limit of the format of skills."""

MAX_FILES = 200
MAX_SKILL_FILE_BYTES = 64 * 1024
MAX_SKILL_CHARS = 90_000
"""Most characters of a skill's text and files together: the audit reads no more."""


class SkillsReader:
    """Reads one skill: front matter, text, and the files of its folder.

    The texts of files become part of the skill: they are audited and approved with it, and serving
    the skill reads no file. Links and hidden files are skipped.
    """

    format: ClassVar[str] = "skill"
    reaches_out: ClassVar[bool] = True

    def recognises(self, source: Source) -> bool:
        """True for a file named `SKILL.md`."""
        return source.path is not None and source.path.name == SKILL_FILE

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield the skill, or a refusal."""
        try:
            front, body = front_matter_and_body(source.text)
            files = dict(_files(source.path.parent, len(body))) if source.path else {}
        except (ValueError, OSError) as error:
            yield source.refusal(str(error), "front matter")
            return
        yield skill_spec(source.name, front, body, files, server or DEFAULT_SERVER)


def skill_spec(
    source: str, front: dict[str, Any], body: str, files: Mapping[str, str | None], server: str
) -> ToolSpec | Refusal:
    """Specification of a skill; `files` are the texts of its other files by path."""
    fields = {key: value for key, value in front.items() if key in SKILL_FIELDS}
    annotations = {key: value for key, value in front.items() if key not in SKILL_FIELDS}
    skill = {"body": body, "files": files}
    given = {"server": server, "annotations": annotations, "skill": skill}
    return build_spec(source, "front matter", {**fields, **given})


def front_matter_and_body(text: str) -> tuple[dict[str, Any], str]:
    """Split the front matter from the text behind it.

    Raises:
        ValueError: there is no front matter, or the text is too long.
    """
    first, *lines = text.removeprefix("\ufeff").lstrip().splitlines() or [""]
    ends = [number for number, line in enumerate(lines) if line.rstrip() == FRONT_MATTER_FENCE]
    if first.rstrip() != FRONT_MATTER_FENCE or not ends:
        fences = f"between two lines of {FRONT_MATTER_FENCE}"
        raise ValueError(f"must begin with name and description {fences}")
    front = parse_front_matter("\n".join(lines[: ends[0]]))
    if not is_object(front):
        raise ValueError(f"must be an object, not {kind_of(front)}")
    if missing := sorted(REQUIRED_FIELDS - {key for key, value in front.items() if value}):
        raise ValueError(f"{missing[0]}: missing")
    if len(str(front["description"])) > MAX_SKILL_DESCRIPTION_CHARS:
        raise ValueError(f"description: more than {MAX_SKILL_DESCRIPTION_CHARS:,} characters")
    body = "\n".join(lines[ends[0] + 1 :]).strip()
    if len(body) > MAX_SKILL_CHARS:
        raise ValueError(f"more than {MAX_SKILL_CHARS:,} characters; move some into files")
    return front, body


def _files(folder: Path, taken: int) -> Iterator[tuple[str, str | None]]:
    """Yield the files of a skill's folder by path, with None for a text beyond the limit."""
    left = MAX_SKILL_CHARS - taken
    for path in _paths(folder)[:MAX_FILES]:
        text = _text(path)
        text = text if len(text or "") <= left else None
        left -= len(text or "")
        yield path.relative_to(folder).as_posix(), text


def _paths(folder: Path) -> list[Path]:
    found: list[Path] = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths = (Path(parent, name) for name in sorted(names) if not name.startswith("."))
        found += (path for path in paths if path.is_file() and not path.is_symlink())
    return [path for path in found if path != folder / SKILL_FILE]


def _text(path: Path) -> str | None:
    """Text of a file; None for a long or binary file."""
    if path.stat().st_size > MAX_SKILL_FILE_BYTES:
        return None
    with suppress(UnicodeDecodeError):
        text = path.read_text("utf-8")
        return None if "\0" in text else text
    return None
