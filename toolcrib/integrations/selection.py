"""Tool selection: which of an agent's tools its model gets for a turn, and for a step.

An agent knows its tools by name, an index by id: `named_tools` maps names to tools.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeAlias
from weakref import WeakSet

from typing_extensions import TypedDict

from toolcrib.awaitable import in_thread
from toolcrib.client.crib import RemoteCrib
from toolcrib.crib import Crib
from toolcrib.errors import (
    SettingsError,
    ToolcribError,
    did_you_mean,
    nearest,
    require_positive,
)
from toolcrib.records import Decision, Message, PassageHit, Scope, ToolHit, ToolSpec, Turn
from toolcrib.records.codec import as_json, is_object, list_of
from toolcrib.records.definitions import OwnTool, definition_tokens, summary
from toolcrib.retrieval.gate import ENABLED
from toolcrib.retrieval.legs import has_words
from toolcrib.retrieval.options import MAX_NEEDS, NEEDS_PARAMETER
from toolcrib.router.tools import settings_filter
from toolcrib.store.filters import Filter, all_of
from toolcrib.store.payload import has_key, name_keys, named_tools
from toolcrib.text import name_key

logger = logging.getLogger(__name__)

AnyCrib: TypeAlias = Crib | RemoteCrib
ScopeOf: TypeAlias = Scope | Callable[[Any], Scope | None] | None
"""Scope of the caller, or a function that gets the framework's run and returns the scope."""


def scope_in(run: Any, scope: ScopeOf) -> Scope | None:
    """Scope of the caller in a run."""
    return scope(run) if callable(scope) else scope


@dataclass(frozen=True, slots=True)
class TurnTools:
    """Tools of a model for a turn.

    `names` are the agent's: first the always included tools, then tools of earlier turns, then new
    tools, so that a prompt cache holds as long as possible. `ids` has the chosen tools by name;
    `tokens` estimates their definitions.
    """

    names: tuple[str, ...]
    ids: Mapping[str, str]
    decision: Decision
    tokens: int


def tools_for_turn(
    crib: AnyCrib,
    turn: Turn,
    names: Iterable[str],
    *,
    k: int | None = None,
    always: Sequence[str] = (),
    shown: Sequence[str] = (),
) -> TurnTools:
    """Decide a turn, and choose among an agent's tools, as `choose_tools`.

    `k` replaces the settings' `tools.k`. `shown` are the ids of earlier turns.
    """
    names = list(dict.fromkeys(names))
    check_names(always, names)
    decision = crib.route(turn, k=k, shown=shown)
    return choose_tools(crib, turn, decision, names, always=always, shown=shown)


def choose_tools(
    crib: AnyCrib,
    turn: Turn,
    decision: Decision,
    names: Sequence[str],
    *,
    always: Sequence[str] = (),
    shown: Sequence[str] = (),
    without: Collection[str] = (),
) -> TurnTools:
    """Choose the tools among an agent's `names` by a turn's decision.

    Names unknown to the index stay, as do names in `always`. Ids in `without` are left out.
    """
    known = known_tools(crib, names)
    _warn_of_unknown_tools(crib, len(names), len(known))
    named = {
        spec.id: name
        for name, specs in reversed(known.items())
        for spec in specs
        if spec.id not in without
    }
    hits = [hit for hit in decision.tools.tools if hit.id in named]
    if len(hits) < (room := len(decision.tools.tools)):
        # Tools that the agent lacks took up ranks, so only its own tools are ranked again.
        found = _rank_own_tools(crib, turn, decision, named, room)
        hits = list({hit.id: hit for hit in (*hits, *found)}.values())[:room]
    chosen: dict[str, ToolSpec] = {}
    places = {tool_id: place for place, tool_id in enumerate(shown)}
    for hit in sorted(hits, key=lambda hit: places.get(hit.id, len(shown))):
        chosen.setdefault(named[hit.id], hit.tool)
    first = [name for name in names if name in always or name not in known]
    ids = {name: spec.id for name, spec in chosen.items()}
    ordered = tuple(dict.fromkeys((*first, *chosen)))
    return TurnTools(ordered, ids, decision, _tokens(chosen.values()))


