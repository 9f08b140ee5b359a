"""Signals: what is counted of a trajectory event by event, and what it is judged by.

Four alarms are weighed (`weights.json`, fitted by `scripts/fit_guidance.py`): each by a logistic
regression over these counts. Nothing here grows: a step is compared with those of the window.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.guidance.actions import MAX_KNOWN, WORDS, ToolCall, likeness, name_words, normal_error
from toolcrib.guidance.detectors import (
    REPETITIONS,
    DoomLoop,
    Event,
    PromptExecuted,
    SearchAsked,
    find_loop,
    unmoved,
)

__all__ = ["WEIGHTS", "AlarmWeights", "Signals"]

WINDOW, RECENT = 24, 8
"""Steps that a step is compared with, and those that count as recent."""

ALIKE, SAME = 0.6, 0.5
"""From this Jaccard index on answers are alike, and what is asked is much the same."""

FADING = 0.25
"""Share of the last step in what is averaged over the recent ones."""

SLACK = 1.0
"""So far below its threshold an alarm that stands still stands."""

CERTAIN = "same_failure"
"""The signal by which a loop stands whatever else is counted: the same call failed three times."""

MUCH_ALIKE, BRIEF = 0.3, 40
"""From this Jaccard index on an act is another one rewritten; so few words are no document."""

COUNTS: Mapping[str, int] = {
    "steps": 20,
    "fresh": 12,
    "rereads": 8,
    "reworded": 8,
    "redone": 6,
    "fails": 7,
    "refails": 5,
    "same_errors": 5,
    "waits": 6,
    "asks": 5,
    "plans": 6,
    "vain": 8,
    "overlaps": 6,
    "searches": 8,
    "idle": 8,
    "blind": 12,
    "rewrites": 6,
    "reversals": 4,
    "looks": 14,
    "stale": 8,
    "new_tools": 8,
    "stuck": 6,
    "refound": 6,
}
"""What is counted since the last act that got on, and from which number on more says no more."""

AVERAGED = (
    *("failing", "looking", "acting", "changing", "idling", "waiting", "searching"),
    *("same", "alike", "little", "one_tool", "new_words"),
)

LEVELS: Mapping[str, tuple[float, ...]] = {
    "fails": (4, 5),
    "rereads": (3, 4, 5),
    "asks": (3, 4),
    "vain": (4, 5),
    "plans": (3, 4),
    "unmoved": (3, 4),
    "rewrites": (3, 4),
    "fresh": (6, 8, 10),
    "reversals": (2, 3),
    "rounds": (1.5, 2, 2.5),
    "loop": (3, 4),
}
"""Counts that also weigh as steps: from so many on it is another thing."""

_WORD = re.compile(r"[^\W_]++")
EMPTY: frozenset[str] = frozenset()
PLANS = WORDS["plans"] | WORDS["thoughts"]


@dataclass(frozen=True, slots=True)
class AlarmWeights:
    """A logistic regression, its threshold at 0: `bias` and the weight of each signal."""

    bias: float
    weights: Mapping[str, float]

    def score(self, signals: Mapping[str, float]) -> float:
        """The log odds, of which 0 is the threshold."""
        return self.bias + sum(each * signals[name] for name, each in self.weights.items())


WEIGHTS: Mapping[str, AlarmWeights] = {
    name: AlarmWeights(given["bias"], given["weights"])
    for name, given in json.loads(Path(__file__).with_name("weights.json").read_text()).items()
}


@dataclass(frozen=True, slots=True)
class _Step:
    """A call or a search, as it is compared: its answer, and how often it came before.

    `same` counts those that asked the same and were answered alike, `alike` those in other words,
    `asked` those that asked the same.
    """

    name: str
    words: frozenset[str]
    answer: frozenset[str]
    gist: frozenset[str]
    same: int = 0
    alike: int = 0
    asked: int = 0
    is_question: bool = False


class Signals:
    """Counts a trajectory; a new request begins anew, an act that gets on clears the counts."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._standing: set[str] = set()
        self.values: dict[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=WINDOW)
        self._counts = dict.fromkeys(COUNTS, 0.0)
        self._means = dict.fromkeys(AVERAGED, 0.0)
        self._fail_run = self._vain_run = self._same_run = 0
        self._searches: deque[tuple[frozenset[str], frozenset[str]]] = deque(maxlen=WINDOW)
        self._errors: deque[str] = deque(maxlen=RECENT)
        self._acts: deque[tuple[str, frozenset[str]]] = deque(maxlen=RECENT)
        self._tools: set[str] = set()
        self._rounds = [0] * 5
        self._round_waits = [0] * 5

    def observe(self, event: Event, calls: Sequence[ToolCall]) -> dict[str, float]:
        """The alarms that stand after an event, each with how sure it is (0.5 to 1)."""
        if not isinstance(event, PromptExecuted):
            self._count(event)
        elif event.is_new and not (self._steps and self._steps[-1].is_question):
            self._begin()
        self.values = self._values(event, calls)
        scores = {name: each.score(self.values) for name, each in WEIGHTS.items()}
        stands = {n for n, score in scores.items() if score >= -SLACK * (n in self._standing)}
        if self.values[CERTAIN]:
            stands.add("doom_loop")
        self._standing = stands
        return {name: max(0.5, 1 / (1 + math.exp(-scores[name]))) for name in stands}

    def _count(self, event: ToolCall | SearchAsked) -> None:
        """Take a step in."""
        call = event if isinstance(event, ToolCall) else None
        step, told = self._compared(event), _told(event)
        told["vain"], told["overlaps"] = self._searched(step, told)
        told["rewrites"], told["reversals"] = self._acted(step, told)
        told["idling"] = not call.is_news if call else self._is_known(step)
        told["same"], told["alike"] = step.same > 0, step.same + step.alike > 0
        told["one_tool"] = bool(self._steps) and self._steps[-1].name == step.name
        told["same_errors"] = call is not None and told["failing"] and self._has_met(call)
        is_aside = told["plans"] or step.is_question or step.asked or told["rewrites"]
        if told["changing"] and not is_aside:
            self._counts = dict.fromkeys(COUNTS, 0.0)
            self._searches.clear()
            self._vain_run = 0
        if call is not None and not told["failing"]:
            is_new = told["changing"] and not step.asked
            self._counts["fails"] *= 0.3 if is_new else 0.75
            self._counts["refails"] *= 0.75
        if told["changing"]:
            self._errors.clear()
        for name, happened in self._happened(step, told).items():
            self._counts[name] += happened
        self._fail_run = self._fail_run + 1 if told["failing"] else 0
        self._same_run = self._same_run + 1 if told["alike"] else 0
        new = len(step.answer - self._known) / len(step.answer) if step.answer else 0.0
        for name in AVERAGED:
            lately = new if name == "new_words" else told[name]
            self._means[name] += FADING * (lately - self._means[name])
        self._round(step, waits=told["waiting"])
        self._known |= step.answer
        self._tools.add(step.name)
        self._steps.append(step)
        for known in (self._known, self._tools):
            if len(known) > MAX_KNOWN:
                known.clear()

    def _happened(self, step: _Step, told: Mapping[str, bool]) -> dict[str, bool]:
        """What is counted of a step."""
        again, acts, fails, waits = (told[n] for n in ("alike", "acting", "failing", "waiting"))
        only_reads = not (waits or fails or acts)
        is_idle = told["little"] or waits or told["stepping"]
        return {
            "steps": True,
            "looks": told["looking"] and not fails,
            "stale": again,
            "fresh": told["looking"] and not again and not fails,
            "rereads": step.same > 0 and only_reads,
            "reworded": step.alike > 0 and not step.same and only_reads,
            "refound": step.same > 1 and only_reads,
            "redone": acts and step.same > 0,
            "stuck": (acts or fails) and again and not is_idle,
            "fails": fails,
            "refails": fails and again,
            "same_errors": told["same_errors"],
            "waits": waits,
            "asks": step.is_question,
            "plans": told["plans"],
            "vain": told["vain"],
            "overlaps": told["overlaps"],
            "searches": told["searching"],
            "idle": told["idling"],
            "blind": not told["changing"],
            "rewrites": told["rewrites"] and not told["stepping"],
            "reversals": told["reversals"],
            "new_tools": step.name not in self._tools,
        }

    def _is_known(self, step: _Step) -> bool:
        """Whether a search found tools of which most were known."""
        return bool(self._steps) and 2 * len(step.answer - self._known) <= len(step.answer)

    def _compared(self, event: ToolCall | SearchAsked) -> _Step:
        """The step, and how often it came in the window."""
        if isinstance(event, ToolCall):
            name, words, is_question = event.name, event.words, _is_question(event)
            answer = frozenset(_WORD.findall(event.outcome.lower()))
            gist = frozenset(word for word in answer if word.isalpha())
        else:
            name, words, is_question = "", event.topics, False
            answer = gist = frozenset(each.lower() for each in event.found)
        same = alike = asked = 0
        for each in self._steps:
            if each.name != name:
                continue
            if each.words == words:
                asked += 1
                same += likeness(gist, each.gist) >= ALIKE
            elif likeness(words, each.words) >= SAME:
                alike += likeness(gist, each.gist) >= ALIKE
        return _Step(name, words, answer, gist, same, alike, asked, is_question)

    def _searched(self, step: _Step, told: Mapping[str, bool]) -> tuple[bool, bool]:
        """Whether a search found nothing new, and whether it shares a word with one before it."""
        if not told["searching"]:
            return False, False
        before = EMPTY.union(*(found for _, found in self._searches))
        is_old = bool(before) and 2 * len(step.answer - before) <= len(step.answer)
        is_vain = told["empty"] or is_old
        overlaps = is_vain and any(words & step.words for words, _ in self._searches)
        self._searches.append((step.words, EMPTY if told["empty"] else step.answer))
        self._vain_run = self._vain_run + 1 if is_vain else 0
        return is_vain, overlaps

    def _acted(self, step: _Step, told: Mapping[str, bool]) -> tuple[bool, bool]:
        """Whether an act is much like a recent one, and whether it goes back to an earlier one."""
        if not told["acting"]:
            return False, False
        act = step.name, step.words
        alike = (likeness(words, step.words) for name, words in self._acts if name == step.name)
        rewrites, reverses = any(each >= MUCH_ALIKE for each in alike), act in list(self._acts)[:-1]
        self._acts.append(act)
        return rewrites, reverses

    def _has_met(self, call: ToolCall) -> bool:
        """Whether an error was met before, of the last ones."""
        error = normal_error(call.error or call.result)
        is_known = error in self._errors
        self._errors.append(error)
        return is_known

    def _round(self, step: _Step, *, waits: bool) -> None:
        """Count how long the steps have repeated those of two to four steps before."""
        for length in range(2, 5):
            other = self._steps[-length] if len(self._steps) >= length else None
            if other is None or not _goes_round(step, other):
                self._rounds[length] = self._round_waits[length] = 0
            else:
                self._rounds[length] += 1
                self._round_waits[length] += waits

    def _values(self, event: Event, calls: Sequence[ToolCall]) -> dict[str, float]:
        """Each signal by its name, from 0 to 1."""
        counts = self._counts
        last = self._steps[-1] if self._steps else _Step("", EMPTY, EMPTY, EMPTY)
        recent = list(self._steps)[-RECENT:]
        again = [each.same + each.alike for each in recent] or [0]
        same = [each.same for each in recent] or [0]
        is_prompt = isinstance(event, PromptExecuted)
        loop = find_loop(calls, 2) if calls else None
        rounds = max(
            self._rounds[n] / n if 2 * self._round_waits[n] <= self._rounds[n] else 0.0
            for n in range(2, 5)
        )
        numbers = {
            **counts,
            "unmoved": unmoved(calls) if calls and not is_prompt else 0,
            "loop": loop.occurrences if loop else 0,
            "rounds": rounds,
        }
        steps = max(1.0, counts["steps"])
        most = Counter(each.name for each in recent).most_common(1)
        values = {name: min(counts[name], cap) / cap for name, cap in COUNTS.items()}
        values |= self._means
        for name, levels in LEVELS.items():
            values |= {f"{name}>={level}": float(numbers[name] >= level) for level in levels}
        for name in ("waits", "looks", "fails", "searches", "stale"):
            values[f"{name}_share"] = min(1.0, counts[name] / steps)
        for least in (2, 3):
            values[f"again{least}"] = sum(each >= least for each in again) / RECENT
            values[f"same{least}"] = sum(each >= least for each in same) / RECENT
        return values | {
            "fail_run": min(self._fail_run, 6) / 6,
            "vain_run": min(self._vain_run, 6) / 6,
            "same_run": min(self._same_run, 6) / 6,
            "unmoved": min(numbers["unmoved"], 5) / 5,
            "loop": min(numbers["loop"], 5) / 5,
            "rounds": min(rounds, 4) / 4,
            "wander": values["fresh"] * (counts["rereads"] + counts["reworded"] >= 1),
            "now_same": min(last.same, 4) / 4,
            "now_again": min(last.same + last.alike, 4) / 4,
            "max_same": min(max(same), 5) / 5,
            "max_again": min(max(again), 5) / 5,
            "distinct": len({(each.name, each.words) for each in recent}) / RECENT,
            "most": most[0][1] / RECENT if most else 0.0,
            "prompt": float(is_prompt),
            CERTAIN: float(
                bool(loop) and loop.occurrences >= REPETITIONS and _is_one_failure(calls, loop)
            ),
        }


