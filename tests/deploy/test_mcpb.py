"""The bundle for Claude Desktop starts this version of the gateway by a command that exists."""

from __future__ import annotations

import json
import tomllib

from typer.testing import CliRunner

from tests.conftest import ROOT
from tests.gateway.command import app

BUNDLE = ROOT / "deploy" / "mcpb"
MANIFEST = json.loads((BUNDLE / "manifest.json").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_bundle_is_of_this_version():
    packed = tomllib.loads((BUNDLE / "pyproject.toml").read_text("utf-8"))
    wheel = f"toolcrib-{PROJECT['version']}-py3-none-any.whl"
    assert packed["tool"]["uv"]["sources"] == {"toolcrib": {"path": wheel}}
    assert MANIFEST["version"] == packed["project"]["version"] == PROJECT["version"]
    assert MANIFEST["compatibility"]["runtimes"]["python"] == PROJECT["requires-python"]


def test_the_command_of_the_bundle_is_known(tmp_path):
    given = {"${user_config.servers}": "mcp.json", "${user_config.store}": str(tmp_path)}
    line = MANIFEST["server"]["mcp_config"]["args"]
    arguments = [given.get(each, each) for each in line[line.index("toolcrib") + 1 :]]
    done = CliRunner().invoke(app, arguments)
    assert "mcp.json: no such file" in done.stderr
    assert set(given) <= {f"${{user_config.{name}}}" for name in MANIFEST["user_config"]}
