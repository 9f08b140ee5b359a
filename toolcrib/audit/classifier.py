"""Classifier of statements: distinguishes descriptions of a tool from instructions to its reader.

Phrases do not generalise: an attacker can avoid them. A model therefore judges every sentence of a
specification, in two steps. A linear model over hashed words, 30 microseconds a sentence, passes
most plain sentences. A small transformer judges the rest; it was trained from the shipped encoder
(`scripts/fit_audit.py`): mean of the tokens' vectors, then a softmax over `AUDITED_KINDS`. It
judges a suspicious sentence again together with its neighbours.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolcrib.audit.findings import ToolText
from toolcrib.audit.normalise import normalise, words_of
from toolcrib.caches import BoundedMap, cached_texts
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.text import TWO_LETTERS

StatementKind: TypeAlias = Literal["description", "instruction", "preference", "harvest"]

AUDITED_KINDS: tuple[StatementKind, ...] = ("description", "instruction", "preference", "harvest")
"""Kinds of statements: describes the tool, instructs the reader, praises the tool over other tools,
or requests data that the tool does not need."""

MODEL_FOLDER = Path(__file__).parent / "model"
VECTOR_SCALE = 12.0
"""Factor on unit vectors before the softmax."""

# -- statements ------------------------------------------------------------------------------------

MAX_SENTENCE_CHARS = 400
_MIN_AUDITED_SENTENCE_CHARS = 8
_MIN_SENTENCE_WORDS = 2
_MIN_IDENTIFIER_WORDS = 3
_MAX_NEIGHBOUR_CHARS = 150
"""Characters of the neighbouring sentences in a passage."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]{0,3}\s|\n|(?<=[。！？।؟])")
_IDENTIFIER = re.compile(r"[^\W\d_][\w-]{8,88}")
_EDGE_CHARACTERS = " \t\r\n-*•#>|`\"'="
_UNJUDGED_PLACES = re.compile(
    r"(?:skill\..*|annotations(?!\.title$).*|category|id|name|server|version"
    r"|(?:success_examples|anti_patterns|tags|safety_tags|requires|provides|goes_with"
    r"|enrichment\.(?:examples|not_for|safety_tags|goes_with))\[\d+\])$"
)
"""Places that only the rules read: names; example requests and skills, which instruct by nature;
and annotations except the title, which only clients read."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a specification; `place` is as in a finding.

    `parameter` is the name of a parameter whose description starts with the sentence, as the name
    states the requested data. A parameter without a description has an empty sentence. `before`
    and `after` are the neighbouring sentences.
    """

    place: str
    sentence: str
    parameter: str = ""
    before: str = ""
    after: str = ""

    @property
    def text(self) -> str:
        """Text for the classifier: the sentence after its parameter's name."""
        label = f"{words_of(self.parameter).lower()}:" if self.parameter else ""
        return f"{label} {self.sentence}".strip()

    @property
    def passage(self) -> str:
        """Text with both neighbours, for a suspicious sentence."""
        return " ".join(filter(None, (self.before, self.text, self.after)))


def statements(texts: Sequence[ToolText]) -> Iterator[Statement]:
    """Sentences of a specification's texts, and names of parameters without a description."""
    described = {text.place for text in texts if not text.is_name}
    names = {text.place: text.text for text in texts if text.is_name}
    for text in texts:
        if text.is_name:
            is_parameter = text.is_property and text.place.startswith("input_schema")
            if is_parameter and f"{text.place}.description" not in described:
                yield Statement(text.place, "", text.text)
        elif not _UNJUDGED_PLACES.match(text.place):
            yield from _sentences(text, names.get(text.place.removesuffix(".description"), ""))


_MAX_CACHED_STATEMENTS = 20_000
"""Statements and texts with a cached result, as servers list the same tools repeatedly."""


@cached_texts(_MAX_CACHED_STATEMENTS, 1_000)
def _sentences_in(text: str) -> tuple[str, ...]:
    return tuple(sentences(_spell_out(normalise(text))))


def _sentences(text: ToolText, parameter: str) -> Iterator[Statement]:
    found = _sentences_in(text.text)
    for number, sentence in enumerate(found):
        if parameter or _is_judgeable(sentence):
            before = found[number - 1][-_MAX_NEIGHBOUR_CHARS:] if number else ""
            after = found[number + 1][:_MAX_NEIGHBOUR_CHARS] if number + 1 < len(found) else ""
            yield Statement(text.place, sentence, parameter, before, after)
            parameter = ""


def _spell_out(text: str) -> str:
    """The text; a single long identifier, such as a value of a parameter, is split into words."""
    words = words_of(text).split() if _IDENTIFIER.fullmatch(text) else []
    return " ".join(words).lower() if len(words) >= _MIN_IDENTIFIER_WORDS else text


