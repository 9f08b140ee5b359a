"""Enrichment: reads, screens and adds texts about tools that their authors did not write.

A file has one JSON object a line. The author's own texts take precedence. A text that names other
tools, repeats the description, is too long or is dangerous is dropped and reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError

from toolcrib.errors import QueryError
from toolcrib.indexers.overlay import OVERLAY_NAME, ToolOverlay
from toolcrib.indexers.readers.base import Source, is_list, is_object
from toolcrib.indexers.sync import Entry, Screen
from toolcrib.records import Enrichment, Refusal, ToolSpec
from toolcrib.records.codec import in_words
from toolcrib.records.tools import default_id

# -- files -----------------------------------------------------------------------------------------

ENRICHMENT_NAME = "enrichment.jsonl"
"""File name beside the sources."""


class EnrichmentLine(Enrichment):
    """Line of a file: the enrichment of the tool `id`; unknown keys are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str = Field(min_length=1)


def is_enrichment(source: Source) -> bool:
    """True if a file holds enrichments, and no tools."""
    sample = source.sample
    return is_list(sample) and all(
        is_object(each)
        and "id" in each
        and "name" not in each
        and {"purpose", "examples", "goes_with"} & {*each}
        for each in sample
    )


COMPANION_CHECKS: Mapping[str, Callable[[Source], bool]] = {
    OVERLAY_NAME: ToolOverlay.is_overlay,
    ENRICHMENT_NAME: is_enrichment,
}
"""Names of companion files beside sources, each with a check of the content; none holds tools."""


