"""The console's types are those of the OpenAPI document."""

from __future__ import annotations

from scripts.console_types import TARGET, written


def test_the_types_of_answers_are_those_that_the_service_documents():
    told = "they are made by: python scripts/console_types.py, then npm run build"
    assert TARGET.read_text(encoding="utf-8") == written(), told
