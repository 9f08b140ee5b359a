"""Lint of a registry: every tool is asked for by its own texts, and all texts are read.

How a tool is found is taken from the search itself: the tools go into a passing index, without
their example requests, so that no request finds its own copy, and are asked for one by one.
The work grows with the number of tools; ten thousand take some minutes on two cores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from toolcrib import build
from toolcrib.crib import Crib
from toolcrib.encoders.base import DenseEncoder
from toolcrib.evaluation.lint.findings import (
    LINT_SEVERITIES,
    LintFinding,
    LintInput,
    LintSeverity,
    Problem,
    SearchKind,
    SelfSearch,
    apply_rules,
    lint_rule,
)
from toolcrib.evaluation.lint.texts import (
    own_words,
    parameters_of,
    purpose_of,
)
from toolcrib.indexers.points import clean
from toolcrib.records import ToolSpec
from toolcrib.retrieval.legs import has_words
from toolcrib.settings import Settings
from toolcrib.text import split_identifier

Progress: TypeAlias = Callable[[str, int, int], None]
"""Callback that takes the step at work, how much of it is done, and of how much."""


# -- searches --------------------------------------------------------------------------------------

SEARCH_DEPTH = 10
"""Tools that each search returns."""

MAX_SEARCHED_EXAMPLES = 3
"""Example requests of a tool that are asked, the first ones."""

MAX_PARAMETERS_CHARS = 250


def search_each(
    tools: Sequence[ToolSpec],
    settings: Settings,
    progress: Progress = lambda _what, _done, _total: None,
    *,
    dense: DenseEncoder | None = None,
) -> dict[str, list[SelfSearch]]:
    """Search for every tool by its own texts; results by id, the purpose first.

    `dense` defaults to the encoder of the settings.
    """
    settings = settings.without_reranker()
    bare = [tool.model_copy(update={"success_examples": ()}) for tool in tools]
    found: dict[str, list[SelfSearch]] = {}
    with Crib.open(build.MEMORY, settings=settings, dense=dense) as crib:
        crib.index_tools(bare, progress=lambda p: progress("indexing the tools", p.done, p.total))
        for done, tool in enumerate(tools, start=1):
            found[tool.id] = [_search(crib, tool, kind, text) for kind, text in _texts(tool)]
            progress("asking for each tool", done, len(tools))
    return found


def _texts(tool: ToolSpec) -> Iterator[tuple[SearchKind, str]]:
    yield "purpose", purpose_of(tool)
    for example in tool.success_examples[:MAX_SEARCHED_EXAMPLES]:
        if has_words(example):
            yield "example", example
    said = "; ".join(
        ": ".join(filter(None, (" ".join(split_identifier(name)), about)))
        for name, about in parameters_of(tool).items()
    )
    if has_words(said):
        yield "parameters", said[:MAX_PARAMETERS_CHARS]


def _search(crib: Crib, tool: ToolSpec, kind: SearchKind, text: str) -> SelfSearch:
    hits = crib.find_tools(text, k=SEARCH_DEPTH, gate=False).tools
    others = [hit for hit in hits if hit.id != tool.id]
    own = next((hit for hit in hits if hit.id == tool.id), None)
    best = others[0].score if others else 0.0
    # One that did not come at all is at least as far behind as the last that did.
    score = own.score if own is not None else hits[-1].score if hits else 0.0
    return SelfSearch(
        kind,
        text,
        None if own is None else own.rank,
        others[0].id if others else "",
        score - best,
    )


# -- what the answers show -------------------------------------------------------------------------

MIN_LEAD = 0.02
"""Score lead below which requests in other words bring the one tool as often as the other."""


@lint_rule("not-found", "error", "none of its own texts brings the tool among the first five")
def _not_found(given: LintInput) -> Iterator[Problem]:
    for tool, searches in given.searches.items():
        if not any(each.is_near for each in searches):
            purpose = searches[0]
            text = f"not even {purpose.text!r} brings it: {purpose.other} and others come first"
            yield Problem(tool, text, (purpose.other,))


@lint_rule(
    "hard-to-find",
    "warning",
    "one of its example requests does not bring the tool among the first five",
)
def _hard_to_find(given: LintInput) -> Iterator[Problem]:
    for tool, searches in given.searches.items():
        is_found = any(each.is_near for each in searches)
        for each in searches:
            if is_found and each.kind == "example" and not each.is_near:
                text = (
                    f"without its examples {each.text!r} brings {each.other}: say in the "
                    "description what such requests are about"
                )
                yield Problem(tool, text, (each.other,))


@lint_rule(
    "confusable",
    "warning",
    "its own purpose brings another tool first, or one that is level with it",
    shared=True,
)
def _confusable(given: LintInput) -> Iterator[Problem]:
    specs = {tool.id: tool for tool in given.tools}
    paired = set[frozenset[str]]()
    for tool, (purpose, *rest) in given.searches.items():
        pair = frozenset((tool, purpose.other))
        is_found = any(each.is_near for each in (purpose, *rest))
        is_confused = is_found and purpose.other and purpose.lead < MIN_LEAD
        # One text twice is a finding of `same-text`.
        if is_confused and pair not in paired and not _has_same_text(specs, pair):
            paired.add(pair)
            text = _difference(specs[tool], specs[purpose.other], purpose.lead)
            yield Problem(tool, text, (purpose.other,))


def _has_same_text(specs: Mapping[str, ToolSpec], pair: frozenset[str]) -> bool:
    return len({clean(specs[tool].description).casefold() for tool in pair}) < len(pair)


def _difference(tool: ToolSpec, other: ToolSpec, lead: float) -> str:
    how = "comes level with it" if lead > 0 else "comes first"
    parts = [
        f"{each.id} alone says {', '.join(words)}"
        for each, words in ((tool, own_words(tool, other)), (other, own_words(other, tool)))
        if words
    ]
    advice = f"what sets them apart: {'; '.join(parts)}" if parts else "no word sets them apart"
    return f"asked for by its own purpose, {other.id} {how}; {advice}"


# -- the report ------------------------------------------------------------------------------------


WORST_FIRST = LINT_SEVERITIES[::-1]


@dataclass(frozen=True, slots=True)
class ServerLint:
    """A server's tools, counted, and its findings by severity."""

    server: str
    tools: int
    findings: Mapping[LintSeverity, int]