_WARNED_CRIBS: WeakSet[AnyCrib] = WeakSet()

MAX_UNWARNED_TOOLS = 30
"""Most tools that the index may lack without a warning; the model is always shown these."""


def _warn_of_unknown_tools(crib: AnyCrib, own: int, known: int) -> None:
    """Warn once for each crib that lacks all, or many, of the agent's tools."""
    unknown = own - known
    if crib in _WARNED_CRIBS or not unknown or (known and unknown <= MAX_UNWARNED_TOOLS):
        return
    _WARNED_CRIBS.add(crib)
    logger.warning(
        "the index knows %s of the agent's %d tools, so its model is always shown %s; "
        "index them with index_tools() under the same names",
        *((known, own, f"the other {unknown}") if known else ("none", own, "all of them")),
    )


def turn_of_messages(messages: Sequence[Message], scope: Scope | None) -> Turn:
    """Turn of the user's last message, with the messages before as history."""
    users = [at for at, message in enumerate(messages) if message.role == "user"]
    if not users:
        return Turn(scope=scope)
    last = users[-1]
    return Turn(text=messages[last].content, history=tuple(messages[:last]), scope=scope)


def check_names(wanted: Iterable[str], names: Sequence[str]) -> None:
    """Raise an error for a name that no tool has, with the nearest names."""
    for name in wanted:
        if name not in names:
            hint = did_you_mean(nearest(name, names))
            raise SettingsError(f"the agent has no tool {name!r}{hint}")


def known_tools(
    crib: AnyCrib, names: Iterable[str], scope: Scope | None = None, limits: Filter | None = None
) -> dict[str, tuple[ToolSpec, ...]]:
    """Specifications by name, for names that the index knows within scope and limits.

    A name may match tools of several servers; only the nearest matches count.
    """
    return named_tools(
        names, lambda where: crib.list_tools(scope=scope, where=all_of(where, limits))
    )


def callable_tools(
    crib: AnyCrib, names: Iterable[str], scope: Scope | None = None
) -> dict[str, ToolSpec]:
    """Specification by name, for the names of enabled tools in the scope and the limits."""
    known = known_tools(crib, names, scope, all_of(ENABLED, _limits(crib)))
    return {name: specs[0] for name, specs in known.items()}


def may_call(crib: AnyCrib, name: str, scope: Scope | None) -> bool:
    """True for an enabled tool in the scope and the limits, and for a tool unknown to the index."""
    return bool(callable_tools(crib, [name], scope) or not known_tools(crib, [name]))


def _rank_own_tools(
    crib: AnyCrib, turn: Turn, decision: Decision, ids: Iterable[str], k: int
) -> Sequence[ToolHit]:
    where = all_of(has_key(tool_id.casefold() for tool_id in ids), _limits(crib))
    asks = decision.route.kind in {"tools", "both", "general"}
    if not asks or where is None or not has_words(decision.search_text):
        return ()
    needs = turn.needs or None
    found = crib.find_tools(decision.search_text, k, scope=turn.reach, where=where, needs=needs)
    return [hit for hit in found.tools if hit.id in ids]


def _limits(crib: AnyCrib) -> Filter | None:
    """Limits of the settings on the tools of a turn; a service keeps its own."""
    return settings_filter(crib.tools.settings.tools) if isinstance(crib, Crib) else None


def _tokens(specs: Iterable[ToolSpec]) -> int:
    return sum(definition_tokens(spec, "schema") for spec in specs)


# -- steps ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StepCost:
    """Cost of the tools of one model call: the first of a turn, or that of a later step.

    `shown` counts the tools of the list, `added` and `dropped` its changes, which invalidate a
    prompt cache. `tokens` estimates the definitions of added tools that the index knows; `took_ms`
    is the time of the choice.
    """

    shown: int
    added: int
    dropped: int
    tokens: int
    took_ms: float


