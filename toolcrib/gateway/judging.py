"""What of the servers' tools is served: what is locked as it is, or new and clean."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from toolcrib.access.lock_file import LockFile
from toolcrib.access.quarantine import Held, Quarantine
from toolcrib.errors import UnknownToolError
from toolcrib.indexers.audit import Finding, audit_all, blocks
from toolcrib.records import ToolSpec

__all__ = ["Judge", "Judgement", "Listings"]

Listings = Mapping[str, Sequence[ToolSpec]]
"""What each server lists."""

NEW = "new on a locked server"
CHANGED = "changed since it was locked"
DANGEROUS = "its text is dangerous to a model"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What may be served, what is held back until somebody approves it, how many it locked."""

    served: tuple[ToolSpec, ...] = ()
    held: tuple[Held, ...] = ()
    locked: int = field(default=0, compare=False)


class Judge:
    """Holds tools against the lock file, approvals and the audit.

    A server that is in the lock file is locked: what of it is not there with its very digest is
    held back. Of any other, what the audit lets pass is served; `locks` then locks that. All
    servers are looked at side by side: a tool may meddle with another server's.
    Safe for several threads.
    """

    def __init__(self, lock: LockFile, quarantine: Quarantine, *, locks: bool = False) -> None:
        self._lock = lock
        self._quarantine = quarantine
        self._locks = locks
        self._one_at_a_time = threading.Lock()
        self._waiting: dict[str, str] = {}

    def screen(self, listings: Listings) -> dict[str, Judgement]:
        """Judge all tools that there are.

        Raises:
            ToolcribError: lock file or ledger cannot be read.
        """
        with self._one_at_a_time:
            self._lock.read()
            held_before = self._quarantine.list()
            found: dict[str, list[Finding]] = {}
            for finding in audit_all(spec for specs in listings.values() for spec in specs):
                found.setdefault(finding.tool, []).append(finding)
            judged = {name: self._judged(name, specs, found) for name, specs in listings.items()}
            held = {each.tool_id: each for one in judged.values() for each in one.held}
            self._waiting = {tool_id: each.digest for tool_id, each in held.items()}
            for stale in held_before:
                if stale.server in listings and stale.tool_id not in held:
                    # Somebody may have rejected it meanwhile.
                    with suppress(UnknownToolError):
                        self._quarantine.reject(stale.tool_id)
            return judged

    def _judged(
        self, server: str, specs: Sequence[ToolSpec], found: Mapping[str, list[Finding]]
    ) -> Judgement:
        is_locked = server in self._lock.servers()
        served: list[ToolSpec] = []
        held: list[Held] = []
        for spec in specs:
            findings = found.get(spec.id, [])
            pinned = self._lock.digest(spec.id) if is_locked else None
            may_pass = spec.digest == pinned if is_locked else not blocks(findings)
            if may_pass or self._quarantine.approved(spec.id) == spec.digest:
                served.append(spec)
            else:
                why = (CHANGED if pinned else NEW) if is_locked else DANGEROUS
                held.append(self._hold(spec, why, findings, pinned))
        locks = self._locks and not is_locked and bool(served)
        if locks:
            self._lock.approve(served)
        return Judgement(tuple(served), tuple(held), len(served) if locks else 0)

    def _hold(self, spec: ToolSpec, why: str, findings: list[Finding], pinned: str | None) -> Held:
        known = self._quarantine.held(spec.id)
        if known is not None and (known.digest, known.reason) == (spec.digest, why):
            return known
        return self._quarantine.hold(spec, why, findings, was_digest=pinned)

    def state(self) -> tuple[object, ...]:
        """Something that is another thing when approvals may have changed; cheap to ask for."""
        try:
            stat = self._lock.path.stat()
            written = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except OSError:
            written = None
        approved = [
            tool_id
            for tool_id, digest in list(self._waiting.items())
            if self._quarantine.approved(tool_id) == digest
        ]
        return written, tuple(approved)
