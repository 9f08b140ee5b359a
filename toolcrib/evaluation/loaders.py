"""Loaders of data sets: from a folder, a pair of files or a public name.

Public names are loaded from Hugging Face on first use. ToolRet is Shi et al. 2025 (arXiv
2503.01763); `metatool` is its selection of 200 queries of MetaTool (Huang et al. 2024), whose own
files are not on the hub. CLINC150 is Larson et al. 2019 with 250 out-of-scope queries for training,
Banking77 is Casanueva et al. 2020.
"""

from __future__ import annotations

import importlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field

from toolcrib.errors import SourceError, UnknownFormatError
from toolcrib.evaluation.dataset import (
    DataSet,
    FileRow,
    IntentRow,
    LocatedQuery,
    NonEmpty,
    PlacedRow,
    checked_data_set,
    intent_tool,
    locate_query,
    read_intents,
    read_queries,
    read_rows,
    strictness,
)
from toolcrib.extras import require_extra
from toolcrib.indexers.readers.base import Source, build_spec
from toolcrib.indexers.readers.registry import tool_entries
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import is_object, list_of, object_of

Fields: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HubTable:
    """Table on the hub; its rows belong to our split `split`."""

    repo: str
    config: str | None
    rows: str
    split: str = ""
    revision: str | None = None


Rows: TypeAlias = Callable[[HubTable], Iterable[Fields]]
"""Function that gives the rows of a table, class labels as their names."""


@dataclass(frozen=True, slots=True)
class HubSet:
    """Public data set: its tables, and the function that builds a data set from their rows."""

    read: Callable[[str, HubSet, Rows], DataSet]
    queries: tuple[HubTable, ...]
    tools: tuple[HubTable, ...] = ()


def load_from_hub(name: str, rows: Rows | None = None) -> DataSet:
    """Load one of `HUB_SETS`; `rows` replaces the hub, if given.

    Raises:
        SourceError: the hub cannot be reached, or no longer holds the set.
    """
    if rows is None:
        require_extra("datasets", f"data set {name!r} from the hub", "hub")
        rows = _download
    return HUB_SETS[name].read(name, HUB_SETS[name], rows)


def _download(table: HubTable) -> Iterator[Fields]:
    hub: Any = importlib.import_module("datasets")
    try:
        loaded: Any = hub.load_dataset(
            table.repo, table.config, split=table.rows, revision=table.revision
        )
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).split("\n", 1)[0]
        advice = "check that the hub is reachable, or name a folder with the data"
        message = f"cannot be loaded ({reason}); {advice}"
        raise SourceError(f"hub:{table.repo}", table.config or "", message) from error
    names = {c: f.names for c, f in loaded.features.items() if hasattr(f, "int2str")}
    for row in loaded:
        yield {**row, **{column: names[column][row[column]] for column in names}}


def _toolret(name: str, found: HubSet, rows: Rows) -> DataSet:
    """Data set from rows of ToolRet: a tool is a JSON document, labels are a JSON list."""
    tools = (_tool(table, row) for table in found.tools for row in rows(table))
    queries = (_query(table, row) for table in found.queries for row in rows(table))
    return checked_data_set(name, tools, queries)


def _tool(table: HubTable, row: Fields) -> ToolSpec | Refusal:
    text = str(row.get("documentation") or "")
    about = object_of(_json(text))
    described = about.get("description")
    fields = {
        "id": str(row.get("id") or ""),
        "name": about.get("name") or about.get("api_name") or row.get("id"),
        # The sources of ToolRet have no common form: use other documents as text.
        "description": described if isinstance(described, str) and described else text,
        "input_schema": _schema(about.get("parameters") or about.get("api_arguments")),
        "category": table.config,
    }
    return build_spec(table.repo, f"id {row.get('id')}", fields)


def _schema(parameters: object) -> dict[str, Any]:
    """JSON Schema unchanged; parameters by name become a schema."""
    if not is_object(parameters) or isinstance(parameters.get("properties"), dict):
        return object_of(parameters)
    properties = {key: value for key, value in parameters.items() if is_object(value)}
    return {"type": "object", "properties": properties}


