"""Enrichment: what others than its author wrote about a tool, read, judged and put to it.

A file has one JSON object a line, whoever wrote it. What a tool's author says goes first; what
names other tools, repeats the description, is too long or dangerous is dropped, and reported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path
from typing import TypeAlias

from pydantic import ConfigDict, Field, ValidationError

from toolcrib.indexers.overlay import OVERLAY_NAME, ToolOverlay
from toolcrib.indexers.readers.base import Source, is_list, is_object
from toolcrib.indexers.sync import Entry, Screen
from toolcrib.records import Enrichment, Refusal, ToolSpec
from toolcrib.records.validation import in_words

# -- files -----------------------------------------------------------------------------------------

ENRICHMENT_NAME = "enrichment.jsonl"
"""What it is called beside the sources."""


class EnrichmentLine(Enrichment):
    """One line of a file: the enrichment of the tool `id`. What else stands there is not read."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)

    @property
    def text(self) -> str:
        """The line, with its end."""
        fields = {"id": self.id, **self.model_dump(mode="json")}
        return json.dumps(fields, ensure_ascii=False) + "\n"


def is_enrichment(source: Source) -> bool:
    """Whether a file holds enrichments, and no tools."""
    sample = source.sample
    return is_list(sample) and all(
        is_object(each)
        and "id" in each
        and "name" not in each
        and {"purpose", "examples"} & {*each}
        for each in sample
    )


BESIDE: Mapping[str, Callable[[Source], bool]] = {
    OVERLAY_NAME: ToolOverlay.is_overlay,
    ENRICHMENT_NAME: is_enrichment,
}
"""Files that stand beside sources and are none: by their names, and what tells that they are so."""


def beside(sources: Iterable[str], name: str) -> list[Path]:
    """The files of this name in the folders that are named, and beside the files that are."""
    found = [folder_of(each) / name for each in sources]
    return [
        path
        for path in dict.fromkeys(found)
        if path.is_file() and BESIDE[name](Source(str(path), path))
    ]


def folder_of(source: str) -> Path:
    """Where companions of a source stand: this folder for what is neither file nor folder."""
    if os.path.isdir(source):  # noqa: PTH112 -- pathlib raises for names that no file can have
        return Path(source)
    return Path(source).parent if os.path.isfile(source) else Path()  # noqa: PTH113 -- as above


_Judged: TypeAlias = tuple[Enrichment, list[str]]
"""What is left of an enrichment, and why the rest was dropped."""


