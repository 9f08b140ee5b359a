"""File of MCP servers: an `mcp.json` or a host's own, edited as text; servers without secrets."""

from __future__ import annotations

import json as jsonlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

from toolcrib.context.pii import SECRET_NAME, secrets
from toolcrib.errors import QueryError, SourceError, StoreLockedError, did_you_mean, nearest
from toolcrib.indexers.readers.base import Source, is_list
from toolcrib.indexers.readers.mcp_config import (
    SWITCHES,
    TRANSPORTS,
    URL_KEYS,
    is_entry_key,
    is_switched_off,
    parse_config,
    server_entries,
    variables_of,
    without_comments,
)
from toolcrib.parsing import parse_json, parse_toml
from toolcrib.records.codec import is_object, object_of
from toolcrib.records.log import ConfiguredServer
from toolcrib.store.folder import file_lock, write_atomically, write_errors

JSON_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL
)
"""Token of JSON with comments."""


@dataclass(frozen=True, slots=True)
class _Member:
    """Member of an object in a text of JSON: where it starts, its value starts, and it ends."""

    name: str
    start: int
    value: int
    end: int


def _tokens(text: str, start: int, end: int | None = None) -> Iterator[re.Match[str]]:
    """Tokens between two places of a text, without comments."""
    found = JSON_TOKEN.finditer(text, start, len(text) if end is None else end)
    return (each for each in found if not each[0].startswith(("//", "/*")))


def _object_at(text: str, start: int) -> tuple[list[_Member], int]:
    """Members of the object whose brace is at `start`, and the place of its closing brace."""
    members: list[_Member] = []
    depth = last = 0
    name, begin, value = "", -1, -1
    for token in _tokens(text, start):
        word = token[0]
        if depth == 1:
            if word in {",", "}"}:
                if begin >= 0:
                    members.append(_Member(name, begin, value, last))
                begin = value = -1
            elif begin < 0:
                name, begin = jsonlib.loads(word), token.start()
            elif value < 0 and word != ":":
                value = token.start()
        depth += (word in {"{", "["}) - (word in {"}", "]"})
        last = token.end()
        if not depth:
            break
    return members, last - 1


def _with_member(text: str, start: int, name: str, value: Any) -> str:
    """Text with a member set in the object at `start`; a new member comes last."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    members, close = _object_at(text, start)
    outer = _indent(text, start)
    inner = (members and _indent(text, members[-1].start)) or f"{outer}  "
    dumped = jsonlib.dumps(value, indent=2, ensure_ascii=False)
    dumped = dumped.replace("\n", f"{line_end}{inner}")
    for each in members:
        if each.name == name:
            return text[: each.value] + dumped + text[each.end :]
    end = members[-1].end if members else start + 1
    comma = "," if members and not any(_tokens(text, end, close)) else ""
    between = text[end:close].rstrip()
    member = f"{line_end}{inner}{jsonlib.dumps(name, ensure_ascii=False)}: {dumped}"
    return f"{text[:end]}{comma}{between}{member}{line_end}{outer}{text[close:]}"


def _indent(text: str, at: int) -> str:
    """Indentation of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _without_member(text: str, start: int, name: str) -> str:
    """Text without a member of the object at `start`, and without the member's comma."""
    members, close = _object_at(text, start)
    place = next(number for number, each in enumerate(members) if each.name == name)
    begin, end = members[place].start, members[place].end
    if comma := next(_tokens(text, end, close), None):
        end = comma.end()
    elif place and (comma := next(_tokens(text, members[place - 1].end, begin), None)):
        text = f"{text[: comma.start()]} {text[comma.end() :]}"
    if text[end:].lstrip(" \t").startswith(("\n", "\r\n")):
        begin = len(text[:begin].rstrip())
    return text[:begin] + text[end:]