def _query(table: HubTable, row: Fields) -> LocatedQuery | Refusal:
    labels = list_of(_json(str(row.get("labels") or "")))
    grades = {str(label.get("id")): label.get("relevance", 1) for label in labels}
    relevant = {tool_id: grade for tool_id, grade in grades.items() if grade}
    fields = {"id": row.get("id"), "text": row.get("query"), "relevant": relevant}
    return _locate_row(table, f"id {row.get('id')}", {**fields, "answerable": True})


def _intents(name: str, found: HubSet, rows: Rows) -> DataSet:
    """Data set from utterances with the name of their intent, which has no other text."""
    intents: dict[str, ToolSpec | Refusal] = {}
    queries: list[LocatedQuery | Refusal] = []
    for table in found.queries:
        for number, row in enumerate(rows(table)):
            label = str(row.get("intent") or row.get("label_text") or "")
            fields: dict[str, Any] = {"id": f"{table.split}-{number}", "text": row.get("text")}
            if label == OUT_OF_SCOPE_LABEL:
                fields["unanswerable_scope"] = "corpus"
            else:
                fields |= {"relevant": {label: 1} if label else {}, "answerable": True}
            queries.append(_locate_row(table, f"{table.rows}: row {number}", fields))
            if label not in {*intents, "", OUT_OF_SCOPE_LABEL}:
                intents[label] = intent_tool(table.repo, label, IntentRow(name=label))
    return checked_data_set(name, intents.values(), queries, "intents")


def _locate_row(table: HubTable, place: str, fields: Fields) -> LocatedQuery | Refusal:
    return locate_query(table.repo, place, {**fields, "split": table.split}, table.repo)


def _json(text: str) -> object:
    with suppress(ValueError):
        return json.loads(text)
    return None


OUT_OF_SCOPE_LABEL = "oos"
"""CLINC150's label for queries without an intent."""

TOOLRET_TASKS: Mapping[str, str] = {
    "code": "craft-math-algebra craft-tabmwp craft-vqa gorilla-huggingface gorilla-pytorch "
    "gorilla-tensor toolink",
    "customized": "appbench gpt4tools gta metatool taskbench-huggingface taskbench-multimedia "
    "tool-be-honest toolalpaca toolbench-sam",
    "web": "apibank apigen autotools-food autotools-music autotools-weather mnms "
    "restgpt-spotify restgpt-tmdb reversechain rotbench t-eval-dialog t-eval-step "
    "taskbench-daily toolace toolbench toolemu tooleyes toollens ultratool",
}
"""Tasks of ToolRet, by the part of its tools that answers these tasks."""


def _toolret_of(*parts: str, tasks: Iterable[str] = ()) -> HubSet:
    """Some tasks, or all, of some parts; pinned to a revision, so that figures stay comparable."""
    queries, at = "mangopy/ToolRet-Queries", "b8c76ad3349ff17497b6bdb28bb5b8f61a0f6445"
    tools, tools_at = "mangopy/ToolRet-Tools", "e06c38c75612b6536bd959e08cdd345894aba6a7"
    named = tasks or [task for part in parts for task in TOOLRET_TASKS[part].split()]
    return HubSet(
        _toolret,
        queries=tuple(HubTable(queries, task, "queries", "test", at) for task in named),
        tools=tuple(HubTable(tools, part, "tools", revision=tools_at) for part in parts),
    )


def _intents_of(repo: str, config: str | None, **splits: str) -> HubSet:
    """Splits of the source, with our names."""
    tables = (HubTable(repo, config, rows, split) for rows, split in splits.items())
    return HubSet(_intents, tuple(tables))


HUB_SETS: Mapping[str, HubSet] = {
    "toolret": _toolret_of(*TOOLRET_TASKS),
    **{f"toolret-{part}": _toolret_of(part) for part in TOOLRET_TASKS},
    "metatool": _toolret_of("customized", tasks=["metatool"]),
    "clinc150": _intents_of(
        "clinc/clinc_oos", "plus", train="train", validation="dev", test="test"
    ),
    "banking77": _intents_of("mteb/banking77", None, train="train", test="test"),
}
"""Public data sets by their names."""


