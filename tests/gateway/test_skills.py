"""Skills in the gateway's index: found and read beside the tools, and nothing else is read."""

from __future__ import annotations

from hashlib import sha256

import pytest
from fastmcp import Client
from fastmcp.skills import SkillsClientExtension
from mcp import MCPError

from tests.gateway.conftest import ECHO, Behind, found, names, quick_settings, ready, said
from toolcrib import Crib

TEXT = "---\nname: pdf-forms\ndescription: Fill in PDF forms.\n---\nFind the fields first.\n"


@pytest.fixture
def skills(behind: Behind) -> Behind:
    folder = behind.folder / "skills" / "pdf-forms"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT)
    (folder / "scripts" / "fill.py").write_text("print(1)\n")
    (folder / "logo.png").write_bytes(b"\x89\xff")
    with behind.crib() as crib:
        assert crib.index_tools(behind.folder / "skills").added == ("skills/pdf-forms",)
        (hit,) = crib.find_tools("fill in a form").tools
        assert (hit.id, hit.kind) == ("skills/pdf-forms", "skill")
    return behind


async def test_a_skill_is_found_and_read_with_its_files_and_no_other(skills: Behind):
    async with skills.client({"post": [ECHO]}) as client:
        shown = await names(client)
        answer = await client.call_tool("find_skills", {"query": "a form"})
        (first,) = answer.structured_content["skills"]
        whole = await client.call_tool("read_skill", {"name": first["name"]})
        file = {"name": "skills/pdf-forms", "file": "scripts/fill.py"}
        part = await client.call_tool("read_skill", file)
        tools = await found(client, "fill in a pdf form")
        for path in ("../../mcp.json", str(skills.folder / "mcp.json"), "scripts/../SKILL.md"):
            refused = await said(client, "read_skill", name="pdf-forms", file=path)
            assert refused.startswith(f"There is no file {path[:100]!r}.")
        assert "no text" in await said(client, "read_skill", name="pdf-forms", file="logo.png")
        assert "Did you mean pdf-forms" in await said(client, "read_skill", name="pdf-form")

    assert shown[-2:] == ["find_skills", "read_skill"]
    assert first == {"name": "pdf-forms", "description": "Fill in PDF forms."}
    assert whole.structured_content == {
        "name": "pdf-forms",
        "text": "Find the fields first.",
        "files": ["logo.png", "scripts/fill.py"],
    }
    assert part.structured_content["text"] == "print(1)\n"
    assert [tool["name"] for tool in tools["tools"]] == ["post__echo"]


async def test_who_may_not_see_a_skill_is_not_offered_to_read_one(skills: Behind):
    servers = {"post": skills.entry("post", ECHO, toolcrib={"tags": ["home"]})}
    async with skills.client(servers, tags=frozenset({"home"})) as client:
        assert "find_skills" not in await names(client)
        answer = await said(client, "read_skill", name="pdf-forms")

    assert answer.startswith("There is no tool 'read_skill'")


async def test_a_server_of_their_name_takes_no_skill_away(skills: Behind):
    same = {"name": "pdf-forms", "description": "Something else."}
    async with skills.client({"skills": [ECHO, same]}) as client:
        assert "find_skills" in await names(client)
        assert [each["name"] for each in (await found(client))["tools"]] == ["skills__echo"]
        assert await said(client, "call_tool", name="skills__pdf-forms", arguments={}) == "{}"
        read = await client.call_tool("read_skill", {"name": "pdf-forms"})
        assert read.structured_content["text"] == "Find the fields first."
    warned = "skills: 'pdf-forms' can be called, not searched: a skill has the id "
    assert ("warning", f"{warned}'skills/pdf-forms'") in skills.said
    async with skills.client({"post": [ECHO]}):
        pass
    with Crib.open(skills.store, settings=quick_settings()) as crib:
        assert {each.id for each in crib.list_tools()} == {"post/echo", "skills/pdf-forms"}


async def test_a_search_before_the_index_is_open_says_so(skills: Behind):
    gateway = skills.make({"post": [ECHO]})
    with Crib.open(skills.store, settings=quick_settings()) as crib:
        gateway._search.open(crib)
    tool = gateway._search.skills.get("find_skills")
    assert tool is not None
    answer = await gateway._search.skills._find({"query": "a form"}, None)
    assert answer.is_error
    assert "still opening" in answer.content[0].text


# -- MCP's extension for skills --------------------------------------------------------------------

FORMS = "skill://skills/pdf-forms"


async def test_a_client_lists_skills_and_verifies_their_files(skills: Behind):
    gateway = skills.make({"post": [ECHO]})
    async with Client(gateway.server, extensions=[SkillsClientExtension()]) as client:
        await ready(gateway)
        (entry,) = await client.list_skills()
        assert (await client.get_skill(entry.uri)) == entry
        (listed,) = await client.list_resources()
        read = {each.uri: await client.read_resource(each.uri) for each in entry.resources}
        with pytest.raises(MCPError, match="No skill is served"):
            await client.get_skill("skill://skills/other/SKILL.md")

    assert entry.uri == str(listed.uri) == f"{FORMS}/SKILL.md"
    assert entry.frontmatter.root == {"name": "pdf-forms", "description": "Fill in PDF forms."}
    assert entry.meta == {"toolcrib/left_out": ["logo.png"]}
    assert [each.uri for each in entry.resources] == [entry.uri, f"{FORMS}/scripts/fill.py"]
    for each in entry.resources:
        content = read[each.uri][0].text.encode()
        assert each.digest == f"sha256:{sha256(content).hexdigest()}"
        assert each.size == len(content)
    assert read[entry.uri][0].text == TEXT.replace("---\nFind", "---\n\nFind")


async def test_skills_out_of_scope_are_neither_listed_nor_read(skills: Behind):
    servers = {"post": skills.entry("post", ECHO, toolcrib={"tags": ["home"]})}
    gateway = skills.make(servers, tags=frozenset({"home"}))
    async with Client(gateway.server, extensions=[SkillsClientExtension()]) as client:
        await ready(gateway)
        assert await client.list_skills() == []
        assert await client.list_resources() == []
        with pytest.raises(MCPError):
            await client.read_resource(f"{FORMS}/SKILL.md")


async def test_a_skill_that_the_extension_has_no_name_for_is_found_alone(behind: Behind):
    folder = behind.folder / "skills" / "Forms"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT.replace("pdf-forms", "PDF forms"))
    with behind.crib() as crib:
        crib.index_tools(behind.folder / "skills")
    gateway = behind.make({"post": [ECHO]})
    async with Client(gateway.server, extensions=[SkillsClientExtension()]) as client:
        await ready(gateway)
        assert await client.list_skills() == []
        assert "find_skills" in await names(client)
