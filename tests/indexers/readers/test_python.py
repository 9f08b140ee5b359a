"""Python functions and LangChain tools, imported by name."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar

import docstring_parser
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import ListToolsResult, Tool, ToolAnnotations

from tests.indexers.readers import conformance
from tests.indexers.readers.conformance import ReaderConformance, read_source, split
from toolcrib.indexers.readers.base import Reader, Source
from toolcrib.indexers.readers.python import PythonReader, read_objects
from toolcrib.records import Refusal, ToolSpec


def write(folder: Path, code: str, attribute: str = "TOOLS") -> str:
    return f"{conformance.write(folder, 'home.py', dedent(code))}:{attribute}"


def only(name: str) -> ToolSpec:
    (spec,) = read_source(name)
    assert isinstance(spec, ToolSpec)
    return spec


def reason(name: str, format: str | None = None) -> str:
    (refusal,) = read_source(name, format=format)
    assert isinstance(refusal, Refusal)
    return refusal.reason


def read(folder: Path, code: str) -> tuple[list[ToolSpec], list[Refusal]]:
    return split(read_source(write(folder, code)))


class TestPythonReader(ReaderConformance):
    reader: ClassVar[Reader] = PythonReader()

    def mixed(self, folder: Path) -> Source:
        code = """
            def good(x: int): "Good."
            def bad(x: "Missing"): "Bad."
            TOOLS = [good, bad, 3]
        """
        return Source.by_name(write(folder, code))

    def nothing(self, folder: Path) -> Source:
        return Source.by_name(write(folder, "TOOLS = []"))


def test_a_function_with_everything(tmp_path):
    code = '''
        from __future__ import annotations
        from typing import Annotated, Literal
        from pydantic import BaseModel, Field

        class Point(BaseModel):
            """A place on the map."""
            x: float
            title: str = ""

        def move(
            to: Point,
            how: Literal["fly", "walk"] = "walk",
            speed: Annotated[int, "In metres a second."] = 3,
            why: Annotated[str | None, Field(description="Kept in the log.")] = None,
            note: str = "",
        ) -> bool:
            """Move the robot.

            It avoids walls.

            Args:
                to: Where to.
                note: What the operator
                    wrote.
                why: Not used, as the field says it.

            Returns:
                Whether it arrived.
            """
    '''
    tool = only(write(tmp_path, code, "move"))
    assert (tool.id, tool.description) == ("home/move", "Move the robot.\n\nIt avoids walls.")
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "to": {
                "type": "object",
                "description": "A place on the map.",
                "properties": {"x": {"type": "number"}, "title": {"type": "string", "default": ""}},
                "required": ["x"],
            },
            "how": {"type": "string", "enum": ["fly", "walk"], "default": "walk"},
            "speed": {"type": "integer", "default": 3, "description": "In metres a second."},
            "why": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
                "description": "Kept in the log.",
            },
            "note": {"type": "string", "default": "", "description": "What the operator\nwrote."},
        },
        "required": ["to"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "docstring",
    [
        "Do it.\n\nArgs:\n    x: The number.\n",
        "Do it.\n\n:param x: The number.\n:returns: nothing\n",
        "Do it.\n\nParameters\n----------\nx : int\n    The number.\n",
    ],
)
def test_styles_of_docstring(tmp_path, docstring):
    code = f"def f(x: int): pass\nf.__doc__ = {docstring!r}\n"
    tool = only(write(tmp_path, code, "f"))
    assert tool.description == "Do it."
    assert tool.input_schema["properties"]["x"]["description"] == "The number."


def test_a_docstring_that_cannot_be_parsed_is_kept_whole(tmp_path, monkeypatch):
    def fail(text: str) -> Any:
        raise docstring_parser.ParseError(text)

    monkeypatch.setattr(docstring_parser, "parse", fail)
    assert only(write(tmp_path, "def f(): 'All: of it.'\n", "f")).description == "All: of it."


def test_lists_dicts_methods_and_coroutines(tmp_path):
    code = """
        class Lamp:
            def dim(self, percent: int): "Dim."
        async def later(): "Later."
        class Box: TOOLS = (Lamp().dim, later)
        BY_NAME = {"renamed": later, 7: Lamp().dim}
    """
    name = write(tmp_path, code, "Box.TOOLS")
    tools, refusals = split(read_source(name))
    assert ([tool.name for tool in tools], refusals) == (["dim", "later"], [])
    assert list(tools[0].input_schema["properties"]) == ["percent"]
    tools, _ = split(read_source(name.replace("Box.TOOLS", "BY_NAME")))
    assert [tool.name for tool in tools] == ["renamed", "dim"]


def test_annotations_as_text_are_resolved_for_methods_and_cached_functions(tmp_path):
    code = """
        from __future__ import annotations
        from datetime import date
        from functools import cache
        class Meter:
            def read(self, on: date): "Read."
            @classmethod
            def count(cls, on: date): "Count."
        @cache
        def tariffs(on: date): "Tariffs."
        TOOLS = [Meter().read, Meter.count, tariffs]
    """
    tools, refusals = read(tmp_path, code)
    assert ([tool.name for tool in tools], refusals) == (["read", "count", "tariffs"], [])
    for tool in tools:
        assert tool.input_schema["properties"] == {"on": {"type": "string", "format": "date"}}


def test_a_lambda_needs_a_name(tmp_path):
    code = "TOOLS = [lambda day: day]\nBY_NAME = {'read': TOOLS[0]}\n"
    name = write(tmp_path, code, "TOOLS")
    assert "a lambda has no name; write a function" in reason(name)
    assert only(name.replace("TOOLS", "BY_NAME")).name == "read"


def test_a_dotted_module_is_found_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "toolcrib_pack").mkdir()
    (tmp_path / "toolcrib_pack" / "garden.py").write_text("def water(): 'Water.'\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    assert only("toolcrib_pack.garden:water").id == "garden/water"
    assert sys.path == before


def test_a_file_may_import_its_neighbours(tmp_path):
    (tmp_path / "toolcrib_neighbour.py").write_text("def ring(): 'Ring.'\n")
    assert only(write(tmp_path, "from toolcrib_neighbour import ring\n", "ring")).id == "home/ring"


def test_what_a_module_prints_stays_out_of_our_output(tmp_path, capsys):
    only(write(tmp_path, "print('hello')\ndef f(): 'F.'\n", "f"))
    assert capsys.readouterr() == ("", "hello\n")


def test_a_default_that_json_cannot_write_is_left_out(tmp_path):
    code = "def f(a: float = float('inf'), b=object(), c: float = 1.5): 'F.'\n"
    properties = only(write(tmp_path, code, "f")).input_schema["properties"]
    assert properties == {"a": {"type": "number"}, "b": {}, "c": {"type": "number", "default": 1.5}}


def test_annotations_that_cannot_be_resolved_are_refused_alone(tmp_path):
    code = """
        import threading
        def good(): "Good."
        def lost(x: "Missing"): "Lost."
        def odd(x: threading.Lock): "Odd."
        def places(x, /): "Places."
        def many(*xs: int): "Many."
        def wrapper(*args, **kwargs): "Made by a decorator without functools.wraps."
        TOOLS = [lost, odd, places, many, wrapper, len, 3, good]
    """
    [tool], refusals = read(tmp_path, code)
    assert tool.name == "good"
    starts = [
        "lost: no schema can be made of its signature: NameError: name 'Missing' is not defined",
        "odd: no schema can be made of its signature: Pydantic",
        "places: takes positional-only parameters or *args",
        "many: takes positional-only parameters or *args",
        "wrapper: takes positional-only parameters or *args",
        "len: takes positional-only parameters or *args",
        "is a int; expected a function, a tool or a definition",
    ]
    for place, (refusal, start) in enumerate(zip(refusals, starts, strict=True)):
        assert refusal.place == f"[{place}]"
        assert refusal.reason.startswith(start)
        assert "\n" not in refusal.reason


@pytest.mark.parametrize(
    ("code", "place", "expected"),
    [
        ("\nimport toolcrib_missing\n", "line 2", "ModuleNotFoundError: No module named"),
        ("def f(:\n", "", "SyntaxError: "),
        ("\n\nraise SystemExit(3)", "line 3", "SystemExit: 3"),
        ("def go():\n  1/0\n\ngo()\n", "line 2", "ZeroDivisionError: division by zero"),
    ],
)
def test_an_import_that_fails(tmp_path, code, place, expected):
    _, [refusal] = read(tmp_path, code)
    assert refusal.place == place
    assert refusal.reason.startswith(f"cannot be imported: {expected}")
    assert "Traceback" not in refusal.reason


def test_names_that_lead_nowhere(tmp_path):
    name = write(tmp_path, "TOOLS = []", "TOLS")
    assert reason(name) == "there is no attribute 'TOLS'; did you mean 'TOOLS'?"
    assert reason("nowhere.py:TOOLS") == "there is no file nowhere.py"
    missing = "cannot be imported: ModuleNotFoundError: No module named 'toolcrib_missing'"
    assert reason("toolcrib_missing:TOOLS") == missing
    assert reason(name.partition(":")[0]) == f"name what to read in it, as {name[:-5]}:ATTRIBUTE"


def test_an_attribute_that_fails(tmp_path):
    code = "def __getattr__(name): raise ImportError('no lazy ' + name)"
    expected = "attribute 'TOOLS' cannot be read: ImportError: no lazy TOOLS"
    assert reason(write(tmp_path, code)) == expected


def test_another_format_forced_to_be_python(tmp_path):
    path = conformance.write(tmp_path, "tools.json", "[]")
    assert reason(path, "python").startswith("must be named as module:attribute or ")


def test_nothing_is_imported_to_recognise(tmp_path):
    name = write(tmp_path, "raise AssertionError")
    assert PythonReader().recognises(Source.by_name(name))


@pytest.mark.slow
def test_langchain_tools(tmp_path):
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
            metadata: dict = {
                "room": "attic", "category": "time", "sensitivity": "pii", "destructiveHint": True
            }
            def _run(self, minutes: int): ...

        given = {"type": "object", "properties": {"q": {"type": "string"}}}
        search = StructuredTool(name="search", description="Search.", args_schema=given, func=print)
        TOOLS = [forecast, Alarm(), search, Alarm]
    '''
    (forecast, alarm, search), [refusal] = read(tmp_path, code)
    assert (refusal.place, refusal.reason[:17]) == ("[3]", "Alarm: is a class")
    assert (forecast.name, forecast.description) == ("forecast", "Tell the weather.")
    where = {
        "type": "object",
        "description": "A city.",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    assert forecast.input_schema == {
        "type": "object",
        "properties": {"where": where},
        "required": ["where"],
    }
    assert (alarm.tags, alarm.category, alarm.sensitivity) == (("clock",), "time", "pii")
    assert alarm.annotations["room"] == "attic"
    assert alarm.safety_tags == ("destructive", "open_world", "writes")
    assert alarm.input_schema["properties"] == {"minutes": {"type": "integer"}}
    assert search.input_schema["properties"] == {"q": {"type": "string"}}


def test_a_langchain_tool_is_told_without_langchain(tmp_path):
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
    tools, refusals = read(tmp_path, code)
    assert [tool.input_schema for tool in tools] == [
        {"type": "object"},
        {"type": "object", "properties": {}},
    ]
    assert refusals[0].reason.startswith("looks: no schema can be made of its signature: ")
    assert refusals[1].reason == "looks: no schema can be made of its signature: KeyError: 'lost'"


def test_objects_that_fail_or_change_while_they_are_looked_at_are_refused_alone(tmp_path):
    code = """
        class Fails:
            def __getattr__(self, name):
                raise RuntimeError("do not touch")

        class Lies:
            @property
            def __class__(self):
                raise OSError("gone")

        class Adds:
            def __getattr__(self, name):
                TOOLS[f"more{len(TOOLS)}"] = None
                raise AttributeError(name)

        def ring(name: str) -> None:
            "Ring somebody."

        TOOLS = {"fails": Fails(), "lies": Lies(), "adds": Adds(), "ring": ring}
    """
    specs, refusals = read(tmp_path, code)
    assert [spec.name for spec in specs] == ["ring"]
    assert [refusal.place for refusal in refusals] == ["['fails']", "['lies']", "['adds']"]
    assert "RuntimeError: do not touch" in refusals[0].reason


def test_all_modules_of_the_interpreter_are_no_tools():
    specs, refusals = split(read_source("sys:modules"))
    assert specs == []
    assert refusals


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
OPENAI = {"type": "function", "function": {"name": "a", "parameters": SCHEMA}}


def test_tools_of_the_mcp_sdk_are_read():
    hints = ToolAnnotations(read_only_hint=True)
    tool = Tool(name="get_weather", title="Weather", input_schema=SCHEMA, annotations=hints)
    [spec] = read_objects("here", [tool], "web")
    assert isinstance(spec, ToolSpec)
    assert (spec.id, spec.input_schema) == ("web/get_weather", SCHEMA)
    assert spec.annotations == {"readOnlyHint": True, "title": "Weather"}


@pytest.mark.parametrize(
    "found",
    [
        OPENAI,
        [OPENAI],
        {"any key": OPENAI},
        {"tools": [OPENAI]},
        {"name": "a", "description": "A.", "input_schema": SCHEMA},
        {"name": "a", "description": "A."},
        {"name": "a", "args_schema": SCHEMA},
        {"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a"}}}},
    ],
)
def test_plain_definitions_are_read_as_from_a_file(found):
    [spec] = read_objects("here", found, "s")
    assert isinstance(spec, ToolSpec)
    assert spec.id == "s/a"


def test_a_wrong_definition_is_refused_alone():
    [_], [refusal] = split(read_objects("here", [OPENAI, {"x": 1}], None))
    assert (refusal.source, refusal.place) == ("here", "[1]")
    assert "not a shape that is known" in refusal.reason


def water(bed: str, minutes: int = 10) -> None:
    """Water a bed of the garden."""


class Garden:
    def mow(self, metres: int) -> None:
        """Mow the lawn."""


def test_a_partial_function_is_read_without_what_is_given():
    (tool,) = read_objects("here", partial(water, "roses"), None)
    assert isinstance(tool, ToolSpec)
    assert (tool.name, tool.description) == ("water", "Water a bed of the garden.")
    assert list(tool.input_schema["properties"]) == ["minutes"]


def test_a_method_needs_its_object():
    [method], [refusal] = split(read_objects("here", [Garden().mow, Garden.mow], None))
    assert list(method.input_schema["properties"]) == ["metres"]
    assert "object" in refusal.reason


def test_a_server_of_the_mcp_sdk_is_refused_with_what_lists_its_tools():
    [refusal] = read_objects("test", MCPServer("kitchen"), None)
    assert isinstance(refusal, Refusal)
    assert "list_tools()" in refusal.reason


def test_an_answer_of_the_mcp_sdk_is_a_list_of_tools():
    listed = ListToolsResult(tools=[Tool(name=name, inputSchema={}) for name in ("a", "b")])
    tools, _ = split(read_objects("here", listed, None))
    assert [tool.name for tool in tools] == ["a", "b"]


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("llama_index.core.tools", "llama_index"),
        ("agents.tool", "openai_agents"),
        ("pydantic_ai.tools", "pydantic_ai"),
    ],
)
def test_a_tool_of_another_framework_is_refused_by_its_integration(package, name):
    tool = type("FunctionTool", (), {"__module__": package})()
    _, [refusal] = split(read_objects("here", tool, None))
    assert f"toolcrib.integrations.{name}" in refusal.reason
