"""Base of the readers: a source, the tool objects in it, specifications and refusals."""

from __future__ import annotations

import gzip
import json
import os
import unicodedata
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard, cast

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from toolcrib.errors import SourceError
from toolcrib.parsing import (
    decode,
    parse_json,
    parse_toml,
    parse_unique_json,
    parse_yaml,
)
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import is_object, object_of

MAX_SOURCE_BYTES = 32 * 2**20
"""Larger documents are refused unread; in JSON Lines the limit is for each line."""

MAX_BLANK_LINES = 100_000
MAX_WASTED_BYTES = 8 * MAX_SOURCE_BYTES
"""Most blank lines in a row, and most bytes of blank and overlong lines: a compressed file of 3 MB
may have 3 GB of either."""

MAX_NAMES_CHARS = 400
"""Most characters of names that a warning lists."""

SAMPLE_LINES = 20
"""Lines of JSON Lines that are read to recognise the format."""

LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
YAML_SUFFIXES = frozenset({".yaml", ".yml"})
DATA_SUFFIXES = LINE_SUFFIXES | YAML_SUFFIXES | {".json", ".gz"}
"""Suffixes of files that may have tools; in a folder, other files are skipped."""

FILE_BY_URL = (
    "a URL is read as an MCP server; pipe a file in: curl URL | toolcrib index - --server NAME"
)

Reading: TypeAlias = Iterator[ToolSpec | Refusal]
"""Specifications and refused entries in the order of the source."""


class Reader(Protocol):
    """Reads one format; stateless, so that one instance is shared."""

    format: ClassVar[str]
    """Name of the format for `--format`."""

    reaches_out: ClassVar[bool]
    """True if reading imports code, connects, starts a command or opens other files."""

    def recognises(self, source: Source) -> bool:
        """True if the content has this format; never raises for another format.

        Checks `source.sample`, which is None for content that cannot be parsed.
        """
        ...

    def read(self, source: Source, server: str | None) -> Reading:
        """Yield every tool, or a refusal for a wrong tool; `server` overrides the tools' servers.

        Raises:
            SourceError: the source as a whole cannot be read (on), or has another format.
            MissingExtraError: an extra that the format needs is not installed.
        """
        ...


# -- parsed values ----------------------------------------------------------------------------

