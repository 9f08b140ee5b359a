"""deploy/requirements.txt: what is in the image is what the project asks for, and nothing else."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FILE = (ROOT / "deploy" / "requirements.txt").read_text("utf-8")
EXTRAS = ["service", "server", "mcp", "gateway", "client", "observe", "docs", "context"]
PINNED = dict(re.findall(r"^([\w.-]+)==(\S+)", FILE, re.MULTILINE))
RENEW = re.search(r"^#\s+(uv pip compile .*)$", FILE, re.MULTILINE)

OPTIONAL = [text for extra in EXTRAS for text in PROJECT["optional-dependencies"][extra]]
ASKED = [Requirement(text) for text in [*PROJECT["dependencies"], *OPTIONAL]]


def test_what_the_project_asks_for_is_pinned_to_a_version_that_fits():
    for asked in (one for one in ASKED if one.name != PROJECT["name"]):
        pinned = PINNED.get(canonicalize_name(asked.name))
        assert pinned is not None, f"{asked.name}; renew it: {RENEW}"
        assert asked.specifier.contains(pinned), f"{asked.name}; renew it: {RENEW}"


def test_every_package_has_its_digests():
    blocks = re.split(r"^(?=[a-z])", FILE, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINNED)
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", block) for block in blocks)