def _log_cost(cost: StepCost) -> None:
    logger.info(
        "tools of a step: %d shown, %d added (about %d tokens), %d dropped, chosen in %.1f ms",
        *(cost.shown, cost.added, cost.tokens, cost.dropped, cost.took_ms),
    )


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options for choosing tools again at each step of a run.

    With `each`, the index is searched before every model call. The list changes only if one of the
    `first` tools found is missing: at most `added` tools are appended, and above `most` chosen
    tools the oldest that were never called are dropped. Tools called in the turn stay. With
    `search`, a model that lacks tools of its agent gets the tool `find_tools`. `report` gets the
    cost of each step; the default logs it.

    Raises:
        SettingsError: `first` or `added` is less than 1.
    """

    each: bool = True
    first: int = 3
    added: int = 20
    most: int = 80
    search: bool = True
    report: Callable[[StepCost], None] = _log_cost

    def __post_init__(self) -> None:
        for name, count in (("first", self.first), ("added", self.added)):
            if count < 1:
                raise SettingsError(
                    f"StepOptions({name}={count}) adds no tool; give at least 1, or each=False"
                )


DEFAULT_STEPS = StepOptions()


class ShownTools(TypedDict):
    """Tools that a model is shown; plain data for checkpoints.

    `turn` is the key of the user's message, `task` its text, `decision` the decision's id. `names`
    are the agent's, in the prompt's order; `hidden` are its other tools. `ids` has the chosen
    tools by name, `shown` the ids of the conversation's tools.
    """

    turn: str
    task: str
    decision: str
    names: list[str]
    hidden: list[str]
    ids: dict[str, str]
    shown: list[str]


@dataclass(frozen=True, slots=True)
class RunStep:
    """Step of a turn: the model's last text, and the names of the tools called in the turn.

    `last` are the calls of its last message, `found` the tools that `find_tools` found.
    """

    text: str = ""
    called: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, calls: Iterable[Sequence[str]], found: Iterable[str] = ()) -> RunStep:
        """Step after messages with these calls; searches by the model do not count as calls."""
        made = [tuple(name for name in names if name != SEARCH.name) for names in calls]
        called = tuple(name for names in made for name in names)
        return cls(text, called, made[-1] if made else (), tuple(found))


@dataclass(frozen=True, slots=True)
class AgentTools:
    """Choice of the tools that an agent's model is shown: for a turn, then for each step of it."""

    crib: AnyCrib
    k: int | None = None
    always: tuple[str, ...] = ()
    steps: StepOptions = DEFAULT_STEPS

    def __post_init__(self) -> None:
        require_positive(self.k, "k")

    def for_turn(
        self,
        turn: Turn,
        names: Iterable[str],
        *,
        key: str = "",
        always: Iterable[str] = (),
        shown: Sequence[str] = (),
    ) -> ShownTools:
        """Choose tools for a turn; `always` are further names that are always included."""
        began = perf_counter()
        own, every = list(dict.fromkeys(names)), (*self.always, *always)
        if self.steps.search and SEARCH.name in own:
            raise SettingsError(
                f"the agent has its own tool {SEARCH.name!r}: give StepOptions(search=False)"
            )
        found = tools_for_turn(self.crib, turn, own, k=self.k, always=every, shown=shown)
        hidden = [name for name in own if name not in found.names]
        search = [SEARCH.name] if hidden and self.steps.search else []
        chosen: ShownTools = {
            "turn": key,
            "task": turn.text,
            "decision": found.decision.id,
            "names": [*search, *found.names],
            "hidden": hidden,
            "ids": dict(found.ids),
            "shown": list(dict.fromkeys((*shown, *found.ids.values()))),
        }
        self._report([], chosen, found.tokens, began)
        return chosen

    def for_step(self, shown: ShownTools, step: RunStep, scope: Scope | None) -> ShownTools:
        """Tools of a step: the shown tools, with tools that were found or called by name."""
        began, now, tokens = perf_counter(), shown, 0
        for find in (self._named_by_model, self._found_by_words):
            if added := find(now, step, scope):
                tokens += _tokens(spec for name, spec in added.items() if name in now["hidden"])
                now = self._append_tools(now, {name: spec.id for name, spec in added.items()}, step)
        self._report(shown["names"], now, tokens, began)
        return now

    def _report(self, before: Sequence[str], now: ShownTools, tokens: int, began: float) -> None:
        names = now["names"]
        added, dropped = {*names} - {*before}, {*before} - {*names}
        took_ms = (perf_counter() - began) * 1000
        self.steps.report(StepCost(len(names), len(added), len(dropped), tokens, took_ms))

    def _named_by_model(
        self, shown: ShownTools, step: RunStep, scope: Scope | None
    ) -> dict[str, ToolSpec]:
        """Hidden tools that the model called by name, or that its search found."""
        wanted = [name for name in (*step.found, *step.called) if name in shown["hidden"]]
        return callable_tools(self.crib, wanted, scope) if wanted else {}

    def _found_by_words(
        self, shown: ShownTools, step: RunStep, scope: Scope | None
    ) -> dict[str, ToolSpec]:
        """Tools found by the model's last text; none if the first of them are all shown."""
        text = step.text if has_words(step.text) else " ".join(step.last)
        if not (self.steps.each and shown["hidden"] and has_words(text)):
            return {}
        found = self.crib.find_tools(
            text,
            self.steps.added,
            scope=scope,
            where=self._own_tools_filter(shown),
            called=_ids(shown, step.called),
            task=shown["task"].strip() or text,
        )
        ids, ahead = set(shown["ids"].values()), found.tools[: self.steps.first]
        if all(hit.id in ids for hit in ahead):
            return {}
        named = self._by_own_names(shown, [hit.tool for hit in found.tools])
        is_shown = all(name in shown["names"] for name in list(named)[: self.steps.first])
        return {} if is_shown else named

    def search(
        self, shown: ShownTools, arguments: object, called: Sequence[str], scope: Scope | None
    ) -> tuple[str, list[str]]:
        """Answer a call of `find_tools`: a text for the model, and the names of tools to show."""
        specs = tools_wanted(
            self.crib,
            arguments,
            scope=scope,
            where=self._own_tools_filter(shown),
            called=_ids(shown, called),
        )
        named = self._by_own_names(shown, specs)
        lines = [f"- {name}: {summary(spec)}" for name, spec in named.items()]
        text = "\n".join(["You can call now:", *lines]) if lines else nothing_found(arguments)
        return text, list(named)

    afor_turn, afor_step, asearch = in_thread(for_turn), in_thread(for_step), in_thread(search)

    def _own_tools_filter(self, shown: ShownTools) -> Filter | None:
        """Filter of the agent's own tools within the limits of the settings."""
        names = (*shown["names"], *shown["hidden"])
        return all_of(has_key(map(name_key, names)), _limits(self.crib))

    def _by_own_names(self, shown: ShownTools, specs: Sequence[ToolSpec]) -> dict[str, ToolSpec]:
        """Found tools by the agent's names, in their order."""
        keys = {key for spec in specs for key in name_keys(spec)}
        names = [name for name in (*shown["names"], *shown["hidden"]) if name_key(name) in keys]
        known = known_tools(self.crib, names)
        named = {spec.id: name for name, of in reversed(known.items()) for spec in of}
        found: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.id in named:
                found.setdefault(named[spec.id], spec)
        return found

    def _append_tools(
        self, shown: ShownTools, added: Mapping[str, str], step: RunStep
    ) -> ShownTools:
        """List with added tools appended; above the limit, the oldest uncalled tools go."""
        ids = shown["ids"] | {name: added[name] for name in added if name in shown["hidden"]}
        stay = {*step.called, *added, *self.always}
        extra = max(0, len(ids) - self.steps.most)
        gone = set([name for name in ids if name not in stay][:extra])
        names = [name for name in dict.fromkeys((*shown["names"], *added)) if name not in gone]
        kept = {name: ids[name] for name in ids if name not in gone}
        hidden = [name for name in (*shown["hidden"], *gone) if name not in names]
        dropped = {ids[name] for name in gone}
        before = [tool_id for tool_id in shown["shown"] if tool_id not in dropped]
        return {
            **shown,
            "names": names,
            "hidden": hidden,
            "ids": kept,
            "shown": list(dict.fromkeys((*before, *kept.values()))),
        }


