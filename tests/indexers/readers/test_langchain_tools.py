"""LangChain tools, read without importing LangChain."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.indexers.readers.conformance import split
from toolcrib.indexers.readers.registry import read_source
from toolcrib.records import Refusal


def write(folder: Path, code: str, attribute: str = "TOOLS") -> str:
    path = folder / "home.py"
    path.write_text(dedent(code), encoding="utf-8")
    return f"{path}:{attribute}"


def test_langchain_tools(tmp_path: Path) -> None:
    pytest.importorskip("langchain_core")
    code = '''
        from typing import Annotated
        from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
        from pydantic import BaseModel

        class Where(BaseModel):
            """A city."""
            city: str

        @tool
        def forecast(where: Where, user: Annotated[str, InjectedToolArg]) -> str:
            """Tell the weather."""

        class Alarm(BaseTool):
            name: str = "alarm"
            description: str = "Set an alarm."
            tags: list[str] = ["clock"]
            metadata: dict = {"room": "attic"}
            def _run(self, minutes: int): ...

        given = {"type": "object", "properties": {"q": {"type": "string"}}}
        search = StructuredTool(name="search", description="Search.", args_schema=given, func=print)
        TOOLS = [forecast, Alarm(), search, Alarm]
    '''
    name = write(tmp_path, code)
    tools, refusals = split(read_source(name))
    assert refusals == [Refusal(name, "[3]", "Alarm: is a class; name an object made of it")]
    forecast, alarm, search = tools
    assert (forecast.name, forecast.description) == ("forecast", "Tell the weather.")
    assert forecast.input_schema == {
        "type": "object",
        "properties": {
            "where": {
                "type": "object",
                "description": "A city.",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
        "required": ["where"],
    }
    assert (alarm.tags, alarm.annotations) == (("clock",), {"room": "attic"})
    assert alarm.input_schema["properties"] == {"minutes": {"type": "integer"}}
    assert search.input_schema["properties"] == {"q": {"type": "string"}}


def test_a_langchain_tool_is_told_without_langchain(tmp_path: Path) -> None:
    code = """
        class Looks:
            name, description, tags, metadata = "looks", "Looks like one.", None, None
            args_schema = {"type": "object", "description": "Looks like one."}
        class Broken(Looks):
            args_schema = None
        class Fails(Looks):
            description = None
            @property
            def tool_call_schema(self): raise KeyError("lost")
        class OfPydantic1(Looks):
            class args_schema:
                def schema(): return {"type": "object", "title": "X", "properties": {}}
        TOOLS = [Looks(), Broken(), OfPydantic1(), Fails()]
    """
    tools, refusals = split(read_source(write(tmp_path, code)))
    schemas: list[Any] = [tool.input_schema for tool in tools]
    assert schemas == [{"type": "object"}, {"type": "object", "properties": {}}]
    assert refusals[0].reason.startswith("looks: no schema can be made of its signature: ")
    assert refusals[1].reason == "looks: no schema can be made of its signature: KeyError: 'lost'"