def _told(event: ToolCall | SearchAsked) -> dict[str, bool]:
    """What a step is."""
    if isinstance(event, SearchAsked):
        told = dict.fromkeys(AVERAGED, False) | {"plans": False, "stepping": False}
        return told | {"looking": True, "searching": True, "empty": not event.found}
    return {
        "failing": not event.success,
        "looking": event.effect == "looks",
        "acting": event.does,
        "changing": event.changes,
        "waiting": event.success and not event.does and event.waits,
        "searching": event.is_search,
        "empty": event.tells_nothing,
        "little": event.says_little,
        "plans": _plans(event),
        "stepping": event.is_one_of("steps"),
    }


def _is_one_failure(calls: Sequence[ToolCall], loop: DoomLoop) -> bool:
    """Whether a loop is one call that fails, again and again."""
    return len(loop.cycle) == 1 and not calls[-1].success


def _is_question(call: ToolCall) -> bool:
    """Whether a call asks somebody, by its verb or where its name says nothing else."""
    words = name_words(call.name)
    return not WORDS["asks"].isdisjoint(words) or words <= WORDS["questions"]


def _plans(call: ToolCall) -> bool:
    """Whether a call writes a plan or a thought, by its name or, briefly, by what it is given."""
    named = call.effect != "looks" and not PLANS.isdisjoint(name_words(call.name))
    brief = call.does and len(call.words) < BRIEF and not PLANS.isdisjoint(call.words)
    return call.is_thought or brief or (named and not _is_about_one(call))


def _is_about_one(call: ToolCall) -> bool:
    """Whether a call says which thing it is for, in one word that is no plan itself."""
    given = call.parameters
    return any(
        isinstance(given.get(key), str | int)
        and len(str(given[key]).split()) == 1
        and PLANS.isdisjoint(words)
        for key, words in call.asked.items()
    )


def _goes_round(step: _Step, other: _Step) -> bool:
    """Whether a step asks much as another did, and is answered alike."""
    if step.name != other.name or likeness(step.gist, other.gist) < ALIKE:
        return False
    apart = step.words ^ other.words
    if not apart:
        return True
    is_near = likeness(step.words, other.words) >= SAME
    return is_near and not any(any(map(str.isdigit, word)) for word in apart)
