"""Evidence: what cheap probes and cues know of a turn, as facts that rules can speak of."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath

from toolcrib.records import Attachment, Turn
from toolcrib.router.agents.allowlist import Allowlist
from toolcrib.router.agents.targets import Targets
from toolcrib.router.context.cues import CueIndexes, Cues
from toolcrib.router.context.rules import follow_up_score, meta_of, smalltalk_of
from toolcrib.router.sql import find_sql
from toolcrib.text import LETTERS, TextWords, split_words

__all__ = ["AgentEvidence", "EvidenceReader"]

MOST_CHARS = 3_000
"""Of a longer text that much is read of its beginning, and a sixth of it of its end."""

MOST_ATTACHMENTS = 20
MOST_NAME = 120
SHORT = 2
MANY_AMOUNTS = 2

_AMOUNT = re.compile(
    r"(?:[€$£¥₹]|\b(?:usd|eur|gbp|brl|mxn|chf|r\$))\s?+\d[\d.,]*+"
    r"|(?<![\d.,])\d[\d.,]*+\s?+(?:[€$£¥₹]|(?:usd|eur|euros?|gbp|brl|reais|mxn|pesos|chf|dollars?|pounds)\b)"
    r"|(?<!\d)\d++[.,]\d\d\b",
    re.IGNORECASE,
)
_CURRENCY = re.compile(
    r"[€$£¥₹]|\b(?:usd|eur|euros?|gbp|brl|reais|mxn|pesos|chf|dollars?|pounds)\b", re.IGNORECASE
)

KINDS = {
    "attachment_table": ("csv", "tsv", "xls", "xlsx", "ods", "parquet", "spreadsheet", "excel"),
    "attachment_image": (
        "png",
        "jpg",
        "jpeg",
        "heic",
        "webp",
        "gif",
        "tif",
        "tiff",
        "image",
        "bmp",
    ),
    "attachment_document": ("pdf", "doc", "docx", "odt", "rtf", "txt", "md", "html", "eml", "msg"),
}


@dataclass(frozen=True, slots=True)
class AgentEvidence:
    """What is known of one turn.

    `facts` are those that rules speak of, `signals` the probes' findings in short words; `tables`
    and `columns` are all allowed. `late`: there was no time for some probes.
    """

    facts: frozenset[str]
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    before: AgentEvidence | None = None
    leans: float = 0.0
    late: bool = False

    def with_hits(self, hits: int, fit: float | None, least: float) -> AgentEvidence:
        """The same with what a look at the documents found.

        `fit`: the probability that any collection fits, None where nobody knows; weak below
        `least`.
        """
        if not hits:
            return self
        weak = fit is not None and fit < least
        signals = (f"rag_hits:{hits}",)
        if fit is not None:
            signals += (f"rag_min_score:{least:.2f}",)
        if not weak:
            signals = ("rag_probe_hit", *signals)
        return replace(
            self,
            facts=self.facts | {"weak_hits" if weak else "hits"},
            signals=(*self.signals, *signals),
        )


class EvidenceReader:
    """Reads turns: looks nothing up, and mostly takes less than a millisecond."""

    def __init__(
        self,
        targets: Targets,
        allowlist: Allowlist,
        cues: Cues,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._targets = targets
        self._allowlist = allowlist
        self._cues = cues

    def read(self, turn: Turn, time_s: float = math.inf) -> AgentEvidence:
        """What is known of a turn, and of the last one before it that says something itself.

        After `time_s` no further probe is begun: neither SQL is looked for, nor at what was said.
        """
        until = self._now() + time_s
        own = self._of(turn.text, turn.attachments, until)
        for message in reversed(turn.history):
            if message.role != "user" or not message.content.strip():
                continue
            if self._now() >= until:
                return replace(own, late=True)
            before = self._of(message.content, (), until)
            # Small talk alone carries nothing on.
            if "smalltalk" not in before.facts and before.facts:
                leans = follow_up_score(split_words(_ends(turn.text)), self._cues.indexes)
                known = {"facts": own.facts | {"follow_up"}, "late": own.late or before.late}
                return replace(own, before=before, leans=leans, **known)
        return own

    def _of(self, text: str, attachments: Sequence[Attachment], until: float) -> AgentEvidence:
        text = _ends(text)
        words = split_words(text)
        late = self._now() >= until
        sql = None if late else find_sql(text)
        tables, columns = self._allowlist.named_in(words)
        if sql is not None:
            spoken = self._allowlist.kept(sql.tables, sql.columns)
            tables = tuple(dict.fromkeys((*spoken[0], *tables)))
            columns = tuple(dict.fromkeys((*spoken[1], *columns)))
        heard = {label for match in self._targets.index.find(words) for label in match.labels}
        said = dict(self._said(words))
        amounts = len(_AMOUNT.findall(text)) if any(map(str.isdigit, text)) else 0
        facts = {
            *heard,
            *said,
            *(name for name, there in (("tables", tables), ("columns", columns)) if there),
            *(["sql"] if sql is not None else ()),
            *(["money"] if amounts and _CURRENCY.search(text) else ()),
            *(["amounts"] if amounts > MANY_AMOUNTS else ()),
            *(["short"] if sum(word[0].isalnum() for word in words.bare) <= SHORT else ()),
            *(["question"] if "?" in text or "¿" in text else ()),
        }
        seen, signals = self._of_attachments(attachments)
        facts |= seen
        signals = (
            *signals,
            *(("sql_probe_true",) if sql is not None else ()),
            *(f"allowlist:{name}" for name in tables[:3]),
            *(signal for name in said for signal in said[name]),
        )
        return AgentEvidence(frozenset(facts), tables, columns, signals, late=late)

    def _said(self, words: TextWords) -> Iterator[tuple[str, tuple[str, ...]]]:
        """The small talk of a text, and whether it asks about the assistant; with signals."""
        if not any(word[0].isalnum() for word in words.bare):
            yield "empty", ()
            return
        indexes: CueIndexes = self._cues.indexes
        meta = meta_of(words, indexes)
        if meta:
            yield "meta", meta
        kind = smalltalk_of(words, indexes).label
        if kind is not None:
            yield "smalltalk", ()
            yield from (
                (name, ()) for name in (kind,) if name in ("greeting", "farewell", "thanks")
            )
        for match in indexes.smalltalk.find(words):
            if match.labels[0] in ("greeting", "farewell", "thanks"):
                yield match.labels[0], ()

    def _of_attachments(
        self, attachments: Sequence[Attachment]
    ) -> tuple[set[str], tuple[str, ...]]:
        facts: set[str] = set()
        signals: list[str] = []
        for each in attachments[:MOST_ATTACHMENTS]:
            name = PurePosixPath(each.name[:MOST_NAME].replace("\\", "/")).name
            suffix = name.rpartition(".")[2].casefold() if "." in name else ""
            facts |= {"attachment", *_kinds(each.mime.casefold()[:MOST_NAME], suffix)}
            spoken = split_words(" ".join(LETTERS.findall(name)))
            heard = self._targets.index.find(spoken)
            facts |= {f"file_{label}" for match in heard for label in match.labels}
            signals.append(f"attachment_mime:{each.mime[:MOST_NAME] or 'unknown'}")
        return facts, (("attachment_present", *dict.fromkeys(signals)) if signals else ())


@lru_cache(maxsize=256)
def _kinds(mime: str, suffix: str) -> frozenset[str]:
    told = {suffix, *LETTERS.findall(mime)}
    return frozenset(name for name, kinds in KINDS.items() if not told.isdisjoint(kinds))


def _ends(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    return f"{text[:MOST_CHARS]}\n{text[-MOST_CHARS // 6 :]}"
