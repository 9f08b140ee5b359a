"""Lexicon: English words for the words of other languages.

It lets a query in another language match tools by words (dictionary-based query translation,
Pirkola et al. 2001). `scripts/fit_lexicon.py` fits it.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

from toolcrib.encoders.language import likeliest_language
from toolcrib.errors import EncoderError
from toolcrib.text import SPACELESS, tokenise

STEMMERS = {
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "none",
    "ko": "none",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "none",
}
"""Snowball's stemmers by language."""

_HANGUL = re.compile("[\uac00-\ud7af]{3,}")


def terms(text: str, language: str) -> list[str]:
    """Stems of a text; for Korean words pairs of syllables, since particles follow the words."""
    found: list[str] = []
    for term in tokenise(text, STEMMERS[language]):
        if _HANGUL.fullmatch(term):
            found += map("".join, pairwise(term))
        elif not term.isdigit() and (len(term) > 1 or SPACELESS.search(term)):
            found.append(term)
    return found


class Lexicon:
    """English words by language and term, read from a file that `scripts/fit_lexicon.py` wrote.

    Raises:
        EncoderError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._words: dict[str, dict[str, str]] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise EncoderError(f"{path} cannot be read as a lexicon: {error}") from error

    def english(self, text: str) -> str:
        """English words for a text in another language, in its order; may be empty."""
        language = likeliest_language(text, self._words)
        words = self._words[language]
        found = (words[term] for term in terms(text, language) if term in words)
        return " ".join(dict.fromkeys(found))
