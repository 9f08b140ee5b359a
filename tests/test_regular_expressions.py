"""Every regular expression of the package takes time in proportion to the text, however hostile."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import re._constants as code
import re._parser as parser
import string
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import TypeAlias

import pytest

import toolcrib
from tests.conftest import rounds

FEW, MANY = 1_500, 6_000
"""Characters: for the many what is linear takes four times as long, what is not sixteen times."""

GROWTH = 9

NEGLIGIBLE_S = 0.0005
"""What takes less for a few characters takes little for many, even where it is not linear."""

FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub"}

MADE_OF_NAMES = {
    "toolcrib.encoders.wordpiece": "a tokenizer's marks",
    "toolcrib.evaluation.dataset": "names between boundaries",
    "toolcrib.http.openapi": "words of Python between boundaries",
    "toolcrib.indexers.links": "a parameter's name, with words around it",
    "toolcrib.integrations.providers": "a provider's rule; an author's pattern, never matched",
    "toolcrib.language_models.turns": "a label between boundaries",
    "toolcrib.retrieval.passages": "a code of a question between boundaries",
    "toolcrib.store.qdrant_server": "the collection's name and digits",
}
"""Modules with patterns that are a text, escaped, with something around it."""

MADE_OF_DATA = {
    "toolcrib.guidance.classifiers",
    "toolcrib.audit.audit",
    "toolcrib.audit.rules",
    "toolcrib.context.pii",
    "toolcrib.router.probes",
    "toolcrib.router.recovery",
}
"""Modules that put patterns together when loaded or first used: found in what they keep."""


# -- all patterns ------------------------------------------------------------------------------


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


Pattern: TypeAlias = re.Pattern[str] | re.Pattern[bytes]


def kept(value: object, seen: set[int]) -> Iterator[Pattern]:
    """The patterns in a value, however deep, and those of texts that are called `regex`."""
    if id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, re.Pattern):
            yield value
        for part in parts_of(value):
            yield from kept(part, seen)


def parts_of(value: object) -> Iterable[object]:
    match value:
        case BuiltinMethodType():
            return [value.__self__]
        case dict():
            return [*value, *value.values()]
        case list() | tuple() | set() | frozenset():
            return value
        case functools._lru_cache_wrapper():
            is_ours = value.__wrapped__.__module__ in MADE_OF_DATA
            return [value()] if is_ours and not inspect.signature(value).parameters else []
    if isinstance(value, type) or not type(value).__module__.startswith("toolcrib"):
        return []
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    own = {each.name: getattr(value, each.name) for each in fields}
    inside = own or getattr(value, "__dict__", {})
    regex = inside.get("regex")
    return [*inside.values(), *([re.compile(regex)] if isinstance(regex, str) else [])]


def written(module: ModuleType) -> Iterator[Pattern]:
    """The patterns that stand in a module's source, as arguments of functions of `re`."""
    source = Path(str(module.__file__)).read_text("utf-8")
    for call in ast.walk(ast.parse(source)) if "import re\n" in source else ():
        if not (isinstance(call, ast.Call) and is_of_re(call.func) and call.args):
            continue
        try:
            flags = [each.value for each in call.keywords if each.arg == "flags"]
            flags += call.args[1:2] if call.func.attr == "compile" else []
            how = [value_of(each, module) for each in flags]
            yield re.compile(value_of(call.args[0], module), *how)
        except NameError:
            known = MADE_OF_NAMES.keys() | MADE_OF_DATA
            assert module.__name__ in known, f"{module.__file__}:{call.lineno} cannot be found"


def is_of_re(called: ast.expr) -> bool:
    if not (isinstance(called, ast.Attribute) and called.attr in FUNCTIONS):
        return False
    return isinstance(called.value, ast.Name) and called.value.id == "re"


def value_of(node: ast.expr, module: ModuleType) -> object:
    return eval(compile(ast.Expression(node), "<source>", "eval"), vars(module))


@functools.cache
def patterns() -> tuple[tuple[str, Pattern], ...]:
    seen: set[int] = set()
    found: dict[Pattern, str] = {}
    for module in modules():
        for name, value in list(vars(module).items()):
            if isinstance(value, FunctionType | type | ModuleType):
                continue
            for pattern in kept(value, seen):
                found.setdefault(pattern, f"{module.__name__}.{name}")
        for pattern in written(module):
            found.setdefault(pattern, module.__name__)
    return tuple((name, pattern) for pattern, name in found.items())


# -- what may be hard on them ------------------------------------------------------------------

OFTEN = 50

TRIED = [*"aA1 -_.\n", *string.punctuation, *"éßЖ中\u200b\u0301\t\x00\x1b", *string.printable]


Tree: TypeAlias = Iterable[tuple[object, object]]


