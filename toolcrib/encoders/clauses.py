"""The clauses of a query: `book a table, then text Ann` asks for two things."""

from __future__ import annotations

import re

__all__ = ["MAX_CLAUSES", "clauses"]

MAX_CLAUSES = 6
"""Each costs a search of the dense leg; of more, the longest are kept."""

_CUT = re.compile(
    # One mark and one space at a time: runs of either must not cost the square of their length.
    r"[.;:?!,]\s|\n|\s(?=(?:and|then|also|after|afterwards|before|but|so|plus|finally)\s)",
    re.IGNORECASE,
)


def clauses(text: str) -> list[tuple[int, int]]:
    """Start and end of each clause, in order, without the white space around it.

    Cut at punctuation followed by white space and before conjunctions: no grammar, which would
    cost more than the encoder. What a cut tears apart is still whole in the query's own vector.
    """
    ends = [found.end() for found in _CUT.finditer(text)]
    spans = [
        (start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
        for start, end in zip([0, *ends], [*ends, len(text)], strict=True)
        if (part := text[start:end]).strip()
    ]
    if len(spans) <= MAX_CLAUSES:
        return spans
    longest = sorted(spans, key=lambda span: span[0] - span[1])[:MAX_CLAUSES]
    return sorted(longest)
