"""Questions: a language model or examples choose one of several classes for a turn.

A wrong question is refused when it is read; the error names the first wrong place, in the order
model, question, classes, template.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from toolcrib.encoders.base import DenseEncoder, FloatArray, encode_groups, query_rows
from toolcrib.errors import QuestionError, QuestionRenderError, did_you_mean, nearest
from toolcrib.extras import import_extra
from toolcrib.language_models import LanguageModel
from toolcrib.language_models.turns import prompt, read_label, shorten_turn
from toolcrib.numerics import Floats, softmax
from toolcrib.records import Message, Scope, Turn
from toolcrib.records.codec import FrozenModel, faults
from toolcrib.records.turns import Classification
from toolcrib.retrieval.examples import fit_few_shot
from toolcrib.retrieval.learned import LearnedChoices, RankedOptions, mix_shares
from toolcrib.retrieval.legs import has_words

Outputs: TypeAlias = Mapping[str, Any]
"""Outputs of earlier nodes of an agent's graph, by the node's name."""

WHOLE_QUESTION = "the whole"
MAX_TEMPLATE_CHARS = 20_000
ANSWER_JSON_TOKENS, ID_BYTES_PER_TOKEN = 10, 2
"""Tokens of an answer's JSON without the class id; bytes of the id for each token."""

COMPARISONS = ("eq", "ne", "in", "gt", "lt", "exists")
COMBINATIONS = ("and", "or", "not")


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 -- pydantic takes no other
            "put the value in quotes: YAML reads yes, no, on and off as true and false"
        )
    return str(value) if isinstance(value, int | float) else value


_Text = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEMPLATE_CHARS)
]
_Id = Annotated[_Text, BeforeValidator(_no_bool)]


class Condition(FrozenModel, populate_by_name=True):
    """Condition on the outputs of earlier nodes, under which a question is asked.

    Either a comparison, one of `eq`, `ne`, `in`, `gt`, `lt` and `exists`; or `and`, `or` of
    conditions; or `not` of one condition. A comparison tests the value at `path` (steps joined by
    dots; empty for the whole output) of the node `from`, and may be written `{"op": "eq", "value":
    ...}`. A missing value is unequal to every value.
    """

    node: str | None = Field(default=None, alias="from", min_length=1)
    path: str = ""
    eq: Any = None
    ne: Any = None
    among: tuple[Any, ...] | None = Field(default=None, alias="in")
    gt: float | str | None = None
    lt: float | str | None = None
    exists: bool | None = None
    every: tuple[Condition, ...] | None = Field(default=None, alias="and", min_length=1)
    some: tuple[Condition, ...] | None = Field(default=None, alias="or", min_length=1)
    negated: Condition | None = Field(default=None, alias="not")

    @model_validator(mode="before")
    @classmethod
    def _of_op(cls, given: Any) -> Any:
        """Read `{"op": "eq", "value": ...}` as `{"eq": ...}`."""
        if not isinstance(given, Mapping):
            return given
        fields = dict(cast("Mapping[str, Any]", given))
        if "op" not in fields:
            return fields
        op, value = fields.pop("op"), fields.pop("value", None)
        if op not in COMPARISONS:
            raise ValueError(f"op: there is no {op!r}; there are {', '.join(COMPARISONS)}")
        return {**fields, op: True if op == "exists" and value is None else value}

    @model_validator(mode="after")
    def _has_one_operator(self) -> Condition:
        if len(self._operators()) != 1:
            known = ", ".join((*COMPARISONS, *COMBINATIONS))
            raise ValueError(f"give exactly one of {known}")
        is_leaf = self._operators()[0] in COMPARISONS
        if is_leaf != (self.node is not None):
            raise ValueError(
                "`from` must name a node" if is_leaf else "`from` goes with a comparison alone"
            )
        return self

    def _operators(self) -> list[str]:
        given = {
            field.alias or name
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set
            and (getattr(self, name) is not None or (field.alias or name) in COMPARISONS)
        }
        return [name for name in (*COMPARISONS, *COMBINATIONS) if name in given]

    def holds(self, outputs: Outputs) -> bool:
        """True if the condition holds for these outputs."""
        if self.every is not None:
            return all(each.holds(outputs) for each in self.every)
        if self.some is not None:
            return any(each.holds(outputs) for each in self.some)
        if self.negated is not None:
            return not self.negated.holds(outputs)
        found = _value_at(outputs, [cast("str", self.node), *filter(None, self.path.split("."))])
        return self._compare(self._operators()[0], found)

    def _compare(self, operator: str, found: Sequence[Any]) -> bool:
        """Compare the value in a list of one; an empty list means a missing value."""
        if operator == "exists":
            return bool(found) == self.exists
        if operator == "ne":
            return self.ne not in found
        if operator == "in":
            return any(each in (self.among or ()) for each in found)
        if operator == "eq":
            return self.eq in found
        if operator == "gt":
            return any(_is_less(self.gt, each) for each in found)
        return any(_is_less(each, self.lt) for each in found)


