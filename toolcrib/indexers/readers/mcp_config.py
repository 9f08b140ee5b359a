"""Configuration of MCP servers (mcp.json): the target of each server, or its fault."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from pydantic import AliasChoices, AliasPath, BaseModel, Field, TypeAdapter, ValidationError

from toolcrib.errors import SourceError, did_you_mean
from toolcrib.indexers.readers.base import Source, is_list, is_object, kind_of
from toolcrib.parsing import parse_unique_json
from toolcrib.records import Sensitivity, ToolSpec
from toolcrib.records.codec import FrozenModel, faults, list_of, object_of

# -- targets ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A command that serves MCP over its standard input and output.

    `env` is added to the few variables that are safe to pass on (`PATH`, `HOME` and the like).
    `cwd` is its working folder; None is the current folder.
    """

    command: str
    args: tuple[str, ...] = ()
    # Values of both mappings are often secrets: a traceback must not print them.
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A URL that serves MCP, by streamable HTTP, or by the older server-sent events if `sse`.

    With None both are tried, streamable HTTP first, as the protocol advises.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    sse: bool | None = None

    @property
    def has_authorization(self) -> bool:
        """True if one of the headers is `Authorization`."""
        return "authorization" in map(str.lower, self.headers)


Target: TypeAlias = StdioTarget | HttpTarget


# -- tools that are switched on --------------------------------------------------------------------

INCLUDE_NAMES = ("includeTools", "allowedTools", "enabledTools", "availableTools", "tools")
EXCLUDE_NAMES = ("excludeTools", "disabledTools", "deniedTools", "blockedTools")
"""Keys of filters in the files of all hosts."""

INCLUDE_KEYS, EXCLUDE_KEYS = (
    frozenset(map(str.lower, names)) for names in (INCLUDE_NAMES, EXCLUDE_NAMES)
)
"""The same keys by their letters in lower case: `enabled_tools` is read as `enabledTools`."""

TAG_KEYS = frozenset({"includetags", "excludetags"})

GLOB = re.compile(r"[*?\[]")

TOOL_NAMES: TypeAdapter[tuple[str, ...]] = TypeAdapter(tuple[str, ...])


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Names and globs of the tools that an entry switches on and off.

    A tool is on if every list of `include` matches it, and `exclude` does not.
    """

    include: tuple[tuple[str, ...], ...] = ()
    exclude: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """True if the tool with this name is on."""
        return not fits_any(name, self.exclude) and all(fits_any(name, on) for on in self.include)

    def may_allow(self, prefix: str) -> bool:
        """True if a tool whose name has this prefix could be on."""
        if any(each.endswith("*") and fnmatchcase(prefix, each) for each in self.exclude):
            return False
        return all(any(_may_begin(each, prefix) for each in on) for on in self.include)

    def idle_patterns(self, names: Collection[str]) -> list[str]:
        """Patterns that match none of a server's tools, probably typing errors."""
        patterns = dict.fromkeys((*(each for on in self.include for each in on), *self.exclude))
        return [each for each in patterns if not any(fits_any(name, (each,)) for name in names)]


def _may_begin(pattern: str, prefix: str) -> bool:
    """True if a pattern could match a name with this prefix, by its text before any glob."""
    literal = GLOB.split(pattern, maxsplit=1)[0]
    return prefix.startswith(literal) or literal.startswith(prefix)


def fits_any(name: str, patterns: Iterable[str]) -> bool:
    """True if a tool's name equals a pattern, or matches a glob among the patterns.

    Gemini also has `name(argument)`, which means the tool.
    """
    return any(
        name == each or fnmatchcase(name, each) or each.startswith(f"{name}(") for each in patterns
    )


def _tool_filter(raw: Mapping[str, Any], problems: list[str], warnings: list[str]) -> ToolFilter:
    """Read the filter of an entry; a key that cannot be read is a problem, and never ignored.

    An ignored key would switch on tools that the file switches off.
    """
    include: list[tuple[str, ...]] = []
    exclude: list[tuple[str, ...]] = []
    for key, value in raw.items():
        kind = "".join(filter(str.isalpha, str(key))).lower()
        if kind not in INCLUDE_KEYS | EXCLUDE_KEYS | TAG_KEYS:
            if kind.endswith("tools"):
                warnings.append(f"{key!r} is not known; write 'includeTools' or 'excludeTools'")
        elif kind in TAG_KEYS and value is not None:
            problems.append(f"{key!r} is not supported; name the tools under 'excludeTools'")
        elif value is not None:
            try:
                names = TOOL_NAMES.validate_python(value)
                (include if kind in INCLUDE_KEYS else exclude).append(names)
            except ValidationError:
                found = "a list of other values" if is_list(value) else kind_of(value)
                problems.append(f"{key!r} must be a list of names, not {found}")
    return ToolFilter(tuple(include), tuple(name for names in exclude for name in names))


