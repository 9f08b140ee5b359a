"""Capabilities that an agent can activate, and their selection for a turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from random import Random
from typing import Annotated, Any, TypeVar, cast

import numpy as np
from pydantic import (
    BaseModel,
    StrictBool,
    StringConstraints,
    ValidationError,
    model_validator,
)

from toolcrib.encoders.base import (
    ClauseEncoder,
    DenseEncoder,
    FloatArray,
    encode_groups,
    query_rows,
)
from toolcrib.errors import (
    CapabilityError,
    EncoderError,
    LanguageModelError,
    SettingsError,
    did_you_mean,
    nearest,
    require_type,
)
from toolcrib.language_models import FieldwiseAnswer, LanguageModel
from toolcrib.language_models.turns import YesOrNo, prompt, read_yes, show_turn
from toolcrib.numerics import Floats, sigmoid
from toolcrib.records import Scope, Turn
from toolcrib.records.codec import FrozenModel, in_words, read_yaml
from toolcrib.records.turns import CapabilitySelection, FailedCapability
from toolcrib.retrieval.examples import fit_few_shot
from toolcrib.retrieval.learned import CAPABILITIES, LearnedChoices, RankedOptions
from toolcrib.retrieval.legs import has_words
from toolcrib.router.choices.flow import LoopState, next_node
from toolcrib.router.recovery import ErrorClass
from toolcrib.router.settings import CapabilitySettings, OrchestrationMode, RecoverySettings

ENTRY_POINT_GROUP = "toolcrib.capabilities"
"""Group of entry points of packages; each names a capability, a registry, or a list of both."""

_NonEmpty = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Work = TypeVar("_Work", bound=Callable[..., Any])


class CapabilityExample(FrozenModel):
    """Request, the need of the capability, and a reason; also written `[query, use, reason]`."""

    query: _NonEmpty
    use: StrictBool
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _of_list(cls, given: Any) -> Any:
        if isinstance(given, list | tuple):
            return dict(zip(cls.model_fields, cast("Iterable[Any]", given), strict=False))
        return given


class Capability(FrozenModel):
    """Capability that an agent can activate for a turn.

    `description`: for the selection; `instructions`: for the agent while the capability is active.
    `requires`: other capabilities by name, or by what they provide; these become active too.
    `always_active`: active without a selection. `severity`: class of its errors, for
    `RecoveryPolicy.next_step`.
    """

    name: _NonEmpty
    description: _NonEmpty
    instructions: str = ""
    examples: tuple[CapabilityExample, ...] = ()
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    always_active: bool = False
    severity: ErrorClass | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """Name, description, and requests that need the capability, for the encoder."""
        name = self.name.replace("_", " ").replace("-", " ")
        queries = (each.query for each in self.examples if each.use)
        return (name, self.description, f"{name}: {self.description}", *queries)


class _CapabilityFile(BaseModel):
    capabilities: tuple[Capability, ...]


class CapabilityRegistry:
    """Capabilities by name, in order of addition."""

    def __init__(self, capabilities: Iterable[Capability] = ()) -> None:
        self._known: dict[str, Capability] = {}
        self.work: dict[str, Callable[..., Any]] = {}
        """Decorated functions, by the capability's name."""
        self.add(*capabilities)

    @classmethod
    def load(cls, file: str | Path) -> CapabilityRegistry:
        """Read a YAML or JSON file with a list under `capabilities`.

        Raises:
            CapabilityError: the file cannot be read, or a place in it is wrong.
        """
        try:
            made = cls(read_yaml(file, _CapabilityFile, "the capabilities").capabilities)
        except SettingsError as error:
            raise CapabilityError(str(error)) from error
        made.check()
        return made

    @classmethod
    def of_packages(cls) -> CapabilityRegistry:
        """Load the capabilities of installed packages, by their entry points.

        Raises:
            CapabilityError: an entry point cannot be loaded, or is no capability.
        """
        made = cls()
        for point in entry_points(group=ENTRY_POINT_GROUP):
            try:
                loaded = point.load()
            except Exception as error:
                raise CapabilityError(f"{point.value}: cannot be loaded: {error}") from error
            made.add(*_all_of(loaded, point.value))
        return made

    @classmethod
    def of(cls, source: str | Path | CapabilityRegistry | None) -> CapabilityRegistry:
        """Registry from a file, from installed packages (None), or as given."""
        if isinstance(source, CapabilityRegistry):
            return source
        return cls.of_packages() if source is None else cls.load(source)

    def add(self, *capabilities: Capability) -> None:
        """Append capabilities.

        Raises:
            CapabilityError: two capabilities have the same name.
        """
        for each in capabilities:
            if each.name in self._known:
                raise CapabilityError(f"there are two capabilities {each.name!r}")
            self._known[each.name] = each

    def capability(self, name: str = "", **fields: Any) -> Callable[[_Work], _Work]:
        """Register the decorated function; its name and docstring are the defaults.

        Raises:
            QueryError: the decorator has no brackets, or the name is no text.
        """
        require_type(name, str, "name of a capability", "a text; write `@registry.capability()`")

        def register(work: _Work) -> _Work:
            about = fields.get("description") or (work.__doc__ or "").strip()
            own_name = name or getattr(work, "__name__", "")
            given = {**fields, "name": own_name, "description": about}
            try:
                self.add(Capability.model_validate(given))
            except ValidationError as error:
                raise CapabilityError(f"{own_name}: {in_words(error)}") from error
            self.work[own_name] = work
            return work

        return register

    def check(self) -> None:
        """Check that every requirement has a provider.

        Raises:
            CapabilityError: a requirement is not provided.
        """
        known = [*self._known, *(what for each in self for what in each.provides)]
        for each in self:
            for what in each.requires:
                if what not in known:
                    near = did_you_mean(nearest(what, known))
                    raise CapabilityError(f"{each.name}: nothing provides {what!r}{near}")

    def __iter__(self) -> Iterator[Capability]:
        return iter(self._known.values())

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, name: str) -> Capability:
        if name not in self._known:
            near = did_you_mean(nearest(name, self._known))
            raise CapabilityError(f"there is no capability {name!r}{near}")
        return self._known[name]

    def with_required(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names with all requirements: always-active ones first, then in the registry's order.

        If several capabilities provide a requirement, an active one is taken, or else the first.
        """
        names = tuple(names)
        active = set(names)
        open_ = [self[name] for name in dict.fromkeys(names)]
        while open_:
            for what in open_.pop().requires:
                giving = [each.name for each in self if what in (each.name, *each.provides)]
                if giving and active.isdisjoint(giving):
                    active.add(giving[0])
                    open_.append(self[giving[0]])
        chosen = [each for each in self if each.name in active]
        return tuple(each.name for each in sorted(chosen, key=lambda each: not each.always_active))


def _all_of(loaded: Any, where: str) -> Iterator[Capability]:
    if isinstance(loaded, Capability):
        yield loaded
    elif isinstance(loaded, Iterable):
        for each in cast("Iterable[Any]", loaded):
            yield from _all_of(each, where)
    else:
        raise CapabilityError(f"{where}: is neither a capability nor a list of capabilities")


# -- selection -------------------------------------------------------------------------------

OWN_LOG_ODDS_WEIGHT, LEAD_WEIGHT, SELECTION_OFFSET = 0.662, 0.292, -3.82
"""Logistic regression of the need of a capability, fitted on `data/capabilities`: weights of its
few-shot log-odds and of their lead over the best other capability, and the offset."""

BACKGROUND_LOG_ODDS = 4.0
"""Log-odds of a capability that does not concern the text: the minimum for leads."""

NEGATIVE_EXAMPLE_PENALTY = 45.0
"""Log-odds lost per unit of cosine by which a negative example is nearer than all positive ones."""

_BYPASS_SWITCH = re.compile(r"^[^\S\n]{0,99}/caps:(on|off)(?!\S)", re.IGNORECASE | re.MULTILINE)
"""Switch at the start of a line: elsewhere a text only mentions the switch."""

CAPABILITY_RULES = (
    "Decide whether the user's request needs the capability {name!r}, in whole or in part. Only a "
    "clear need counts.\n\n{name}: {description}"
)
MAX_FAILURE_CHARS = 1_000


class CapabilityVerdict(FieldwiseAnswer):
    """Verdict on the need of a capability: a short reason, then yes or no."""

    reason: str = ""
    active: YesOrNo

    @classmethod
    def of_words(cls, words: str) -> CapabilityVerdict | None:
        """Verdict of an answer that begins with yes or no; None for other words."""
        active = read_yes(words)
        return cls(active=active) if isinstance(active, bool) else None


@dataclass(eq=False, repr=False)
class CapabilitySelector:
    """Selector of the capabilities that are active for a turn; thread-safe.

    With a `model` each capability takes one call, in parallel as far as the model allows. A
    capability whose call fails is inactive, and reported. Without a model, or if all calls fail,
    examples and descriptions decide. `learned_choices` add to these, and deactivate nothing.
    """

    registry: CapabilityRegistry
    dense: DenseEncoder
    model: LanguageModel | None
    settings: CapabilitySettings
    limits: RecoverySettings
    mode: OrchestrationMode
    learned_choices: LearnedChoices = field(default_factory=LearnedChoices)

    def __post_init__(self) -> None:
        self.registry.check()
        self._optional = [each for each in self.registry if not each.always_active]
        self.always = frozenset(each.name for each in self.registry if each.always_active)
        self._rows = encode_groups(self.dense, [each.texts for each in self._optional])
        negative = [[ex.query for ex in each.examples if not ex.use] for each in self._optional]
        self._negative_rows = encode_groups(self.dense, negative)
        self._head = fit_few_shot(self._rows) if self._optional else None

    def select(
        self,
        turn: Turn | str,
        *,
        bypass: bool | None = None,
        state: LoopState | None = None,
        by_model: bool = True,
    ) -> CapabilitySelection:
        """Capabilities that are active for a turn.

        `bypass`: True activates all, False selects; overrides the conversation's switch
        (`/caps:off`, `/caps:on`) and the settings. `state`: of an agent's loop; after a failure
        capabilities are selected again, at most `recovery.reclassifications` times. Without
        `by_model` no model is called.
        """
        turn = Turn.of(turn)
        state = state or LoopState()
        made = self._select(turn, bypass, state, self.model if by_model else None)
        if "reclassification_limit" in made.signals:
            after = replace(state, error=state.error or "reclassify")
        else:
            after = replace(state, task=state.task or turn.text, **made.update)
        return replace(made, next=next_node(after, self.mode, self.limits).node)

    def _select(
        self,
        turn: Turn,
        bypass: bool | None,  # noqa: FBT001 -- private
        state: LoopState,
        model: LanguageModel | None,
    ) -> CapabilitySelection:
        count = state.reclassifications + bool(state.failure)
        if state.failure and count > self.limits.reclassifications:
            return CapabilitySelection(
                state.capabilities or self.registry.with_required(self.always),
                reclassifications=state.reclassifications,
                signals=("reclassification_limit",),
            )
        signals = ("reclassified",) if state.failure else ()
        if self._is_bypassed(turn, bypass):
            everything = self.registry.with_required(each.name for each in self.registry)
            return CapabilitySelection(
                everything, bypassed=True, reclassifications=count, signals=(*signals, "bypassed")
            )
        turn = turn.model_copy(update={"text": _BYPASS_SWITCH.sub("", turn.text).strip()})
        made = self._by_model(model, turn, state.failure) if model and self._optional else None
        made = made or self._by_examples(turn.text)
        signals = signals if made.active else (*signals, "nothing_selected")
        active = self.registry.with_required([*self.always, *made.active])
        return replace(made, active=active, reclassifications=count, signals=signals)

    def _is_bypassed(self, turn: Turn, bypass: bool | None) -> bool:  # noqa: FBT001 -- private
        if bypass is not None:
            return bypass
        texts = (*(each.content for each in turn.history if each.role == "user"), turn.text)
        switches = [found.lower() for text in texts for found in _BYPASS_SWITCH.findall(text)]
        return switches[-1] == "off" if switches else self.settings.bypass

    def _by_model(
        self, model: LanguageModel, turn: Turn, failure: str
    ) -> CapabilitySelection | None:
        """Selection by one call for each capability; None if all calls fail."""
        shown = show_turn(turn)
        prompts = [prompt(self._rules(each, failure), shown) for each in self._optional]
        # A deadline for each call would add up if the server hangs.
        time_s = model.time_s("capabilities")
        answers = model.ask_each("capabilities", prompts, CapabilityVerdict, timeout_s=time_s)
        by_name = dict(zip((each.name for each in self._optional), answers, strict=True))
        failed = tuple(
            FailedCapability(name, str(answer))
            for name, answer in by_name.items()
            if isinstance(answer, LanguageModelError)
        )
        if len(failed) == len(answers):
            return None
        active = tuple(
            name
            for name, answer in by_name.items()
            if isinstance(answer, CapabilityVerdict) and answer.active
        )
        return CapabilitySelection(active, failed=failed, degraded=("llm",) if failed else ())

    def _rules(self, capability: Capability, failure: str) -> str:
        name, description = capability.name, capability.description
        parts = [CAPABILITY_RULES.format(name=name, description=description)]
        examples = list(capability.examples)
        # Models favour the first and the last example; a fixed seed fixes the order.
        Random(f"{self.settings.seed}:{name}").shuffle(examples)  # noqa: S311 -- no secret
        for each in examples:
            answer = "yes" if each.use else "no"
            parts.append(f"Request: {each.query}\nNeeded: {answer}. {each.reason}".rstrip())
        if failure:
            failure = failure[:MAX_FAILURE_CHARS]
            parts.append(f"Capabilities were selected before, and it failed: {failure}")
        return "\n\n".join(parts)

    def _by_examples(self, text: str) -> CapabilitySelection:
        degraded = ("llm",) if self._optional else ()
        if self._head is None or not has_words(text):
            return CapabilitySelection((), degraded=degraded)
        try:
            query, likely = self.rank(text)
        except EncoderError as error:
            failed = tuple(FailedCapability(each.name, str(error)) for each in self._optional)
            return CapabilitySelection((), failed=failed, degraded=(*degraded, "encoder"))
        threshold = self.settings.threshold
        likely = self.learned_choices.mix(CAPABILITIES, likely, query, threshold)
        active = tuple(name for name, each in likely.items() if each >= threshold)
        return CapabilitySelection(active, likely, degraded=degraded)

    def rank(self, text: str, _scope: Scope | None = None) -> RankedOptions:
        """Probability of each capability's need, by the clause with the highest need.

        Learned examples do not count.
        """
        clauses = self.dense if isinstance(self.dense, ClauseEncoder) else None
        queries = query_rows(self.dense, text, clauses)
        logits: Floats = np.max([self._logits(query) for query in queries], axis=0)
        likely = sigmoid(logits)
        names = (each.name for each in self._optional)
        return RankedOptions(queries[0], dict(zip(names, likely.tolist(), strict=True)))

    def _logits(self, query: FloatArray) -> Floats:
        assert self._head is not None
        odds = self._head.odds(query, range(len(self._optional)))
        for place, (needed, negative) in enumerate(
            zip(self._rows, self._negative_rows, strict=True)
        ):
            if len(negative):
                lead = float((negative @ query).max() - (needed @ query).max())
                odds[place] -= NEGATIVE_EXAMPLE_PENALTY * max(0.0, lead)
        leads = [
            own - max((BACKGROUND_LOG_ODDS, *odds[:place], *odds[place + 1 :]))
            for place, own in enumerate(odds)
        ]
        return OWN_LOG_ODDS_WEIGHT * odds + LEAD_WEIGHT * np.array(leads) + SELECTION_OFFSET