def sentences(text: str) -> Iterator[str]:
    """Sentences of a normalised text; an overlong sentence is cut at its commas."""
    for part in _SENTENCE_END.split(text):
        sentence = part.strip(_EDGE_CHARACTERS)
        while len(sentence) > MAX_SENTENCE_CHARS:
            comma = max(
                sentence.rfind(mark, MAX_SENTENCE_CHARS // 4, MAX_SENTENCE_CHARS)
                for mark in (", ", "; ")
            )
            cut = comma + 1 if comma > 0 else MAX_SENTENCE_CHARS
            yield sentence[:cut].strip(_EDGE_CHARACTERS)
            sentence = sentence[cut:].strip(_EDGE_CHARACTERS)
        if sentence:
            yield sentence


def _is_judgeable(sentence: str) -> bool:
    """True if a sentence is long enough to judge; "Tool 12." and an address are not."""
    words = sum(TWO_LETTERS.search(part) is not None for part in sentence.split())
    return (words >= _MIN_SENTENCE_WORDS or not sentence.isascii()) and len(
        sentence
    ) >= _MIN_AUDITED_SENTENCE_CHARS


# -- the first step --------------------------------------------------------------------------------

BUCKETS = 1 << 16
_MAX_HASHED_TOKENS = 120

_TOKEN = re.compile(r"[^\W_]+(?:'[a-z]{1,3}\b)?|[^\w\s]")


def buckets(text: str) -> NDArray[np.int64]:
    """Hashed features of a statement: runs of up to three words, and pairs with a gap.

    Texts with letters beyond ASCII, whose words may have no spaces, have runs of letters too.
    """
    tokens = ["0" if token.isdigit() else token for token in _TOKEN.findall(text.lower())]
    tokens = tokens[:_MAX_HASHED_TOKENS]
    found = {*tokens, f"^{tokens[0]}"} if tokens else set[str]()
    found.update(f"{one} {two}" for one, two in pairwise(tokens))
    found.update(f"{one} _ {two}" for one, two in zip(tokens, tokens[2:], strict=False))
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    found.update(f"{one} {two} {three}" for one, two, three in triples)
    if not text.isascii():
        letters = text.lower()
        found.update(f"#{letters[at : at + size]}" for size in (2, 3) for at in range(len(letters)))
    hashes = {zlib.crc32(each.encode()) % BUCKETS for each in found}
    return np.fromiter(hashes, dtype=np.int64, count=len(hashes))


# -- the classifier --------------------------------------------------------------------------------

_SUSPICIOUS_LOG_ODDS = -4.0
"""Log odds from which on the second step also judges a sentence with its neighbours."""

USUAL_STATEMENTS = 6
"""Statements of a usual tool; a tool with fewer is judged as if it had this many."""

_FIRST_STEP_WEIGHT = 0.5
"""Weight of the first step's log odds; less than 1, as the second step reads the same words."""


class StatementClassifier:
    """Judges the statements of a tool by a model folder; safe for several threads.

    The folder holds the transformer as `BundledEncoder` reads it, and `head.npz`: `words`
    float16 [BUCKETS] with `offset` and `least` of the first step, `weights` float32
    [dimensions, kinds] and `bias` float32 [kinds] of the second. A statement with odds of at least
    `warns` of being no description gets a warning.
    """

    def __init__(self, folder: Path) -> None:
        self._encoder = BundledEncoder(folder)
        with np.load(folder / "head.npz") as head:
            self._words: FloatArray = head["words"].astype(np.float32)
            self._offset = float(head["offset"] - head["least"])
            self._weights: FloatArray = head["weights"]
            self._bias: FloatArray = head["bias"]
            self.warns = float(head["warns"])
        self._known: BoundedMap[tuple[str, str], FloatArray] = BoundedMap(_MAX_CACHED_STATEMENTS)
        self._lead_of = lru_cache(_MAX_CACHED_STATEMENTS)(self._first_step_log_odds)

    def judge(self, said: Sequence[Statement]) -> FloatArray:
        """Log odds of each kind for all statements of one tool: float32 [statements, 3].

        Odds of each of `AUDITED_KINDS`, except the first, against a description: the log odds of
        the second step plus a share of the first step's, less the logarithm of the number of
        statements (at least `USUAL_STATEMENTS`), as one of many looks odd by chance. A statement
        that either step passes has minus infinity.
        """
        odds = np.full((len(said), len(AUDITED_KINDS) - 1), -np.inf, dtype=np.float32)
        unknown: dict[tuple[str, str], list[int]] = {}
        leads: list[float] = []
        for row, statement in enumerate(said):
            key = statement.text, statement.passage
            known = self._known.get(key)
            if known is not None:
                odds[row] = known
            elif key in unknown:
                unknown[key].append(row)
            elif (lead := self._lead_of(statement.text)) >= 0:
                unknown[key] = [row]
                leads.append(lead)
        if unknown:
            second = self._second_step(list(unknown))
            judged = second + _FIRST_STEP_WEIGHT * np.array(leads, np.float32)[:, None]
            for (key, rows), each in zip(unknown.items(), judged, strict=True):
                odds[rows] = self._known[key] = each
        return odds - np.float32(np.log(max(len(said), USUAL_STATEMENTS)))

    def _first_step_log_odds(self, text: str) -> float:
        """Log odds of a statement by the first step; a statement below zero passes."""
        found = buckets(text)
        if not len(found):
            return -np.inf
        return float(self._words[found].sum() / np.sqrt(len(found)) + self._offset)

    def _second_step(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Log odds by the second step, for pairs of a sentence and its passage."""
        odds = self._odds([text for text, _ in pairs])
        suspected = odds.max(axis=1) >= _SUSPICIOUS_LOG_ODDS
        again = [row for row, pair in enumerate(pairs) if suspected[row] and len(set(pair)) > 1]
        if again:
            odds[again] = (odds[again] + self._odds([pairs[row][1] for row in again])) / 2
        odds[odds.max(axis=1) < _SUSPICIOUS_LOG_ODDS] = -np.inf
        return odds

    def _odds(self, texts: Sequence[str]) -> FloatArray:
        vectors = self._encoder.encode_documents(texts)
        logits: Any = vectors * VECTOR_SCALE @ self._weights + self._bias
        return logits[:, 1:] - logits[:, :1]


@cache
def shipped_classifier() -> StatementClassifier:
    """The classifier that ships in the package."""
    return StatementClassifier(MODEL_FOLDER)
