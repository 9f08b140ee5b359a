"""Hub: public data sets by name, loaded from Hugging Face when they are asked for.

ToolRet is Shi et al. 2025 (arXiv 2503.01763); `metatool` is its selection of 200 queries of
MetaTool (Huang et al. 2024), whose own files are not on the hub. CLINC150 is Larson et al. 2019
with 250 out-of-scope queries to train on, Banking77 is Casanueva et al. 2020.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from toolcrib.errors import SourceError
from toolcrib.evaluation.dataset import DataSet
from toolcrib.evaluation.rows import (
    IntentRow,
    Located,
    QueryRow,
    checked,
    intent_tool,
    validated,
)
from toolcrib.extras import require_extra
from toolcrib.indexers.readers.base import build_spec
from toolcrib.records import Refusal, ToolSpec

__all__ = ["HUB_SETS", "HubSet", "HubTable", "Rows", "load_from_hub"]

Fields: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class HubTable:
    """One table on the hub; its rows belong to our split `split`."""

    repo: str
    config: str | None
    rows: str
    split: str = ""
    revision: str | None = None


Rows: TypeAlias = Callable[[HubTable], Iterable[Fields]]
"""Gives the rows of a table, class labels as their names."""

Read: TypeAlias = Callable[[str, "HubSet", Rows], DataSet]


@dataclass(frozen=True, slots=True)
class HubSet:
    """What a public name stands for: its tables, and who makes a data set of their rows."""

    read: Read
    queries: tuple[HubTable, ...]
    tools: tuple[HubTable, ...] = ()


def load_from_hub(name: str, rows: Rows | None = None) -> DataSet:
    """Load one of `HUB_SETS`; `rows` stands in for the hub where it is given.

    Raises:
        MissingExtraError: the extra `hub` is not installed.
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
        said = str(error).split("\n", 1)[0]
        raise SourceError(
            f"hub:{table.repo}",
            table.config or "",
            f"cannot be loaded ({said}); see that the hub can be reached, or name a folder with "
            "the data",
        ) from error
    names = {c: f.names for c, f in loaded.features.items() if hasattr(f, "int2str")}
    for row in loaded:
        yield {**row, **{column: names[column][row[column]] for column in names}}


def _toolret(name: str, found: HubSet, rows: Rows) -> DataSet:
    """Rows of ToolRet: a tool is a JSON document, labels are a JSON list."""
    tools = (_tool(table, row) for table in found.tools for row in rows(table))
    queries = (_query(table, row) for table in found.queries for row in rows(table))
    return checked(name, tools, queries)


def _tool(table: HubTable, row: Fields) -> ToolSpec | Refusal:
    text = str(row.get("documentation") or "")
    document = _json(text)
    about: Fields = cast("Fields", document) if isinstance(document, dict) else {}
    described = about.get("description")
    fields = {
        "id": str(row.get("id") or ""),
        "name": about.get("name") or about.get("api_name") or row.get("id"),
        # The sources of ToolRet agree on little else: other documents are read whole.
        "description": described if isinstance(described, str) and described else text,
        "input_schema": _schema(about.get("parameters") or about.get("api_arguments")),
        "category": table.config,
    }
    return build_spec(table.repo, f"id {row.get('id')}", fields)


def _schema(parameters: object) -> dict[str, Any]:
    """JSON Schema as it is; parameters by name are put into one."""
    if not isinstance(parameters, dict):
        return {}
    given = cast("dict[str, Any]", parameters)
    if isinstance(given.get("properties"), dict):
        return given
    properties: Fields = {key: value for key, value in given.items() if isinstance(value, dict)}
    return {"type": "object", "properties": properties}