JSON_KINDS: dict[type, str] = {
    type(None): "null",
    bool: "true or false",
    str: "text",
    int: "a number",
    float: "a number",
    list: "a list",
    tuple: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """Name of a value's type in JSON: "a list", "text", "null"."""
    return JSON_KINDS.get(type(value)) or f"a Python {type(value).__name__}"


def is_list(value: object) -> TypeGuard[list[Any]]:
    """True if a parsed value is a JSON array."""
    return isinstance(value, list)


# -- sources ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Source to read: a file, or a name that only some readers understand.

    `name` is the user's text; `path` is set if it names an existing file. A gzip-compressed file
    is decompressed.
    """

    name: str
    path: Path | None = None

    @classmethod
    def by_name(cls, name: str) -> Source:
        """Return the source of a name, with its path if that is a file."""
        # Not pathlib, which raises for names that no file can have.
        return cls(name, Path(name) if os.path.isfile(name) else None)  # noqa: PTH113

    @classmethod
    def of_document(cls, name: str, data: Any) -> Source:
        """Source of a parsed document, without a file."""
        source = cls(name)
        source.__dict__.update(data=data, is_lines=False)
        return source

    @property
    def stem(self) -> str:
        """The file name without its suffix (`.json`, `.jsonl.gz`); the default server."""
        return Path(self._path_without_gz.name.lstrip(".")).stem

    @cached_property
    def text(self) -> str:
        """The whole file as text.

        Raises:
            SourceError: the file is missing, empty, larger than `MAX_SOURCE_BYTES` or not UTF-8.
        """
        with self._open() as file:
            content = file.read(MAX_SOURCE_BYTES + 1)
        if len(content) > MAX_SOURCE_BYTES:
            size = self.path.stat().st_size if self.path else 0
            raise self.error(
                f"larger than {MAX_SOURCE_BYTES:,} bytes ({size:,} on disk), which is the most that"
                " is read as one document: split it, or write one tool a line (.jsonl)"
            )
        try:
            text = decode(content)
        except ValueError as error:
            raise self.error(str(error)) from None
        if not text.strip():
            raise self.error("the file is empty")
        return text

    @cached_property
    def data(self) -> Any:
        """The file parsed as JSON, YAML or TOML, by its suffix and its first character.

        Raises:
            SourceError: the file cannot be parsed; the reason has line and column.
        """
        braced = self.text.lstrip()[0] in "[{"
        is_yaml = self.suffix in YAML_SUFFIXES
        try:
            if self.suffix == ".toml":
                return parse_toml(self.text)
            if braced and is_yaml:
                # JSON is also YAML, but parses forty times faster as JSON.
                with suppress(ValueError):
                    return parse_unique_json(self.text)
            is_json = not is_yaml and (braced or self.suffix == ".json")
            return parse_unique_json(self.text) if is_json else parse_yaml(self.text)
        except ValueError as error:
            raise self.error(str(error)) from None

    @cached_property
    def sample(self) -> Any:
        """Sample for `recognises`: `data`, or the first objects of JSON Lines as a list.

        None if nothing can be parsed; reading `data` then raises the reason.
        """
        try:
            return list(self._first_objects()) if self.is_lines else self.data
        except SourceError:
            return None

    @cached_property
    def is_lines(self) -> bool:
        """True for JSON Lines, by the suffix or by objects in the first two lines."""
        if self.path is None or self.suffix in YAML_SUFFIXES:
            return False
        first, second = ([line for _, line in islice(self.lines(), 2)] + [b"", b""])[:2]
        if self.suffix in LINE_SUFFIXES:
            # Unless it is a single document with a wrong suffix.
            return not (first.startswith(b"[") or first == b"{")
        return _is_object(first) and _is_object(second)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Stream number, from 1, and stripped bytes of each line that is not blank.

        A line longer than `MAX_SOURCE_BYTES` is cut to one byte more than that.

        Raises:
            SourceError: the file cannot be read (on), or has too many blank lines in a row, or
                blank and overlong lines of more than `MAX_WASTED_BYTES` in all.
        """
        with self._open() as file:
            number = blank = wasted = 0
            while line := file.readline(MAX_SOURCE_BYTES + 1):
                number += 1
                stripped = line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip()
                if stripped:
                    blank = 0
                    yield number, stripped
                else:
                    blank += 1
                    wasted += len(line)
                self._stop_waste(number, blank, wasted)
                while len(line) > MAX_SOURCE_BYTES and not line.endswith(b"\n"):
                    line = file.readline(MAX_SOURCE_BYTES + 1)
                    wasted += len(line)
                    self._stop_waste(number, blank, wasted)

    def _stop_waste(self, number: int, blank: int, wasted: int) -> None:
        if blank > MAX_BLANK_LINES or wasted > MAX_WASTED_BYTES:
            reason = "blank or overlong lines without end; the rest is not read"
            raise self.error(reason, f"line {number}")

    def error(self, reason: str, place: str = "") -> SourceError:
        """Make a `SourceError` about this source, to raise."""
        return SourceError(self.name, place, reason)

    def refusal(self, reason: str, place: str = "") -> Refusal:
        """Make a `Refusal` of a part of this source, to yield."""
        return Refusal(self.name, place, reason)

    @property
    def _path_without_gz(self) -> Path:
        path = self.path or Path()
        return path.with_suffix("") if path.suffix.lower() == ".gz" else path

    @property
    def suffix(self) -> str:
        """Suffix of the file's name in lower case, without `.gz`."""
        return self._path_without_gz.suffix.lower()

    @contextmanager
    def _open(self) -> Generator[IO[bytes]]:
        if self.path is None:
            raise self.error(FILE_BY_URL if "://" in self.name else "no such file")
        try:
            with self.path.open("rb") as file:
                packed = file.peek(2)[:2] == b"\x1f\x8b"
                with cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file as opened:
                    yield opened
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise self.error(f"damaged gzip file: {error}") from None
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from None

    def _first_objects(self) -> Iterator[dict[str, Any]]:
        came = False
        try:
            for _, line in islice(self.lines(), SAMPLE_LINES):
                if len(line) > MAX_SOURCE_BYTES:
                    # The line may be of any length; the earlier lines must suffice.
                    return
                yield from _object_in(line)
                came = True
        except SourceError:
            # Reading raises the same error, after the good lines.
            if not came:
                raise


def _object_in(line: bytes) -> list[dict[str, Any]]:
    """Object of a line, if the line is an object."""
    try:
        value = parse_json(decode(line))
    except ValueError:
        return []
    return [value] if is_object(value) else []


def _is_object(line: bytes) -> bool:
    return line.startswith(b"{") and line.endswith(b"}") and bool(_object_in(line))


# -- tools in a file --------------------------------------------------------------------------

TOOL_LIST_KEYS = ("tools", "functions")

_PlacedObject: TypeAlias = tuple[str, dict[str, Any]]
"""Place of an object (`line 17`, `tools[3]`), and the object."""

Dialect: TypeAlias = Literal["toolspec", "function", "anthropic", "mcp"]

DIALECTS: dict[Dialect, str] = {
    "toolspec": "a ToolSpec, which --format toolspec",
    "function": "a function definition, which --format functions",
    "anthropic": "a function definition, which --format functions",
    "mcp": "an MCP tool, which --format mcp",
}

SHARED_FIELDS = frozenset({"name", "description", "input_schema"})
OWN_FIELDS = frozenset(ToolSpec.model_fields) - SHARED_FIELDS
"""Fields that only a ToolSpec has; an Anthropic definition has the shared fields too."""

COMMON_FIELDS = frozenset({"id", "version", "category", "enabled", "requires", "provides"})
"""Fields of ours that objects of any kind have, such as packages."""

AMBIGUOUS_FIELDS = frozenset({"tags", "annotations", "skill"})
"""Fields of ours that identify a ToolSpec only if all other keys are ours too."""

NESTING_KEYS = ("function", "custom", "toolSpec", "functionDeclaration")
"""Keys under which OpenAI (two keys), Bedrock and Gemini nest a definition."""

FRAMEWORK_SCHEMA_KEYS = ("args_schema", "fn_schema", "params_json_schema", "parameters_json_schema")
"""Keys of the input schema in dumped tools of LangChain, LlamaIndex, OpenAI's Agents SDK and
Pydantic-AI."""

PARAMETER_MAP_KEYS = ("args", "parameter_definitions")
"""Keys of a map of parameters, without a schema around them, in tools of LangChain and Cohere."""

SCHEMA_WORDS = frozenset({"type", "properties", "$ref", "anyOf", "oneOf", "allOf", "$schema"})

FLAT_KEYS = frozenset(
    {"type", "name", "description", "strict", "format", "defer_loading", "namespace"}
    | {"cache_control", "allowed_callers", "input_examples"}
)
"""Keys of a function or custom tool without a schema."""

PROVIDER_TYPES = frozenset({"mcp", "web_search", "file_search", "code_interpreter", "local_shell"})
"""Types of tools that a provider runs; other such types end in a date."""

OTHER_FILES = {
    "lockfileVersion": "a lock file",
    **dict.fromkeys(("dependencies", "devDependencies", "scripts"), "the manifest of a package"),
    "manifest_version": "the manifest of an extension",
    "plugins": "a list of plugins",
    "packages": "a list of packages",
    "jobs": "a workflow",
    "services": "a Compose file",
    "discoveryVersion": "a discovery document",
    "asyncapi": "an AsyncAPI document",
    "item": "a Postman collection",
    "__schema": "a GraphQL schema",
    "nbformat": "a notebook",
    "mcpServers": "a list of MCP servers",
}
"""Other kinds of files whose objects may have a name, by a typical key."""


def other_kind(data: object) -> str:
    """Other known kind of a file, with the key that shows it; empty for an unknown kind."""
    found = (key for key in OTHER_FILES if key in object_of(data))
    return next((f"{OTHER_FILES[key]} (it has {key!r})" for key in found), "")


def is_other_file(data: object) -> bool:
    """True for a file of another known kind, or with another schema, without a list of tools."""
    fields = object_of(data)
    has_schema = "$schema" in fields and "name" not in fields
    return fields.keys().isdisjoint(TOOL_LIST_KEYS) and (has_schema or other_kind(fields) != "")


def dialect_of(tool: dict[str, Any]) -> Dialect | None:
    """Dialect of a tool object; None for an object of no dialect."""
    if "inputSchema" in tool:
        return "mcp"
    has_schema = "parameters" in tool or framework_schema(tool) is not None
    if nested_definition(tool) is not None or ("name" in tool and has_schema):
        return "function"
    if "name" in tool and OWN_FIELDS & tool.keys():
        return "toolspec"
    if "type" in tool and ("name" in tool or "custom" in tool):
        return "function"
    if "input_schema" in tool and "name" in tool:
        return "anthropic"
    return "toolspec" if "name" in tool else None


def nested_definition(tool: dict[str, Any]) -> dict[str, Any] | None:
    """Definition under one of `NESTING_KEYS` of a tool object."""
    return next((each for key in NESTING_KEYS if is_object(each := tool.get(key))), None)


def framework_schema(tool: dict[str, Any]) -> dict[str, Any] | None:
    """Input schema of a tool that a framework dumped, or of its map of parameters."""
    schemas = (tool.get(key) for key in FRAMEWORK_SCHEMA_KEYS)
    maps = (tool.get(key) for key in PARAMETER_MAP_KEYS)
    written = (schema_of_parameters(each) for each in maps if _is_properties(each))
    return next((each for each in (*filter(is_object, schemas), *written)), None)


def schema_of_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Schema of a map of parameters, each of which may have its own `"required": true`."""
    required = [name for name, each in parameters.items() if each.get("required") is True]
    schema = {"type": "object", "properties": parameters}
    return {**schema, "required": required} if required else schema


def is_parameter_map(schema: object) -> TypeGuard[dict[str, Any]]:
    """True for a map of parameters in place of a schema, as Bedrock's action groups have."""
    parameters = object_of(schema)
    typed = all(isinstance(object_of(each).get("type"), str) for each in parameters.values())
    return bool(parameters) and typed


def _is_properties(value: object) -> TypeGuard[dict[str, Any]]:
    return is_object(value) and all(map(is_object, value.values()))


def _is_definition(tool: dict[str, Any]) -> bool:
    """True if an object certainly defines a tool: it has a schema, a server or a field of ours."""
    match dialect_of(tool):
        case "mcp":
            return is_object(tool["inputSchema"])
        case "anthropic":
            return is_object(tool["input_schema"])
        case "toolspec":
            own = tool.keys() & OWN_FIELDS - COMMON_FIELDS
            if not tool.keys() <= OWN_FIELDS | SHARED_FIELDS:
                own -= AMBIGUOUS_FIELDS
            return bool(own) and isinstance(tool.get("server") or "", str)
        case dialect:
            return dialect == "function" and _is_function(tool)


def _is_own(tool: dict[str, Any]) -> bool:
    """True for a ToolSpec by a field that no other dialect has."""
    distinct = OWN_FIELDS - COMMON_FIELDS - AMBIGUOUS_FIELDS
    return dialect_of(tool) == "toolspec" and bool(tool.keys() & distinct)


def _is_function(tool: dict[str, Any]) -> bool:
    if (nested := nested_definition(tool)) is not None:
        # An object with arguments is a call.
        return isinstance(nested.get("name"), str) and "arguments" not in nested
    if framework_schema(tool) is not None:
        return True
    schema = tool.get("parameters", tool.get("input_schema"))
    if is_object(schema):
        return bool(SCHEMA_WORDS & schema.keys()) or _is_properties(schema)
    kind = tool.get("type")
    if kind in {"function", "custom"}:
        return tool.keys() <= FLAT_KEYS
    return isinstance(kind, str) and (kind in PROVIDER_TYPES or kind[-8:].isdecimal())


def refuse_foreign(tool: dict[str, Any], *foreign: Dialect) -> None:
    """Raise ValueError for a tool of these dialects: another reader would drop its fields."""
    dialect = dialect_of(tool)
    if dialect in foreign:
        raise ValueError(f"this is {DIALECTS[dialect]} reads")


def dialects_in(source: Source) -> set[Dialect]:
    """Dialects of the tools in the source's sample; empty if there are no tools.

    Any file may have objects with a name, so one of them must certainly be a tool. Objects that a
    caller passes as tools need only a name. If most tools are certainly ToolSpecs, all are read as
    such, and a few definitions in another dialect cost no other tool.
    """
    placed = _placed_values(source.sample)
    definitions = (tool for _, each in placed for _, tool in _definitions_within("", each))
    tools = list(filter(is_object, definitions))
    is_single = [place for place, _ in placed] == [""]
    is_other = is_single and other_kind(source.sample) != ""
    certain = list(filter(_is_definition, tools))
    if is_other or (source.path is not None and not certain):
        return set()
    if 2 * sum(map(_is_own, certain)) > len(certain):
        return {"toolspec"}
    return {dialect for tool in tools if (dialect := dialect_of(tool))}


def entries(source: Source) -> Iterator[_PlacedObject | Refusal]:
    """Yield every tool object of JSON Lines, a list, an object with a list, or a single object."""
    if source.is_lines:
        yield from _line_entries(source)
        return
    data = source.data
    if not (is_list(data) or is_object(data)):
        raise source.error(f"must be a list or an object, not {kind_of(data)}")
    for place, value in _placed_values(data):
        yield from _entries(source, place, value)


def specs_in(source: Source, fields: Callable[[dict[str, Any]], Mapping[str, Any]]) -> Reading:
    """Yield a specification for each tool object; a ValueError of `fields` is a refusal."""
    for entry in entries(source):
        if isinstance(entry, Refusal):
            yield entry
            continue
        place, tool = entry
        try:
            yield build_spec(source.name, place, fields(tool))
        except ValueError as error:
            yield source.refusal(str(error), place)


def _placed_values(data: object) -> list[tuple[str, object]]:
    """Entries of a list, or of all lists of tools in an object, by place; else the object."""
    if is_list(data):
        return [(f"[{index}]", value) for index, value in enumerate(data)]
    if not is_object(data):
        return []
    if is_object(bedrock := data.get("toolConfig")):
        data = bedrock
    lists = [(key, listed) for key in TOOL_LIST_KEYS if is_list(listed := data.get(key))]
    placed = [(f"{key}[{i}]", value) for key, listed in lists for i, value in enumerate(listed)]
    return placed if lists else [("", data)]


def _line_entries(source: Source) -> Iterator[_PlacedObject | Refusal]:
    for number, line in source.lines():
        place = f"line {number}"
        if len(line) > MAX_SOURCE_BYTES:
            yield source.refusal(f"longer than {MAX_SOURCE_BYTES:,} bytes", place)
            continue
        try:
            value = parse_unique_json(decode(line))
        except ValueError as error:
            # The parser gets a single line, so its line number is useless.
            yield source.refusal(str(error).replace("at line 1 column", "at column"), place)
        else:
            yield from _entries(source, place, value)


def _entries(source: Source, place: str, value: object) -> Iterator[_PlacedObject | Refusal]:
    for where, tool in _definitions_within(place, value):
        if is_object(tool):
            yield where, tool
        else:
            yield source.refusal(f"a tool must be an object, not {kind_of(tool)}", where)


def _definitions_within(place: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the definitions in OpenAI's namespace or Gemini's list, else the value itself."""
    fields = object_of(value)
    listed: object = fields.get("tools") if fields.get("type") == "namespace" else None
    if is_list(listed):
        for index, tool in enumerate(listed):
            inner = {"namespace": fields.get("name"), **tool} if is_object(tool) else tool
            yield f"{place}.tools[{index}]".lstrip("."), inner
        return
    for key in ("functionDeclarations", "function_declarations"):
        if is_list(listed := fields.get(key)):
            for index, declared in enumerate(listed):
                yield f"{place}.{key}[{index}]".lstrip("."), {"functionDeclaration": declared}
            return
    yield place, value


# -- specifications ---------------------------------------------------------------------------

HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode categories of invisible characters: controls, zero-width and direction marks,
separators."""

EXPECTED_KINDS = {
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "an object",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
"""Expected kind of value, by pydantic's name of the error."""

OWN_FIELD_TYPES: dict[str, TypeAdapter[Any]] = {
    name: TypeAdapter(ToolSpec.model_fields[name].rebuild_annotation())
    for name in (
        *("sensitivity", "category", "safety_tags", "tags", "success_examples"),
        *("anti_patterns", "goes_with", "cost_estimate", "avg_latency_ms"),
    )
}
"""Fields of ours that other formats may have in annotations or metadata."""


def own_fields(details: object) -> dict[str, Any]:
    """Read fields of ours in annotations or metadata of a source.

    An entry with the name of a field, but another type, is ignored.
    """
    found: dict[str, Any] = {}
    for key, value in object_of(details).items():
        name = key.replace("-", "_")
        if value is not None and (form := OWN_FIELD_TYPES.get(name)) is not None:
            alone = isinstance(value, str) and name not in {"sensitivity", "category"}
            with suppress(ValidationError):
                found[name] = form.validate_python([value] if alone else value)
    return found


def build_spec(source: str, place: str, fields: Mapping[str, Any]) -> ToolSpec | Refusal:
    """Validate `fields` as a `ToolSpec`, or return a refusal with the reason in one line.

    None means a missing value; a missing field may be in the annotations. Descriptions stay as
    they are. A name, server or id with invisible characters is refused, as two tools could look
    alike.
    """
    given = {key: value for key, value in fields.items() if value is not None}
    given = own_fields(given.get("annotations")) | given
    try:
        spec = ToolSpec.model_validate(given)
        _check_is_json(given)
        _check_is_visible(spec)
    except ValidationError as error:
        reason = "; ".join(_in_words(detail) for detail in error.errors(include_url=False))
        return Refusal(source, place, reason)
    except ValueError as error:
        return Refusal(source, place, str(error))
    return spec


def _check_is_json(fields: Mapping[str, Any]) -> None:
    # Digest, store and service write specs as JSON, so a spec must be writable.
    try:
        json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no character") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"holds a value that JSON cannot: {error}") from None


def _check_is_visible(spec: ToolSpec) -> None:
    for field, value in (("name", spec.name), ("server", spec.server), ("id", spec.id)):
        for position, character in enumerate(value):
            if unicodedata.category(character) in HIDDEN_CATEGORIES:
                name = unicodedata.name(character, "control character")
                found = f"invisible character U+{ord(character):04X} ({name})"
                raise ValueError(f"{field}: {found} at position {position}; remove it")


def _in_words(detail: ErrorDetails) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])
    field = "".join(steps).removeprefix(".")
    match detail["type"]:
        case "missing":
            return f"{field}: missing"
        case "string_too_short":
            return f"{field}: empty"
        case "string_too_long":
            limit = detail.get("ctx", {})["max_length"]
            return f"{field}: {len(detail['input']):,} characters; at most {limit:,} are accepted"
        case "extra_forbidden":
            return f"{field}: unknown field"
        case kind if kind in EXPECTED_KINDS:
            return f"{field}: must be {EXPECTED_KINDS[kind]}, not {kind_of(detail['input'])}"
        case _:
            return f"{field}: {detail['msg'].removeprefix('Value error, ')}"
