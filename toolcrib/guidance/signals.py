"""Signals: counts over a trajectory, event by event, and the alarms that they trigger.

Four alarms are logistic regressions over the counts (`weights.csv`, fitted by
`scripts/fit_guidance.py`). Memory is bounded: a step is compared with the window's alone.
"""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolcrib.guidance.actions import ACTS, MAX_KNOWN, WORD_SETS, ToolCall, normal_error
from toolcrib.guidance.detectors import (
    REPETITIONS,
    Event,
    PromptExecuted,
    SearchAsked,
    find_loop,
    unmoved,
)
from toolcrib.numerics import sigmoid
from toolcrib.router.alternates import EFFECT_OF
from toolcrib.text import likeness, name_words

_WINDOW_STEPS, _RECENT_STEPS = 24, 8
"""Steps that a step is compared with, and steps that count as recent."""

ALIKE, SAME = 0.6, 0.5
"""Lowest Jaccard index of similar answers, and of similar requests."""

NEARLY, ROUGHLY, NEAR = 0.5, 0.34, 0.02
"""Lowest Jaccard index of answers of a cycle, in two degrees; share by which numbers may differ."""

A_WORD = 2
"""Words of a one-word answer, after the mark of success."""

HALF, TOLD = 0.5, 0.6
"""Highest share of new words in a known answer, and lowest share in an answer with news."""

FADING = 0.25
"""Weight of the last step in a moving average."""

SLACK = 1.0
"""Distance below its threshold at which an active alarm ends."""

CERTAIN = "same_failure"
"""Signal that alone triggers a loop: the same call failed three times."""

MUCH_ALIKE, RESTORED, BRIEF = 0.3, 0.85, 40
"""Lowest Jaccard index of a rewritten act, and of a repeated act; words of no document."""

COUNTS: Mapping[str, int] = {
    "rereads": 8,
    "same_errors": 5,
    "asks": 5,
    "plans": 6,
    "vain": 8,
    "idle": 8,
    "looks": 14,
    "refound": 6,
}
"""Counts since the last act with progress, each with the number at which it saturates."""

AVERAGED = ("failing", "idling", "searching", "same", "new_words", "familiar", "circling")

OF_STALLS = frozenset({"asks_for", "undone", "returns"})
"""Signals of a stall alone."""

LEVELS: Mapping[str, tuple[float, ...]] = {
    "asks": (3, 4),
    "vain": (4, 5),
    "unmoved": (3, 4),
    "loop": (3, 4),
    "turns": (1.5, 3),
    "fail_run": (3, 4),
    "refuted": (2, 3, 4),
}
"""Counts that enter as steps, with the thresholds of each step."""

_WORD, _NUMBER = re.compile(r"[^\W_]++"), re.compile(r"(?<![\w.])\d{1,12}(?:\.\d{1,6})?(?!\w)")
EMPTY: frozenset[str] = frozenset()
ORDERS = (
    ACTS | {verb for verb, effect in EFFECT_OF.items() if effect != "reads"} | WORD_SETS["orders"]
)
PLANS = WORD_SETS["plans"] | WORD_SETS["thoughts"]


WEIGHTS_FILE = Path(__file__).with_name("weights.csv")
with WEIGHTS_FILE.open(encoding="utf-8", newline="") as _file:
    _alarms, *_rows = [(name, weights) for name, *weights in csv.reader(_file)]
ALARM_WEIGHTS: Mapping[str, Mapping[str, float]] = {
    alarm: {name: float(weights[place]) for name, weights in _rows if weights[place]}
    for place, alarm in enumerate(_alarms[1])
}
"""Weight of each signal in each alarm's logistic regression, with the threshold at 0."""


@dataclass(frozen=True, slots=True)
class _Step:
    """Call or search in a form that can be compared, with counts of its earlier occurrences.

    `which` are its words with digits, `gist` and `numbers` are of the answer. `same` counts those
    that asked the same and were answered alike, `alike` those in other words, `asked` those that
    asked the same, `seen` those of them whose numbers were near, `again` those roughly like it, and
    `refuted` acts between those that were answered as this one.
    """

    name: str
    words: frozenset[str]
    which: frozenset[str] = EMPTY
    answer: frozenset[str] = EMPTY
    gist: frozenset[str] = EMPTY
    numbers: tuple[float, ...] = ()
    is_question: bool = False
    acts: bool = False
    same: int = 0
    alike: int = 0
    asked: int = 0
    seen: int = 0
    again: int = 0
    refuted: int = 0


