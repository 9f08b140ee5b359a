"""An operator states more of tools that are not theirs."""

from __future__ import annotations

import json

import pytest

from toolcrib import Scope, ToolSpec
from toolcrib.errors import SourceError
from toolcrib.indexers.overlay import ToolOverlay
from toolcrib.records import Refusal

TOOLS = [
    ToolSpec(name="wipe_disk", server="ops", tags=("disk",), sensitivity="internal"),
    ToolSpec(name="read_disk", server="ops"),
    ToolSpec(name="add", server="math"),
]
ENTRIES = [("a source", tool) for tool in TOOLS]


def overlay(folder, text):
    path = folder / "overlay.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_stated_by_id_or_glob_is_added_and_the_last_pattern_wins(tmp_path):
    path = overlay(
        tmp_path,
        """tools:
  "ops/*": {sensitivity: pii, tags: [disk, ops], cost: 0.5}
  ops/wipe_disk: {safety_tags: [destructive], cost: 2, latency_ms: 800, examples: [clean it]}
  "*/ad?": {not_for: [subtract]}
  ops/gone: {tags: [x]}
""",
    )
    made, unmatched = ToolOverlay.read(path).over(ENTRIES)
    wipe, read, add = (tool for _, tool in made)
    assert (wipe.sensitivity, wipe.tags, wipe.cost_estimate) == ("pii", ("disk", "ops"), 2)
    assert (wipe.safety_tags, wipe.avg_latency_ms) == (("destructive",), 800)
    assert (wipe.success_examples, add.anti_patterns) == (("clean it",), ("subtract",))
    assert (read.sensitivity, read.cost_estimate, read.safety_tags) == ("pii", 0.5, ())
    assert unmatched == [Refusal(str(path), "ops/gone", "matches no tool's id")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("tools: [a]", "needs a mapping"),
        ("a: 1", "needs a mapping"),
        ("tools: {a: {sensitivity: secret}}", "tools: a: sensitivity: "),
        ("tools: {a: {cost: -1}}", "greater than or equal to 0"),
        ("tools: {a: {colour: red}}", "colour"),
    ],
)
def test_what_no_tool_has_is_an_error_that_says_where(tmp_path, text, reason):
    with pytest.raises(SourceError, match=reason):
        ToolOverlay.read(overlay(tmp_path, text))


def test_an_overlay_holds_a_tool_back_that_its_author_said_nothing_of(crib, tmp_path):
    path = overlay(tmp_path, "tools: {ops/wipe_disk: {safety_tags: [destructive]}}")
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps([tool.model_dump(exclude={"safety_tags"}) for tool in TOOLS]))
    crib.index_tools(str(tools))
    report = crib.index_tools(str(tools), overlays=[path])
    assert report.changed == ("ops/wipe_disk",)
    allowed = Scope(without_safety_tags=frozenset({"destructive"}))
    found = crib.find_tools("wipe the disk", scope=allowed)
    assert "ops/wipe_disk" not in {hit.id for hit in found.tools}