CALL_AGAIN = "If you are given it from now on, call it again."
"""End of the answer to a call of a tool outside the turn, which the next step may have."""


def refusal(shown: ShownTools | None, name: str) -> str:
    """Text for a call of a tool outside the turn or its scope; else empty."""
    if shown is None or name not in shown["hidden"]:
        return ""
    return f"{absence(shown, name)}. {CALL_AGAIN}"


def absence(shown: ShownTools, name: str) -> str:
    """Text for a call of a tool that the model was not shown; hidden tools are not named."""
    given = ", ".join(shown["names"]) or "none"
    return f"{name} is not among the tools of this turn: {given}"


def report_outcome(
    crib: AnyCrib, decision: str, tool: str, took_ms: float, *, failed: bool
) -> None:
    """Report the outcome of a call; an agent goes on if the report fails."""
    outcome = "failure" if failed else "success"
    try:
        crib.report_outcome(decision, tool, outcome, took_ms=took_ms)
    except ToolcribError:
        logger.warning("the outcome of a call of %s could not be reported", tool, exc_info=True)


def _ids(shown: ShownTools, names: Iterable[str]) -> list[str]:
    """Ids of called tools; the name of a tool without an id in the index."""
    return [shown["ids"].get(name, name) for name in names]


# -- searches by a model ----------------------------------------------------------------

