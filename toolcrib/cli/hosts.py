"""Hosts of MCP servers: `install` and `import`; `gateway add`, `remove` and `list` of servers."""

from __future__ import annotations

import json as jsonlib
import os
import re
import shutil
import sys
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote, urlsplit

import typer
from rich.markup import escape

from toolcrib.cli.opening import GATEWAY_STORE
from toolcrib.cli.options import Json
from toolcrib.cli.output import err, out, print_either, print_json, print_table, table_of
from toolcrib.errors import QueryError, SourceError, StoreWriteError, did_you_mean, nearest
from toolcrib.extras import import_extra
from toolcrib.indexers.readers.base import Source, is_list
from toolcrib.indexers.readers.mcp_config import (
    is_entry_key,
    is_switched_off,
    parse_config,
    server_entries,
    servers_of,
    variables_of,
    without_comments,
)
from toolcrib.indexers.readers.parsing import parse_json, parse_toml
from toolcrib.records.codec import is_object
from toolcrib.router.context.pii import SECRET_NAME, secrets
from toolcrib.settings import FILE_NAME
from toolcrib.store.folder import write_atomically

GATEWAY_ENTRY = "toolcrib"
"""Name of the gateway's entry in the file of a host."""

# -- hosts and their files -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """Program that starts MCP servers.

    `files` are templates of paths; the first file that exists is the host's. Servers stand under
    `key`; `extra` is what each entry has besides.
    """

    title: str
    files: tuple[str, ...]
    key: str = "mcpServers"
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


EXTENSIONS = "{data}/Code/User/globalStorage"

HOSTS = {
    "claude-desktop": Host("Claude Desktop", ("{data}/Claude/claude_desktop_config.json",)),
    "claude-code": Host("Claude Code", ("{claude}/.claude.json",), extra={"type": "stdio"}),
    "cursor": Host("Cursor", ("{home}/.cursor/mcp.json",)),
    "vscode": Host("VS Code", ("{data}/Code/User/mcp.json",), "servers", {"type": "stdio"}),
    "codex": Host("Codex", ("{codex}/config.toml",), "mcp_servers"),
    "zed": Host("Zed", ("{config}/zed/settings.json",), "context_servers", {"source": "custom"}),
    "windsurf": Host("Windsurf", ("{home}/.codeium/windsurf/mcp_config.json",)),
    "gemini": Host("Gemini CLI", ("{home}/.gemini/settings.json",)),
    "cline": Host(
        "Cline",
        (
            f"{EXTENSIONS}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            "{home}/.cline/data/settings/cline_mcp_settings.json",
        ),
    ),
    "roo": Host(
        "Roo Code", (f"{EXTENSIONS}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",)
    ),
}


def host_files(host: Host, platform: str, home: PurePath, env: Mapping[str, str]) -> list[PurePath]:
    """Paths where the host's file may lie, on a platform named as `sys.platform` names it."""
    config = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    data = f"{home}/Library/Application Support" if platform == "darwin" else config
    if platform == "win32":
        config = data = env.get("APPDATA") or f"{home}/AppData/Roaming"
    codex = env.get("CODEX_HOME") or f"{home}/.codex"
    claude = env.get("CLAUDE_CONFIG_DIR") or home
    folders = {"home": home, "data": data, "config": config, "codex": codex, "claude": claude}
    return [type(home)(each.format(**folders)) for each in host.files]


def _host(name: str) -> Host:
    if name not in HOSTS:
        known = did_you_mean(nearest(name, HOSTS)) or f"; there are {', '.join(HOSTS)}"
        raise QueryError(f"there is no host {name!r}{known}")
    return HOSTS[name]


def _file_of(name: str) -> Path:
    """File of a host on this machine, which may not exist yet."""
    places = [Path(p) for p in host_files(_host(name), sys.platform, Path.home(), os.environ)]
    return next((each for each in places if each.is_file()), places[0])


# -- files of servers, edited as text --------------------------------------------------------------

