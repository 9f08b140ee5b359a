"""`toolcrib keys`, `approve`, `audit` and `store`: administration of a service."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from difflib import unified_diff
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import typer
from pydantic import ValidationError
from rich.markup import escape

from toolcrib import build
from toolcrib.access.keys import ALL_NAMESPACES, MAX_KEY_DAYS, MIN_KEY_DAYS, Grant, KeyRing
from toolcrib.access.quarantine import LockFile, Quarantine
from toolcrib.audit import audit_all, blocks
from toolcrib.cli.opening import (
    GATEWAY_STORE,
    gateway_store,
    remote_crib,
    require_store,
    service_of,
    use_logins,
)
from toolcrib.cli.options import (
    SOURCES_HELP,
    Json,
    Servers,
    StoreOption,
    Tags,
    Url,
    complete_collections,
    complete_held,
    complete_keys,
    read_tools,
    store_option,
)
from toolcrib.cli.output import (
    err,
    notes,
    out,
    print_either,
    print_json,
    print_refused,
    print_rows,
)
from toolcrib.cli.progress import WorkStep, show_steps
from toolcrib.clock import DAY_S
from toolcrib.errors import (
    QueryError,
    SettingsError,
    StoreError,
    ToolChangedError,
    did_you_mean,
    nearest,
)
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import SENSITIVITIES, Refusal, ToolSpec
from toolcrib.records.codec import as_json, faults, in_words
from toolcrib.records.reports import Finding, Held
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.settings import Settings, load_settings
from toolcrib.store.namespaced import check_name
from toolcrib.text import count_of

if TYPE_CHECKING:
    from toolcrib.store.qdrant_server import ServerStore
    from toolcrib.tenants import Tenants

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke the API keys of a service.")

Ceiling: TypeAlias = Annotated[
    str | None,
    typer.Option(
        autocompletion=lambda: list(SENSITIVITIES),
        help=f"Nothing above: {', '.join(SENSITIVITIES)}.",
    ),
]


@app.command("create")
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the key's owner, for lists.")],
    namespace: Annotated[
        list[str] | None,
        typer.Option(help="Allow this namespace, '*' all; default: default; may be repeated."),
    ] = None,
    server: Servers = None,
    tag: Tags = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            autocompletion=complete_collections, help="Allow only this collection; may be repeated."
        ),
    ] = None,
    max_sensitivity: Ceiling = None,
    write: Annotated[bool, typer.Option("--write", help="Allow writes too.")] = False,
    admin: Annotated[
        bool,
        typer.Option("--admin", help="Allow everything, keys and servers too, without limits."),
    ] = False,
    expires_days: Annotated[
        float | None,
        typer.Option(min=MIN_KEY_DAYS, max=MAX_KEY_DAYS, help="Days until it expires."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Most requests: LIMIT/second, LIMIT/minute or LIMIT/hour.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="At a gateway: its profile, one of gateway.profiles.")
    ] = None,
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Make a key; its text is shown only now, and stored nowhere."""
    given = {
        "namespaces": tuple(dict.fromkeys(namespace or (ALL_NAMESPACES,) * admin)),
        "servers": server,
        "tags": tag,
        "collections": collection,
        "max_sensitivity": max_sensitivity,
        "access": "admin" if admin else "write" if write else None,
        "rate": rate,
        "profile": profile,
    }
    if profile:
        load_settings(context.obj).gateway.profile(profile)
    grant = _grant({field: value for field, value in given.items() if value})
    expires_at = None if expires_days is None else time.time() + expires_days * DAY_S
    with _open_key_ring(context, store, makes=True) as (ring, location):
        key, text = ring.create(name, grant, expires_at)
    if json:
        print_json({"key": key.listing(time.time()), "text": text})
    else:
        err.print(f"key {key.id} for {escape(key.name)} in {escape(location)}, shown only now:")
        out.print(text)


@app.command("list")
def list_keys(context: typer.Context, store: StoreOption = None, json: Json = False) -> None:
    """List all keys, expired and revoked keys too, without their texts."""
    with _open_key_ring(context, store) as (ring, location):
        keys = [as_json(key.listing(time.time())) for key in ring.list()]
    print_either({"keys": keys}, partial(_print_keys, keys, location), json=json)


