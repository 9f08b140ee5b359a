"""Spelling: a query's misspelt words, read as words of the tools in reach.

A word that neither the encoder's vocabulary nor any tool has is misspelt if a tool has a word one
slip away: a letter too few, too many or exchanged, or two neighbours in each other's place
(Damerau 1964). The first letter counts as right. Names keep their spelling: words with a capital
within the text, and parts of identifiers and addresses.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from string import ascii_lowercase

from toolcrib.encoders.base import WordBound
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.store.base import LegQuery, Store
from toolcrib.store.filters import Filter
from toolcrib.text import split_identifier

MIN_SPELT_CHARS = 5
"""Shorter words have too many neighbours."""

MIN_SPELT_STEM_CHARS = 4
MAX_SPELT_WORDS = 4
MAX_LENGTH_DIFFERENCE_CHARS = 2
"""Stems alone would read `basking` as `base`."""

SPELLING_SOURCES = 5
"""Tools that a word's spelling is looked up in."""

_WORD = re.compile(
    rf"(?:(?<![\w/@.:\\-])[a-z]|\A[A-Z])[a-z]{{{MIN_SPELT_CHARS - 1},30}}(?![\w/@:\\-]|\.\w)"
)


class Speller:
    """Reads misspelt words of a query as words of the tools in reach."""

    def __init__(self, store: Store, lexical: LexicalEncoder, dense: WordBound) -> None:
        self._store = store
        self._lexical = lexical
        self._dense = dense

    def corrections(self, text: str, where: Filter | None) -> dict[str, str]:
        """Misspelt words of a text, and the words of tools that they stand for.

        Raises:
            EncoderError: the encoder cannot be loaded.
        """
        words = dict.fromkeys(found[0].lower() for found in _WORD.finditer(text))
        unknown = [word for word in words if not self._dense.knows(word)][:MAX_SPELT_WORDS]
        if not unknown:
            return {}
        terms = [self._lexical.terms(word)[0] for word in unknown]
        vectors = [self._lexical.encode_terms([term]) for term in terms]
        known = self._store.search([LegQuery("lexical", each, 1, where) for each in vectors])
        found = {
            word: self._likeliest(word, term, where)
            for word, term, hits in zip(unknown, terms, known, strict=True)
            if not hits and len(term) >= MIN_SPELT_STEM_CHARS
        }
        return {word: right for word, right in found.items() if right}

    def _likeliest(self, misspelt: str, term: str, where: Filter | None) -> str:
        """Word for a misspelt one, of the tools that match it best; empty if none has any."""
        slips = _slips(term)
        # Letters are left out and swapped more often than others are typed in their place.
        for near in (slips, _substitutions(term) - slips):
            query = self._lexical.encode_terms(near)
            (hits,) = self._store.search([LegQuery("lexical", query, SPELLING_SOURCES, where)])
            words = Counter(
                word.lower()
                for record in self._store.retrieve([hit.id for hit in hits])
                for word in split_identifier(record.payload["spec"])
                if abs(len(word) - len(misspelt)) <= MAX_LENGTH_DIFFERENCE_CHARS
                and near.issuperset(self._lexical.terms(word))
            )
            if words:
                return min(words, key=lambda word: (-words[word], word))
        return ""


def correct(text: str, corrections: Mapping[str, str]) -> str:
    """A text with its misspelt words replaced."""
    if not corrections:
        return text
    return _WORD.sub(lambda found: corrections.get(found[0].lower(), found[0]), text)


def _slips(term: str) -> set[str]:
    """Terms with a letter more or less, or with two neighbours exchanged."""
    places = range(1, len(term))
    shorter = {term[:at] + term[at + 1 :] for at in places}
    swapped = {term[:at] + term[at + 1] + term[at] + term[at + 2 :] for at in places[:-1]}
    longer = {
        term[:at] + letter + term[at:]
        for at in range(1, len(term) + 1)
        for letter in ascii_lowercase
    }
    return (shorter | swapped | longer) - {term}


def _substitutions(term: str) -> set[str]:
    """Terms with another letter in one place."""
    return {
        term[:at] + letter + term[at + 1 :]
        for at in range(1, len(term))
        for letter in ascii_lowercase
    } - {term}
