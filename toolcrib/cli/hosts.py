"""Hosts of MCP servers: `install` and `import`; `gateway add`, `remove` and `list` of servers."""

from __future__ import annotations

import json as jsonlib
import os
import shutil
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import typer
from rich.markup import escape

from toolcrib.access.server_file import ServerFile, ServerImport, listed_servers
from toolcrib.cli.opening import GATEWAY_STORE
from toolcrib.cli.options import Json, store_option
from toolcrib.cli.output import err, out, print_either, print_json, print_rows
from toolcrib.errors import QueryError, did_you_mean, nearest
from toolcrib.extras import import_extra
from toolcrib.indexers.readers.base import Source
from toolcrib.indexers.readers.mcp_config import (
    HEADER_NAME,
    NO_SERVERS,
    URL_START,
    find_servers,
    is_switched_off,
    parse_config,
    variables_of,
)
from toolcrib.records.codec import list_of, object_of
from toolcrib.settings import FILE_NAME
from toolcrib.store.folder import write_errors

GATEWAY_ENTRY = "toolcrib"
"""Name of the gateway's entry in the file of a host."""

# -- hosts and their files -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Host:
    """Program that starts MCP servers.

    `files` are templates of paths; the first file that exists is the host's. Servers are under
    `key`; `extra` are fields that each entry needs.
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
    """Possible paths of the host's file, on a `platform` as in `sys.platform`."""
    config = env.get("XDG_CONFIG_HOME") or f"{home}/.config"
    data = f"{home}/Library/Application Support" if platform == "darwin" else config
    if platform == "win32":
        config = data = env.get("APPDATA") or f"{home}/AppData/Roaming"
    codex = env.get("CODEX_HOME") or f"{home}/.codex"
    claude = env.get("CLAUDE_CONFIG_DIR") or home
    folders = {"home": home, "data": data, "config": config, "codex": codex, "claude": claude}
    return [type(home)(each.format(**folders)) for each in host.files]


def _host(name: str, noun: str = "host") -> Host:
    if name not in HOSTS:
        known = did_you_mean(nearest(name, HOSTS)) or f"; there are {', '.join(HOSTS)}"
        raise QueryError(f"there is no {noun} {name!r}{known}")
    return HOSTS[name]


def _file_of(name: str) -> Path:
    """File of a host on this machine, which may not exist yet."""
    places = [Path(p) for p in host_files(_host(name), sys.platform, Path.home(), os.environ)]
    return next((each for each in places if each.is_file()), places[0])


# -- install ---------------------------------------------------------------------------------------

ConfigFile: TypeAlias = Annotated[
    Path, typer.Option(help="The gateway's mcp.json, with the servers behind it.")
]


