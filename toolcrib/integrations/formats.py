"""Formats of tool definitions: MCP, OpenAI, Anthropic, code, our own JSON.

A provider gets either only the tools of a turn (`openai`, `anthropic`), or all tools as deferred
tools, for which it searches by us (`anthropic-deferred` and `tool_reference`,
`openai-namespaces`). A tool has the same name in every list: prompt caches hold, and earlier calls
in a conversation still mean the same tool.
"""

from __future__ import annotations

import json
import keyword
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias
from unicodedata import is_normalized

from toolcrib.errors import QueryError, UnknownToolError, nearest, require_text, require_type
from toolcrib.extras import needs_extra
from toolcrib.integrations.providers import (
    Provider,
    UnfitSchemaError,
    fit_schema,
    rename_arguments,
    rename_properties,
    safe_names,
    takes_strict,
)
from toolcrib.parsing import parse_json
from toolcrib.records import ToolHit, ToolSpec
from toolcrib.records.answers import LeftOut
from toolcrib.records.codec import is_object, list_of, object_of
from toolcrib.records.definitions import (
    SchemaTypes,
    name_in_namespace,
    provider_name,
    signature,
    summary,
    with_digest,
)
from toolcrib.records.tools import ALWAYS_LOAD, INPUT_EXAMPLES, SEARCH_HINT

logger = logging.getLogger(__name__)

_MCP_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Names of tools by MCP (SEP-986)."""


SKILL_REASON = "a skill is read, and not called: this format has none"


class ToolNames(dict[str, str]):
    """Ids of tools by the names in definitions; names in a namespace are `namespace.name`.

    An own name that several tools have is left out.
    """

    def __init__(self, named: Iterable[_NamedTool]) -> None:
        named = list(named)
        count = Counter(name for name, _ in named)
        self._tools = {name: tool for name, tool in named if count[name] == 1}
        super().__init__({name: tool.id for name, tool in self._tools.items()})

    def call(self, name: str, arguments: Mapping[str, Any] | str) -> tuple[str, dict[str, Any]]:
        """Id of the called tool, and the arguments with the tool's own names.

        Raises:
            UnknownToolError: no tool of these definitions has the name.
            QueryError: the name is no text, or the arguments are neither an object nor JSON of one.
        """
        require_text(name, "name of a call")
        if name not in self._tools:
            raise UnknownToolError(name, nearest(name, self))
        return self[name], restore_arguments(self._tools[name], arguments)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Definitions for a model: one for each tool, or for each server if the format groups tools.

    `left_out` has the tools that the format cannot express, and skills, which no model calls.
    """

    tools: list[dict[str, Any]]
    names: ToolNames
    left_out: tuple[LeftOut, ...] = ()

    @classmethod
    def of(
        cls, tools: Iterable[ToolSpec | ToolHit], format: str, *, enriched: bool = False
    ) -> Definitions:
        """Write the definitions of tools, or of the tools that a search found.

        A description is the author's; with `enriched` the purpose of the enrichment follows. A
        schema has the form that every provider accepts; alternatives at its root are named in the
        description.

        In a provider's format each tool has the name of `provider_name`; in a namespace without
        the server's name. `mcp` has tools as their servers list them. Skills have a place in
        `signature` and `json` alone.

        Raises:
            QueryError: the format is unknown, two tools would have one name in it, or an entry of
                `tools` is no tool.
        """
        specs = [*map(_specification, tools)]
        named = _named_tools(specs, format)
        chosen = FORMATS[format]
        left_out = [LeftOut(each.id, SKILL_REASON) for each in specs if not _fits(each, format)]
        shown: list[_NamedTool] = []
        for name, tool in named:
            try:
                fit = _fit(tool, chosen.properties)
            except UnfitSchemaError as error:
                left_out.append(LeftOut(tool.id, str(error)))
                _log_once(tool.id, str(error))
                continue
            shown.append((name, _with_purpose(fit, tool) if enriched else fit))
        kept = {tool.id for _, tool in shown}
        names = ToolNames((name, tool) for name, tool in named if tool.id in kept)
        written = [chosen.write(name, tool) for name, tool in shown]
        if chosen.write is _openai_namespaces:
            written = _join_namespaces(written)
        return cls(written, names, tuple(left_out))


