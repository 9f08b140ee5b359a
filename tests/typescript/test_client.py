"""The client in TypeScript, asked by its own tests, against a service that really runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.faults.processes import Served, make_key
from tests.test_documentation import ROOT, blocks

CLIENT = ROOT / "typescript"

installed = pytest.mark.skipif(
    not (CLIENT / "node_modules" / "typescript").is_dir() or shutil.which("npm") is None,
    reason="the client's packages are not installed: npm ci in typescript/",
)


@installed
def test_its_tests_pass(tmp_path):
    store = tmp_path / "store"
    key = make_key(store)
    service = Served(store, tmp_path / "log")
    try:
        done = subprocess.run(
            ["npm", "test"],
            cwd=CLIENT,
            env={**os.environ, "TOOLCRIB_URL": service.url, "TOOLCRIB_API_KEY": key},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        service.stop()
    assert done.returncode == 0, done.stdout


PAGES = ("typescript/README.md", "docs/how-to/typescript.md", "docs/how-to/frameworks.md")


def type_errors(source: str) -> str:
    """What the compiler says of a module beside the client."""
    with tempfile.TemporaryDirectory(dir=CLIENT, prefix="dist-") as folder:
        (Path(folder) / "page.ts").write_text(source, "utf-8")
        config = {"extends": "../tsconfig.json", "include": ["."]}
        (Path(folder) / "tsconfig.json").write_text(json.dumps(config), "utf-8")
        compiler = CLIENT / "node_modules" / ".bin" / "tsc"
        checked = subprocess.run(
            [compiler, "--noEmit", "--noUnusedLocals", "false", "--rootDir", CLIENT, "-p", folder],
            capture_output=True,
            text=True,
            check=False,
        )
    return checked.stdout


@installed
@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_hold_what_their_types_say(page):
    examples = [block.body for block in blocks(ROOT / page) if block.language == "ts"]
    assert examples
    assert type_errors("".join(examples)) == ""


@installed
@pytest.mark.skipif(
    not (CLIENT / "node_modules" / "@openrouter" / "sdk").is_dir(),
    reason="the package @openrouter/sdk is not installed: npm ci in typescript/",
)
def test_the_recipe_for_openrouter_fits_its_published_types():
    page = blocks(ROOT / "docs/how-to/frameworks.md")
    [recipe] = [each.body for each in page if "openrouter:tool_search" in each.body]
    made: dict[str, Any] = {}
    exec(recipe, made)
    assert [each.get("defer_loading") for each in made["tools"]] == [None, True, None]
    assert type_errors(OPENROUTER_TOOLS + json.dumps(made["tools"])) == ""
    assert "deferLoading" in type_errors(OPENROUTER_TOOLS + '[{"deferLoading": true}]')


OPENROUTER_TOOLS = """\
import type { ToolCustom$Outbound } from "@openrouter/sdk/models/messagesrequest.js";
import type { ToolSearchServerTool } from "@openrouter/sdk/models/toolsearchservertool.js";
export const tools: (ToolCustom$Outbound | ToolSearchServerTool)[] = """
"""The types of tools in a request, as they go over the wire."""


def test_its_version_is_that_of_the_package():
    package = json.loads((CLIENT / "package.json").read_text("utf-8"))
    assert package["version"] == toolcrib.__version__


def test_its_packages_come_from_no_registry_by_name():
    assert '"resolved"' not in (CLIENT / "package-lock.json").read_text("utf-8")