def _edited_json(text: str, key: str, name: str, entry: Any) -> str:
    """Text with a server set, or removed if `entry` is None."""
    text = text or "{}\n"
    root = next(_tokens(text, 0)).start()
    servers = next((each for each in _object_at(text, root)[0] if each.name == key), None)
    if servers is None:
        return _with_member(text, root, key, {name: entry})
    if entry is None:
        return _without_member(text, servers.value, name)
    return _with_member(text, servers.value, name, entry)


def _edited_toml(text: str, key: str, name: str, entry: Any) -> str:
    """Text with the tables of one server removed, and `entry` added at the end if not None."""
    kept: list[str] = []
    is_ours = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_ours = line.lstrip().startswith((f"[{key}.{name}]", f"[{key}.{name}."))
        # Comments behind the table belong to the next table.
        if not is_ours or not line.strip() or line.lstrip().startswith("#"):
            kept.append(line)
    text = "".join(kept)
    if entry is None:
        return text
    lines = [f"[{key}.{name}]", *(f"{each} = {_toml(value)}" for each, value in entry.items())]
    return "\n".join([text.rstrip(), "", *lines, ""]).lstrip()


def _toml(value: Any) -> str:
    """Value as TOML: texts and lists of texts as in JSON, and inline tables."""
    if is_object(value):
        return "{ " + ", ".join(f"{jsonlib.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return jsonlib.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class ServerFile:
    """File of servers, read once; it may not exist. Edits keep all other text and comments."""

    path: Path
    key: str
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path, key: str = "") -> ServerFile:
        """Read a file; without a `key`, servers stand under `servers` or `mcpServers`.

        Raises:
            SourceError: the file cannot be parsed, or its servers are no object.
        """
        source = Source.by_name(str(path))
        is_blank = not path.is_file() or not path.read_bytes().strip()
        data: Any = {} if is_blank else parse_config(source)
        if not is_object(data):
            raise source.error("must be an object of JSON with the servers in it")
        key = key or ("servers" if "servers" in data and "mcpServers" not in data else "mcpServers")
        if not is_object(data.get(key, {})):
            raise source.error("must be an object of servers", key)
        return cls(path, key, "" if is_blank else source.text, data)

    @property
    def servers(self) -> dict[str, Any]:
        """Entries of the file's servers by name, in the form of its host."""
        return self.data.get(self.key, {})

    def require(self, name: str) -> Any:
        """Entry of a server."""
        if name not in self.servers:
            known = did_you_mean(nearest(name, self.servers))
            raise QueryError(f"{self.path.name} has no server {name!r}{known}")
        return self.servers[name]

    def with_switch(self, name: str, *, on: bool) -> str:
        """Text with a server switched on or off."""
        raw = self.require(name)
        entry = {key: value for key, value in object_of(raw).items() if key not in SWITCHES}
        return self.with_servers({name: entry if on else {**entry, "disabled": True}})

    def with_servers(self, changes: Mapping[str, Any]) -> str:
        """Text with these servers in it, or without those that are None.

        Raises:
            SourceError: the edited text would differ in more than the servers.
        """
        is_toml = self.path.suffix == ".toml"
        text, servers = self.text, dict(self.servers)
        for name, entry in changes.items():
            text = (_edited_toml if is_toml else _edited_json)(text, self.key, name, entry)
            servers[name] = entry
            if entry is None:
                del servers[name]
        try:
            found = parse_toml(text) if is_toml else parse_json(without_comments(text))
        except ValueError:
            found = {}
        if {self.key: {}, **found} != {**self.data, self.key: servers}:
            raise SourceError(
                str(self.path), self.key, "an edit would change other entries; edit it by hand"
            )
        return text

    def write(self, text: str) -> None:
        """Replace the file, or the target of a link; a new file is private: it may hold secrets.

        Raises:
            StoreLockedError: another program has changed the file since it was read.
            StoreWriteError: the file cannot be written.
        """
        path = self.path.resolve()
        beside = path.with_name(f".{path.name}.writing")
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with file_lock(beside):
                if ServerFile.read(self.path, self.key).text != self.text:
                    raise StoreLockedError(f"{path} was changed meanwhile; try again")
                if not path.exists():
                    path.touch(0o600)
                write_atomically(path, text)