# -- placeholders ----------------------------------------------------------------------------------

PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}|(?<![\w$])\$([A-Za-z_][A-Za-z0-9_]*)")

VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

NESTED_PLACEHOLDER = re.compile(r"\$\{[^{}]*\$\{")

SHELL_KEYS = ("command", "args[")
"""Prefixes of places where `$VAR` may be meant for a shell, and is not filled in."""

EDITOR_ONLY = re.compile(
    r"(?:workspaceFolder(?:Basename)?|userHome|pathSeparator|/|file\w*|relativeFile\w*)(?::.*)?"
    r"|(?:config|command|extensionInstallFolder):.*"
)


class Expander:
    """Fills in the placeholders of one server's entry, and collects `problems`.

    A value is never expanded again, so that a `${` in a secret stays. Braces without a placeholder
    (`${X%/}` in a shell command) stay as they are. So does `$VAR` in a command, which is the
    shell's, and elsewhere `$var` without a value, unless in capitals.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.problems: list[str] = []

    def text(self, where: str, value: str) -> str:
        """Text of `value` with placeholders filled in; `where` names it in `problems`."""
        if NESTED_PLACEHOLDER.search(value):
            fault = "has one placeholder inside another; write the inner one out"
            self.problems.append(f"{where} {fault}")
            return value
        return PLACEHOLDER.sub(lambda found: self._expand_match(where, found), value)

    def _expand_match(self, where: str, found: re.Match[str]) -> str:
        if found[2] and where.startswith(SHELL_KEYS):
            return found[0]
        inside = found[1] or found[2] or ""
        variable = VARIABLE.fullmatch(inside)
        if variable and variable[1] in self._env:
            return self._env[variable[1]]
        if variable and variable[2] is not None:
            return variable[2]
        if inside.startswith("input:"):
            way_out = "write an environment variable there, such as ${TOKEN}"
            kind = f"an interactive input ({found[0]}), which only editors support"
            self.problems.append(f"{where} needs {kind}; {way_out}")
        elif EDITOR_ONLY.fullmatch(inside):
            fault = f"uses {found[0]}, which only editors know; write its value"
            self.problems.append(f"{where} {fault}")
        elif variable and (found[1] or inside.isupper()):
            name = variable[1]
            missing = f"the environment variable {name!r}, which is not set"
            way_out = f"set it, or write ${{{name}:-default}}"
            self.problems.append(f"{where} needs {missing}; {way_out}")
        return found[0]


# -- entries ---------------------------------------------------------------------------------------

# Strings are matched too, and kept, as they may look like comments. Unclosed strings and comments
# end at the end of the file, so that a broken file is not searched repeatedly.
COMMENT = re.compile(r'("(?:\\.|[^"\\])*(?:"|\Z))|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)

TRAILING_COMMA = re.compile(r'("(?:\\.|[^"\\])*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)

TRANSPORTS = {
    **dict.fromkeys(("stdio", "local"), "stdio"),
    **dict.fromkeys(("http", "streamable-http", "streamable_http", "streamableHttp"), "http"),
    "sse": "sse",
}

SERVER_LISTS = {
    **dict.fromkeys(("mcp.allowed", "allowMCPServers"), True),
    **dict.fromkeys(("mcp.excluded", "excludeMCPServers", "disabledMcpServers"), False),
}
"""Lists of servers in files of Gemini and Claude Code; True for lists of servers that are on."""

Scalar: TypeAlias = str | bool | int | float

SWITCHES = ("disabled", "enabled", "isActive")
"""Keys of an entry that switch its server off or on; Cherry Studio writes `isActive`."""

EXPECTED_SHAPES = {
    "args": "a list of texts",
    **dict.fromkeys(("env", "headers"), "an object of texts"),
    **dict.fromkeys(SWITCHES, "true or false"),
}
"""Expected value of each key; all other keys hold text."""

OVERLAY_KEY = "toolcrib"


class Overlay(FrozenModel):
    """Overlay of a server's tools, under `toolcrib` in its entry.

    `tags` are added to each tool's own; `sensitivity` applies to all tools. `disabled` tools, by
    name or glob, cannot be found or called; `always_active` tools are listed beside the search.
    The traits of the flow policy name tools; None means that the policy guesses.
    """

    tags: tuple[str, ...] = ()
    sensitivity: Sensitivity = "public"
    disabled: frozenset[str] = frozenset()
    always_active: frozenset[str] = frozenset()
    reads_private: frozenset[str] | None = None
    brings_foreign: frozenset[str] | None = None
    sends_out: frozenset[str] | None = None

    def on(self, spec: ToolSpec) -> ToolSpec:
        """Copy of a tool with the overlay; approvals are for the server's own specification."""
        fields = {
            "tags": tuple(dict.fromkeys((*spec.tags, *self.tags))),
            "sensitivity": self.sensitivity,
            "always_active": spec.name in self.always_active,
            "enabled": not fits_any(spec.name, self.disabled),
        }
        return spec.model_copy(update=fields)


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """Server of the file: its target, or its `problem` in one line.

    `tools` is the filter of its tools, `overlay` what the entry says of them; with `warnings` the
    server is still used.
    """

    name: str
    target: Target | None
    problem: str = ""
    tools: ToolFilter = field(default_factory=ToolFilter)
    warnings: tuple[str, ...] = ()
    overlay: Overlay = field(default_factory=Overlay)


