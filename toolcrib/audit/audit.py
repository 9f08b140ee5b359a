"""Audit of tools: applies all rules to one specification, and compares several specifications."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from toolcrib.audit.characters import SUSPECT, hidden_signs, skeleton, visible
from toolcrib.audit.classifier import (
    AUDITED_KINDS,
    StatementKind,
    shipped_classifier,
    statements,
)
from toolcrib.audit.findings import (
    MAX_AUDITED_CHARS,
    SEVERITIES,
    Finding,
    Severity,
    Sign,
    ToolText,
    is_too_long,
    texts_of,
)
from toolcrib.audit.normalise import (
    SEPARATOR,
    decodings,
    fold,
    hidden_markup,
    may_be_encoded,
    normalise,
    words_of,
)
from toolcrib.audit.rules import signs_in
from toolcrib.caches import BoundedMap
from toolcrib.records import ToolSpec
from toolcrib.text import LETTERS_OR_DIGITS

# -- one specification -----------------------------------------------------------------------------

_INSTRUCTS_MODEL = re.compile(
    r"\b(?:model|assistant|agent|llm|ai|gpt|claude)s?\b.{0,60}\b(?:must|should|shall|call|read|put"
    r"|pass|send|attach|give|hand|include|never|always|do not)\b"
    r"|\b(?:you|always) (?:must|should|call|read|pass|send|include|attach)\b"
)
"""Wording of a comment for a model; authors' notes to themselves are worded otherwise."""

HARMLESS_ALONE = frozenset({"authority", "conduct"})
"""Groups whose warnings do not strengthen each other: orders to the model, and secrecy."""


def audit(spec: ToolSpec) -> list[Finding]:
    """Audit one specification; findings come the worst first."""
    texts = texts_of(spec)
    topic = f"{words_of(spec.server)} {words_of(spec.name)} {spec.category}".lower()
    found = _phrase_signs(texts, topic)
    quotes = _DETECTS_ATTACKS.search(topic) or any(
        sign.severity == "warning" and not sign.group for _, sign in found
    )
    # Nearly all tools have no text for the three checks that follow.
    everything = SEPARATOR.join(text.text.replace(SEPARATOR, "\x01") for text in texts)
    if SUSPECT.search(everything):
        found += ((t, sign) for t in texts for sign in hidden_signs(t.text, is_name=t.is_name))
    if may_be_encoded(everything):
        order = any(sign.rule == DECODE_RUN and sign.group for _, sign in found)
        found += (
            (t, sign) for t in texts for sign in _encoded_signs(t.text, topic, has_order=order)
        )
    if "<" in everything or "]:" in everything:
        found += ((text, sign) for text in texts for sign in _hidden_markup_signs(text.text, topic))
    found += _statement_signs(texts, topic, quotes=bool(quotes))
    found += _parameter_signs(spec, texts)
    # The worst finding for each rule and place.
    worst: dict[tuple[str, str], Finding] = {}
    by_severity = sorted(_strengthen(found), key=lambda one: -SEVERITIES.index(one[1].severity))
    for text, sign in by_severity:
        worst.setdefault(
            (sign.rule, text.place),
            Finding(sign.severity, sign.rule, spec.id, text.place, sign.excerpt, sign.why),
        )
    if len(everything) >= MAX_AUDITED_CHARS and is_too_long(spec):
        why = f"its texts have more than {MAX_AUDITED_CHARS:,} characters; the rest was not read"
        worst["too-long", ""] = Finding("block", "too-long", spec.id, "", "", why)
    return list(worst.values())


_MAX_CLEAN_CHARS = 2_000_000

_CLEAN_TEXTS: BoundedMap[tuple[str, bool], None] = BoundedMap(
    _MAX_CLEAN_CHARS, lambda key, _: len(key[0])
)
"""Texts without a sign, as the tools of one API share most texts of their schemas."""


def _phrase_signs(texts: list[ToolText], topic: str) -> list[tuple[ToolText, Sign]]:
    unknown = [text for text in texts if (text.text, text.is_name) not in _CLEAN_TEXTS]
    joined = SEPARATOR.join(
        words_of(text.text) if text.is_name else text.text.replace(SEPARATOR, " ")
        for text in unknown
    )
    names = [text.is_name for text in unknown]
    found = [(unknown[number], sign) for number, sign in _word_signs(joined, topic, names)]
    if not found:
        _CLEAN_TEXTS.update({(text.text, text.is_name): None for text in unknown})
    return found


