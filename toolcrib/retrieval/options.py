"""Search options and their checks, search plans, and settings of a second ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, get_args

from pydantic import Field

from toolcrib.errors import (
    QueryError,
    SettingsError,
    did_you_mean,
    nearest,
    require_positive,
    require_text,
    require_texts,
    require_type,
)
from toolcrib.records import Scope
from toolcrib.records.codec import settings_section
from toolcrib.records.definitions import DefinitionForm
from toolcrib.records.turns import Message
from toolcrib.retrieval.dialogue import read_messages
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.store.filters import Filter, FilterField, validate

MAX_NEEDS = 20
"""Maximum number of needs of a search; each need is a search of its own."""

NEEDS_PARAMETER: Mapping[str, Any] = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": MAX_NEEDS,
    "description": "One line for each tool that is needed: what it can do",
}
"""Parameter of a search by a model."""

MAX_CALLED = 1_000
"""Maximum number of calls in a search; of a longer run send the last ones."""

AnswerOrder: TypeAlias = Literal["rank", "id"]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """Options of a search, shared by library, client, CLI and HTTP.

    `k`: number of tools; `auto`: as many as hold all needed tools with the probability `coverage`.
    `least`: minimum probability of a tool; the first tool and tools called by name are exempt. None
    for `coverage` or `least` means the settings (`tools`). `scope`: what the caller may use;
    `where`: a further filter. Without `gate` the ranking is complete and has its verdict: nothing
    is withheld or omitted, no general tool is added, and copies of a tool on several servers stay
    apart. `explain` adds the score of each leg, and words without any match. `needs`: one line for
    each wanted tool; each is searched and judged by itself, with the same options. `token_budget`
    replaces `k`: the best tools that fit, at least one; three characters of a tool's compact JSON,
    in the `form` that the model sees, count as a token. The `order` by id keeps equal tools in
    equal order, which a provider's prompt cache needs; `rank` still gives the place by fit.

    `history`: earlier messages, which count beside the query. `called`: tools that an agent's run
    has called, in order, by ids or by unambiguous names; the answer omits them and gives the next
    ones. With `task`, the text that the run began with, the query is what the agent wrote before
    its next call, and tools of servers in use come first; without a query the task is searched.
    """

    k: int | Literal["auto"] = 5
    scope: Scope | None = None
    where: FilterField | None = None
    gate: bool = True
    coverage: float | None = None
    least: float | None = None
    explain: bool = False
    needs: Sequence[str] | None = None
    token_budget: int | None = None
    form: DefinitionForm = "schema"
    order: AnswerOrder = "rank"
    history: Sequence[Message | Mapping[str, Any]] | None = None
    called: Sequence[str] | None = None
    task: str | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Newest messages of the history."""
        return read_messages(self.history or ())


class SearchKeywords(TypedDict, total=False):
    """Fields of `SearchOptions` but `k`, as keywords of `find_tools`."""

    scope: Scope | None
    where: Filter | None
    gate: bool
    coverage: float | None
    least: float | None
    explain: bool
    needs: Sequence[str] | None
    token_budget: int | None
    form: DefinitionForm
    order: AnswerOrder
    history: Sequence[Message | Mapping[str, Any]] | None
    called: Sequence[str] | None
    task: str | None


def search_options(k: int | Literal["auto"], options: Mapping[str, Any]) -> SearchOptions:
    """Options of a search from keywords; an unknown keyword, or an empty task, is an error."""
    known = SearchOptions.__dataclass_fields__
    for name in options:
        if name not in known:
            raise QueryError(
                f"find_tools has no option {name!r}{did_you_mean(nearest(name, known))}"
            )
    if k != "auto" and type(k) is not int:
        raise QueryError(f"k is {k!r}; it must be a whole number or 'auto'")
    if (task := options.get("task")) is not None:
        require_text(task, "task")
        if not task.strip():
            raise QueryError("the task is empty: give the text that the run began with, or none")
    return SearchOptions(k, **options)


def check_query(
    query: str, k: int | Literal["auto"], where: Filter | None, least: float | None = None
) -> None:
    """Reject an empty query, an invalid `k` or `least`, or a filter on an unknown field."""
    if not query.strip():
        raise QueryError("the query is empty: say in a few words what the tool must do")
    require_positive(k, "k")
    if least is not None and not 0 <= least <= 1:
        raise QueryError(f"least is {least}; it must be between 0 and 1")
    if where is not None:
        validate(where)