def listed_servers(servers: Mapping[str, Any], env: Mapping[str, str]) -> list[ConfiguredServer]:
    """List servers without values that may be secret; `env` are the variables that are set."""
    problems = {each.name: each.problem for each in server_entries(servers, env)}
    found: list[ConfiguredServer] = []
    for name, raw in servers.items():
        entry, problem = object_of(raw), problems.get(name, "")
        target = entry.get("command") or _host_of(entry)
        state = "off" if name not in problems else "unusable" if problem else "on"
        variables = tuple(sorted(set(variables_of(entry))))
        found.append(ConfiguredServer(name, str(target), state, problem, variables))
    return found


def _host_of(entry: Mapping[str, Any]) -> str:
    """Host of an entry's URL, else the URL's scheme: a whole URL may hold a secret."""
    url = next((str(entry[key]) for key in URL_KEYS if entry.get(key)), "")
    parts = urlsplit(url if ":" in url else f"//{url}")
    return parts.hostname or parts.scheme


# -- servers of others, without their secrets ----------------------------------------------------

REFERENCE = re.compile(r"(?:\$\{(?:env:)?\w+\}|\$[A-Z_]\w*)?")
"""An empty value, or a reference to a variable alone."""

EDITOR_INPUT = re.compile(r"\$\{input:([\w.-]+)\}")

SCHEME = re.compile(r"(?:(?:Bearer|Basic|Token) {1,4})?", re.IGNORECASE)
SECRET_VALUE_PREFIX = re.compile(
    rf"(?:-{{1,2}}[\w-]{{1,60}}=|[\w-]{{1,60}}:(?!//) {{0,4}})?{SCHEME.pattern}", re.IGNORECASE
)
"""Text in front of a secret that stays: an option or a header, and a scheme of authorisation."""

OPTION_NAME = re.compile(r"-+([\w-]*)")
"""Option that names the argument behind it: one with a value of its own does not."""

BEARER = re.compile(r"(?:Bearer|Basic) {1,4}[^\s$]", re.IGNORECASE)

LONG_PART = re.compile(r"/([\w-]{20,})(?=[/?#]|\Z)")
"""Part of a URL's path that may be a secret."""


EMPTY_VALUES: Mapping[str, object] = {"args": [], "env": {}, "headers": {}}
"""Values that some hosts write and others leave out."""


def _comparable(entry: Any) -> dict[str, Any]:
    """Entry without empty values, and without a type that its other keys show as well."""
    compared = {k: v for k, v in object_of(entry).items() if EMPTY_VALUES.get(k) != v}
    default = "stdio" if compared.get("command") else "http"
    if TRANSPORTS.get(str(compared.get("type"))) == default:
        del compared["type"]
    return compared


