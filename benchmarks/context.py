"""How well the rules read a turn: entities, sensitivity and urgency, on public labelled sets.

    python benchmarks/context.py --data FOLDER [--split dev] [--json FILE]

FOLDER holds one folder a set, each with a queries.jsonl: {text, split, labels: {urgency,
sensitivity, entities: [[start, end, type]]}}. Read are presidio (synthetic sentences with
personal data), secrets (credentials and near misses), sonner (software terms in questions of
developers) and bugpriority (urgency of bug reports); a set that is not there is left out.
Nothing is fitted on them: train and dev were looked at when the rules were written, test only
measured. `cues` is the detector without a model, `default` the one that ships.

A span counts as found when one of its type lies over it. Personal data is all that presidio
calls so, bare names and addresses too, which the rules do not look for without more beside them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpora import rows
from sklearn.metrics import f1_score, precision_score, recall_score

from toolcrib import Context, Crib, Settings
from toolcrib.context.entities import EntityFinder
from toolcrib.context.rules import HeuristicDetector

RESULTS = Path(__file__).resolve().parent / "results" / "context.json"

Row = dict[str, Any]
Pairs = Sequence[tuple[str, str]]

ENTITIES = {
    "presidio": {
        "EMAIL_ADDRESS": "email",
        "PHONE_NUMBER": "phone",
        "CREDIT_CARD": "card",
        "IBAN_CODE": "iban",
        "US_SSN": "ssn",
        "IP_ADDRESS": "ip",
        "DOMAIN_NAME": "url",
        "DATE_TIME": "date",
        "STREET_ADDRESS": "address",
    },
    "sonner": {
        "Version": "version",
        "File_Name": "path",
        "Error_Name": "error",
        "Function_Name": "identifier",
        "Library_Function": "identifier",
        "Class_Name": "identifier",
        "Library_Class": "identifier",
        "Variable_Name": "identifier",
        "Library_Variable": "identifier",
        "Code_Block": "identifier",
    },
}
SENSITIVE = {
    "presidio": {"pii": "pii", "high": "pii", "none": "none"},
    "secrets": {"secret": "pii", "none": "none"},
}


def read(folder: Path, split: str) -> list[Row]:
    if not folder.is_dir():
        return []
    return [row for row in rows(folder / "queries.jsonl") if row["split"] == split]


def entity_measures(
    rows: Iterable[Row], kinds: dict[str, str], finder: EntityFinder
) -> Iterator[tuple[str, float]]:
    """Precision and recall of each of our types; `kinds` is theirs to ours."""
    hits = dict.fromkeys(kinds.values(), 0)
    wanted, found, right = dict(hits), dict(hits), dict(hits)
    for row in rows:
        labelled = [
            (s, e, kinds[kind]) for s, e, kind in row["labels"]["entities"] if kind in kinds
        ]
        ours = [(one.start, one.end, one.type) for one in finder.find(row["text"])]
        for span in labelled:
            wanted[span[2]] += 1
            hits[span[2]] += any(overlap(span, other) for other in ours)
        for span in ours:
            if span[2] in found:
                found[span[2]] += 1
                right[span[2]] += any(overlap(span, other) for other in labelled)
    for kind in filter(wanted.get, wanted):
        yield f"{kind} recall", hits[kind] / wanted[kind]
        yield f"{kind} precision", right[kind] / max(found[kind], 1)
        yield f"{kind} spans", wanted[kind]


def overlap(one: tuple[int, int, str], other: tuple[int, int, str]) -> bool:
    return one[2] == other[2] and one[0] < other[1] and other[0] < one[1]


def label_measures(name: str, pairs: Pairs, positive: str) -> Iterator[tuple[str, float]]:
    """Macro-F1 over the labels of `pairs` (expected, told), and the recall of one of them."""
    expected, told = zip(*pairs, strict=True)
    labels, only = sorted(set(expected)), {"labels": [positive], "average": "micro"}
    yield f"{name} macro-F1", f1_score(expected, told, labels=labels, average="macro")
    yield f"{name} {positive} precision", precision_score(expected, told, **only)
    yield f"{name} {positive} recall", recall_score(expected, told, **only)
    yield f"{name} texts", len(pairs)


def measures(
    name: str, rows: list[Row], readers: Mapping[str, Callable[[str], Context]]
) -> Iterator[tuple[str, float]]:
    if name in ENTITIES:
        yield from entity_measures(rows, ENTITIES[name], EntityFinder(region="US"))
    for reader, read_turn in readers.items():
        if name in SENSITIVE:
            pairs = [
                (SENSITIVE[name][row["labels"]["sensitivity"]], sensitivity_of(row, read_turn))
                for row in rows
            ]
            for measure, value in label_measures("sensitivity", pairs, "pii"):
                yield f"{measure}, {reader}", value
        if name == "bugpriority":
            urgencies = [(row["labels"]["urgency"], read_turn(row["text"]).urgency) for row in rows]
            for measure, value in label_measures("urgency", urgencies, "high"):
                yield f"{measure}, {reader}", value


def sensitivity_of(row: Row, read_turn: Callable[[str], Context]) -> str:
    return "pii" if read_turn(row["text"]).sensitivity == "pii" else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    by_cues = HeuristicDetector(finder=EntityFinder(region="US"))
    result: list[Row] = []
    settings = Settings.model_validate({"context": {"region": "US"}})
    with Crib.open(":memory:", settings=settings) as crib:
        readers = {"cues": by_cues.detect, "default": crib.detect}
        measured = [
            (name, list(measures(name, rows, readers)))
            for name in ("presidio", "secrets", "sonner", "bugpriority")
            if (rows := read(options.data / name, options.split))
        ]
    for name, values in measured:
        for measure, value in values:
            print(f"{name:12s} {options.split:5s} {measure:28s} {value:10.4g}")
            result.append(
                {
                    "set": name,
                    "split": options.split,
                    "measure": measure,
                    "value": round(value, 4),
                }
            )
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
