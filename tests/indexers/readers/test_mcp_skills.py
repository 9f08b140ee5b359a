"""Skills of live servers: read whole, verified, and refused where they are not what was listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.conftest import SERVERS
from tests.indexers.readers.conformance import split
from tests.indexers.readers.mcp_servers.launch import typed
from toolcrib.errors import SourceError
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_skills import McpSkillsReader
from toolcrib.indexers.readers.skills import SkillsReader

pytestmark = pytest.mark.e2e

REFUNDS = (
    "---\nname: refunds\ndescription: Pay back.\nlicense: MIT\n---\nLook the order up first.\n"
)
FORMS = "---\nname: pdf-forms\ndescription: Fill in forms.\n---\nFind the fields.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two skills, one with a text and a picture beside it."""
    for name, text in {"refunds": REFUNDS, "pdf-forms": FORMS}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(text)
    (tmp_path / "refunds" / "letters").mkdir()
    (tmp_path / "refunds" / "letters" / "letter.md").write_text("Dear customer\n")
    (tmp_path / "refunds" / "logo.png").write_bytes(b"\x89\xff")
    return tmp_path


def test_skills_of_a_server_are_those_of_its_folder(folder):
    skills, refusals = split(
        McpSkillsReader().read(Source.by_name(typed("skills.py", str(folder))), None)
    )
    own = [
        next(iter(SkillsReader().read(Source.by_name(str(folder / name / "SKILL.md")), "office")))
        for name in ("pdf-forms", "refunds")
    ]
    assert (skills, refusals) == (own, [])
    assert skills[1].id == "office/refunds"
    assert skills[1].skill is not None
    assert skills[1].skill.files == {"letters/letter.md": "Dear customer\n", "logo.png": None}


def test_a_file_that_is_not_what_its_digest_says_costs_its_skill(folder):
    source = Source.by_name(typed("skills.py", str(folder), "--forged"))
    skills, refusals = split(McpSkillsReader().read(source, None))
    assert [skill.name for skill in skills] == ["pdf-forms"]
    assert "letter.md does not have the digest" in refusals[0].reason


def test_a_server_without_the_extension_is_refused(folder):
    (folder / "tools.json").write_text("[]")
    server = typed(str(SERVERS / "plain.py"), str(folder / "tools.json"), "--modern")
    with pytest.raises(SourceError, match="does not announce the extension for skills"):
        split(McpSkillsReader().read(Source.by_name(server), None))


def test_a_server_is_asked_for_its_tools_unless_the_format_is_named():
    assert not McpSkillsReader().recognises(Source.by_name("stdio:server"))
