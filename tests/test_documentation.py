"""Every command and every example in the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>[\w./-]+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\]\((?!https?:|#)(?P<target>[^)#\s]+)")

COMMANDS = {
    *("index", "search", "list", "show", "remove", "doctor", "calibrate", "eval", "train"),
    *("index-docs", "collections", "route", "report"),
    *("serve", "gateway", "keys", "audit", "approve"),
}


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    file: str | None
    language: str
    body: str


def blocks(page: Path) -> list[Block]:
    return [Block(**match.groupdict()) for match in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_page_run(name, tmp_path):
    found = blocks(ROOT / name)
    # Pages show the sample data under the path that it has in a clone.
    (tmp_path / "data").symlink_to(ROOT / "data")
    for block in found:
        if block.file:
            (tmp_path / block.file).write_text(block.body)
    for block in found:
        if block.language == "console":
            for line in block.body.splitlines():
                if line.startswith("$ "):
                    run(["bash", "-c", line[2:]], tmp_path)
        elif block.language == "python" and not block.file:
            run([sys.executable, "-c", block.body], tmp_path)


def run(command: list[str], folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name):
    page = ROOT / name
    targets = [match["target"] for match in LINK.finditer(page.read_text())]
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_every_command_is_shown_somewhere():
    text = "\n".join(page.read_text() for page in PAGES)
    assert {command for command in COMMANDS if f"toolcrib {command}" not in text} == set()


def test_every_setting_is_documented():
    from toolcrib import Settings

    text = (ROOT / "docs" / "settings.md").read_text()
    undocumented = []
    for name, value in Settings().model_dump().items():
        fields = value if isinstance(value, dict) else {name: value}
        undocumented += [field for field in fields if f"{field}:" not in text]
    assert undocumented == []


def test_the_demo_runs(tmp_path):
    done = subprocess.run(
        ["make", "demo", f"STORE={tmp_path / 'demo'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "247 added" in done.stdout
    assert "weather/rainRadar" in done.stdout
    assert "Try next:" in done.stdout


@pytest.mark.parametrize("page", ["render_docs", "render_results"])
def test_tables_are_what_the_committed_results_say(page):
    script = ROOT / "benchmarks" / f"{page}.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