def _is_less(one: Any, other: Any) -> bool:
    """Compare two numbers or two texts; values of other types are never less."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    try:
        return bool(one < other)
    except TypeError:
        return False


def _value_at(found: Any, steps: Sequence[str]) -> list[Any]:
    """Value at a path, in a list of one; an empty list if the value is missing."""
    for step in steps:
        if isinstance(found, Mapping) and step in found:
            found = cast("Mapping[str, Any]", found)[step]
        elif (
            isinstance(found, list | tuple)
            and step.isdecimal()
            and int(step) < len(items := cast("Sequence[Any]", found))
        ):
            found = items[int(step)]
        else:
            return []
    return [found]


class QuestionClass(FrozenModel):
    """Class of a question: its id, and the texts that describe it."""

    id: _Id
    name: str = ""
    description: str = ""
    examples: tuple[_Text, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Name, description and examples, for the encoder."""
        name, about = self.name or self.id, self.description
        described = (f"{name}: {about}", about) if about.strip() else ()
        return (name, *described, *self.examples)

    @property
    def line(self) -> str:
        """Class in one line, for a model's prompt."""
        line = ": ".join(filter(None, (self.id, self.name, self.description)))
        return f"{line} For example: {'; '.join(self.examples)}" if self.examples else line


class QuestionConfig(FrozenModel):
    """Question with several classes, of which one fits a turn.

    `question` is a Jinja2 template over `text`, `history`, `attachments`, `metadata`, `outputs` and
    the caller's variables. `default`: class for turns that fit none, by default the first class.
    `unmatched`: class if a model's answer names none: `default`, or the encoder's choice
    (`examples`). `api_base` and `api_key`: server for this question; without them `model` runs on
    the server in the settings (`llm`).
    """

    model: _Text
    question: _Text
    classes: tuple[QuestionClass, ...]
    default: _Id | None = None
    unmatched: Literal["default", "examples"] = "default"
    run_if: Condition | None = None
    api_base: str | None = Field(default=None, pattern=r"^https?://")
    api_key: SecretStr | None = None
    temperature: float | None = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _classes_differ(self) -> QuestionConfig:
        ids = [each.id for each in self.classes]
        folded = Counter(each.casefold() for each in ids)
        if len(ids) < 2:  # noqa: PLR2004 -- a choice needs two
            raise ValueError(f"classes: there must be at least two, and there are {len(ids)}")
        twice = [name for name in ids if folded[name.casefold()] > 1]
        if twice:
            raise ValueError(f"classes: the id {twice[-1]!r} occurs more than once, ignoring case")
        if self.default is not None and self.default not in ids:
            near = did_you_mean(nearest(self.default, ids))
            raise ValueError(f"default: there is no class {self.default!r}{near}")
        return self

    @property
    def answer_tokens(self) -> int:
        """Tokens of an answer: `max_tokens`, or more if the longest id in JSON needs more."""
        longest = max(len(each.id.encode()) for each in self.classes)
        return max(self.max_tokens, ANSWER_JSON_TOKENS + longest // ID_BYTES_PER_TOKEN)

    @property
    def otherwise(self) -> str:
        """Id of the class for turns that fit none."""
        return self.default or self.classes[0].id


def load_question(source: str | Path | Mapping[str, Any] | QuestionConfig) -> QuestionConfig:
    """Read a question from a file (JSON or YAML) or a mapping, and check all of it.

    Raises:
        QuestionError: the source cannot be read, or is wrong; the message names the first wrong
            place.
        MissingExtraError: the extra `questions` is not installed.
    """
    where, found = (
        ("question", source) if not isinstance(source, str | Path) else _read_file(source)
    )
    try:
        made = QuestionConfig.model_validate(found)
    except ValidationError as error:
        place, reason = faults(error, WHOLE_QUESTION)[0]
        message = reason if place == WHOLE_QUESTION else f"{place}: {reason}"
        # Not `from error`: the source may hold a key, and a traceback would show it.
        raise QuestionError(f"{where}: {message}") from None
    QuestionTemplate(made.question, where)
    return made


def _read_file(source: str | Path) -> tuple[str, Any]:
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise QuestionError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, yaml.YAMLError) as error:
        kind = "JSON" if path.suffix == ".json" else "YAML"
        raise QuestionError(f"{path}: is not {kind}{_line_of(error)}") from None
    if not isinstance(found, Mapping):
        raise QuestionError(f"{path}: must hold `model`, `question` and `classes`")
    return str(path), cast("object", found)