def _word_signs(
    texts: str, topic: str, names: list[bool], suspicion: float | None = None
) -> Iterator[tuple[int, Sign]]:
    """Find phrases in texts, also after look-alike letters are replaced by English letters."""
    clear = f"{SEPARATOR}{normalise(texts)}{SEPARATOR}"
    for shown in dict.fromkeys((fold(clear), clear)):
        low = shown.lower()
        cased = shown if len(shown) == len(low) else low
        yield from signs_in(low, cased, topic, names, suspicion)


_DETECTS_ATTACKS = re.compile(
    r"attack|threat|inject|jailbreak|malware|phish|poison|red.?team|firewall|moderat"
)
"""Names of tools whose texts name attacks."""

REASON_BY_KIND: dict[StatementKind, str] = {
    "instruction": "it instructs the reader beyond the use of this tool",
    "preference": "it demands to be chosen over other tools",
    "harvest": "it requests data that the tool does not need",
}


CERTAIN_SUSPICION = 8.0
"""Log odds above the classifier's threshold from which it blocks by itself."""


def _statement_signs(
    texts: list[ToolText], topic: str, *, quotes: bool
) -> Iterator[tuple[ToolText, Sign]]:
    """Signs of the classifier and of joined rules; mere warnings if a tool `quotes` attacks."""
    said = list(statements(texts))
    classifier = shipped_classifier()
    odds = classifier.judge(said)
    suspicions = np.logaddexp.reduce(odds, axis=1) - classifier.warns
    for number in np.flatnonzero(suspicions >= 0):
        statement, kind = said[number], AUDITED_KINDS[1 + int(odds[number].argmax())]
        shown = statement.sentence or statement.parameter
        place = ToolText(statement.place, shown)
        # Praise is never certain: "There is no other tool for it" may be a fact.
        is_certain = suspicions[number] >= CERTAIN_SUSPICION and kind != "preference"
        severity: Severity = "block" if is_certain and not quotes else "warning"
        yield place, Sign(kind, severity, visible(shown), REASON_BY_KIND[kind], "statement")
        passage = statement.passage.replace(SEPARATOR, " ")
        if not quotes:
            joined = _word_signs(passage, topic, [False], float(suspicions[number]))
            yield from ((place, sign) for _, sign in joined if sign.severity == "warning")


_SECRETS = r"(?:api keys?|tokens?|credentials|passwords|secrets)"
_PRIVATE_DATA_PATTERNS = {
    "the model's name": (
        r"\b(?:llm|(?:ai|language) models?)\b.{0,40}\b(?:name|version|identifi\w+|vendor)\b"
        r"|\b(?:name|version|identif\w+)\b.{0,30}\b(?:(?:llm|model|assistant|agent)\b.{0,20}"
        r"\b(?:call\w*|using|you|version)\b|llm\b|language model\b|your model\b)"
    ),
    "its instructions": (
        r"\b(?:system|developer|initial|original|hidden|full|llm) (?:prompt|message|instr\w+)s?\b"
        r"|\binstructions? (?:that )?(?:you|given|were)\b"
        r"|\byour (?:\w+ )?(?:instructions|prompt|guidelines|system message)\b"
    ),
    "the conversation": (
        r"\b(?:conversation|chat|dialogu?e?|tool call) (?:history|log|transcript|so far|context)\b"
        r"|\b(?:previous|earlier|prior|past|all|full|entire|whole|complete)\b.{0,25}"
        r"\b(?:messages|conversation|chat|dialog(?:ue)?|transcript|turns|tool calls)\b"
        r"|\bcontext window\b(?! (?:usage|use|size|length|limits?|space)\b)"
    ),
    "its reasoning": (
        r"\bchain of thoughts?\b|\breasoning (?:that|which) led\b|\b(?:agent|stored) memor\w+"
        r"|\byour (?:\w+ )?(?:reasoning|thoughts?|thinking|rationale)\b"
    ),
    "its other tools": (
        r"\b(?:list|names?|inventory|all|other)\b.{0,25}\b(?:tools|functions|plugins|mcp servers)\b"
        r".{0,50}\b(?:available|you|your|client|model|agent|configured|connected)\b"
    ),
    "the machine's settings": (
        r"\benvironment variables?\b.{0,40}\b(?:client|host|user|process|agent|all|session)\b"
        r"|\b(?:client|agent|mcp) config\w*\b.{0,40}\b(?:client|agent|mcp)\b"
    ),
    "secrets or a person's data": (
        r"\beverything (?:you|that is|that you)?.{0,10}\bknown? (?:about|of) the (?:user|person)\b"
        rf"|\b(?:any|all)\b.{{0,20}}\b{_SECRETS}\b.{{0,40}}"
        r"\b(?:known|session|conversation|environment)\b"
        rf"|\b{_SECRETS}\b.{{0,40}}\b(?:for|of) other (?:services|servers|tools)\b"
    ),
}
PRIVATE_DATA = {what: re.compile(regex) for what, regex in _PRIVATE_DATA_PATTERNS.items()}
"""Private data of a model, a client or a user; a parameter that asks for it leaks it."""

