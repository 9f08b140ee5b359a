"""Measures of a ranking, query by query, and its cost in prompt tokens.

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

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS
from toolcrib.errors import UnknownToolError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import import_extra
from toolcrib.integrations.formats import export
from toolcrib.records import ToolSpec

__all__ = ["PromptTokens", "integer_grades", "lower_is_better", "main_measure", "measure"]

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


def main_measure(measures: Mapping[str, object]) -> str:
    """`ndcg@10`, or nDCG at the largest cut-off that there is; empty when there is none."""
    cutoffs = [int(name.removeprefix("ndcg@")) for name in measures if name.startswith("ndcg@")]
    if not cutoffs:
        return ""
    return "ndcg@10" if "ndcg@10" in measures else f"ndcg@{max(cutoffs)}"


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


class PromptTokens:
    """Tokens of tools' definitions, as an OpenAI client sends them, in compact JSON.

    They are counted with the bundled encoder's WordPiece vocabulary (30,522 entries), which
    needs no network. A model's own tokenizer gives other counts, most often lower ones: WordPiece
    makes a token of every bracket and quotation mark, where byte-pair vocabularies merge some.
    Shares of a whole registry hardly depend on it.
    """

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        specs = list(tools)
        definitions = [_definition(spec) for spec in specs]
        encoded = _tokenizer().encode_batch_fast(definitions, add_special_tokens=False)
        self._of_tool = {spec.id: len(one.ids) for spec, one in zip(specs, encoded, strict=True)}
        self.whole_registry = sum(self._of_tool.values())

    def count(self, ids: Iterable[str]) -> int:
        """Tokens of these tools together.

        Raises:
            UnknownToolError: there is no tool of this id.
        """
        try:
            return sum(self._of_tool[id] for id in ids)
        except KeyError as unknown:
            raise UnknownToolError(str(unknown.args[0])) from None

    def saved(self, tokens: float) -> float:
        """The share of the whole registry's tokens that `tokens` leave out, in [0, 1]."""
        return 1.0 - tokens / self.whole_registry if self.whole_registry else 0.0


def _definition(spec: ToolSpec) -> str:
    text = json.dumps(export([spec], "openai")[0], ensure_ascii=False, separators=(",", ":"))
    # Lone surrogates are no text that a tokenizer takes.
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(MODELS / DEFAULT_MODEL / "tokenizer.json"))
    # The encoder reads no further than some tokens; a prompt's bill does.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
