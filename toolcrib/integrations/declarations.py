"""Declarations of tools as functions, for hosts that run a model's code in a sandbox.

The model's code calls tools by these names, and the host forwards the calls. Types show three
levels of a schema; deeper or too large types are `any`.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.records import ToolSpec
from toolcrib.records.codec import list_of, object_of
from toolcrib.records.definitions import SchemaTypes

MAX_TYPE_CHARS = 20_000
"""Characters of the types of one schema."""

MAX_OPTIONAL = 1_000

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Reserved words of ECMAScript 2025, in modules too, that Python does not reserve as well.
_RESERVED = re.compile(
    r"arguments|case|catch|const|debugger|default|delete|do|enum|eval|export|extends|"
    r"false|function|implements|instanceof|interface|let|new|none|null|package|private|"
    r"protected|public|static|super|switch|this|throw|true|typeof|undefined|var|void",
    re.IGNORECASE,
)


def is_function_name(name: str) -> bool:
    """True for a name that a function can have in Python and in TypeScript."""
    return (
        _NAME.fullmatch(name) is not None
        and not keyword.iskeyword(name)
        and _RESERVED.fullmatch(name) is None
    )


def typescript(tool: ToolSpec, name: str) -> str:
    """Declaration `declare function`, from one object of arguments to a promise."""
    takes = _TypeScript(tool.input_schema).arguments()
    gives = _TypeScript(tool.output_schema or {}).type(tool.output_schema, 0)
    text = tool.description.strip().replace("*/", "* /")
    lines = [f" * {line}".rstrip() for line in text.splitlines()]
    comment = ["/**", *lines, " */"] if lines else []
    return "\n".join([*comment, f"declare function {name}({takes}): Promise<{gives}>;"])


def python_stub(tool: ToolSpec, name: str) -> str:
    """Stub `def` with keyword arguments; names that Python lacks come in `**more`."""
    takes = _Python(tool.input_schema).arguments()
    gives = _Python(tool.output_schema or {}).type(tool.output_schema, 0)
    text = tool.description.strip().replace("\\", "\\\\").replace('"', '\\"').replace("\0", "")
    lines = "\n".join(f"    {line}".rstrip() for line in text.splitlines()).strip()
    body = f'\n    """{lines}"""' if lines else ""
    return f"def {name}({takes}) -> {gives}:{body or ' ...'}"


class _TypeScript(SchemaTypes):
    cut, rest = "any", "[more: string]: any"
    max_chars, max_optional = MAX_TYPE_CHARS, MAX_OPTIONAL

    def arguments(self) -> str:
        """Parameters of a function, without the brackets."""
        merged, _ = self._merged(self._root)
        if merged.get("properties") or merged["required"]:
            return f"input: {{{self.parameters()}}}"
        options = list_of(merged.get("anyOf")) or list_of(merged.get("oneOf"))
        return f"input: {self.type(merged, 0)}" if options or "$ref" in merged else ""

    def kind(self, name: str) -> str:
        known = {"integer": "number", "object": "Record<string, any>", "array": "any[]"}
        return known.get(name, name if name in {"string", "number", "boolean", "null"} else "any")

    def key(self, name: str) -> str:
        return name if _NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)

    def values(self, values: Sequence[Any]) -> str:
        return self.union(
            [
                json.dumps(value, ensure_ascii=False) if _is_plain(value) else self.any
                for value in values
            ]
        )


class _Python(SchemaTypes):
    any = cut = "Any"
    null, rest = "None", "**more: Any"
    max_chars, max_optional = MAX_TYPE_CHARS, MAX_OPTIONAL

    def arguments(self) -> str:
        """Parameters of a function, without the brackets."""
        merged, _ = self._merged(self._root)
        properties = object_of(merged.get("properties"))
        required = dict.fromkeys(map(str, list_of(merged["required"])))
        named = [name for name in dict.fromkeys([*required, *properties]) if _is_argument(name)]
        shown = [
            f"{name}: {self.type(properties.get(name), 0)}{'' if name in required else ' = ...'}"
            for name in named
        ]
        is_whole = len(named) == len({*required, *properties}) and not merged.keys() & {
            "anyOf",
            "oneOf",
            "$ref",
        }
        star = ["*"] if shown else []
        return ", ".join([*star, *shown, *([] if is_whole else [self.rest])])

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
    return _NAME.fullmatch(name) is not None and not keyword.iskeyword(name) and name != "more"


def _is_plain(value: Any) -> bool:
    """True for a value that can be a literal type."""
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return value is None or is_number or isinstance(value, str)
