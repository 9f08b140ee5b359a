"""`toolcrib keys`, `approve`, `audit` and `doctor`: who may come in, and what is wrong."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from pydantic import ValidationError
from rich.markup import escape

from toolcrib import build
from toolcrib.access.keys import Grant, KeyRing
from toolcrib.access.lock_file import LockFile
from toolcrib.access.quarantine import Held, Quarantine
from toolcrib.cli.options import GATEWAY_STORE, Json, Servers, StoreOption, Tags
from toolcrib.cli.output import err, out, print_either, print_health, print_json, table_of
from toolcrib.crib import Crib
from toolcrib.errors import (
    CalibrationError,
    IndexMismatchError,
    MissingExtraError,
    QueryError,
    StoreDamagedError,
    StoreLockedError,
    StoreUnavailableError,
    StoreWriteError,
    ToolChangedError,
    ToolcribError,
    UnknownToolError,
    did_you_mean,
    nearest,
)
from toolcrib.indexers.audit import Finding, audit_all, blocks
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import SENSITIVITIES, Refusal, ToolSpec
from toolcrib.records.codec import as_json
from toolcrib.router.context.cues import load_cues
from toolcrib.router.context.labels import LabelSet, label_sets
from toolcrib.settings import Settings, load_settings
from toolcrib.store.namespaced import DEFAULT

__all__ = ["Health", "app", "approve", "audit", "doctor", "print_findings"]

DAY_S = 86_400
MAX_DAYS = 36_500

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service.")


Name: TypeAlias = Annotated[str, typer.Argument(help="Whose key it is, for people.")]
Spaces: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A namespace that it is for, '*' for all; default: default; repeatable."),
]
Collections: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Only this collection; may be repeated.")
]
Ceiling: TypeAlias = Annotated[
    str | None, typer.Option(help=f"Nothing above: {', '.join(SENSITIVITIES)}.")
]
Write: TypeAlias = Annotated[bool, typer.Option("--write", help="It may also write.")]
Days: TypeAlias = Annotated[
    float | None, typer.Option(min=0.001, max=MAX_DAYS, help="Holds for so many days.")
]
Rate: TypeAlias = Annotated[
    str | None, typer.Option(help="What it may ask: LIMIT/second, /minute or /hour.")
]


@app.command("create")
def create(
    context: typer.Context,
    name: Name,
    namespace: Spaces = None,
    server: Servers = None,
    tag: Tags = None,
    collection: Collections = None,
    max_sensitivity: Ceiling = None,
    write: Write = False,
    expires_days: Days = None,
    rate: Rate = None,
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Make a key; its text is shown this once and kept nowhere."""
    given = {
        "namespaces": _unique(namespace),
        "servers": server,
        "tags": tag,
        "collections": collection,
        "max_sensitivity": max_sensitivity,
        "access": "write" if write else None,
        "rate": rate,
    }
    grant = _grant({field: value for field, value in given.items() if value})
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    with _ring(context, store) as ring:
        key, text = ring.create(name, grant, expires_at)
    if json:
        print_json({"key": key.as_dict(time.time()), "text": text})
    else:
        err.print(f"key {key.id} for {escape(key.name)}; it is shown this once:", soft_wrap=True)
        out.print(text, soft_wrap=True)


@app.command("list")
def list_keys(context: typer.Context, store: StoreOption = None, json: Json = False) -> None:
    """List all keys, those that no longer hold too; never their texts."""
    with _ring(context, store) as ring:
        keys = [key.as_dict(time.time()) for key in ring.list()]
    if json:
        print_json({"keys": keys})
    else:
        _print_keys(keys)


@app.command("revoke")
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key's id, as `toolcrib keys list` shows it.")],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Let a key hold no longer; services that run turn it away within two seconds."""
    with _ring(context, store) as ring:
        if not ring.revoke(key):
            raise QueryError(f"no key has the id {key!r}; `toolcrib keys list` shows all")
    print_either({"revoked": key}, f"{escape(key)} revoked", json=json)


@contextmanager
def _ring(context: typer.Context, store: str | None) -> Generator[KeyRing]:
    """The keys of a location: its records database alone, which a running service does not hold."""
    settings = load_settings(context.obj)
    with closing(build.open_records_db(store or settings.store, settings)) as records_db:
        yield KeyRing(records_db)


