"""Tools into a service, in parts that it takes within its time; and out of it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

from toolcrib.client.answers import Written, read_nothing, read_written
from toolcrib.client.calls import DONE, Call, Steps, given
from toolcrib.client.parcels import PackedTools, packed_tools, parts
from toolcrib.client.reports import Told, joined, traced
from toolcrib.client.tools import every_tool, look_up, tool_path
from toolcrib.errors import UnknownToolError
from toolcrib.indexers.readers.registry import ToolSource, tool_entries
from toolcrib.indexers.sync import prune_refusal
from toolcrib.indexers.writer import Listener
from toolcrib.records import IndexReport
from toolcrib.store.filters import Equals

__all__ = ["index_tools", "read_sources", "remove_tools"]


def read_sources(
    sources: Iterable[ToolSource], server: str | None = None, format: str | None = None
) -> PackedTools:
    """What the sources hold, read on this side, and ready to be sent."""
    return packed_tools(
        entry for source in sources for entry in tool_entries(source, server, format)
    )


def index_tools(
    packed: PackedTools,
    *,
    server: str | None = None,
    prune: bool = False,
    progress: Listener | None = None,
) -> Steps[IndexReport]:
    """Bring a service up to date, as a sync does where it stands.

    `prune` removes tools that no source names (of `server` only, when given), but nothing while
    anything is refused. `progress` is called after each part, when its tools are durable.
    """
    parcels, refused = packed
    sent = list(parts([each] for each in parcels))
    # What fits into one request is pruned by the service, in one go with what it writes.
    at_once = prune and not refused and len(sent) <= 1 and server != ""
    report, held = IndexReport(refused=tuple(refused)), ()
    told = Told(len(parcels), progress)
    for part in sent or [[]] * at_once:
        tools = [each.body for each in part]
        only = server if at_once else None
        body = given(tools=tools, format="toolspec", server=only, prune=at_once)
        written: Written = yield Call("POST", "/v1/tools", read_written, body)
        written = traced(written, part)
        report, held = joined(report, written.report), held + written.held
        told.tell(part, (*written.report.refused, *written.held))
    if prune and not at_once:
        named = {each.id for each in parcels}
        report = joined(report, (yield from _prune(named, server, len(report.refused))))
    return replace(report, refused=report.refused + held)


def remove_tools(ids: Sequence[str]) -> Steps[None]:
    """Remove tools by id.

    Raises:
        UnknownToolError: there is no such tool; none is removed then.
    """
    for tool_id in ids:
        yield look_up(tool_id)
    for tool_id in ids:
        yield from _remove(tool_id)


def _remove(tool_id: str) -> Steps[None]:
    try:
        yield Call("DELETE", tool_path(tool_id), read_nothing, about=tool_id, status=DONE)
    except UnknownToolError:
        # Somebody else was faster, or an earlier attempt whose answer was lost.
        return


def _prune(named: Container[str], server: str | None, refused: int) -> Steps[IndexReport]:
    where = None if server is None else Equals("server", server)
    listed = yield from every_tool(None, where)
    gone = sorted(tool.id for tool in listed if tool.id not in named)
    if gone and refused:
        return IndexReport(refused=(prune_refusal("tools", refused, len(gone)),))
    for tool_id in gone:
        yield from _remove(tool_id)
    return IndexReport(removed=tuple(gone))
