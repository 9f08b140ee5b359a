"""Every regular expression of the package takes time in proportion to the text, whatever it says."""

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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import BuiltinMethodType, FunctionType, ModuleType

import pytest

import toolcrib

FEW, MANY = 3_000, 12_000
"""Characters; what is linear takes four times as long for the many, what is not, sixteen or more."""

GROWTH = 9

NEGLIGIBLE_S = 0.002
"""What takes less for a few characters takes little for many, even where it is not linear."""

FUNCTIONS = {"compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub"}

MADE_OF_NAMES = {
    "toolcrib.evaluation.rows": "names between boundaries",
    "toolcrib.store.qdrant_server": "the collection's name and digits",
}
"""Modules with patterns that are a text, escaped, with something around it."""

MADE_OF_DATA = {"toolcrib.indexers.audit.rules", "toolcrib.router.recovery"}
"""Modules that put patterns together when they are loaded or first used: found in what they keep."""


# -- all patterns ------------------------------------------------------------------------------


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def kept(value: object, seen: set[int]) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """The patterns in a value, however deep, and those of texts that are called `regex`."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, BuiltinMethodType):
        yield from kept(value.__self__, seen)
    elif isinstance(value, Mapping):
        yield from (each for part in [*value, *value.values()] for each in kept(part, seen))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (each for part in value for each in kept(part, seen))
    elif isinstance(value, functools._lru_cache_wrapper):
        if value.__wrapped__.__module__ in MADE_OF_DATA and not inspect.signature(value).parameters:
            yield from kept(value(), seen)
    elif type(value).__module__.startswith("toolcrib") and not isinstance(value, type):
        fields = {each.name for each in dataclasses.fields(value)} if is_record(value) else set()
        inside = {name: getattr(value, name) for name in fields} or getattr(value, "__dict__", {})
        if isinstance(regex := inside.get("regex"), str):
            yield re.compile(regex)
        yield from kept(dict(inside), seen)


def is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def written(module: ModuleType) -> Iterator[re.Pattern[str] | re.Pattern[bytes]]:
    """The patterns that stand in a module's source, as arguments of functions of `re`."""
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    for call in ast.walk(tree):
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
def patterns() -> tuple[tuple[str, re.Pattern[str] | re.Pattern[bytes]], ...]:
    seen: set[int] = set()
    found: dict[re.Pattern[str] | re.Pattern[bytes], str] = {}
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

TRIED = [*"aA1 -_.\n", *string.punctuation, *"éßЖ中\u200b\u0301\t\x00\x1b", *string.printable]


def sample(tree: Iterable[tuple[object, object]], choice: int, flags: int) -> str:
    """A text that these parts match, or nearly; another one for each choice."""
    return "".join(sample_of(kind, value, choice, flags) for kind, value in tree)


def sample_of(kind: object, value: object, choice: int, flags: int) -> str:
    if kind is code.LITERAL:
        return chr(value)
    if kind in {code.IN, code.NOT_LITERAL, code.ANY, code.CATEGORY}:
        fitting = one_of(kind, value if kind is not code.IN else tuple(value), flags)
        return fitting[choice % len(fitting)] if fitting else ""
    if kind in parser._REPEATCODES:
        least, _, inside = value
        return sample(inside, choice, flags) * min(max(least, 1), 40)
    if kind is code.SUBPATTERN:
        return sample(value[-1], choice, flags)
    if kind is code.ATOMIC_GROUP:
        return sample(value, choice, flags)
    if kind is code.BRANCH:
        ways = value[1]
        return sample(ways[choice % len(ways)], choice, flags)
    return ""


@functools.cache
def one_of(kind: object, value: object, flags: int) -> list[str]:
    state = parser.State()
    state.flags = flags
    inside = [(kind, list(value) if kind is code.IN else value)]
    matcher = re._compiler.compile(parser.SubPattern(state, inside), flags)
    fitting = [each for each in TRIED if each.isascii() or not flags & re.ASCII]
    return list(dict.fromkeys(each for each in fitting if matcher.fullmatch(each)))


