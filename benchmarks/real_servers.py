"""First minute of the gateway with MCP servers that others wrote, from npm and PyPI.

    python benchmarks/real_servers.py --json benchmarks/results/real_servers.json

Installs the servers (once, into `--folder`); one that cannot be had here is skipped by name. Then:

1. Fresh starts: a new store, seven servers, one search as soon as the handshake is done. The
   search is right if it finds the tool, or names the tool's server as missing.
2. Known servers: twelve that the store knows already; seconds from handshake to answer.

Each start also says what the handshake announced. Times are those of a machine that is idle:
`load` is the load average before the first start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from mcp import Client, StdioServerParameters

STARTS = 10
FRESH_SERVERS = 7
INSTALL_TIMEOUT_S = 600
MEETING_TIMEOUT_S = 300
BIN = "Scripts" if os.name == "nt" else "bin"


@dataclass(frozen=True)
class RealServer:
    """Server of a registry, with a request and the tools that serve it.

    In `arguments` and in values of `env`, {folder} is an empty folder.
    """

    registry: str
    package: str
    version: str
    program: str
    request: str
    tools: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    beside: tuple[str, ...] = ()
    """Packages to install with it."""

    def install(self, folder: Path) -> list[str]:
        """Install the server, and return its command line."""
        program = self._program(folder)
        if not program.exists():
            for command in self._installation(folder):
                subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)
        return ["node", str(program.resolve())] if self.registry == "npm" else [str(program)]

    def _program(self, folder: Path) -> Path:
        if self.registry == "npm":
            return folder / "node_modules" / ".bin" / self.program
        return folder / BIN / self.program

    def _installation(self, folder: Path) -> list[list[str]]:
        pin = "@" if self.registry == "npm" else "=="
        package = f"{self.package}{pin}{self.version}"
        if self.registry == "npm":
            quiet = ["--no-audit", "--no-fund", "--ignore-scripts"]
            return [["npm", "install", "--prefix", str(folder), *quiet, package]]
        python = str(folder / BIN / "python")
        return [
            [sys.executable, "-m", "venv", str(folder)],
            [python, "-m", "pip", "install", "--quiet", package, *self.beside],
        ]


OFFICIAL = "@modelcontextprotocol/server-"

SERVERS = {
    "files": RealServer(
        "npm",
        OFFICIAL + "filesystem",
        "2026.8.31",
        "mcp-server-filesystem",
        "read the text of a file",
        ("read_text_file", "read_file"),
        ("{folder}",),
    ),
    "time": RealServer(
        "PyPI",
        "mcp-server-time",
        "2026.10.19",
        "mcp-server-time",
        "what time is it in Tokyo now",
        ("get_current_time",),
    ),
    "memory": RealServer(
        "npm",
        OFFICIAL + "memory",
        "2026.8.31",
        "mcp-server-memory",
        "add new entities to the knowledge graph",
        ("create_entities",),
        env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    ),
    "git": RealServer(
        "PyPI",
        "mcp-server-git",
        "2026.10.19",
        "mcp-server-git",
        "record the staged changes as a commit",
        ("git_commit",),
    ),
    "everything": RealServer(
        "npm",
        OFFICIAL + "everything",
        "2026.8.31",
        "mcp-server-everything",
        "add two numbers and return the sum",
        ("get-sum", "add"),
    ),
    "sqlite": RealServer(
        "PyPI",
        "mcp-server-sqlite",
        "2025.4.25",
        "mcp-server-sqlite",
        "run a SELECT query on the SQLite database",
        ("read_query",),
        ("--db-path", "{folder}/notes.db"),
        beside=("mcp<2",),
    ),
    "thinking": RealServer(
        "npm",
        OFFICIAL + "sequential-thinking",
        "2026.8.31",
        "mcp-server-sequential-thinking",
        "think a problem through in numbered thoughts",
        ("sequentialthinking",),
    ),
    "github": RealServer(
        "npm",
        OFFICIAL + "github",
        "2025.4.8",
        "mcp-server-github",
        "open an issue in a GitHub repository",
        ("create_issue",),
    ),
    "browser": RealServer(
        "npm",
        "@playwright/mcp",
        "0.0.83",
        "playwright-mcp",
        "take a screenshot of the page in the browser",
        ("browser_take_screenshot",),
    ),
    "fetch": RealServer(
        "PyPI",
        "mcp-server-fetch",
        "2026.10.24",
        "mcp-server-fetch",
        "fetch a URL from the internet as markdown",
        ("fetch",),
    ),
    "calculator": RealServer(
        "PyPI",
        "mcp-server-calculator",
        "0.2.1",
        "mcp-server-calculator",
        "evaluate an arithmetic expression",
        ("calculate",),
    ),
    "excel": RealServer(
        "PyPI",
        "excel-mcp-server",
        "2.2.2",
        "excel-mcp-server",
        "create a pivot table in an Excel workbook",
        ("create_pivot_table",),
        ("stdio",),
    ),
}
"""The first seven are those of the fresh starts."""


def install_all(folder: Path, empty: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Entries of an `mcp.json` for the servers that can be had here, and why others cannot."""
    entries, skipped = dict[str, Any](), dict[str, str]()
    for name, server in SERVERS.items():
        try:
            command, *first = server.install(folder / name)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error).encode()
            skipped[name] = said.decode(errors="replace").strip().splitlines()[-1]
            print(f"skipped {name} ({server.package}): {skipped[name]}", file=sys.stderr)
            continue
        given = [each.format(folder=empty) for each in server.arguments]
        env = {key: value.format(folder=empty) for key, value in (server.env or {}).items()}
        entries[name] = {"command": command, "args": [*first, *given], "env": env}
    return entries, skipped


