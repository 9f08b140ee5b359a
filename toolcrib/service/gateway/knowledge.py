"""The collections of documents that stand beside the tools of a store."""

from __future__ import annotations

from typing import Any

from toolcrib.crib import Crib
from toolcrib.records import Scope
from toolcrib.records.codec import as_json

__all__ = ["Knowledge"]

MAX_CHARS = 120


class Knowledge:
    """Answers questions out of a crib's collections; without passages there are none."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._stocked = {each.name for each, count in crib.list_collections() if count}

    def about(self, scope: Scope) -> str:
        """The collections in reach, in a line; empty where there are none."""
        if not self._stocked:
            return ""
        reach = self._crib.library.catalogue.within(scope, None)
        named = sorted((each for each in reach if each.name in self._stocked), key=lambda c: c.name)
        return "; ".join(
            f"{each.name} ({each.description[:MAX_CHARS]})" if each.description else each.name
            for each in named
        )

    def find(self, query: str, scope: Scope) -> dict[str, Any]:
        """The passages that answer a question, with how sure that is.

        Raises:
            QueryError: a question without words.
            StoreError: the store does not answer.
        """
        answer = as_json(self._crib.find_knowledge(query, scope=scope))
        kept = ("verdict", "confidence", "reason")
        shown = ("citation", "source", "collection", "text")
        passages = [{key: each[key] for key in shown} for each in answer["passages"]]
        return {**{key: answer[key] for key in kept if answer[key]}, "passages": passages}
