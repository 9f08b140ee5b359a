"""Quarantine: tools held back until a person approves them, and the lock file of approved tools."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from toolcrib.audit import audit, audit_all, audit_identity, blocks
from toolcrib.errors import SourceError, StoreWriteError, ToolChangedError, UnknownToolError
from toolcrib.indexers.sync import Entry
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import FrozenModel, adapter, as_json, in_words
from toolcrib.records.reports import Finding, Held
from toolcrib.store.folder import file_lock, write_atomically
from toolcrib.store.records_db import DbRow, RecordsDb

_FINDINGS = adapter(list[Finding])
DANGEROUS_REASON = "its text is dangerous to a model"

MAX_AUDITED_TOOLS = 20_000
"""Tools of a server whose findings are kept; an audit takes about 2 ms a tool."""


class Quarantine:
    """Held and approved tools of one namespace; `now` gives Unix time.

    A records database keeps them, so that a command can approve what a service holds. Every
    method raises StoreError if the records database does not answer.
    """

    def __init__(
        self, records_db: RecordsDb, namespace: str, now: Callable[[], float] = time.time
    ) -> None:
        self._records = records_db
        self._held_table = f"quarantine/{namespace}"
        self._approved_table = f"approved/{namespace}"
        self._met_table = f"met/{namespace}"
        self._locked_table = f"locked/{namespace}"
        self._audited_table = f"audited/{namespace}"
        self._now = now

    def screen(
        self,
        specs: Iterable[ToolSpec],
        *,
        written_by: str = "",
        find_served: Callable[[str], ToolSpec | None] = lambda _: None,
        findings: Iterable[Finding] | None = None,
    ) -> list[Held]:
        """Hold the tools that a finding blocks and that are not approved in this version.

        Any other tool releases the tool held under its id. `find_served` finds the served tool
        that a held tool of the same id replaces. `findings`: of an audit of these tools, if made.
        """
        given = list(specs)
        found: dict[str, list[Finding]] = {}
        for finding in audit_all(given) if findings is None else findings:
            found.setdefault(finding.tool, []).append(finding)
        before = self.held_ids()
        held: list[Held] = []
        for spec in given:
            own = found.get(spec.id, [])
            if blocks(own) and not self._is_approved(spec, own):
                old, by = find_served(spec.id), written_by
                held.append(self.hold(spec, DANGEROUS_REASON, own, written_by=by, replaces=old))
            elif spec.id in before:
                self._records.delete(self._held_table, spec.id)
        return held

    def audit(self, listings: Mapping[str, Sequence[ToolSpec]]) -> list[Finding]:
        """Audit the tools of servers, by server; a specification is audited once.

        Findings are kept by server, for the `MAX_AUDITED_TOOLS` listed last, and hold until the
        specification or the rules change.
        """
        # By object, as one id may come twice.
        found: dict[int, list[Finding]] = {}
        for server, given in listings.items():
            row, rules = self._records.get(self._audited_table, server), audit_identity()
            known: dict[str, list[Any]] = {}
            if row is not None and row.body["rules"] == rules:
                known = row.body["tools"]
            tools: dict[str, list[Any]] = {}
            for spec in given:
                entry, digest = known.get(spec.id), spec.digest
                if entry is None or entry[0] != digest:
                    entry = [digest, _FINDINGS.dump_python(audit(spec), mode="json")]
                tools[spec.id] = entry
                found[id(spec)] = _FINDINGS.validate_python(entry[1])
            # Of a server's tools one listing may have a part: the other findings stay.
            others = {key: entry for key, entry in known.items() if key not in tools}
            kept = dict(list((others | tools).items())[-MAX_AUDITED_TOOLS:])
            if kept != known:
                self._write(self._audited_table, server, {"rules": rules, "tools": kept})
        every = chain.from_iterable(listings.values())
        return audit_all(every, own=lambda spec: found[id(spec)])

    def _is_approved(self, spec: ToolSpec, findings: Iterable[Finding]) -> bool:
        """True if this version was approved, disregarding an enrichment that does not block."""
        approved = self.approved_digest(spec.id)
        own = spec.model_copy(update={"enrichment": None})
        written = [each for each in findings if each.place.startswith("enrichment.")]
        return approved == spec.digest or (approved == own.digest and not blocks(written))

    def screen_entries(self, entries: Iterable[Entry]) -> list[Entry]:
        """Screen the entries of sources for `Crib.index_tools`: held tools become refusals."""
        found = list(entries)
        specs = [item for _, item in found if isinstance(item, ToolSpec)]
        listings: dict[str, list[ToolSpec]] = {}
        for spec in specs:
            listings.setdefault(spec.server, []).append(spec)
        kept_back = self.screen(specs, findings=self.audit(listings))
        held = {each.tool_id: each for each in kept_back}
        return [
            (source, Refusal(source, item.id, _refusal_reason(held[item.id])))
            if isinstance(item, ToolSpec) and item.id in held
            else (source, item)
            for source, item in found
        ]

    def hold(
        self,
        spec: ToolSpec,
        reason: str,
        findings: Sequence[Finding],
        was_digest: str | None = None,
        *,
        written_by: str = "",
        replaces: ToolSpec | None = None,
    ) -> Held:
        """Hold a tool back; the same tool held again keeps its time and first writer.

        The served tool that an earlier held version `replaces` is kept, as none was served since.
        """
        before, since = self.get(spec.id), self._now()
        if replaces is None and before is not None:
            replaces = before.replaces
        if before is not None and before.digest == spec.digest:
            since, written_by = before.since, before.written_by
        made = Held(
            tool_id=spec.id,
            server=spec.server,
            digest=spec.digest,
            was_digest=was_digest or self.approved_digest(spec.id),
            reason=reason,
            findings=tuple(findings),
            since=since,
            spec=spec,
            written_by=written_by,
            replaces=replaces,
        )
        body = {key: value for key, value in as_json(made).items() if key != "since"}
        self._records.put(self._held_table, DbRow(spec.id, since, body))
        return made

    def get(self, tool_id: str) -> Held | None:
        """Tool held under an id; None if nothing is held."""
        entry = self._records.get(self._held_table, tool_id)
        return None if entry is None else _held_tool(entry)

    def list(self) -> list[Held]:
        """Held tools, oldest first."""
        return [_held_tool(entry) for entry in self._records.read(self._held_table)]

    def held_ids(self) -> frozenset[str]:
        """Ids of the held tools."""
        return frozenset(entry.id for entry in self._records.read(self._held_table))

    def get_reviewed(self, tool_id: str, digest: str) -> Held:
        """Tool held under an id, if its digest is still the reviewed digest.

        Raises:
            UnknownToolError: nothing is held under this id.
            ToolChangedError: the held tool has another digest.
        """
        held = self.get(tool_id)
        if held is None:
            raise UnknownToolError(tool_id)
        if held.digest != digest:
            raise ToolChangedError(
                f"{tool_id!r} is held with the digest {held.digest} now, and the approval names "
                f"{digest}; review the tool again"
            )
        return held

    def release(self, held: Held) -> None:
        """Approve this version of a tool, and release the tool."""
        # Approved first: after a crash in between the tool can be released again.
        self._write(self._approved_table, held.tool_id, {"digest": held.digest})
        now = self.get(held.tool_id)
        if now is not None and now.digest == held.digest:
            self._records.delete(self._held_table, held.tool_id)

    def reject(self, tool_id: str) -> None:
        """Drop a held tool; if a source has it again, it is screened again.

        Raises:
            UnknownToolError: nothing is held under this id.
        """
        if not self._records.delete(self._held_table, tool_id):
            raise UnknownToolError(tool_id)

    def first_digests(self, server: str) -> Mapping[str, str] | None:
        """Digests of a server's tools by id at the first connection; None before that."""
        return self._read(self._met_table, server, "tools")

    def keep_first_digests(self, server: str, specs: Iterable[ToolSpec]) -> None:
        """Keep the digests of a server's first connection, to compare later tools with."""
        self._write(self._met_table, server, {"tools": {spec.id: spec.digest for spec in specs}})

    def record_locked(self, lock: str, servers: Iterable[str]) -> frozenset[str]:
        """Record the servers that a lock file names, and return every server that it ever named."""
        before = frozenset(self._read(self._locked_table, lock, "servers") or ())
        found = before.union(servers)
        if found != before:
            self._write(self._locked_table, lock, {"servers": sorted(found)})
        return found

    def approved_digest(self, tool_id: str) -> str | None:
        """Latest approved digest of an id; None without approval."""
        return self._read(self._approved_table, tool_id, "digest")

    def _read(self, table: str, row_id: str, field: str) -> Any:
        row = self._records.get(table, row_id)
        return None if row is None else row.body[field]

    def _write(self, table: str, row_id: str, body: dict[str, Any]) -> None:
        self._records.put(table, DbRow(row_id, self._now(), body))