def gateway(config: Path, store: Path) -> Client:
    """Client of a gateway that it starts."""
    arguments = ["-m", "toolcrib", "gateway", str(config), "--store", str(store)]
    command, env = sys.executable, dict(os.environ)
    return Client(StdioServerParameters(command=command, args=arguments, env=env))


async def meet(config: Path, store: Path) -> None:
    """Let a store know all servers: search until none is missing."""
    async with asyncio.timeout(MEETING_TIMEOUT_S), gateway(config, store) as client:
        while True:
            answer = await client.call_tool("find_tools", {"query": "read a file"})
            if answer.structured_content and not answer.structured_content.get("missing"):
                return


async def start(config: Path, store: Path, name: str) -> dict[str, Any]:
    """Start a gateway, search at once, and tell what a client sees."""
    server = SERVERS[name]
    began = perf_counter()
    async with gateway(config, store) as client:
        met = perf_counter()
        answer = await client.call_tool("find_tools", {"query": server.request})
        answered = perf_counter()
        content = answer.structured_content or {}
        found = [tool["name"] for tool in content.get("tools", ())]
        able = client.server_capabilities
        print(f"{name}: {answered - met:.2f} s, {found[:1]}", file=sys.stderr)
        return {
            "server": name,
            "handshake_s": round(met - began, 3),
            "answer_s": round(answered - met, 3),
            "found": any(f"{name}__{tool}" in found for tool in server.tools),
            "first": bool(found) and found[0] in {f"{name}__{tool}" for tool in server.tools},
            "missing": [each["server"] for each in content.get("missing", ())],
            "verdict": content.get("verdict"),
            "prompts": len((await client.list_prompts()).prompts) if able.prompts else None,
            "resources": len((await client.list_resources()).resources) if able.resources else None,
        }


def is_right(start: Mapping[str, Any]) -> bool:
    """True if the tool was found, or its server named as missing."""
    return start["found"] or start["server"] in start["missing"]


def summary(starts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums over starts; times in seconds."""
    answers = [each["answer_s"] for each in starts]
    return {
        "starts": len(starts),
        "right": sum(map(is_right, starts)),
        "found": sum(each["found"] for each in starts),
        "found_first": sum(each["first"] for each in starts),
        "with_prompts": sum(bool(each["prompts"]) for each in starts),
        "with_resources": sum(bool(each["resources"]) for each in starts),
        "handshake_s": round(median(each["handshake_s"] for each in starts), 2),
        "answer_s": {"median": round(median(answers), 2), "max": round(max(answers), 2)},
        "each": list(starts),
    }


async def measure(entries: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Fresh starts with the first servers, then starts with all, which the store knows."""
    few, all_of = folder / "few.json", folder / "all.json"
    first = list(entries)[:FRESH_SERVERS]
    few.write_text(json.dumps({"mcpServers": {name: entries[name] for name in first}}))
    all_of.write_text(json.dumps({"mcpServers": entries}))
    fresh = [
        await start(few, folder / f"store{number}", first[number % len(first)])
        for number in range(STARTS)
    ]
    known = folder / "known"
    names = list(entries)
    await meet(all_of, known)
    again = [
        await start(all_of, known, names[-1 - number % len(names)]) for number in range(STARTS)
    ]
    return {
        "fresh": {"servers": first, **summary(fresh)},
        "known": {"servers": names, **summary(again)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    default = Path(tempfile.gettempdir()) / "toolcrib-real-servers"
    parser.add_argument("--folder", type=Path, default=default, help="where servers are installed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        empty = Path(scratch) / "files"
        empty.mkdir()
        entries, skipped = install_all(options.folder, empty)
        if not entries:
            print("skipped: no server can be had here")
            return
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
        figures = asyncio.run(measure(entries, Path(scratch)))
    found = {
        "command": "python benchmarks/real_servers.py",
        "packages": {name: f"{SERVERS[name].package} {SERVERS[name].version}" for name in entries},
        "skipped": skipped,
        "load": load,
        **figures,
    }
    print(json.dumps(found, indent=1))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