class Signals:
    """Counter of signals; a new request resets all, an act with progress clears the counts."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._standing: set[str] = set()
        self.values: dict[str, float] = {}
        self._said: set[str] = set()
        self._orders = self._asks_for = 0.5
        self._begin()

    def _begin(self) -> None:
        self._steps: deque[_Step] = deque(maxlen=_WINDOW_STEPS)
        self._counts = dict.fromkeys(COUNTS, 0.0)
        self._means = dict.fromkeys(AVERAGED, 0.0)
        self._fail_run = self._vain_run = 0
        self._rounds, self._round_waits = [0] * 5, [0] * 5
        self._turns, self._refuted, self._has_acted = 0.0, 0.0, False
        self._returns = 0
        self._found: deque[frozenset[str]] = deque(maxlen=_WINDOW_STEPS)
        self._errors: deque[str] = deque(maxlen=_RECENT_STEPS)
        self._acts: deque[tuple[str, frozenset[str]]] = deque(maxlen=_RECENT_STEPS)

    def observe(self, event: Event, calls: Sequence[ToolCall]) -> dict[str, float]:
        """Active alarms after an event, each with its certainty (0.5 to 1)."""
        if not isinstance(event, PromptExecuted):
            self._count(event)
        else:
            self._hear(event)
        self.values = self._values(event, calls)
        scores = {
            alarm: sum(weight * self.values[name] for name, weight in weights.items())
            for alarm, weights in ALARM_WEIGHTS.items()
        }
        stands = {n for n, score in scores.items() if score >= -SLACK * (n in self._standing)}
        if self.values[CERTAIN]:
            stands.add("doom_loop")
        self._standing = stands
        return {name: max(0.5, sigmoid(scores[name])) for name in stands}

    def _hear(self, event: PromptExecuted) -> None:
        """Take in a message: a question, or a request to act."""
        words = _WORD.findall(event.text.lower())
        self._said.update(words)
        if event.is_new and not (self._steps and self._steps[-1].is_question):
            opens = bool(words) and words[0] in WORD_SETS["interrogatives"]
            self._asks_for = float(opens or event.text.rstrip().endswith("?"))
            self._orders = float(not opens and not ORDERS.isdisjoint(words))
            self._begin()

    def _count(self, event: ToolCall | SearchAsked) -> None:
        """Count a step."""
        call = event if isinstance(event, ToolCall) else None
        step, told = self._compared(event), _told(event)
        told["vain"] = told["searching"] and self._searched(step, is_empty=told["empty"])
        rewrites = told["acting"] and self._rewrites(step)
        new_words = _share(step.answer - self._known, step.answer)
        told["idling"] = not call.is_news if call else bool(self._steps) and new_words <= HALF
        told["same"] = step.same > 0
        told["same_errors"] = call is not None and told["failing"] and self._has_met(call)
        if self._gets_on(step, told) or (
            told["changing"] and not (told["plans"] or step.is_question or step.asked or rewrites)
        ):
            self._counts = dict.fromkeys(COUNTS, 0.0)
            self._found.clear()
            self._vain_run = 0
        if told["changing"]:
            self._errors.clear()
        for name, happened in self._happened(step, told).items():
            self._counts[name] += happened
        self._fail_run = self._fail_run + 1 if told["failing"] else 0
        told["circling"] = step.again >= REPETITIONS - 1 and not told["waiting"]
        self._turns = self._turns + 1 if told["circling"] else self._turns / 2
        self._refute(step, told)
        lately = told | {
            "new_words": new_words,
            "familiar": 1 - _share(step.words - self._said, step.words),
        }
        for name in AVERAGED:
            self._means[name] += FADING * (lately[name] - self._means[name])
        self._round(step, waits=told["waiting"])
        self._known |= step.answer
        self._said |= step.words | (step.answer if step.is_question else EMPTY)
        self._steps.append(step)
        for known in (self._known, self._said):
            if len(known) > MAX_KNOWN:
                known.clear()

    def _refute(self, step: _Step, told: Mapping[str, bool]) -> None:
        """Count acts that left a check's answer unchanged; other steps let the count fade."""
        if told["checking"] and step.refuted:
            self._refuted = step.refuted
        elif not (told["acting"] or told["waiting"]):
            self._refuted /= 2

    def _gets_on(self, step: _Step, told: Mapping[str, bool]) -> bool:
        """True if the first check since an act has a new answer."""
        moved = self._has_acted and step.asked > 0 and step.seen == 0 and not told["idling"]
        self._has_acted = told["acting"] or (self._has_acted and not step.asked)
        return moved

    def _happened(self, step: _Step, told: Mapping[str, bool]) -> dict[str, bool]:
        """Signals of a step."""
        only_reads = not (told["waiting"] or told["failing"] or told["acting"])
        return {
            "looks": told["looking"] and not told["failing"],
            "rereads": step.same > 0 and only_reads,
            "refound": step.same > 1 and only_reads,
            "same_errors": told["same_errors"],
            "asks": step.is_question and not self._is_told(step),
            "plans": told["plans"],
            "vain": told["vain"],
            "idle": told["idling"],
        }

    def _is_told(self, step: _Step) -> bool:
        """True if an answer has much news."""
        return len(step.answer) > A_WORD and _share(step.answer - self._said, step.answer) > TOLD

    def _compared(self, event: ToolCall | SearchAsked) -> _Step:
        """Compare a step with the window, and count its occurrences."""
        if isinstance(event, ToolCall):
            name, words, is_question = event.name, event.words, _is_question(event)
            text = event.outcome.lower()
            answer = frozenset(_WORD.findall(text))
            gist = frozenset(word for word in answer if word.isalpha())
        else:
            name, words, is_question, text = "", event.topics, False, ""
            answer = gist = frozenset(each.lower() for each in event.found)
        which = frozenset(word for word in words if not word.isalpha())
        numbers = tuple(map(float, _NUMBER.findall(text)))
        same = alike = asked = seen = again = refuted = 0
        acted = False
        for each in reversed(self._steps):
            if each.name != name:
                acted = acted or each.acts
                continue
            asks, answers = likeness(words, each.words), likeness(gist, each.gist)
            is_near = answers >= NEARLY and _are_near(numbers, each.numbers)
            if each.words == words:
                asked += 1
                seen += is_near
                same += answers >= ALIKE
            elif asks >= SAME:
                alike += answers >= ALIKE
            again += is_near and asks >= ROUGHLY and which == each.which
            if is_near and answers >= ALIKE and asks >= ROUGHLY:
                refuted, acted = refuted + acted, False
            elif each.acts:
                acted = True
        counts = same, alike, asked, seen, again, refuted
        acts = isinstance(event, ToolCall) and event.does
        return _Step(name, words, which, answer, gist, numbers, is_question, acts, *counts)

    def _searched(self, step: _Step, *, is_empty: bool) -> bool:
        """True if a search found nothing new."""
        before = EMPTY.union(*self._found)
        is_vain = is_empty or (bool(before) and _share(step.answer - before, step.answer) <= HALF)
        self._found.append(EMPTY if is_empty else step.answer)
        self._vain_run = self._vain_run + 1 if is_vain else 0
        return is_vain

    def _rewrites(self, step: _Step) -> bool:
        """True if an act rewrites a recent act; also count an act that undoes the last rewrite."""
        alike = [likeness(words, step.words) for name, words in self._acts if name == step.name]
        like = [each for each in alike if each >= MUCH_ALIKE]
        self._returns += len(like) > 1 and max(like[:-1]) >= RESTORED > like[-1]
        self._acts.append((step.name, step.words))
        return bool(like)

    def _has_met(self, call: ToolCall) -> bool:
        """True if an error is among the last errors."""
        error = normal_error(call.error or call.result)
        is_known = error in self._errors
        self._errors.append(error)
        return is_known

    def _round(self, step: _Step, *, waits: bool) -> None:
        """Count the steps that repeat the step two to four before."""
        for length in range(2, 5):
            other = self._steps[-length] if len(self._steps) >= length else None
            if other is None or not _goes_round(step, other):
                self._rounds[length] = self._round_waits[length] = 0
            else:
                self._rounds[length] += 1
                self._round_waits[length] += waits

    def _values(self, event: Event, calls: Sequence[ToolCall]) -> dict[str, float]:
        """Signals by name, from 0 to 1."""
        recent = list(self._steps)[-_RECENT_STEPS:] or [_Step("", EMPTY)]
        again = [each.same + each.alike for each in recent]
        is_prompt = isinstance(event, PromptExecuted)
        loop = find_loop(calls, 2) if calls else None
        repetitions = loop.occurrences if loop else 0
        numbers = self._counts | {
            "unmoved": unmoved(calls) if calls and not is_prompt else 0,
            "loop": repetitions,
            "turns": self._turns,
            "fail_run": self._fail_run,
            "refuted": self._refuted,
        }
        rounds = max(
            self._rounds[n] / n if 2 * self._round_waits[n] <= self._rounds[n] else 0.0
            for n in range(2, 5)
        )
        values = {name: min(self._counts[name], cap) / cap for name, cap in COUNTS.items()}
        values |= self._means
        for name, levels in LEVELS.items():
            values |= {f"{name}>={level}": float(numbers[name] >= level) for level in levels}
        is_certain = (
            loop is not None
            and len(loop.cycle) == 1
            and repetitions >= REPETITIONS
            and not calls[-1].success
        )
        return values | {
            **{f"again{n}": sum(each >= n for each in again) / _RECENT_STEPS for n in (2, 3)},
            "fail_run": min(self._fail_run, 6) / 6,
            "now_again": min(again[-1], 4) / 4,
            "max_again": min(max(again), 5) / 5,
            "rounds": min(rounds, 4) / 4,
            "refuted": min(self._refuted, 6) / 6,
            "returns": min(self._returns, 4) / 4,
            "vain_run": min(self._vain_run, 6) / 6,
            "distinct": len({(each.name, each.words) for each in recent}) / _RECENT_STEPS,
            "asks_for": self._asks_for,
            "undone": self._orders * values["looks"],
            CERTAIN: float(is_certain),
            "bias": 1.0,
        }