class _Switch(BaseModel):
    """The keys that switch a server off."""

    disabled: bool | None = None
    enabled: bool | None = Field(None, validation_alias=AliasChoices("enabled", "isActive"))


def is_switched_off(raw: Any) -> bool:
    """True if an entry is off; `ConfigEntry` refuses a value that is no boolean."""
    with suppress(ValidationError):
        switch = _Switch.model_validate(raw)
        return switch.disabled is True or switch.enabled is False
    return False


URL_KEYS = ("httpUrl", "url", "serverUrl", "baseUrl")
"""Keys of a URL; Gemini reads `httpUrl` first."""


class ConfigEntry(_Switch):
    """Keys of a server's target; editors' own keys are ignored."""

    type: str | None = Field(None, validation_alias=AliasChoices("type", "transport"))
    command: str | None = None
    args: list[Scalar] | None = None
    env: dict[str, Scalar | None] | None = None
    cwd: str | None = None
    url: str | None = Field(None, validation_alias=AliasChoices(*URL_KEYS))
    headers: dict[str, Scalar] | None = Field(
        None, validation_alias=AliasChoices("headers", AliasPath("requestOptions", "headers"))
    )
    env_file: str | None = Field(None, alias="envFile")

    @property
    def transport(self) -> str | None:
        """Transport by `type`, else by the other keys; None if neither tells."""
        default = "stdio" if self.command else "http" if self.url else None
        return TRANSPORTS.get(self.type) if self.type else default


ENTRY_KEYS = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", *URL_KEYS}
    | {"headers", "requestOptions", "envFile", *SWITCHES, OVERLAY_KEY}
)


def is_entry_key(key: str) -> bool:
    """True if a key of an entry is read here or by the gateway."""
    kind = "".join(filter(str.isalpha, key)).lower()
    return key in ENTRY_KEYS or kind in INCLUDE_KEYS | EXCLUDE_KEYS | TAG_KEYS


def variables_of(value: Any, key: str = "") -> Iterator[str]:
    """Yield the environment variables without a default that the texts of a value need.

    `${workspaceFolder}` and the like, which only an editor knows, are left out; so is `$VAR` under
    a `key` whose text may be meant for a shell.
    """
    if isinstance(value, str):
        for found in PLACEHOLDER.finditer(value):
            bare = found[2] or ""
            inside = found[1] or (bare if bare.isupper() and key not in {"command", "args"} else "")
            variable = VARIABLE.fullmatch(inside)
            if variable and variable[2] is None and not EDITOR_ONLY.fullmatch(inside):
                yield variable[1]
    elif is_object(value):
        for name, each in value.items():
            yield from variables_of(each, name)
    elif is_list(value):
        for each in value:
            yield from variables_of(each, key)


NO_SERVERS = "names no MCP servers; put them under 'mcpServers' (VS Code: 'servers')"


