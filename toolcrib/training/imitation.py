"""Imitated queries, as users might ask them, made from specifications alone (self-supervision).

The purpose of a tool stands in its name, its description's first sentence and its parameters.
One of them becomes the query, in a user's words; the text that the encoder reads of the tool,
often without what became the query, is what it must find.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, cast

import yaml

from toolcrib.encoders.lexical import split_identifier
from toolcrib.indexers.points import MAX_CHARS, clean, dense_text
from toolcrib.records import ToolSpec
from toolcrib.training.data import Example, TrainingData

__all__ = ["imitate"]

MIN_WORDS, MAX_WORDS = 2, 40
"""Shorter purposes say nothing, longer ones are no sentence."""

HIDDEN = 0.5
"""Share of the pairs whose tool text loses what the query was made from: without them the model
would learn no more than to match words."""

VALUED, PREFACED, DOUBLED, NAMED = 0.35, 0.15, 0.15, 0.3
"""Shares of the queries with a parameter's value, with a preamble, with a second wish, and made
of the name."""

THINNED, DROPPED, CAPITALISED = 0.3, 0.25, 0.5
"""Shares of the queries with words left out, of their words left out, and with a capital."""

MAX_VALUE_CHARS = 40

PLACED, PLACED_IF_SHORT, SHORT = 0.12, 0.5, 4
"""Shares of the queries that name the server; `Get suggestions` and other purposes of up to four
words say little without."""

SERVED = 0.85
"""Share of the tool texts that name it."""

_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_BOILERPLATE = re.compile(
    r"^(?:use )?(?:this|the|a|an)?\s*(?:tool|api|endpoint|function|operation|method|command|call|"
    r"action|service)?\s*(?:that|which|to|for|will|can|is used to|is used for|allows? (?:you|users|"
    r"clients) to|lets? (?:you|users)|enables? (?:you|users) to|used to|helps? (?: you)?(?: to)?)"
    r"\s+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Phrases:
    frames: Sequence[str]
    noun_frames: Sequence[str]
    preambles: Sequence[str]
    joints: Sequence[str]
    server_frames: Sequence[str]
    value_frames: Sequence[str]
    values: Mapping[str, Sequence[str]]
    verbs: frozenset[str]


def imitate(specs: Iterable[ToolSpec], source: str, *, seed: int = 0) -> TrainingData:
    """One pair for each tool with a purpose that can be told; tools of one text count once.

    Texts mostly not in Latin script are passed over, as the encoder reads English.
    """
    rng = random.Random(seed)  # noqa: S311 no secret
    told: dict[str, tuple[ToolSpec, str]] = {}
    for spec in specs:
        purpose = _purpose(spec)
        if purpose:
            told.setdefault(f"{spec.name} {purpose}".casefold(), (spec, purpose))
    documents: dict[str, int] = {}
    examples: list[Example] = []
    pairs = list(told.values())
    for place, (spec, purpose) in enumerate(pairs):
        text, hidden = _tool_text(spec, purpose, rng)
        positive = documents.setdefault(text, len(documents))
        relevant, wish = {positive}, _wish(spec, purpose, rng, named=hidden)
        if place and rng.random() < DOUBLED:
            # Neighbours in a file are tools of one server: as in a user's turn of two steps.
            _, second = pairs[place - 1]
            relevant.add(examples[-1].positive)
            wish = _both(wish, _imperative(second), rng)
        query = _in_a_users_words(wish, rng)
        examples.append(Example(clean(query), positive, frozenset(relevant), source))
    return TrainingData(tuple(documents), tuple(examples))


def _purpose(spec: ToolSpec) -> str:
    """The first sentence that says something; the name's words where there is none."""
    for sentence in _SENTENCE.split(spec.description.strip())[:3]:
        text = clean(sentence).strip(" .:#*`-")
        if MIN_WORDS < len(text.split()) <= MAX_WORDS and _latin(text):
            return text
    words = split_identifier(spec.name)
    return " ".join(words) if len(words) >= MIN_WORDS and _latin(spec.name) else ""


def _latin(text: str) -> bool:
    return sum(map(str.isascii, text)) >= 0.9 * len(text)


