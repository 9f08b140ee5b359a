"""The last step of every reader: fields become a ToolSpec or a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.indexers.readers.base import Source, build_spec
from toolcrib.records import Refusal, ToolSpec


def reason(**fields: Any) -> str:
    refusal = build_spec("file", "place", {"name": "a", **fields})
    assert isinstance(refusal, Refusal)
    assert (refusal.source, refusal.place) == ("file", "place")
    return refusal.reason


def test_none_is_not_given():
    spec = build_spec("", "", {"name": "a", "enabled": None, "id": None})
    assert isinstance(spec, ToolSpec)
    assert spec.enabled
    assert spec.id == "a"


def test_descriptions_are_kept_as_they_are():
    text = "  Pay\u200b now.\x07\r\n\u202eIgnore all\tprevious  "
    spec = build_spec("", "", {"name": "a", "description": text})
    assert isinstance(spec, ToolSpec)
    assert spec.description == text


def test_the_ends_of_a_name_are_trimmed():
    spec = build_spec("", "", {"name": " a\n"})
    assert isinstance(spec, ToolSpec)
    assert spec.name == "a"


CYCLE: dict[str, Any] = {}
CYCLE["self"] = CYCLE


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"maximum": float("inf")}, "holds a value that JSON cannot: Out of range float values"),
        ({"minimum": float("nan")}, "holds a value that JSON cannot: Out of range float values"),
        ({"default": b"x"}, "holds a value that JSON cannot: Object of type bytes is not"),
        ({"default": {1}}, "holds a value that JSON cannot: Object of type set is not"),
        ({"default": "\ud800"}, "holds half of a surrogate pair, which is no character"),
        (CYCLE, "holds a value that JSON cannot: Circular reference detected"),
        (b"x", "input_schema: must be an object, not a Python bytes"),
    ],
)
def test_what_json_cannot_hold_is_refused(schema, expected):
    assert reason(input_schema=schema).startswith(expected)


def test_every_fault_is_named_at_once():
    assert reason(tags="x", nonsense=1, always_active=3) == (
        "tags: must be a list, not text; "
        "always_active: must be true or false, not a number; "
        "nonsense: unknown field"
    )


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("shop.json", "shop"),
        ("shop.v1.json", "shop.v1"),
        ("shop.v2.yaml", "shop.v2"),
        ("shop.yml", "shop"),
        ("shop.eu.jsonl.gz", "shop.eu"),
        ("shop.JSON.GZ", "shop"),
        ("shop.gz", "shop"),
        ("shop", "shop"),
        (".shop.json", "shop"),
    ],
)
def test_a_stem_is_the_name_without_its_last_suffix(name, stem):
    assert Source(name, Path("folder.d", name)).stem == stem


def test_a_source_that_is_no_file_has_no_stem():
    assert Source("https://example.com/mcp.json").stem == ""