def _line_of(error: Exception) -> str:
    """Line number of an error in a file; the line's text may hold a key."""
    mark = getattr(error, "problem_mark", None)
    number = mark.line + 1 if mark is not None else getattr(error, "lineno", None)
    return "" if number is None else f", line {number}"


# -- templates -------------------------------------------------------------------------------


class QuestionTemplate:
    """Template of a question, in a sandbox; a missing variable is an error.

    Raises:
        QuestionError: the text is no template.
        MissingExtraError: the extra `questions` is not installed.
    """

    def __init__(self, text: str, where: str = "question") -> None:
        jinja, sandbox, meta = (
            import_extra(name, "a question's template", "questions")
            for name in ("jinja2", "jinja2.sandbox", "jinja2.meta")
        )
        environment = sandbox.ImmutableSandboxedEnvironment(undefined=jinja.StrictUndefined)
        try:
            self._template = environment.from_string(text)
            self.variables: frozenset[str] = frozenset(
                meta.find_undeclared_variables(environment.parse(text))
            )
        except jinja.TemplateError as error:
            line = getattr(error, "lineno", None)
            at = f" in line {line}" if line else ""
            raise QuestionError(f"{where}: question: is no template: {error}{at}") from error

    def render(self, variables: Mapping[str, Any]) -> str:
        """Render the template.

        Raises:
            QuestionRenderError: a variable is missing, or the sandbox forbids an expression.
        """
        try:
            return self._template.render(variables)
        except Exception as error:
            # A template raises the errors of its expressions.
            raise QuestionRenderError(f"question: cannot be filled in: {error}") from error


# -- classifier ------------------------------------------------------------------------------

MIN_FIT, MIN_FIT_WITH_DEFAULT = 0.1, 0.3
"""Probability that any class fits below which the default is chosen; the second is for questions
that name a default. It rejects a quarter of the texts that belong to no class."""

MIN_LEARNED_SHARE = 0.5
"""Minimum share of learned examples by which a class fits, whatever its texts."""

QUESTION_RULES = (
    "You sort messages. Read the question and answer with the id of the one class that fits best, "
    "and nothing else."
)


class _Branch(BaseModel):
    """The id of the class that fits best."""

    branch: str


def _branch_type(ids: Sequence[str]) -> type[_Branch]:
    """Type of a model's answer: one of the ids, or text that may name one.

    An unknown id or other text matches no class: a second call would not help.
    """

    class Branch(_Branch):
        """The id of the class that fits best."""

        branch: str = Field(json_schema_extra={"enum": list(ids)})

        @classmethod
        def of_words(cls, words: str) -> Branch | None:
            """Answer in words, which may name no class; None for JSON that names none."""
            is_text = has_words(words) and not words.lstrip().startswith(("{", "["))
            is_named = read_label(words, ids) is not None
            return cls(branch=words) if is_text or is_named else None

    return Branch


