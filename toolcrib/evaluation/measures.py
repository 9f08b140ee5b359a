"""Measures of a ranking, of its cost in prompt tokens, and of a confidence.

`MEASURES` is the only list: results, report and the command's table use it. Standard measures come
from `ir-measures`, computed by trec_eval, with its conventions: the gain of nDCG is a tool's grade
(linear; Järvelin and Kekäläinen 2002), and precision divides by k even if fewer tools were
returned.

An omitted query (nothing returned) scores zero. The tie rule: the order that a system returns
counts. A tool that is returned twice counts at its first place.

Measures of a confidence take arrays of one length, one entry per query, including unanswerable
ones: `confidence` (float, higher means more certain that a tool answers), `first` (the same, that
the first tool is right), `correct` (bool: the first tool is right) and `answerable` (bool: some
tool is right). Queries with equal confidence count with their mean, so results do not depend on the
order of queries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.encoders.wordpiece import WordPiece
from toolcrib.errors import UnknownToolError
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.extras import import_extra
from toolcrib.integrations.formats import export
from toolcrib.numerics import Floats
from toolcrib.records import ToolSpec
from toolcrib.records.definitions import DefinitionForm, in_short


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure: its computation (`trec` or `ours`, for one cut-off), and its places in reports.

    `cutoffs`: None for all requested ones, empty for a measure without a cut-off. `leading`: has a
    column in the report's first table. `in_command`: the name in the command's table, at the
    largest cut-off if this one is not measured.
    """

    name: str
    title: str
    meaning: str = ""
    trec: Callable[[Any, int], Any] | None = None
    ours: Callable[[LabelledQuery, list[str], int], float] | None = None
    cutoffs: tuple[int, ...] | None = None
    lower_is_better: bool = False
    leading: bool = False
    in_command: str = ""

    def names(self, ks: Sequence[int]) -> dict[str, int]:
        """Names in results, each with its cut-off; 0 for none."""
        if self.cutoffs == ():
            return {self.name: 0}
        return {f"{self.name}@{k}": k for k in (ks if self.cutoffs is None else self.cutoffs)}


def _complete(query: LabelledQuery, ranking: list[str], k: int) -> float:
    relevant = _relevant(query)
    return float(bool(relevant) and relevant <= set(ranking[:k]))


def _returned_precision(query: LabelledQuery, ranking: list[str], _k: int) -> float:
    return len(_relevant(query).intersection(ranking)) / len(ranking) if ranking else 0.0


def _forbidden_share(query: LabelledQuery, ranking: list[str], k: int) -> float:
    return float(len(query.forbidden & set(ranking[:k])))


def _relevant(query: LabelledQuery) -> set[str]:
    return {tool for tool, grade in query.relevant.items() if grade > 0}


FORBIDDEN_MEASURE = "forbidden"
"""Measured for every query of a set with any forbidden tool, and for no other set."""

MEASURES = (
    Measure(
        "ndcg",
        "nDCG",
        "Closeness of the first k tools to the best possible order; 1 is perfect.",
        trec=lambda ir, k: ir.nDCG @ k,
        leading=True,
        in_command="ndcg@10",
    ),
    Measure(
        "recall",
        "recall",
        "Share of the needed tools that are among the first k.",
        trec=lambda ir, k: ir.R @ k,
        leading=True,
        in_command="recall@5",
    ),
    Measure("precision", "precision", trec=lambda ir, k: ir.P @ k),
    Measure(
        "completeness",
        "completeness",
        "Share of queries with all needed tools among the first k.",
        ours=_complete,
        leading=True,
        in_command="completeness@10",
    ),
    Measure(
        "hit",
        "hit",
        "Share of queries whose first tool is right.",
        trec=lambda ir, k: ir.Success @ k,
        cutoffs=(1,),
        leading=True,
        in_command="hit@1",
    ),
    Measure(
        "mrr",
        "MRR",
        "Mean of 1 over the rank of the first right tool.",
        trec=lambda ir, _: ir.RR,
        cutoffs=(),
        leading=True,
        in_command="mrr",
    ),
    Measure("returned_precision", "returned precision", ours=_returned_precision, cutoffs=()),
    Measure(
        FORBIDDEN_MEASURE, "forbidden", ours=_forbidden_share, lower_is_better=True, leading=True
    ),
    # Taken by the runner, of systems that choose a set's size; after `@` stands the coverage.
    Measure("coverage", "coverage"),
    Measure("set_size", "set size", lower_is_better=True),
)

