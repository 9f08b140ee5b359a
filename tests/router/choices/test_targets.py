"""Targets are data: a file that names what there is not is refused by name."""

from __future__ import annotations

import pytest
import yaml

from toolcrib.errors import SettingsError
from toolcrib.router.choices.targets import load_targets

TWO = {"targets": {"a": {"description": "A"}, "b": {"description": "B"}}, "fallback": "a"}
RULE = {"to": "b", "says": "so"}


def test_a_file_takes_the_presets_place(tmp_path):
    file = tmp_path / "targets.yaml"
    more = {"heuristics": [{"target": "b", "weight": 2, "if": "sql"}]}
    file.write_text(yaml.safe_dump(TWO | more))
    assert list(load_targets(file).targets) == ["a", "b"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"fallback": "c"}, "there is no target 'c'"),
        ({"heuristics": [{"target": "c", "weight": 1}]}, "there is no target 'c'"),
        ({"rules": [RULE | {"if": "sqll"}]}, "there is no fact 'sqll'"),
        ({"rules": [RULE | {"if": "confident"}]}, "confident may only stand in `unless`"),
        ({"caps": [{"most": 2}]}, "less than or equal to 1"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, wrong, said):
    file = tmp_path / "targets.yaml"
    file.write_text(yaml.safe_dump(TWO | wrong))
    with pytest.raises(SettingsError, match=said):
        load_targets(file)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"cannot read the targets .*none\.yaml"):
        load_targets(tmp_path / "none.yaml")
