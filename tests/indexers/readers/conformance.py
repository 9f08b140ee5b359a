"""What every reader promises, as tests that each reader's own tests inherit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from toolcrib.indexers.readers.base import Reader, Reading, Source
from toolcrib.indexers.readers.registry import readers, tool_entries
from toolcrib.records import Refusal, ToolSpec

SAMPLES = {
    "toolspec": (
        "crm.yaml",
        """\
tools:
  - name: find_customer
    description: Find a customer by name, e-mail or number.
    tags: [crm]
  - name: close_deal
    description: Mark a deal as won or lost.
    input_schema: {type: object, properties: {deal: {type: string}}}
""",
    ),
    "functions": (
        "chat.json",
        """\
[
  {"type": "function", "function": {"name": "post_message", "description": "Post a message.",
   "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}}},
  {"name": "list_channels", "description": "List the channels.", "input_schema": {"type": "object"}}
]
""",
    ),
    "openapi": (
        "shop.yaml",
        """\
openapi: 3.0.3
info: {title: Shop, version: "1"}
paths:
  /orders:
    get: {operationId: listOrders, summary: List orders, responses: {200: {description: ok}}}
    post: {operationId: createOrder, summary: Place an order, responses: {201: {description: ok}}}
""",
    ),
    "python": (
        "garden.py",
        '''\
def water(minutes: int) -> None:
    """Water the garden."""

def mow() -> None:
    """Mow the lawn."""

TOOLS = [water, mow]
''',
    ),
    "mcp": (
        "files.json",
        """\
{"tools": [{"name": "read_file", "description": "Read a file.", "inputSchema": {"type": "object"}},
           {"name": "list_files", "inputSchema": {"type": "object"}}]}
""",
    ),
    "mcp-servers": ("mcp.json", '{"mcpServers": {"clock": {"command": "clock-server"}}}'),
}
"""A small file of each format; no reader may take another's for its own."""

GARBAGE = {
    "empty.json": b"",
    "blank.yaml": b" \n\n",
    "broken.json": b'{"tools": [',
    "broken.yaml": b"a: [1\nb: }",
    "latin.json": b'[{"name": "caf\xe9"}]',
    "noise.jsonl": bytes(range(256)),
    "number.json": b"42",
    "nulls.json": b"[null, null]",
    "zipped.json.gz": b"\x1f\x8b\x08\x00broken",
    "deep.json": b"[" * 100_000,
}


def write(folder: Path, name: str, content: Any) -> str:
    """Write a file of text, or of what is written as JSON, and give its path."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


def write_sample(folder: Path, name: str) -> Source:
    """Write the sample of one format into `folder` and give the source that names it."""
    assert name in SAMPLES, f"SAMPLES in {__file__} has no small file of the format {name!r}"
    file, content = SAMPLES[name]
    path = write(folder, file, content)
    return Source.by_name(f"{path}:TOOLS" if name == "python" else path)


def read_source(name: str, *, format: str | None = None, server: str | None = None) -> Reading:
    """Tools and refusals of a source, without the sources' names."""
    return (item for _, item in tool_entries(name, server, format))


def split(reading: Reading) -> tuple[list[ToolSpec], list[Refusal]]:
    """Read to the end: tools and refusals apart, each in order."""
    items = list(reading)
    tools = [item for item in items if isinstance(item, ToolSpec)]
    return tools, [item for item in items if isinstance(item, Refusal)]


class ReaderConformance:
    """The contract of `Reader`; a test class inherits it, sets `reader` and gives the sources."""

    reader: ClassVar[Reader]

    def good(self, folder: Path) -> Source:
        """A source of at least two good tools and nothing else; by default the sample."""
        return write_sample(folder, self.reader.format)

    def mixed(self, folder: Path) -> Source:
        """A source of at least one good and one bad tool."""
        raise NotImplementedError

    def nothing(self, folder: Path) -> Source:
        """A source of this format without any tool."""
        raise NotImplementedError

    def test_recognises_its_own(self, tmp_path: Path) -> None:
        source = self.good(tmp_path)
        assert [r.format for r in readers() if r.recognises(source)] == [self.reader.format]

    @pytest.mark.parametrize("name", GARBAGE)
    def test_recognises_no_garbage_and_does_not_raise(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(GARBAGE[name])
        assert not self.reader.recognises(Source.by_name(str(path)))

    @pytest.mark.parametrize("name", ["", "no such file", "a\0b", "x" * 5000, "C:\\tools.json"])
    def test_recognises_no_nonsense_name(self, name: str) -> None:
        assert not self.reader.recognises(Source.by_name(name))

    def test_reads_the_same_twice_and_after_a_round_trip(self, tmp_path: Path) -> None:
        tools, refusals = split(self.reader.read(self.good(tmp_path), None))
        assert refusals == []
        assert len({tool.id for tool in tools}) == len(tools) >= 2
        path = tmp_path / "written.jsonl"
        path.write_text("".join(json.dumps(tool.model_dump(mode="json")) + "\n" for tool in tools))
        for again in (self.reader.read(self.good(tmp_path), None), read_source(str(path))):
            assert split(again) == (tools, [])

    def test_server_can_be_overridden(self, tmp_path: Path) -> None:
        tools, _ = split(self.reader.read(self.good(tmp_path), "elsewhere"))
        assert {tool.server for tool in tools} == {"elsewhere"}
        assert all(tool.id == f"elsewhere/{tool.name}" for tool in tools)

    def test_bad_tools_never_lose_good_ones(self, tmp_path: Path) -> None:
        source = self.mixed(tmp_path)
        tools, refusals = split(self.reader.read(source, None))
        assert tools
        assert refusals
        assert all(refusal.source == source.name and refusal.reason for refusal in refusals)

    def test_is_never_silent(self, tmp_path: Path) -> None:
        source = self.nothing(tmp_path)
        tools, refusals = split(read_source(source.name, format=self.reader.format))
        assert tools == []
        assert refusals