def _grant(given: dict[str, Any]) -> Grant:
    try:
        return Grant.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        place = str(fault["loc"][0]).replace("_", "-").removesuffix("s")
        raise QueryError(f"--{place} {fault['input']!r}: {fault['msg']}") from error


def _unique(values: list[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values or ()))


def _print_keys(keys: list[dict[str, Any]]) -> None:
    table = table_of()
    for column in ("key", "name", "state", "access", "namespaces", "made", "expires", "only"):
        table.add_column(column, overflow="fold")
    for key in keys:
        grant, is_active = key["grant"], key["state"] == "active"
        table.add_row(
            key["id"],
            escape(key["name"]),
            key["state"] if is_active else f"[yellow]{key['state']}[/]",
            grant["access"],
            escape(", ".join(grant["namespaces"])),
            key["created_at"][:10],
            (key["expires_at"] or "never")[:10],
            escape(_limits(grant)),
        )
    out.print(table)
    out.print(f"[dim]{len(keys)} keys[/]")


def _limits(grant: dict[str, Any]) -> str:
    """What narrows a key, in a few words."""
    named = ("servers", "tags", "collections")
    parts = [f"{name}: {', '.join(grant[name])}" for name in named if grant[name] is not None]
    if grant["max_sensitivity"] is not None:
        parts.append(f"up to {grant['max_sensitivity']}")
    return "; ".join([*parts, *filter(None, [grant["rate"]])])


def approve(
    context: typer.Context,
    tools: Annotated[
        list[str] | None, typer.Argument(help="Ids of held tools; none: show what is held.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is held.")] = False,
    digest: Annotated[
        list[str] | None,
        typer.Option(help="A digest that you saw; may be repeated. Without any you are asked."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Show what is held; change nothing.")
    ] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Forget them instead; they are judged again.")
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option(help="File of approved tools to write to; default: gateway.lock, if there."),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help=f"Folder or Qdrant URL; default: {GATEWAY_STORE} if there, else the store."
        ),
    ] = None,
    namespace: Annotated[str, typer.Option(help="Of a service.")] = DEFAULT,
    json: Json = False,
) -> None:
    """Show the tools that are held back, and approve those that you name.

    An approval is of one digest: that of the text as you saw it. A running gateway serves them a
    moment later. A service serves them when they are sent again; approved in its console or over
    HTTP, at once.
    """
    settings = load_settings(context.obj)
    with closing(build.open_records_db(_place(store, settings), settings)) as records_db:
        quarantine = Quarantine(records_db, namespace)
        held = quarantine.list()
        if show or not (tools or everything):
            _show(held, json=json)
            return
        chosen = held if everything else _named(tools or [], held)
        if reject:
            for each in chosen:
                quarantine.reject(each.tool_id)
        else:
            _require_seen(chosen, frozenset(digest or _asked(chosen, json=json)))
            _write(lock, settings, chosen)
            for each in chosen:
                quarantine.release(each)
    done = "rejected" if reject else "approved"
    print_either({done: [each.tool_id for each in chosen]}, f"{len(chosen)} {done}", json=json)


def _place(store: str | None, settings: Settings) -> str:
    if store is not None:
        return store
    return GATEWAY_STORE if Path(GATEWAY_STORE).is_dir() else settings.store


def _named(ids: Sequence[str], held: Sequence[Held]) -> list[Held]:
    """The held tools of these ids; none is touched where one is unknown."""
    known = {each.tool_id: each for each in held}
    for tool_id in ids:
        if tool_id not in known:
            raise UnknownToolError(tool_id, tuple(get_close_matches(tool_id, known, n=3)))
    return [known[tool_id] for tool_id in dict.fromkeys(ids)]


def _asked(chosen: Sequence[Held], *, json: bool) -> Generator[str]:
    """The digests of these tools, as whoever is shown them types them."""
    for each in chosen:
        if json:
            raise _unseen(each)
        _print_held(each)
        err.print_json(each.spec.model_dump_json(exclude_defaults=True), ensure_ascii=True)
        try:
            yield str(typer.prompt("digest, to approve it as it stands here", err=True)).strip()
        except typer.Abort:
            raise _unseen(each) from None


