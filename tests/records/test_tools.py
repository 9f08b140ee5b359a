"""Hints of MCP are safety tags, and a digest tells what a source said."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from toolcrib import ToolSpec
from toolcrib.records import Enrichment

DESTROYS, READS, ADDS = {"destructive", "writes"}, {"read_only"}, {"writes"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, set()),
        ({"title": "Wipe", "x": 1}, set()),
        ({"destructiveHint": True, "openWorldHint": False}, DESTROYS),
        ({"destructiveHint": True}, {*DESTROYS, "open_world"}),
        ({"readOnlyHint": True, "openWorldHint": False}, READS),
        ({"readOnlyHint": True, "destructiveHint": True, "openWorldHint": False}, DESTROYS),
        ({"readOnlyHint": False, "openWorldHint": False}, DESTROYS),
        ({"openWorldHint": False, "destructiveHint": False}, ADDS),
        ({"idempotentHint": True}, {*DESTROYS, "open_world"}),
        ({"destructive_hint": "True", "open_world_hint": False}, DESTROYS),
        ({"destructiveHint": None, "readOnlyHint": "perhaps"}, set()),
    ],
)
def test_hints_become_safety_tags_with_the_defaults_of_the_protocol(annotations, expected):
    tool = ToolSpec(name="a", annotations=annotations, safety_tags=("own",))
    assert set(tool.safety_tags) == {"own", *expected}
    assert ToolSpec.model_validate_json(tool.model_dump_json()) == tool


def test_a_digest_is_that_of_what_was_approved_before_hints_were_tags():
    tool = ToolSpec(name="wipe_disk", annotations={"destructiveHint": True})
    assert tool.digest == "45d413fafabbb17d66dd21893870425b"
    assert tool.model_copy(update={"safety_tags": ("own",)}).digest != tool.digest


def test_names_of_a_default_may_change_their_order_and_nothing_else():
    def digest(default, description='"default": "b,a"'):
        fields = {"default": default, "description": description}
        return ToolSpec(name="a", input_schema={"properties": {"fields": fields}}).digest

    assert digest("id,issue.type,*all") == digest("*all,id,issue.type")
    assert digest("id,title") != digest("id,text")
    assert digest("47.3,8.5") != digest("8.5,47.3")
    assert digest("ignore this,now") != digest("now,ignore this")
    assert digest("a", '"default": "a,b"') != digest("a")


def test_an_enrichment_changes_the_digest_and_an_author_s_safety_tags_win():
    bare = ToolSpec(name="a")
    written = bare.model_copy(update={"enrichment": Enrichment(safety_tags=("destructive",))})
    assert written.digest != bare.digest
    assert written.all_safety_tags == ("destructive",)
    own = written.model_copy(update={"safety_tags": ("own",)})
    assert own.all_safety_tags == ("own",)
    assert "enrichment" not in bare.model_dump()


@pytest.mark.parametrize(
    "path", ["../x.md", "/etc/x", "a/../../x", "a\\..\\x", "./x", "a//x", "C:x", ""]
)
def test_a_file_of_a_skill_stays_in_its_folder(path):
    with pytest.raises(ValidationError, match="folder"):
        ToolSpec.model_validate({"name": "refunds", "skill": {"files": {path: "text"}}})