def export(
    tools: Iterable[ToolSpec | ToolHit], format: str, *, enriched: bool = False
) -> list[dict[str, Any]]:
    """Definitions of tools in a format, without tools that the format cannot express.

    Raises:
        QueryError: as `Definitions.of`.
    """
    return Definitions.of(tools, format, enriched=enriched).tools


def fitting_definition(tool: ToolSpec) -> dict[str, Any] | None:
    """Anthropic's definition for a tool whose own schema a provider may refuse; else None.

    The schema has the form that every provider accepts.
    """
    shown = next(iter(export([tool], "anthropic")), None)
    return shown if shown is not None and shown["input_schema"] != tool.input_schema else None


def named_ids(tools: Iterable[ToolSpec | ToolHit], format: str) -> ToolNames:
    """Ids of tools by the names that `export` gives them.

    Raises:
        QueryError: as `Definitions.of`.
    """
    return Definitions.of(tools, format).names


def restore_arguments(tool: ToolSpec, arguments: Mapping[str, Any] | str) -> dict[str, Any]:
    """Arguments with the names of the tool's own schema, which a definition may have replaced.

    Arguments may be JSON, as OpenAI sends them; an empty text means no arguments. Own names stay,
    so that arguments may be restored twice.

    Raises:
        QueryError: the arguments are neither an object nor JSON of an object.
    """
    given = _parse_arguments(tool, arguments) if isinstance(arguments, str) else arguments
    require_type(given, Mapping, f"arguments of {tool.id!r}", "an object, or JSON of one")
    try:
        schema = fit_schema(tool.input_schema).schema
    except UnfitSchemaError:
        return dict(given)
    own = {safe: name for name, safe in safe_names(schema).items()}
    return rename_arguments([schema], given, own) if own else dict(given)


def _parse_arguments(tool: ToolSpec, text: str) -> Any:
    try:
        return parse_json(text.strip() or "{}")
    except ValueError as error:
        raise QueryError(
            f"the arguments of {tool.id!r} are {error}: answer the call with this error, so that "
            "the model corrects them"
        ) from error


def _specification(tool: ToolSpec | ToolHit) -> ToolSpec:
    require_type(tool, ToolSpec | ToolHit, "tool", "a ToolSpec or a ToolHit")
    return tool.tool if isinstance(tool, ToolHit) else tool


def _named_tools(tools: Iterable[ToolSpec], format: str) -> list[_NamedTool]:
    """Tools with their names in a format."""
    if format not in FORMATS:
        raise QueryError(f"there is no format {format!r}; known are {', '.join(FORMATS)}")
    naming = FORMATS[format].name
    tools = [each for each in tools if _fits(each, format)]
    if naming in {_own_name, _mcp_name}:
        return [(naming(tool), tool) for tool in tools]
    named: dict[str, ToolSpec] = {}
    for tool in tools:
        if named.setdefault(name := naming(tool), tool) != tool:
            raise QueryError(
                f"the tools {named[name].id!r} and {tool.id!r} would both have the name {name!r}: "
                "leave one out, or give it another id"
            )
    return list(named.items())


def _fits(tool: ToolSpec, format: str) -> bool:
    return tool.kind == "tool" or format in {"signature", "json"}


def _fit(tool: ToolSpec, properties: _PropertyNames | None) -> ToolSpec:
    """Tool with a schema, a description and examples that every provider accepts."""
    if properties is None:
        return tool
    fit = fit_schema(tool.input_schema)
    names = safe_names(fit.schema) if properties == "safe" else {}
    annotations = dict(tool.annotations)
    if examples := list_of(annotations.get(INPUT_EXAMPLES)):
        annotations[INPUT_EXAMPLES] = [
            rename_arguments([fit.schema], each, names) for each in examples if is_object(each)
        ]
    changed = {
        "input_schema": rename_properties(fit.schema, names) if names else fit.schema,
        "description": "\n\n".join(filter(None, (tool.description, fit.note))),
        "annotations": annotations,
    }
    return tool.model_copy(update=changed)


