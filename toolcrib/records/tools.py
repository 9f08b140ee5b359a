"""Tool specification: a tool of any source, with the texts of an enrichment."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import PureWindowsPath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BeforeValidator,
    Field,
    FiniteFloat,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_snake

from toolcrib.records.codec import UNLESS_EMPTY, UNLESS_NONE, FrozenModel, is_object, list_of
from toolcrib.records.scope import Sensitivity

MAX_TOOL_DESCRIPTION_CHARS = 200_000
"""Longest accepted description; no encoder reads further."""

MAX_TOOL_NAME_CHARS = 512

_DEFAULT_NAMES = re.compile(r'"default": "((?![\d.-])[\w.*-]+(?:,(?![\d.-])[\w.*-]+)+)(?=")')
"""Names, no numbers, in a default; servers write sets, in another order after each start."""


def none_as(empty: type) -> BeforeValidator:
    """Read null as empty: exports often write null for a missing value."""
    return BeforeValidator(lambda value: empty() if value is None else value)


ToolKind: TypeAlias = Literal["tool", "skill"]

Text = Annotated[str, none_as(str)]
Texts = Annotated[tuple[str, ...], none_as(tuple)]
Mapping = Annotated[dict[str, Any], none_as(dict)]


def default_id(server: str, name: str) -> str:
    """Id of a tool without an id of its own."""
    return f"{server}/{name}" if server else name


# -- hints -------------------------------------------------------------------------------------

MCP_DEFAULTS = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""Value of a missing hint, by MCP; a read-only tool destroys nothing."""

_SNAKE_CASE_HINTS = {name: to_snake(name) for name in MCP_DEFAULTS}
"""Spelling of each hint in the Python SDK and in hand-written files."""


def hinted_tags(annotations: dict[str, Any]) -> tuple[str, ...]:
    """Safety tags that MCP's hints stand for; none for a tool without any hint.

    With one hint, the missing hints have the protocol's defaults, which assume the worst.
    A destructive tool is never taken for read-only, whatever its other hints.
    """
    if not annotations:
        return ()
    given = {name: _hint(annotations, name) for name in MCP_DEFAULTS}
    if set(given.values()) == {None}:
        return ()
    hints = {name: MCP_DEFAULTS[name] if hint is None else hint for name, hint in given.items()}
    destroys = hints["destructiveHint"]
    if given["destructiveHint"] is None and hints["readOnlyHint"]:
        destroys = False
    reads = hints["readOnlyHint"] and not destroys
    tags = {"destructive": destroys, "open_world": hints["openWorldHint"]}
    tags |= {"read_only": reads, "writes": not reads}
    return tuple(tag for tag, holds in tags.items() if holds)


def _hint(annotations: dict[str, Any], name: str) -> bool | None:
    """Value of a hint in either spelling; None for a hint that is not given."""
    value = annotations.get(name, annotations.get(_SNAKE_CASE_HINTS[name]))
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


# -- annotations for providers -----------------------------------------------------------------

SEARCH_HINT, ALWAYS_LOAD = "anthropic/searchHint", "anthropic/alwaysLoad"
"""Annotations from MCP's `_meta`: search words of a tool, and True if it is never deferred."""

INPUT_EXAMPLES = "input_examples"
"""Annotation with arguments of example calls, objects as Anthropic takes them."""

MAX_EXAMPLE_CHARS = 300


def annotated_examples(annotations: dict[str, Any]) -> tuple[str, ...]:
    """Search texts in a tool's annotations: the hint, and the values of examples."""
    hint = annotations.get(SEARCH_HINT)
    examples = list_of(annotations.get(INPUT_EXAMPLES))
    values = (each.values() for each in examples if is_object(each))
    texts = ["; ".join(each for each in some if isinstance(each, str)) for some in values]
    known = (" ".join(text.split()) for text in (hint, *texts) if isinstance(text, str))
    return tuple(dict.fromkeys(text[:MAX_EXAMPLE_CHARS] for text in known if text))


# -- tools -------------------------------------------------------------------------------------


class Enrichment(FrozenModel):
    """Texts about a tool by a language model or an operator, not by its author.

    Only the search reads them, not an agent's model. `digest` is the digest of the described
    specification, None for any version. `purpose` is in everyday words, `examples` are requests
    that the tool fits, `not_for` requests that it only seems to fit. `goes_with` are ids of tools
    that a task with this tool needs too. `model` and `prompt` name the writer.
    """

    digest: str | None = None
    purpose: Text = ""
    examples: Texts = ()
    not_for: Texts = ()
    safety_tags: Texts = ()
    goes_with: Annotated[Texts, UNLESS_EMPTY] = ()
    model: Text = ""
    prompt: Text = ""

    def __bool__(self) -> bool:
        """True if any text, tag or companion is there."""
        texts = self.purpose or self.examples or self.not_for
        return bool(texts or self.safety_tags or self.goes_with)