def _told(event: ToolCall | SearchAsked) -> dict[str, bool]:
    """Properties of a step."""
    if isinstance(event, SearchAsked):
        told = dict.fromkeys(
            ("failing", "checking", "acting", "changing", "waiting", "plans"), False
        )
        return told | {"looking": True, "searching": True, "empty": not event.found}
    searching = event.is_search
    return {
        "failing": not event.success,
        "checking": not event.success or (event.is_open_check and not event.is_under_way),
        "looking": event.effect == "looks",
        "acting": event.does,
        "changing": event.changes,
        "waiting": event.success and not (event.does or event.is_red) and event.waits,
        "searching": searching,
        "empty": searching and event.tells_nothing,
        "plans": _plans(event),
    }


def _share(some: frozenset[str], words: frozenset[str]) -> float:
    """Share of some words among others; 0 without words."""
    return len(some) / len(words) if words else 0.0


def _are_near(some: Sequence[float], others: Sequence[float]) -> bool:
    """True if numbers are nearly equal."""
    return len(some) == len(others) and all(
        abs(a - b) <= NEAR * max(a, b) for a, b in zip(some, others, strict=True)
    )


def _is_question(call: ToolCall) -> bool:
    """True if a call asks a person, by its verb or for lack of another."""
    words = name_words(call.name)
    return not WORD_SETS["asks"].isdisjoint(words) or words <= WORD_SETS["questions"]


def _plans(call: ToolCall) -> bool:
    """True if a call writes a plan or a thought, by its name or its short parameters."""
    named = call.effect != "looks" and not PLANS.isdisjoint(name_words(call.name))
    brief = call.does and len(call.words) < BRIEF and not PLANS.isdisjoint(call.words)
    return call.is_thought or brief or (named and not _is_about_one(call))


def _is_about_one(call: ToolCall) -> bool:
    """True if a call names its subject in one word, and is no plan."""
    given = call.parameters
    return any(
        isinstance(given.get(key), str | int)
        and len(str(given[key]).split()) == 1
        and PLANS.isdisjoint(words)
        for key, words in call.asked.items()
    )


def _goes_round(step: _Step, other: _Step) -> bool:
    """True if a step resembles another in request and answer."""
    if step.name != other.name or likeness(step.gist, other.gist) < ALIKE:
        return False
    return step.words == other.words or (
        step.which == other.which and likeness(step.words, other.words) >= SAME
    )
