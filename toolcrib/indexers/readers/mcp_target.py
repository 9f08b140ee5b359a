"""What a live MCP server is reached by, within which limits, and what came out of listing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["HttpTarget", "Listing", "McpLimits", "StdioTarget", "Target"]


def _nothing() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A command to start; it speaks MCP over its standard input and output.

    `env` is added to the few variables that are safe to hand on (`PATH`, `HOME` and the like).
    `cwd` is the folder it starts in; None is the current one.
    """

    command: str
    args: tuple[str, ...] = ()
    # Values of both mappings are often secrets: a traceback must not print them.
    env: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A URL that speaks MCP: streamable HTTP, or the older server-sent events if `sse`."""

    url: str
    headers: Mapping[str, str] = field(default_factory=_nothing, repr=False)
    sse: bool = False


Target: TypeAlias = StdioTarget | HttpTarget


@dataclass(frozen=True, slots=True)
class McpLimits:
    """How long and how far live servers are followed.

    `timeout_s` is for one server, from its start to its last page; `max_pages` ends a list
    that never ends by itself; `at_once` servers are asked at the same time.
    """

    timeout_s: float = 30.0
    max_pages: int = 10_000
    at_once: int = 8


@dataclass(frozen=True, slots=True)
class Listing:
    """What one server gave: its own name, its tools as they came, and why it stopped early.

    `failure` is empty when the list is complete; `tools` holds what came before it otherwise.
    """

    server: str
    tools: tuple[Any, ...]
    failure: str = ""
