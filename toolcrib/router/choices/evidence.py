"""Evidence: facts of a turn by probes and cues, for rules and heuristics."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from toolcrib.context.cues import Cues
from toolcrib.context.rules import follow_up_score, meta_of, smalltalk_of
from toolcrib.records import Attachment, Turn
from toolcrib.records.turns import MAX_ATTACHMENTS
from toolcrib.router.choices.allowlist import Allowlist
from toolcrib.router.choices.targets import Targets
from toolcrib.router.probes import MAX_FILE_NAME_CHARS, file_kind, file_words, find_sql
from toolcrib.text import TextWords, head_and_tail, split_words

MAX_FACT_TEXT_CHARS, FACT_TEXT_HEAD_CHARS, FACT_TEXT_TAIL_CHARS = 3_000, 3_000, 500
"""Longer texts are cut to head and tail."""

MAX_SHORT_WORDS = 2
MAX_FEW_AMOUNTS = 2
COURTESIES = ("greeting", "farewell", "thanks")

_AMOUNT = re.compile(
    r"(?:[€$£¥₹]|\b(?:usd|eur|gbp|brl|mxn|chf|r\$))\s?+\d[\d.,]*+"
    r"|(?<![\d.,])\d[\d.,]*+\s?+(?:[€$£¥₹]|(?:usd|eur|euros?|gbp|brl|reais|mxn|pesos|chf|dollars?|pounds)\b)"
    r"|(?<!\d)\d++[.,]\d\d\b",
    re.IGNORECASE,
)
_CURRENCY = re.compile(
    r"[€$£¥₹]|\b(?:usd|eur|euros?|gbp|brl|reais|mxn|pesos|chf|dollars?|pounds)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class AgentEvidence:
    """Facts of one turn, and `signals`: findings of the probes in short words.

    `tables` and `columns` are on the allowlist. `before`: evidence of the last turn with content of
    its own; `reference_probability`: that this turn refers to that turn. `late`: some probes were
    skipped for lack of time.
    """

    facts: frozenset[str]
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    before: AgentEvidence | None = None
    reference_probability: float = 0.0
    late: bool = False

    def with_hits(self, hits: int, fit: float | None, least: float) -> AgentEvidence:
        """Evidence with the number of `hits` in documents.

        `fit`: the probability that any collection fits, None if unknown; hits are weak below
        `least`.
        """
        if not hits:
            return self
        weak = fit is not None and fit < least
        signals = (
            *self.signals,
            *(() if weak else ("rag_probe_hit",)),
            f"rag_hits:{hits}",
            *(() if fit is None else (f"rag_min_score:{least:.2f}",)),
        )
        fact = "weak_hits" if weak else "hits"
        return replace(self, facts=self.facts | {fact}, signals=signals)


@dataclass(frozen=True, slots=True, eq=False)
class EvidenceReader:
    """Reader of turns; reads no store and no file."""

    targets: Targets
    allowlist: Allowlist
    cues: Cues
    now: Callable[[], float] = time.monotonic

    def read(self, turn: Turn, time_s: float = math.inf) -> AgentEvidence:
        """Evidence of a turn, and of the last turn before with content of its own.

        After `time_s` no probe starts: neither the search for SQL, nor the reading of the history.
        """
        until = self.now() + time_s
        own = self._read_text(turn.text, turn.attachments, until)
        for message in reversed(turn.history):
            if message.role != "user" or not message.content.strip():
                continue
            if self.now() >= until:
                return replace(own, late=True)
            before = self._read_text(message.content, (), until)
            # Small talk gives a follow-up nothing to refer to.
            if "smalltalk" not in before.facts and before.facts:
                probability = follow_up_score(split_words(_cut(turn.text)), self.cues)
                known = {"facts": own.facts | {"follow_up"}, "late": own.late or before.late}
                return replace(own, before=before, reference_probability=probability, **known)
        return own

    def _read_text(
        self, text: str, attachments: Sequence[Attachment], until: float
    ) -> AgentEvidence:
        text = _cut(text)
        words = split_words(text)
        late = self.now() >= until
        sql = None if late else find_sql(text)
        tables, columns = self.allowlist.named_in(words)
        if sql is not None:
            in_sql = self.allowlist.keep(sql.tables, sql.columns)
            tables = tuple(dict.fromkeys((*in_sql[0], *tables)))
            columns = tuple(dict.fromkeys((*in_sql[1], *columns)))
        cues = {label for match in self.targets.index.find(words) for label in match.labels}
        smalltalk, meta = self._smalltalk_facts(words)
        amounts = len(_AMOUNT.findall(text)) if any(map(str.isdigit, text)) else 0
        found = {
            "tables": tables,
            "columns": columns,
            "sql": sql,
            "money": amounts and _CURRENCY.search(text),
            "amounts": amounts > MAX_FEW_AMOUNTS,
            "short": sum(word[0].isalnum() for word in words.bare) <= MAX_SHORT_WORDS,
            "question": "?" in text or "¿" in text,
        }
        facts = {*cues, *smalltalk, *(name for name, there in found.items() if there)}
        file_facts, file_signals = self._read_attachments(attachments)
        signals = (
            *file_signals,
            *(("sql_probe_true",) if sql is not None else ()),
            *(f"allowlist:{name}" for name in tables[:3]),
            *meta,
        )
        return AgentEvidence(frozenset(facts | file_facts), tables, columns, signals, late=late)

    def _smalltalk_facts(self, words: TextWords) -> tuple[set[str], tuple[str, ...]]:
        """Facts of small talk, and signals of a question about the assistant."""
        if not any(word[0].isalnum() for word in words.bare):
            return {"empty"}, ()
        indexes = self.cues.indexes
        meta, kind = meta_of(words, indexes), smalltalk_of(words, indexes).label
        said = (match.labels[0] for match in indexes.smalltalk.find(words))
        facts = {name for name in (kind, *said) if name in COURTESIES}
        facts |= {"meta"} if meta else set()
        return facts | ({"smalltalk"} if kind is not None else set()), meta

    def _read_attachments(
        self, attachments: Sequence[Attachment]
    ) -> tuple[set[str], tuple[str, ...]]:
        facts: set[str] = set()
        signals: list[str] = []
        for each in attachments[:MAX_ATTACHMENTS]:
            kind = file_kind(each)
            facts |= {"attachment"} if kind is None or not kind.fact else {"attachment", kind.fact}
            found = self.targets.index.find(split_words(file_words(each)))
            facts |= {f"file_{label}" for match in found for label in match.labels}
            signals.append(f"attachment_mime:{each.mime[:MAX_FILE_NAME_CHARS] or 'unknown'}")
        return facts, (("attachment_present", *dict.fromkeys(signals)) if signals else ())


def _cut(text: str) -> str:
    return head_and_tail(text, MAX_FACT_TEXT_CHARS, FACT_TEXT_HEAD_CHARS, FACT_TEXT_TAIL_CHARS)
