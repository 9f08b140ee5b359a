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
    `coverage`. Of `k` tools those are left out whose probability is below `least`, but never
    the first nor one called by its name. Where None, both are as the settings say (`tools`).
    `scope` is what the caller may use; `where` narrows further. Without `gate` comes the
    ranking as it is, with its verdict: nothing is withheld or left out by the settings, and no
    general tool added. `explain` adds what each leg contributed, and which words matched nothing.
    `needs`: one line for each tool that is wished for; each is searched and judged by itself,
    within the same options.
    """

    k: int | Literal["auto"] = 5
    scope: Scope | None = None
    where: FilterField | None = None
    gate: bool = True
    coverage: float | None = None
    least: float | None = None
    explain: bool = False
    needs: Sequence[str] | None = None


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` but `k`, as keywords of `find_tools`."""

    scope: Scope | None
    where: Filter | None
    gate: bool
    coverage: float | None
    least: float | None
    explain: bool
    needs: Sequence[str] | None
