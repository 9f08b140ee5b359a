"""Learning: what use taught is seen, switched off and taken back."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.console.conftest import WITHOUT_MODELS, serving

TOOLS = [
    {"name": "post", "server": "chat", "description": "Post a message in a channel."},
    {"name": "note", "server": "chat", "description": "Write a note about the team."},
]


@pytest.fixture(scope="module")
def teaching():
    with serving(learning={"enabled": True}, **WITHOUT_MODELS) as started:
        with started.client() as client:
            client.post("/v1/tools", json={"tools": TOOLS})
            for session in range(20):
                turn = {"text": f"tell the team {session}", "metadata": {"session": f"{session}"}}
                call = {"decision_id": client.post("/v1/route", json=turn).json()["id"]}
                call |= {"tool": "chat/post", "outcome": "success"}
                client.post("/v1/outcomes", json=call)
            client.post("/v1/learning/replay")
        yield started


def test_what_was_learned_is_seen_switched_off_and_taken_back(browse, teaching):
    page = browse("#/learning", at=teaching, key=teaching.writer)
    expect(page.locator("h1 small")).to_have_text("20 observations")
    expect(page.get_by_role("region", name="Servers")).to_contain_text("live")
    expect(page.get_by_role("region", name="Tools")).to_contain_text("50\u00a0%")
    expect(page.get_by_role("region", name="Calls of agents")).to_contain_text("chat/post")
    page.get_by_role("button", name="Turn off").click()
    expect(page.get_by_role("region", name="Tools")).to_contain_text("no: learning is off")
    page.get_by_role("button", name="Take back chat/post").click()
    page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    expect(page.get_by_text("Nothing was learned yet.")).to_be_visible()


def test_where_nothing_is_learned_it_says_so(browse):
    expect(browse("#/learning").get_by_text("Nothing is learned here")).to_be_visible()
