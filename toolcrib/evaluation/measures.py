"""How good a ranking is, query by query.

What the field has standard measures for comes from `ir-measures`, computed by trec_eval; its
conventions hold:

- `ndcg@k`: a tool's gain is its grade, discounted by log2(rank + 1), over that of the best
  possible ranking (Järvelin and Kekäläinen 2002, with linear gain).
- `recall@k`: relevant tools in the first k, over all relevant tools.
- `precision@k`: relevant tools in the first k, over k, also where fewer were returned.
- `hit@1`: whether the first tool is relevant. `mrr`: 1 / rank of the first relevant tool.

No library has these:

- `completeness@k`: 1 where all relevant tools are in the first k, else 0.
- `returned_precision`: relevant tools returned, over tools returned.
- `forbidden@k`: how many forbidden tools are in the first k; lower is better. Present for every
  query of a set in which any query forbids a tool.

An omitted query (nothing returned) scores zero. The tie rule: the order that a system returns
stands. A tool that is returned twice counts where it first stands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import import_extra

__all__ = ["integer_grades", "lower_is_better", "measure"]

GRADE_STEPS = 1000
"""Grades are told apart down to a thousandth: trec_eval knows whole numbers only."""


def measure(
    rankings: Sequence[Sequence[str]], queries: Sequence[LabelledQuery], ks: Sequence[int]
) -> list[dict[str, float]]:
    """What each ranking (ids, best first) is worth, by measure, in the order of `queries`.

    All values are in [0, 1], higher is better, but for `forbidden@k` (a count, lower is better).

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    unique = [list(dict.fromkeys(ranking)) for ranking in rankings]
    ours = _forbidden_too if any(query.forbidden for query in queries) else _ours
    return [
        values | ours(ranking, query, ks)
        for values, ranking, query in zip(
            _standard(unique, queries, ks), unique, queries, strict=True
        )
    ]


def lower_is_better(name: str) -> bool:
    """Whether a smaller value of the measure is the better one."""
    return name.startswith(("forbidden@", "set_size@"))


def integer_grades(queries: Sequence[LabelledQuery]) -> list[dict[str, int]]:
    """Grades as trec_eval reads them: whole numbers from 1 on.

    Fractions are multiplied by one number for all queries, which no measure here can tell:
    nDCG is a ratio of gains, the others ask whether a grade is positive.
    """
    fractions = {
        grade: Fraction(grade).limit_denominator(GRADE_STEPS)
        for query in queries
        for grade in query.relevant.values()
    }
    factor = min(math.lcm(*(f.denominator for f in fractions.values())), GRADE_STEPS)
    return [
        {
            tool: max(1, round(fractions[grade] * factor))
            for tool, grade in query.relevant.items()
            if grade > 0
        }
        for query in queries
    ]


def _ours(ranking: list[str], query: LabelledQuery, ks: Sequence[int]) -> dict[str, float]:
    relevant = {tool for tool, grade in query.relevant.items() if grade > 0}
    complete = {
        f"completeness@{k}": float(bool(relevant) and relevant <= set(ranking[:k])) for k in ks
    }
    found = len(relevant.intersection(ranking))
    return complete | {"returned_precision": found / len(ranking) if ranking else 0.0}


def _forbidden_too(ranking: list[str], query: LabelledQuery, ks: Sequence[int]) -> dict[str, float]:
    counts = {f"forbidden@{k}": float(len(query.forbidden & set(ranking[:k]))) for k in ks}
    return _ours(ranking, query, ks) | counts


def _standard(
    rankings: list[list[str]], queries: Sequence[LabelledQuery], ks: Sequence[int]
) -> list[dict[str, float]]:
    """The measures of trec_eval, which knows queries and tools by their places here.

    It re-sorts what it is given by score and, among equals, by id: scores that fall with the
    rank keep the system's own order.
    """
    measures = _trec_measures(ks)
    values = [dict.fromkeys(measures, 0.0) for _ in queries]
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for place, (ranking, grades) in enumerate(zip(rankings, integer_grades(queries), strict=True)):
        if ranking and grades:
            number = {tool: str(n) for n, tool in enumerate(dict.fromkeys([*ranking, *grades]))}
            qrels[str(place)] = {number[tool]: grade for tool, grade in grades.items()}
            run[str(place)] = {number[tool]: -float(rank) for rank, tool in enumerate(ranking)}
    names = {trec: name for name, trec in measures.items()}
    # Named, as another provider would step in for one that fails to load, with another nDCG.
    provider: Any = import_extra("ir_measures", "evaluation", "eval").pytrec_eval
    for found in provider.iter_calc(list(names), qrels, run) if run else ():
        values[int(found.query_id)][names[found.measure]] = float(found.value)
    return values


def _trec_measures(ks: Sequence[int]) -> Mapping[str, Any]:
    ir = import_extra("ir_measures", "evaluation", "eval")
    at_k = {"ndcg": ir.nDCG, "recall": ir.R, "precision": ir.P}
    standard = {f"{name}@{k}": trec @ k for name, trec in at_k.items() for k in ks}
    return standard | {"hit@1": ir.Success @ 1, "mrr": ir.RR}
