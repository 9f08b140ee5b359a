"""Finds training texts that say what a held-out text says (MinHash, Broder 1997)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from toolcrib.extras import import_extra

__all__ = ["HeldOut", "clusters"]

PERMUTATIONS = 64
THRESHOLD = 0.7
"""Jaccard similarity of word shingles from which two texts count as the same."""

MISSES_MATTER = (0.1, 0.9)
"""What a false hit and a miss of the index weigh: hits are looked at again, misses are lost."""

SHINGLE = 3
_WORD = re.compile(r"\w+")


class HeldOut:
    """An index of texts that training must not have seen.

    Raises:
        MissingExtraError: datasketch is not installed.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._datasketch = import_extra("datasketch", "the search for near duplicates", "train")
        self._index: Any = self._datasketch.MinHashLSH(
            threshold=THRESHOLD,
            num_perm=PERMUTATIONS,
            weights=MISSES_MATTER,
        )
        self._hashes: dict[str, Any] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Take a text in; one that is there already changes nothing."""
        if text not in self._hashes:
            self._hashes[text] = self._hash(text)
            self._index.insert(text, self._hashes[text])

    def like(self, text: str) -> list[str]:
        """The texts held that say the same, sorted."""
        hashed = self._hash(text)
        found: Sequence[str] = self._index.query(hashed)
        # The index errs both ways; the estimate from all permutations decides.
        return sorted(o for o in found if self._hashes[o].jaccard(hashed) >= THRESHOLD)

    def __contains__(self, text: str) -> bool:
        return bool(self.like(text))

    def _hash(self, text: str) -> Any:
        hashed = self._datasketch.MinHash(num_perm=PERMUTATIONS, seed=0)
        hashed.update_batch([run.encode("utf-8", "surrogatepass") for run in _shingles(text)])
        return hashed


def clusters(texts: Sequence[str]) -> list[list[int]]:
    """Places of the texts, those that say the same (through any chain) together, in order."""
    held = HeldOut()
    leaders: dict[str, str] = {}

    def leader(text: str) -> str:
        while leaders[text] != text:
            leaders[text] = leaders[leaders[text]]
            text = leaders[text]
        return text

    for text in dict.fromkeys(texts):
        leaders[text] = text
        for other in held.like(text):
            leaders[leader(other)] = leader(text)
        held.add(text)
    groups: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        groups.setdefault(leader(text), []).append(place)
    return list(groups.values())


def _shingles(text: str) -> set[str]:
    """Runs of three words, the whole text where it is shorter."""
    words: list[str] = _WORD.findall(text.casefold())
    runs = range(max(1, len(words) - SHINGLE + 1))
    return {" ".join(words[start : start + SHINGLE]) for start in runs}
