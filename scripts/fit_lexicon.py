"""Fit the lexicon of `toolcrib-multilingual`: English words for the words of other languages.

    python scripts/fit_lexicon.py FILE.jsonl ...

A line of a file has `lang`, `en` and `text`, as `scripts/parallel_texts.py` writes them; the
training lines of `data/multilingual` are read as well. The words of a text and of its translation
are aligned by IBM's model 1 (Brown et al. 1993, "The mathematics of statistical machine
translation"), and each term keeps the English word that it is aligned with most.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from multilingual_data import rows, training_lines
from ship_multilingual import FOLDER

from toolcrib.encoders.language import STEMMERS, terms
from toolcrib.text import STOPWORDS

ITERATIONS = 6
MAX_TERMS = 60
MIN_ALIGNED_TEXTS, MIN_SHARE = 1.5, 0.2
"""Texts in which a term stands for the English word; their share among the term's texts."""

_ENGLISH_WORD = re.compile("[a-z]{2,}")

Aligned = tuple[set[str], set[str]]
"""Terms of a text, and the English words of its translation."""


def aligned_texts(files: Sequence[Path]) -> dict[str, list[Aligned]]:
    """Terms of all lines, by language."""
    lines = (line for path in files for line in rows(path))
    found: dict[str, list[Aligned]] = defaultdict(list)
    for line in (*lines, *training_lines()):
        other = set(terms(line["text"], line["lang"]))
        english = set(_ENGLISH_WORD.findall(line["en"].lower()))
        if other and english and max(len(other), len(english)) < MAX_TERMS:
            found[line["lang"]].append((other, english))
    return found


def align(pairs: Sequence[Aligned]) -> dict[str, str]:
    """The English word of each term, where it has one that is no stop word."""
    terms_known: dict[str, int] = {}
    words_known = {"": 0}
    term, word, place = [], [], []
    for number, (other, english) in enumerate(pairs):
        for each in other:
            at = terms_known.setdefault(each, len(terms_known))
            # A term may stand for no word.
            for candidate in ("", *english):
                term.append(at)
                word.append(words_known.setdefault(candidate, len(words_known)))
                place.append(number)
    spans = np.array(place) * len(terms_known) + term
    _, span = np.unique(spans, return_inverse=True)
    keys = np.array(term, dtype=np.int64) * len(words_known) + word
    pair_keys, pair = np.unique(keys, return_inverse=True)
    pair_term, pair_word = np.divmod(pair_keys, len(words_known))
    chances = np.ones(len(pair_keys))
    counts = chances
    for _ in range(ITERATIONS):
        weights = chances[pair]
        counts = np.bincount(pair, weights / np.bincount(span, weights)[span])
        chances = counts / np.bincount(pair_word, counts)[pair_word]
    shares = counts / np.bincount(pair_term, counts)[pair_term]
    names, words = list(terms_known), list(words_known)
    found: dict[str, str] = {}
    for at in np.argsort(-counts):
        name, english = names[pair_term[at]], words[pair_word[at]]
        if counts[at] < MIN_ALIGNED_TEXTS or shares[at] < MIN_SHARE or name in found:
            continue
        found[name] = english
    return {n: w for n, w in found.items() if w and w != n and w not in STOPWORDS}


def main() -> None:
    """Fit; see the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=FOLDER / "lexicon.json")
    options = parser.parse_args()
    lines = aligned_texts(options.files)
    found = {language: align(lines[language]) for language in STEMMERS}
    content = json.dumps(found, ensure_ascii=False, sort_keys=True, indent=0)
    options.out.write_text(content + "\n", encoding="utf-8")
    print({language: (len(lines[language]), len(each)) for language, each in found.items()})


if __name__ == "__main__":
    main()
