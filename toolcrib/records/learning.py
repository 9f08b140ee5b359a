"""Learning from use: what was learned of each tool, from whom, and whether it may count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolcrib.records.codec import UNLESS_EMPTY, Score


@dataclass(frozen=True, slots=True)
class LearnedTool:
    """What use taught of one tool; nothing of it stands in the specification.

    `observations` are all that are kept, `examples` those of them that count. `support` grows to
    1 with sessions. `live`: it re-orders answers; else `reason` says why it does not. `sessions`
    are counted; `by` are the observations of each key (empty: no key, a library's own) and
    `days` those of each day. `texts` are requests, where they may be kept.
    """

    tool: str
    server: str
    observations: int
    examples: int
    support: Score
    live: bool
    reason: str
    sessions: int
    by: dict[str, int]
    days: dict[str, int]
    texts: Annotated[tuple[str, ...], UNLESS_EMPTY] = ()


@dataclass(frozen=True, slots=True)
class ServerReplay:
    """What a server's learned examples do to past requests, each asked without its own session.

    `before` and `after` are nDCG@10 over the `requests` that they could move; `p` is that of the
    paired test of their difference. In shadow they are kept, and change no answer.
    """

    server: str
    requests: int
    sessions: int
    before: Score
    after: Score
    p: Score
    verdict: Literal["live", "shadow"]


@dataclass(frozen=True, slots=True)
class LearningStatus:
    """What was learned from use, and what it is worth.

    `on`: it may re-order answers; `collects`: outcomes become observations. `encoder` made the
    vectors; what others made is left aside. `learned_at` is when examples were last chosen.
    """

    on: bool
    collects: bool
    encoder: str
    learned_at: str | None
    observations: int
    servers: tuple[ServerReplay, ...] = ()
    tools: tuple[LearnedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """How many observations were taken back."""

    removed: int


@dataclass(frozen=True, slots=True)
class LogLearning:
    """What a log of decisions gave: new observations, and successes that none came of."""

    added: int
    known: int
    without_text: int
    without_tool: int
