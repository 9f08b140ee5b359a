"""Strict clients: the official TypeScript SDKs, at the first start of a gateway and the second."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import ECHO, LONG_S, Behind
from tests.gateway.test_command import COMMAND, ENV, ROOT, WANTED

PACKAGES = ROOT / "typescript" / "node_modules"
SCRIPT = Path(__file__).parent / "strict_client.cjs"
OFFERS = {
    "prompts": [{"name": "greet", "description": "Greet somebody."}],
    "resources": [{"uri": "note://today", "name": "today"}],
}


def seen_by(sdk: str, command: list[str]) -> dict[str, Any]:
    """What a client by an SDK sees of a server that it starts."""
    done = subprocess.run(
        ["node", SCRIPT, sdk, *command],
        env={**ENV, "NODE_PATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_S,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("sdk", ["@modelcontextprotocol/sdk", "@modelcontextprotocol/client"])
def test_a_strict_client_lists_and_calls_at_the_first_start_and_the_second(behind: Behind, sdk):
    if not (PACKAGES / sdk).is_dir():
        pytest.skip(f"the package {sdk} is not installed: npm ci in typescript/")
    offers = behind.folder / "offers"
    offers.write_text(json.dumps(OFFERS))
    config = behind.config(post=behind.entry("post", ECHO, options=("--offers", str(offers))))
    command = [*COMMAND, str(config), "--store", str(behind.store)]

    first, second = (seen_by(sdk, command) for _ in range(2))

    assert first == second
    assert {"tools", "prompts", "resources"} <= set(first["capabilities"])
    assert (first["tools"], first["found"], first["called"]) == WANTED
    assert first["prompts"] == ["post__greet"]
    assert first["resources"] == ["today"]