class Skill(FrozenModel):
    """Body and files of a skill, beside its name and description.

    `files` are texts by path in the skill's folder; None for a file that is no text, or too long.
    """

    body: Text = ""
    files: Annotated[dict[str, str | None], none_as(dict)] = Field(
        default_factory=dict[str, str | None]
    )

    @field_validator("files")
    @classmethod
    def _paths_stay_inside(cls, value: dict[str, str | None]) -> dict[str, str | None]:
        # A host may write the files into a folder of its own.
        for path in value:
            has_drive = PureWindowsPath(path).drive
            if has_drive or {"", ".", ".."} & set(path.replace("\\", "/").split("/")):
                raise ValueError(f"the path {path!r} does not name a file in the skill's folder")
        return value


class ToolSpec(FrozenModel):
    """Specification of a tool, whatever format it came from.

    `id` defaults to `server/name` (`name` alone without a server).
    Raises `pydantic.ValidationError` for a missing name, a schema that is not an
    object, negative or non-finite costs, and over-long texts. `sensitivity` is the highest of
    what the tool reads or changes. `goes_with` are ids, or names on the same server, of tools that
    a task with this tool needs too. A `skill` is read by an agent's model, and not called.
    """

    name: str = Field(min_length=1, max_length=MAX_TOOL_NAME_CHARS)
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
    goes_with: Annotated[Texts, UNLESS_EMPTY] = ()
    always_active: bool = False
    enabled: bool = True
    version: Text = ""
    enrichment: Annotated[Enrichment | None, UNLESS_NONE] = None
    skill: Annotated[Skill | None, UNLESS_NONE] = None

    @field_validator("name")
    @classmethod
    def _name_has_a_letter(cls, value: str) -> str:
        if not any(map(str.isalnum, value)):
            raise ValueError("a name needs at least one letter or digit")
        return value.strip()

    @field_validator("description")
    @classmethod
    def _description_fits(cls, value: str) -> str:
        if len(value) > MAX_TOOL_DESCRIPTION_CHARS:
            raise ValueError(
                f"{len(value):,} characters; at most {MAX_TOOL_DESCRIPTION_CHARS:,} are accepted"
            )
        return value

    @model_validator(mode="after")
    def _defaults(self) -> ToolSpec:
        # The model is frozen for users, but not yet during validation.
        if not self.id:
            object.__setattr__(self, "id", default_id(self.server, self.name))
        if hinted := [t for t in hinted_tags(self.annotations) if t not in self.safety_tags]:
            object.__setattr__(self, "safety_tags", (*self.safety_tags, *hinted))
        found = annotated_examples(self.annotations) if self.annotations else ()
        if new := [text for text in found if text not in self.success_examples]:
            object.__setattr__(self, "success_examples", (*self.success_examples, *new))
        return self

    def on_server(self, server: str) -> ToolSpec:
        """Copy on another server; a default id follows, a given id stays."""
        has_default = self.id == default_id(self.server, self.name)
        fields = self.model_dump(exclude={"server", "id"} if has_default else {"server"})
        return ToolSpec(server=server, **fields)

    @property
    def kind(self) -> ToolKind:
        """Kind: a tool to call, or a skill to read."""
        return "tool" if self.skill is None else "skill"

    @property
    def all_safety_tags(self) -> tuple[str, ...]:
        """Safety tags for scopes: the tool's own, else its enrichment's."""
        return self.safety_tags or (self.enrichment.safety_tags if self.enrichment else ())

    @property
    def digest(self) -> str:
        """Hex digest of the whole specification; sync skips a tool with the same digest.

        The order of names in a default such as `id,title` does not count.
        """
        fields = self.model_dump(mode="json")
        # Tags by hints are left out: the digest has the annotations themselves.
        hinted = hinted_tags(self.annotations)
        fields["safety_tags"] = [tag for tag in fields["safety_tags"] if tag not in hinted]
        text = json.dumps(fields, sort_keys=True, ensure_ascii=False)
        text = _DEFAULT_NAMES.sub(
            lambda at: f'"default": "{",".join(sorted(at[1].split(",")))}', text
        )
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