_BY_NAME = {one.name: one for one in MEASURES}

RANKING_CUTOFF = 10
"""Cut-off that ranks systems, if it was requested."""

GRADE_STEPS = 1000
"""Resolution of grades: trec_eval needs whole numbers."""


def measure(
    rankings: Sequence[Sequence[str]], queries: Sequence[LabelledQuery], ks: Sequence[int]
) -> list[dict[str, float]]:
    """Measures of each ranking (ids, best first), in the order of `queries`.

    All values are in [0, 1], higher is better, except `forbidden@k` (a count, lower is better).
    """
    unique = [list(dict.fromkeys(ranking)) for ranking in rankings]
    forbids = any(query.forbidden for query in queries)
    ours = [
        (name, one.ours, k)
        for one in MEASURES
        if one.ours is not None and (forbids or one.name != FORBIDDEN_MEASURE)
        for name, k in one.names(ks).items()
    ]
    standard = _standard(unique, queries, ks)
    return [
        values | {name: compute(query, ranking, k) for name, compute, k in ours}
        for values, ranking, query in zip(standard, unique, queries, strict=True)
    ]


def lower_is_better(name: str) -> bool:
    """True if a smaller value of the measure is better."""
    known = _BY_NAME.get(name.partition("@")[0])
    return known is not None and known.lower_is_better


def measure_title(name: str) -> str:
    """Name of a measure for people, `nDCG@10`."""
    base, at, k = name.partition("@")
    return (_BY_NAME[base].title if base in _BY_NAME else base) + at + k


def main_measure(measures: Iterable[str]) -> str:
    """`ndcg@10`, or nDCG at the largest measured cut-off; empty without any."""
    return at_measured_cutoff(f"ndcg@{RANKING_CUTOFF}", measures)


def at_measured_cutoff(name: str, measures: Iterable[str]) -> str:
    """A measure, or the same at the largest measured cut-off; empty without any."""
    base, at, wanted = name.partition("@")
    found = [each.partition("@")[2] for each in measures if each.partition("@")[:2] == (base, at)]
    best = max(found, key=lambda k: (k == wanted, int(k or 0)), default=None)
    return "" if best is None else f"{base}{at}{best}"


