"""Python objects: functions and LangChain tools, named as `module:attribute`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, cast

from toolcrib.indexers.readers.base import Reading, Source, build_spec
from toolcrib.records import Refusal

__all__ = ["PythonReader", "read_objects"]

NAME = re.compile(r"(?P<module>[^\W\d][\w.]*|.+\.py):(?P<attribute>[^\W\d][\w.]*)")


class PythonReader:
    """Reads `module:attribute` and `path/to/file.py:ATTRIBUTE`, by importing it.

    The attribute is a function, a LangChain tool, or a list or dict of these; in a dict, a
    function is named by its key. Importing runs the module, so this happens only to what
    a user names, never to files found in a folder.
    """

    format: ClassVar[str] = "python"

    def recognises(self, source: Source) -> bool:
        """Whether the name is of that form; nothing is imported."""
        match = NAME.fullmatch(source.name)
        # `stdio:COMMAND` names an MCP server.
        return source.path is None and match is not None and match["module"] != "stdio"

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool; its server is `server` or else the module's last name.

        Raises:
            SourceError: the name is of another form, the import fails, or it has no
                such attribute.
        """
        match = NAME.fullmatch(source.name)
        if match is None:
            raise source.error("must be named as module:attribute or path/to/file.py:ATTRIBUTE")
        module_name = match["module"]
        found: Any = _attribute(source, _imported(source, module_name), match["attribute"])
        stem = Path(module_name).stem if module_name.endswith(".py") else module_name
        own = stem.rpartition(".")[2] if server is None else server
        yield from read_objects(source.name, found, own)


def read_objects(source: str, found: Any, server: str | None) -> Reading:
    """Yield the tool that an object is, or those that a list or dict holds."""
    for place, name, tool in _listed(found):
        try:
            yield build_spec(source, place, {**_fields(name, tool), "server": server})
        except ValueError as error:
            yield Refusal(source, place, _labelled(name, tool, str(error)))


def _listed(found: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Give place, name if a dict says it, and object of each tool."""
    if isinstance(found, dict):
        for key, tool in cast("dict[object, Any]", found).items():
            yield f"[{key!r}]", key if isinstance(key, str) else None, tool
    elif isinstance(found, list | tuple):
        for index, tool in enumerate(cast("list[Any]", found)):
            yield f"[{index}]", None, tool
    else:
        yield "", None, found


def _fields(name: str | None, tool: Any) -> dict[str, Any]:
    # What makes schemas is slow to import, and only needed once there is a tool.
    from toolcrib.indexers.readers.python import (
        function_fields,
        is_langchain_tool,
        langchain_fields,
    )

    if isinstance(tool, type):
        raise ValueError("is a class; name an object made of it")  # noqa: TRY004
    if is_langchain_tool(tool):
        return langchain_fields(tool)
    if inspect.isroutine(tool):
        return function_fields(tool, name or tool.__name__)
    raise ValueError(f"is a {type(tool).__name__}; expected a function or a LangChain tool")


def _labelled(name: str | None, tool: Any, reason: str) -> str:
    label = name or getattr(tool, "__name__", None) or getattr(tool, "name", None)
    return f"{label}: {reason}" if isinstance(label, str) else reason


def _attribute(source: Source, module: ModuleType, dotted: str) -> Any:
    value: Any = module
    for name in dotted.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            near = get_close_matches(name, dir(value), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise source.error(f"there is no attribute {name!r}{hint}") from None
        except Exception as error:  # noqa: BLE001 -- a module may make its attributes up
            reason = f"{type(error).__name__}: {error}"
            raise source.error(f"attribute {name!r} cannot be had: {reason}") from None
    return value


def _imported(source: Source, name: str) -> ModuleType:
    path = Path(name) if name.endswith(".py") else None
    if path and not path.is_file():
        raise source.error(f"there is no file {name}")
    try:
        with _import_path((path or Path("module.py")).absolute().parent):
            return _run(path) if path else importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- it is code that anyone wrote
        frames = traceback.extract_tb(error.__traceback__)
        lines = [
            frame.lineno for frame in frames if path and frame.filename == str(path.absolute())
        ]
        place = f"line {lines[-1]}" if lines else ""
        raise source.error(f"cannot be imported: {type(error).__name__}: {error}", place) from None


def _run(path: Path) -> ModuleType:
    name = f"toolcrib_source:{path.absolute()}"
    spec = ModuleSpec(name, SourceFileLoader(name, str(path.absolute())), origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    # Annotations written as text are resolved through this table.
    sys.modules[name] = module
    try:
        cast("SourceFileLoader", spec.loader).exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def _import_path(folder: Path) -> Generator[None]:
    """Let the module import its neighbours, and keep what it prints out of our own output."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = before
