"""What a turn leans on: the text to search with, out of the turn and what was said before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.records import Turn

__all__ = ["FollowUp", "SearchText", "by_itself", "gist", "search_text"]

FollowUp: TypeAlias = Literal["joined", "shifted", "first"]
"""Joined with what it leans on; a topic of its own; or there is nothing before it."""

LONG = 2_000
HEAD, TAIL = 700, 500
"""Who pastes a log asks before or after it: those ends of a long text are searched with."""

ELLIPTIC_WORDS = 5
"""So few words with no verb of their own are hardly ever a whole request."""

MAX_JOINED = 400
"""Characters taken of what is leant on: the new words must not drown."""

RECENT = 0.1
"""How much nearer, as a cosine, an older message must be to be taken before the last one."""

SHIFT = 0.05
"""Below this cosine to everything said before, a text that might lean starts a new topic."""

Leans = Callable[[str], float]
Encode = Callable[[Sequence[str]], FloatArray]


@dataclass(frozen=True, slots=True)
class SearchText:
    """What to search with, how it came about, and signals in words."""

    text: str
    follow_up: FollowUp
    signals: tuple[str, ...] = ()


def gist(text: str) -> str:
    """The text, or the two ends of a very long one."""
    if len(text) <= LONG:
        return text
    return f"{text[:HEAD]}\n{text[-TAIL:]}"


def by_itself(turn: Turn) -> SearchText:
    """The text to search with where nothing was said before."""
    own = gist(turn.text)
    return SearchText(own, "first", () if own == turn.text else ("long-text",))


def search_text(turn: Turn, leans: Leans, encode: Encode) -> SearchText:
    """Build the text to search with.

    `leans` says how much a text leans on what was said, 0 to 1. `encode` gives unit vectors of
    texts, float32 [n, d]; it is asked only when there is a choice to make.
    """
    alone = by_itself(turn)
    own, signals = alone.text, alone.signals
    said = [m.content for m in turn.history if m.role == "user" and m.content.strip()]
    if not said:
        return alone
    leaning = leans(own)
    if leaning < 0.5:  # noqa: PLR2004 -- more likely than not
        return SearchText(own, "shifted", (*signals, "topic-shift"))
    if leaning < 1 or len(said) > 1:
        vectors = encode([own, *said])
        near = vectors[1:] @ vectors[0]
        best = int(np.argmax(near))
        if leaning < 1 and near[best] < SHIFT:
            return SearchText(own, "shifted", (*signals, "topic-shift"))
        chosen = best if near[best] > near[-1] + RECENT else len(said) - 1
    else:
        chosen = 0
    ground = " ".join(gist(said[chosen])[:MAX_JOINED].split())
    back = len(said) - chosen
    return SearchText(f"{ground}\n{own}", "joined", (*signals, f"follow-up:{back}"))
