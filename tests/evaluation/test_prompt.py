"""What tools cost in a prompt, counted with the tokenizer in the package."""

from __future__ import annotations

import pytest

from toolcrib.errors import UnknownToolError
from toolcrib.evaluation.prompt import PromptTokens
from toolcrib.records import ToolSpec

SHORT = ToolSpec(name="ping")
LONG = ToolSpec(
    name="send_mail",
    description="Send an e-mail. " * 200,
    input_schema={"type": "object", "properties": {"to": {"type": "string"}}},
)


def test_a_definition_costs_its_json_in_tokens():
    # {"type":"function","function":{"name":"ping","description":"","parameters":
    # {"type":"object","properties":{}}}}: 10 words of one piece each, and every mark.
    marks = sum(
        c in '{}":,'
        for c in (
            '{"type":"function","function":{"name":"ping","description":"",'
            '"parameters":{"type":"object","properties":{}}}}'
        )
    )
    words = [
        "type",
        "function",
        "function",
        "name",
        "ping",
        "description",
        "parameters",
        "type",
        "object",
        "properties",
    ]
    assert PromptTokens([SHORT]).count([SHORT.id]) == marks + len(words)


def test_long_definitions_are_counted_to_their_end():
    assert PromptTokens([LONG]).count([LONG.id]) > 200 * 5


def test_tools_add_up_to_the_registry():
    prompt = PromptTokens([SHORT, LONG])
    assert prompt.count([SHORT.id]) + prompt.count([LONG.id]) == prompt.whole_registry
    assert prompt.count([]) == 0


def test_what_is_saved_is_a_share_of_the_registry():
    prompt = PromptTokens([SHORT, LONG])
    assert prompt.saved(0) == 1
    assert prompt.saved(prompt.whole_registry) == 0
    assert prompt.saved(prompt.whole_registry / 4) == pytest.approx(0.75)
    assert PromptTokens([]).saved(0) == 0


def test_an_id_that_no_tool_has_is_an_error_that_names_it():
    with pytest.raises(UnknownToolError, match="pong"):
        PromptTokens([SHORT]).count(["pong"])


def test_a_lone_surrogate_in_a_description_is_counted_like_any_letter():
    assert PromptTokens([ToolSpec(name="odd", description="\ud800")]).whole_registry > 0
