"""Placeholders of an mcp.json: what becomes of each form, and what is said of the impossible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.indexers.readers.mcp_config import Expander

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.text().filter(lambda text: "${" not in text)


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("${HOST}", "example.org"),
        ("https://${HOST}:${PORT:-8080}/mcp", "https://example.org:8080/mcp"),
        ("${env:HOST}", "example.org"),
        ("${env:PORT:-1}", "1"),
        ("${HOST:-other}", "example.org"),
        ("${PORT:-}", ""),
        ("${PORT:-a:-b}", "a:-b"),
        ("${EMPTY:-default}", ""),
        ("$HOST stays, as does ${HOST", "$HOST stays, as does ${HOST"),
        ("echo ${HOST%.org} ${#HOST}", "echo ${HOST%.org} ${#HOST}"),
        ("${TRICKY}", "${HOST}"),
    ],
)
def test_what_becomes_of_each_form(text: str, expanded: str) -> None:
    expander = Expander({"HOST": "example.org", "EMPTY": "", "TRICKY": "${HOST}"})

    assert expander.text("url", text) == expanded
    assert expander.problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "Bearer ${TOKEN}",
            (
                "headers.Authorization needs the environment variable 'TOKEN', which is not set; "
                "set it, or write ${TOKEN:-default}"
            ),
        ),
        (
            "${env:TOKEN}",
            (
                "headers.Authorization needs the environment variable 'TOKEN', which is not set; "
                "set it, or write ${TOKEN:-default}"
            ),
        ),
        (
            "${input:api-key}",
            (
                "headers.Authorization needs an interactive input (${input:api-key}), which only "
                "an editor asks for; write an environment variable there, such as ${TOKEN}"
            ),
        ),
        (
            "${workspaceFolder}/x",
            (
                "headers.Authorization uses ${workspaceFolder}, which only an editor knows; "
                "write it out"
            ),
        ),
        (
            "${config:my.setting}",
            (
                "headers.Authorization uses ${config:my.setting}, which only an editor knows; "
                "write it out"
            ),
        ),
        (
            "${A:-${B}}",
            "headers.Authorization has one placeholder inside another; write the inner one out",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_named(text: str, problem: str) -> None:
    expander = Expander({})

    expander.text("headers.Authorization", text)

    assert expander.problems == [problem]


def test_an_editor_variable_that_is_exported_is_used() -> None:
    expander = Expander({"workspaceFolder": "/project"})

    assert expander.text("cwd", "${workspaceFolder}/server") == "/project/server"
    assert expander.problems == []


@given(PLAIN)
def test_text_without_placeholders_is_left_alone(text: str) -> None:
    assert Expander({}).text("args[0]", text) == text


@given(st.dictionaries(NAMES, st.text(), min_size=1), st.data())
def test_values_take_the_place_of_their_names_and_are_not_expanded_again(
    env: dict[str, str], data: st.DataObject
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(env))))
    forms = data.draw(
        st.lists(
            st.sampled_from(["${%s}", "${env:%s}", "${%s:-other}"]),
            min_size=len(names),
            max_size=len(names),
        )
    )
    pairs = list(zip(forms, names, strict=True))
    expander = Expander(env)

    expanded = expander.text("url", "|".join(form % name for form, name in pairs))

    assert expanded == "|".join(env[name] for _, name in pairs)
    assert expander.problems == []


@given(st.text(), st.dictionaries(NAMES, st.text()))
def test_any_text_at_all_is_expanded_or_refused(text: str, env: dict[str, str]) -> None:
    expander = Expander(env)

    assert isinstance(expander.text("url", text), str)