@dataclass(frozen=True, slots=True)
class LintReport:
    """Findings of a lint, and servers, the worst first."""

    tools: int
    servers: tuple[ServerLint, ...]
    findings: tuple[LintFinding, ...]


def lint(
    tools: Iterable[ToolSpec],
    settings: Settings | None = None,
    *,
    ignored: Iterable[str] = (),
    searches: Mapping[str, Sequence[SelfSearch]] | None = None,
    providers: Collection[str] = (),
    progress: Progress = lambda _what, _done, _total: None,
) -> LintReport:
    """Find what keeps these tools from being found; disabled tools are left out.

    Rules of `providers` say which definitions a provider refuses.

    Findings of `ignored` rules are dropped; `audit` stands for all `audit/...`. `searches` are
    results of `search_each`, where there are some already.

    Raises:
        ToolcribError: the models of the settings cannot be used.
    """
    # The first of an id stays, as in an index.
    known = list({tool.id: tool for tool in reversed(list(tools)) if tool.enabled}.values())[::-1]
    searches = searches or search_each(known, settings or Settings(), progress)
    progress("applying the rules", 0, 0)
    findings = list(apply_rules(LintInput(known, searches, providers), set(ignored)))
    findings.sort(key=lambda each: (-LINT_SEVERITIES.index(each.severity), each.rule, each.tool))
    return LintReport(len(known), tuple(_servers(known, findings)), tuple(findings))


def _servers(tools: Sequence[ToolSpec], findings: Sequence[LintFinding]) -> list[ServerLint]:
    server_of = {tool.id: tool.server for tool in tools}
    counted = Counter((server_of[each.tool], each.severity) for each in findings)
    found = [
        ServerLint(server, count, {name: counted[server, name] for name in WORST_FIRST})
        for server, count in Counter(server_of.values()).items()
    ]
    return sorted(
        found, key=lambda each: (*(-each.findings[name] for name in WORST_FIRST), each.server)
    )


def fails(findings: Iterable[LintFinding], least: LintSeverity) -> bool:
    """True if any finding is as bad as `least`, or worse."""
    bad = LINT_SEVERITIES[LINT_SEVERITIES.index(least) :]
    return any(finding.severity in bad for finding in findings)
