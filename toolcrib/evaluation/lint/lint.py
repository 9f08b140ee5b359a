"""Lint of a registry: every tool is asked for by its own texts, and all texts are read.

How a tool is found is taken from the search itself: the tools go into a passing index, without
their example requests, so that no request finds its own copy, and are asked for one by one.
The work grows with the number of tools; ten thousand take some minutes on two cores.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeAlias

from toolcrib import build
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import split_identifier
from toolcrib.evaluation.lint.findings import (
    LINT_SEVERITIES,
    LintFinding,
    LintSeverity,
)
from toolcrib.evaluation.lint.texts import (
    audited,
    in_texts,
    own_words,
    parameters_of,
    purpose_of,
)
from toolcrib.numerics import sigmoid
from toolcrib.records import ToolSpec
from toolcrib.retrieval.legs import has_words
from toolcrib.settings import Settings

__all__ = ["Asked", "LintReport", "ServerLint", "ask", "fails", "lint", "logit_terms"]

Told: TypeAlias = Callable[[str, int, int], None]
"""Hears what is done, how much of it, and of how much."""


# -- asking ----------------------------------------------------------------------------------------

DEPTH = 10
"""Tools that each request is answered with."""

NEAR = 5
"""An agent gets so many tools unless told otherwise."""

MAX_EXAMPLES = 3
"""Example requests of a tool that are asked, the first ones."""

MAX_PARAMETERS_CHARS = 250


@dataclass(frozen=True, slots=True)
class Asked:
    """What the search answered to one of a tool's own texts.

    `rank` counts from 1, None where the tool is not among the first `DEPTH`; `other` is the id of
    the best other tool, empty where there is none. `lead` is the tool's score minus that one's, in
    [-1, 1]; `crowding` the mean cosine of the text and the best `NEAR` others.
    """

    kind: Literal["purpose", "example", "parameters"]
    text: str
    rank: int | None
    other: str
    lead: float
    crowding: float

    @property
    def is_near(self) -> bool:
        """Whether an agent that asks so gets the tool."""
        return self.rank is not None and self.rank <= NEAR


def ask(
    tools: Sequence[ToolSpec],
    settings: Settings,
    told: Told = lambda _what, _done, _total: None,
    *,
    dense: DenseEncoder | None = None,
) -> dict[str, list[Asked]]:
    """Ask for every tool by its own texts; by id, its purpose first.

    `dense` defaults to the encoder of the settings.
    """
    settings = settings.without_reranker()
    bare = [tool.model_copy(update={"success_examples": ()}) for tool in tools]
    asked: dict[str, list[Asked]] = {}
    with Crib.open(build.MEMORY, settings=settings, dense=dense) as crib:
        crib.index_tools(bare, progress=lambda p: told("reading the tools", p.done, p.total))
        for done, tool in enumerate(tools, start=1):
            asked[tool.id] = [_answer(crib, tool, kind, text) for kind, text in _texts(tool)]
            told("asking for each tool", done, len(tools))
    return asked


def _texts(tool: ToolSpec) -> Iterator[tuple[Literal["purpose", "example", "parameters"], str]]:
    yield "purpose", purpose_of(tool)
    for example in tool.success_examples[:MAX_EXAMPLES]:
        if has_words(example):
            yield "example", example
    said = "; ".join(
        ": ".join(filter(None, (" ".join(split_identifier(name)), about)))
        for name, about in parameters_of(tool).items()
    )
    if has_words(said):
        yield "parameters", said[:MAX_PARAMETERS_CHARS]


def _answer(
    crib: Crib, tool: ToolSpec, kind: Literal["purpose", "example", "parameters"], text: str
) -> Asked:
    hits = crib.find_tools(text, k=DEPTH, gate=False, explain=True).tools
    others = [hit for hit in hits if hit.id != tool.id]
    own = next((hit for hit in hits if hit.id == tool.id), None)
    best = others[0].score if others else 0.0
    crowding = [hit.legs.get("dense", 0.0) for hit in others[:NEAR]] or [0.0]
    # One that did not come at all is at least as far behind as the last that did.
    score = own.score if own is not None else hits[-1].score if hits else 0.0
    return Asked(
        kind,
        text,
        None if own is None else own.rank,
        others[0].id if others else "",
        score - best,
        fmean(crowding),
    )


# -- what the answers show -------------------------------------------------------------------------

LEVEL = 0.04
"""A lead below which requests in other words bring the one tool as often as the other."""


def in_answers(
    tools: Sequence[ToolSpec], asked: Mapping[str, Sequence[Asked]]
) -> Iterator[LintFinding]:
    """Tools that are not found by their own texts, and pairs that are taken for one another."""
    specs = {tool.id: tool for tool in tools}
    paired = set[frozenset[str]]()
    for tool in tools:
        purpose, *rest = asked[tool.id]
        if not any(each.is_near for each in asked[tool.id]):
            said = f"not even {purpose.text!r} brings it: {purpose.other} and others come first"
            yield LintFinding("not-found", "error", tool.id, said, (purpose.other,))
            continue
        for each in rest:
            if each.kind == "example" and not each.is_near:
                said = (
                    f"without its examples {each.text!r} brings {each.other}: say in the "
                    "description what such requests are about"
                )
                yield LintFinding("hard-to-find", "warning", tool.id, said, (each.other,))
        pair = frozenset((tool.id, purpose.other))
        if purpose.other and purpose.lead < LEVEL and pair not in paired:
            paired.add(pair)
            yield _confusable(tool, specs[purpose.other], purpose.lead)


def _confusable(tool: ToolSpec, other: ToolSpec, lead: float) -> LintFinding:
    how = "comes level with it" if lead > 0 else "comes first"
    parts = [
        f"{each.id} alone says {', '.join(words)}"
        for each, words in ((tool, own_words(tool, other)), (other, own_words(other, tool)))
        if words
    ]
    advice = f"what sets them apart: {'; '.join(parts)}" if parts else "no word sets them apart"
    said = f"asked for by its own purpose, {other.id} {how}; {advice}"
    return LintFinding("confusable", "warning", tool.id, said, (other.id,))


# -- the score -------------------------------------------------------------------------------------

WEIGHTS = (1.7, -2.26, 0.61)
"""Intercept, crowding and parameters of a logistic model of how often a request for a tool brings
it before every tool that was not wanted. Fitted on all queries of the labelled sets; what weights
are worth on sets that they were not fitted on, `benchmarks/lint.py --fit` tells. The lead did not
help beside them."""

COSTS: Mapping[LintSeverity, float] = {"error": 0.15, "warning": 0.07, "info": 0.0}
"""Shares of a tool's score that its findings take. On labelled sets, tools with errors were found
8 to 22 points less often than the others of their set, with warnings up to 9."""


def logit_terms(asked: Sequence[Asked]) -> tuple[float, float]:
    """What the score rests on: crowding, and the reciprocal rank by parameters (half without)."""
    by_parameters = (each for each in asked if each.kind == "parameters")
    takes = next((1 / (each.rank or 2 * DEPTH) for each in by_parameters), 0.5)
    return asked[0].crowding, takes


def score_of(asked: Sequence[Asked], findings: Iterable[LintFinding] = ()) -> float:
    """How well a tool will be found, 0 to 100."""
    bias, *weights = WEIGHTS
    logit = bias + sum(w * term for w, term in zip(weights, logit_terms(asked), strict=True))
    kept = math.prod(1 - COSTS[finding.severity] for finding in findings)
    return 100 * kept * sigmoid(logit)


# -- the report ------------------------------------------------------------------------------------


WORST_FIRST = LINT_SEVERITIES[::-1]


@dataclass(frozen=True, slots=True)
class ServerLint:
    """The mean score of a server's tools, and its findings by severity."""

    server: str
    score: float
    tools: int
    findings: Mapping[LintSeverity, int]


