"""The built files: complete, of these sources, small, and nothing in them from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path

import pytest

from toolcrib.http import app
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.rerank import RerankSettings

CONSOLE = Path(__file__).parents[2] / "console"
SOURCES = ("build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src")
MAX_BYTES = 125_000
MAX_LATER_BYTES = 25_000
"""Of views that are loaded when one of them is first shown."""

CHUNKS = ("more-", "chunk-")
"""Scripts that another one loads."""

installed = pytest.mark.skipif(
    not (CONSOLE / "node_modules" / "esbuild").is_dir() or shutil.which("node") is None,
    reason="the console's packages are not installed: npm ci in console/",
)


def built() -> dict[str, Path]:
    return {path.name: path for path in app.CONSOLE.iterdir()}


def sources() -> list[Path]:
    """Every source by its name within `console/`, in order."""
    found = []
    for name in SOURCES:
        path = CONSOLE / name
        found += path.rglob("*") if path.is_dir() else [path]
    files = [path for path in found if path.is_file()]
    return sorted(files, key=lambda path: path.relative_to(CONSOLE).as_posix())


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def test_the_built_files_are_those_of_the_sources():
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(CONSOLE).as_posix()}\n"
        for path in sources()
    ]
    recorded = json.loads(built()["build.json"].read_text("utf-8"))["sources"]
    hint = "the console's sources have changed: npm run build in console/"
    assert recorded == hashlib.sha256("".join(lines).encode()).hexdigest(), hint


@installed
def test_building_again_gives_the_same_files(tmp_path):
    subprocess.run(["node", "build.mjs", tmp_path], cwd=CONSOLE, check=True, capture_output=True)
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert again == {name: path.read_bytes() for name, path in built().items()}


@installed
def test_the_sources_hold_what_their_types_say():
    command = [CONSOLE / "node_modules" / ".bin" / "tsc", "--noEmit"]
    checked = subprocess.run(command, cwd=CONSOLE, capture_output=True, check=False)
    assert checked.stdout == b""


def test_licences_of_everything_bundled_come_along():
    packages = json.loads(built()["build.json"].read_text("utf-8"))["packages"]
    pinned = json.loads((CONSOLE / "package-lock.json").read_text("utf-8"))["packages"]
    needed = {
        name.removeprefix("node_modules/"): entry
        for name, entry in pinned.items()
        if name and not entry.get("dev")
    }
    assert packages == {name: entry["version"] for name, entry in needed.items()}
    text = built()["LICENSES.txt"].read_text("utf-8")
    for name, entry in needed.items():
        assert f"{name} {entry['version']} ({entry['license']})" in text
    assert text.count("Permission is hereby granted") == len(needed)


def test_versions_are_pinned():
    package = json.loads((CONSOLE / "package.json").read_text("utf-8"))
    versions = {**package["dependencies"], **package["devDependencies"]}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions.values())


def test_the_page_names_only_its_own_files_and_has_nothing_inline():
    tags = Tags(built()["index.html"].read_text("utf-8")).found
    named = [a.get("src") or a.get("href") for _, a in tags if "src" in a or "href" in a]
    loaded = {name for name in built() if name.startswith(CHUNKS)}
    assert set(named) == set(built()) - loaded - {"index.html", "build.json", "LICENSES.txt"}
    assert all(a.get("src") for tag, a in tags if tag == "script")
    assert all(tag != "style" and "style" not in a for tag, a in tags)
    assert not [name for _, a in tags for name in a if name.startswith("on")]


def test_names_tell_the_content():
    for name, path in built().items():
        if path.suffix in {".js", ".css"}:
            assert re.fullmatch(r"(app|look|more|chunk)-[A-Z0-9]{8}\.(js|css)", name)


def test_it_is_small():
    sizes = {name: path.stat().st_size for name, path in built().items()}
    later = sum(size for name, size in sizes.items() if name.startswith("more-"))
    assert sum(sizes.values()) - later < MAX_BYTES
    assert later < MAX_LATER_BYTES


def test_no_source_makes_markup_of_text():
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function"
    for path in sources():
        if path.suffix in {".ts", ".tsx"}:
            assert not re.search(forbidden, path.read_text("utf-8")), path


def test_scores_are_taken_apart_by_the_weights_that_ship():
    used = json.loads((CONSOLE / "src" / "words" / "fusion.json").read_text("utf-8"))
    shipped = {**asdict(FusionWeights()), "rerank": RerankSettings().weight}
    assert used == {name: shipped[name] for name in used}
    assert shipped["method"] == "convex"