def _unseen(held: Held) -> QueryError:
    return QueryError(
        f"an approval names the digest that was seen: look at {held.tool_id!r} with --list, then "
        "give its digest with --digest"
    )


def _require_seen(chosen: Sequence[Held], digests: frozenset[str]) -> None:
    """See that each of these tools is what was seen.

    Raises:
        ToolChangedError: one of them has another digest by now.
    """
    for each in chosen:
        if each.digest not in digests:
            raise ToolChangedError(
                f"{each.tool_id!r} is held with the digest {each.digest}, and the approval names "
                f"{', '.join(sorted(digests))}; look at it again"
            )


def _write(lock: Path | None, settings: Settings, chosen: Sequence[Held]) -> None:
    """Lock what was approved: in the file that was named, or where its server is locked already."""
    file = LockFile(lock or Path(settings.gateway.lock))
    locked = file.servers()
    specs = [each.spec for each in chosen if lock is not None or each.server in locked]
    if specs:
        file.approve(specs)


def _show(held: Sequence[Held], *, json: bool) -> None:
    if json:
        print_json({"held": [as_json(each) for each in held]})
        return
    for each in held:
        _print_held(each)
    out.print(f"{len(held)} held back" if held else "nothing is held back")


def _print_held(held: Held) -> None:
    out.print(f"[bold]{escape(held.tool_id)}[/]  [dim]{escape(held.reason)}[/]", soft_wrap=True)
    out.print(f"[dim]digest[/] {held.digest}")
    print_findings(list(held.findings))


COLOURS = {"block": "red", "warning": "yellow", "info": "dim"}
"""The severities, the worst first."""

MAX_SHOWN = 50


def audit(
    sources: Annotated[
        list[str],
        typer.Argument(help="Files, folders, module:attribute, MCP server URLs, stdio:COMMAND."),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 when anything at all was found.")
    ] = False,
    json: Json = False,
) -> None:
    """Look for hidden text, orders to the model, requests for secrets and borrowed names.

    Nothing is indexed. The exit code is 1 when a tool would be held back.
    """
    found = [item for source in sources for _, item in tool_entries(source, None, None)]
    tools = [item for item in found if isinstance(item, ToolSpec)]
    refused = [item for item in found if isinstance(item, Refusal)]
    findings = audit_all(tools)
    if json:
        shown = [as_json(finding) for finding in findings]
        unread = [{"source": r.source, "place": r.place, "reason": r.reason} for r in refused]
        print_json({"tools": len(tools), "findings": shown, "refused": unread})
    else:
        print_findings(findings)
        _say(tools, findings, refused)
    if blocks(findings) or (strict and findings) or not tools:
        raise typer.Exit(EXIT_NOT_CLEAN)


def print_findings(findings: list[Finding]) -> None:
    """A row a finding, the worst first: how bad, which tool, where, what stands there, and why."""
    if not findings:
        return
    ranks = list(COLOURS)
    ordered = sorted(findings, key=lambda finding: ranks.index(finding.severity))
    table = table_of()
    for column in ("severity", "tool", "place", "found", "why"):
        table.add_column(column, overflow="fold")
    for each in ordered[:MAX_SHOWN]:
        severity = f"[{COLOURS[each.severity]}]{each.severity}[/]"
        texts = map(escape, (each.tool, each.place, each.excerpt, each.why))
        table.add_row(severity, *texts)
    out.print(table)
    if len(ordered) > MAX_SHOWN:
        out.print(f"... and {len(ordered) - MAX_SHOWN} more; --json lists all")


def _say(tools: list[ToolSpec], findings: list[Finding], refused: list[Refusal]) -> None:
    for refusal in refused:
        where = f"{refusal.source}: {refusal.place}" if refusal.place else refusal.source
        err.print(f"[yellow]cannot be read[/] {escape(where)}: {escape(refusal.reason)}")
    worst = Counter(finding.severity for finding in findings)
    counted = ", ".join(f"{worst[name]} {name}" for name in COLOURS if worst[name])
    out.print(f"{len(tools):,} tools: {counted or 'nothing was found'}")


REMAKE = "toolcrib index SOURCE... --store NEW_FOLDER"

