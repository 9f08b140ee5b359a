"""Lock file `toolcrib.lock`: digests of the approved tools, by server.

    # Approved by `toolcrib approve`. Commit this file; a changed tool is held back.
    version: 1
    servers:
      github:
        github/create_issue: 4f0c...

A listed server is locked, also without tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from filelock import FileLock
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.errors import SourceError, StoreWriteError
from toolcrib.records import ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.store.folder import write_atomically

VERSION = 1
HEAD = "# Approved by `toolcrib approve`. Commit this file; a new or changed tool is held back.\n"
_REPAIR = "restore the file from version control"
WRITE_LOCK_TIMEOUT_S = 10.0


class _Content(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(ge=VERSION, le=VERSION)
    servers: dict[str, dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]]] = Field(
        default_factory=dict[str, dict[str, str]]
    )


class LockFile:
    """Reads and writes one lock file; for several threads and processes.

    A file that changed on disk is read again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None
        self._content: Mapping[str, Mapping[str, str]] = {}

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Read the digests by server and tool id; empty without a file.

        Raises:
            SourceError: the file is damaged; the error names the line.
        """
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            self._seen, self._content = None, {}
            return self._content
        except OSError as error:
            raise SourceError(str(self.path), "", f"cannot be read: {error.strerror}") from error
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._content = self._parse()
            self._seen = seen
        return self._content

    def servers(self) -> frozenset[str]:
        """Locked servers."""
        return frozenset(self.read())

    def digest(self, tool_id: str) -> str | None:
        """Approved digest of a tool; None without approval."""
        return next((tools[tool_id] for tools in self.read().values() if tool_id in tools), None)

    def approve(self, specs: Iterable[ToolSpec]) -> None:
        """Write the digests of tools, and so lock their servers.

        Raises:
            SourceError: the existing file is damaged.
            StoreWriteError: the file cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(
                self.path.with_name(f".{self.path.name}.writing"), timeout=WRITE_LOCK_TIMEOUT_S
            ):
                servers = {server: dict(tools) for server, tools in self.read().items()}
                for spec in specs:
                    servers.setdefault(spec.server, {})[spec.id] = spec.digest
                write_atomically(self.path, _text(servers))
        except OSError as error:
            raise StoreWriteError(f"{self.path} cannot be written: {error}") from error

    def _parse(self) -> Mapping[str, Mapping[str, str]]:
        name = str(self.path)
        try:
            text = self.path.read_text(encoding="utf-8")
        except OSError as error:
            raise SourceError(name, "", f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise SourceError(name, "", f"is not UTF-8 text; {_REPAIR}") from error
        try:
            return _Content.model_validate(yaml.safe_load(text)).servers
        except yaml.YAMLError as error:
            mark: Any = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "a character that YAML does not allow"
            place = f"line {mark.line + 1}" if mark else ""
            raise SourceError(name, place, f"{problem}; {_REPAIR}") from error
        except ValidationError as error:
            place = f"line {_line(text, error.errors()[0]['loc'])}"
            raise SourceError(name, place, f"{in_words(error)}; {_REPAIR}") from error


def _line(text: str, way: Sequence[int | str]) -> int:
    """Line of a place in a YAML document, or of the deepest key on the way that exists."""
    node: Any = yaml.SafeLoader(text).get_single_node()
    line = 1
    for step in way:
        if getattr(node, "id", "") != "mapping":
            break
        found: list[tuple[Any, Any]] = [pair for pair in node.value if pair[0].value == step]
        if not found:
            break
        key, node = found[-1]
        line = int(key.start_mark.line) + 1
    return line


def _text(servers: Mapping[str, Mapping[str, str]]) -> str:
    ordered = {name: dict(sorted(servers[name].items())) for name in sorted(servers)}
    content = {"version": VERSION, "servers": ordered}
    return HEAD + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1_000)