def repeats(tree: Iterable[tuple[object, object]], before: str, choice: int, flags: int):
    """What may be repeated without end, each with a text that leads there."""
    for kind, value in tree:
        inner = ()
        if kind in parser._REPEATCODES:
            least, most, inside = value
            if most is code.MAXREPEAT or most >= 50:
                yield before, sample(inside, choice, flags)
            inner = [inside]
        elif kind is code.SUBPATTERN:
            inner = [value[-1]]
        elif kind is code.ATOMIC_GROUP:
            inner = [value]
        elif kind is code.BRANCH:
            inner = value[1]
        elif kind in {code.ASSERT, code.ASSERT_NOT}:
            inner = [value[1]]
        for each in inner:
            yield from repeats(each, before, choice, flags)
        before += sample_of(kind, value, choice, flags)


def hostile(pattern: re.Pattern[str] | re.Pattern[bytes]) -> set[tuple[str, str, str]]:
    """Texts as (beginning, what is repeated, end)."""
    source = (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )
    flags = pattern.flags & ~re.DEBUG
    if isinstance(pattern.pattern, bytes):
        flags |= re.ASCII
    tree = parser.parse(source, flags)
    found = {("", each, "") for each in (" ", "a", "A", "1", "a ", "\n", "a.", "<", "aA", "-")}
    for choice in range(3):
        whole = sample(tree, choice, flags)
        pumps = list(repeats(tree, "", choice, flags))
        found.add(("", whole, ""))
        for before, pump in pumps:
            found |= {(before, pump, end) for end in ("", "\x00", "a", "\n")}
            found |= {("", before + pump, ""), ("", before, ""), ("", pump + before, "!")}
        found |= {("", a + b, "\x00") for (_, a), (_, b) in zip(pumps, pumps[1:], strict=False)}
    return {each for each in found if each[1]}


def takes_s(
    pattern: re.Pattern[str] | re.Pattern[bytes], text: tuple[str, str, str], size: int
) -> float:
    before, pump, end = text
    whole = before + pump * (size // len(pump)) + end
    given = whole if isinstance(pattern.pattern, str) else whole.encode("latin-1", "replace")
    took = []
    for _ in range(2):
        began = time.thread_time()
        for _found in pattern.finditer(given):
            pass
        took.append(time.thread_time() - began)
        if took[-1] < NEGLIGIBLE_S:
            break
    return min(took)


def is_linear(pattern: re.Pattern[str] | re.Pattern[bytes], text: tuple[str, str, str]) -> bool:
    if takes_s(pattern, text, FEW // 4) > 0.2:
        return False
    few = takes_s(pattern, text, FEW)
    return few < NEGLIGIBLE_S or takes_s(pattern, text, MANY) < GROWTH * few


@pytest.mark.timeout(600)
def test_every_pattern_is_linear():
    slow = {
        f"{name}: {pattern.pattern!r}": text
        for name, pattern in patterns()
        for text in hostile(pattern)
        if not is_linear(pattern, text)
    }
    assert slow == {}


@pytest.mark.parametrize(
    "regex", [r"a*b", r"(?:a|a)*b", r" *\n", r"\w+(?:-\w+)+", r"<.*?>", r"(?s)/\*.*?\*/"]
)
def test_a_pattern_that_is_not_linear_is_found(regex):
    pattern = re.compile(regex)
    assert not all(is_linear(pattern, text) for text in hostile(pattern))


def test_all_patterns_are_looked_at():
    found = {name.rpartition(".")[0] if name.count(".") > 1 else name for name, _ in patterns()}
    assert len(patterns()) > 500
    assert {"toolcrib.indexers.audit.rules", "toolcrib.router.context.pii"} <= found | {
        name for name, _ in patterns()
    }
