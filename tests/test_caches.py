"""Caches hold what was used last, up to a size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import toolcrib
from toolcrib.caches import BoundedMap, cached_texts

PACKAGE = Path(toolcrib.__file__).parent

BOUNDS = {
    "caches.decorate": "`cached_texts`: so many texts of so many characters",
    "encoders.language._is_encoded": "4,096 letters",
    "encoders.language._is_latin": "4,096 letters",
    "cli.evaluate.classifier_of": "the questions of a file",
    "encoders.wordpiece.__init__": "so many words, each as long as the longest of the vocabulary",
    "evaluation.calibrate.alike": "the tools of a set, while its evidence is gathered",
    "evaluation.measures.__init__": "the tools of a set, while it is measured",
    "report.page._template": "the templates of the package",
    "audit.characters._script": "4,096 letters",
    "audit.classifier.__init__": "so many statements, each cut to a length",
    "audit.rules.__init__": "so many words, each cut to the longest of the rules",
    "audit.rules._compile": "the phrases of the package",
    "integrations.arguments._with_timeout": "the drafts of JSON Schema",
    "integrations.formats._log_once": "1,000 ids of tools, each with a short reason",
    "records.codec.adapter": "the types of records",
    "context.classifier._thread_of": "one process",
    "context.classifier.other_turn_classifier": "two encoders",
    "context.labels._preset": "the fields of a context",
    "context.rules.remainder_of": "the words of 32 turns, each cut to a length",
    "store.base.point_id": "65,536 ids of tools and passages",
    "store.edge_query.answer": "the filters of one query",
    "store.qdrant_client._warn_of_open_key": "the addresses of servers in the settings",
    "telemetry.counter": "values of labels, none of which clients make up",
    "telemetry.histogram": "the same",
    "text._stem": "200,000 words, each cut to a length",
    "text._stemmer": "four languages",
}
"""Caches of functions by their arguments, each with the bound of its keys.

A `BoundedMap` has its size, a function without arguments one value.
"""


def function_caches() -> Iterator[str]:
    """Uses of `cache` and `lru_cache` for a function with arguments, by module and function."""
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                body = ast.Module(function.body, [])
                decorated = any(map(is_cache, function.decorator_list))
                inside = any(isinstance(each, ast.Call) and is_cache(each) for each in own(body))
                if inside or (decorated and any(ast.iter_child_nodes(function.args))):
                    yield f"{module}.{function.name}"


def own(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes within a function, without those of functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from own(child)


def is_cache(used: ast.expr) -> bool:
    name = used.func if isinstance(used, ast.Call) else used
    return ast.unparse(name).removeprefix("functools.") in {"cache", "lru_cache"}


def test_every_cache_of_a_function_has_a_bound_that_is_written_down():
    assert set(function_caches()) == {*BOUNDS}


def test_what_was_used_longest_ago_is_evicted():
    kept = BoundedMap[str, int](2)
    kept["a"], kept["b"] = 1, 2
    assert kept["a"] == 1
    kept["c"] = 3
    assert dict(kept) == {"a": 1, "c": 3}
    kept["a"] = 4
    kept["d"] = 5
    assert list(kept) == ["a", "d"]


def test_entries_count_by_their_size_and_one_above_it_is_not_kept():
    kept = BoundedMap[str, str](10, lambda key, value: len(key) + len(value))
    kept["a"], kept["b"] = "xxx", "xxxx"
    assert (len(kept), kept.size) == (2, 9)
    kept["c"] = "xx"
    assert (dict(kept), kept.size) == ({"b": "xxxx", "c": "xx"}, 8)
    kept["c"] = "x" * 10
    assert (dict(kept), kept.size) == ({"b": "xxxx"}, 5)
    del kept["b"]
    assert (len(kept), kept.size) == (0, 0)
    kept["e"] = "x"
    kept.clear()
    assert (len(kept), kept.size) == (0, 0)


def test_a_value_is_made_once_while_it_is_kept():
    kept, made = BoundedMap[str, None](1), []
    for key in ("a", "a", "b", "a"):
        kept.get_or_make(key, lambda key=key: made.append(key))
    assert made == ["a", "b", "a"]
    with pytest.raises(ZeroDivisionError):
        kept.get_or_make("c", lambda: 1 // 0)
    assert list(kept) == ["a"]


def test_several_threads_leave_the_size_that_is_there():
    kept = BoundedMap[int, int](50, lambda _, value: value)

    def write(start: int) -> None:
        for number in range(start, start + 2000):
            kept[number % 97] = number % 7
            kept.pop((number * 3) % 97, None)

    with ThreadPoolExecutor() as pool:
        list(pool.map(write, range(0, 80, 20)))
    assert kept.size == sum(kept.values()) <= 50


def test_long_texts_are_worked_on_anew():
    seen = []

    @cached_texts(max_entries=10, max_chars=3)
    def length(text: str) -> int:
        seen.append(text)
        return len(text)

    assert [length(text) for text in ("abc", "abc", "long", "long")] == [3, 3, 4, 4]
    assert seen == ["abc", "long", "long"]
