"""A folder to run `toolcrib` in, and a handful of tools."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from toolcrib.cli import main, output, progress
from toolcrib.store.folder import copy_sparsely

TOOLS = [
    {"name": "send_mail", "description": "Send a mail to somebody.", "server": "mail"},
    {"name": "read_file", "description": "Read a file.", "server": "files", "tags": ["safe"]},
    {"name": "drop", "description": "Drop a table.", "server": "sql", "enabled": False},
]


ENV = {"TOOLCRIB_ENCODER__DENSE": "deterministic", "COLUMNS": "100"}


class Shell:
    """Runs `toolcrib` in a folder of its own, with the model-free encoder.

    In this process, as to start one takes longer than most commands; what only a process of its
    own can show, `process` does. On a `screen` everything comes together, as somebody sees it.
    """

    def __init__(self, folder: Path, *, screen: bool = False) -> None:
        self.folder = folder
        self.screen = screen

    def __call__(
        self, *arguments: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        env = {**ENV, **env}
        given, out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(3))
        err = out if self.screen else err
        given.write(stdin)
        given.seek(0)
        code = 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.folder)
            patch.setattr(sys, "argv", ["toolcrib", *arguments])
            patch.setattr(sys, "stdin", given)
            for console in (output.out, output.err, output.notes):
                patch.setattr(console, "width", int(env["COLUMNS"]))
            patch.setattr(output.out, "_force_terminal", self.screen)
            # However slow this machine is, nothing comes between what is looked at.
            patch.setattr(progress, "LINE_INTERVAL_S", 3600.0)
            for name, value in env.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                code = int(end.code or 0)
        return subprocess.CompletedProcess(arguments, code, _text(out), _text(err))

    def process(
        self, *arguments: str, stdin: str = "", **env: str
    ) -> subprocess.CompletedProcess[str]:
        """The same in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "toolcrib", *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **ENV, **env},
        )

    def json(self, *arguments: str, **options: str) -> Any:
        done = self(*arguments, "--json", **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def complete(self, line: str, **env: str) -> set[str]:
        """What bash offers for a line."""
        words = ["toolcrib", *line.split(" ")]
        env |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        done = self(_TOOLCRIB_COMPLETE="complete_bash", **env)
        assert (done.returncode, done.stderr) == (0, "")
        return set(done.stdout.split())

    def error(self, *arguments: str, code: int = 2, **options: str) -> str:
        """Standard error of a command that fails with this exit code."""
        done = self(*arguments, **options)
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def write(self, name: str, *rows: object) -> str:
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return name


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture(scope="session")
def _indexed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shell = Shell(tmp_path_factory.mktemp("indexed"))
    shell.json("index", shell.write("tools.jsonl", *TOOLS))
    return shell.folder


@pytest.fixture
def indexed(shell: Shell, _indexed_folder: Path) -> Shell:
    """A shell in whose folder `TOOLS` are indexed."""
    copy_sparsely(_indexed_folder, shell.folder)
    return shell
