"""What only shows between tools: names that pass for another server's, orders for its tools."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from toolcrib.indexers.audit.characters import visible
from toolcrib.indexers.audit.characters import skeleton
from toolcrib.indexers.audit.findings import Finding, Severity
from toolcrib.indexers.audit.audit import audit
from toolcrib.indexers.audit.normalise import fold, plain
from toolcrib.indexers.audit.findings import Text, texts_of
from toolcrib.records import ToolSpec

__all__ = ["audit_all"]

MIN_NAME_CHARS = 6
"""Shorter names, and names of one word, stand in any sentence without meaning the tool."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+")
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S)|\n(?=[a-z]))+")

_SPEAKS_ILL = re.compile(
    r"\b(?:is|are|was|been|be) (?:\w+ )?(?:broken|unsafe|compromised|insecure|malicious|hacked"
    r"|infected)|\bno longer (?:safe|trusted|secure)|\bnot the one\b|\bofficial\b"
    r"|\bbounce otherwise|\bmust not be used|\bnever (?:use|call) it\b|\bin place of\b"
    r"|\bonly wastes\b"
)
_ARGUMENTS = (
    r"(?:recipients?|account|amount|payee|destination|path|parameters?|arguments?|statements?"
    r"|quer(?:y|ies)|b?cc|label|prefix|body|what it returns|answers?)"
)
_TAMPERS = re.compile(
    rf"\b{_ARGUMENTS}\b.{{0,80}}?\b(?:has to|have to|must|is to|are to|should be|shall|expects?"
    r"|always|multiplied|changed|replaced|whatever)\b"
    rf"|\b(?:set|change|replace|add|append|insert|expects?|always)\b.{{0,40}}?\b{_ARGUMENTS}\b"
)
_HANDS_ON = re.compile(
    r"\b(?:results?|outputs?|responses?|returns)\b.{0,60}?"
    r"\b(?:must|have to|has to|are to|is to|always)\b"
    r"|\bpass (?:its|the) (?:whole|entire|full|complete) (?:output|result|response)"
    r"|\bwhenever\b.{0,80}?\b(?:pass|hand|send|give|forward)\b"
)
_STEERS = re.compile(
    r"\b(?:must|always|never|whenever|has to|have to|do not (?:use|call)|don't (?:use|call)"
    r"|instead|replaces?|skip|in (?:its|their) place|not be used)\b"
)


def audit_all(specs: Iterable[ToolSpec], beside: Iterable[ToolSpec] = ()) -> list[Finding]:
    """What is wrong with each specification, and with all of them side by side.

    Those `beside` them are what else is there, such as the tools of other servers: nothing is
    said of them.
    """
    tools = list(specs)
    known = [*tools, *beside]
    findings = [finding for spec in tools for finding in audit(spec)]
    findings += _names_alike(tools, known)
    findings += _servers_alike(tools, known)
    findings += _about_others(tools, known)
    return findings


def _names_alike(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Tools of different servers whose names cannot be told apart by eye."""
    shapes: dict[str, list[ToolSpec]] = defaultdict(list)
    for spec in known:
        shapes[skeleton(spec.name)].append(spec)
    for spec in tools:
        others = [each for each in shapes[skeleton(spec.name)] if each.server != spec.server]
        if others:
            yield _name_alike(spec, others)


def _name_alike(spec: ToolSpec, others: list[ToolSpec]) -> Finding:
    other = next((each for each in others if each.name.lower() != spec.name.lower()), None)
    if other is None:
        why = f"the server {others[0].server!r} has a tool of this name too"
        return _finding("info", "same-name", spec, "name", spec.name, why)
    why = f"it is hard to tell from {other.name!r} of the server {other.server!r}"
    severity: Severity = "warning" if spec.name.isascii() else "block"
    return _finding(severity, "shadow-name", spec, "name", spec.name, why)


def _servers_alike(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Servers whose names cannot be told apart by eye; said once, of the first tool."""
    shapes: dict[str, set[str]] = defaultdict(set)
    for spec in known:
        shapes[skeleton(spec.server)].add(spec.server)
    first = {spec.server: spec for spec in reversed(tools)}
    for server, spec in first.items():
        others = sorted(shapes[skeleton(server)] - {server})
        if others and not server.isascii():
            why = f"the server's name is hard to tell from {others[0]!r}"
            yield _finding("block", "shadow-server", spec, "server", server, why)


def _about_others(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Texts that name a tool of another server and change how it is used."""
    owners: dict[str, set[str]] = defaultdict(set)
    for spec in known:
        if len(spec.name) >= MIN_NAME_CHARS and _IDENTIFIER.fullmatch(spec.name):
            owners[spec.name].add(spec.server)
    for spec in tools:
        texts = texts_of(spec)
        own = {text.text for text in texts if text.is_name} - {spec.name}
        for text in texts:
            if not text.is_name:
                yield from _steering(spec, text, owners, own)


def _steering(
    spec: ToolSpec, text: Text, owners: Mapping[str, set[str]], own: set[str]
) -> Iterator[Finding]:
    for name in dict.fromkeys(_IDENTIFIER.findall(text.text)):
        servers = owners.get(name, set()) - {spec.server}
        # What a server says of its own tools and parameters is its business, whoever else has
        # something of that name.
        if not servers or name in own or (spec.server in owners[name] and name != spec.name):
            continue
        clear = fold(plain(text.text))
        about = " ".join(each for each in _SENTENCE.findall(clear) if name in each).lower()
        severity = _severity(about, name, spec.name, servers)
        if severity:
            listed = ", ".join(sorted(map(repr, servers))[:3])
            why = f"it says how {name!r} of the server {listed} is to be used"
            yield _finding(severity, "cross-tool", spec, text.place, about, why)
            return


def _severity(about: str, name: str, own_name: str, servers: set[str]) -> Severity | None:
    """How bad what is said of another server's tool is; nothing where it is only mentioned."""
    if _SPEAKS_ILL.search(about) or _one_apart(name, own_name):
        return "block"
    named = any(server.lower() in about for server in servers if server)
    if name == own_name:
        return "block" if named and _STEERS.search(about) else None
    if _TAMPERS.search(about) or _HANDS_ON.search(about):
        return "block"
    return "warning" if _STEERS.search(about) else None


def _one_apart(name: str, other: str) -> bool:
    """Whether two names differ by one letter: one more, one less, or another."""
    if name == other or abs(len(name) - len(other)) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(name, other, strict=False)) if a != b), None)
    if start is None:
        return True
    longer, shorter = sorted((name[start:], other[start:]), key=len, reverse=True)
    return longer[1:] == (shorter if len(longer) > len(shorter) else shorter[1:])


def _finding(
    severity: Severity, rule: str, spec: ToolSpec, place: str, text: str, why: str
) -> Finding:
    return Finding(severity, rule, spec.id, place, visible(text), why)