@dataclass(frozen=True, slots=True)
class LintReport:
    """What a lint found, the worst first; `scores` by tool, servers by rising score.

    `score` is the mean over all tools, 0 to 100; higher is better.
    """

    score: float
    tools: int
    servers: tuple[ServerLint, ...]
    findings: tuple[LintFinding, ...]
    scores: Mapping[str, float]


def lint(
    tools: Iterable[ToolSpec],
    settings: Settings | None = None,
    *,
    ignored: Iterable[str] = (),
    asked: Mapping[str, Sequence[Asked]] | None = None,
    told: Told = lambda _what, _done, _total: None,
) -> LintReport:
    """What keeps these tools from being found; disabled ones are left out, as in a search.

    Findings of `ignored` rules are dropped; `audit` stands for all `audit/...`. `asked` are the
    answers of `ask`, where there are some already. `told` hears how far the work is.

    Raises:
        ToolcribError: the models of the settings cannot be used.
    """
    # The first of an id stays, as in an index.
    known = list({tool.id: tool for tool in reversed(list(tools)) if tool.enabled}.values())[::-1]
    asked = asked or ask(known, settings or Settings(), told)
    dropped = set(ignored)
    read = () if "audit" in dropped else audited(known)
    findings = [
        finding
        for finding in (*in_answers(known, asked), *in_texts(known), *read)
        if not {finding.rule, finding.rule.partition("/")[0]} & dropped
    ]
    findings.sort(key=lambda each: (-LINT_SEVERITIES.index(each.severity), each.rule, each.tool))
    by_tool: dict[str, list[LintFinding]] = {tool.id: [] for tool in known}
    for finding in findings:
        for tool in {finding.tool, *_sharing(finding)}:
            by_tool[tool].append(finding)
    scores = {tool.id: round(score_of(asked[tool.id], by_tool[tool.id]), 1) for tool in known}
    return LintReport(
        score=_mean(scores.values()),
        tools=len(known),
        servers=tuple(_servers(known, scores, findings)),
        findings=tuple(findings),
        scores=scores,
    )


def _sharing(finding: LintFinding) -> tuple[str, ...]:
    """The other tools of a finding that is as much about them as about the first."""
    shared = {"same-text", "cut-description", "confusable"}
    return finding.others if finding.rule in shared else ()


def _mean(scores: Iterable[float]) -> float:
    found = list(scores)
    return round(fmean(found), 1) if found else 0.0


def _servers(
    tools: Sequence[ToolSpec], scores: Mapping[str, float], findings: Sequence[LintFinding]
) -> list[ServerLint]:
    server_of = {tool.id: tool.server for tool in tools}
    counted = Counter((server_of[each.tool], each.severity) for each in findings)
    its: dict[str, list[float]] = defaultdict(list)
    for tool, score in scores.items():
        its[server_of[tool]].append(score)
    found = [
        ServerLint(
            server, _mean(of), len(of), {name: counted[server, name] for name in WORST_FIRST}
        )
        for server, of in its.items()
    ]
    return sorted(found, key=lambda each: (each.score, each.server))


def fails(findings: Iterable[LintFinding], least: LintSeverity) -> bool:
    """Whether any finding is as bad as this, or worse."""
    bad = LINT_SEVERITIES[LINT_SEVERITIES.index(least) :]
    return any(finding.severity in bad for finding in findings)