def find_servers(source: Source) -> dict[str, Any] | None:
    """Find the servers by name, raw, of a host's file or of an entry of the MCP registry.

    Servers are under `mcpServers`, `servers`, Zed's `context_servers`, Codex's `mcp_servers`, or
    `mcp` of OpenCode and of VS Code's settings. None if there are none.

    Raises:
        SourceError: the file is neither JSON (comments are allowed) nor YAML nor TOML, or Gemini's
            lists of servers that are on or off are no lists of names.
    """
    document = parse_config(source)
    if not is_object(document):
        return None
    if (listed := _registry_server(document)) is not None:
        return {document["name"]: listed}
    claude, mcp = document.get("mcpServers"), object_of(document.get("mcp"))
    if is_list(claude) and claude and all(map(is_object, claude)):
        claude = _by_name(claude)
    others = (claude, document.get("context_servers"), document.get("mcp_servers"))
    servers = next(filter(is_object, others), None)
    # OpenAPI and other files may have `servers` too: ours have commands or URLs, or inputs. Some
    # projects keep one file for all hosts, with servers under two keys.
    more = object_of(document.get("servers") or mcp.get("servers") or mcp)
    keys = {key for raw in more.values() for key in object_of(raw)}
    if {"command", "url"} & keys or ("inputs" in document and is_object(document.get("servers"))):
        servers = {**more, **(servers or {})}
    if servers is None:
        return None
    named = {name: _in_common_keys(raw) for name, raw in servers.items()}
    return _without_switched_off(source, document, named)


HOST_VARIABLE = re.compile(r"(?<!\$)\{env:(\w+)\}|\$\{\{ *secrets\.(\w+) *\}\}")
"""Variable of OpenCode or Continue."""


def _in_common_keys(raw: Any) -> Any:
    """Entry of Zed, Codex, OpenCode or Continue in the keys of the other hosts."""
    if not is_object(raw):
        return raw
    entry: dict[str, Any] = json.loads(HOST_VARIABLE.sub(r"${\1\2}", json.dumps(raw, default=str)))
    if entry.get("type") == "remote":
        del entry["type"]
    if is_object(transport := entry.get("transport")):
        entry |= transport
        del entry["transport"]
    _rename_command(entry)
    _rename_headers(entry)
    # Codex keeps here which tools the user approved; its filters have other keys.
    approvals = object_of(entry.get("tools")).values()
    if approvals and all(is_object(each) and [*each] == ["approval_mode"] for each in approvals):
        entry["approval_mode"] = entry.pop("tools")
    return entry


def _rename_command(entry: dict[str, Any]) -> None:
    command = entry.get("command")
    # Older Zed files have command, args and env in one object.
    if is_object(command):
        entry |= {**command, "command": command.get("path")}
        entry.pop("path", None)
    elif is_list(command) and command:
        entry |= {"command": command[0], "args": [*command[1:], *list_of(entry.get("args"))]}
    if "environment" in entry:
        entry["env"] = entry.pop("environment")
    given: Any = entry.get("env") or {}
    if is_list(names := entry.pop("env_vars", None)) and is_object(given):
        entry["env"] = {**{str(name): f"${{{name}}}" for name in names}, **given}


def _rename_headers(entry: dict[str, Any]) -> None:
    headers: Any = entry.pop("http_headers", None) or entry.get("headers") or {}
    named: Any = entry.pop("env_http_headers", None) or {}
    if is_object(headers) and is_object(named):
        headers = {**headers, **{key: f"${{{name}}}" for key, name in named.items()}}
        if token := entry.pop("bearer_token_env_var", None):
            headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        entry["headers"] = headers


def _by_name(listed: list[dict[str, Any]]) -> dict[str, Any]:
    """Servers of a list, as in Continue, by name; a repeated name gets a number."""
    servers: dict[str, Any] = {}
    for number, raw in enumerate(listed, 1):
        name = str(raw.get("name") or "server")
        servers[f"{name}-{number}" if name in servers else name] = raw
    return servers


def _without_switched_off(
    source: Source, document: dict[str, Any], servers: dict[str, Any]
) -> dict[str, Any]:
    """Remove servers that Gemini's lists, under `mcp` or the older keys, switch off."""
    newer = {f"mcp.{key}": value for key, value in object_of(document.get("mcp")).items()}
    for key, is_on in SERVER_LISTS.items():
        if (value := (document | newer).get(key)) is None:
            continue
        try:
            names = TOOL_NAMES.validate_python(value)
        except ValidationError:
            raise source.error(f"must be a list of servers, not {kind_of(value)}", key) from None
        off = {name for name in servers if (name in names) is not is_on}
        servers |= {name: {**object_of(servers[name]), "disabled": True} for name in off}
    return servers


