"""Typing of the public API, as mypy and pyright see it from outside; never run.

A line that must not pass says so to both, and each complains where it passes after all.
"""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

from toolcrib import (
    Collection,
    Context,
    Crib,
    Decision,
    Equals,
    FindResult,
    IndexReport,
    KnowledgeResult,
    PassageHit,
    RecoveryPolicy,
    RemoteCrib,
    Scope,
    Settings,
    ToolHit,
    ToolSpec,
    Turn,
    as_json,
)
from toolcrib.integrations.formats import export


def double(number: int) -> int:
    """A tool."""
    return 2 * number


def embedded() -> None:
    """What the embedded crib takes and gives."""
    with Crib.open(":memory:", settings=Settings()) as crib:
        assert_type(crib, Crib)
        assert_type(crib.index_tools("tools.json", double, [ToolSpec(name="a")]), IndexReport)
        found = crib.find_tools("mail", k="auto", coverage=0.9, where=Equals("server", "mail"))
        assert_type(found, FindResult)
        assert_type(found.tools, tuple[ToolHit, ...])
        assert_type(found.confidence, float | None)
        assert_type([hit.id for hit in found.tools], list[str])
        assert_type(crib.list_tools(scope=Scope()), Iterator[ToolSpec])
        assert_type(crib.index_docs("notes.md", collection="notes"), IndexReport)
        assert_type(crib.find_knowledge("why?"), KnowledgeResult)
        assert_type(crib.list_collections(), list[tuple[Collection, int]])
        assert_type(crib.detect("hello"), Context)
        decision = crib.route(Turn(text="hello"), k=3, shown=["mail/send"])
        assert_type(decision, Decision)
        failed = {"name": "mail/send", "parameters": {"to": "ana"}, "error": "550 refused"}
        said = [{"role": "user", "content": "mail Ana"}]
        turn = Turn(text="again", history=said, trajectory=[failed] * 3, attachments=["a.pdf"])
        assert_type([event.name for event in turn.trajectory], list[str])
        assert_type(decision.knowledge.passages, tuple[PassageHit, ...])
        assert_type(crib.alternates("mail/send", "hello"), tuple[ToolHit, ...])
        crib.report_outcome(decision.id, "mail/send", "failure", took_ms=3)
        crib.feedback(decision.id, route="tools", tools=["mail/send"], note="fine")
        assert_type(crib.recovery, RecoveryPolicy)
        assert_type(export([hit.tool for hit in found.tools], "openai"), list[dict[str, Any]])
        as_json(found)


async def awaited(crib: Crib | RemoteCrib) -> None:
    """Both cribs have the same methods to be awaited."""
    assert_type(await crib.aindex_tools("tools.json", prune=True), IndexReport)
    assert_type(await crib.afind_tools("mail", 3, gate=False), FindResult)
    assert_type(await crib.aroute("hello", budget_ms=50), Decision)
    assert_type(crib.alist_tools(), AsyncIterator[ToolSpec])
    await crib.afeedback("d-1", outcome="success")


def remote() -> None:
    """What a crib at a URL takes and gives."""
    with RemoteCrib("https://tools.example.org", api_key="tc", timeout_s=2) as crib:
        assert_type(crib, RemoteCrib)
        assert_type(crib.find_tools("mail", k=3, explain=True), FindResult)
        assert_type(crib.find_tools(needs=["Send a mail"]), FindResult)
        crib.feedback("d-1", tools=(), collections=("notes",), intent="", domain=None)


async def refused(crib: Crib, other: RemoteCrib) -> None:
    """What is misspelled or of another type is found before it runs."""
    crib.find_tools("mail", scoop=Scope())  # type: ignore[call-arg]
    crib.find_tools("mail", k="all")  # type: ignore[arg-type]
    crib.feedback("d-1", tool="mail/send")  # type: ignore[call-arg]
    other.feedback("d-1", tools=3)  # type: ignore[arg-type]
    crib.report_outcome("d-1", "mail/send", "broken")  # type: ignore[arg-type]
    await crib.afind_tools("mail", gate="no")  # type: ignore[arg-type]
    await crib.afeedback("d-1", tool="mail/send")  # type: ignore[call-arg]