def integer_grades(queries: Sequence[LabelledQuery]) -> list[dict[str, int]]:
    """Grades for trec_eval: whole numbers from 1 on.

    Fractions are multiplied by one number for all queries, which changes no measure: nDCG is a
    ratio of gains, and the others test whether a grade is positive.
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


def _standard(
    rankings: list[list[str]], queries: Sequence[LabelledQuery], ks: Sequence[int]
) -> list[dict[str, float]]:
    """Measures of trec_eval, with positions as ids of queries and tools.

    trec_eval sorts by score and, for ties, by id: scores that fall with the rank keep the system's
    order.
    """
    ir = import_extra("ir_measures", "evaluation", "eval")
    names = {
        one.trec(ir, k): name
        for one in MEASURES
        if one.trec is not None
        for name, k in one.names(ks).items()
    }
    values = [dict.fromkeys(names.values(), 0.0) for _ in queries]
    qrels: dict[str, dict[str, int]] = {}
    run: dict[str, dict[str, float]] = {}
    for place, (ranking, grades) in enumerate(zip(rankings, integer_grades(queries), strict=True)):
        if ranking and grades:
            number = {tool: str(n) for n, tool in enumerate(dict.fromkeys([*ranking, *grades]))}
            qrels[str(place)] = {number[tool]: grade for tool, grade in grades.items()}
            run[str(place)] = {number[tool]: -float(rank) for rank, tool in enumerate(ranking)}
    # Name the provider: if it fails to load, another would compute another nDCG.
    provider: Any = ir.pytrec_eval
    for found in provider.iter_calc(list(names), qrels, run) if run else ():
        values[int(found.query_id)][names[found.measure]] = float(found.value)
    return values


class PromptTokens:
    """Tokens of tools' definitions in compact JSON, as an OpenAI client sends.

    The bundled encoder's WordPiece vocabulary (30,522 entries) counts them, without a network. A
    model's own tokenizer gives other counts, mostly lower: WordPiece makes a token of every bracket
    and quotation mark, while byte-pair vocabularies merge some. Shares of a whole registry hardly
    depend on the tokenizer.
    """

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._specs = {spec.id: spec for spec in tools}
        # A tool that the format cannot express costs nothing: no client sends it.
        self._of_tool = {
            spec.id: sum(map(_tokens, export([spec], "openai"))) for spec in self._specs.values()
        }
        # Count on demand: few of a registry's tools are in an answer.
        self._of_signature = cache(self._signature_tokens)
        self.whole_registry = sum(self._of_tool.values())

    def count(self, ids: Iterable[str], form: DefinitionForm = "schema") -> int:
        """Tokens of these tools together, with their schemas or as a gateway's signatures.

        Raises:
            UnknownToolError: there is no tool of this id.
        """
        count = self._of_signature if form == "signature" else self._of_tool.__getitem__
        try:
            return sum(map(count, ids))
        except KeyError as unknown:
            raise UnknownToolError(str(unknown.args[0])) from None

    def _signature_tokens(self, tool_id: str) -> int:
        return _tokens(in_short(self._specs[tool_id]))

    def saved_share(self, tokens: float) -> float:
        """Share of the whole registry's tokens that `tokens` save, in [0, 1]."""
        return 1.0 - tokens / self.whole_registry if self.whole_registry else 0.0


def _tokens(definition: dict[str, Any]) -> int:
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    # The tokenizer takes no lone surrogates.
    ids = _tokenizer().encode(text.encode("utf-8", "replace").decode("utf-8")).ids
    return len(ids) - len(_tokenizer().encode("").ids)


@cache
def _tokenizer() -> WordPiece:
    document = json.loads((MODELS_FOLDER / DEFAULT_MODEL / "tokenizer.json").read_bytes())
    # No limit: the encoder cuts texts, but a prompt pays for all tokens.
    return WordPiece(document, None)


# -- measures of the confidence --------------------------------------------------------------

Bools: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class GateMeasure:
    """Display of a gate measure: its title, and the choice of the best value, if any."""

    title: str
    best: Callable[[Sequence[float]], float] | None = None
    in_command: bool = False


GATE_MEASURES = {
    "auroc": GateMeasure("AUROC", max, in_command=True),
    "auprc": GateMeasure("AUPRC", max),
    "false_acceptance@95": GateMeasure("False acc. @95", min),
    "ece": GateMeasure("ECE", min, in_command=True),
    "ece_first": GateMeasure("ECE of the first", min),
    "brier": GateMeasure("Brier", min),
    "risk@80": GateMeasure("Risk @80", min),
    "correlation": GateMeasure("Correlation", max),
    "accepted": GateMeasure("Accepted"),
    "accepted_precision": GateMeasure("Precision of accepted", max),
}
"""Gate measures of reports, in order."""

RELIABILITY_BINS = 15
TRUE_ACCEPTANCE = 0.95
RISK_COVERAGE = 0.8


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """Mean confidence of queries with similar confidence, and the share of right ones."""

    confidence: float
    accuracy: float
    count: int


