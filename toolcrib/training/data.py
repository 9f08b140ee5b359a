"""Training data: texts of tools, queries with the texts that answer them, splits and batches."""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, cast

import numpy as np
import yaml
from numpy.typing import NDArray

from toolcrib.encoders.base import DenseEncoder, FloatArray, SparseVector
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.indexers.points import MAX_ENCODED_CHARS, clean, dense_text
from toolcrib.records import ToolSpec
from toolcrib.records.codec import object_of
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.text import WORD_CHARACTERS, split_identifier
from toolcrib.training import import_train

MAX_POSITIVES = 2
"""Most positives of a query; further relevant tools are masked as negatives."""


@dataclass(frozen=True, slots=True)
class Example:
    """A query with places of texts: its positive, all `relevant` texts, and hard `negatives`.

    `source` names the set that the example comes from: batches are drawn within a source or across
    all sources.
    """

    query: str
    positive: int
    relevant: frozenset[int]
    source: str
    negatives: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Distinct texts, the examples that point to them, and the server of each text.

    `servers` is empty if no server is known, as for texts that are no tools.
    """

    documents: tuple[str, ...]
    examples: tuple[Example, ...]
    servers: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 over all texts and pairs, in order."""
        hashed = hashlib.sha256()
        for text in self.documents:
            hashed.update(text.encode("utf-8", "surrogatepass") + b"\0")
        for example in self.examples:
            places = f"{example.positive} {sorted(example.relevant)} {example.negatives}"
            line = f"{example.query}\0{places}\0{example.source}\n"
            hashed.update(line.encode("utf-8", "surrogatepass"))
        return hashed.hexdigest()


def from_labels(data: DataSet, queries: Iterable[LabelledQuery]) -> TrainingData:
    """Pairs from labelled queries: each query with its two highest graded tools.

    Queries without a tool, and labels of tools outside the set, are skipped.
    """
    places: dict[str, int] = {}
    by_id: dict[str, int] = {}
    servers: dict[int, str] = {}
    for tool in sorted(data.tools, key=lambda tool: tool.id):
        by_id[tool.id] = places.setdefault(dense_text(tool), len(places))
        servers.setdefault(by_id[tool.id], tool.server)
    examples: list[Example] = []
    for query in queries:
        known = [tool for tool in query.relevant if tool in by_id]
        text = clean(query.text)
        if not known or not text:
            continue
        best = sorted(known, key=lambda tool: (-query.relevant[tool], tool))[:MAX_POSITIVES]
        relevant = frozenset(by_id[tool] for tool in known)
        places_of_best = dict.fromkeys(by_id[tool] for tool in best)
        examples += (Example(text, place, relevant, data.name) for place in places_of_best)
    return TrainingData(tuple(places), tuple(examples), tuple(servers.values()))


def join_data(parts: Sequence[TrainingData]) -> TrainingData:
    """Join sets; equal texts of two sets become one text."""
    places: dict[str, int] = {}
    servers: dict[int, str] = {}
    examples: list[Example] = []
    for part in parts:
        moved = [places.setdefault(text, len(places)) for text in part.documents]
        for place, server in zip(moved, part.servers or [""] * len(moved), strict=True):
            servers.setdefault(place, server)
        examples += (_moved_example(example, moved) for example in part.examples)
    return TrainingData(tuple(places), tuple(examples), tuple(servers.values()))


def _moved_example(example: Example, places: Sequence[int] | Mapping[int, int]) -> Example:
    return replace(
        example,
        positive=places[example.positive],
        relevant=frozenset(places[place] for place in example.relevant),
        negatives=tuple(places[place] for place in example.negatives),
    )


def prune_documents(data: TrainingData) -> TrainingData:
    """Drop texts that no example points to."""
    used = sorted({p for e in data.examples for p in (e.positive, *e.relevant, *e.negatives)})
    moved = {place: number for number, place in enumerate(used)}
    examples = (_moved_example(example, moved) for example in data.examples)
    documents, servers = (
        tuple(texts[place] for place in used) if texts else ()
        for texts in (data.documents, data.servers)
    )
    return TrainingData(documents, tuple(examples), servers)


def sample_data(data: TrainingData, limit: int, seed: int) -> TrainingData:
    """Draw at most `limit` examples with a seed; all texts stay, as negatives."""
    if len(data.examples) <= limit:
        return data
    return replace(data, examples=tuple(random.Random(seed).sample(data.examples, limit)))  # noqa: S311 no secret