SEARCH = ToolSpec(
    name=OwnTool.FIND_TOOLS.value,
    description=(
        "Load tools by what they can do. Write needs: one line for each tool that the task takes, "
        "saying what such a tool can do, as its own description would, without names, dates and "
        "other values. Search before you say that something cannot be done."
    ),
    input_schema={
        "type": "object",
        "properties": {"needs": {**NEEDS_PARAMETER, "minItems": 1}},
        "required": ["needs"],
        "additionalProperties": False,
    },
)
"""Tool by which a model searches for tools."""

NOTHING_FOUND = "No other tool fits. Use those that you have, or say what cannot be done."

NO_NEEDS = "Nothing was searched. Write needs: a list with one line for each tool that is needed."


def nothing_found(arguments: object) -> str:
    """Text for a model's search that found nothing, or stated no needs."""
    return NOTHING_FOUND if _needs(arguments) else NO_NEEDS


def _needs(arguments: object) -> list[str]:
    listed: Any = arguments.get("needs") if is_object(arguments) else None
    wanted = [listed] if isinstance(listed, str) else list_of(listed)
    return [each for each in wanted if isinstance(each, str) and has_words(each)][:MAX_NEEDS]


def tools_wanted(
    crib: AnyCrib,
    arguments: object,
    *,
    k: int = 5,
    scope: Scope | None = None,
    where: Filter | None = None,
    called: Sequence[str] | None = None,
) -> tuple[ToolSpec, ...]:
    """Find tools by the arguments of a model's search; tools that were `called` are left out."""
    if not (needs := _needs(arguments)):
        return ()
    found = crib.find_tools(
        needs=needs, k=max(k, len(needs)), scope=scope, where=where, called=called
    )
    return tuple(hit.tool for hit in found.tools)


def passage_metadata(hit: PassageHit) -> dict[str, Any]:
    """Metadata of a framework's document for a passage."""
    fields = as_json(hit)
    names = ("collection", "source", "title", "position", "citation")
    return {name: fields[name] for name in names}