PACKAGES = ("toolcrib", "qdrant-edge-py", "onnxruntime", "tokenizers", "numpy", "pydantic")
EXTRAS = ("mcp", "qdrant-client", "fastembed", "sentence-transformers", "langchain-core")


@dataclass(slots=True)
class Health:
    """What was found: facts by section, and problems, each with what mends it."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    problems: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def problem(self, what: str, mend: str) -> None:
        """Note something wrong."""
        self.problems.append({"what": what, "mend": mend})


def doctor(
    context: typer.Context,
    store: StoreOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Encode all anew, and compare it with what is stored.")
    ] = False,
    json: Json = False,
) -> None:
    """Check engine, models and index, and say what is wrong; exits with 1 when something is."""
    health = Health()
    health.facts["versions"] = {"python": platform.python_version(), **_versions()}
    try:
        settings = load_settings(context.obj)
    except ToolcribError as error:
        health.problem(str(error), "correct toolcrib.yaml or the variable")
    else:
        if usable := _check_models(settings, health):
            _check_index(store or settings.store, usable, health, deep=deep)
    if json:
        print_json({"healthy": not health.problems, "problems": health.problems, **health.facts})
    else:
        print_health(health.facts, health.problems)
    if health.problems:
        raise typer.Exit(EXIT_NOT_CLEAN)


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in (*PACKAGES, *EXTRAS):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _check_models(settings: Settings, health: Health) -> Settings | None:
    """What to look at the index with: no reranker that fails; None where the encoder does."""
    facts: dict[str, Any] = {"dense": settings.encoder.dense, "reranker": settings.encoder.reranker}
    health.facts["models"] = facts
    try:
        dense = build.make_dense(settings)
        dense.encode_query("is this model usable?")
        facts |= {"dense": dense.name, "dimensions": dense.dimensions}
    except ToolcribError as error:
        health.problem(str(error), _mending_model(error, "encoder.dense: bundled"))
        return None
    try:
        reranker = build.make_reranker(settings)
        if reranker is not None:
            reranker.score("is this model usable?", ["yes"])
            facts["reranker"] = reranker.name
    except ToolcribError as error:
        health.problem(str(error), _mending_model(error, "encoder.reranker: null"))
        encoder = settings.encoder.model_copy(update={"reranker": None})
        return settings.model_copy(update={"encoder": encoder})
    return settings


def _mending_model(error: ToolcribError, without: str) -> str:
    extra = isinstance(error, MissingExtraError) and f"pip install 'toolcrib[{error.extra}]'"
    return f"{extra or 'name a model that is there'}, or set {without}"


def _check_calibration(crib: Crib, health: Health) -> None:
    facts: dict[str, Any] = {"calibration": "none for these models and settings"}
    health.facts["confidence"] = facts
    try:
        found = crib.tools.calibration()
    except CalibrationError as error:
        health.problem(str(error), "toolcrib calibrate --queries FILE, or --reset")
        return
    if found is not None:
        facts |= {
            "calibration": found.method,
            "queries": found.queries,
            "threshold": found.threshold,
            "expected calibration error": round(found.figures.ece, 4),
            "head": found.head is not None,
        }


def _check_knowledge(crib: Crib, health: Health) -> None:
    known = crib.knowledge
    passages = {each.name: known.count(each.name) for each in known.catalogue.collections}
    if passages:
        health.facts["library"] = {"collections": passages, "passages": known.count()}
    for name in (name for name, count in passages.items() if not count):
        health.problem(
            f"the collection {name!r} holds no passages",
            f"toolcrib index-docs PATH... --collection {name}",
        )


def _check_settings(crib: Crib, settings: Settings, health: Health) -> None:
    """What settings were accepted, and name something that is not there."""
    tools, known, names = settings.tools, crib.knowledge.catalogue, crib.knowledge.catalogue.names
    servers = crib.facets().servers
    for name in sorted((tools.servers or frozenset[str]()) - servers.keys()):
        hint = did_you_mean(nearest(name, servers))
        health.problem(
            f"tools.servers allows {name!r}, of which the index holds no tool{hint}",
            f"index the tools of {name}, or correct tools.servers",
        )
    _check_fallback(crib, settings, health)
    for entry in settings.knowledge.map:
        for name in entry.collections:
            if name not in names:
                health.problem(
                    f"knowledge.map names a collection {name!r}, which does not exist"
                    f"{did_you_mean(nearest(name, names))}",
                    f"toolcrib index-docs PATH... --collection {name}, or correct knowledge.map",
                )
    try:
        sets = label_sets({name: Path(file) for name, file in settings.context.labels.items()})
        load_cues(Path(settings.context.cues) if settings.context.cues else None)
    except ToolcribError as error:
        health.problem(str(error), "correct that file, or take it out of the settings (context)")
        return
    pairs = [("knowledge.map", (each.domain, each.intent)) for each in settings.knowledge.map]
    pairs += [(f"the collection {c.name!r}", pair) for c in known.collections for pair in c.answers]
    for where, pair in dict.fromkeys(pairs):
        _check_pair(where, pair, sets, health)
    own = settings.context.labels or settings.context.cues
    if own and not crib.turns.has_fitted_labels():
        what = "the labels or cues of the settings are not fitted yet: first turns wait for that"
        health.problem(what, "toolcrib calibrate --labels")


def _check_fallback(crib: Crib, settings: Settings, health: Health) -> None:
    fallback, mend = settings.gate.fallback, "index that tool, or name another in gate.fallback"
    try:
        if fallback is not None and not crib.get_tool(fallback).enabled:
            health.problem(f"gate.fallback: the tool {fallback!r} is disabled", mend)
    except UnknownToolError as error:
        health.problem(f"gate.fallback: {error}", mend)


def _check_pair(
    where: str, pair: tuple[str, str], sets: Mapping[str, LabelSet], health: Health
) -> None:
    """See that a rule's domain and intent are labels that a turn can have."""
    for name, label in zip(("domain", "intent"), pair, strict=True):
        labels = sets[name].labels
        known = {*labels, *(alias for each in labels.values() for alias in each.aliases)}
        if label not in known:
            health.problem(
                f"{where} speaks of the {name} {label!r}, which no turn can have"
                f"{did_you_mean(nearest(label, known))}",
                f"use one of {', '.join(labels)}, or add it to context.labels.{name}",
            )


