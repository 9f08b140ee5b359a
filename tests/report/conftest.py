"""A believable evaluation, made by hand: seeded, without models or an index."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.measures import gate_measures, measure
from toolcrib.evaluation.results import Evaluation, Interval, QueryResult, SetResult, SystemResult
from toolcrib.evaluation.runner import compare_with_first, macro_means
from toolcrib.evaluation.systems.base import Answer, Ranked

VERBS = ("create", "list", "delete", "update", "search", "share", "archive", "export")
NOUNS = ("invoice", "meeting", "channel", "repository", "ticket", "contact", "file", "order")
SERVERS = ("github", "slack", "calendar", "billing")
TOOLS = tuple(f"{server}/{verb}_{noun}" for server in SERVERS for verb in VERBS for noun in NOUNS)
KS = (1, 3, 5, 10)


@dataclass(frozen=True)
class Pretender:
    """A system that finds each wanted tool with this `skill`, and says so if it is `candid`."""

    name: str
    skill: float
    ms: float
    version: str = "pretended 1.0"
    candid: bool = True
    sure: float = 0.86


PRETENDERS = (
    Pretender("toolcrib", 0.86, 1.9, "toolcrib 0.1.0"),
    Pretender("lexical", 0.72, 0.6, "toolcrib 0.1.0", sure=0.7),
    Pretender("bm25s", 0.66, 0.35, "bm25s 0.3.16", candid=False),
)


def queries(rng: random.Random, count: int, unanswerable: float) -> list[LabelledQuery]:
    """Requests for one tool, sometimes two, and some that nothing answers."""
    made: list[LabelledQuery] = []
    for number in range(count):
        wanted = rng.sample(TOOLS, 1 if rng.random() < 0.75 else 2)
        said = " and ".join(tool.split("/")[1].replace("_", " a ") for tool in wanted)
        nothing = rng.random() < unanswerable
        made.append(
            LabelledQuery(
                id=f"q{number}",
                text="Tell me a joke about storks" if nothing else f"Please {said} for the team",
                relevant={} if nothing else dict.fromkeys(wanted, 1.0),
                answerable=not nothing,
                unanswerable_scope="corpus" if nothing else "",
            )
        )
    return made


def answer(rng: random.Random, who: Pretender, query: LabelledQuery) -> Answer:
    """Wanted tools near the top when the system is lucky, and as sure as it was lucky."""
    places: dict[str, float] = {tool: rng.random() for tool in rng.sample(TOOLS, 14)}
    luck = {tool: rng.random() < who.skill for tool in query.relevant}
    for tool, lucky in luck.items():
        places[tool] = 1.05 + rng.random() if lucky else rng.random() * 0.9
    ranked = sorted(places, key=lambda tool: -places[tool])[:10]
    mean = who.sure if luck and all(luck.values()) else 0.38 if luck else 0.24
    sure = rng.betavariate(mean * 7, (1 - mean) * 7)
    hits = tuple(Ranked(tool, round(places[tool], 4)) for tool in ranked)
    return Answer(hits, confidence=sure if who.candid else None)


def system_result(
    rng: random.Random, who: Pretender, asked: Sequence[LabelledQuery]
) -> SystemResult:
    answers = [answer(rng, who, query) for query in asked]
    rankings = [[tool.id for tool in a.ranked] for a in answers]
    outcomes = tuple(
        QueryResult(query, a, who.ms * rng.lognormvariate(0, 0.35), rng.randrange(700, 1500), m)
        for query, a, m in zip(
            asked,
            answers,
            (
                m if q.answerable else {}
                for q, m in zip(asked, measure(rankings, asked, KS), strict=True)
            ),
            strict=True,
        )
    )
    return summed_up(who, outcomes)


def summed_up(who: Pretender, outcomes: tuple[QueryResult, ...]) -> SystemResult:
    import numpy as np

    values = [o.measures for o in outcomes if o.measures]
    columns = {m: np.array([v[m] for v in values]) for m in (values[0] if values else ())}
    ms = sorted(o.ms for o in outcomes)
    gates = (
        gate_measures(
            np.array([o.answer.confidence for o in outcomes]),
            np.array([o.first_is_right for o in outcomes]),
            np.array([o.query.answerable for o in outcomes]),
        )
        if who.candid
        else {}
    )
    half = {m: 1.96 * c.std() / len(c) ** 0.5 for m, c in columns.items()}
    return SystemResult(
        name=who.name,
        version=who.version,
        measures={
            m: Interval(float(c.mean()), float(c.mean() - half[m]), float(c.mean() + half[m]))
            for m, c in columns.items()
        },
        latency_ms={"p50": ms[len(ms) // 2], "p99": ms[int(len(ms) * 0.99)]},
        prompt_tokens=float(np.mean([o.prompt_tokens for o in outcomes])),
        tokens_saved=1 - float(np.mean([o.prompt_tokens for o in outcomes])) / 31_000,
        gates=gates,
        outcomes=outcomes,
    )


def believable(
    sizes: Mapping[str, int],
    pretenders: Sequence[Pretender] = PRETENDERS,
    unanswerable: float = 0.15,
) -> Evaluation:
    sets: dict[str, SetResult] = {}
    for number, (name, size) in enumerate(sizes.items()):
        rng = random.Random(number)
        asked = queries(rng, size, unanswerable)
        easier = [replace(who, skill=who.skill + 0.03 * number) for who in pretenders]
        systems = {who.name: system_result(rng, who, asked) for who in easier}
        sets[name] = SetResult(
            name=name,
            split="test",
            tools=len(TOOLS),
            queries=len(asked),
            unanswerable=sum(not query.answerable for query in asked),
            systems=compare_with_first(systems, seed=0),
        )
    settings = {
        "command": f"toolcrib eval {' '.join(sizes)} --report out.html",
        "date": "2026-03-01",
        "toolcrib": "0.1.0",
        "seed": "0",
        "intervals": "95 % percentile bootstrap, 1000 resamples of queries",
    }
    return Evaluation(sets, macro_means(sets), settings)


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    """Three systems on two sets; the second set comes with a warning and a note."""
    made = believable({"office": 260, "support desk": 180})
    marked = replace(
        made.sets["support desk"],
        warnings=("toolcrib is below its own leg 'lexical' in ndcg@10 (-0.021, p = 0.0120)",),
        notes=("name leak: 12.0% of the answerable queries spell a relevant tool's name",),
    )
    return replace(made, sets={**made.sets, "support desk": marked})
