"""Lessons: the few observations of a tool that count as its examples, their weights, companions.

Quotas by session and by key hold for the number of examples and for their strength, so that no
frequent or dishonest caller decides for all.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.learning.observations import DAY_S, Observation
from toolcrib.numerics import Floats

MAX_EXAMPLES = 20
MAX_EXAMPLES_A_SESSION = MAX_EXAMPLES // 5
MAX_EXAMPLES_A_KEY = MAX_EXAMPLES // 2

HALF_LIFE_DAYS = 90.0
MIN_EXAMPLE_WEIGHT = 1 / 16
"""Lowest weight of an example: reached in a year, sooner if the tool changed."""

CHANGED_TOOL_WEIGHT = 0.5
"""Weight of an observation of a tool whose description changed since."""

FULL_SUPPORT_OBSERVATIONS = 5.0
"""Fresh observations, each of another session, that give the full strength."""

MAX_CANDIDATES = 400
"""Newest observations of a tool, among which its examples are chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Examples of a tool with their weights in (0, 1]; `of` are all its observations."""

    tool: str
    examples: tuple[Observation, ...]
    worth: tuple[float, ...]
    of: tuple[Observation, ...]

    @property
    def support(self) -> float:
        """Strength of all examples together, 0 to 1."""
        return _support(zip(self.examples, self.worth, strict=True))

    def support_without(self, session: str | None = None, key: str | None = None) -> float:
        """Strength without a session's and a key's examples; 0 if it would not be live."""
        left = [
            (each, worth)
            for each, worth in zip(self.examples, self.worth, strict=True)
            if each.session != session and each.by != key
        ]
        return _support(left) if _is_live([each for each, _ in left]) else 0.0

    @property
    def is_live(self) -> bool:
        """True after two sessions, or one without a key."""
        return _is_live(self.examples)

    @property
    def vectors(self) -> dict[str, FloatArray]:
        """Vectors of the examples, float32 [d], by decision."""
        return {each.decision: each.vector for each in self.examples}


def _is_live(examples: Sequence[Observation]) -> bool:
    return len({(each.by, each.session) for each in examples}) > 1 or any(
        not each.by for each in examples
    )


def _support(examples: Iterable[tuple[Observation, float]]) -> float:
    """Sum of the weights: one session gives at most a fifth, one key at most half."""
    sessions: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each, worth in examples:
        sessions[each.by, each.session] += worth / FULL_SUPPORT_OBSERVATIONS
    keys: defaultdict[str, float] = defaultdict(float)
    for (by, _), given in sessions.items():
        keys[by] += min(given, 1 / 5)
    return min(1.0, sum(min(given, 1 / 2 if by else 1.0) for by, given in keys.items()))


def make_lessons(
    observations: Iterable[Observation],
    digests: Mapping[str, str],
    encoder: str,
    now: float,
    left_out: Sequence[str] = (),
) -> list[Lesson]:
    """Lessons of the tools that exist, by id.

    `digests` are the tools'. No example is an observation by another encoder, of too little
    weight, or of a key that is `left_out`.
    """
    by_tool: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if each.tool in digests and each.encoder == encoder:
            by_tool[each.tool].append(each)
    made = [
        _lesson(tool, seen, digests[tool], now, left_out) for tool, seen in sorted(by_tool.items())
    ]
    return [lesson for lesson in made if lesson.examples]


def age_weight(days: float, *, changed: bool) -> float:
    """Weight of an observation after some days, 1 when fresh, less if the tool changed."""
    return 0.5 ** (max(0.0, days) / HALF_LIFE_DAYS) * (CHANGED_TOOL_WEIGHT if changed else 1.0)


# -- companions ------------------------------------------------------------------------------------

MAX_LEARNED_COMPANIONS = 4
MIN_COMPANION_SHARE = 0.3
"""Least share of a tool's decisions that called the companion too. On development splits of two
public sets 0.2 to 0.4 differed by less than 0.3 nDCG@10."""

MAX_DECISION_TOOLS = 20
"""Tools of one decision whose pairs are counted."""

KeyWeights: TypeAlias = defaultdict[str, float]
"""Weights of observations or runs by the key that they were made with."""


def learned_companions(observations: Iterable[Observation], now: float) -> dict[str, list[str]]:
    """Companions of tools by id: called with success in the same decisions, most often first.

    A pair needs two sessions, or two decisions without a key. Decisions lose weight as lessons
    do, and a key moves a share by no more than its part of all decisions.
    """
    decisions: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if age_weight((now - each.at) / DAY_S, changed=False) >= MIN_EXAMPLE_WEIGHT:
            decisions[each.decision].append(each)
    by_key: KeyWeights = defaultdict(float)
    called: defaultdict[str, float] = defaultdict(float)
    pairs: defaultdict[tuple[str, str], KeyWeights] = defaultdict(lambda: defaultdict(float))
    seen: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for decision, calls in decisions.items():
        by, weight = calls[0].by, age_weight((now - calls[0].at) / DAY_S, changed=False)
        by_key[by] += weight
        for each in calls:
            called[each.tool] += weight
        for pair in permutations([each.tool for each in calls[:MAX_DECISION_TOOLS]], 2):
            pairs[pair][by] += weight
            seen[pair].add((by, calls[0].session) if by else ("", decision))
    whole = math.fsum(by_key.values())
    shares = {key: weight / whole for key, weight in by_key.items() if key}
    found: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
    for (tool, other), counts in pairs.items():
        share = bounded_share(counts, called[tool], shares)
        if share >= MIN_COMPANION_SHARE and len(seen[tool, other]) > 1:
            found[tool].append((-share, other))
    return {
        tool: [other for _, other in sorted(pair)[:MAX_LEARNED_COMPANIONS]]
        for tool, pair in found.items()
    }


def bounded_share(counts: Mapping[str, float], whole: float, shares: Mapping[str, float]) -> float:
    """Part of a whole that the counts of all keys are, each key's no more than its share."""
    total = sum(counts.values())
    bounds = ((total - counts[key]) / whole + shares[key] for key in counts.keys() & shares.keys())
    return min(total / whole, *bounds, 1.0)