@dataclass
class ServerImport:
    """Servers of hosts to add to the `known` servers of an mcp.json; secrets become variables.

    `same` are servers that the mcp.json has already. `variables` holds the places of each new
    variable, `notes` the messages for the user.
    """

    known: Mapping[str, Any]
    added: dict[str, Any] = field(default_factory=dict[str, Any])
    same: list[str] = field(default_factory=list[str])
    variables: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    notes: list[str] = field(default_factory=list[str])
    _values: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def add(self, origin: str, name: str, raw: Any) -> None:
        """Add a server of a host or file named `origin`."""
        if fault := _import_fault(raw):
            self.notes.append(f"{name} of {origin} {fault}: left out")
            return
        is_off = is_switched_off(raw)
        entry = {key: value for key, value in raw.items() if is_entry_key(key)}
        if unread := sorted(raw.keys() - entry.keys() - {"source", "name"}):
            self.notes.append(f"{name} of {origin}: {', '.join(unread)} left out")
        entry = {k: v for k, v in entry.items() if not (k in SWITCHES and isinstance(v, bool))}
        entry = self._without_secrets(name, entry) | ({"disabled": True} if is_off else {})
        taken = {**self.known, **self.added}
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        chosen = next(
            each for each in names if _comparable(taken.get(each, entry)) == _comparable(entry)
        )
        if chosen in taken:
            self.same.append(chosen)
            return
        if chosen != name:
            self.notes.append(f"{name} of {origin} differs from {name} here: added as {chosen}")
        if is_off:
            self.notes.append(f"{chosen} is switched off in {origin}, and stays off")
        self.added[chosen] = entry
        settable = dict.fromkeys(variables_of(entry), "")
        found = server_entries({chosen: entry}, settable)
        self.notes += (f"{chosen}: {each.problem}" for each in found if each.problem)

    def _without_secrets(self, server: str, entry: dict[str, Any]) -> dict[str, Any]:
        result = dict(entry)
        for group in ("env", "headers"):
            if is_object(values := entry.get(group)):
                result[group] = {
                    key: self._text(server, f"{group}.{key}", key, value)
                    for key, value in values.items()
                }
        for key in URL_KEYS:
            if key in entry:
                result[key] = self._text(server, key, "", entry[key])
        if is_list(args := entry.get("args")):
            befores = [OPTION_NAME.fullmatch(str(each)) for each in ["", *args]]
            result["args"] = [
                self._text(server, "args", before[1] if before else "", value)
                for before, value in zip(befores, args, strict=False)
            ]
        return result

    def _text(self, server: str, place: str, key: str, value: Any) -> Any:
        """Text without its secret; `key` is the name of its header, variable or option."""
        if not isinstance(value, str):
            return value
        value = EDITOR_INPUT.sub(
            lambda found: self._variable(server, found[1], found[0], f"{place}, an input"), value
        )
        names_itself = value.startswith("-") or not SECRET_NAME.search(key)
        found = (SECRET_VALUE_PREFIX if names_itself else SCHEME).match(value)
        prefix = found[0] if found else ""
        rest = value.removeprefix(prefix)
        if place == "args" and names_itself:
            key = prefix.rstrip().partition("=")[0].partition(":")[0].lstrip("-")
        path = "".join(f" token={part}" for part in LONG_PART.findall(rest) if "://" in rest)
        is_named = SECRET_NAME.search(key) or BEARER.search(value)
        is_secret = is_named or any(secrets(f"{key}={rest}{path}"))
        if REFERENCE.fullmatch(rest) or not is_secret:
            return value
        wanted = key if place.startswith("env.") else f"{server}_{key or place}"
        return prefix + self._variable(server, wanted, rest, place)

    def _variable(self, server: str, wanted: str, value: str, place: str) -> str:
        """Reference to the variable of a value: the `wanted` name, unless another value has it."""
        used = set(variables_of({key: raw for key, raw in self.known.items() if key != server}))
        plain, own = (re.sub(r"\W+", "_", each).upper() for each in (wanted, f"{server}_{wanted}"))
        names = chain([plain, own], (f"{own}_{number}" for number in count(2)))
        free = (each for each in names if each not in used)
        name = next(each for each in free if self._values.setdefault(each, value) == value)
        places = self.variables.setdefault(name, [])
        places += {f"{server}: {place}"}.difference(places)
        return f"${{{name}}}"


def _import_fault(raw: Any) -> str:
    """Reason why a server of a host cannot be gathered; empty if it can."""
    if not is_object(raw):
        return "is no object"
    if _is_gateway(raw):
        return "is the gateway itself"
    return "" if raw.keys() & {"command", *URL_KEYS} else "has neither a command nor a URL"


def _is_gateway(raw: Mapping[str, Any]) -> bool:
    words = [str(each) for each in (raw.get("command"), *(raw.get("args") or ()))]
    return "gateway" in words and any(PurePath(word).stem == "toolcrib" for word in words)
