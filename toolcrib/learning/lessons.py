"""Lessons: the few observations of a tool that count as its examples, and how much they count.

Who calls often must not decide for all others, and neither must who lies: quotas hold by session
and by key, in what is kept and in how strongly it counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolcrib.encoders.base import FloatArray
from toolcrib.learning.observations import DAY_S, Observation
from toolcrib.retrieval.calibration import Floats

MAX_EXAMPLES = 20
OF_A_SESSION = MAX_EXAMPLES // 5
OF_A_KEY = MAX_EXAMPLES // 2

HALF_LIFE_DAYS = 90.0
FORGOTTEN = 1 / 16
"""What counts less is no example any more: a year, or less where the tool changed."""

CHANGED = 0.5
"""What an observation is worth of a tool that was described otherwise."""

FULL_SUPPORT = 5.0
"""Fresh observations, each of another session, that give the full strength."""

MAX_LOOKED_AT = 400
"""The newest observations of a tool, among which its examples are chosen."""


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """The examples of a tool, and how much each is worth now, (0, 1]; chosen from those `of` it."""

    tool: str
    examples: tuple[Observation, ...]
    worth: tuple[float, ...]
    of: tuple[Observation, ...]

    @property
    def support(self) -> float:
        """How strongly the examples count together, 0 to 1.

        One session gives at most a fifth of it, one key at most half.
        """
        sessions: defaultdict[tuple[str, str], float] = defaultdict(float)
        for each, worth in zip(self.examples, self.worth, strict=True):
            sessions[each.by, each.session] += worth / FULL_SUPPORT
        keys: defaultdict[str, float] = defaultdict(float)
        for (by, _), given in sessions.items():
            keys[by] += min(given, 1 / 5)
        return min(1.0, sum(min(given, 1 / 2 if by else 1.0) for by, given in keys.items()))

    @property
    def is_live(self) -> bool:
        """Whether two sessions saw it; one is enough where nobody needs a key."""
        sessions = {(each.by, each.session) for each in self.examples}
        return len(sessions) > 1 or any(not each.by for each in self.examples)

    @property
    def vectors(self) -> FloatArray:
        """The examples: float32 [n, d]."""
        return np.stack([each.vector for each in self.examples])

    def without(self, session: str) -> Lesson | None:
        """What it would be had a session not been; None where nothing is left."""
        kept = [
            (each, worth)
            for each, worth in zip(self.examples, self.worth, strict=True)
            if each.session != session
        ]
        if len(kept) == len(self.examples):
            return self
        if not kept:
            return None
        examples, worths = zip(*kept, strict=True)
        return replace(self, examples=tuple(examples), worth=tuple(worths))


def make_lessons(
    observations: Iterable[Observation], digests: Mapping[str, str], encoder: str, now: float
) -> list[Lesson]:
    """What use teaches of each tool that there is, by id.

    `digests` are those of the tools. What another encoder made is left aside, as is what is older
    than all that counts.
    """
    by_tool: defaultdict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if each.tool in digests and each.encoder == encoder:
            by_tool[each.tool].append(each)
    made = [_lesson(tool, seen, digests[tool], now) for tool, seen in sorted(by_tool.items())]
    return [lesson for lesson in made if lesson.examples]


def faded(days: float) -> float:
    """What an observation is worth after so many days, 1 for a fresh one."""
    return 0.5 ** (max(0.0, days) / HALF_LIFE_DAYS)


def _lesson(tool: str, seen: Sequence[Observation], digest: str, now: float) -> Lesson:
    newest = sorted(seen, key=lambda each: (-each.at, each.decision))[:MAX_LOOKED_AT]
    worths = np.array(
        [
            faded((now - each.at) / DAY_S) * (1.0 if each.digest == digest else CHANGED)
            for each in newest
        ]
    )
    chosen = _farthest_first(newest, worths)
    return Lesson(
        tool,
        tuple(newest[place] for place in chosen),
        tuple(float(worths[place]) for place in chosen),
        tuple(seen),
    )


def _farthest_first(seen: Sequence[Observation], worths: Floats) -> list[int]:
    """The places of the examples: the newest, then always what is least like those chosen.

    No session gives more than a fifth of what can be kept, no key more than half.
    """
    vectors = np.stack([each.vector for each in seen])
    nearest = np.full(len(seen), -np.inf)
    nearest[worths < FORGOTTEN] = np.inf
    sessions: Counter[tuple[str, str]] = Counter()
    keys: Counter[str] = Counter()
    chosen: list[int] = []
    while len(chosen) < MAX_EXAMPLES and nearest.min() < np.inf:
        place = int(nearest.argmin())
        each = seen[place]
        session, key = (each.by, each.session), each.by
        nearest[place] = np.inf
        if sessions[session] < OF_A_SESSION and (not key or keys[key] < OF_A_KEY):
            chosen.append(place)
            sessions[session] += 1
            keys[key] += 1
            nearest = np.maximum(nearest, vectors @ each.vector)
    return chosen