def _with_purpose(tool: ToolSpec, given: ToolSpec) -> ToolSpec:
    purpose = given.enrichment.purpose if given.enrichment else ""
    description = f"{tool.description}\n\n{purpose}".strip()
    return tool.model_copy(update={"description": description}) if purpose else tool


@lru_cache(1_000)
def _log_once(tool_id: str, reason: str) -> None:
    logger.warning("%s is left out of definitions: %s", tool_id, reason)


# -- names -------------------------------------------------------------------------------------


def _own_name(tool: ToolSpec) -> str:
    return tool.name


def _mcp_name(tool: ToolSpec) -> str:
    return tool.name if _MCP_NAME.fullmatch(tool.name) else with_digest(tool.name, tool.id)


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Reserved words of ECMAScript 2025 and its modules that are not reserved in Python.
_RESERVED_WORD = re.compile(
    r"arguments|case|catch|const|debugger|default|delete|do|enum|eval|export|extends|"
    r"false|function|implements|instanceof|interface|let|new|none|null|package|private|"
    r"protected|public|static|super|switch|this|throw|true|typeof|undefined|var|void",
    re.IGNORECASE,
)


def _is_function_name(name: str) -> bool:
    """True for a name that a function can have in Python and in TypeScript."""
    return (
        _IDENTIFIER.fullmatch(name) is not None
        and not keyword.iskeyword(name)
        and _RESERVED_WORD.fullmatch(name) is None
    )


def _function_name(tool: ToolSpec) -> str:
    """Name of a function in any language, the same in every list of tools."""
    name = provider_name(tool)
    if _is_function_name(name):
        return name
    own = "__".join(filter(None, (tool.server, tool.name)))
    return with_digest(own.replace("-", "_"), tool.id)


# -- definitions -------------------------------------------------------------------------------

_NamedTool: TypeAlias = tuple[str, ToolSpec]


def _mcp(name: str, tool: ToolSpec) -> dict[str, Any]:
    meta = provider_meta(tool)
    annotations = {key: each for key, each in tool.annotations.items() if key not in meta}
    schemas = {"inputSchema": tool.input_schema, "outputSchema": tool.output_schema}
    beside = {**schemas, "annotations": annotations, "_meta": meta}
    shown = {"name": name, "description": tool.description}
    return shown | {key: value for key, value in beside.items() if value}


def provider_meta(tool: ToolSpec) -> dict[str, Any]:
    """Fields of a tool's `_meta` for a provider's tool search."""
    known = {key: tool.annotations.get(key) for key in (SEARCH_HINT, ALWAYS_LOAD)}
    return {key: value for key, value in known.items() if value is not None}


def _openai(name: str, tool: ToolSpec) -> dict[str, Any]:
    """Function of Chat Completions."""
    return {"type": "function", "function": _function(name, tool)}


def _openai_namespaces(whole: str, tool: ToolSpec) -> dict[str, Any]:
    """Namespace of the Responses API, for deferred functions and for results of our search."""
    namespace, _, name = whole.rpartition(".")
    # Without `strict`, the Responses API requires all properties, also those that may be left out.
    shown = {"strict": False, **_function(name, tool)}
    function = {"type": "function", **shown, "defer_loading": True}
    if not namespace:
        return function
    described = {"name": namespace, "description": f"Tools of {tool.server}."}
    return {"type": "namespace", **described, "tools": [function]}


