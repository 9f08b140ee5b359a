"""Folders in the form of BEIR (Thakur et al. 2021): a corpus, queries, and judgements apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from pydantic import Field

from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.loaders.checks import STRICTNESS, checked
from toolcrib.evaluation.loaders.folder import part
from toolcrib.evaluation.loaders.rows import Located, QueryRow, Row, Text, read_rows, validated
from toolcrib.indexers.readers.base import Source, build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = ["CorpusRow", "TopicRow", "beir"]

COLUMNS = ("query-id", "corpus-id", "score")
"""Of a file of judgements, separated by tabs; a first line with these names may be missing."""


class CorpusRow(Row):
    """A document; it becomes a tool whose name is the title, or the id where there is none."""

    id: Text = Field(alias="_id")
    title: str = ""
    text: str = ""


class TopicRow(Row):
    """A query, which belongs to the splits whose judgements name it."""

    id: Text = Field(alias="_id")
    text: str


Topic: TypeAlias = tuple[str, TopicRow]
"""Where in the file it stands, and the query."""


def beir(folder: Path) -> DataSet:
    """Load `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv`, each file of them a split.

    Judgements of 0 and less say that a document does not answer, and are passed over. Queries
    that no file judges are left out, and those of several splits stay in the strictest.

    Raises:
        SourceError: a file cannot be read, or holds nothing that can be used.
    """
    return checked(folder.resolve().name, _documents(folder), _queries(folder))


def _documents(folder: Path) -> Iterator[ToolSpec | Refusal]:
    path = part(folder, "corpus.jsonl") or folder / "corpus.jsonl"
    for item in read_rows(path, CorpusRow):
        if isinstance(item, Refusal):
            yield item
            continue
        place, row = item
        name = row.title.strip() or row.id
        fields = {"id": row.id, "name": name, "description": row.text}
        yield build_spec(str(path), place, fields)


def _queries(folder: Path) -> Iterator[Located | Refusal]:
    path = part(folder, "queries.jsonl") or folder / "queries.jsonl"
    topics: dict[str, Topic] = {}
    for item in read_rows(path, TopicRow):
        if isinstance(item, Refusal):
            yield item
        elif item[1].id in topics:
            yield Refusal(str(path), item[0], f"_id: {item[1].id!r} is taken")
        else:
            topics[item[1].id] = item
    # The strictest first, since of equal ids the first one stays.
    files = sorted((folder / "qrels").glob("*.tsv*"), key=_strictness, reverse=True)
    found = [item for qrels in files for item in _judged(path, topics, qrels)]
    yield from found
    judged = {item.query.id for item in found if isinstance(item, Located)}
    for query_id in [query_id for query_id in topics if query_id not in judged]:
        yield Refusal(str(path), topics[query_id][0], "no judgement in qrels/ is above 0")


def _judged(path: Path, topics: Mapping[str, Topic], qrels: Path) -> Iterator[Located | Refusal]:
    """Yield the queries that one file of judgements names, with its split."""
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for number, line in Source.named(str(qrels)).lines():
        judgement = _judgement(line)
        if judgement is None and number > 1:
            reason = f"must be {', '.join(COLUMNS)}, separated by tabs"
            yield Refusal(str(qrels), f"line {number}", reason)
        elif judgement and judgement[0] not in topics:
            reason = f"query-id: {judgement[0]!r} is not in {path.name}"
            yield Refusal(str(qrels), f"line {number}", reason)
        elif judgement and judgement[2] > 0:
            grades[judgement[0]][judgement[1]] = judgement[2]
    for query_id, relevant in grades.items():
        place, topic = topics[query_id]
        fields = {**topic.model_dump(), "split": qrels.name.split(".")[0], "relevant": relevant}
        row = validated(str(path), place, fields, QueryRow)
        yield row if isinstance(row, Refusal) else Located(f"{path.name}: {place}", row.as_query())


def _judgement(line: bytes) -> tuple[str, str, float] | None:
    """Query, document and score; None for a line of another form."""
    fields = line.decode("utf-8", "replace").split("\t")
    try:
        query_id, document, score = fields
        return query_id, document, float(score)
    except ValueError:
        return None


def _strictness(qrels: Path) -> int:
    split = qrels.name.split(".")[0]
    return STRICTNESS.index(split) if split in STRICTNESS else -1
