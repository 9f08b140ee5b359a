"""What a tool is."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from toolcrib.records.scope import Sensitivity

__all__ = ["Mapping", "Text", "Texts", "ToolSpec", "default_id", "none_as"]

MAX_DESCRIPTION_CHARS = 200_000
"""Longer descriptions are refused: no encoder reads them, and a store would drag them along."""

MAX_NAME_CHARS = 512


def none_as(empty: type) -> BeforeValidator:
    """Exports often write null for "not given"; that is not an error worth a lost tool."""
    return BeforeValidator(lambda value: empty() if value is None else value)


Text = Annotated[str, none_as(str)]
Texts = Annotated[tuple[str, ...], none_as(tuple)]
Mapping = Annotated[dict[str, Any], none_as(dict)]


def default_id(server: str, name: str) -> str:
    """Give the id of a tool that was given none."""
    return f"{server}/{name}" if server else name


class ToolSpec(BaseModel):
    """One tool as toolcrib knows it, whatever format it came from.

    `id` is `server/name` unless one is given (`name` alone without a server).
    Raises `pydantic.ValidationError` for a missing name, a schema that is not an
    object, negative or non-finite costs, and over-long texts. `sensitivity` is the highest of
    what the tool reads or changes.
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
    cost_estimate: float | None = Field(default=None, ge=0)
    avg_latency_ms: float | None = Field(default=None, ge=0)
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

    @field_validator("cost_estimate", "avg_latency_ms")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError("must be a finite number")
        return value

    @model_validator(mode="after")
    def _default_id(self) -> ToolSpec:
        if not self.id:
            # The model is frozen for users; this is still its construction.
            object.__setattr__(self, "id", default_id(self.server, self.name))
        return self

    def on_server(self, server: str) -> ToolSpec:
        """The same tool on another server; a default id follows, a given one stays."""
        has_default = self.id == default_id(self.server, self.name)
        fields = self.model_dump(exclude={"server", "id"} if has_default else {"server"})
        return ToolSpec(server=server, **fields)

    @property
    def digest(self) -> str:
        """Hex digest of everything in the specification; equal means "left alone"."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