HONEST_TOPICS = re.compile(
    r"llm|gpt|claude|gemini|openai|anthropic|chat|convers|prompt|assistant|agent|model|completion"
    r"|messag|memory|think|reason|dialog|slack|discord|telegram|session|thread|mcp|tool|\bbot|\benv"
    r"|deploy|config|instruct|inbox|\bcall|\bai\b"
)
"""Topics of tools that ask for such data honestly."""


def _parameter_signs(spec: ToolSpec, texts: list[ToolText]) -> Iterator[tuple[ToolText, Sign]]:
    """Find parameters that ask for private data, in tools that do not need it."""
    about = f"{words_of(spec.server)} {words_of(spec.name)} {spec.category} {spec.description}"
    if HONEST_TOPICS.search(about.lower()):
        return
    names = {text.place: text for text in texts if text.is_property}
    for text in texts:
        owner = names.get(text.place.removesuffix(".description"))
        if owner is not None and text.place.startswith("input_schema"):
            said = "" if text is owner else normalise(text.text)
            asked = f"{words_of(owner.text)} {said}".lower()
            for what, pattern in PRIVATE_DATA.items():
                if pattern.search(asked):
                    shown, why = visible(said or owner.text), f"it asks for {what}"
                    yield text, Sign("context/parameter", "warning", shown, why, "harvest")


DECODE_RUN = "role/decode-run"
"""Rule about the order to decode and run something; with it, any encoded text is a sign."""


def _encoded_signs(text: str, topic: str, *, has_order: bool) -> Iterator[Sign]:
    """Find signs in decoded texts; the encoded text itself if the tool `has_order` to decode it."""
    for kind, said in decodings(text):
        if has_order:
            why = f"it has a text in {kind}, and the order to decode it"
            yield Sign("encoded/text", "warning", visible(said[:120]), why, "encoded")
        for _, sign in _word_signs(said.replace(SEPARATOR, " "), topic, [False]):
            if sign.severity != "info":
                why = f"{sign.why}; it is written in {kind}, which hides it from people"
                yield Sign(f"encoded/{sign.rule}", "block", sign.excerpt, why)


def _hidden_markup_signs(text: str, topic: str) -> Iterator[Sign]:
    for kind, part, start in hidden_markup(text):
        said = part.replace(SEPARATOR, " ")
        directs = _INSTRUCTS_MODEL.search(normalise(said).lower()) is not None or any(
            sign.severity != "info" for _, sign in _word_signs(said, topic, [False])
        )
        shown = visible(text[max(0, start - 20) : start + 160])
        if kind == "element" or directs:
            why = f"a hidden {kind} holds text that no page shows"
            why += " and that speaks to the model" if directs else ""
            yield Sign("hidden-markup", "block", shown, why)
        else:
            yield Sign("hidden-markup", "info", shown, "a comment, which no page shows")


def _strengthen(found: list[tuple[ToolText, Sign]]) -> Iterator[tuple[ToolText, Sign]]:
    """Turn warnings of rules into blocking findings if there are warnings of two groups.

    In a skill, each text is judged by itself, since skills are meant to instruct.
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for text, sign in found:
        if sign.group and sign.severity != "info":
            groups[_strengthening_unit(text)].add(sign.group)
    for text, sign in found:
        together = groups[_strengthening_unit(text)]
        if sign.severity != "warning" or not sign.group or sign.rule in REASON_BY_KIND:
            yield text, sign
        elif len(together) > 1 and not together <= HARMLESS_ALONE:
            yield text, replace(sign, severity="block", why=f"{sign.why}, beside other signs")
        else:
            yield text, replace(sign, severity="info") if _strengthening_unit(text) else sign


def _strengthening_unit(text: ToolText) -> str:
    """Unit in which signs strengthen each other: a text of a skill, else the whole tool."""
    return text.place if text.place.startswith("skill.") else ""


# -- between tools ---------------------------------------------------------------------------------

_MIN_COMPARED_NAME_CHARS = 6
"""Shorter names, and names of one word, may occur in a sentence without meaning the tool."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9]+(?:[_.-][A-Za-z0-9]+)*")
_COMPOUND = re.compile(
    r"\A(?:[A-Za-z][A-Za-z0-9]*(?:[_.-][A-Za-z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+)\Z"
)
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?=\S)|\n(?=[a-z]))+")