@dataclass(eq=False, repr=False)
class QuestionClassifier:
    """Classifier of turns by one question; thread-safe.

    Without a `model`, or if the model fails or is late, a few-shot head over names, descriptions
    and examples is the fallback, and the answer is marked. `learned_choices` of the choice `name`
    add to the head.
    """

    question: QuestionConfig
    dense: DenseEncoder
    model: LanguageModel | None
    name: str
    learned_choices: LearnedChoices = field(default_factory=LearnedChoices)

    def __post_init__(self) -> None:
        self._template = QuestionTemplate(self.question.question)
        classes = self.question.classes
        self._ids = [each.id for each in classes]
        self._branch = _branch_type(self._ids)
        lines = "\n".join(each.line for each in classes)
        self._rules = f"{QUESTION_RULES}\n\nThe classes, each with its id first:\n{lines}"
        self._head = fit_few_shot(encode_groups(self.dense, [each.texts for each in classes]))

    def classify(
        self,
        turn: Turn | str,
        *,
        variables: Mapping[str, Any] | None = None,
        outputs: Outputs | None = None,
        by_model: bool = True,
    ) -> Classification:
        """Class of a turn; `variables` and earlier nodes' `outputs` are for the template.

        Without `by_model` no model is called.

        Raises:
            QuestionRenderError: the template needs a missing variable.
            EncoderError: the encoder cannot be used.
        """
        run_if = self.question.run_if
        if run_if is not None and not run_if.holds(outputs or {}):
            return Classification(None, matched=False, skipped=True)
        turn = Turn.of(turn)
        messages, text = self._render(turn, variables or {}, outputs or {})
        if self.model is not None and by_model:
            answer, _ = self.model.try_ask("questions", messages, self._branch)
            branch = answer and read_label(answer.branch, self._ids)
            if branch is not None or (answer and self.question.unmatched == "default"):
                return Classification(branch or self.question.otherwise, matched=branch is not None)
        return self._by_examples(text)

    def shown_turn(self, turn: Turn, variables: Mapping[str, Any], outputs: Outputs) -> Turn:
        """Turn with the values that the template shows among its metadata, to judge them too."""
        given = {"outputs": outputs, **variables}
        shown = {name: given[name] for name in given if name in self._template.variables}
        return turn.model_copy(update={"metadata": {"turn": turn.metadata, "template": shown}})

    def _render(
        self, turn: Turn, variables: Mapping[str, Any], outputs: Outputs
    ) -> tuple[Sequence[Message], str]:
        """Messages to a model, and the text to encode."""
        turn = shorten_turn(turn)
        known = turn.model_dump(include={"text", "history", "attachments", "metadata"})
        rendered = self._template.render({**known, "outputs": outputs, **variables})
        has_place = "text" in self._template.variables
        shown = rendered if has_place or not turn.text else f"{rendered}\n\n{turn.text}"
        # The template's own words are equal for all turns, and so no evidence.
        return prompt(self._rules, shown), turn.text if turn.text or has_place else rendered

    def _by_examples(self, text: str) -> Classification:
        otherwise = self.question.otherwise
        if not has_words(text):
            return Classification(otherwise, matched=False, degraded=("llm",))
        query, odds = self._odds(text)
        fits = self._head.probability(float(odds.max()))
        taught = self.learned_choices.shares(self.name, self._ids, query)
        least = MIN_FIT_WITH_DEFAULT if self.question.default else MIN_FIT
        if fits < least and max(taught.values(), default=0.0) < MIN_LEARNED_SHARE:
            return Classification(otherwise, matched=False, confidence=1 - fits, degraded=("llm",))
        likely = mix_shares(self._shares(odds), taught)
        best = max(likely, key=lambda name: likely[name])
        return Classification(best, matched=True, confidence=likely[best], degraded=("llm",))

    def rank(self, text: str, _scope: Scope | None = None) -> RankedOptions:
        """Probabilities of the classes for a text without learned examples."""
        query, odds = self._odds(text)
        return RankedOptions(query, self._shares(odds))

    def _odds(self, text: str) -> tuple[FloatArray, Floats]:
        [query] = query_rows(self.dense, text)
        return query, self._head.odds(query, range(len(self._ids)))

    def _shares(self, odds: Floats) -> dict[str, float]:
        return dict(zip(self._ids, softmax(odds).tolist(), strict=True))