TOKEN = re.compile(
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
    """Yield the tokens of a part of a text, without comments."""
    found = TOKEN.finditer(text, start, len(text) if end is None else end)
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
    """Text whose object at `start` has the member, in place of one of this name or at the end."""
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
    """White space at the begin of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _without_member(text: str, start: int, name: str) -> str:
    """Text whose object at `start` has no member of this name, nor the comma that it had."""
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
    """Text with a server put in, or taken out where `entry` is None."""
    text = text or "{}\n"
    root = next(_tokens(text, 0)).start()
    servers = next((each for each in _object_at(text, root)[0] if each.name == key), None)
    if servers is None:
        return _with_member(text, root, key, {name: entry})
    if entry is None:
        return _without_member(text, servers.value, name)
    return _with_member(text, servers.value, name, entry)


def _edited_toml(text: str, key: str, name: str, entry: Any) -> str:
    """Text with the tables of one server taken out, and written anew at the end."""
    kept: list[str] = []
    is_ours = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_ours = line.lstrip().startswith((f"[{key}.{name}]", f"[{key}.{name}."))
        # Comments behind the table belong to what follows.
        if not is_ours or not line.strip() or line.lstrip().startswith("#"):
            kept.append(line)
    text = "".join(kept)
    if entry is None:
        return text
    lines = [f"[{key}.{name}]", *(f"{each} = {_toml(value)}" for each, value in entry.items())]
    return "\n".join([text.rstrip(), "", *lines, ""]).lstrip()


def _toml(value: Any) -> str:
    """Value of TOML: texts and lists of texts as JSON has them, and a table in one line."""
    if is_object(value):
        return "{ " + ", ".join(f"{jsonlib.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return jsonlib.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class _ServerFile:
    """File of servers, which may not exist; all else in it stays as it is, comments too.

    Its text is read once.
    """

    path: Path
    key: str
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path, key: str = "") -> _ServerFile:
        """Read a file; without a `key`, servers stand under `servers` or `mcpServers`.

        Raises:
            SourceError: it is broken, or its servers are no object; with the place.
        """
        source = Source.named(str(path))
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
        """Servers of the file by name, in its host's words."""
        return self.data.get(self.key, {})

    def edited(self, changes: Mapping[str, Any]) -> str:
        """Text with these servers in it, or without those that are None.

        Raises:
            SourceError: the text cannot be edited so that all else stays.
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
                str(self.path), self.key, "cannot be edited with all else kept; edit it by hand"
            )
        return text

    def write(self, text: str, *, private: bool = False) -> None:
        """Replace the file, through a link to it; a new `private` one is its owner's alone.

        Raises:
            StoreWriteError: it cannot be written.
        """
        path = self.path.resolve()
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if private and not path.exists():
                path.touch(0o600)
        write_atomically(path, text)


@contextmanager
def _writing(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreWriteError(f"{path} cannot be written: {error.strerror}") from error


# -- install ---------------------------------------------------------------------------------------

ConfigFile: TypeAlias = Annotated[
    Path, typer.Option(help="The gateway's mcp.json, with the servers that it stands before.")
]


def install(
    context: typer.Context,
    host: Annotated[
        str, typer.Argument(autocompletion=lambda: list(HOSTS), help=f"{', '.join(HOSTS)}.")
    ],
    config: ConfigFile = Path("mcp.json"),
    store: Annotated[
        Path | None,
        typer.Option(help=f"Folder of the index; default: {GATEWAY_STORE} beside the mcp.json."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="Variable whose value here the host shall hand on; may be repeated."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Another file of this host, such as a project's.")
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Show the entry; write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take the gateway out again.")] = False,
    json: Json = False,
) -> None:
    """Write the gateway into the file in which a host keeps its MCP servers.

    All else in the file stays as it is, and a copy of what was there is kept beside it.
    """
    held = _ServerFile.read(file or _file_of(host), _host(host).key)
    if undo:
        done = {"file": str(held.path), "done": _undo(held)}
        print_either(done, escape(": ".join(done.values())), json=json)
        return
    import_extra("fastmcp", "the gateway", "gateway")
    servers = servers_of(Source.named(str(config))) or {}
    if not servers:
        raise QueryError(f"{config} names no servers; make it with `toolcrib import` first")
    entry = _gateway_entry(_host(host), context.obj, config, store, env or [])
    text = held.edited({GATEWAY_ENTRY: entry})
    if not show:
        _keep_copy(held)
        held.write(text, private=True)
    shown = {**entry, **({"env": dict.fromkeys(entry["env"], "***")} if env else {})}
    link = _deep_link(host, entry) if show else None
    notes = _notes(_host(host).title, held, sorted({*variables_of(servers)} - {*(env or ())}))
    if json:
        place = {"file": str(held.path), "written": not show}
        print_json({**place, "entry": shown, "notes": notes, "link": link})
        return
    out.print(f"{'for' if show else 'written to'} {escape(str(held.path))}:")
    out.print_json(data={GATEWAY_ENTRY: shown})
    if link:
        out.print(f"or open: {link}", soft_wrap=True, markup=False, highlight=False)
    for note in notes:
        err.print(escape(note))


def _notes(title: str, held: _ServerFile, needed: Sequence[str]) -> list[str]:
    """Notes on what is left to do after the gateway was written into a file."""
    notes: list[str] = []
    if needed:
        notes.append(f"its servers need {', '.join(needed)}: name them with --env to hand them on")
    if others := sorted(held.servers.keys() - {GATEWAY_ENTRY}):
        notes.append(
            f"{title} still starts {', '.join(others)} itself: remove from its file the servers "
            "that the gateway has"
        )
    return notes


def _gateway_entry(
    host: Host, settings: Path | None, config: Path, store: Path | None, env: list[str]
) -> dict[str, Any]:
    """Entry that starts the gateway from any folder: all its paths are whole."""
    if missing := [name for name in env if name not in os.environ]:
        raise QueryError(f"--env {missing[0]}: no such variable is set here")
    settings = settings or Path(FILE_NAME)
    options = ["--settings", str(settings.absolute())] if settings.is_file() else []
    place = store or config.absolute().parent / GATEWAY_STORE
    program = ["-m", "toolcrib", *options, "gateway", str(config.absolute())]
    return {
        **host.extra,
        "command": sys.executable,
        "args": [*program, "--store", str(place.absolute())],
        **({"env": {name: os.environ[name] for name in env}} if env else {}),
    }


def _deep_link(host: str, entry: Mapping[str, Any]) -> str | None:
    """Link by which Cursor or VS Code installs an entry, without values of variables."""
    public = {key: value for key, value in entry.items() if key != "env"}
    if host == "cursor":
        config = quote(b64encode(jsonlib.dumps(public).encode()), safe="")
        place = "cursor://anysphere.cursor-deeplink/mcp/install"
        return f"{place}?name={GATEWAY_ENTRY}&config={config}"
    if host == "vscode":
        return "vscode:mcp/install?" + quote(jsonlib.dumps({"name": GATEWAY_ENTRY, **public}))
    return None


def copy_of(path: Path) -> Path:
    """Path of the copy of a host's file, as it was before the gateway."""
    path = path.resolve()
    return path.with_stem(f"{path.stem}.before-toolcrib")


def _keep_copy(held: _ServerFile) -> None:
    """Copy the file as it was before the gateway: an entry that is renewed keeps the copy."""
    copy = copy_of(held.path)
    if held.path.is_file() and not (copy.is_file() and GATEWAY_ENTRY in held.servers):
        with _writing(copy):
            shutil.copy2(held.path, copy)


def _undo(held: _ServerFile) -> str:
    """Take the gateway out, or put the copy back where nothing else has changed since."""
    if GATEWAY_ENTRY not in held.servers:
        raise QueryError(f"{held.path} has no entry {GATEWAY_ENTRY!r}: nothing is to be undone")
    copy, text = copy_of(held.path), held.edited({GATEWAY_ENTRY: None})
    if not copy.is_file():
        held.write(text)
        return f"has no entry {GATEWAY_ENTRY!r} now"
    if _others(_ServerFile.read(copy, held.key)) == _others(held):
        with _writing(held.path):
            copy.replace(held.path.resolve())
        return "is as it was before"
    held.write(text)
    return f"has no entry {GATEWAY_ENTRY!r} now; {copy} is what was there before"


def _others(held: _ServerFile) -> dict[str, Any]:
    """Content of a file besides the gateway."""
    servers = {name: raw for name, raw in held.servers.items() if name != GATEWAY_ENTRY}
    return {**held.data, held.key: servers}


# -- import ----------------------------------------------------------------------------------------

SWITCHES = ("disabled", "enabled")

REFERENCE = re.compile(r"(?:\$\{(?:env:)?\w+\}|\$[A-Z_]\w*)?")
"""Value that only refers to a variable, or is empty."""

EDITOR_INPUT = re.compile(r"\$\{input:([\w.-]+)\}")

SCHEME = re.compile(r"(?:(?:Bearer|Basic|Token) {1,4})?", re.IGNORECASE)
PREFIX = re.compile(
    rf"(?:-{{1,2}}[\w-]{{1,60}}=|[\w-]{{1,60}}:(?!//) {{0,4}})?{SCHEME.pattern}", re.IGNORECASE
)
"""Parts of a text that stay before its secret: an option or a header, a scheme of authorisation."""

BEARER = re.compile(r"(?:Bearer|Basic) {1,4}[^\s$]", re.IGNORECASE)

LONG_PART = re.compile(r"/([\w-]{20,})(?=[/?#]|\Z)")
"""Part of a URL's path that may be a secret."""


@dataclass
class _Import:
    """Servers of hosts, gathered into those of an mcp.json; secrets become variables.

    `variables` holds the places of each new variable, `notes` what a user should know.
    """

    known: Mapping[str, Any]
    added: dict[str, Any] = field(default_factory=dict[str, Any])
    same: list[str] = field(default_factory=list[str])
    variables: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    notes: list[str] = field(default_factory=list[str])
    _values: dict[str, str] = field(default_factory=dict[str, str], repr=False)

    def take(self, origin: str, name: str, raw: Any) -> None:
        """Add a server of a host or file named `origin`."""
        if not is_object(raw) or _is_gateway(raw):
            reason = "is the gateway itself" if is_object(raw) else "is no object"
            self.notes.append(f"{name} of {origin} {reason}: left out")
            return
        is_off = is_switched_off(raw)
        entry = {key: value for key, value in raw.items() if is_entry_key(key)}
        if unread := sorted(raw.keys() - entry.keys() - {"source", "name"}):
            self.notes.append(f"{name} of {origin}: {', '.join(unread)} left out")
        entry = {k: v for k, v in entry.items() if not (k in SWITCHES and isinstance(v, bool))}
        entry = self._without_secrets(name, entry) | ({"disabled": True} if is_off else {})
        taken = {**self.known, **self.added}
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        chosen = next(each for each in names if taken.get(each, entry) == entry)
        if chosen != name:
            self.notes.append(f"{name} of {origin} is another than the one here: now {chosen}")
        if is_off:
            self.notes.append(f"{chosen} is switched off in {origin}, and stays off")
        if chosen in taken:
            self.same.append(chosen)
            return
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
        for key in ("url", "httpUrl", "serverUrl"):
            if key in entry:
                result[key] = self._text(server, key, "", entry[key])
        if is_list(args := entry.get("args")):
            befores = [str(each) if str(each).startswith("-") else "" for each in ["", *args]]
            result["args"] = [
                self._text(server, "args", before.lstrip("-"), value)
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
        found = (PREFIX if names_itself else SCHEME).match(value)
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
        """Reference to the variable of a value: its own name, unless another server has that."""
        used = set(variables_of({key: raw for key, raw in self.known.items() if key != server}))
        plain, own = (re.sub(r"\W+", "_", each).upper() for each in (wanted, f"{server}_{wanted}"))
        names = chain([plain, own], (f"{own}_{number}" for number in count(2)))
        free = (each for each in names if each not in used)
        name = next(each for each in free if self._values.setdefault(each, value) == value)
        places = self.variables.setdefault(name, [])
        places += {f"{server}: {place}"}.difference(places)
        return f"${{{name}}}"


def _is_gateway(raw: Mapping[str, Any]) -> bool:
    words = [str(each) for each in (raw.get("command"), *(raw.get("args") or ()))]
    return "gateway" in words and any(PurePath(word).stem == "toolcrib" for word in words)


def import_servers(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST]...",
            autocompletion=lambda: list(HOSTS),
            help=f"{', '.join(HOSTS)}, or a file of servers; none: every host that is here.",
        ),
    ] = None,
    to: Annotated[Path, typer.Option(help="The mcp.json that they are added to.")] = Path(
        "mcp.json"
    ),
    show: Annotated[bool, typer.Option("--print", help="Show the file; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Gather the MCP servers of hosts into one mcp.json.

    A secret becomes a variable, `${NAME}`, whose value is shown nowhere. Nothing is taken from the
    files of the hosts.
    """
    held = _ServerFile.read(to)
    found = _Import(held.servers)
    for each in hosts or [name for name in HOSTS if _file_of(name).is_file()]:
        for name, raw in _servers_in(each).items():
            found.take(each, name, raw)
    if not (found.added or found.same or found.notes):
        raise QueryError("there are no servers to gather: name a host or a file that has some")
    text = held.edited(found.added)
    if not show:
        held.write(text)
    if json:
        gathered = {"added": list(found.added), "same": found.same, "variables": found.variables}
        print_json({"file": str(to), "written": not show, **gathered, "notes": found.notes})
        return
    summary = f"{to}: {', '.join(found.added) or 'nothing'} added, {len(found.same)} there already"
    typer.echo(text if show else summary)
    unset = [f"{name} is to be set ({'; '.join(at)})" for name, at in found.variables.items()]
    for note in [*found.notes, *unset]:
        err.print(escape(note))


def _servers_in(name: str) -> dict[str, Any]:
    """Servers of a host or file; of Claude Code also those of the project in this folder."""
    is_file = name not in HOSTS and Path(name).is_file()
    source = Source.named(name if is_file else str(_file_of(name)))
    servers, document = servers_of(source) or {}, parse_config(source)
    projects = document.get("projects") if name == "claude-code" and is_object(document) else None
    project = projects.get(str(Path.cwd())) if is_object(projects) else None
    return {**servers, **(servers_of(Source.parsed(source.name, project)) or {})}


# -- servers of an mcp.json ------------------------------------------------------------------------


def add_server(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    target: Annotated[
        list[str],
        typer.Argument(metavar="URL|COMMAND...", help="Its URL, or behind -- what starts it."),
    ],
    config: ConfigFile = Path("mcp.json"),
    env: Annotated[
        list[str] | None,
        typer.Option(help="Variable of its process: NAME=VALUE, or NAME to hand on; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Header of its requests, 'Name: value'; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a server to an mcp.json, which is made where there is none."""
    held = _ServerFile.read(config)
    if name in held.servers:
        raise QueryError(f"{config} has a server {name!r}; remove it first")
    pairs = [each.partition("=") for each in env or ()]
    values = {key: value if sign else f"${{{key}}}" for key, sign, value in pairs}
    fields = [each.partition(":") for each in header or ()]
    headers = {key.strip(): value.strip() for key, _, value in fields}
    is_url = target[0].startswith(("http://", "https://"))
    entry: dict[str, Any] = {"url": target[0]} if is_url else {"command": target[0]}
    if (env if is_url else header) or (is_url and target[1:]):
        raise QueryError("a URL takes --header, a command takes --env and arguments")
    more = {"args": target[1:], "env": values, "headers": headers}
    entry |= {key: value for key, value in more.items() if value}
    held.write(held.edited({name: entry}))
    print_either({"file": str(config), "added": name}, f"{escape(name)} added", json=json)


def remove_server(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigFile = Path("mcp.json"),
    json: Json = False,
) -> None:
    """Take a server out of an mcp.json."""
    held = _ServerFile.read(config)
    if name not in held.servers:
        raise QueryError(
            f"{config} has no server {name!r}{did_you_mean(nearest(name, held.servers))}"
        )
    held.write(held.edited({name: None}))
    print_either({"file": str(config), "removed": name}, f"{escape(name)} removed", json=json)


def list_servers(config: ConfigFile = Path("mcp.json"), json: Json = False) -> None:
    """List the servers of an mcp.json: how each is reached, and why one cannot be used."""
    servers = servers_of(Source.named(str(config))) or {}
    problems = {each.name: each.problem for each in server_entries(servers, os.environ)}
    table = table_of(["server", "reached by", "state", "problem"])
    rows: list[dict[str, str]] = []
    for name, raw in servers.items():
        entry = raw if is_object(raw) else {}
        # A whole URL may hold a secret.
        target = entry.get("command") or urlsplit(str(entry.get("url"))).hostname or ""
        problem = problems.get(name, "")
        state = "off" if name not in problems else "unusable" if problem else "on"
        rows.append({"name": name, "target": str(target), "state": state, "problem": problem})
        table.add_row(*map(escape, rows[-1].values()))
    if json:
        print_json({"file": str(config), "servers": rows})
    else:
        print_table(table)
