"""Question: what is asked of a turn, between which classes, and when; read and checked.

Whatever is wrong is said before anything is asked, in the order model, question, classes, how many
there are, template.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from toolcrib.errors import QuestionError, QuestionRenderError, did_you_mean, nearest
from toolcrib.extras import import_extra
from toolcrib.records.codec import faults

__all__ = [
    "Condition",
    "Outputs",
    "QuestionClass",
    "QuestionConfig",
    "QuestionTemplate",
    "load_question",
]

Outputs: TypeAlias = Mapping[str, Any]
"""What earlier nodes of an agent's graph gave, by the node's name."""

WHOLE = "the whole"
MAX_TEMPLATE = 20_000
OPERATORS = ("eq", "ne", "in", "gt", "lt", "exists")
COMBINED = ("and", "or", "not")


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(  # noqa: TRY004 -- pydantic takes no other
            "put it in quotes: YAML takes yes, no, on and off for true and false"
        )
    return str(value) if isinstance(value, int | float) else value


_Said = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEMPLATE)
]
_Id = Annotated[_Said, BeforeValidator(_no_bool)]


class Condition(BaseModel):
    """Whether a question is asked, by what earlier nodes gave.

    Either one of `eq`, `ne`, `in`, `gt`, `lt` and `exists` of what stands at `path` (steps with
    dots between them, the whole output without one) in the output of the node `from`; or `and`,
    `or` of conditions, or `not` of one. What is not there is unequal to everything.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

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

    @model_validator(mode="after")
    def _says_one_thing(self) -> Condition:
        if len(self._said()) != 1:
            known = ", ".join((*OPERATORS, *COMBINED))
            raise ValueError(f"give exactly one of {known}")
        is_leaf = self._said()[0] in OPERATORS
        if is_leaf != (self.node is not None):
            raise ValueError(
                "`from` must name a node" if is_leaf else "`from` goes with a comparison alone"
            )
        return self

    def _said(self) -> list[str]:
        given = {
            field.alias or name
            for name, field in type(self).model_fields.items()
            if name in self.model_fields_set
        }
        return [name for name in (*OPERATORS, *COMBINED) if name in given]

    def holds(self, outputs: Outputs) -> bool:
        """Whether it holds for what nodes gave."""
        if self.every is not None:
            return all(each.holds(outputs) for each in self.every)
        if self.some is not None:
            return any(each.holds(outputs) for each in self.some)
        if self.negated is not None:
            return not self.negated.holds(outputs)
        found = _at(outputs, [cast("str", self.node), *filter(None, self.path.split("."))])
        return self._compared(self._said()[0], found)

    def _compared(self, operator: str, found: Sequence[Any]) -> bool:
        """`found`: what stands there, alone in a list, or nothing."""
        if operator == "exists":
            return bool(found) == self.exists
        if operator == "ne":
            return self.ne not in found
        if operator == "in":
            return any(each in (self.among or ()) for each in found)
        if operator == "eq":
            return self.eq in found
        return any(_is_beyond(each, self.gt, self.lt) for each in found)


def _is_beyond(found: Any, above: float | str | None, below: float | str | None) -> bool:
    """Whether a value is above the one, or below the other bound; what cannot be compared is not.

    `above` and `below`: one of them is given.
    """
    bound = below if above is None else above
    if bound is None or isinstance(found, bool):
        return False
    if isinstance(found, str) is not isinstance(bound, str):
        return False
    try:
        return found < bound if above is None else found > bound
    except TypeError:
        return False


def _at(found: Any, steps: Sequence[str]) -> list[Any]:
    """What stands at a path, in a list; an empty one where nothing does."""
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


class QuestionClass(BaseModel):
    """A class of a question: its id, and what tells people, models and the encoder what it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: _Id
    name: str = ""
    description: str = ""
    examples: tuple[_Said, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """Everything that says what belongs to it."""
        name = self.name or self.id
        told = (f"{name}: {self.description}", self.description) if self.description.strip() else ()
        return (name, *told, *self.examples)


class QuestionConfig(BaseModel):
    """A question of several classes, of which one fits a turn.

    `question` is a Jinja2 template over `text`, `history`, `attachments`, `metadata`, `outputs`
    and whatever variables are handed in. `default` is the class for what fits none, the first
    unless given. `api_base` and `api_key` name a server of its own; without them `model` is asked
    of the one in the settings (`llm`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: _Said
    question: _Said
    classes: tuple[QuestionClass, ...]
    default: _Id | None = None
    run_if: Condition | None = None
    api_base: str | None = Field(default=None, pattern=r"^https?://")
    api_key: SecretStr | None = None
    temperature: float | None = Field(default=0.0, ge=0)
    max_tokens: int = Field(default=16, ge=1)

    @model_validator(mode="after")
    def _classes_can_be_chosen_from(self) -> QuestionConfig:
        ids = [each.id for each in self.classes]
        if len(ids) < 2:  # noqa: PLR2004 -- as many as a choice needs
            raise ValueError(f"classes: there must be at least two, and there are {len(ids)}")
        twice = [name for name, count in Counter(ids).items() if count > 1]
        if twice:
            raise ValueError(f"classes: the id {twice[0]!r} is there more than once")
        if self.default is not None and self.default not in ids:
            near = did_you_mean(nearest(self.default, ids))
            raise ValueError(f"default: there is no class {self.default!r}{near}")
        return self

    @property
    def otherwise(self) -> str:
        """The id of the class for what fits none."""
        return self.default or self.classes[0].id


def load_question(source: str | Path | Mapping[str, Any] | QuestionConfig) -> QuestionConfig:
    """The question of a file (JSON or YAML) or a mapping, checked whole.

    Raises:
        QuestionError: it cannot be read, or something in it is wrong; the first thing is named.
        MissingExtraError: the extra `questions` is not installed.
    """
    where, found = ("question", source) if not isinstance(source, str | Path) else _read(source)
    try:
        made = QuestionConfig.model_validate(found)
    except ValidationError as error:
        place, reason = min(faults(error, WHOLE), key=_order)
        told = reason if place == WHOLE else f"{place}: {reason}"
        # Not `from error`: what was given may hold a key, and a traceback would show it.
        raise QuestionError(f"{where}: {told}") from None
    QuestionTemplate(made.question, where)
    return made


def _order(fault: tuple[str, str]) -> int:
    """In which order things that are wrong are said: that of the fields, the unknown ones last."""
    names = list(QuestionConfig.model_fields)
    name = fault[0].partition(".")[0]
    return names.index(name) if name in names else len(names)


def _read(source: str | Path) -> tuple[str, Any]:
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
    """Where the text is wrong; what stands there may be a key."""
    mark = getattr(error, "problem_mark", None)
    number = mark.line + 1 if mark is not None else getattr(error, "lineno", None)
    return "" if number is None else f", line {number}"


# -- templates -------------------------------------------------------------------------------


class QuestionTemplate:
    """A question's template: sandboxed, and strict about variables that are not there.

    Raises:
        QuestionError: it is no template.
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
        """The template filled in.

        Raises:
            QuestionRenderError: a variable is not there, or the sandbox does not let it.
        """
        try:
            return self._template.render(variables)
        except Exception as error:
            # A template raises whatever its expressions do.
            raise QuestionRenderError(f"question: cannot be filled in: {error}") from error
