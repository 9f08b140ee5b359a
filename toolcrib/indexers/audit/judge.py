"""One specification, all rules: what is found, and how signs strengthen each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from toolcrib.indexers.audit.characters import visible
from toolcrib.indexers.audit.normalise import decoded, may_be_coded
from toolcrib.indexers.audit.findings import SEVERITIES, Finding, Sign
from toolcrib.indexers.audit.characters import hidden_signs, is_suspect
from toolcrib.indexers.audit.normalise import unseen
from toolcrib.indexers.audit.rules import signs_in
from toolcrib.indexers.audit.normalise import SEPARATOR, fold, plain, words_of
from toolcrib.indexers.audit.findings import Text, texts_of
from toolcrib.records import ToolSpec

__all__ = ["audit"]

_DIRECTS = re.compile(
    r"\b(?:model|assistant|agent|llm|ai|gpt|claude)s?\b.{0,60}\b(?:must|should|shall|call|read|put"
    r"|pass|send|attach|give|hand|include|never|always|do not)\b"
    r"|\b(?:you|always) (?:must|should|call|read|pass|send|include|attach)\b"
)
"""How a comment speaks that is written for a model: authors leave other notes to themselves."""


RUDE = frozenset({"authority", "conduct"})
"""Tools that want to be called first and to say little are rude; alone that harms nobody."""


def audit(spec: ToolSpec) -> list[Finding]:
    """What is wrong with one specification, the worst first; empty where nothing is."""
    texts = texts_of(spec)
    topic = f"{words_of(spec.server)} {words_of(spec.name)} {spec.category}".lower()
    found = [*_in_words(texts, topic)]
    # Nearly all tools end here: what follows looks closer at what is out of the ordinary.
    everything = SEPARATOR.join(text.text.replace(SEPARATOR, "\x01") for text in texts)
    if is_suspect(everything):
        for text in texts:
            found += ((text, sign) for sign in hidden_signs(text.text, is_name=text.is_name))
    if may_be_coded(everything):
        for text in texts:
            found += ((text, sign) for sign in _in_code(text.text, topic))
    if "<" in everything or "]:" in everything:
        for text in texts:
            found += ((text, sign) for sign in _out_of_sight(text.text, topic))
    return _findings(spec, _strengthened(found))


def _findings(spec: ToolSpec, found: list[tuple[Text, Sign]]) -> list[Finding]:
    """One finding for each rule and place: the worst."""
    worst: dict[tuple[str, str], Finding] = {}
    for text, sign in sorted(found, key=lambda each: -SEVERITIES.index(each[1].severity)):
        worst.setdefault(
            (sign.rule, text.place),
            Finding(sign.severity, sign.rule, spec.id, text.place, sign.excerpt, sign.why),
        )
    return list(worst.values())


def _in_words(texts: list[Text], topic: str) -> Iterator[tuple[Text, Sign]]:
    joined = SEPARATOR.join(
        words_of(text.text) if text.is_name else text.text.replace(SEPARATOR, " ") for text in texts
    )
    names = [text.is_name for text in texts]
    for number, sign in _read(joined, topic, names):
        yield texts[number], sign


def _read(joined: str, topic: str, names: list[bool]) -> Iterator[tuple[int, Sign]]:
    """Read texts as they are, and with letters of other scripts turned into those of English."""
    clear = f"{SEPARATOR}{plain(joined)}{SEPARATOR}"
    for shown in dict.fromkeys((fold(clear), clear)):
        low = shown.lower()
        yield from signs_in(low, shown if len(shown) == len(low) else low, topic, names)


def _in_code(text: str, topic: str) -> Iterator[Sign]:
    for kind, said in decoded(text):
        for _, sign in _read(said.replace(SEPARATOR, " "), topic, [False]):
            if sign.severity != "info":
                why = f"{sign.why}; it is written in {kind}, so that nobody sees it"
                yield Sign(f"encoded/{sign.rule}", "block", sign.excerpt, why)


def _out_of_sight(text: str, topic: str) -> Iterator[Sign]:
    for piece in unseen(text):
        said = piece.text.replace(SEPARATOR, " ")
        directs = _DIRECTS.search(plain(said).lower()) is not None or any(
            sign.severity != "info" for _, sign in _read(said, topic, [False])
        )
        shown = visible(text[max(0, piece.start - 20) : piece.start + 160])
        if piece.kind == "element" or directs:
            why = f"a hidden {piece.kind} holds text that no page shows"
            why += " and that speaks to the model" if directs else ""
            yield Sign("hidden-markup", "block", shown, why)
        else:
            yield Sign("hidden-markup", "info", shown, "a comment, which no page shows")


def _strengthened(found: list[tuple[Text, Sign]]) -> list[tuple[Text, Sign]]:
    """Warnings of two groups become blocking: together they are no accident."""
    groups = {sign.group for _, sign in found if sign.severity != "info"} - {""}
    if groups <= RUDE or len(groups) == 1:
        return found
    return [
        (text, replace(sign, severity="block", why=f"{sign.why}, and more than that"))
        if sign.severity == "warning" and sign.group
        else (text, sign)
        for text, sign in found
    ]
