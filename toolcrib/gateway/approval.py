"""Approval: the tools that may be served, by the lock file, an operator, or the audit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from toolcrib.access.quarantine import DANGEROUS_REASON, LockFile, Quarantine
from toolcrib.audit import blocks
from toolcrib.errors import UnknownToolError
from toolcrib.gateway.config import file_stamp
from toolcrib.records import ToolSpec
from toolcrib.records.reports import Finding, Held

NEW_REASON = "new on a server that is known"
CHANGED_REASON = "changed since it was approved"
UNLOCKED_REASON = (
    "its server was locked, and the lock file names it no more; restore that, or approve it"
)

NON_TOOL_ID_MARK = "#"
"""Mark behind the server's name in the ids of screened specs that are no tools."""

Specs: TypeAlias = tuple[ToolSpec, ...]


def is_tool(spec: ToolSpec) -> bool:
    """True for a tool; False for a prompt, a resource or instructions, which are screened too."""
    return not spec.id.startswith(spec.server + NON_TOOL_ID_MARK)


@dataclass(frozen=True, slots=True)
class Screening:
    """Result for one server: specs to serve, specs to quarantine, number of newly locked tools.

    `warnings`: about specs that are served and that nobody has approved.
    """

    served: Specs = ()
    held: tuple[Held, ...] = ()
    locked: int = field(default=0, compare=False)
    warnings: tuple[Finding, ...] = ()


class Approval:
    """Approval of tools by the lock file, by an operator, or by the first audit.

    The tools of a new server are audited: those that pass are served, all are recorded, and `locks`
    adds the server to the lock file. Later, tools that differ from their recorded digest are
    quarantined. A server that is or was in the lock file serves only the tools there, whatever the
    audit finds. All servers are audited together, because a tool may interfere with another
    server's. Without `audits` everything is served; with `strict` a warning quarantines a tool,
    too. Thread-safe.
    """

    def __init__(
        self,
        lock: LockFile,
        quarantine: Quarantine,
        *,
        locks: bool = False,
        audits: bool = True,
        strict: bool = False,
    ) -> None:
        self._lock, self._quarantine, self._locks = lock, quarantine, locks
        self._audits, self._strict = audits, strict
        self._screening_lock = threading.Lock()
        self._held: dict[str, str] = {}

    def screen(
        self,
        listings: Mapping[str, Sequence[ToolSpec]],
        find_served: Callable[[str], ToolSpec | None] = lambda _: None,
    ) -> dict[str, Screening]:
        """Screen all specs that the servers list, by server.

        `find_served` finds the served version of a tool, to show what a held one changes.

        Raises:
            ToolcribError: lock file or records cannot be read.
        """
        with self._screening_lock:
            self._lock.read()
            if not self._audits:
                return {name: Screening(tuple(specs)) for name, specs in listings.items()}
            held_before = self._quarantine.list()
            findings: dict[str, list[Finding]] = {}
            for finding in self._quarantine.audit(listings):
                findings.setdefault(finding.tool, []).append(finding)
            locked = self._locked_servers()
            screened = {
                name: self._screen_server(
                    name, specs, findings, find_served, is_locked=name in locked
                )
                for name, specs in listings.items()
            }
            self._locked_servers()
            self._held = {h.tool_id: h.digest for one in screened.values() for h in one.held}
            for stale in held_before:
                is_ours = stale.server in listings and stale.spec.kind != "skill"
                if is_ours and stale.tool_id not in self._held:
                    # An operator may have rejected the tool in the meantime.
                    with suppress(UnknownToolError):
                        self._quarantine.reject(stale.tool_id)
            return screened

    def _locked_servers(self) -> frozenset[str]:
        return self._quarantine.record_locked(str(self._lock.path.absolute()), self._lock.read())

    def _screen_server(
        self,
        server: str,
        specs: Sequence[ToolSpec],
        findings: Mapping[str, list[Finding]],
        find_served: Callable[[str], ToolSpec | None],
        *,
        is_locked: bool,
    ) -> Screening:
        locked = self._lock.read().get(server)
        unknown = NEW_REASON if locked is not None or not is_locked else UNLOCKED_REASON
        pins = (locked or {}) if is_locked else self._quarantine.first_digests(server)
        served: list[ToolSpec] = []
        held: list[Held] = []
        warnings: list[Finding] = []
        for spec in specs:
            own = findings.get(spec.id, [])
            is_dangerous = blocks(own, strict=self._strict)
            pinned = None if pins is None else pins.get(spec.id)
            is_known = pins is None or spec.digest == pinned
            may_pass = is_known and (locked is not None or not is_dangerous)
            if self._quarantine.approved_digest(spec.id) == spec.digest:
                served.append(spec)
            elif may_pass:
                served.append(spec)
                if locked is None:
                    warnings += (each for each in own if each.severity == "warning")
            else:
                reason = CHANGED_REASON if pinned else unknown
                if is_dangerous and not is_locked:
                    reason = DANGEROUS_REASON
                held.append(self._hold(spec, reason, own, pinned, find_served))
        if pins is None and specs:
            self._quarantine.keep_first_digests(server, specs)
        locks = self._locks and not is_locked and bool(served)
        if locks:
            self._lock.approve(served)
        newly_locked = sum(map(is_tool, served)) if locks else 0
        return Screening(tuple(served), tuple(held), newly_locked, tuple(warnings))

    def _hold(
        self,
        spec: ToolSpec,
        reason: str,
        findings: list[Finding],
        pinned: str | None,
        find_served: Callable[[str], ToolSpec | None],
    ) -> Held:
        known = self._quarantine.get(spec.id)
        if known is not None and (known.digest, known.reason) == (spec.digest, reason):
            return known
        old = find_served(spec.id) if pinned else None
        if old is not None and old.digest != pinned:
            # The operator's overlay changed the served version: their difference would mislead.
            old = None
        return self._quarantine.hold(spec, reason, findings, was_digest=pinned, replaces=old)

    def state(self) -> tuple[object, ...]:
        """Value that changes with every approval and rejection; cheap to compute."""
        held = list(self._held.items())
        # This runs once a second: without held tools it reads none.
        kept = self._quarantine.held_ids() if held else ()
        approved = (each for each, d in held if self._quarantine.approved_digest(each) == d)
        dropped = (each for each, _ in held if each not in kept)
        return file_stamp(self._lock.path), tuple(approved), tuple(dropped)