def install(
    context: typer.Context,
    host: Annotated[
        str, typer.Argument(autocompletion=lambda: list(HOSTS), help=f"{', '.join(HOSTS)}.")
    ],
    config: ConfigFile = Path("mcp.json"),
    store: Annotated[
        str | None,
        store_option(f"Folder of the index; default: {GATEWAY_STORE} beside the mcp.json."),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(help="Variable to copy from here into the host's entry; may be repeated."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Another file of this host, such as a project's.")
    ] = None,
    show: Annotated[bool, typer.Option("--print", help="Show the entry; write nothing.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the gateway again.")] = False,
    json: Json = False,
) -> None:
    """Write the gateway into a host's file of MCP servers.

    All other content of the file stays, and a copy of the file is kept beside it.
    """
    if undo and show:
        raise typer.BadParameter("give one of --print and --undo", param_hint="--print")
    held = ServerFile.read(file or _file_of(host), _host(host).key)
    if undo:
        done = {"file": str(held.path), "done": _undo(held)}
        print_either(done, escape(": ".join(done.values())), json=json)
        return
    import_extra("fastmcp", "the gateway", "gateway")
    servers = find_servers(Source.by_name(str(config))) or {}
    if not servers:
        raise QueryError(f"{config} names no servers; make it with `toolcrib import` first")
    entry = _gateway_entry(_host(host), context.obj, config, store, env or [])
    text = held.with_servers({GATEWAY_ENTRY: entry})
    if not show:
        _keep_copy(held)
        held.write(text)
    shown = {**entry, **({"env": dict.fromkeys(entry["env"], "***")} if env else {})}
    link = _deep_link(host, entry) if show else None
    started = _host_servers(host, Source.of_document(str(held.path), held.data)) or {}
    folder = config.absolute().parent
    relative = [name for name, raw in servers.items() if _in_folder(raw, folder) != raw]
    needed = sorted({*variables_of(servers)} - {*(env or ())})
    notes = _notes(_host(host).title, started, needed, relative)
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


def _notes(
    title: str, servers: Mapping[str, Any], needed: Sequence[str], relative: Sequence[str]
) -> list[str]:
    """Notes on what the user must still do after the gateway was written into a file."""
    notes: list[str] = []
    if relative:
        notes.append(
            f"{title} may not find the relative paths of {', '.join(relative)}: write a whole "
            "path as their cwd"
        )
    if needed:
        notes.append(f"its servers need {', '.join(needed)}: name them with --env to copy them")
    if others := sorted(
        name for name, raw in servers.items() if name != GATEWAY_ENTRY and not is_switched_off(raw)
    ):
        notes.append(
            f"{title} still starts {', '.join(others)} itself: remove the servers that the gateway "
            "has from its file"
        )
    return notes


def _gateway_entry(
    host: Host, settings: Path | None, config: Path, store: str | None, env: list[str]
) -> dict[str, Any]:
    """Entry that starts the gateway from any folder: all its paths are absolute."""
    if missing := [name for name in env if name not in os.environ]:
        raise QueryError(f"--env {missing[0]}: no such variable is set here")
    settings = settings or Path(FILE_NAME)
    options = ["--settings", str(settings.absolute())] if settings.is_file() else []
    place = Path(store or config.absolute().parent / GATEWAY_STORE)
    program = ["-m", "toolcrib", *options, "gateway", str(config.absolute())]
    return {
        **host.extra,
        "command": sys.executable,
        "args": [*program, "--store", str(place.absolute())],
        **({"env": {name: os.environ[name] for name in env}} if env else {}),
    }


def _deep_link(host: str, entry: Mapping[str, Any]) -> str | None:
    """Link with which Cursor or VS Code installs an entry, without values of variables."""
    public = {key: value for key, value in entry.items() if key != "env"}
    if host == "cursor":
        config = quote(b64encode(jsonlib.dumps(public).encode()), safe="")
        place = "cursor://anysphere.cursor-deeplink/mcp/install"
        return f"{place}?name={GATEWAY_ENTRY}&config={config}"
    if host == "vscode":
        return "vscode:mcp/install?" + quote(jsonlib.dumps({"name": GATEWAY_ENTRY, **public}))
    return None


def copy_of(path: Path) -> Path:
    """Path of the copy of a host's file without the gateway."""
    path = path.resolve()
    return path.with_stem(f"{path.stem}.before-toolcrib")


def _keep_copy(held: ServerFile) -> None:
    """Copy the file, unless it has the gateway already: then the first copy is kept."""
    copy = copy_of(held.path)
    if held.path.is_file() and not (copy.is_file() and GATEWAY_ENTRY in held.servers):
        with write_errors(copy):
            shutil.copy2(held.path, copy)


def _undo(held: ServerFile) -> str:
    """Remove the gateway, or restore the copy if nothing else has changed."""
    if GATEWAY_ENTRY not in held.servers:
        raise QueryError(f"{held.path} has no entry {GATEWAY_ENTRY!r}: there is nothing to undo")
    copy, text = copy_of(held.path), held.with_servers({GATEWAY_ENTRY: None})
    if not copy.is_file():
        held.write(text)
        return f"has no entry {GATEWAY_ENTRY!r} now"
    if _others(ServerFile.read(copy, held.key)) == _others(held):
        with write_errors(held.path):
            copy.replace(held.path.resolve())
        return "is as it was before"
    held.write(text)
    return f"has no entry {GATEWAY_ENTRY!r} now; {copy} is the file before the gateway"


def _others(held: ServerFile) -> dict[str, Any]:
    """Content of a file besides the gateway."""
    servers = {name: raw for name, raw in held.servers.items() if name != GATEWAY_ENTRY}
    return {**held.data, held.key: servers}


# -- import ----------------------------------------------------------------------------------------


def import_servers(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[HOST]...",
            autocompletion=lambda: list(HOSTS),
            help=f"{', '.join(HOSTS)}, or a file of servers; none: all hosts of this machine.",
        ),
    ] = None,
    to: Annotated[Path, typer.Option(help="The mcp.json to add the servers to.")] = Path(
        "mcp.json"
    ),
    show: Annotated[bool, typer.Option("--print", help="Show the file; write nothing.")] = False,
    json: Json = False,
) -> None:
    """Copy the MCP servers of hosts into one mcp.json.

    A secret becomes a variable, `${NAME}`, whose value is shown nowhere. The hosts' files are not
    changed.
    """
    held = ServerFile.read(to)
    found = ServerImport(held.servers)
    for each in hosts or [name for name in HOSTS if _file_of(name).is_file()]:
        for name, raw in _servers_in(each).items():
            found.add(each, name, raw)
    if not (found.added or found.same or found.notes):
        raise QueryError("there are no servers to import: name a host or a file with servers")
    text = held.with_servers(found.added)
    if not show:
        held.write(text)
    found.notes += _unset_variables(found)
    if json:
        gathered = {"added": list(found.added), "same": found.same, "variables": found.variables}
        print_json({"file": str(to), "written": not show, **gathered, "notes": found.notes})
        return
    summary = f"{to}: {', '.join(found.added) or 'nothing'} added, {len(found.same)} there already"
    typer.echo(text if show else summary)
    made = [f"set {name} ({'; '.join(at)})" for name, at in found.variables.items()]
    for note in [*found.notes, *made]:
        err.print(escape(note))