def text_to_search(query: str | None, options: SearchOptions) -> str | None:
    """Query, or the task at a step without text of the agent."""
    return options.task if query is None and not options.needs else query


def check_search(query: str | None, options: SearchOptions) -> None:
    """Reject an invalid search.

    Raises:
        QueryError: an empty query or need, too many needs or calls, an invalid `k`, an entry of the
            history that is no message, a filter on an unknown field, or an option of another type.
    """
    if query is not None:
        require_text(query, "query")
    _check_values(options)
    query, needs = text_to_search(query, options), options.needs or ()
    if len(needs) > MAX_NEEDS:
        raise QueryError(f"there are {len(needs)} needs; give at most {MAX_NEEDS}")
    read_messages(options.history or ())
    if len(called := options.called or ()) > MAX_CALLED:
        raise QueryError(f"there are {len(called)} calls; give the last {MAX_CALLED} of the run")
    if query is None and not needs:
        raise QueryError("there is neither a query nor a need: say what the tool must do")
    if query is not None:
        check_query(query, options.k, options.where, options.least)
    for place, need in enumerate(needs):
        if not need.strip():
            raise QueryError(f"need {place} is empty: say in one line what the tool must do")
        check_query(need, options.k, options.where, options.least)


def _check_values(options: SearchOptions) -> None:
    require_texts(options.needs or (), "needs")
    require_texts(options.called or (), "called")
    require_type(options.token_budget, int | None, "option token_budget", "a whole number")
    require_positive(options.token_budget, "token_budget")
    require_type(options.scope, Scope | None, "scope", "a Scope")
    # An iterator would be empty after the check.
    require_type(options.history, Sequence | None, "history", "a list of messages")
    for name in ("gate", "explain"):
        require_type(getattr(options, name), bool, f"option {name}", "true or false")
    for name in ("least", "coverage"):
        require_type(getattr(options, name), float | int | None, f"option {name}", "a number")
    for name, known in (("form", get_args(DefinitionForm)), ("order", get_args(AnswerOrder))):
        if (given := getattr(options, name)) not in known:
            raise QueryError(f"{name} is {given!r}; it must be one of {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Stages that a search runs, and their weights.

    `weights`: of fusion; None for the settings'. `rerank`: use the reranker, if configured;
    `model_time_s`: time of a language model for it, None for its settings. `learned`: lift tools by
    learned examples.
    """

    weights: FusionWeights | None = None
    rerank: bool = True
    model_time_s: float | None = None
    learned: bool = True


FULL_PLAN = SearchPlan()
"""Plan with every stage, by the settings."""


@dataclass(frozen=True, slots=True)
class KnowledgeOptions:
    """Options of a search of passages; None means the settings.

    `k`: passages in all; `token_budget`: tokens in all; the first passage always stays.
    `collections`: names of the only collections that are searched.

    Raises:
        QueryError: `k` or `token_budget` is less than 1, or an option has another type.
    """

    k: int | None = None
    collections: Sequence[str] | None = None
    token_budget: int | None = None

    def __post_init__(self) -> None:
        require_type(self.k, int | None, "number of passages", "a whole number")
        require_type(self.token_budget, int | None, "option token_budget", "a whole number")
        require_texts(self.collections or (), "collections")
        require_positive(self.k, "the number of passages")
        require_positive(self.token_budget, "token_budget")


DEFAULT_KNOWLEDGE_OPTIONS = KnowledgeOptions()
"""Options that all follow the settings."""


@settings_section
class InterleaveSettings:
    """Settings of a second ranking, interleaved with the first.

    `name`: for log and report; None for no second ranking. `fusion`: its own weights, with defaults
    for missing fields. `rerank: false` ranks without the reranker, `learning: false` without
    learned examples.
    """

    name: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    fusion: FusionWeights | None = None
    rerank: bool = True
    learning: bool = True

    def __post_init__(self) -> None:
        differs = self.fusion is not None or not (self.rerank and self.learning)
        if differs and self.name is None:
            raise SettingsError(
                "the second ranking has no name for the report: set interleave.name"
            )
        if self.name is not None and not differs:
            raise SettingsError(
                f"the ranking {self.name!r} equals the first; set interleave.fusion, or "
                "interleave.rerank or interleave.learning to false"
            )

    @property
    def plan(self) -> SearchPlan:
        """Plan of the second ranking."""
        return SearchPlan(weights=self.fusion, rerank=self.rerank, learned=self.learning)
