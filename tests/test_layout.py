"""Functions stay short, a name means one thing, and what is public is there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import toolcrib

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "toolcrib").rglob("*.py"))
TREES = {path: ast.parse(path.read_text()) for path in FILES}
MAX_FUNCTION_LINES = 60
MAX_SINGLE_IMPORTER = 11
FAMILIES = {ROOT / "toolcrib" / "indexers" / "readers", ROOT / "toolcrib" / "http" / "routes"}
"""Folders of modules behind one protocol, which a table of them imports."""

BANNED = {"utils", "helpers", "common", "manager", "misc"}

QUESTION_WORD = re.compile(r"(What|Whether|How|Who|Whose|Of|So|Where|That)\b")


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_function_is_longer_than_60_lines():
    assert [
        f"{relative(path)}:{node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1
        > MAX_FUNCTION_LINES + len((ast.get_docstring(node, clean=False) or "").splitlines())
    ] == []


def test_no_file_is_a_drawer_for_everything():
    assert {f.stem for f in FILES} & BANNED == set()


def test_a_docstring_begins_with_a_noun_or_a_verb():
    assert [
        f"{relative(path)}: {ast.get_docstring(node)}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module)
        and QUESTION_WORD.match(ast.get_docstring(node) or "")
    ] == []


def test_no_two_public_classes_share_a_name():
    homes = defaultdict(set)
    for path, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module(path))
    assert {name: sorted(where) for name, where in homes.items() if len(where) > 1} == {}


def test_few_modules_are_imported_by_one_sibling_alone():
    """Such a module is a chapter of that sibling, unless it is one of a family.

    A package's own `__init__` is its face, and no sibling.
    """
    importers = defaultdict(set)
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                importers[node.module].add(path)
                for alias in node.names:
                    importers[f"{node.module}.{alias.name}"].add(path)
    alone = {
        relative(path): relative(user)
        for path in FILES
        if path.stem not in {"__init__", "__main__"}
        and len(users := importers[module(path)] - {path}) == 1
        and (user := next(iter(users))).parent == path.parent
        and user.stem != "__init__"
        and path.parent not in FAMILIES
    }
    assert len(alone) <= MAX_SINGLE_IMPORTER, alone


def test_type_checkers_are_told_to_look_inside():
    assert (ROOT / "toolcrib" / "py.typed").read_text() == ""


def test_the_public_names_are_sorted_and_there():
    assert toolcrib.__all__ == sorted(toolcrib.__all__)
    assert dir(toolcrib) == toolcrib.__all__
    for name in toolcrib.__all__:
        assert getattr(toolcrib, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'toolcrib' has no attribute 'Crab'"):
        _ = toolcrib.Crab


def test_the_version_is_the_packages():
    from importlib.metadata import version

    assert toolcrib.__version__ == version("toolcrib")


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        ("import toolcrib", ("numpy", "pydantic", "onnxruntime", "qdrant_edge", "rich")),
        ("import toolcrib.cli.app", ("numpy", "onnxruntime", "qdrant_edge", "yaml")),
        (
            "from toolcrib import Crib",
            ("asyncio", "ssl", "yaml", "numpy", "onnxruntime", "qdrant_edge", "toolcrib.settings"),
        ),
        (
            "import toolcrib.crib, toolcrib.cli.app as a; all(map(a.load, a.COMMANDS))",
            (
                "fastembed",
                "qdrant_client",
                "mcp",
                "torch",
                "sentence_transformers",
                "langchain_core",
            ),
        ),
    ],
)
def test_what_is_heavy_is_imported_only_when_used(statement, never):
    code = f"import sys; {statement}; print(' '.join(m for m in {never!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


MAP_ROWS = re.findall(
    r"^\| ((?:`[\w/.]+`(?:, )?)+) \| (.+) \|$",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")[1],
    re.MULTILINE,
)


def test_the_map_has_every_folder_and_file():
    here = {path.name for path in (ROOT / "toolcrib").iterdir() if not path.name.startswith("_")}
    mapped = re.findall(r"`([\w.]+)/?`", " ".join(places for places, _ in MAP_ROWS))
    beside = {"py.typed", "serve.py"}
    assert here - beside - {*mapped} == set(), "CONTRIBUTING.md has no row for these"


@pytest.mark.parametrize(("places", "text"), MAP_ROWS, ids=[row[0] for row in MAP_ROWS])
def test_the_map_names_what_there_is(places, text):
    homes = [ROOT / "toolcrib" / place for place in re.findall(r"`([\w/.]+)`", places)]
    assert [home for home in homes if not home.exists()] == []
    known = {
        each.name if each.is_dir() else each.stem
        for home in homes
        if home.is_dir()
        for each in home.rglob("*")
    }
    modules = re.findall(r"`([a-z_]+)/?`", text)
    assert [name for name in modules if name not in known and homes[0].is_dir()] == []


CHANGE_ROWS = re.findall(
    r"^\| ([^|]+) \| (`[^|]+) \| (`[^|]+) \|$",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")[2],
    re.MULTILINE,
)


@pytest.mark.parametrize(
    ("start", "files"), [row[1:] for row in CHANGE_ROWS], ids=[row[0] for row in CHANGE_ROWS]
)
def test_the_files_of_a_change_are_there(start, files):
    places = re.findall(r"`([\w/]+(?:/|\.py))`", f"{start} {files}")
    roots = ROOT, ROOT / "toolcrib"
    assert places
    assert [
        place
        for place in places
        if "NAME" not in place and not any((root / place).exists() for root in roots)
    ] == []


MAX_COLD_MODULES = 62


def test_a_search_imports_few_of_our_modules(tmp_path):
    tools = tmp_path / "tools.jsonl"
    tools.write_text('{"name": "send_mail", "server": "mail", "description": "Send a mail."}\n')
    code = (
        "import atexit, sys; atexit.register(lambda: print(*sorted(m for m in sys.modules"
        " if m.startswith('toolcrib')), file=sys.stderr)); from toolcrib.cli import main; main()"
    )
    for arguments in (["index", str(tools)], ["search", "write to Ana"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments, "--quiet", "--store", str(tmp_path / "store")],
            capture_output=True,
            text=True,
            check=True,
        )
    assert "send_mail" in done.stdout
    assert len(done.stderr.split()) <= MAX_COLD_MODULES, done.stderr