def branches(kind: object, value: object) -> list[Tree]:
    """The parts that a node is made of, one of which matches."""
    if kind in parser._REPEATCODES:
        return [value[2]]
    if kind is code.SUBPATTERN:
        return [value[-1]]
    if kind is code.ATOMIC_GROUP:
        return [value]
    if kind in {code.BRANCH, code.ASSERT, code.ASSERT_NOT}:
        return value[1] if kind is code.BRANCH else [value[1]]
    return []


def sample(tree: Tree, choice: int, flags: int) -> str:
    """A text that these parts match, or nearly; another one for each choice."""
    return "".join(sample_of(kind, value, choice, flags) for kind, value in tree)


def sample_of(kind: object, value: object, choice: int, flags: int) -> str:
    if kind is code.LITERAL:
        return chr(value)
    if kind in {code.IN, code.NOT_LITERAL, code.ANY, code.CATEGORY}:
        fitting = one_of(kind, tuple(value) if kind is code.IN else value, flags)
        return fitting[choice % len(fitting)] if fitting else ""
    if kind in {code.ASSERT, code.ASSERT_NOT} or not (ways := branches(kind, value)):
        return ""
    times = min(max(value[0], 1), 40) if kind in parser._REPEATCODES else 1
    return sample(ways[choice % len(ways)], choice, flags) * times


@functools.cache
def one_of(kind: object, value: object, flags: int) -> list[str]:
    state = parser.State()
    state.flags = flags
    inside = [(kind, list(value) if kind is code.IN else value)]
    matcher = re._compiler.compile(parser.SubPattern(state, inside), flags)
    fitting = [each for each in TRIED if each.isascii() or not flags & re.ASCII]
    return list(dict.fromkeys(each for each in fitting if matcher.fullmatch(each)))


def repeats(tree: Tree, before: str, choice: int, flags: int) -> Iterator[tuple[str, str]]:
    """What may be repeated without end, or often, each with a text that leads there."""
    for kind, value in tree:
        if kind in parser._REPEATCODES and value[1] >= OFTEN:
            yield before, sample(value[2], choice, flags)
        for inner in branches(kind, value):
            yield from repeats(inner, before, choice, flags)
        before += sample_of(kind, value, choice, flags)


def hostile(pattern: Pattern) -> set[tuple[str, str, str]]:
    """Texts as (beginning, what is repeated, end)."""
    source, flags = pattern.pattern, pattern.flags
    if isinstance(source, bytes):
        source, flags = source.decode("latin-1"), flags | re.ASCII
    tree = parser.parse(source, flags)
    found = {("", each, "") for each in (" ", "a", "A", "1", "a ", "\n", "a.", "<", "aA", "-")}
    for choice in range(rounds(1, 3)):
        pumps = list(repeats(tree, "", choice, flags))
        found.add(("", sample(tree, choice, flags), ""))
        for before, pump in pumps:
            found |= {(before, pump, end) for end in ("", "\x00", "a", "\n")}
            found |= {("", before + pump, ""), ("", before, ""), ("", pump + before, "!")}
        found |= {("", a + b, "\x00") for (_, a), (_, b) in pairwise(pumps)}
    return {each for each in found if each[1]}


def takes_s(pattern: Pattern, text: tuple[str, str, str], size: int) -> float:
    before, pump, end = text
    whole = before + pump * (size // len(pump)) + end
    given = whole if isinstance(pattern.pattern, str) else whole.encode("latin-1", "replace")
    began = time.thread_time()
    for _found in pattern.finditer(given):
        pass
    return time.thread_time() - began


def is_linear(pattern: Pattern, text: tuple[str, str, str]) -> bool:
    if takes_s(pattern, text, FEW // 4) > 0.2:
        return False
    few = takes_s(pattern, text, FEW)
    return few < NEGLIGIBLE_S or takes_s(pattern, text, MANY) < GROWTH * few


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(900)
def test_every_pattern_is_linear():
    assert {
        "toolcrib.audit.rules.rulebooks",  # written in YAML
        "toolcrib.documents.chunking._FENCE",  # a method of a pattern
        "toolcrib.context.pii._EMAIL",
        "toolcrib.client.transport",  # within a function
    } <= {name for name, _ in patterns()}
    slow = {
        f"{name}: {pattern.pattern!r}": text
        for name, pattern in patterns()
        for text in hostile(pattern)
        # Again, as other processes may have held it up.
        if not any(is_linear(pattern, text) for _ in range(5))
    }
    assert slow == {}


@pytest.mark.parametrize("regex", ["a*b", r"\w+(?:-\w+)+", "<.*?>"])
def test_a_pattern_that_is_not_linear_is_found(regex):
    pattern = re.compile(regex)
    assert not all(is_linear(pattern, text) for text in hostile(pattern))
