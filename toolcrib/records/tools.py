"""Tool specification: what a tool is, whatever its source, and what others wrote about it."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    field_validator,
    model_validator,
)

from toolcrib.records.codec import UNLESS_NONE
from toolcrib.records.scope import Sensitivity

MAX_DESCRIPTION_CHARS = 200_000
"""Longer descriptions are refused: no encoder reads them, and a store would drag them along."""

MAX_NAME_CHARS = 512


def none_as(empty: type) -> BeforeValidator:
    """Exports often write null for "not given"; that is not an error worth a lost tool."""
    return BeforeValidator(lambda value: empty() if value is None else value)


ToolKind: TypeAlias = Literal["tool", "skill"]

Text = Annotated[str, none_as(str)]
Texts = Annotated[tuple[str, ...], none_as(tuple)]
Mapping = Annotated[dict[str, Any], none_as(dict)]


def default_id(server: str, name: str) -> str:
    """Give the id of a tool that was given none."""
    return f"{server}/{name}" if server else name


# -- hints -------------------------------------------------------------------------------------

MCP_DEFAULTS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What MCP takes a hint for that is not given; a read-only tool destroys nothing."""


def hinted_tags(annotations: dict[str, Any]) -> tuple[str, ...]:
    """The safety tags that MCP's hints stand for; none where not one hint is given.

    A tool with one of them has the protocol's defaults for the others, which assume the worst.
    A destructive one is never taken for read-only, whatever else is said.
    """
    said = {name: _hint(annotations, name) for name in MCP_DEFAULTS}
    if set(said.values()) == {None}:
        return ()
    hints = {name: MCP_DEFAULTS[name] if told is None else told for name, told in said.items()}
    destroys = hints["destructiveHint"]
    if said["destructiveHint"] is None and hints["readOnlyHint"]:
        destroys = False
    reads = hints["readOnlyHint"] and not destroys
    tags = {"destructive": destroys, "open_world": hints["openWorldHint"]}
    tags |= {"read_only": reads, "writes": not reads}
    return tuple(tag for tag, holds in tags.items() if holds)


def _hint(annotations: dict[str, Any], name: str) -> bool | None:
    """A hint as JSON, or as the Python SDK and hand-written files have it; None if not given."""
    underscored = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    told = annotations.get(name, annotations.get(underscored))
    if isinstance(told, str):
        return {"true": True, "false": False}.get(told.strip().lower())
    return told if isinstance(told, bool) else None


# -- tools -------------------------------------------------------------------------------------


class Enrichment(BaseModel):
    """What a language model, or an operator, wrote about a tool; its author did not.

    It is read by search, not by an agent's model. `digest`: of the specification that it was
    written for, None for any version; `purpose`: in everyday words; `examples`: requests that the
    tool is right for; `not_for`: what it only looks right for; `model` and `prompt`: who wrote it,
    asked in which way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    digest: str | None = None
    purpose: Text = ""
    examples: Texts = ()
    not_for: Texts = ()
    safety_tags: Texts = ()
    model: Text = ""
    prompt: Text = ""

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return bool(self.purpose or self.examples or self.not_for or self.safety_tags)


class Skill(BaseModel):
    """What a skill has beside its name and description: a text to work by, and files.

    `files`: their paths in its folder, each with its text; None for what is no text, or too long.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    body: Text = ""
    files: Annotated[dict[str, str | None], none_as(dict)] = Field(
        default_factory=dict[str, str | None]
    )


class ToolSpec(BaseModel):
    """One tool as toolcrib knows it, whatever format it came from.

    `id` is `server/name` unless one is given (`name` alone without a server).
    Raises `pydantic.ValidationError` for a missing name, a schema that is not an
    object, negative or non-finite costs, and over-long texts. `sensitivity` is the highest of
    what the tool reads or changes. One with a `skill` is no tool, but read by an agent's model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=MAX_NAME_CHARS)
    description: Text = ""
    server: Text = ""
    id: Text = ""
    input_schema: Mapping = Field(default_factory=dict)
    output_schema: Mapping = Field(default_factory=dict)
    success_examples: Texts = ()
    anti_patterns: Texts = ()
    cost_estimate: FiniteFloat | None = Field(default=None, ge=0)
    avg_latency_ms: FiniteFloat | None = Field(default=None, ge=0)
    safety_tags: Texts = ()
    sensitivity: Sensitivity = "public"
    category: Text = ""
    tags: Texts = ()
    annotations: Mapping = Field(default_factory=dict)
    requires: Texts = ()
    provides: Texts = ()
    always_active: bool = False
    enabled: bool = True
    version: Text = ""
    enrichment: Annotated[Enrichment | None, UNLESS_NONE] = None
    skill: Annotated[Skill | None, UNLESS_NONE] = None

    @field_validator("name")
    @classmethod
    def _name_has_a_letter(cls, value: str) -> str:
        if not any(character.isalnum() for character in value):
            raise ValueError("a name needs at least one letter or digit")
        return value.strip()

    @field_validator("description")
    @classmethod
    def _description_fits(cls, value: str) -> str:
        if len(value) > MAX_DESCRIPTION_CHARS:
            raise ValueError(
                f"{len(value):,} characters; at most {MAX_DESCRIPTION_CHARS:,} are accepted"
            )
        return value

    @model_validator(mode="after")
    def _defaults(self) -> ToolSpec:
        # The model is frozen for users; this is still its construction.
        if not self.id:
            object.__setattr__(self, "id", default_id(self.server, self.name))
        if hinted := [t for t in hinted_tags(self.annotations) if t not in self.safety_tags]:
            object.__setattr__(self, "safety_tags", (*self.safety_tags, *hinted))
        return self

    def on_server(self, server: str) -> ToolSpec:
        """The same tool on another server; a default id follows, a given one stays."""
        has_default = self.id == default_id(self.server, self.name)
        fields = self.model_dump(exclude={"server", "id"} if has_default else {"server"})
        return ToolSpec(server=server, **fields)

    @property
    def kind(self) -> ToolKind:
        """What it is: a tool to call, or a skill to read."""
        return "tool" if self.skill is None else "skill"

    @property
    def all_safety_tags(self) -> tuple[str, ...]:
        """The safety tags that scopes go by: those of its enrichment where it states none."""
        return self.safety_tags or (self.enrichment.safety_tags if self.enrichment else ())

    @property
    def digest(self) -> str:
        """Hex digest of everything in the specification; equal means "left alone"."""
        fields = self.model_dump(mode="json")
        # Annotations are in it already: what was approved before they were read stays approved.
        hinted = hinted_tags(self.annotations)
        fields["safety_tags"] = [tag for tag in fields["safety_tags"] if tag not in hinted]
        text = json.dumps(fields, sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
