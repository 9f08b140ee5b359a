"""The language of a text, where it is long enough to tell."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

__all__ = ["LANGUAGES", "language_of"]

LANGUAGES = (
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he"),
    *("hi", "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro"),
    *("ru", "sk", "sl", "sr", "sv", "th", "tr", "uk", "ur", "vi", "zh"),
)
"""Those that are told apart, ISO 639-1; of all that the model knows many differ by a word."""

MIN_WORDS = 3
MIN_PROBABILITY = 0.7
MAX_CHARS = 1_000

_WORD = re.compile(r"[^\W\d_]{2,}")
_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_NO_PROSE = re.compile(r"`[^`]{0,500}`|(?<!\S)(?=\S*[/\\@_=<>{}\d])\S+")
"""Code, addresses and numbers, which are of no language."""


def language_of(text: str) -> str | None:
    """The language as ISO 639-1; None for less than three words, or where it cannot be told."""
    prose = _NO_PROSE.sub(" ", text[:MAX_CHARS])
    if len(_WORD.findall(prose)) < MIN_WORDS and len(_SPACELESS.findall(prose)) < MIN_WORDS:
        return None
    language, probability = _identifier().classify(prose)
    return language if probability >= MIN_PROBABILITY else None


@cache
def _identifier() -> Any:
    from importlib import import_module

    langid: Any = import_module("py3langid.langid")
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier
