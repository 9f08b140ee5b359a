"""Rules about characters: what a person who reads the tool cannot see, and a model can."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolcrib.indexers.audit.characters import (
    HIDDEN,
    SELECTORS,
    TAGS,
    ZERO_WIDTH,
    decode_tags,
    strays,
    visible,
)
from toolcrib.indexers.audit.characters import mixes_scripts
from toolcrib.indexers.audit.findings import Severity, Sign

__all__ = ["hidden_signs", "is_suspect"]

FEW = 3
"""So many of anything odd may have come about by copying."""

LONG_RUN = 8
"""So many characters of no width in a row hold a message; mishaps of copying hold one or two."""

MANY = 24
MANY_LINES = 30
MANY_BLANKS = 400
"""The longest runs in real tools, within tables and indented code, are 17 lines and 350 blanks."""

ODD_BLANKS = 40
"""Of those that are no spaces of ASCII; they have no use in a row."""

MAX_SHOWN_CHARS = 200

SUSPECT = re.compile(r"[^\x00\x09\x0a\x0d\x20-\x7e]|[^\S\x1c-\x1f]{40,}|\n[\r\n]{29,}")
"""Without any of these there is nothing here to look for."""

_BLANKS = re.compile(r"(?:[^\S\x00]|[\u2800\u3164\u115f\u1160\uffa0\u200b]){30,}")
_ESCAPES = re.compile(r"(?:\x1b|\x9b)(?:\[?[0-9;?]*[A-Za-z]|[\]PX^_][^\x07\x1b]{0,200}|.)?")
_COLOUR = re.compile(r"(?:\x1b\[|\x9b)([0-9;]*)m")
_SELECTED = re.compile(f"[A-Za-z]?[{SELECTORS}]{{2,}}|[A-Za-z][{SELECTORS}]")
_NO_WIDTH = re.compile(f"[{ZERO_WIDTH}]+")
_TAGGED = re.compile(f"[{TAGS}]+")
_OVERRIDE = re.compile("[\u202d\u202e]")
_EMBEDDED = re.compile("[\u061c\u200e\u200f\u202a\u202b\u2066-\u2068]")
_RUBBED_OUT = re.compile(r"\x08{3,}|\x7f{3,}")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9a\x9c-\x9f]")
_ANNOTATED = re.compile("[\ufff9-\ufffb]")
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]+")


def is_suspect(text: str) -> bool:
    """Whether anything here needs a closer look; texts may be joined by separators."""
    return SUSPECT.search(text) is not None


def hidden_signs(text: str, *, is_name: bool) -> Iterator[Sign]:
    """What hides in one text; in a name nothing may."""
    yield from _blank_runs(text)
    rest = strays(text)
    if HIDDEN.search(rest):
        if is_name:
            why = "a name holds characters that show nothing, so that it looks like another name"
            yield Sign("hidden-in-name", "block", visible(text), why)
            return
        yield from _written_in_hidden(rest)
        yield from _no_width(rest)
        yield from _directions(rest)
        yield from _controls(rest)
        yield from _private(rest)
    yield from _mixed(text, is_name=is_name)


def _sign(rule: str, severity: Severity, text: str, at: re.Match[str], why: str) -> Sign:
    around = text[max(0, at.start() - 40) : at.end() + 40]
    return Sign(rule, severity, visible(around), why)


def _blank_runs(text: str) -> Iterator[Sign]:
    for run in _BLANKS.finditer(text):
        after = text[run.end() : run.end() + MAX_SHOWN_CHARS].strip()
        many = run[0].count("\n") >= MANY_LINES or len(run[0]) >= MANY_BLANKS
        odd = not run[0].isascii() and len(run[0]) >= ODD_BLANKS
        if after and (many or odd):
            why = "a long run of blanks pushes the text behind it out of sight"
            yield Sign("blank-run", "block", visible(f"⟨blank ×{len(run[0])}⟩ {after}"), why)
            return


def _written_in_hidden(text: str) -> Iterator[Sign]:
    tagged = _TAGGED.search(text)
    if tagged:
        said = decode_tags("".join(_TAGGED.findall(text)))
        why = f"tag characters, which no screen shows, spell {visible(said, 80)!r}"
        yield _sign("hidden-tags", "block", text, tagged, why)
    selected = _SELECTED.search(text)
    if selected:
        severity: Severity = "block" if len(selected[0]) > FEW else "warning"
        why = "variation selectors stand where nothing has variants: each can carry a byte"
        yield _sign("hidden-selectors", severity, text, selected, why)


def _no_width(text: str) -> Iterator[Sign]:
    runs = list(_NO_WIDTH.finditer(text))
    if not runs:
        return
    longest = max(runs, key=lambda run: len(run[0]))
    total = sum(len(run[0]) for run in runs)
    if len(longest[0]) >= LONG_RUN:
        why = f"{len(longest[0])} characters of no width in a row can only carry a message"
        yield _sign("hidden-zero-width", "block", text, longest, why)
    elif total >= MANY or len(longest[0]) > FEW:
        why = f"{total} characters of no width stand where no script needs them"
        yield _sign("hidden-zero-width", "warning", text, longest, why)
    else:
        why = "a character of no width, as copying leaves behind"
        yield _sign("hidden-zero-width", "info", text, longest, why)


def _directions(text: str) -> Iterator[Sign]:
    override = _OVERRIDE.search(text)
    if override:
        why = "the direction of letters is overridden, so that people read another text than models"
        yield _sign("hidden-direction", "block", text, override, why)
        return
    mark = _EMBEDDED.search(text)
    if mark:
        why = "marks of writing direction in a text that has no letters from right to left"
        severity: Severity = "info" if mark[0] in "\u061c\u200e\u200f" else "warning"
        yield _sign("hidden-direction", severity, text, mark, why)


def _controls(text: str) -> Iterator[Sign]:
    escape = _ESCAPES.search(text)
    if escape:
        hides = any(_hides(each[0]) for each in _ESCAPES.finditer(text))
        why = (
            "escape sequences for terminals hide, move or link text"
            if hides
            else "escape sequences for terminals colour the text"
        )
        yield _sign("hidden-escapes", "block" if hides else "warning", text, escape, why)
    rubbed = _RUBBED_OUT.search(text)
    if rubbed:
        why = "backspaces rub out on a screen what a model still reads"
        yield _sign("hidden-controls", "block", text, rubbed, why)
        return
    control = _CONTROL.search(text)
    if control:
        why = "control characters have no place in a description"
        yield _sign("hidden-controls", "info", text, control, why)
    annotated = _ANNOTATED.search(text)
    if annotated:
        why = "marks of annotation hide the text that they enclose"
        yield _sign("hidden-controls", "warning", text, annotated, why)


def _hides(escape: str) -> bool:
    """Whether a sequence does more than colour: conceals, paints over, moves, erases or links."""
    colour = _COLOUR.fullmatch(escape)
    if colour is None:
        return len(escape) > 1
    codes = colour[1].split(";")
    on = {code[1] for code in codes if re.fullmatch(r"[39][0-7]", code)}
    under = {code[1] for code in codes if re.fullmatch(r"4[0-7]", code)}
    return "8" in codes[:1] or bool(on & under)


def _private(text: str) -> Iterator[Sign]:
    found = _PRIVATE.search(text)
    if found:
        severity: Severity = "warning" if len(found[0]) >= FEW else "info"
        why = "characters of private use show what a font makes of them, or nothing"
        yield _sign("private-use", severity, text, found, why)


def _mixed(text: str, *, is_name: bool) -> Iterator[Sign]:
    words = mixes_scripts(text)
    if not words:
        return
    listed = ", ".join(dict.fromkeys(words[:5]))
    if is_name:
        why = "letters of several scripts in one name: it looks like another name"
        yield Sign("mixed-scripts", "warning", visible(listed), why)
    else:
        severity: Severity = "warning" if len(words) >= FEW else "info"
        why = "letters of several scripts in one word, which only looks like that word"
        yield Sign("mixed-scripts", severity, visible(listed), why)