def _join_namespaces(written: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    joined: dict[tuple[str, str], dict[str, Any]] = {}
    for each in written:
        known = joined.setdefault((each["type"], each["name"]), each)
        if known is not each:
            known["tools"] += each["tools"]
    return list(joined.values())


def _function(name: str, tool: ToolSpec) -> dict[str, Any]:
    shown = {"name": name, "description": tool.description, "parameters": tool.input_schema}
    return shown | _strict(tool, Provider.OPENAI)


def _strict(tool: ToolSpec, provider: Provider) -> dict[str, bool]:
    """The author's `strict`, if the provider takes it with this schema."""
    is_asked = tool.annotations.get("strict") is True
    return {"strict": True} if is_asked and takes_strict(provider, tool.input_schema) else {}


def _anthropic(name: str, tool: ToolSpec) -> dict[str, Any]:
    schema = tool.input_schema
    shown: dict[str, Any] = {"name": name, "description": tool.description, "input_schema": schema}
    shown |= _strict(tool, Provider.ANTHROPIC)
    if examples := list_of(tool.annotations.get(INPUT_EXAMPLES)):
        # Imported here: a checker of schemas takes 0.1 s to import, and a search needs none.
        with needs_extra("a tool with input examples, for Anthropic,", "gateway"):
            from toolcrib.integrations.arguments import argument_errors

        # A single unfit example makes Anthropic refuse the whole request.
        fitting = [each for each in examples if not argument_errors(schema, each)]
        shown |= {INPUT_EXAMPLES: fitting} if fitting else {}
    return shown


def _anthropic_deferred(name: str, tool: ToolSpec) -> dict[str, Any]:
    """Deferred definition, sent once, that `tool_reference` refers to."""
    is_deferred = tool.annotations.get(ALWAYS_LOAD) is not True
    return _anthropic(name, tool) | ({"defer_loading": True} if is_deferred else {})


def _tool_reference(name: str, _tool: ToolSpec) -> dict[str, Any]:
    """Part of a `tool_result` that loads a deferred tool."""
    return {"type": "tool_reference", "tool_name": name}


def _signature(_name: str, tool: ToolSpec) -> dict[str, Any]:
    """Signature in one line, for a prompt."""
    shown = {"signature": signature(tool)} if tool.kind == "tool" else {"kind": tool.kind}
    return {"id": tool.id, "description": summary(tool), **shown}


def _json(_name: str, tool: ToolSpec) -> dict[str, Any]:
    return tool.model_dump(mode="json", exclude_defaults=True)


# -- functions for code that a model writes ----------------------------------------------------

MAX_TYPE_CHARS = 20_000
"""Characters of the types of one schema."""

MAX_OPTIONAL_PROPERTIES = 1_000


def _typescript(name: str, tool: ToolSpec) -> dict[str, Any]:
    """Declaration `declare function`, from one object of arguments to a promise."""
    takes = _TypeScript(tool.input_schema).arguments()
    gives = _TypeScript(tool.output_schema or {}).type(tool.output_schema, 0)
    text = tool.description.strip().replace("*/", "* /")
    lines = [f" * {line}".rstrip() for line in text.splitlines()]
    comment = ["/**", *lines, " */"] if lines else []
    declared = [*comment, f"declare function {name}({takes}): Promise<{gives}>;"]
    return {"id": tool.id, "name": name, "declaration": "\n".join(declared)}


def _python_stub(name: str, tool: ToolSpec) -> dict[str, Any]:
    """Stub `def` with keyword arguments; its text has the names that Python does not allow."""
    takes, others = _Python(tool.input_schema).arguments()
    gives = _Python(tool.output_schema or {}).type(tool.output_schema, 0)
    text = "\n".join([tool.description.strip(), *others]).strip()
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines()).strip()
    body = f'\n    """{lines}"""' if lines else ""
    declared = f"def {name}({takes}) -> {gives}:{body or ' ...'}"
    return {"id": tool.id, "name": name, "declaration": declared}


class _TypeScript(SchemaTypes):
    cut, rest = "any", "[more: string]: any"
    max_chars, max_optional = MAX_TYPE_CHARS, MAX_OPTIONAL_PROPERTIES

    def arguments(self) -> str:
        """Parameters of a function, without the brackets."""
        merged, _ = self._merge(self._root)
        if merged.get("properties") or merged["required"]:
            return f"input: {{{self.parameters()}}}"
        options = list_of(merged.get("anyOf")) or list_of(merged.get("oneOf"))
        return f"input: {self.type(merged, 0)}" if options or "$ref" in merged else ""

    def kind(self, name: str) -> str:
        known = {"integer": "number", "object": "Record<string, any>", "array": "any[]"}
        return known.get(name, name if name in {"string", "number", "boolean", "null"} else "any")

    def key(self, name: str) -> str:
        return name if _IDENTIFIER.fullmatch(name) else json.dumps(name, ensure_ascii=False)

    def values(self, values: Sequence[Any]) -> str:
        plain = (json.dumps(each, ensure_ascii=False) if _is_plain(each) else "" for each in values)
        return self.union([each or self.any for each in plain])