MENDING: dict[type[ToolcribError], str] = {
    StoreLockedError: "stop the other process, or name another folder with --store",
    StoreUnavailableError: "start the Qdrant server, or correct `store` and `server.api_key`",
    StoreDamagedError: REMAKE,
    StoreWriteError: "make room on the disk, and see that the folder may be written to",
    IndexMismatchError: "toolcrib index --rebuild",
}


def _check_faults(crib: Crib, health: Health) -> None:
    for kind, found, mend in (
        ("tool", crib.tools.faults(), REMAKE),
        ("passage", crib.knowledge.faults(), "toolcrib index-docs PATH... --store NEW_FOLDER"),
    ):
        faults = list(found)
        for name, why in faults[:MAX_SHOWN]:
            health.problem(f"the {kind} {name!r}: {why}", mend)
        if len(faults) > MAX_SHOWN:
            health.problem(f"{len(faults) - MAX_SHOWN} more of them: {kind}", mend)


def _check_index(location: str, settings: Settings, health: Health, *, deep: bool) -> None:
    health.facts["index"] = {"location": location}
    if not build.has_index(location):
        health.problem(f"there is no index in {location}", "toolcrib index SOURCE...")
        return
    try:
        with Crib.open(location, settings=settings) as crib:
            info, identity = crib.info()
            if not health.problems:
                _check_calibration(crib, health)
            _check_knowledge(crib, health)
            _check_settings(crib, settings, health)
            if deep:
                _check_faults(crib, health)
    except ToolcribError as error:
        kinds = (mend for kind, mend in MENDING.items() if isinstance(error, kind))
        health.problem(str(error), next(kinds, "correct what it names, then look again"))
        return
    health.facts["index"] |= {
        "engine": info.engine,
        "tools": info.points,
        "optimised": info.optimised,
        "identity": identity,
    }
    if not info.points:
        health.problem(f"the index in {location} is empty", "toolcrib index SOURCE...")
    elif not info.optimised:
        health.problem("the graph is not built yet, so searches are slower", "toolcrib index")