def batches(
    sources: Sequence[str], size: int, *, homogeneous: float = 0.5, seed: int = 0
) -> list[list[int]]:
    """Batches of `size` places of examples, each example once; an incomplete batch is dropped.

    A share of `homogeneous` of every source gets batches of that source alone, whose similar texts
    are hard negatives. Other batches mix sources, so that a source's style is no clue.
    """
    rng = random.Random(seed)  # noqa: S311 no secret
    by_source: defaultdict[str, list[int]] = defaultdict(list)
    for place, source in enumerate(sources):
        by_source[source].append(place)
    drawn: list[list[int]] = []
    mixed: list[int] = []
    for places in by_source.values():
        rng.shuffle(places)
        whole = int(len(places) * homogeneous) // size * size
        drawn += (places[start : start + size] for start in range(0, whole, size))
        mixed += places[whole:]
    rng.shuffle(mixed)
    full = len(mixed) // size * size
    drawn += (mixed[start : start + size] for start in range(0, full, size))
    rng.shuffle(drawn)
    return drawn


def without_server(tool: ToolSpec) -> str:
    """The text that identifies a tool on any server."""
    return dense_text(tool.model_copy(update={"server": ""}))


PERMUTATIONS = 64
NEAR_DUPLICATE_JACCARD = 0.7
"""Jaccard similarity of word shingles from which on two texts are near-duplicates."""

LSH_ERROR_WEIGHTS = (0.1, 0.9)
"""Weights of false positives and false negatives of the index: only positives are checked again."""

SHINGLE_WORDS = 3


class HeldOut:
    """An index of texts that training must not have seen."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._datasketch = import_train("datasketch")
        self._index: Any = self._datasketch.MinHashLSH(
            threshold=NEAR_DUPLICATE_JACCARD, num_perm=PERMUTATIONS, weights=LSH_ERROR_WEIGHTS
        )
        self._hashes: dict[str, Any] = {}
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a text, if missing."""
        if text not in self._hashes:
            self._hashes[text] = self._hash(text)
            self._index.insert(text, self._hashes[text])

    def like(self, text: str) -> list[str]:
        """Near-duplicates of a text in the index, sorted."""
        hashed = self._hash(text)
        found: Sequence[str] = self._index.query(hashed)
        # The index errs both ways; the estimate from all permutations decides.
        return sorted(o for o in found if self._hashes[o].jaccard(hashed) >= NEAR_DUPLICATE_JACCARD)

    def __contains__(self, text: str) -> bool:
        return bool(self.like(text))

    def _hash(self, text: str) -> Any:
        hashed = self._datasketch.MinHash(num_perm=PERMUTATIONS, seed=0)
        hashed.update_batch([run.encode("utf-8", "surrogatepass") for run in _shingles(text)])
        return hashed


def clusters(texts: Sequence[str]) -> list[list[int]]:
    """Places of texts in clusters: chains of near-duplicates, in order."""
    held, joined = HeldOut(), import_train("scipy.cluster.hierarchy").DisjointSet(texts)
    for text in dict.fromkeys(texts):
        for other in held.like(text):
            joined.merge(text, other)
        held.add(text)
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, text in enumerate(texts):
        groups[joined[text]].append(place)
    return list(groups.values())


def _shingles(text: str) -> set[str]:
    """Runs of three words; a shorter text as a whole."""
    words: list[str] = WORD_CHARACTERS.findall(text.casefold())
    runs = range(max(1, len(words) - SHINGLE_WORDS + 1))
    return {" ".join(words[start : start + SHINGLE_WORDS]) for start in runs}


TRAIN, DEV, TEST = "train", "dev", "test"
SHARES = {TRAIN: 0.6, DEV: 0.15, TEST: 0.25}
DEV_OF_TRAIN = 0.1


def split_anew(data: DataSet, seed: int = 0) -> DataSet:
    """Split all queries anew: 60 % train, 15 % dev, 25 % test.

    Near-duplicate queries stay in one split: queries of one template would leak answers.
    """
    return replace(data, queries=_assign_splits(data.queries, SHARES, seed))


def with_dev(data: DataSet, seed: int = 0) -> DataSet:
    """The data set; without development queries, with a tenth of the training queries as such."""
    train = data.split(TRAIN)
    if not train or data.split(DEV):
        return data
    dealt = iter(_assign_splits(train, {TRAIN: 1 - DEV_OF_TRAIN, DEV: DEV_OF_TRAIN}, seed))
    queries = (next(dealt) if query.split == TRAIN else query for query in data.queries)
    return replace(data, queries=tuple(queries))


