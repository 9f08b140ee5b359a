"""Learning from use: the state of each tool's examples, and their effect by replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from toolcrib.records.codec import UNLESS_EMPTY, Score


@dataclass(frozen=True, slots=True)
class LearnedTool:
    """Observed use of one tool; the specification is unchanged.

    `observations` counts all kept, `examples` the chosen. `support` grows to 1 with sessions.
    `live`: the examples re-order answers; else `reason` says why not. `by` counts observations
    of each key (empty: no key), `days` of each day. `texts` are requests, where they may be kept.
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
    """Effect of a server's examples on past requests, each replayed without its own session.

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
    """State of learning from use, and its measured effect.

    `on`: it may re-order answers; `collects`: outcomes become observations. `encoder` made the
    vectors; what others made is left aside. `learned_at` is when examples were last chosen.
    `runs` of agents tell which tools are called next; with fewer than 20 fresh ones they do not.
    """

    on: bool
    collects: bool
    encoder: str
    learned_at: str | None
    observations: int
    runs: int = 0
    servers: tuple[ServerReplay, ...] = ()
    tools: tuple[LearnedTool, ...] = ()


@dataclass(frozen=True, slots=True)
class Undone:
    """Number of observations taken back."""

    removed: int


@dataclass(frozen=True, slots=True)
class LogLearning:
    """Result of a log: new observations, and successes without an observation."""

    added: int
    known: int
    without_text: int
    without_tool: int
