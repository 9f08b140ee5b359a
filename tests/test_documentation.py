"""The documentation is true: its examples run, its links lead somewhere, its tables are generated.

Commands run in this process, in an empty folder for each page. A fenced block with a `title` is
a file of that folder. What stands below a command is what it prints, with `...` for what varies.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

import toolcrib
from tests.cli.conftest import Shell
from tests.conftest import encoded_once
from toolcrib import Crib, ToolSpec
from toolcrib.cli.app import COMMANDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<file>[\w./-]+)")?\n(?P<body>.*?)^```',
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"\]\((?!https?:)(?P<target>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    file: str | None
    body: str


def blocks(page: Path) -> list[Block]:
    return [Block(**match.groupdict()) for match in BLOCK.finditer(page.read_text("utf-8"))]


RUN = [name for name in NAMES if {"console", "python"} & {b.language for b in blocks(ROOT / name)}]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
@pytest.mark.filterwarnings("default")
def test_the_examples_of_a_page_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    # Pages show the sample data under the path that it has in a clone.
    (tmp_path / "data").symlink_to(ROOT / "data")
    with encoded_once():
        for block in blocks(ROOT / name):
            if block.file:
                (tmp_path / block.file).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / block.file).write_text(block.body, "utf-8")
            elif block.language == "python":
                exec(compile(block.body, name, "exec"), {"__name__": "example"})
            elif block.language == "console":
                for command, shown in steps(block.body):
                    printed = run(command, tmp_path)
                    assert matches(shown, printed), f"$ {command}\nprints\n{printed}\nnot\n{shown}"
    # Libraries leave event loops open, which would warn in whatever test comes next.
    asyncio.set_event_loop(None)
    gc.collect()


@pytest.mark.parametrize("content", [None, "\n\n"])
def test_the_loop_of_the_readme_keeps_what_was_said_and_knows_renamed_tools(
    tmp_path, monkeypatch, content
):
    monkeypatch.chdir(tmp_path)
    with Crib.open(".toolcrib") as crib:
        schema = {"type": "object", "properties": {"$to": {"type": "string"}}}
        send = ToolSpec(name="send.mail", server="mail", description="Send a mail.")
        crib.index_tools(send.model_copy(update={"input_schema": schema}))
    given: dict = {}
    (loop, *_) = (b.body for b in blocks(ROOT / "README.md") if "def run(" in b.body)
    exec(compile(loop, "README.md", "exec"), given)
    asked, called = [], []

    def ask_model(messages, tools):
        asked.append([message["role"] for message in messages])
        if len(asked) > 1:
            assert "no tool has the id 'fetch'" in messages[-1]["content"]
            return {"role": "assistant", "content": "done"}
        names = tools[0]["function"]["name"], "fetch"
        calls = [
            {"function": {"name": name, "arguments": '{"to": "Ana"}'}, "id": name} for name in names
        ]
        return {"role": "assistant", "content": content, "tool_calls": calls}

    def call_tool(tool, arguments):
        called.append((tool, arguments))
        return "sent"

    assert given["run"]("send a mail to Ana", ask_model, call_tool) == "done"
    assert called == [("mail/send.mail", {"$to": "Ana"})]
    assert asked == [["user"], ["user", "assistant", "tool", "tool"]]


def steps(body: str) -> list[tuple[str, str]]:
    """The commands of a block, each with what is shown below it."""
    parts = [part.partition("\n") for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]]
    return [(command, shown) for command, _, shown in parts]


def matches(shown: str, printed: str) -> bool:
    """Whether this was printed; a page that shows nothing says nothing about it."""
    pattern = "".join(
        r"(?:.*\n)*?"
        if line == "..."
        else ".*?".join(map(re.escape, line.split("..."))) + r"[ ]*\n"
        for line in shown.splitlines()
    )
    return not shown or re.fullmatch(pattern, printed) is not None


def run(line: str, folder: Path) -> str:
    """Run one line: `NAME=VALUE`s, a command, `> FILE` or `|| true`; return what it prints."""
    words = shlex.split(line)
    may_fail = words[-2:] == ["||", "true"]
    words = words[:-2] if may_fail else words
    env = {}
    while re.match(r"[A-Z_]+=", words[0]):
        name, _, env[name] = words.pop(0).partition("=")
    *words, target = (*words[:-2], words[-1]) if ">" in words else (*words, None)
    program, *arguments = words
    if program == "python":
        with redirect_stdout(StringIO()) as out:
            runpy.run_path(arguments[0], run_name="__main__")
        return out.getvalue()
    assert program == "toolcrib", f"only toolcrib and python run here, not {program}"
    env = {"TOOLCRIB_ENCODER__DENSE": "bundled", "COLUMNS": "120", **env}
    done = Shell(folder, screen=target is None)(*arguments, **env)
    assert may_fail or done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    if target:
        (folder / target).write_text(done.stdout, "utf-8")
    return done.stdout


def prose(page: Path) -> str:
    """A page without its blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What can stand behind the `#` of a link to a page."""
    plain = (re.sub(r"[^\w\s-]", "", each).strip().lower() for each in HEADING.findall(prose(page)))
    return {re.sub(r"[\s-]+", "-", each) for each in plain}


def test_every_link_leads_somewhere():
    broken = []
    for page, match in ((each, match) for each in PAGES for match in LINK.finditer(prose(each))):
        target = (page.parent / match["target"]).resolve() if match["target"] else page
        # The site holds the pages alone: one that links out of docs/ would be broken there.
        reached = target.exists() and (page.parent == ROOT or target.is_relative_to(DOCS))
        if not reached or (match["anchor"] and match["anchor"] not in anchors(target)):
            broken.append((page.name, match[0]))
    assert broken == []


def test_every_page_is_in_the_navigation_of_the_site():
    def pages(entries: list) -> list[str]:
        found = []
        for entry in entries:
            value = entry if isinstance(entry, str) else next(iter(entry.values()))
            found += [value] if isinstance(value, str) else pages(value)
        return found

    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = pages(site["project"]["nav"])
    there = [page.relative_to(DOCS).as_posix() for page in PAGES[1:]]
    odd = sorted({*listed} ^ {*there})
    assert sorted(listed) == there, f"`nav` of zensical.toml and docs/ differ in {odd}"


def test_every_command_is_explained_on_a_page_written_by_hand():
    pages = "".join(page.read_text("utf-8") for page in PAGES if page.name != "commands.md")
    assert [command for command in COMMANDS if f"toolcrib {command}" not in pages] == []


def test_the_reference_is_what_the_code_says(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["reference.py", "--check"])
    runpy.run_path(str(ROOT / "scripts" / "reference.py"), run_name="__main__")


def test_the_python_reference_has_every_public_name():
    page = (DOCS / "reference" / "python.md").read_text("utf-8")
    named = set(re.findall(r"^::: toolcrib\.(\w+)$", page, re.MULTILINE))
    assert named == set(toolcrib.__all__) - {"__version__"}


def test_every_setting_says_what_it_is_for():
    page = (DOCS / "reference" / "settings.md").read_text("utf-8")
    rows = re.findall(r"^\| `.*\|$", page, re.MULTILINE)
    assert len(rows) > 80
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.slow
def test_the_demo_runs(tmp_path):
    # What the tests run in is installed, and is not installed anew.
    command = ["make", "-o", ".venv/.installed", "demo", f"STORE={tmp_path / 'demo'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "247 added" in done.stdout
    assert "weather/rainRadar" in done.stdout
    assert "Try next:" in done.stdout


@pytest.mark.parametrize("page", ["render_docs", "render_results"])
def test_tables_are_what_the_committed_results_say(page):
    script = ROOT / "benchmarks" / f"{page}.py"
    command = [sys.executable, script, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