def server_entries(servers: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[ServerEntry]:
    """Yield every server that is not off, in the file's order, with placeholders filled in."""
    for name, raw in servers.items():
        if not is_switched_off(raw):
            yield _server_entry(name, raw, env)


def _server_entry(name: str, raw: Any, env: Mapping[str, str]) -> ServerEntry:
    if not is_object(raw):
        return ServerEntry(name, None, f"must be an object, not {kind_of(raw)}")
    try:
        entry = ConfigEntry.model_validate(raw)
    except ValidationError as error:
        return ServerEntry(name, None, _faults(error))
    expander = Expander(env)
    target = _target(entry, expander)
    problems = [*_contradictions(entry, entry.transport), *expander.problems]
    warnings: list[str] = []
    tools = _tool_filter(raw, problems, warnings)
    overlay = _overlay(raw, problems)
    (problems or warnings).extend(_misspelt_keys(raw))
    problem = "; ".join(dict.fromkeys(problems))
    return ServerEntry(name, None if problem else target, problem, tools, tuple(warnings), overlay)


def _overlay(raw: Mapping[str, Any], problems: list[str]) -> Overlay:
    """Overlay of an entry; a wrong field is a problem, since a typing error could reveal a tool."""
    try:
        return Overlay.model_validate(raw.get(OVERLAY_KEY, {}))
    except ValidationError as error:
        for place, reason in faults(error, ""):
            problems.append(f"{f'{OVERLAY_KEY}.{place}'.rstrip('.')}: {reason}")
        return Overlay()


MISSPELT_LIKENESS = 0.84
"""Least similarity of a misspelt key: `arg` to `args`, but not Cline's `transportType`."""


def _misspelt_keys(raw: Mapping[str, Any]) -> Iterator[str]:
    """Hints about keys that resemble ours; other unknown keys are the hosts' own."""
    for key in raw:
        if not is_entry_key(key):
            near = get_close_matches(key, ENTRY_KEYS - raw.keys(), n=1, cutoff=MISSPELT_LIKENESS)
            if near:
                yield f"{key!r} is not known{did_you_mean(near)}"


URL_START = re.compile(r"https?://|\$", re.IGNORECASE)
"""Begin of a URL, or a variable that may hold it."""

HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)


def _contradictions(entry: ConfigEntry, transport: str | None) -> Iterator[str]:
    if transport is None and entry.type:
        yield f"'type' is {entry.type!r}; use stdio, http, streamable-http or sse"
    elif transport is None:
        yield "has neither 'command' nor 'url'; add one"
    elif transport == "stdio" and not entry.command:
        yield "is of type stdio but has no 'command'; add one"
    elif transport != "stdio" and not entry.url:
        yield f"is of type {entry.type} but has no 'url'; add one"
    elif transport != "stdio" and not URL_START.match(entry.url or ""):
        yield "'url' must begin with http:// or https://"
    if not all(map(HEADER_NAME.fullmatch, entry.headers or ())):
        yield "a name under 'headers' has other characters than letters, digits and -"
    if entry.env_file:
        # Without these variables the server would fail for no visible reason.
        yield "'envFile' is not read; put its variables under 'env' or export them"


def _target(entry: ConfigEntry, expander: Expander) -> Target:
    if entry.transport != "stdio":
        url = expander.text("url", entry.url or "")
        headers = _texts("headers", entry.headers or {}, expander)
        return HttpTarget(url, headers, entry.transport == "sse" if entry.type else None)
    command = expander.text("command", entry.command or "")
    args = (expander.text(f"args[{n}]", _as_text(v)) for n, v in enumerate(entry.args or ()))
    return StdioTarget(
        command,
        tuple(args),
        _texts("env", entry.env or {}, expander),
        expander.text("cwd", entry.cwd) if entry.cwd else None,
    )


def _texts(where: str, values: Mapping[str, Scalar | None], expander: Expander) -> dict[str, str]:
    """Expand the values as texts; null means unset, as in VS Code."""
    given = {key: _as_text(value) for key, value in values.items() if value is not None}
    return {key: expander.text(f"{where}.{key}", value) for key, value in given.items()}


