"""What a Python function or a LangChain tool says about itself, as the fields of a spec."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, cast, get_args, get_origin

import docstring_parser
from pydantic import TypeAdapter
from pydantic.errors import PydanticErrorMixin
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from toolcrib.indexers.readers.json_schema import References
from toolcrib.indexers.readers.json_schema import rewritten

__all__ = ["function_fields", "is_langchain_tool", "langchain_fields"]


def is_langchain_tool(value: object) -> bool:
    """Whether it looks like LangChain's `BaseTool`, which is not imported to find out."""
    return all(hasattr(value, name) for name in ("name", "description", "args_schema"))


def langchain_fields(tool: Any) -> dict[str, Any]:
    """Name, description, schema, tags and metadata of a LangChain tool.

    Raises ValueError when its schema cannot be made.
    """
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


def function_fields(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Name, description and schema of a function, from its signature and docstring.

    Parameters are described by `Field(description=...)`, a text in `Annotated`, or the
    docstring (Google, reST or NumPy style), in this order.
    Raises ValueError when an annotation cannot be resolved or written as JSON Schema, and
    for parameters that cannot be passed by name.
    """
    schema = _self_contained(lambda: _adapter(function).json_schema(schema_generator=_Schema))
    if schema.get("type") != "object":
        raise ValueError("takes positional-only parameters or *args; a tool is called by name")
    text = inspect.getdoc(function) or ""
    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        description, described = text, {}
    else:
        description = parsed.description or ""
        described = {parameter.arg_name: parameter.description for parameter in parsed.params}
    notes = {**described, **{k: v for k, v in _annotated_texts(function).items() if v}}
    for parameter, field in schema.get("properties", {}).items():
        if notes.get(parameter) and "description" not in field:
            field["description"] = notes[parameter]
    return {"name": name, "description": description.strip(), "input_schema": schema}


def _adapter(function: Any) -> TypeAdapter[Any]:
    # pydantic takes a function for the type of its arguments; its annotations know only types.
    return TypeAdapter(function)


class _Schema(GenerateJsonSchema):
    """Leaves out, without a warning, defaults that JSON has no way to write."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from None
        return encoded


def _arguments_of(tool: Any) -> dict[str, Any]:
    # Unlike `args_schema`, the first one leaves out what LangChain injects.
    model = getattr(tool, "tool_call_schema", None) or tool.args_schema
    if isinstance(model, dict):
        return cast("dict[str, Any]", model)
    if hasattr(model, "model_json_schema"):
        return model.model_json_schema(schema_generator=_Schema)
    # LangChain still takes models of pydantic 1.
    return model.schema()


def _self_contained(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Make a schema and write its references out; titles only repeat the names."""
    try:
        made = make()
    except Exception as error:  # noqa: BLE001 -- annotations are code that anyone wrote
        raise ValueError(f"no schema can be made of its signature: {_brief(error)}") from None
    top = {key: value for key, value in made.items() if key not in ("$defs", "definitions")}
    return rewritten(References(made).written_out(top), _without_title)


def _brief(error: Exception) -> str:
    # pydantic adds paragraphs of advice to programmers.
    text = error.message if isinstance(error, PydanticErrorMixin) else str(error)
    return f"{type(error).__name__}: {text.strip().splitlines()[0] if text.strip() else ''}"


def _without_title(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}


def _annotated_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Give the first plain text in each parameter's `Annotated`."""
    texts: dict[str, str] = {}
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if get_origin(parameter.annotation) is Annotated:
            notes = get_args(parameter.annotation)[1:]
            texts[name] = next((note for note in notes if isinstance(note, str)), "")
    return texts
