"""The GitHub action and the pre-commit hook run a command that is there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from toolcrib.cli.app import COMMANDS

ACTION = ROOT / "action.yml"
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
BESIDE = Path(sys.executable).parent

GOOD = {"name": "send_mail", "description": "Sends a letter to somebody.", "server": "post"}
LOST = {"name": "read_file", "server": "files"}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        ({"REPORT": "page.html"}, 1, "::error::files/read_file: it has no description"),
        ({"IGNORE": "no-description\n"}, 0, "2 tools, 0 errors"),
        (
            {"SOURCES": "tools one.jsonl\nnothing.jsonl\n", "IGNORE": "no-description\n"},
            1,
            "::error::nothing.jsonl: there is no such file",
        ),
        ({"SOURCES": "nothing.jsonl"}, 2, "::error::nothing.jsonl: there is no such file"),
        ({"FAIL_ON": "fatal"}, 2, "::error::an input is wrong"),
        ({"IGNORE": "spelling\n"}, 2, "::error::no rule is called 'spelling'"),
        ({"SOURCES": "forged"}, 2, "a%0A::notice::b.json: not valid JSON"),
    ],
)
def test_the_script_of_the_action_annotates_and_ends_as_the_command(tmp_path, inputs, code, said):
    rows = "".join(json.dumps(row) + "\n" for row in (GOOD, LOST))
    (tmp_path / "tools one.jsonl").write_text(rows)
    (tmp_path / "forged").mkdir()
    (tmp_path / "forged" / "a\n::notice::b.json").write_text("no JSON")
    (step,) = [s for s in yaml.safe_load(ACTION.read_text("utf-8"))["runs"]["steps"] if "id" in s]
    given = {"SOURCES": "tools one.jsonl\n", "FAIL_ON": "error", "IGNORE": "", "REPORT": ""}
    assert step["env"].keys() == given.keys()
    env = {
        **os.environ,
        **given,
        **inputs,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PATH": f"{BESIDE}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TOOLCRIB_ENCODER__DENSE": "deterministic",
    }
    command = ["bash", "-e", "-c", step["run"]]
    how = {"cwd": tmp_path, "env": env, "capture_output": True, "text": True}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert (tmp_path / "page.html").exists() == ("REPORT" in inputs)
    if code != 2:
        assert re.fullmatch(r"errors=\d+\n", (tmp_path / "output").read_text())


def test_the_hook_runs_a_command_that_is_there():
    program, command = HOOK["entry"].split()
    assert program == "toolcrib"
    assert command in COMMANDS


@pytest.mark.parametrize(
    ("name", "looked_at"),
    [
        ("tools.json", True),
        ("registry/tools-eu.yaml", True),
        ("openapi.yml", True),
        ("mcp.json", False),
        ("src/tools.py", False),
    ],
)
def test_the_hook_looks_at_files_of_tools_and_starts_no_servers(name, looked_at):
    assert (re.search(HOOK["files"], name) is not None) == looked_at
