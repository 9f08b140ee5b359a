"""File of servers: edits by several programs."""

from __future__ import annotations

import json

import pytest

from toolcrib.access.server_file import ServerFile
from toolcrib.errors import StoreLockedError


@pytest.mark.parametrize("is_new", [True, False])
def test_an_edit_by_another_program_is_not_lost(tmp_path, is_new):
    path = tmp_path / "mcp.json"
    if not is_new:
        path.write_text('{"mcpServers": {"old": {"command": "o"}}}')
    slow, quick = ServerFile.read(path), ServerFile.read(path)
    quick.write(quick.with_servers({"quick": {"command": "q"}}))
    with pytest.raises(StoreLockedError, match="changed meanwhile; try again"):
        slow.write(slow.with_servers({"slow": {"command": "s"}}))
    again = ServerFile.read(path)
    again.write(again.with_servers({"slow": {"command": "s"}}))
    kept = json.loads(path.read_text())["mcpServers"]
    assert [*kept] == ["quick", "slow"] if is_new else ["old", "quick", "slow"]
    assert [each.name for each in tmp_path.iterdir()] == ["mcp.json"]