@app.command("revoke")
def revoke(
    context: typer.Context,
    key: Annotated[
        str,
        typer.Argument(
            autocompletion=complete_keys, help="The key's id, as `toolcrib keys list` shows it."
        ),
    ],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Revoke a key; running services refuse the key within two seconds."""
    # A user may paste the whole text of a key, which is secret and begins with the id.
    given, key = key, key.removeprefix("tc_").partition("_")[0]
    with _open_key_ring(context, store) as (ring, location):
        if not ring.revoke(key):
            named = [each.id for each in ring.list() if each.name == given]
            known = f", but {', '.join(named)} has this name" if named else ""
            shows = "`toolcrib keys list` shows the ids"
            raise QueryError(f"no key in {location} has the id {key!r}{known}; {shows}")
    print_either({"revoked": key}, f"{escape(key)} revoked", json=json)


@contextmanager
def _open_key_ring(
    context: typer.Context, store: str | None, *, makes: bool = False
) -> Generator[tuple[KeyRing, str]]:
    """The keys of a location, and the location; a running service does not lock its database."""
    settings = load_settings(context.obj)
    if store is not None and not makes:
        require_store(store)
    location = store or settings.store
    with closing(build.open_records_db(location, settings)) as records_db:
        yield KeyRing(records_db), location


def _grant(given: dict[str, Any]) -> Grant:
    try:
        return Grant.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        if not fault["loc"]:
            raise QueryError(f"--admin: {in_words(error, '')}") from error
        place = str(fault["loc"][0]).replace("_", "-").removesuffix("s")
        raise QueryError(f"--{place} {fault['input']!r}: {faults(error)[0][1]}") from error


def _print_keys(keys: list[dict[str, Any]], location: str) -> None:
    rows = [
        (
            key["id"],
            escape(key["name"]),
            key["state"] if key["state"] == "active" else f"[yellow]{key['state']}[/]",
            key["grant"]["access"],
            escape(", ".join(key["grant"]["namespaces"])),
            key["created_at"][:10],
            (key["expires_at"] or "never")[:10],
            escape(_limits(key["grant"])),
        )
        for key in keys
    ]
    names = ("key", "name", "state", "access", "namespaces", "made", "expires", "only")
    print_rows(rows, names)
    notes.print(f"[dim]{count_of(len(keys), 'key')} in {escape(location)}[/]")


def _limits(grant: dict[str, Any]) -> str:
    named = ("servers", "tags", "collections")
    parts = [f"{name}: {', '.join(grant[name])}" for name in named if grant[name] is not None]
    if grant["max_sensitivity"] is not None:
        parts.append(f"up to {grant['max_sensitivity']}")
    profile = grant["profile"] and f"profile {grant['profile']}"
    return "; ".join([*parts, *filter(None, [grant["rate"], profile])])


def approve(
    context: typer.Context,
    tools: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=complete_held, help="Ids of held tools; none: show all held tools."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All held tools.")] = False,
    digest: Annotated[
        list[str] | None,
        typer.Option(help="Digest that you reviewed; may be repeated. Default: a prompt asks."),
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="Show held tools; change none.")] = False,
    reject: Annotated[
        bool, typer.Option("--reject", help="Drop them; if they come again, they are held again.")
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option(help="Lock file to write approvals to; default: gateway.lock, if it exists."),
    ] = None,
    store: Annotated[
        str | None,
        store_option(
            f"Folder or Qdrant URL; default: {GATEWAY_STORE} if it exists, else the store."
        ),
    ] = None,
    url: Url = None,
    namespace: Annotated[
        str | None,
        typer.Option(help="Namespace; default: with --url the setting, else `default`."),
    ] = None,
    json: Json = False,
) -> None:
    """Show the tools that are held back, and approve those that you name.

    An approval names the digest of the text that you reviewed. A running gateway serves approved
    tools a moment later. A service serves them at once if you approve by --url or in the console;
    if you approve in its store, it serves them after the next indexing.
    """
    settings = load_settings(context.obj)
    service = service_of(settings, store, url)
    if service is not None and lock is not None:
        raise typer.BadParameter("a service has no lock file; name a --store", param_hint="--lock")
    with _held_review(settings, store, service, namespace) as review:
        if show or not (tools or everything):
            _show(review.held, json=json)
            return
        chosen = review.held if everything else _held_by_id(tools or [], review.held)
        if reject:
            for each in chosen:
                review.reject(each.tool_id)
        else:
            _require_reviewed(chosen, frozenset(digest or _typed_digests(chosen, json=json)))
            if service is None:
                _lock_approved(lock, settings, chosen, review.is_served)
            for each in chosen:
                review.approve(each)
    done = "rejected" if reject else "approved"
    text = f"{len(chosen)} {done}"
    if chosen and service is None and not reject:
        text += "; run `toolcrib index` again to have it found, a gateway needs nothing more"
    print_either({done: [each.tool_id for each in chosen]}, text, json=json)


@dataclass(frozen=True, slots=True)
class HeldReview:
    """Held tools, with the functions that approve a tool, and reject a tool by its id.

    `is_served` is True for a server with tools that are not held.
    """

    held: Sequence[Held]
    approve: Callable[[Held], None]
    reject: Callable[[str], None]
    is_served: Callable[[str], bool] = lambda _: False


@contextmanager
def _held_review(
    settings: Settings, store: str | None, service: str | None, namespace: str | None
) -> Generator[HeldReview]:
    if service is not None:
        named = {"namespace": namespace or settings.namespace}
        with remote_crib(service, settings.model_copy(update=named)) as crib:
            yield HeldReview(
                crib.held_tools(),
                lambda each: crib.approve_tool(each.tool_id, each.digest),
                crib.reject_tool,
            )
        return
    with closing(build.open_records_db(gateway_store(store, settings), settings)) as records_db:
        quarantine = Quarantine(records_db, check_name(namespace or DEFAULT_NAMESPACE))
        held = quarantine.list()
        ids = {each.tool_id for each in held}
        yield HeldReview(
            held,
            quarantine.release,
            quarantine.reject,
            lambda server: not ids.issuperset(quarantine.first_digests(server) or ()),
        )


def _held_by_id(ids: Sequence[str], held: Sequence[Held]) -> list[Held]:
    """The held tools with these ids; an error if an id is unknown."""
    known = {each.tool_id: each for each in held}
    for tool_id in ids:
        if tool_id not in known:
            hint = did_you_mean(nearest(tool_id, known))
            raise QueryError(f"no tool is held back under the id {tool_id!r}{hint}")
    return [known[tool_id] for tool_id in dict.fromkeys(ids)]


def _typed_digests(chosen: Sequence[Held], *, json: bool) -> Generator[str]:
    """Digests that the user types after each tool is shown."""
    for each in chosen:
        if json:
            raise _unreviewed_error(each)
        _print_held(each)
        err.print_json(each.spec.model_dump_json(exclude_defaults=True), ensure_ascii=True)
        asked, typed = "digest, to approve this version", ""
        with suppress(typer.Abort):
            # Without a default, an empty line would repeat the prompt.
            typed = typer.prompt(asked, default="", show_default=False, err=True).strip()
        if not typed:
            err.print()
            raise _unreviewed_error(each)
        yield typed


def _unreviewed_error(held: Held) -> QueryError:
    return QueryError(
        f"an approval needs the reviewed digest: show {held.tool_id!r} with --list, then give its "
        "digest with --digest"
    )


def _require_reviewed(chosen: Sequence[Held], digests: frozenset[str]) -> None:
    for each in chosen:
        if each.digest not in digests:
            raise ToolChangedError(
                f"{each.tool_id!r} is held with the digest {each.digest}, and the approval names "
                f"{', '.join(sorted(digests))}; review the tool again"
            )


def _lock_approved(
    lock: Path | None, settings: Settings, chosen: Sequence[Held], served: Callable[[str], bool]
) -> None:
    """Lock approved tools: in the named file, or in the default file if it locks their server."""
    file = LockFile(lock or Path(settings.gateway.lock))
    locked = file.read().keys()
    for server in sorted({each.server for each in chosen} - locked):
        if lock is not None and served(server):
            raise QueryError(
                f"{lock} does not lock {server!r} yet, and would hold back its other tools: start "
                f"the gateway once with --lock {lock}, or approve without --lock"
            )
    specs = [each.spec for each in chosen if lock is not None or each.server in locked]
    if specs:
        file.approve(specs)


def _show(held: Sequence[Held], *, json: bool) -> None:
    if json:
        print_json({"held": held})
        return
    for each in held:
        _print_held(each)
    out.print(f"{len(held)} held back" if held else "nothing is held back")


def _print_held(held: Held) -> None:
    out.print(f"[bold]{escape(held.tool_id)}[/]  [dim]{escape(held.reason)}[/]")
    out.print(f"[dim]digest[/] {held.digest}")
    if held.replaces is not None:
        old, new = (_spec_lines(each) for each in (held.replaces, held.spec))
        lines = islice(unified_diff(old, new, lineterm="", n=1), 2, None)
        for line in lines:
            out.print(escape(line), style={"-": "red", "+": "green"}.get(line[0], "dim"))
    print_findings(list(held.findings))


def _spec_lines(spec: ToolSpec) -> list[str]:
    return spec.model_dump_json(exclude_defaults=True, indent=2).splitlines()


FINDING_COLOURS = {"block": "red", "warning": "yellow", "info": "dim"}
"""Colours by severity, the worst first."""

MAX_FINDING_ROWS = 50
MAX_REASONS = 2


def audit(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help=SOURCES_HELP)],
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for any finding.")] = False,
    json: Json = False,
) -> None:
    """Find hidden text, orders to the model, requests for secrets, and imitated names in tools.

    Nothing is indexed. The exit code is 1 if a tool would be held back or could not be read.
    """
    use_logins(load_settings(context.obj))
    with show_steps("reading the sources") as tell:
        found = [item for _, item in read_tools(sources)]
        tools = [item for item in found if isinstance(item, ToolSpec)]
        refused = [item for item in found if isinstance(item, Refusal)]
        tell(WorkStep(f"auditing {count_of(len(tools), 'tool')}"))
        findings = audit_all(tools)
    if json:
        print_json({"tools": len(tools), "findings": findings, "refused": refused})
    else:
        print_findings(findings)
        _print_audit_summary(tools, findings, refused)
    # A tool that could not be read was not audited: the result is not clean.
    if blocks(findings) or refused or (strict and findings):
        raise typer.Exit(EXIT_NOT_CLEAN)


def print_findings(findings: list[Finding]) -> None:
    """Print a row for each text with findings, the worst first."""
    if not findings:
        return
    rows: list[tuple[str, ...]] = []
    for worst, *others in _by_text(findings):
        alike = [worst, *(each for each in others if each.severity == worst.severity)]
        rules = ", ".join(each.rule for each in (worst, *others))
        excerpts = dict.fromkeys(each.excerpt for each in alike)
        longest = [
            one for one in excerpts if not any(one in each for each in excerpts.keys() - {one})
        ]
        why = "; ".join(list(dict.fromkeys(each.why for each in alike))[:MAX_REASONS])
        cells = (worst.tool, worst.place, rules, " ... ".join(longest), why)
        severity = f"[{FINDING_COLOURS[worst.severity]}]{worst.severity}[/]"
        rows.append((severity, *map(escape, cells)))
    names = ("severity", "tool", "place", "rules", "found", "why")
    print_rows(rows, names, limit=MAX_FINDING_ROWS)


def _by_text(findings: list[Finding]) -> list[list[Finding]]:
    """Group findings by tool and place, the worst first in and among groups."""
    ranks = list(FINDING_COLOURS)
    groups: dict[tuple[str, str], list[Finding]] = defaultdict(list)
    for each in sorted(findings, key=lambda finding: ranks.index(finding.severity)):
        groups[each.tool, each.place].append(each)
    return list(groups.values())


def _print_audit_summary(
    tools: list[ToolSpec], findings: list[Finding], refused: list[Refusal]
) -> None:
    print_refused(refused)
    worst = Counter(group[0].severity for group in _by_text(findings))
    counted = ", ".join(f"{worst[name]} {name}" for name in FINDING_COLOURS if worst[name])
    unread = f"{len(refused)} could not be read" if refused else ""
    found = counted or ("" if refused else "nothing was found")
    text = ", ".join(filter(None, (found, unread)))
    out.print(f"{count_of(len(tools), 'tool')}: {text}")


# -- store ---------------------------------------------------------------------------------

store_app = typer.Typer(
    no_args_is_help=True, help="Prepare a Qdrant server; list and remove namespaces."
)


@store_app.command("namespaces")
def namespaces(context: typer.Context, store: StoreOption = None, json: Json = False) -> None:
    """List the namespaces, with the numbers of their tools and passages."""
    with _open_tenants(context, store) as tenants:
        cribs = [(name, tenants.crib(name)) for name in tenants.names()]
        found = [
            {"namespace": name, "tools": crib.info()[0].points, "passages": crib.knowledge.count()}
            for name, crib in cribs
        ]
    rows = [[str(value) for value in each.values()] for each in found]
    shown = partial(print_rows, rows, ("namespace",), ("tools", "passages"))
    print_either({"namespaces": found}, shown, json=json)


@store_app.command("remove")
def remove(
    context: typer.Context,
    namespace: Annotated[str, typer.Argument(help="Any namespace but the default one.")],
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Remove a namespace with everything that it holds, and revoke the keys for it alone."""
    with _open_tenants(context, store) as tenants:
        check_name(namespace)
        if namespace not in (known := tenants.names()) and not tenants.tables(namespace):
            meant = did_you_mean(nearest(namespace, known))
            raise QueryError(f"{tenants.location} has no namespace {namespace!r}{meant}")
        tenants.remove(namespace)
        ring = KeyRing(tenants.records_db)
        own = [key for key in ring.list() if key.grant.namespaces == (namespace,)]
        keys = [key.id for key in own if key.revoked_at is None and ring.revoke(key.id)]
    text = f"{escape(namespace)} removed, {count_of(len(keys), 'key')} revoked"
    print_either({"removed": namespace, "revoked": keys}, text, json=json)


@contextmanager
def _open_tenants(context: typer.Context, store: str | None) -> Generator[Tenants]:
    from toolcrib.tenants import Tenants

    settings = load_settings(context.obj)
    require_store(location := store or settings.store)
    with Tenants.open(location, settings=settings) as tenants:
        yield tenants


@store_app.command("init")
def init(
    context: typer.Context,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Shards; default: server.shards.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, help="Replicas; default: server.replicas.")
    ] = None,
    on_disk: Annotated[
        bool, typer.Option("--on-disk", help="Read vectors, graph and words from the disk.")
    ] = False,
    quantization: Annotated[
        Literal["int8", "none"] | None,
        typer.Option(help="Search int8 copies of the vectors, or none; default: int8."),
    ] = None,
    tenant_shard: Annotated[
        list[str] | None,
        typer.Option(help="Namespace with its own shard, while others share one; repeatable."),
    ] = None,
    store: StoreOption = None,
    json: Json = False,
) -> None:
    """Make the empty collections of tools and passages, for the default and other namespaces."""
    settings = load_settings(context.obj)
    location = store or settings.store
    if not build.is_url(location):
        raise SettingsError(f"{location} is a folder, which needs no init: name a Qdrant server")
    said = {
        "shards": shards,
        "replicas": replicas,
        "on_disk": on_disk or None,
        "quantization": quantization,
        "tenant_shards": tuple(sorted(tenant_shard)) if tenant_shard else None,
    }
    given = {name: value for name, value in said.items() if value is not None}
    server = settings.server.model_copy(update=given)
    found = _make_collections(location, settings.model_copy(update={"server": server}), given)
    rows = [[str(value) for value in each.values()] for each in found]
    figures = ("shards", "replicas", "on disk", "quantization", "tenant shards")
    shown = partial(print_rows, rows, ("collection",), figures)
    print_either({"collections": found}, shown, json=json)


def _make_collections(
    location: str, settings: Settings, given: dict[str, Any]
) -> list[dict[str, Any]]:
    from toolcrib.tenants import lazy_stores

    dense = build.make_dense(settings)
    made: list[dict[str, Any]] = []
    tenants = build.part_of(location, settings, build.TENANTS)
    for place, shared in (((location, settings), False), (tenants, True)):
        for lazy in lazy_stores(place, dense, shared=shared):
            was_there = lazy.exists
            with closing(lazy):
                opened = cast("ServerStore", lazy.open())
                plan = asdict(opened.plan())
                asked = given if shared else {**given, "tenant_shards": None}
                other = {n: plan[n] for n, value in asked.items() if plan[n] != value}
                if was_there and other:
                    kept = ", ".join(f"{name} {value}" for name, value in other.items())
                    raise StoreError(
                        f"the collection {opened.name!r} exists already, with {kept}: set "
                        "server.* in toolcrib.yaml and run `toolcrib index --rebuild`, which "
                        "builds a new collection and replaces the old one"
                    )
                made.append({"collection": opened.name, **plan})
    return made
