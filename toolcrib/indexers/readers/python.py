"""Python objects: functions and LangChain tools, named as `module:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any, ClassVar, cast, get_args, get_origin

from pydantic import TypeAdapter
from pydantic.errors import PydanticErrorMixin
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from toolcrib.errors import did_you_mean
from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.indexers.readers.json_schema import References, map_schemas
from toolcrib.indexers.readers.mcp import tool_fields
from toolcrib.records import Refusal

# -- objects ---------------------------------------------------------------------------------------

OBJECT_NAME = re.compile(r"\A(?P<module>[^\W\d][\w.]*|.+\.py):(?P<attribute>[^\W\d][\w.]*)\Z")

INTEGRATIONS = {"agents": "openai_agents"} | {each: each for each in ("llama_index", "pydantic_ai")}
"""Integration that converts a framework's tools, by the framework's package."""


class PythonReader:
    """Reads `module:attribute` and `path/to/file.py:ATTRIBUTE`, by importing the module.

    The attribute is a function, a tool of LangChain or the MCP SDK, a definition as in a file, or
    a list or dict of these; in a dict, a function is named by its key. Importing runs the module,
    so only modules that a user names are read, never files found in a folder.
    """

    format: ClassVar[str] = "python"
    reaches_out: ClassVar[bool] = True

    def recognises(self, source: Source) -> bool:
        """True if the name has this form; imports nothing."""
        match = OBJECT_NAME.fullmatch(source.name)
        # `stdio:COMMAND` names an MCP server.
        return source.path is None and match is not None and match["module"] != "stdio"

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; its server is `server`, else the last part of the module's name."""
        match = OBJECT_NAME.fullmatch(source.name)
        if match is None:
            raise source.error("must be named as module:attribute or path/to/file.py:ATTRIBUTE")
        module_name = match["module"]
        found: Any = _attribute(source, _import_module(source, module_name), match["attribute"])
        stem = Path(module_name).stem if module_name.endswith(".py") else module_name
        own = stem.rpartition(".")[2] if server is None else server
        yield from read_objects(source.name, found, own)


def read_objects(source: str, found: Any, server: str | None) -> Reading:
    """Yield the tool of an object, or the tools in a list or dict.

    A dict may also be a definition or a whole document, as in a file.
    """
    from toolcrib.indexers.readers.registry import is_known_data, read_data

    objects = [("", None, found)] if is_known_data(found) else _tool_objects(found)
    for place, name, tool in objects:
        try:
            if isinstance(tool, dict):
                items = list(read_data(tool, source, server=server))
            else:
                items = [build_spec(source, place, {**_fields(name, tool), "server": server})]
        except ValueError as error:
            items = [Refusal(source, place, _with_label(name, tool, str(error)))]
        except Exception as error:  # noqa: BLE001 -- what an object says of itself is anyone's code
            items = [Refusal(source, place, f"cannot be inspected: {_first_line(error)}")]
        for item in items:
            yield replace(item, place=item.place or place) if isinstance(item, Refusal) else item


def _with_label(name: str | None, tool: Any, reason: str) -> str:
    """Reason with the name of the object, if any, before it."""
    with suppress(Exception):
        label = name or getattr(tool, "__name__", None) or getattr(tool, "name", None)
        return f"{label}: {reason}" if isinstance(label, str) else reason
    return reason


def _tool_objects(found: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Place, name (the key in a dict) and object of each tool."""
    if isinstance(found, dict | list | tuple):
        many = cast("Any", found)
        pairs: Any = many.items() if isinstance(found, dict) else enumerate(many)
        # A copy: inspecting an object may import modules, and so change the dict.
        for key, tool in list(pairs):
            yield f"[{key!r}]", key if isinstance(key, str) else None, tool
    elif type(found).__name__ == "ListToolsResult":
        # A `ListToolsResult` of the MCP SDK, recognised without importing the SDK.
        yield from _tool_objects(found.tools)
    else:
        yield "", None, found


def _fields(name: str | None, tool: Any) -> dict[str, Any]:
    if isinstance(tool, type):
        raise ValueError("is a class; name an object made of it")  # noqa: TRY004
    # LangChain's `BaseTool`, recognised without importing LangChain.
    if all(hasattr(tool, each) for each in ("name", "description", "args_schema")):
        return _langchain_fields(tool)
    function = _wrapped_function(tool)
    if inspect.isroutine(function):
        if (name or function.__name__) == "<lambda>":
            raise ValueError("a lambda has no name; write a function, or name it in a dict")
        return _function_fields(tool, name or function.__name__)
    # A tool of the MCP SDK, whose versions spell the field differently.
    if (hasattr(tool, "input_schema") and hasattr(tool, "icons")) or hasattr(tool, "inputSchema"):
        return tool_fields(tool.model_dump(mode="json", by_alias=True, exclude_none=True), None)
    kind = cast("type[Any]", type(tool))
    if (home := INTEGRATIONS.get(kind.__module__.partition(".")[0])) is not None:
        way_out = f"index `tool_spec(tool)` of toolcrib.integrations.{home}"
        raise ValueError(f"is a {kind.__name__} of {kind.__module__}; {way_out}")
    if hasattr(tool, "list_tools"):
        # A server or a session of the MCP SDK.
        raise ValueError(f"is a {kind.__name__}; hand in the tools that its `list_tools()` returns")
    raise ValueError(f"is a {kind.__name__}; expected a function, a tool or a definition")


def _wrapped_function(tool: Any) -> Any:
    return cast("Any", tool).func if isinstance(tool, partial) else tool


def _attribute(source: Source, module: ModuleType, dotted: str) -> Any:
    value: Any = module
    for name in dotted.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            hint = did_you_mean(get_close_matches(name, dir(value), 1))
            raise source.error(f"there is no attribute {name!r}{hint}") from None
        except Exception as error:  # noqa: BLE001 -- a module may make its attributes up
            reason = f"{type(error).__name__}: {error}"
            raise source.error(f"attribute {name!r} cannot be read: {reason}") from None
    return value


def _import_module(source: Source, name: str) -> ModuleType:
    path = Path(name) if name.endswith(".py") else None
    if path and not path.is_file():
        raise source.error(f"there is no file {name}")
    try:
        with _import_path((path or Path("module.py")).absolute().parent):
            return _run(path) if path else importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- it is code that anyone wrote
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if path and f.filename == str(path.absolute())]
        place = f"line {lines[-1]}" if lines else ""
        raise source.error(f"cannot be imported: {type(error).__name__}: {error}", place) from None


def _run(path: Path) -> ModuleType:
    name = f"toolcrib_source:{path.absolute()}"
    loader = SourceFileLoader(name, str(path.absolute()))
    spec = cast("ModuleSpec", importlib.util.spec_from_loader(name, loader))
    module = importlib.util.module_from_spec(spec)
    # Annotations that are text are resolved through `sys.modules`.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _import_path(folder: Path) -> Generator[None]:
    """Let the module import its neighbours, and keep its prints out of our output."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = before


# -- fields ----------------------------------------------------------------------------------------


def _langchain_fields(tool: Any) -> dict[str, Any]:
    schema = _self_contained(lambda: _arguments_of(tool))
    if inspect.cleandoc(str(schema.get("description"))) == inspect.cleandoc(str(tool.description)):
        schema = {key: value for key, value in schema.items() if key != "description"}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": schema,
        "tags": getattr(tool, "tags", None),
        "annotations": getattr(tool, "metadata", None),
    }


