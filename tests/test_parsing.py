"""Parsing of JSON and YAML as plain data."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.parsing import MAX_DOCUMENT_DEPTH, parse_json, parse_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("On", "On"),
        ("true", True),
        ("2024-01-01", "2024-01-01"),
        ("12:30", "12:30"),
        ("007", "007"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("-12", -12),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("0E0", 0.0),
        (".5", 0.5),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ("=", "="),
        ("{200: a, no: b, null: c}", {"200": "a", "no": "b", "null": "c"}),
        ("{a: &x {k: 1}, b: {<<: *x, l: 2}}", {"a": {"k": 1}, "b": {"k": 1, "l": 2}}),
        ("[&x a, *x]", ["a", "a"]),
    ],
)
def test_scalars_are_what_yaml_1_2_says(text, value):
    parsed = parse_yaml(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_the_last_level_that_is_allowed():
    text = "[" * MAX_DOCUMENT_DEPTH + "]" * MAX_DOCUMENT_DEPTH
    assert parse_json(text) == parse_yaml(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: *b", "not valid YAML: found undefined alias at line 1 column 4"),
        ("!!int abc", "not valid YAML: invalid literal for int() with base 10: 'abc'"),
        ("!!map x", "not valid YAML: expected a mapping at line 1 column 1"),
    ],
)
def test_more_that_is_not_valid(text, reason):
    with pytest.raises(ValueError, match=r"^not valid YAML") as caught:
        parse_yaml(text)
    assert str(caught.value) == reason


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc <-:#'", max_size=4), inner),
    max_leaves=15,
)


@given(JSON)
def test_json_reads_as_it_was_written(value):
    assert parse_json(json.dumps(value)) == value


class _Quoting(yaml.SafeDumper):
    """PyYAML quotes what YAML 1.1 takes for a number (`0E0` it does not), so quote all text."""


_Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@given(JSON)
def test_yaml_reads_as_it_was_written(value):
    assert parse_yaml(yaml.dump(value, Dumper=_Quoting, allow_unicode=True)) == value


@pytest.mark.parametrize(
    "text", ["a: 1\nb: 2\na: 3\n", "{a: 1, a: 2}", "x:\n  200: a\n  '200': b\n"]
)
def test_a_key_that_comes_twice_is_refused(text):
    with pytest.raises(ValueError, match=r"key '(a|200)' of line"):
        parse_yaml(text)


def test_an_own_key_replaces_a_merged_key():
    text = "base: &base {a: 1, b: 2}\nown: {<<: *base, a: 3}\n"
    assert parse_yaml(text)["own"] == {"a": 3, "b": 2}