def _find_part(folder: Path, name: str) -> Path | None:
    """File `name` or its compressed form, or the folder if `name` ends in a slash."""
    if name.endswith("/"):
        return folder / name if (folder / name).is_dir() else None
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def _tools_folder(folder: Path) -> DataSet:
    tools = _file(folder, "tools.jsonl")
    return _load_files(folder.resolve().name, tools, _file(folder, "queries.jsonl"))


def _intents_folder(folder: Path) -> DataSet:
    """Load `intents.jsonl` (id, name, description, domain) with `queries.jsonl`."""
    found = read_intents(_file(folder, "intents.jsonl"))
    queries = read_queries(_file(folder, "queries.jsonl"))
    return checked_data_set(folder.resolve().name, found, queries, "intents")


def _registry_folder(folder: Path) -> DataSet:
    """Load every tool of `registry/` with `queries.jsonl`, the form of the sample data.

    Python files directly in `registry/` are run, like `FILE.py:TOOLS`; unreadable files are noted,
    as in an index run.
    """
    registry = folder / "registry"
    sources = [str(registry), *(f"{path}:TOOLS" for path in sorted(registry.glob("*.py")))]
    found = (item for _, item in tool_entries(sources, None, None))
    queries = read_queries(_file(folder, "queries.jsonl"))
    return checked_data_set(folder.resolve().name, found, queries)


def _load_files(name: str, tools: str | Path | Sequence[str], queries: Path) -> DataSet:
    sources = dict.fromkeys([str(tools)] if isinstance(tools, str | Path) else tools)
    found = (item for source in sources for _, item in tool_entries(source, None, None))
    return checked_data_set(name, _require_whole_files(found), read_queries(queries))


def _require_whole_files(found: Iterable[ToolSpec | Refusal]) -> Iterator[ToolSpec | Refusal]:
    """Pass refusals of single tools; raise for a broken file, whose half is another data set."""
    for item in found:
        if isinstance(item, Refusal) and not item.place:
            raise SourceError(item.source, "", item.reason)
        yield item


def _file(folder: Path, name: str) -> Path:
    return _find_part(folder, name) or folder / name


class _CorpusRow(FileRow):
    """Document; it becomes a tool with the title as name, or the id without a title."""

    id: NonEmpty = Field(alias="_id")
    title: str = ""
    text: str = ""


class _TopicRow(FileRow):
    """Query, which belongs to the splits whose judgements name it."""

    id: NonEmpty = Field(alias="_id")
    text: str


def _beir_folder(folder: Path) -> DataSet:
    """Load the form of BEIR (Thakur et al. 2021): corpus, queries and `qrels/*.tsv`, by split.

    Judgements of 0 and less mean no answer, and are ignored. Queries without a judgement are
    omitted, and those of several splits stay in the strictest.
    """
    return checked_data_set(folder.resolve().name, _documents(folder), _queries(folder))


def _documents(folder: Path) -> Iterator[ToolSpec | Refusal]:
    path = _file(folder, "corpus.jsonl")
    for item in read_rows(path, _CorpusRow):
        if isinstance(item, Refusal):
            yield item
        else:
            place, row = item
            name = row.title.strip() or row.id
            fields = {"id": row.id, "name": name, "description": row.text}
            yield build_spec(str(path), place, fields)


def _queries(folder: Path) -> Iterator[LocatedQuery | Refusal]:
    path = _file(folder, "queries.jsonl")
    topics: dict[str, PlacedRow[_TopicRow]] = {}
    for item in read_rows(path, _TopicRow):
        if isinstance(item, Refusal):
            yield item
        elif item[1].id in topics:
            yield Refusal(str(path), item[0], f"_id: {item[1].id!r} is taken")
        else:
            topics[item[1].id] = item
    # The strictest first: of equal ids the first one stays.
    files = sorted(
        (folder / "qrels").glob("*.tsv*"), key=lambda qrels: -strictness(qrels.name.split(".")[0])
    )
    found = [item for qrels in files for item in _judged_queries(path, topics, qrels)]
    yield from found
    judged = {item.query.id for item in found if isinstance(item, LocatedQuery)}
    for query_id, (place, _) in topics.items():
        if query_id not in judged:
            yield Refusal(str(path), place, "no judgement in qrels/ is above 0")