def _refusal_reason(held: Held) -> str:
    worst = held.findings[0] if held.findings else None
    # A finding about a tool as a whole has no place.
    where = f" in {worst.place}" if worst and worst.place else ""
    rule = f": {worst.rule}{where}" if worst else ""
    return f"held back for approval, because {held.reason}{rule}; see `toolcrib approve --list`"


def _held_tool(entry: DbRow) -> Held:
    return adapter(Held).validate_python({**entry.body, "since": entry.at})


LOCK_FILE_VERSION = 1
LOCK_FILE_HEAD = (
    "# Approved by `toolcrib approve`. Commit this file; a new or changed tool is held back.\n"
)
_REPAIR_HINT = "restore the file from version control"


class _LockFileContent(FrozenModel):
    version: int = Field(ge=LOCK_FILE_VERSION, le=LOCK_FILE_VERSION)
    servers: dict[str, dict[str, Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]]] = Field(
        default_factory=dict[str, dict[str, str]]
    )


class LockFile:
    """Reads and writes one lock file; for several threads and processes.

    A file that changed on disk is read again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp: tuple[int, int, int] | None = None
        self._content: Mapping[str, Mapping[str, str]] = {}

    def read(self) -> Mapping[str, Mapping[str, str]]:
        """Read the digests by server and tool id; empty without a file.

        Raises:
            SourceError: the file is damaged; the error names the line.
        """
        try:
            stat = self.path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._stamp:
                self._content, self._stamp = self._parse(), seen
        except FileNotFoundError:
            self._content, self._stamp = {}, None
        except OSError as error:
            raise SourceError(str(self.path), "", f"cannot be read: {error.strerror}") from error
        return self._content

    def approve(self, specs: Iterable[ToolSpec]) -> None:
        """Write the digests of tools, and so lock their servers.

        Raises:
            SourceError: the existing file is damaged.
            StoreWriteError: the file cannot be written.
        """
        beside = self.path.with_name(f".{self.path.name}.writing")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with file_lock(beside):
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
        except UnicodeDecodeError as error:
            raise SourceError(name, "", f"is not UTF-8 text; {_REPAIR_HINT}") from error
        try:
            return _LockFileContent.model_validate(yaml.safe_load(text)).servers
        except yaml.YAMLError as error:
            mark: Any = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or "a character that YAML does not allow"
            place = f"line {mark.line + 1}" if mark else ""
            raise SourceError(name, place, f"{problem}; {_REPAIR_HINT}") from error
        except ValidationError as error:
            place = f"line {_line(text, error.errors()[0]['loc'])}"
            raise SourceError(name, place, f"{in_words(error)}; {_REPAIR_HINT}") from error


def _line(text: str, way: Sequence[int | str]) -> int:
    """Line of a place in a YAML document, or of the deepest existing key on its path."""
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
    content = {"version": LOCK_FILE_VERSION, "servers": ordered}
    return LOCK_FILE_HEAD + yaml.safe_dump(
        content, sort_keys=False, allow_unicode=True, width=1_000
    )