@dataclass(frozen=True, slots=True)
class Enrichments:
    """The lines of one file by the ids of their tools, and what could not be read of it."""

    source: str
    lines: Mapping[str, Sequence[EnrichmentLine]]
    refused: tuple[Refusal, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Enrichments:
        """Read a file of JSON Lines; a line that is wrong costs no other.

        Raises:
            SourceError: it cannot be read.
        """
        source = Source.named(str(path))
        lines: dict[str, list[EnrichmentLine]] = {}
        refused: list[Refusal] = []
        for number, text in source.lines():
            try:
                line = EnrichmentLine.model_validate_json(text)
            except ValidationError as error:
                refused.append(source.refusal(in_words(error, "the line"), f"line {number}"))
            else:
                lines.setdefault(line.id, []).append(line)
        return cls(source.name, lines, tuple(refused))

    def of(self, tool_id: str, digests: Iterable[str]) -> EnrichmentLine | None:
        """The last line for a tool of one of these digests, or else for any version of it."""
        lines = self.lines.get(tool_id, ())
        fitting = [line for line in lines if line.digest in {*digests}]
        fitting = fitting or [line for line in lines if line.digest is None]
        return fitting[-1] if fitting else None

    def over(
        self, entries: Sequence[Entry], digests: Mapping[str, str]
    ) -> tuple[list[Entry], list[Refusal]]:
        """The entries with their enrichments, and what was dropped of these.

        `digests` are those of the tools before an overlay. A tool that the file has nothing for
        gets an empty enrichment.
        """
        specs = [item for _, item in entries if isinstance(item, ToolSpec)]
        names = identifiers(specs)
        dropped = list(self.refused)
        made: list[Entry] = []
        for source, item in entries:
            if isinstance(item, Refusal):
                made.append((source, item))
                continue
            line = self.of(item.id, {_digest(item), digests.get(item.id, "")})
            enrichment, reasons = Enrichment(), list[str]()
            if line is not None:
                enrichment, reasons = judged(item, line, names)
            elif item.id in self.lines:
                reasons = ["written for another version of the tool; `toolcrib enrich` renews it"]
            dropped += (Refusal(self.source, item.id, reason) for reason in reasons)
            made.append((source, item.model_copy(update={"enrichment": enrichment})))
        known = {spec.id for spec in specs} | {
            i.place for _, i in entries if isinstance(i, Refusal)
        }
        unknown = [tool_id for tool_id in self.lines if tool_id not in known]
        return made, dropped + [Refusal(self.source, i, "no tool has this id") for i in unknown]


def prepared(
    entries: Sequence[Entry],
    screen: Screen | None = None,
    overlays: Iterable[str | Path] = (),
    enrichments: Iterable[str | Path | Enrichments] = (),
) -> tuple[Sequence[Entry], tuple[Refusal, ...]]:
    """Entries as they are indexed, and what of overlays and enrichments was dropped.

    What a source says is screened first: an approval is of that, whatever an operator adds to it.

    Raises:
        SourceError: a file cannot be read.
    """
    laid = [ToolOverlay.read(path) for path in overlays]
    written = [
        each if isinstance(each, Enrichments) else Enrichments.read(each) for each in enrichments
    ]
    found = entries if screen is None else screen(entries)
    digests = {item.id: _digest(item) for _, item in found if isinstance(item, ToolSpec)}
    dropped: list[Refusal] = []
    for overlay in laid:
        found, unmatched = overlay.over(found)
        dropped += unmatched
    if written:
        found, faults = _merged(written).over(found, digests)
        dropped += faults
    return found, tuple(dropped)


def _digest(spec: ToolSpec) -> str:
    """That of what is not enrichment."""
    return spec.model_copy(update={"enrichment": None}).digest


def _merged(files: Sequence[Enrichments]) -> Enrichments:
    """Several files as one; where two speak of a tool, the last has the word."""
    lines: dict[str, list[EnrichmentLine]] = {}
    for file in files:
        for tool_id, own in file.lines.items():
            lines.setdefault(tool_id, []).extend(own)
    refused = tuple(refusal for file in files for refusal in file.refused)
    return Enrichments(", ".join(file.source for file in files), lines, refused)


# -- judging ---------------------------------------------------------------------------------------

MAX_CHARS = {"purpose": 600, "examples": 300, "not_for": 300}
MAX_TEXTS = 8
"""What is longer, and what is more, is dropped: it would outgrow what the author wrote."""

ALIKE = 0.9
"""Share of words, in their order, from which on a text repeats another."""

LEAST_WORDS = 3
"""A text of fewer is no repetition."""

_TAG = re.compile(r"[a-z][a-z0-9_]{0,39}")
_IDENTIFIER = re.compile(r"\w[\w./:-]*+")
_TOLD_APART = re.compile(r"[_/:]|\w\.\w|[a-z][A-Z]|-.*-|\w{3}-\w{3}|\w \w*[A-Z]")
"""What an identifier has and an everyday word has not; of `get-weather` and `e-mail` the first."""

MAX_NAME_WORDS = 5
"""A longer name is not looked for in texts."""

_Names: TypeAlias = Mapping[str, frozenset[str]]


def judged(spec: ToolSpec, line: EnrichmentLine, names: _Names) -> _Judged:
    """What of a line may be put to a tool."""
    reasons: list[str] = []

    def usable(field: str, texts: Iterable[str]) -> tuple[str, ...]:
        kept: list[str] = []
        for text in filter(None, dict.fromkeys(text.strip() for text in texts)):
            why = _fault(spec, field, text, names)
            if why:
                reasons.append(f"{field}: {why}: {text[:80]!r}")
            else:
                kept.append(text)
        if len(kept) > MAX_TEXTS:
            reasons.append(f"{field}: {len(kept)} texts; the first {MAX_TEXTS} are taken")
        return tuple(kept[:MAX_TEXTS])

    texts = {
        "purpose": usable("purpose", (line.purpose,)),
        "examples": usable("examples", () if spec.success_examples else line.examples),
        "not_for": usable("not_for", () if spec.anti_patterns else line.not_for),
        "safety_tags": () if spec.safety_tags else _tags(line.safety_tags, reasons),
    }
    made = _made(line, texts)
    blocked = _blocked(spec, made) if made else {}
    reasons += (f"{place.partition('.')[2]}: held back: {rule}" for place, rule in blocked.items())
    safe = {
        field: tuple(text for n, text in enumerate(own) if _place(field, n) not in blocked)
        for field, own in texts.items()
    }
    return _made(line, safe), reasons


def _made(line: EnrichmentLine, texts: Mapping[str, tuple[str, ...]]) -> Enrichment:
    about = {"digest": line.digest, "model": line.model, "prompt": line.prompt}
    purpose = "".join(texts["purpose"])
    return Enrichment.model_validate({**texts, "purpose": purpose, **about})


def _place(field: str, number: int) -> str:
    """Where an audit finds a text."""
    return "enrichment.purpose" if field == "purpose" else f"enrichment.{field}[{number}]"


def _blocked(spec: ToolSpec, enrichment: Enrichment) -> dict[str, str]:
    """The places of what the audit holds back, and by which rule."""
    from toolcrib.indexers.audit import audit

    findings = audit(spec.model_copy(update={"enrichment": enrichment}))
    return {
        f.place: f.rule
        for f in findings
        if f.severity == "block" and f.place.startswith("enrichment.")
    }


def _fault(spec: ToolSpec, field: str, text: str, names: _Names) -> str:
    """Why a text is of no use; empty where it is."""
    if len(text) > (limit := MAX_CHARS[field]):
        return f"{len(text)} characters; at most {limit} are taken"
    parts = [found.rstrip(".:/-") for found in _IDENTIFIER.findall(text)]
    for begin, count in product(range(len(parts)), range(1, MAX_NAME_WORDS + 1)):
        owners = names.get(_key(parts[begin : begin + count]))
        if owners and spec.id not in owners:
            return f"names the tool {min(owners)!r}"
    words, said = text.casefold().split(), spec.description.casefold().split()
    joined = " ".join(said)
    if len(words) >= LEAST_WORDS and (
        " ".join(words) in joined or SequenceMatcher(None, words, said).ratio() >= ALIKE
    ):
        return "repeats the description"
    return ""


def identifiers(specs: Iterable[ToolSpec]) -> dict[str, frozenset[str]]:
    """Ids and names that are no everyday words, to the ids of the tools that have them."""
    found: dict[str, frozenset[str]] = {}
    for spec in specs:
        for name in {spec.id, spec.name}:
            if _TOLD_APART.search(name):
                key = _key(name.split())
                found[key] = found.get(key, frozenset()) | {spec.id}
    return found


def _key(words: Sequence[str]) -> str:
    """A name as it is looked up: one of several words is told from a sentence by its capitals."""
    return " ".join(words) if len(words) > 1 else "".join(words).casefold()


def _tags(tags: Iterable[str], reasons: list[str]) -> tuple[str, ...]:
    said = {tag: re.sub(r"[\s-]", "_", tag.strip().lower()) for tag in tags}
    reasons += (
        f"safety_tags: no tag: {t[:80]!r}" for t, n in said.items() if not _TAG.fullmatch(n)
    )
    return tuple(dict.fromkeys(n for n in said.values() if _TAG.fullmatch(n)))[:MAX_TEXTS]