def _assign_splits(
    queries: Sequence[LabelledQuery], shares: dict[str, float], seed: int
) -> tuple[LabelledQuery, ...]:
    """The queries in their order, each with a split; a cluster stays in one split."""
    groups = clusters([query.text for query in queries])
    random.Random(seed).shuffle(groups)  # noqa: S311 no secret
    splits: dict[int, str] = {}
    room = {name: share * len(queries) for name, share in shares.items()}
    for group in groups:
        emptiest = max(room, key=lambda name: room[name] / shares[name])
        room[emptiest] -= len(group)
        splits |= dict.fromkeys(group, emptiest)
    return tuple(replace(query, split=splits[at]) for at, query in enumerate(queries))


MIN_PURPOSE_WORDS, MAX_PURPOSE_WORDS = 2, 40
"""Shorter purposes are empty phrases; longer purposes are no sentences."""

HIDDEN_PURPOSE_SHARE = 0.5
"""Share of the pairs whose tool text lacks the purpose that the query was made from: otherwise the
model would only learn to match words."""

VALUE_SHARE, PREAMBLE_SHARE, SECOND_WISH_SHARE, NAME_QUERY_SHARE = 0.35, 0.15, 0.15, 0.3
"""Shares of the queries with a parameter's value, a preamble, or a second wish, and of queries made
from the tool's name."""

THINNED_QUERY_SHARE, DROPPED_WORD_SHARE, CAPITAL_SHARE = 0.3, 0.25, 0.5
"""Share of the queries that lose words, share of their words that is lost, and share of the queries
with a capital first."""

MAX_QUERY_VALUE_CHARS = 40

WISH_SERVER_SHARE, SHORT_WISH_SERVER_SHARE, MAX_SHORT_WISH_WORDS = 0.12, 0.5, 4
"""Shares of the queries that name the server: of all, and of purposes of up to four words, such as
`Get suggestions`, which are vague without it."""

NAMED_SERVER_SHARE = 0.85
"""Share of the tool texts that name the server."""

