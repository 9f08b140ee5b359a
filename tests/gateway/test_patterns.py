"""Patterns from servers: used as they are, unless they could be worked on for long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.gateway.patterns import matches_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^[a-z]+$", "abc", True),
        (r"^[a-z]+$", "abc1", False),
        (r"^\d{4}-\d{2}$", "2026-11", True),
        (r"^\d{4}-\d{2}$", "26-11", False),
        (r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", "no mail", False),
        (r"^(red|green|blue)$", "grey", False),
        (r"(?i)^yes?$", "NO", False),
        (r"[]a]x{2,3}", "bxx", False),
    ],
)
def test_ordinary_patterns_are_held_to(pattern, text, matches):
    assert matches_pattern(pattern, text) is matches


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"^(a+)+$", "a" * 40 + "b"),
        (r"(a|a)*b", "a" * 40),
        ("a?" * 40 + "a" * 40, "a" * 40),
        (r".*.*.*.*x", "a" * 500),
        (r"^(\w+)\1$", "x"),
        (r"^(?=.*\d)x", "y"),
        ("x{1,900}x{1,900}x{1,900}y", "x" * 900),
        ("(a|b)" * 25, "z"),
        ("a" * 2_000, "b"),
    ],
    ids=["nested", "choice", "optional", "many", "back", "ahead", "bounded", "groups", "long"],
)
def test_what_could_take_long_is_not_tried(pattern, text):
    assert matches_pattern(pattern, text)


def test_another_dialect_is_the_servers_own_business():
    assert matches_pattern(r"^\p{L}+$", "7")
    assert matches_pattern("(", "7")


@given(st.text("ab.*+?|[]()\\d{2,}^$", max_size=12), st.text("ab1", max_size=8))
def test_an_answer_of_no_is_the_engines_own(pattern, text):
    if not matches_pattern(pattern, text):
        assert re.search(pattern, text) is None
