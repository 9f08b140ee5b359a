"""A folder to run `toolcrib` in, and a handful of tools."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = [
    {"name": "send_mail", "description": "Send a mail to somebody.", "server": "mail"},
    {"name": "read_file", "description": "Read a file.", "server": "files", "tags": ["safe"]},
    {"name": "drop", "description": "Drop a table.", "server": "sql", "enabled": False},
]


class Shell:
    """Runs `toolcrib` in a folder of its own, with the model-free encoder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *arguments: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "toolcrib.service.cli", *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TOOLCRIB_ENCODER__DENSE": "deterministic", "COLUMNS": "100", **env},
        )

    def json(self, *arguments: str, **options: str) -> Any:
        done = self(*arguments, "--json", **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, name: str, *rows: object) -> str:
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def indexed(shell: Shell) -> Shell:
    """A shell in whose folder `TOOLS` are indexed."""
    shell.json("index", shell.write("tools.jsonl", *TOOLS))
    return shell