_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")
_BOILERPLATE = re.compile(
    r"^(?:use )?(?:this|the|a|an)?\s{0,3}"
    r"(?:tool|api|endpoint|function|operation|method|command|call|action|service)?\s{0,3}"
    r"(?:that|which|to|for|will|can|is used to|is used for|allows? (?:you|users|clients) to"
    r"|lets? (?:you|users)|enables? (?:you|users) to|used to|helps? (?: you)?(?: to)?)"
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
    """One pair for each tool with a readable purpose; tools with equal texts count once.

    Texts mostly in other scripts than Latin are skipped, as the encoder reads English.
    """
    rng = random.Random(seed)  # noqa: S311 no secret
    told: dict[str, tuple[ToolSpec, str]] = {}
    for spec in specs:
        purpose = _purpose(spec)
        if purpose:
            told.setdefault(f"{spec.name} {purpose}".casefold(), (spec, purpose))
    documents: dict[str, int] = {}
    servers: dict[int, str] = {}
    examples: list[Example] = []
    pairs = list(told.values())
    for place, (spec, purpose) in enumerate(pairs):
        text, hidden = _tool_text(spec, purpose, rng)
        positive = documents.setdefault(text, len(documents))
        servers.setdefault(positive, spec.server)
        relevant, wish = {positive}, _wish(spec, purpose, rng, named=hidden)
        if place and rng.random() < SECOND_WISH_SHARE:
            # Neighbours in a file are tools of one server, as in a turn with two steps.
            relevant.add(examples[-1].positive)
            wishes = [wish, _imperative(pairs[place - 1][1])]
            rng.shuffle(wishes)
            wish = rng.choice(_phrases().joints).format(*wishes)
        query = _as_user_text(wish, rng)
        examples.append(Example(clean(query), positive, frozenset(relevant), source))
    return TrainingData(tuple(documents), tuple(examples), tuple(servers.values()))


def _purpose(spec: ToolSpec) -> str:
    """The first sentence of enough words; else the words of the name."""
    for sentence in _SENTENCE.split(spec.description.strip())[:3]:
        text = clean(sentence).strip(" .:#*`-")
        if MIN_PURPOSE_WORDS < len(text.split()) <= MAX_PURPOSE_WORDS and _latin(text):
            return text
    words = split_identifier(spec.name)
    return " ".join(words) if len(words) >= MIN_PURPOSE_WORDS and _latin(spec.name) else ""


def _latin(text: str) -> bool:
    return sum(map(str.isascii, text)) >= 0.9 * len(text)


def _tool_text(spec: ToolSpec, purpose: str, rng: random.Random) -> tuple[str, bool]:
    """Text for the encoder, and True if the purpose was removed."""
    server = spec.server if rng.random() < NAMED_SERVER_SHARE else ""
    if rng.random() < HIDDEN_PURPOSE_SHARE:
        rest = clean(spec.description[:MAX_ENCODED_CHARS]).replace(purpose, "", 1).strip(" .")
        if len(rest.split()) <= MIN_PURPOSE_WORDS:
            # Many tools have only a name left; their parameters describe them.
            rest = f"{rest} {', '.join(_parameters(spec))}".strip()
        words = " ".join(split_identifier(spec.name))
        return clean(f"{server} {words}: {rest}"), True
    return clean(dense_text(spec) if server else without_server(spec)), False


def _wish(spec: ToolSpec, purpose: str, rng: random.Random, *, named: bool) -> str:
    """Wish of a user, as an imperative or a noun phrase."""
    words = split_identifier(spec.name)
    if not named and len(words) >= MIN_PURPOSE_WORDS and rng.random() < NAME_QUERY_SHARE:
        wish = " ".join(words).casefold()
    else:
        wish = _imperative(purpose)
    is_short = len(wish.split()) <= MAX_SHORT_WISH_WORDS
    placed = SHORT_WISH_SERVER_SHARE if is_short else WISH_SERVER_SHARE
    if spec.server and rng.random() < placed:
        wish = rng.choice(_phrases().server_frames).format(wish, spec.server)
    parameters = list(_parameters(spec))
    if parameters and rng.random() < VALUE_SHARE:
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
    forms = (word, *map(word.removesuffix, ("s", "es", "ing")), re.sub(r"ies\Z", "y", word))
    for base in forms:
        if base in _phrases().verbs:
            return f"{base} {rest}".strip()
    # Names keep their capitals: "GitHub issues".
    return text if first[1:] != first[1:].casefold() else f"{word} {rest}".strip() or text


def _as_user_text(wish: str, rng: random.Random) -> str:
    if rng.random() < THINNED_QUERY_SHARE:
        kept = [word for word in wish.split() if rng.random() >= DROPPED_WORD_SHARE]
        wish = " ".join(kept) if len(kept) >= MIN_PURPOSE_WORDS else wish
    verbal = wish.partition(" ")[0] in _phrases().verbs
    query = rng.choice(_phrases().frames if verbal else _phrases().noun_frames).format(wish)
    if rng.random() < PREAMBLE_SHARE:
        query = f"{rng.choice(_phrases().preambles)} {query}"
    return query[:1].upper() + query[1:] if rng.random() < CAPITAL_SHARE else query


def _parameters(spec: ToolSpec) -> Mapping[str, Any]:
    return object_of(spec.input_schema.get("properties"))


def _value(spec: ToolSpec, name: str, rng: random.Random) -> str:
    """A possible value of the parameter: from its schema if there is one."""
    given = object_of(_parameters(spec).get(name))
    options = given.get("enum") or [given[k] for k in ("example", "default") if given.get(k)]
    if isinstance(options, list) and options:
        chosen = str(rng.choice(cast("list[Any]", options)))
        if len(chosen) <= MAX_QUERY_VALUE_CHARS:
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


# -- negatives -------------------------------------------------------------------------------

SAME_TEXT_COSINE = 0.9
"""Cosine from which on a text is a paraphrase of the positive, and no negative."""

MAX_LEAD_OVER_POSITIVE = 0.1
"""A text whose score exceeds the positive's by more is probably an unlabelled positive."""

MINING_DEPTH = 20
CHUNK_QUERIES = 256


def mine(
    parts: Sequence[TrainingData],
    guide: DenseEncoder,
    *,
    count: int = 1,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[TrainingData, FloatArray]:
    """Join the parts, and give every example `count` negatives from the first 20 of its part.

    Tools of the positive's server come first, as they are confused most. False negatives are
    filtered: texts with a cosine of 0.9 or more to the positive, and texts ranked well above the
    positive (after NV-Retriever, Moreira et al. 2024). An example without enough candidates takes
    any other text. Also returns the guide's vectors of all texts, float32 [texts, d], by which the
    loss masks too.
    """
    rng = np.random.default_rng(seed)
    # A part of one text has no negatives.
    parts = [part for part in parts if len(part.documents) > 1]
    total = sum(len(part.examples) for part in parts)
    done, mined = 0, list[TrainingData]()
    vectors: dict[str, FloatArray] = {}
    for part in parts:
        stage, examples = _FirstStage(guide, part.documents), list[Example]()
        vectors |= zip(part.documents, stage.vectors, strict=True)
        servers = np.array(part.servers or [""] * len(part.documents))
        for start in range(0, len(part.examples), CHUNK_QUERIES):
            chunk = part.examples[start : start + CHUNK_QUERIES]
            examples += _with_negatives(chunk, stage, servers, count, rng)
            progress(done + len(examples), total)
        done += len(examples)
        mined.append(replace(part, examples=tuple(examples)))
    data = join_data(mined)
    return data, np.array([vectors[text] for text in data.documents], dtype=np.float32)


def _with_negatives(
    examples: Sequence[Example],
    stage: _FirstStage,
    servers: NDArray[np.str_],
    count: int,
    rng: np.random.Generator,
) -> list[Example]:
    found = stage.scores([e.query for e in examples])
    alike = stage.vectors[[e.positive for e in examples]] @ stage.vectors.T >= SAME_TEXT_COSINE
    mined: list[Example] = []
    for scores, barred, example in zip(found, alike, examples, strict=True):
        barred[[example.positive, *example.relevant]] = True
        too_high = scores > scores[example.positive] + MAX_LEAD_OVER_POSITIVE
        left = np.where(barred | too_high, -np.inf, scores)
        depth = min(MINING_DEPTH, len(left))
        hardest = np.argpartition(-left, depth - 1)[:depth]
        hardest = hardest[np.isfinite(left[hardest])]
        if len(hardest) < count:
            hardest = np.flatnonzero(~barred)
        if not len(hardest):
            hardest = np.setdiff1d(np.arange(len(scores)), [example.positive])
        drawn = rng.permutation(hardest)
        siblings = (servers == servers[example.positive]) & (servers != "")
        # A stable sort: siblings come first, in random order.
        drawn = np.resize(drawn[np.argsort(~siblings[drawn], kind="stable")], count)
        mined.append(replace(example, negatives=tuple(drawn.tolist())))
    return mined


class _FirstStage:
    """Search of texts by vectors, and by BM25 with the engine's IDF as one sparse product."""

    def __init__(self, guide: DenseEncoder, documents: Sequence[str]) -> None:
        self._guide, self.vectors = guide, guide.encode_documents(documents)
        self._sparse: Any = import_train("scipy.sparse")
        self._encoder = LexicalEncoder()
        counts = [Counter(self._encoder.terms(text)) for text in documents]
        average = float(np.mean([sum(count.values()) for count in counts]))
        matrix = self._matrix([self._encoder.encode_document(c, average) for c in counts])
        found = np.bincount(matrix.indices, minlength=matrix.shape[1])
        idf = np.log1p((len(counts) - found + 0.5) / (found + 0.5)).astype(np.float32)
        self._documents = matrix.multiply(idf).tocsr()

    def scores(self, queries: Sequence[str]) -> FloatArray:
        """Fused score of every query and text: float32 [queries, texts]."""
        weights = FusionWeights()
        dense = np.stack([self._guide.encode_query(query) for query in queries]) @ self.vectors.T
        asked = self._matrix([self._encoder.encode_query(query) for query in queries])
        lexical = 1 - np.exp(-(asked @ self._documents.T).toarray() / weights.bm25_scale)
        return (weights.dense * dense + weights.lexical * lexical).astype(np.float32)

    def _matrix(self, rows: Sequence[SparseVector]) -> Any:
        ends = np.cumsum([0, *(len(row.indices) for row in rows)])
        # Term ids have 32 bits, too many for the columns of a matrix.
        columns = np.concatenate([row.indices for row in rows]) % TERM_COLUMNS
        values = np.concatenate([row.values for row in rows])
        shape = (len(rows), TERM_COLUMNS)
        return self._sparse.csr_matrix(
            (values.astype(np.float32), columns.astype(np.int64), ends), shape=shape
        )


TERM_COLUMNS = 1 << 22
"""Columns of the term matrix: few enough terms share a column for mining."""