# -- choice of examples ----------------------------------------------------------------------------


def _lesson(
    tool: str, seen: Sequence[Observation], digest: str, now: float, left_out: Sequence[str]
) -> Lesson:
    believed = (each for each in seen if each.by not in left_out)
    newest = sorted(believed, key=lambda each: (-each.at, each.decision))[:MAX_CANDIDATES]
    worths = np.array(
        [age_weight((now - each.at) / DAY_S, changed=each.digest != digest) for each in newest]
    )
    chosen = _farthest_first(newest, worths)
    return Lesson(
        tool,
        tuple(newest[place] for place in chosen),
        tuple(float(worths[place]) for place in chosen),
        tuple(seen),
    )


def _farthest_first(seen: Sequence[Observation], worths: Floats) -> list[int]:
    """Indexes of the examples: the newest, then always the least similar to the chosen.

    No session gives more than a fifth of the examples, no key more than half.
    """
    if not seen:
        return []
    vectors = np.stack([each.vector for each in seen])
    nearest = np.full(len(seen), -np.inf)
    nearest[worths < MIN_EXAMPLE_WEIGHT] = np.inf
    sessions: Counter[tuple[str, str]] = Counter()
    keys: Counter[str] = Counter()
    chosen: list[int] = []
    while len(chosen) < MAX_EXAMPLES and nearest.min() < np.inf:
        place = int(nearest.argmin())
        each = seen[place]
        session, key = (each.by, each.session), each.by
        nearest[place] = np.inf
        is_key_open = not key or keys[key] < MAX_EXAMPLES_A_KEY
        if sessions[session] < MAX_EXAMPLES_A_SESSION and is_key_open:
            chosen.append(place)
            sessions[session] += 1
            keys[key] += 1
            nearest = np.maximum(nearest, vectors @ each.vector)
    return chosen
