"""Lint rules and their findings: a rule is a function with its name, severity and title."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolcrib.records import ToolSpec

LintSeverity: TypeAlias = Literal["info", "warning", "error"]

LINT_SEVERITIES: tuple[LintSeverity, ...] = ("info", "warning", "error")
"""From the least to the worst: worth a look; costs calls; lost, or not to be served."""

NEAR_RANK = 5
"""Tools that an agent gets by default."""

SearchKind: TypeAlias = Literal["purpose", "example", "parameters"]


@dataclass(frozen=True, slots=True)
class SelfSearch:
    """Result of a search by one of a tool's own texts.

    `rank` counts from 1, None where the tool is not among the first `SEARCH_DEPTH`; `other` is the
    id of the best other tool, empty where there is none. `lead` is the tool's score minus the
    other's, in [-1, 1].
    """

    kind: SearchKind
    text: str
    rank: int | None
    other: str
    lead: float

    @property
    def is_near(self) -> bool:
        """True if an agent that searches by this text gets the tool."""
        return self.rank is not None and self.rank <= NEAR_RANK


@dataclass(frozen=True, slots=True)
class LintInput:
    """Tools that rules read, and the searches by each tool's own texts, its purpose first.

    `providers` are those whose rules the definitions are to keep.
    """

    tools: Sequence[ToolSpec]
    searches: Mapping[str, Sequence[SelfSearch]] = field(
        default_factory=dict[str, Sequence[SelfSearch]]
    )
    providers: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of one tool, as a rule yields it: `text` says what is wrong and what to do.

    `others` are further tools in the problem. `severity` defaults to the rule's; `part` is a
    rule within the rule.
    """

    tool: str
    text: str
    others: tuple[str, ...] = ()
    severity: LintSeverity | None = None
    part: str = ""


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that is wrong: `text` says what and what to do; `others` are further tools in it.

    `tool` and `others` are ids. Rules of the audit are called `audit/...`.
    """

    rule: str
    severity: LintSeverity
    tool: str
    text: str
    others: tuple[str, ...] = ()


Check: TypeAlias = Callable[[LintInput], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule; `shared`: its problems are as much about the other tools as about the first."""

    name: str
    severity: LintSeverity
    title: str
    shared: bool
    check: Check


LINT_RULES: dict[str, LintRule] = {}


def lint_rule(
    name: str, severity: LintSeverity, title: str, *, shared: bool = False
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule."""

    def register(check: Check) -> Check:
        LINT_RULES[name] = LintRule(name, severity, title, shared, check)
        return check

    return register


def apply_rules(given: LintInput, ignored: Collection[str] = ()) -> Iterator[LintFinding]:
    """Findings of all rules but `ignored` ones; `audit` stands for all `audit/...`."""
    for rule in LINT_RULES.values():
        if rule.name in ignored:
            continue
        for each in rule.check(given):
            name = f"{rule.name}/{each.part}" if each.part else rule.name
            if name not in ignored:
                severity = each.severity or rule.severity
                yield LintFinding(name, severity, each.tool, each.text, each.others)