def _function_fields(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Fields of a function; a `Field`, a text or else the docstring describes a parameter."""
    # pydantic accepts a function here, although its annotations allow only types.
    taken: Any = _as_plain_function(function)
    if _has_unnamed_parameters(taken):
        raise ValueError(
            "takes positional-only parameters or *args; a tool is called by name (a decorator "
            "keeps the names by functools.wraps)"
        )
    schema = _self_contained(lambda: TypeAdapter[Any](taken).json_schema(schema_generator=_Schema))
    own_name = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    if "." in own_name and next(iter(schema.get("properties", {})), None) == "self":
        raise ValueError("is a method of a class; name the method of an object made of it")
    # Imported here, as it is slow to import and only functions need it.
    import docstring_parser

    text = inspect.getdoc(_wrapped_function(function)) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        description, described = text, {}
    else:
        description = parsed.description or ""
        described = {parameter.arg_name: parameter.description for parameter in parsed.params}
    notes = {**described, **dict(_annotated_texts(function))}
    for parameter, field in schema.get("properties", {}).items():
        if notes.get(parameter) and "description" not in field:
            field["description"] = notes[parameter]
    return {"name": name, "description": description.strip(), "input_schema": schema}


def _has_unnamed_parameters(function: Any) -> bool:
    unnamed = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError):
        return False  # pydantic's error gives the reason.
    return any(parameter.kind in unnamed for parameter in parameters)


def _as_plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Function with the signature of a method or of a cached function.

    pydantic resolves annotations written as text for plain functions only.
    """
    inner = inspect.unwrap(function)
    if isinstance(function, FunctionType) or not hasattr(inner, "__globals__"):
        return function
    plain = FunctionType((lambda: None).__code__, inner.__globals__)
    plain.__annotations__ = inner.__annotations__
    plain.__signature__ = inspect.signature(function)  # pyright: ignore[reportFunctionMemberAccess]
    return plain


class _Schema(GenerateJsonSchema):
    """Leaves out, without a warning, defaults that JSON cannot write."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from None
        return encoded


def _arguments_of(tool: Any) -> dict[str, Any]:
    # Unlike `args_schema`, `tool_call_schema` lacks the arguments that LangChain injects.
    model = getattr(tool, "tool_call_schema", None) or tool.args_schema
    if isinstance(model, dict):
        return cast("dict[str, Any]", model)
    if hasattr(model, "model_json_schema"):
        return model.model_json_schema(schema_generator=_Schema)
    # LangChain still accepts models of pydantic 1.
    return model.schema()


def _self_contained(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Make a schema, write its references out, and drop titles, which only repeat names."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 -- annotations are code that anyone wrote
        raise ValueError(f"no schema can be made of its signature: {_first_line(error)}") from None
    written = References(made).write_out(made)
    return map_schemas(written, lambda schema: {k: v for k, v in schema.items() if k != "title"})


def _first_line(error: Exception) -> str:
    # pydantic's errors have paragraphs of advice for programmers.
    text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
    return f"{type(error).__name__}: {text.strip().splitlines()[0] if text.strip() else ''}"


def _annotated_texts(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """First plain text in each parameter's `Annotated`."""
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Annotated:
            texts = [each for each in get_args(parameter.annotation)[1:] if isinstance(each, str)]
            yield from ((name, text) for text in texts[:1] if text)