def _query(table: HubTable, row: Fields) -> Located | Refusal:
    given = _json(str(row.get("labels") or ""))
    labels = cast("list[Fields]", given) if isinstance(given, list) else []
    grades = {str(label.get("id")): label.get("relevance", 1) for label in labels}
    relevant = {tool_id: grade for tool_id, grade in grades.items() if grade}
    fields = {"id": row.get("id"), "text": row.get("query"), "relevant": relevant}
    return _located(table, f"id {row.get('id')}", {**fields, "answerable": True})


def _intents(name: str, found: HubSet, rows: Rows) -> DataSet:
    """Utterances with a text and the name of their intent, which is all there is of it."""
    intents: dict[str, ToolSpec | Refusal] = {}
    queries: list[Located | Refusal] = []
    for table in found.queries:
        for number, row in enumerate(rows(table)):
            label = str(row.get("intent") or row.get("label_text") or "")
            fields: dict[str, Any] = {"id": f"{table.split}-{number}", "text": row.get("text")}
            if label == OUT_OF_SCOPE:
                fields["unanswerable_scope"] = "corpus"
            else:
                fields |= {"relevant": {label: 1} if label else {}, "answerable": True}
            queries.append(_located(table, f"{table.rows}: row {number}", fields))
            if label not in {*intents, "", OUT_OF_SCOPE}:
                intents[label] = intent_tool(table.repo, label, IntentRow(name=label))
    return checked(name, intents.values(), queries, "intents")


def _located(table: HubTable, place: str, fields: Fields) -> Located | Refusal:
    row = validated(table.repo, place, {**fields, "split": table.split}, QueryRow)
    return row if isinstance(row, Refusal) else Located(f"{table.repo}: {place}", row.as_query())


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


OUT_OF_SCOPE = "oos"
"""CLINC150's label for what no intent answers."""

TOOLRET_TASKS: Mapping[str, str] = {
    "code": "craft-math-algebra craft-tabmwp craft-vqa gorilla-huggingface gorilla-pytorch "
    "gorilla-tensor toolink",
    "customized": "appbench gpt4tools gta metatool taskbench-huggingface taskbench-multimedia "
    "tool-be-honest toolalpaca toolbench-sam",
    "web": "apibank apigen autotools-food autotools-music autotools-weather mnms "
    "restgpt-spotify restgpt-tmdb reversechain rotbench t-eval-dialog t-eval-step "
    "taskbench-daily toolace toolbench toolemu tooleyes toollens ultratool",
}
"""The tasks of ToolRet by the part of its tools that answers them."""


def _toolret_of(*parts: str, tasks: Iterable[str] = ()) -> HubSet:
    """Some tasks, or all, of some parts; pinned, so that a figure means the same tomorrow."""
    queries, at = "mangopy/ToolRet-Queries", "b8c76ad3349ff17497b6bdb28bb5b8f61a0f6445"
    tools, tools_at = "mangopy/ToolRet-Tools", "e06c38c75612b6536bd959e08cdd345894aba6a7"
    named = tasks or [task for part in parts for task in TOOLRET_TASKS[part].split()]
    return HubSet(
        _toolret,
        queries=tuple(HubTable(queries, task, "queries", "test", at) for task in named),
        tools=tuple(HubTable(tools, part, "tools", revision=tools_at) for part in parts),
    )


def _intents_of(repo: str, config: str | None, **splits: str) -> HubSet:
    """The splits there, and what they are called here."""
    return HubSet(
        _intents, tuple(HubTable(repo, config, rows, split) for rows, split in splits.items())
    )


HUB_SETS: Mapping[str, HubSet] = {
    "toolret": _toolret_of(*TOOLRET_TASKS),
    **{f"toolret-{part}": _toolret_of(part) for part in TOOLRET_TASKS},
    "metatool": _toolret_of("customized", tasks=["metatool"]),
    "clinc150": _intents_of(
        "clinc/clinc_oos", "plus", train="train", validation="dev", test="test"
    ),
    "banking77": _intents_of("mteb/banking77", None, train="train", test="test"),
}
"""The public data sets by the name that a user gives."""