def _tool_text(spec: ToolSpec, purpose: str, rng: random.Random) -> tuple[str, bool]:
    """What the encoder reads, and whether the purpose was taken out of it."""
    server = spec.server if rng.random() < SERVED else ""
    words = " ".join(split_identifier(spec.name))
    if rng.random() < HIDDEN:
        rest = clean(spec.description[:MAX_CHARS]).replace(purpose, "", 1).strip(" .")
        parameters = ", ".join(_parameters(spec))
        # Nothing but a name is left of many tools; their parameters say what they do.
        described = rest if len(rest.split()) > MIN_WORDS else f"{rest} {parameters}".strip()
        return clean(f"{server} {words}: {described}"), True
    shown = spec if server else spec.model_copy(update={"server": ""})
    return clean(dense_text(shown)), False


def _wish(spec: ToolSpec, purpose: str, rng: random.Random, *, named: bool) -> str:
    """What the user wants, as an imperative or a noun phrase."""
    words = split_identifier(spec.name)
    if not named and len(words) >= MIN_WORDS and rng.random() < NAMED:
        wish = " ".join(words).casefold()
    else:
        wish = _imperative(purpose)
    placed = PLACED if len(wish.split()) > SHORT else PLACED_IF_SHORT
    if spec.server and rng.random() < placed:
        wish = rng.choice(_phrases().server_frames).format(wish, spec.server)
    parameters = list(_parameters(spec))
    if parameters and rng.random() < VALUED:
        name = rng.choice(parameters)
        value = _value(spec, name, rng)
        shown = " ".join(split_identifier(name)).casefold()
        wish = rng.choice(_phrases().value_frames).format(wish, shown, value)
    return wish


def _imperative(purpose: str) -> str:
    """`Deletes tags from a key` as `delete tags from a key`."""
    text = _BOILERPLATE.sub("", purpose).strip() or purpose
    first, _, rest = text.partition(" ")
    word = first.casefold().strip(",.:;")
    for base in (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("ing")):
        if base in _phrases().verbs:
            return f"{base} {rest}".strip()
    if word.endswith("ies") and f"{word[:-3]}y" in _phrases().verbs:
        return f"{word[:-3]}y {rest}".strip()
    # Names keep their capitals: "GitHub issues".
    return text if first[1:] != first[1:].casefold() else f"{word} {rest}".strip() or text


def _both(first: str, second: str, rng: random.Random) -> str:
    pair = [first, second]
    rng.shuffle(pair)
    return rng.choice(_phrases().joints).format(*pair)


def _in_a_users_words(wish: str, rng: random.Random) -> str:
    if rng.random() < THINNED:
        wish = _thinned(wish, rng)
    verbal = wish.partition(" ")[0] in _phrases().verbs
    query = rng.choice(_phrases().frames if verbal else _phrases().noun_frames).format(wish)
    if rng.random() < PREFACED:
        query = f"{rng.choice(_phrases().preambles)} {query}"
    return query[:1].upper() + query[1:] if rng.random() < CAPITALISED else query


def _thinned(text: str, rng: random.Random) -> str:
    words = text.split()
    kept = [word for word in words if rng.random() >= DROPPED]
    return " ".join(kept) if len(kept) >= MIN_WORDS else text


def _parameters(spec: ToolSpec) -> Mapping[str, Any]:
    properties = spec.input_schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _value(spec: ToolSpec, name: str, rng: random.Random) -> str:
    """A value that the parameter could take: its schema's own where it gives one."""
    schema = _parameters(spec).get(name)
    given = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    options = given.get("enum") or [given[k] for k in ("example", "default") if given.get(k)]
    if isinstance(options, list) and options:
        chosen = str(rng.choice(cast("list[Any]", options)))
        if len(chosen) <= MAX_VALUE_CHARS:
            return chosen
    values = _phrases().values
    words = [word.casefold() for word in split_identifier(name)]
    kind = next((word for word in reversed(words) if word in values), None)
    if kind is None:
        kind = "number" if given.get("type") in ("integer", "number") else "name"
    return rng.choice(values[kind])


@cache
def _phrases() -> _Phrases:
    text = resources.files("toolcrib.training").joinpath("phrases.yaml").read_text(encoding="utf-8")
    fields: dict[str, Any] = yaml.safe_load(text)
    fields["verbs"] = frozenset(fields["verbs"].split())
    return _Phrases(**fields)
