"""What of the found passages goes to the agent: no text twice, and no more than fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from toolcrib.retrieval.passages import RankedPassage

__all__ = ["choose", "tokens_of"]

CHARS_A_TOKEN = 4
"""English prose; code and other scripts have fewer characters a token, so this is a guide."""

ALIKE = 0.85
"""Share of words in common from which a passage is taken for another version of one above it."""


def tokens_of(text: str) -> int:
    """About how many tokens a language model reads in a text; at least one."""
    return max(1, len(text) // CHARS_A_TOKEN)


def choose(
    found: Sequence[RankedPassage], per_collection: int, token_budget: int
) -> list[RankedPassage]:
    """The passages to show, in their order.

    At most so many of a collection; none that says again what one above it says; and as many as
    fit into the budget. The first is always kept, however long it is.
    """
    kept: list[RankedPassage] = []
    words: list[frozenset[str]] = []
    taken: Counter[str] = Counter()
    left = token_budget
    for each in found:
        own = frozenset(each.passage.text.casefold().split())
        cost = tokens_of(each.passage.text)
        if taken[each.passage.collection] == per_collection or (kept and cost > left):
            continue
        if any(_alike(own, other) for other in words):
            continue
        kept.append(each)
        words.append(own)
        taken[each.passage.collection] += 1
        left -= cost
    return kept


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= ALIKE * max(1, len(one | other))