def _as_text(value: Scalar) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _faults(error: ValidationError) -> str:
    """Faults in words, without the values, which may be secrets."""
    keys = dict.fromkeys(str(fault["loc"][0]) for fault in error.errors(include_input=False))
    return "; ".join(f"{key!r} must be {EXPECTED_SHAPES.get(key, 'text')}" for key in keys)


# -- entries of the MCP registry -------------------------------------------------------------------

RUNNERS = {
    "npm": ("npx", "-y"),
    "pypi": ("uvx",),
    "nuget": ("dnx", "--yes"),
    "oci": ("docker", "run", "-i", "--rm"),
}
"""Command that starts a package, by the package's registry."""

TEMPLATE_VARIABLE = re.compile(r"(?<!\$)\{(\w+)\}")


def _registry_server(document: dict[str, Any]) -> dict[str, Any] | None:
    """Entry of an mcp.json for a `server.json`, by its URL or else a package; else None."""
    remotes = _objects_with("url", document.get("remotes"))
    packages = _objects_with("registryType", document.get("packages"))
    if not (remotes or packages) or not isinstance(document.get("name"), str):
        return None
    for remote in remotes:
        headers = _registry_inputs(remote.get("headers"))
        return {"type": remote.get("type"), "url": _template(remote["url"]), "headers": headers}
    for package in packages:
        transport = package.get("transport")
        is_stdio = not is_object(transport) or transport.get("type") == "stdio"
        if is_stdio and (runner := RUNNERS.get(str(package["registryType"]))):
            return _package_command(package, *runner)
    return {}


def _package_command(package: dict[str, Any], command: str, *options: str) -> dict[str, Any]:
    env = _registry_inputs(package.get("environmentVariables"))
    name, version = str(package.get("identifier")), package.get("version")
    is_image = command == "docker"
    passed = [word for key in env if is_image for word in ("-e", key)]
    started = f"{name}{':' if is_image else '@'}{version}" if version else name
    before, after = (_registry_words(package.get(f"{k}Arguments")) for k in ("runtime", "package"))
    return {"command": command, "args": [*options, *before, *passed, started, *after], "env": env}


def _objects_with(key: str, values: Any) -> list[dict[str, Any]]:
    return [each for each in list_of(values) if is_object(each) and key in each]


def _registry_inputs(values: Any) -> dict[str, str]:
    """Headers or variables by name, without optional ones that have no value."""
    named = _objects_with("name", values)
    found = {str(each["name"]): _registry_value(each, str(each["name"])) for each in named}
    return {name: value for name, value in found.items() if value is not None}


def _registry_words(values: Any) -> list[str]:
    words: list[str] = []
    for each in _objects_with("type", values):
        flag = str(each.get("name") or "") if each["type"] == "named" else ""
        if (value := _registry_value(each, flag or str(each.get("valueHint")))) is not None:
            words += filter(None, (flag, value))
    return words


def _registry_value(given: dict[str, Any], name: str) -> str | None:
    """Value of an input: its own, its default, or a variable if it is required."""
    variable = re.sub(r"\W+", "_", name.strip("-")).upper()
    if (value := given.get("value")) is not None:
        return _template(value)
    if (default := given.get("default")) is not None:
        return f"${{{variable}:-{default}}}"
    return f"${{{variable}}}" if given.get("isRequired") is True else None


def _template(value: Any) -> str:
    """Text whose `{variables}` come from the environment."""
    return TEMPLATE_VARIABLE.sub(lambda found: f"${{{found[1]}}}", str(value))


# -- files -----------------------------------------------------------------------------------------


def parse_config(source: Source) -> Any:
    """Parse the file; None for JSON Lines, which are never a configuration."""
    if source.is_lines:
        return None
    try:
        return source.data
    except SourceError:
        if source.path is None:
            way_out = "`toolcrib import` makes an mcp.json of this machine's hosts"
            raise source.error(f"no such file; {way_out}") from None
        # VS Code's own template has comments, which are neither JSON nor YAML.
        if (plain := without_comments(source.text)) == source.text:
            raise
        try:
            return parse_unique_json(plain)
        except ValueError as error:
            raise source.error(str(error)) from None


def without_comments(text: str) -> str:
    """JSON without `//` and `/* */` comments and trailing commas; strings and lines stay."""
    for pattern in (COMMENT, TRAILING_COMMA):
        text = pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
    return text
