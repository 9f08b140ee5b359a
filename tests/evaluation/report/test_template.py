"""Templates are filled with what they are given, and with nothing else."""

from __future__ import annotations

import sys

import pytest
from jinja2 import UndefinedError

from toolcrib.errors import MissingExtraError
from toolcrib.evaluation.report import template


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="'lead' is undefined"):
        template.fill("decisions.html.jinja")


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch):
    template._template.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError) as caught:
        template.fill("decisions.html.jinja")
    assert caught.value.extra == "eval"