class _Python(SchemaTypes):
    any = cut = "Any"
    null, rest = "None", "**more: Any"
    max_chars, max_optional = MAX_TYPE_CHARS, MAX_OPTIONAL_PROPERTIES

    def arguments(self) -> tuple[str, list[str]]:
        """Parameters of a function, without the brackets, and a line for each of `**more`."""
        merged, _ = self._merge(self._root)
        properties = object_of(merged.get("properties"))
        required = dict.fromkeys(map(str, list_of(merged["required"])))
        types = {
            name: self.type(properties.get(name), 0) + ("" if name in required else " = ...")
            for name in dict.fromkeys([*required, *properties])
        }
        shown = [f"{name}: {types[name]}" for name in types if _is_argument(name)]
        others = [f"**more {name!r}: {types[name]}" for name in types if not _is_argument(name)]
        is_whole = not others and not {"anyOf", "oneOf", "$ref"} & merged.keys()
        star = ["*"] if shown else []
        return ", ".join([*star, *shown, *([] if is_whole else [self.rest])]), others

    def kind(self, name: str) -> str:
        known = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        known |= {"object": "dict[str, Any]", "array": "list[Any]", "null": self.null}
        return known.get(name, self.any)

    def array(self, item: str) -> str:
        return f"list[{item}]"

    def object(self, schema: Mapping[str, Any], depth: int) -> str:  # noqa: ARG002 -- as a whole
        return self.kind("object")

    def values(self, values: Sequence[Any]) -> str:
        plain = [repr(each) for each in values if _is_plain(each) and not isinstance(each, float)]
        literal = [f"Literal[{', '.join(dict.fromkeys(plain))}]"] if plain else []
        is_whole = len(plain) == len(values)
        return self.union([*literal, *([] if is_whole else [self.any])])


def _is_argument(name: str) -> bool:
    # Python reads an identifier in its NFKC form, so another form would arrive under another name.
    is_kept = name.isidentifier() and is_normalized("NFKC", name)
    return is_kept and not keyword.iskeyword(name) and name != "more"


def _is_plain(value: Any) -> bool:
    """True for a value that can be a literal type."""
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return value is None or is_number or isinstance(value, str)


# -- changes of the tools in a conversation ----------------------------------------------------


def tool_addition(definition: Mapping[str, Any] | str) -> dict[str, Any]:
    """Anthropic's block that adds a tool, by its definition or by the name of a known tool."""
    by_value = {"type": "tool_definition", "definition": definition}
    tool = _reference(definition) if isinstance(definition, str) else by_value
    return {"type": "tool_addition", "tool": tool}


def tool_removal(name: str) -> dict[str, Any]:
    """Anthropic's block that removes a tool."""
    return {"type": "tool_removal", "tool": _reference(name)}


def _reference(name: str) -> dict[str, str]:
    return {"type": "tool_reference", "name": name}


# -- formats -----------------------------------------------------------------------------------

_PropertyNames: TypeAlias = Literal["own", "safe"]


class _Format(NamedTuple):
    """Format: functions that write a definition and name a tool, and its names of properties.

    Without names of properties a schema stays as its author wrote it.
    """

    write: Callable[[str, ToolSpec], dict[str, Any]]
    name: Callable[[ToolSpec], str]
    properties: _PropertyNames | None = None


FORMATS: dict[str, _Format] = {
    "mcp": _Format(_mcp, _mcp_name, "own"),
    "openai": _Format(_openai, provider_name, "safe"),
    "openai-namespaces": _Format(_openai_namespaces, name_in_namespace, "safe"),
    "anthropic": _Format(_anthropic, provider_name, "safe"),
    "anthropic-deferred": _Format(_anthropic_deferred, provider_name, "safe"),
    "tool_reference": _Format(_tool_reference, provider_name, "safe"),
    "signature": _Format(_signature, _own_name),
    "typescript": _Format(_typescript, _function_name),
    "python-stub": _Format(_python_stub, _function_name),
    "json": _Format(_json, _own_name),
}

SOURCES = {"typescript": "", "python-stub": "from typing import Any, Literal\n\n\n"}
"""Formats whose definitions are source code, with the code to put before them."""