def gate_measures(
    confidence: Floats, correct: Bools, answerable: Bools, first: Floats | None = None
) -> dict[str, float]:
    """All measures of a confidence; empty without queries.

    Without `first`, the confidence also stands for the first tool.

    - `auroc`, `auprc` (average precision): answerable against unanswerable queries, and
      `false_acceptance@95`: the share of unanswerable queries accepted at the highest threshold
      that accepts 95 % of the answerable ones. Absent without both kinds.
    - `ece`: expected calibration error, 15 bins of equal mass (Naeini et al. 2015, Nixon et al.
      2019), and `brier`: mean squared error, of the confidence as the probability that any tool
      answers. `ece_first`: the same error of the first tool's probability; absent without one.
      Absent for values outside [0, 1].
    - `risk@80`: share of wrong first tools in the 80 % of queries with the surest first tool.
    - `correlation`: Pearson's, of `first` and `correct`. Absent if one is constant.
    """
    if not len(confidence):
        return {}
    sure = confidence if first is None else first
    found = _separation(confidence, answerable)
    if _is_probability(confidence):
        found["ece"] = expected_error(reliability_bins(confidence, answerable))
        found["brier"] = float(np.mean((confidence - answerable) ** 2))
    if first is not None and _is_probability(first):
        found["ece_first"] = expected_error(reliability_bins(first, correct))
    found["risk@80"] = _risk_at(RISK_COVERAGE, sure, correct)
    if np.ptp(sure) and correct.any() and not correct.all():
        found["correlation"] = float(np.corrcoef(sure, correct)[0, 1])
    return found


def verdict_measures(verdicts: Sequence[str], correct: Bools) -> dict[str, float]:
    """Shares of verdicts (`accepted`, `fallback`, `abstained`), and `accepted_precision`.

    `accepted_precision`: share of accepted queries with a right first tool, absent without any.
    """
    given = np.array(verdicts, dtype=np.str_)
    names = {"accepted": "accept", "fallback": "fallback", "abstained": "abstain"}
    shares = {name: float((given == verdict).mean()) for name, verdict in names.items()}
    accepted = given == "accept"
    if not accepted.any():
        return shares
    return shares | {"accepted_precision": float(correct[accepted].mean())}


def reliability_bins(
    confidence: Floats, correct: Bools, bins: int = RELIABILITY_BINS
) -> tuple[ReliabilityBin, ...]:
    """Up to `bins` bins of about equal count, by rising confidence."""
    order = np.argsort(confidence, kind="stable")
    success = _mean_among_equals(confidence, correct)
    parts = np.array_split(order, bins)
    return tuple(
        ReliabilityBin(float(confidence[part].mean()), float(success[part].mean()), len(part))
        for part in parts
        if len(part)
    )


def expected_error(bins: Sequence[ReliabilityBin]) -> float:
    """Expected calibration error: the mean distance of confidence and success."""
    gaps = sum(one.count * abs(one.confidence - one.accuracy) for one in bins)
    return gaps / sum(one.count for one in bins)


def _separation(confidence: Floats, answerable: Bools) -> dict[str, float]:
    if answerable.all() or not answerable.any():
        return {}
    sklearn = import_extra("sklearn.metrics", "evaluation", "eval")
    false_rate, true_rate, _ = sklearn.roc_curve(answerable, confidence, drop_intermediate=False)
    return {
        "auroc": float(sklearn.roc_auc_score(answerable, confidence)),
        "auprc": float(sklearn.average_precision_score(answerable, confidence)),
        "false_acceptance@95": float(false_rate[np.argmax(true_rate >= TRUE_ACCEPTANCE)]),
    }


def _is_probability(values: Floats) -> bool:
    return bool(values.min() >= 0 and values.max() <= 1)


def _risk_at(coverage: float, confidence: Floats, correct: Bools) -> float:
    """Share of wrong ones in the most certain `coverage` (El-Yaniv and Wiener 2010)."""
    order = np.argsort(-confidence, kind="stable")
    answered = np.arange(1, len(order) + 1)
    risk = np.cumsum(1.0 - _mean_among_equals(confidence, correct)[order]) / answered
    return float(risk[np.searchsorted(answered / len(order), coverage)])


def _mean_among_equals(confidence: Floats, correct: Bools) -> Floats:
    _, group = np.unique(confidence, return_inverse=True)
    return (np.bincount(group, weights=correct) / np.bincount(group))[group]