@dataclass(frozen=True, slots=True)
class Enrichments:
    """Lines of a file by the ids of their tools, and its unreadable lines."""

    source: str
    lines: Mapping[str, Sequence[EnrichmentLine]]
    refused: tuple[Refusal, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> Enrichments:
        """Read a file of JSON Lines; only wrong lines are refused.

        Raises:
            SourceError: the file cannot be read.
        """
        source = Source.by_name(str(path))
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
        """Last line for one of these digests of a tool, else for any version of the tool."""
        lines = self.lines.get(tool_id, ())
        fitting = [line for line in lines if line.digest in {*digests}]
        fitting = fitting or [line for line in lines if line.digest is None]
        return fitting[-1] if fitting else None

    def over(
        self, entries: Sequence[Entry], digests: Mapping[str, str]
    ) -> tuple[list[Entry], list[Refusal]]:
        """Entries with their enrichments, and the dropped texts.

        `digests` are the tools' digests before an overlay. A tool without a line gets an empty
        enrichment.
        """
        specs = [item for _, item in entries if isinstance(item, ToolSpec)]
        names = NamesOfTools(specs)
        dropped = list(self.refused)
        made: list[Entry] = []
        for source, item in entries:
            if isinstance(item, Refusal):
                made.append((source, item))
                continue
            line = self.of(item.id, {_digest_of_source(item), digests.get(item.id, "")})
            enrichment, reasons = Enrichment(), list[str]()
            if line is not None:
                enrichment, reasons = screen_line(item, line, names)
            elif item.id in self.lines:
                reasons = ["written for another version of the tool; `toolcrib enrich` renews it"]
            dropped += (Refusal(self.source, item.id, reason) for reason in reasons)
            made.append((source, item.model_copy(update={"enrichment": enrichment})))
        known = {i.place if isinstance(i, Refusal) else i.id for _, i in entries}
        unknown = [tool_id for tool_id in self.lines if tool_id not in known]
        return made, dropped + [Refusal(self.source, i, "no tool has this id") for i in unknown]


def prepare_entries(
    entries: Sequence[Entry],
    screen: Screen | None = None,
    overlays: Iterable[str | Path] = (),
    enrichments: Iterable[str | Path | Enrichments] = (),
) -> tuple[Sequence[Entry], tuple[Refusal, ...]]:
    """Entries with overlays and enrichments, and the dropped lines of both.

    The screen sees only the sources' entries: an approval does not cover an operator's texts.
    """
    for name, files in (("overlays", overlays), ("enrichments", enrichments)):
        if isinstance(files, str | Path):  # its letters would be the files
            raise QueryError(f"{name} must be a list of files, not {str(files)!r}")
    laid = [ToolOverlay.read(path) for path in overlays]
    written = [e if isinstance(e, Enrichments) else Enrichments.read(e) for e in enrichments]
    found = entries if screen is None else screen(entries)
    digests = {item.id: _digest_of_source(item) for _, item in found if isinstance(item, ToolSpec)}
    dropped: list[Refusal] = []
    for overlay in laid:
        found, unmatched = overlay.over(found)
        dropped += unmatched
    if written:
        found, faults = _merge(written).over(found, digests)
        dropped += faults
    return found, tuple(dropped)


def _digest_of_source(spec: ToolSpec) -> str:
    """Digest of a specification without its enrichment."""
    return spec.model_copy(update={"enrichment": None}).digest


def _merge(files: Sequence[Enrichments]) -> Enrichments:
    """Merge files into one; for a tool in several files the last file wins."""
    ids = dict.fromkeys(tool_id for file in files for tool_id in file.lines)
    lines = {i: [line for file in files for line in file.lines.get(i, ())] for i in ids}
    refused = tuple(refusal for file in files for refusal in file.refused)
    return Enrichments(", ".join(file.source for file in files), lines, refused)


# -- screening-------------------------------------------------------------------------------------

MAX_CHARS_BY_FIELD = {"purpose": 600, "examples": 300, "not_for": 300}
MAX_TEXTS_PER_FIELD = 8
"""Limits on added texts, so that they do not outgrow the author's own."""

MIN_REPEATED_SHARE = 0.9
"""Least share of equal words, in their order, for a text to repeat another text."""

MIN_REPEATED_WORDS = 3

_TAG = re.compile(r"[a-z][a-z0-9_]{0,39}")
_IDENTIFIER = re.compile(r"\w[\w./:-]*+")
_NOT_EVERYDAY = re.compile(r"[_/:]|\w\.\w|[a-z][A-Z]|-.*-|\w{3}-\w{3}|\w \w*[A-Z]")
"""Marks of identifiers, which everyday words lack: `get-weather` has one, `e-mail` none."""

MAX_NAMED_TOOL_WORDS = 5
"""Most words of a tool's name for which texts are searched."""

MAX_WRITTEN_COMPANIONS = 4


class NamesOfTools:
    """Names of a registry: all ids, and the `owners` of ids and names that are no plain words."""

    def __init__(self, specs: Sequence[ToolSpec]) -> None:
        self.ids = frozenset(spec.id for spec in specs)
        self.owners = _identifiers(specs)

    def companions(
        self, spec: ToolSpec, named: Iterable[str], reasons: list[str]
    ) -> tuple[str, ...]:
        """Ids of other tools, given by id, or by name on the tool's server."""
        found: dict[str, None] = {}
        for name in dict.fromkeys(named):
            known = next((i for i in (name, default_id(spec.server, name)) if i in self.ids), None)
            if known is None:
                reasons.append(f"goes_with: no tool has the id {name[:80]!r}")
            elif known != spec.id:
                found[known] = None
        return tuple(found)[:MAX_WRITTEN_COMPANIONS]


def screen_line(
    spec: ToolSpec, line: EnrichmentLine, names: NamesOfTools
) -> tuple[Enrichment, list[str]]:
    """Usable part of a line for a tool, and the reasons against the rest."""
    reasons: list[str] = []

    def usable(field: str, texts: Iterable[str]) -> tuple[str, ...]:
        kept: list[str] = []
        for text in filter(None, dict.fromkeys(text.strip() for text in texts)):
            why = _text_fault(spec, field, text, names.owners)
            if why:
                reasons.append(f"{field}: {why}: {text[:80]!r}")
            else:
                kept.append(text)
        if len(kept) > MAX_TEXTS_PER_FIELD:
            reasons.append(f"{field}: {len(kept)} texts; the first {MAX_TEXTS_PER_FIELD} are used")
        return tuple(kept[:MAX_TEXTS_PER_FIELD])

    texts = {
        "purpose": usable("purpose", (line.purpose,)),
        "examples": usable("examples", () if spec.success_examples else line.examples),
        "not_for": usable("not_for", () if spec.anti_patterns else line.not_for),
        "safety_tags": () if spec.safety_tags else _tags(line.safety_tags, reasons),
        "goes_with": names.companions(spec, line.goes_with, reasons),
    }
    made = _enrichment_of(line, texts)
    blocked = _blocked_places(spec, made) if made else {}
    reasons += (f"{place.partition('.')[2]}: held back: {rule}" for place, rule in blocked.items())
    for field, own in texts.items():
        kept = (t for n, t in enumerate(own) if f"enrichment.{field}[{n}]" not in blocked)
        texts[field] = tuple(kept)
    if "enrichment.purpose" in blocked:
        texts["purpose"] = ()
    return _enrichment_of(line, texts), reasons


def _enrichment_of(line: EnrichmentLine, texts: Mapping[str, tuple[str, ...]]) -> Enrichment:
    about = line.model_dump(include={"digest", "model", "prompt"})
    return Enrichment.model_validate({**texts, "purpose": "".join(texts["purpose"]), **about})


def _blocked_places(spec: ToolSpec, enrichment: Enrichment) -> dict[str, str]:
    """Places of texts that the audit blocks, each with its rule."""
    from toolcrib.audit import audit

    found = audit(spec.model_copy(update={"enrichment": enrichment}))
    blocking = {each.place: each.rule for each in found if each.severity == "block"}
    return {p: rule for p, rule in blocking.items() if p.startswith("enrichment.")}


def _text_fault(spec: ToolSpec, field: str, text: str, names: Mapping[str, frozenset[str]]) -> str:
    """Reason why a text is unusable; empty for a usable text."""
    if len(text) > (limit := MAX_CHARS_BY_FIELD[field]):
        return f"{len(text)} characters; at most {limit} are allowed"
    parts = [found.rstrip(".:/-") for found in _IDENTIFIER.findall(text)]
    for begin, count in product(range(len(parts)), range(1, MAX_NAMED_TOOL_WORDS + 1)):
        owners = names.get(_key(parts[begin : begin + count]))
        if owners and spec.id not in owners:
            return f"names the tool {min(owners)!r}"
    words, said = text.casefold().split(), spec.description.casefold().split()
    joined = " ".join(said)
    if len(words) >= MIN_REPEATED_WORDS and (
        " ".join(words) in joined
        or SequenceMatcher(None, words, said).ratio() >= MIN_REPEATED_SHARE
    ):
        return "repeats the description"
    return ""


def _identifiers(specs: Iterable[ToolSpec]) -> dict[str, frozenset[str]]:
    """Ids and names that are no plain words, each with the ids of its tools."""
    found: dict[str, frozenset[str]] = {}
    for spec in specs:
        for name in filter(_NOT_EVERYDAY.search, {spec.id, spec.name}):
            key = _key(name.split())
            found[key] = found.get(key, frozenset()) | {spec.id}
    return found


def _key(words: Sequence[str]) -> str:
    """Key of a name; several words keep their capitals, which distinguish a name in a sentence."""
    return " ".join(words) if len(words) > 1 else "".join(words).casefold()


def _tags(tags: Iterable[str], reasons: list[str]) -> tuple[str, ...]:
    said = {tag: re.sub(r"[\s-]", "_", tag.strip().lower()) for tag in tags}
    reasons += (
        f"safety_tags: no tag: {t[:80]!r}" for t, n in said.items() if not _TAG.fullmatch(n)
    )
    return tuple(dict.fromkeys(n for n in said.values() if _TAG.fullmatch(n)))[:MAX_TEXTS_PER_FIELD]
