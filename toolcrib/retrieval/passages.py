"""Retrieval of passages: dense and lexical leg, fused."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from toolcrib.records import Passage
from toolcrib.retrieval.fusion import LegScores, PassageWeights, by_score
from toolcrib.retrieval.legs import EncodedQuery, Legs
from toolcrib.store.base import Store
from toolcrib.store.filters import Filter
from toolcrib.store.payload import read_passage

MIN_LEG_PASSAGES = 50
"""Minimum depth of a leg: all candidates decide the collections, not only shown passages."""

MAX_SCALE_TERMS = 6
"""Maximum number of terms in a question's BM25 scale: no passage has most words of a report."""

MAX_CODES = 16
"""Codes of a question, at most; a text with more of them is pasted, such as a log."""

MIN_CODE_DIGITS, MIN_NUMBER_DIGITS = 3, 6
"""Digits of a code with letters, and without. Common names have fewer: `arc42`, `IPv6`."""

CODE_WEIGHT = 0.5
"""Part of the distance to 1 by which a passage with all codes of a question rises."""

_WORD = re.compile(r"\w+(?:[./-]+\w+)*", re.ASCII)
_SHORT_CODE = re.compile(r"\A(?:[a-z]+-|[a-z])\d\d\Z")
_QUANTITY = re.compile(r"[\d./-]+[a-z]{0,2}(?:/[a-z]+)?")


@dataclass(frozen=True, slots=True)
class RankedPassage:
    """Passage, its fused score in [0, 1], and its scores by leg."""

    passage: Passage
    score: float
    legs: LegScores

    @property
    def id(self) -> str:
        """Id of the passage."""
        return self.passage.id


class PassageRetriever:
    """Retriever over a store of passages."""

    def __init__(self, store: Store, weights: PassageWeights) -> None:
        self._store = store
        self._weights = weights

    def find(self, query: EncodedQuery, k: int, where: Filter | None = None) -> list[RankedPassage]:
        """Find the `k` passages that fit best, best first; ids break ties."""
        # A passage answers a whole question, not a clause. Words count once: logs repeat words.
        once = replace(query.lexical, values=np.minimum(query.lexical.values, 1))
        whole = replace(query, clauses=None, lexical=once)
        legs = Legs(self._store, whole, where, where, max(MIN_LEG_PASSAGES, k), hints=False)
        candidates = legs.candidates()
        scale = self._word_scale(query, candidates.values())
        codes = codes_of(query.text)
        # The texts of all candidates show the codes; without a code only the best are read.
        passages = self._passages_at(candidates) if codes else {}
        code_shares = _shares_of_codes(codes, passages)
        fused = {
            point: self._fused_score(scores, scale, code_shares.get(point, 0.0))
            for point, scores in candidates.items()
        }
        # Passages that tie with the last are fetched too: the id breaks ties, not the point.
        least = min(sorted(fused.values(), reverse=True)[:k], default=0.0)
        wanted = [point for point, score in fused.items() if score >= least]
        passages = passages or self._passages_at(wanted)
        found = [
            RankedPassage(passages[point], fused[point], candidates[point])
            for point in wanted
            if point in passages
        ]
        return by_score(found)[:k]

    def _word_scale(self, query: EncodedQuery, candidates: Iterable[LegScores]) -> float:
        """BM25 score with the full lexical share; at least that of every candidate."""
        terms = min(max(1, query.lexical.indices.size), MAX_SCALE_TERMS)
        return max(self._weights.term_scale * terms, *(each.lexical for each in candidates), 0.0)

    def _passages_at(self, points: Iterable[int]) -> dict[int, Passage]:
        records = self._store.retrieve(list(points))
        return {record.id: read_passage(record.payload) for record in records}

    def _fused_score(self, scores: LegScores, word_scale: float, code_share: float) -> float:
        """Convex score; the lexical part is the square of BM25's share of its scale.

        The square lowers passages that share only a few words with a question. With the bound of
        tools (`1 - exp(-bm25 / scale)`) the fusion fell below the dense leg on one of two
        development sets. Codes raise the score, as only they differ among passages that are alike
        in all else, such as the rows of a price list.
        """
        share = self._weights.lexical
        score = (1 - share) * scores.dense + share * (scores.lexical / word_scale) ** 2
        score = min(1.0, max(0.0, score))
        return score + CODE_WEIGHT * code_share * (1 - score)


def codes_of(text: str) -> set[str]:
    """Codes in a text, casefolded: `KX-2210/B`, `E17` or `work_mem`, but no quantity as `401k`.

    Empty for a text with more than `MAX_CODES`.
    """
    codes = {word for word in map(str.casefold, _WORD.findall(text)) if _is_code(word)}
    return codes if len(codes) <= MAX_CODES else set()


def _is_code(word: str) -> bool:
    digits = sum(map(str.isdigit, word))
    if _QUANTITY.fullmatch(word):
        return digits >= MIN_NUMBER_DIGITS and (word.isdecimal() or "-" in word)
    is_short = _SHORT_CODE.fullmatch(word) is not None
    return is_short or digits >= MIN_CODE_DIGITS or _is_name(word)


def _is_name(word: str) -> bool:
    return "_" in word.strip("_") and sum(map(str.isdigit, word)) < MIN_CODE_DIGITS


def _shares_of_codes(codes: set[str], passages: Mapping[int, Passage]) -> dict[int, float]:
    """Share of the codes that each passage holds in its text or title, by point.

    A name such as `work_mem` counts in titles alone: many texts use it, and few are about it.
    """
    titles = {point: "\n".join(each.title).casefold() for point, each in passages.items()}
    texts = {point: f"{titles[point]}\n{each.text.casefold()}" for point, each in passages.items()}
    shares = dict.fromkeys(texts, 0.0)
    for code in codes:
        # `KX-2210` is held by `KX-2210/B`, but not by `KX-22101`.
        whole = re.compile(rf"(?<!\w){re.escape(code)}(?!\w)", re.ASCII)
        for point, text in (titles if _is_name(code) else texts).items():
            if whole.search(text):
                shares[point] += 1 / len(codes)
    return shares