def _judged_queries(
    path: Path, topics: Mapping[str, PlacedRow[_TopicRow]], qrels: Path
) -> Iterator[LocatedQuery | Refusal]:
    """Yield the queries that one file of judgements names, with its split."""
    grades: dict[str, dict[str, float]] = defaultdict(dict)
    for number, line in Source.by_name(str(qrels)).lines():
        judgement = _judgement(line)
        if judgement is None and number > 1:  # the first line may be a header
            reason = "must be query-id, corpus-id, score, separated by tabs"
            yield Refusal(str(qrels), f"line {number}", reason)
        elif judgement and judgement[0] not in topics:
            reason = f"query-id: {judgement[0]!r} is not in {path.name}"
            yield Refusal(str(qrels), f"line {number}", reason)
        elif judgement and judgement[2] > 0:
            grades[judgement[0]][judgement[1]] = judgement[2]
    for query_id, relevant in grades.items():
        place, topic = topics[query_id]
        fields = {**topic.model_dump(), "split": qrels.name.split(".")[0], "relevant": relevant}
        yield locate_query(str(path), place, fields, path.name)


def _judgement(line: bytes) -> tuple[str, str, float] | None:
    """Query, document and score; None for a line of another form."""
    with suppress(ValueError):
        query_id, document, score = line.decode("utf-8", "replace").split("\t")
        return query_id, document, float(score)
    return None


FOLDER_FORMS: Mapping[tuple[str, ...], Callable[[Path], DataSet]] = {
    ("tools.jsonl", "queries.jsonl"): _tools_folder,
    ("intents.jsonl", "queries.jsonl"): _intents_folder,
    ("registry/", "queries.jsonl"): _registry_folder,
    ("corpus.jsonl", "queries.jsonl", "qrels/"): _beir_folder,
}
"""Parts that identify a form of folder, and its reader, in the order of attempts."""


def _reader(folder: Path) -> Callable[[Path], DataSet] | None:
    """Reader of a folder; its files may be compressed (`.gz`)."""
    for parts, read in FOLDER_FORMS.items():
        if all(_find_part(folder, name) for name in parts):
            return read
    return None


def load(
    source: str = "",
    *,
    tools: str | Path | Sequence[str] | None = None,
    queries: Path | None = None,
) -> DataSet:
    """Load a data set, check it, and list omitted parts in its `notes`.

    `source` is a folder of one of `FOLDER_FORMS`, or a public name (`HUB_SETS`); a folder of that
    name wins. With `tools` (names of anything that can be indexed) and `queries` these are loaded,
    and `source`, if given, is the name of the set.

    Raises:
        UnknownFormatError: the source is none of these; the message lists the known ones.
        SourceError: a file cannot be read or has no usable entry, or the hub is not reachable.
    """
    if tools is not None and queries is not None:
        return _load_files(source or queries.name.split(".")[0], tools, queries)
    if tools is not None or queries is not None:
        given, missing = (queries, "tools") if tools is None else (tools, "queries")
        raise SourceError(str(given), "", f"needs {missing} beside it: give both files")
    # Unlike pathlib, os.path returns False for impossible names.
    if os.path.isdir(source):  # noqa: PTH112
        return _load_folder(source)
    if source in HUB_SETS:
        return load_from_hub(source)
    near = get_close_matches(source, HUB_SETS, 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    reason = f"there is no such folder or public name; {hint}{_known_forms()}"
    raise UnknownFormatError(source, "", reason)


def _load_folder(source: str) -> DataSet:
    folder = Path(source)
    if read := _reader(folder):
        return read(folder)
    inside = [child.name for child in sorted(folder.iterdir()) if _reader(child)]
    hint = f"name the data sets in it, such as {inside[0]!r}; " if inside else ""
    raise UnknownFormatError(source, "", f"the folder is no data set; {hint}{_known_forms()}")


def _known_forms() -> str:
    forms = "; ".join(f"{', '.join(parts)} and {last}" for *parts, last in FOLDER_FORMS)
    return f"a data set is a folder with {forms}; or one of {', '.join(sorted(HUB_SETS))}"