def _unset_variables(found: ServerImport) -> Iterator[str]:
    """Yield a note for each server with variables that have no value here."""
    for name, entry in found.added.items():
        if unset := sorted({*variables_of(entry)} - {*os.environ, *found.variables}):
            yield f"{name} needs {', '.join(unset)}, not set here"


def _servers_in(name: str) -> dict[str, Any]:
    """Servers of a host or file."""
    path = _file_of(name) if name in HOSTS else Path(name)
    if not path.is_file():
        host = _host(name, "host and no file")
        raise QueryError(f"{host.title} keeps no servers here: there is no {path}")
    source = Source.by_name(str(path))
    servers = _host_servers(name, source)
    if name in HOSTS:
        return servers or {}
    if servers is None:
        raise source.error(NO_SERVERS)
    folder = path.absolute().parent
    while folder.name.startswith(".") or folder.parent.name == ".kiro":
        folder = folder.parent
    return {key: _in_folder(raw, folder) for key, raw in servers.items()}


def _host_servers(host: str, source: Source) -> dict[str, Any] | None:
    """Servers of a host's file; for Claude Code also the servers of the project in this folder."""
    if host == "claude-code":
        document = object_of(parse_config(source))
        project = object_of(object_of(document.get("projects")).get(str(Path.cwd())))
        both = object_of(document.get("mcpServers")) | object_of(project.get("mcpServers"))
        source = Source.of_document(source.name, {**project, "mcpServers": both})
    return find_servers(source)


def _in_folder(raw: Any, folder: Path) -> Any:
    """Entry with the `cwd` of its relative paths: hosts start the gateway in any folder."""
    entry = object_of(raw)
    cwd = str(entry.get("cwd") or "")
    words = map(str, (entry.get("command"), *list_of(entry.get("args"))))
    # A word alone, such as `serve`, is a path only by chance.
    paths = [cwd] if cwd else [word for word in words if {"/", "."} & {*word}]
    relative = (path for path in paths if not PurePath(path).is_absolute())
    # Unlike pathlib, os.path returns False for impossible names.
    if any(os.path.exists(folder / each) for each in relative):  # noqa: PTH110
        return {**entry, "cwd": str(folder / cwd)}
    return raw


# -- servers of an mcp.json ------------------------------------------------------------------------


def add_server(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    target: Annotated[
        list[str],
        typer.Argument(metavar="URL|COMMAND...", help="Its URL, or its command behind `--`."),
    ],
    config: ConfigFile = Path("mcp.json"),
    env: Annotated[
        list[str] | None,
        typer.Option(help="Variable of its process: NAME=VALUE, or NAME to copy; repeatable."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="Header of its requests, 'Name: value'; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a server to an mcp.json, which is made if missing."""
    held = ServerFile.read(config)
    if name in held.servers:
        raise QueryError(f"{config} has a server {name!r}; remove it first")
    pairs = [each.partition("=") for each in env or ()]
    values = {key: value if sign else f"${{{key}}}" for key, sign, value in pairs}
    headers = dict(map(_header_of, header or ()))
    is_url = "://" in target[0]
    if is_url and not URL_START.match(target[0]):
        raise QueryError(f"{target[0]}: a server's URL must begin with http:// or https://")
    entry: dict[str, Any] = {"url": target[0]} if is_url else {"command": target[0]}
    if (env if is_url else header) or (is_url and target[1:]):
        raise QueryError("a URL takes --header, a command takes --env and arguments")
    more = {"args": target[1:], "env": values, "headers": headers}
    entry |= {key: value for key, value in more.items() if value}
    held.write(held.with_servers({name: entry}))
    print_either({"file": str(config), "added": name}, f"{escape(name)} added", json=json)


def _header_of(text: str) -> tuple[str, str]:
    """Name and value of a header that is written as `Name: value`."""
    name, sign, value = (part.strip() for part in text.partition(":"))
    if not sign or not HEADER_NAME.fullmatch(name):
        # Not quoted: the text may be a secret.
        raise QueryError("write --header 'Name: value', with letters, digits and - in the name")
    return name, value


def remove_server(
    name: Annotated[str, typer.Argument(help="Name of the server.")],
    config: ConfigFile = Path("mcp.json"),
    json: Json = False,
) -> None:
    """Remove a server from an mcp.json."""
    held = ServerFile.read(config)
    held.require(name)
    held.write(held.with_servers({name: None}))
    print_either({"file": str(config), "removed": name}, f"{escape(name)} removed", json=json)


def list_servers(
    file: Annotated[
        Path | None, typer.Argument(help="The mcp.json, as for `toolcrib gateway run`.")
    ] = None,
    config: ConfigFile = Path("mcp.json"),
    json: Json = False,
) -> None:
    """List the servers of an mcp.json with command or host, and problems."""
    config = file or config
    source = Source.by_name(str(config))
    servers = find_servers(source)
    if servers is None:
        raise source.error(NO_SERVERS)
    found = listed_servers(servers, os.environ)
    rows = [(escape(s.name), escape(s.target), s.state, escape(s.problem)) for s in found]
    shown = partial(print_rows, rows, ("server", "reached by", "state", "problem"))
    print_either({"file": str(config), "servers": found}, shown, json=json)
