"""What each conversation searched for last, and how many calls it may still make."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from dataclasses import dataclass, field

__all__ = ["Turn", "Turns"]

MAX_CONVERSATIONS = 10_000


@dataclass(slots=True)
class Turn:
    """From one search to the next: what it was for, and the calls left; None for no limit."""

    query: str
    left: int | None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def take(self) -> bool:
        """Count one call; False when no more may be made."""
        if self.left is None:
            return True
        self.left -= 1
        return self.left >= 0


class Turns:
    """The turns of all conversations, by their key; the longest unused are forgotten."""

    def __init__(self, max_calls: int | None) -> None:
        self.max_calls = max_calls
        self._of: OrderedDict[str, Turn] = OrderedDict()

    def begin(self, key: str, query: str) -> Turn:
        """A conversation searches anew."""
        self._of[key] = turn = Turn(query, self.max_calls)
        self._of.move_to_end(key)
        if len(self._of) > MAX_CONVERSATIONS:
            self._of.popitem(last=False)
        return turn

    def of(self, key: str) -> Turn:
        """A conversation's turn; one that has not searched yet has begun one by calling."""
        return self._of.get(key) or self.begin(key, "")

    def leave(self, key: str) -> None:
        """A conversation is over."""
        self._of.pop(key, None)
