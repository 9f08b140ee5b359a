"""Search options: how many tools are asked for, out of which, and how they are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from toolcrib.records import Scope
from toolcrib.store.filters import Filter, FilterField

__all__ = ["SearchKeywords", "SearchOptions"]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What a search takes beside its query; the library, the client, the CLI and HTTP share it.

    `k` tools, or with `auto` as many as hold all that are needed with the probability
    `coverage` (0.95 where none is given). `scope` is what the caller may use; `where` narrows
    further. Without `gate` the verdict is given, but nothing is withheld for it. `explain`
    adds what each leg contributed, and which words matched nothing. `needs`: one line for each
    tool that is wished for; each is searched and judged by itself, within the same options.
    """

    k: int | Literal["auto"] = 5
    scope: Scope | None = None
    where: FilterField | None = None
    gate: bool = True
    coverage: float | None = None
    explain: bool = False
    needs: Sequence[str] | None = None


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` but `k`, as keywords of `find_tools`."""

    scope: Scope | None
    where: Filter | None
    gate: bool
    coverage: float | None
    explain: bool
    needs: Sequence[str] | None
