"""Choices: labelled turns, the labels chosen for each, and their accuracy and calibration.

One measure for everything that chooses labels for a turn: one of several (questions, agents), or
any number (capabilities).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import FileRow, NonEmpty, Split, read_rows, without_refusals
from toolcrib.evaluation.decisions import Reliability
from toolcrib.evaluation.measures import expected_error, reliability_bins
from toolcrib.records import Refusal, Turn
from toolcrib.records.codec import in_words

NO_LABEL = "(none)"
"""Name of no label in a confusion matrix."""


@dataclass(frozen=True, slots=True)
class LabelledTurn:
    """Turn and its right labels; `config`: a file that its row names."""

    id: str
    turn: Turn
    right: frozenset[str]
    split: str = "test"
    config: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """Labels chosen for a turn.

    `probabilities` of being right, by label: of the chosen one, or of all if there may be several.
    Empty if unknown. `degraded` names stages that failed or were late.
    """

    labels: frozenset[str]
    probabilities: Mapping[str, float] = field(default_factory=dict[str, float])
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelResult:
    """Precision and recall of one label that `turns` have; None for a division by zero."""

    turns: int
    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class ChoiceResult:
    """Measures of the choices of a set.

    `accuracy`: share of turns with exactly the right labels. `f1`: over all pairs of turn and
    label, 2 · right / (chosen + wanted). `confusion`: counts by right label, then by chosen one;
    with several labels a turn, right ones count on the diagonal, and missing ones against
    superfluous ones. `calibration`: None without probabilities. `degraded`: turns by degraded
    stage. `wrong`: ids of turns without exactly the right labels.
    """

    name: str
    split: str
    turns: int
    accuracy: float
    f1: float
    labels: Mapping[str, LabelResult]
    confusion: Mapping[str, Mapping[str, int]]
    calibration: Reliability | None
    brier: float | None
    degraded: Mapping[str, int]
    wrong: tuple[str, ...]


class _TurnRow(FileRow):
    """Labelled turn in a file: its labels by kind, and the fields of a turn.

    A file may hold labels of any shape for other measurements.
    """

    model_config = FileRow.model_config | ConfigDict(extra="allow")

    id: NonEmpty
    split: Split = "test"
    config: str = ""
    labels: dict[str, Any]


_LABELS: TypeAdapter[str | tuple[str, ...] | None] = TypeAdapter(str | tuple[str, ...] | None)


def read_labelled(
    path: Path,
    kind: str,
    split: str | None = None,
    known: Callable[[str], Collection[str]] = lambda _: (),
) -> tuple[LabelledTurn, ...]:
    """Read the turns of one split with labels of a `kind` from a JSON Lines file.

    `known` gives the only valid labels of a row, by its `config`; empty: any label. A row has the
    fields of a turn (`text`, `history`, `attachments`, ...), `id`, `split`,
    `labels: {KIND: label or list of labels}`, and `config` if questions have several files.

    Raises:
        SourceError: the file cannot be read, rows are wrong, or no row has such a label.
    """
    turns = (
        row if isinstance(row, Refusal) else _labelled_turn(path, *row, kind, known)
        for row in read_rows(path, _TurnRow)
        if isinstance(row, Refusal) or (kind in row[1].labels and split in (None, row[1].split))
    )
    found = without_refusals(path, turns)
    if not found:
        of_split = "" if split is None else f" and the split {split!r}"
        raise SourceError(str(path), "", f"no row has `labels: {{{kind}: ...}}`{of_split}")
    return tuple(found)


def _labelled_turn(
    path: Path, place: str, row: _TurnRow, kind: str, known: Callable[[str], Collection[str]]
) -> LabelledTurn | Refusal:
    try:
        given = _LABELS.validate_python(row.labels[kind])
    except ValidationError:
        return Refusal(str(path), place, f"labels.{kind}: it is neither a label nor a list of them")
    labels = (given,) if isinstance(given, str) else given or ()
    names = known(row.config)
    if names and (unknown := [label for label in labels if label not in names]):
        message = f"labels.{kind}: {unknown[0]!r} is none of {', '.join(names)}"
        return Refusal(str(path), place, message)
    extra = row.model_extra or {}
    fields = {name: extra[name] for name in Turn.model_fields if name in extra}
    try:
        turn = Turn.model_validate(fields)
    except ValidationError as error:
        return Refusal(str(path), place, in_words(error, "the turn"))
    return LabelledTurn(row.id, turn, frozenset(labels), row.split, row.config)


def measure_choices(
    name: str,
    turns: Sequence[LabelledTurn],
    choose: Callable[[Turn], Choice],
    *,
    split: str = "",
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> ChoiceResult:
    """Choose labels for every turn, and measure the choices; `progress` gets done and total."""
    made: list[Choice] = []
    for done, each in enumerate(turns, start=1):
        made.append(choose(each.turn))
        progress(done, len(turns))
    pairs = list(zip(turns, made, strict=True))
    right = sum(len(each.right & choice.labels) for each, choice in pairs)
    named = sum(len(each.right) + len(choice.labels) for each, choice in pairs)
    wrong = tuple(each.id for each, choice in pairs if each.right != choice.labels)
    calibration, brier = _calibration(pairs)
    return ChoiceResult(
        name,
        split,
        len(turns),
        1 - len(wrong) / len(turns),
        2 * right / named if named else 1.0,
        _by_label(pairs),
        _confusion(pairs),
        calibration,
        brier,
        dict(Counter(part for _, choice in pairs for part in choice.degraded)),
        wrong,
    )


Pairs = Iterable[tuple[LabelledTurn, Choice]]


def _by_label(pairs: Pairs) -> dict[str, LabelResult]:
    wanted, chosen, right = Counter[str](), Counter[str](), Counter[str]()
    for turn, choice in pairs:
        wanted.update(turn.right)
        chosen.update(choice.labels)
        right.update(turn.right & choice.labels)
    return {
        label: LabelResult(
            wanted[label],
            right[label] / chosen[label] if chosen[label] else None,
            right[label] / wanted[label] if wanted[label] else None,
        )
        for label in sorted(wanted | chosen)
    }


def _confusion(pairs: Pairs) -> dict[str, dict[str, int]]:
    """Counts by right label, then by the label chosen in its place."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for turn, choice in pairs:
        missed, extra = turn.right - choice.labels, choice.labels - turn.right
        for label in turn.right & choice.labels:
            counts[label][label] += 1
        if not turn.right and not choice.labels:
            counts[NO_LABEL][NO_LABEL] += 1
        elif missed or extra:
            for label in missed or {NO_LABEL}:
                counts[label].update(extra or {NO_LABEL})
    return {label: dict(sorted(row.items())) for label, row in sorted(counts.items())}


def _calibration(pairs: Pairs) -> tuple[Reliability | None, float | None]:
    """Calibration of probabilities, and their mean squared error (Brier)."""
    known = [
        (probability, label in turn.right)
        for turn, choice in pairs
        for label, probability in choice.probabilities.items()
    ]
    if not known:
        return None, None
    probabilities, success = (np.array(column) for column in zip(*known, strict=True))
    bins = reliability_bins(probabilities, success)
    brier = float(np.mean((probabilities - success) ** 2))
    return Reliability(bins, expected_error(bins), len(known)), brier