_DISPARAGES = re.compile(
    r"\b(?:is|are|was|been|be) (?:\w+ )?(?:broken|unsafe|compromised|insecure|malicious|hacked"
    r"|infected|deprecated|retired|outdated|obsolete)|\bno longer (?:safe|trusted|secure)"
    r"|\bnot the one\b|\bofficial\b"
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
_TOOL_NAME = r"(?: the| any| tool| function){0,2} [\"'`*]*([a-z][\w-]*)"
_ORDERED_CALL = re.compile(
    r"\b(?:must|has to|have to|should|needs? to|always)\b[^.!?\n]{0,20}?"
    rf"\b(?:call|use|invoke|run|execute){_TOOL_NAME}",
    re.IGNORECASE,
)
_FIRST = re.compile(r"\b(?:before|first)\b", re.IGNORECASE)
_CHANGES = re.compile(
    "delete|remove|drop|clear|write|overwrite|edit|move|put|push|send|post|upload|transfer|kill",
    re.IGNORECASE,
)
_BEFORE_CALL = re.compile(
    rf"\bbefore\b[^.!?\n]{{0,80}}?\b(?:us(?:e|ing)|call(?:ing)?|invoking|running|with){_TOOL_NAME}",
    re.IGNORECASE,
)
_STEERS = re.compile(
    r"\b(?:must|always|never|whenever|has to|have to|do not (?:use|call)|don't (?:use|call)"
    r"|instead|replaces?|skip|in (?:its|their) place|not be used)\b"
)


@cache
def audit_identity() -> str:
    """Identity of rules and classifier, for caches of findings."""
    # By content: files with different rules may have the same size and time.
    here = Path(__file__).parent
    identity = hashlib.blake2b(digest_size=16)
    for path in (here.parent / "text.py", *sorted(here.rglob("*"))):
        if path.is_file() and path.suffix != ".pyc":
            identity.update(path.read_bytes())
    return identity.hexdigest()


def audit_all(
    specs: Iterable[ToolSpec],
    beside: Iterable[ToolSpec] = (),
    own: Callable[[ToolSpec], Iterable[Finding]] = audit,
) -> list[Finding]:
    """Audit each specification, and compare all specifications with each other.

    Tools `beside` them, such as those of other servers, are only compared with, and get no
    findings. `own` audits a single specification, perhaps from a cache.
    """
    tools = list(specs)
    known = [*tools, *beside]
    findings = [finding for spec in tools for finding in own(spec)]
    findings += _confusable_names(tools, known)
    findings += _confusable_servers(tools, known)
    # As in one tool, two warnings of rules about different things are no accident.
    rules = [found for found in findings if found.rule not in REASON_BY_KIND]
    warned = {found.tool for found in rules if found.severity == "warning"}
    for found in _cross_tool_findings(tools, known):
        worse = found.severity == "warning" and found.tool in warned
        findings.append(replace(found, severity="block") if worse else found)
    return findings


def _confusable_names(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Find tools of different servers with equal or confusable names."""
    looks: dict[str, dict[tuple[str, bool], ToolSpec]] = defaultdict(dict)
    near: dict[str, list[ToolSpec]] = defaultdict(list)
    for spec in known:
        # Of each name a tool of its first server and one of another, as there may be thousands.
        same, name = looks[skeleton(spec.name)], spec.name.lower()
        first = same.setdefault((name, True), spec)
        same.setdefault((name, first.server == spec.server), spec)
        for variant in _variants(spec.name):
            near[variant].append(spec)
    for spec in tools:
        same = looks[skeleton(spec.name)].values()
        if others := [each for each in same if each.server != spec.server]:
            yield _look_alike_finding(spec, others)
            continue
        others = {each.id: each for key in _variants(spec.name) for each in near[key]}.values()
        alike = [each for each in others if each.server != spec.server]
        if len({each.server for each in alike}) > _MAX_IMITATED_SERVERS:
            continue
        copied = next((each for each in alike if _is_copy(spec, each)), None)
        if copied is not None:
            why = f"name and text are nearly those of {copied.name!r} of {copied.server!r}"
            yield _cross_tool("warning", "shadow-name", spec, "name", spec.name, why)
        elif alike and (added := _words(spec.name) - _words(alike[0].name)) & CLAIM_WORDS:
            why = f"it is {alike[0].name!r} of {alike[0].server!r} with {min(added)!r} in its name"
            yield _cross_tool("warning", "shadow-name", spec, "name", spec.name, why)


def _look_alike_finding(spec: ToolSpec, others: list[ToolSpec]) -> Finding:
    other = next((each for each in others if each.name.lower() != spec.name.lower()), None)
    if other is None:
        why = f"the server {others[0].server!r} has a tool with this name too"
        return _cross_tool("info", "same-name", spec, "name", spec.name, why)
    why = f"it is hard to tell from {other.name!r} of the server {other.server!r}"
    severity: Severity = "warning" if spec.name.isascii() else "block"
    return _cross_tool(severity, "shadow-name", spec, "name", spec.name, why)


def _confusable_servers(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Find servers with confusable names; reported once, for the first tool."""
    near: dict[str, set[str]] = defaultdict(set)
    for server in {spec.server for spec in known}:
        for variant in {skeleton(server), *_variants(server)}:
            near[variant].add(server)
    first = {spec.server: spec for spec in reversed(tools)}
    for server, spec in first.items():
        looks = sorted(near[skeleton(server)] - {server})
        others = {*looks, *(each for key in _variants(server) for each in near[key])} - {server}
        # A name in other letters is the imitation, never the imitated name.
        plain = sorted(each for each in others if each.isascii())
        if looks and not server.isascii():
            why = f"the server's name is hard to tell from {looks[0]!r}"
            yield _cross_tool("block", "shadow-server", spec, "server", server, why)
        elif 0 < len(plain) <= _MAX_IMITATED_SERVERS:
            why = f"the server's name can be mistaken for {plain[0]!r}"
            yield _cross_tool("warning", "shadow-server", spec, "server", server, why)


CLAIM_WORDS = frozenset(
    (  # noqa: SIM905 -- shorter than a list of literals
        "best better corrected enhanced enterprise fast fixed genuine improved legit lite official "
        "patched plus premium pro real safe secure secured smart stable super trusted turbo "
        "ultimate ultra upgraded v1 v2 v3 v4 verified x2"
    ).split()
)
"""Words that are added to a name to claim a better version."""

FILLER_WORDS = frozenset(
    (  # noqa: SIM905 -- shorter than a list of literals
        "advanced ai alt api app client ext extended free full latest main mcp modern new next "
        "original proxy server service the tool unified updated"
    ).split()
)
"""Words that neither distinguish names nor claim anything."""

_MAX_IMITATED_SERVERS = 2
"""A name that resembles more other servers' names is common, and no imitation."""

_MIN_COPIED_SHARE = 0.6
"""Least share of common words of two descriptions for one to be a copy."""


def _words(name: str) -> set[str]:
    return set(LETTERS_OR_DIGITS.findall(words_of(name).lower()))


def _variants(name: str) -> set[str]:
    """Keys that confusable names share: the name, and the name with each letter left out.

    Names that differ by one letter share a key (Garbe 2012, symmetric deletes). Claims, fillers
    and the order of words are ignored.
    """
    words = sorted(_words(name) - CLAIM_WORDS - FILLER_WORDS)
    core = "".join(words)
    if len(core) < _MIN_COMPARED_NAME_CHARS:
        return set()
    return {core, *(core[:at] + core[at + 1 :] for at in range(len(core)))}


def _is_copy(spec: ToolSpec, other: ToolSpec) -> bool:
    mine, theirs = (_words(each.description[:MAX_COPIED_CHARS]) for each in (spec, other))
    return bool(mine) and len(mine & theirs) >= _MIN_COPIED_SHARE * len(mine | theirs)


MAX_COPIED_CHARS = 2_000


def _cross_tool_findings(tools: list[ToolSpec], known: list[ToolSpec]) -> Iterator[Finding]:
    """Find texts that name a tool of another server and change its use."""
    owners: dict[str, set[str]] = defaultdict(set)
    names: dict[str, set[str]] = defaultdict(set)
    for spec in known:
        names[spec.server].add(spec.name.lower())
        if len(spec.name) >= _MIN_COMPARED_NAME_CHARS and _COMPOUND.match(spec.name):
            owners[spec.name].add(spec.server)
    for spec in tools:
        orders = _ORDERED_CALL.search(spec.description)
        texts = texts_of(spec) if orders or len(names) > 1 else []
        own = {text.text for text in texts if text.is_name} - {spec.name}
        for text in texts:
            if not text.is_name:
                yield from _steering_findings(spec, text, owners, own)
        if orders:
            yield from _absent_tool_findings(spec, names[spec.server], own)


def _steering_findings(
    spec: ToolSpec, text: ToolText, owners: Mapping[str, set[str]], own: set[str]
) -> Iterator[Finding]:
    clear = ""
    for name in dict.fromkeys(_IDENTIFIER.findall(text.text)):
        servers = owners.get(name, set())
        # A server may say anything about its own tools and parameters, even if another server
        # has a tool of the same name.
        is_own = servers <= {spec.server} or (spec.server in servers and name != spec.name)
        if is_own or name in own:
            continue
        clear = clear or fold(normalise(text.text))
        about = " ".join(each for each in _SENTENCE.findall(clear) if name in each).lower()
        severity = _severity(about, name, spec, servers)
        if severity:
            listed = ", ".join(sorted(map(repr, servers - {spec.server}))[:3])
            why = f"it gives orders about the use of {name!r} of the server {listed}"
            yield _cross_tool(severity, "cross-tool", spec, text.place, about, why)
            return


def _absent_tool_findings(
    spec: ToolSpec, siblings: set[str], parameters: set[str]
) -> Iterator[Finding]:
    """Find orders to call a tool that the server does not have before something is done."""
    own = siblings | parameters
    for sentence in _SENTENCE.findall(spec.description):
        called, before = _ORDERED_CALL.search(sentence), _BEFORE_CALL.search(sentence)
        if called and _FIRST.search(sentence) and _is_absent(called[1], own):
            # Reading before a call of this tool may be honest. Changing is a trap, and so is
            # reading before a call of a third tool.
            third = before and before[1] != called[1] and _is_absent(before[1], own)
            severity: Severity = "block" if third or _CHANGES.match(called[1]) else "warning"
            # The listing of a tool that is alone may be a part of its server's.
            if severity == "block" or len(siblings) > 1:
                why = f"it orders a call of {called[1]!r}, which its server does not have"
                yield _cross_tool(severity, "cross-tool", spec, "description", sentence, why)
                if severity == "block":
                    return


def _is_absent(name: str, own: set[str]) -> bool:
    low = name.lower()
    # A parameter such as `s` is a part of most names by chance.
    parts = (each for each in own if len(each) >= _MIN_COMPARED_NAME_CHARS or each == low)
    return bool(_COMPOUND.match(name)) and not any(low in each or each in low for each in parts)


def _severity(about: str, name: str, spec: ToolSpec, servers: set[str]) -> Severity | None:
    """Severity of a text about another server's tool; None for a mere mention."""
    if _DISPARAGES.search(about) or _differ_by_one_letter(name, spec.name):
        return "block"
    steers = _STEERS.search(about) is not None
    if name == spec.name:
        others = (each.lower() for each in servers if each and each != spec.server)
        return "block" if steers and any(each in about for each in others) else None
    calls = any(each[1] == name.lower() for each in _ORDERED_CALL.finditer(about))
    if _TAMPERS.search(about) or _HANDS_ON.search(about) or (calls and _FIRST.search(about)):
        return "block"
    return "warning" if steers else None


def _differ_by_one_letter(name: str, other: str) -> bool:
    """True if two names differ by one added, removed or replaced letter."""
    pairs = enumerate(zip(name, other, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(name), len(other)))
    mine, theirs = name[at:], other[at:]
    return name != other and (mine[1:] == theirs[1:] or mine == theirs[1:] or mine[1:] == theirs)


def _cross_tool(
    severity: Severity, rule: str, spec: ToolSpec, place: str, text: str, why: str
) -> Finding:
    return Finding(severity, rule, spec.id, place, visible(text), why)
