"""Where calls wait whose client must answer a question, and then calls again."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

__all__ = ["Parking"]

Parked = TypeVar("Parked")

MAX_PARKED = 1_000


@dataclass(frozen=True, slots=True)
class _Ticket(Generic[Parked]):
    what: Parked
    key: str
    about: str
    until: float


class Parking(Generic[Parked]):
    """Keeps things by a ticket, for whoever left them; each for `keep_s` at most.

    `drop` is called with what nobody came back for.
    """

    def __init__(self, keep_s: float, drop: Callable[[Parked], None]) -> None:
        self._keep_s = keep_s
        self._drop = drop
        self._tickets: dict[str, _Ticket[Parked]] = {}

    def put(self, what: Parked, key: str, about: str) -> str:
        """Leave something; gives the ticket."""
        self._sweep()
        ticket = secrets.token_urlsafe(16)
        self._tickets[ticket] = _Ticket(what, key, about, monotonic() + self._keep_s)
        return ticket

    def take(self, ticket: str, key: str, about: str) -> Parked | None:
        """What was left, if it was by the same one, and about the same; a ticket holds once."""
        self._sweep()
        found = self._tickets.get(ticket)
        if found is None or (found.key, found.about) != (key, about):
            return None
        del self._tickets[ticket]
        return found.what

    def leave(self, key: str) -> None:
        """Drop all that somebody left."""
        self._drop_all([ticket for ticket, each in self._tickets.items() if each.key == key])

    def close(self) -> None:
        """Drop everything."""
        self._drop_all(list(self._tickets))

    def _sweep(self) -> None:
        now = monotonic()
        late = [ticket for ticket, each in self._tickets.items() if each.until < now]
        oldest = list(self._tickets)[: max(0, len(self._tickets) - MAX_PARKED + 1)]
        self._drop_all(list(dict.fromkeys((*late, *oldest))))

    def _drop_all(self, tickets: list[str]) -> None:
        for ticket in tickets:
            self._drop(self._tickets.pop(ticket).what)
