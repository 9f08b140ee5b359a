"""Model of turns: features and classifiers, kept in one file, and the detector that uses it."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from toolcrib.context.classifier import (
    OUTSIDE,
    Classifier,
    Prediction,
    TurnClassifier,
    fit_classifier,
    other_turn_classifier,
    shipped_turn_classifier,
)
from toolcrib.context.cues import Cues, load_cues
from toolcrib.context.entities import EntityFinder, head_of
from toolcrib.context.labels import LabelSet, label_sets
from toolcrib.context.phrases import PhraseIndex
from toolcrib.context.pii import PERSONAL, grade_sensitivity
from toolcrib.context.rules import (
    ASSISTANT,
    ASSISTANT_WORDS,
    STATED_CONFIDENCE,
    Answer,
    HeuristicDetector,
    is_command,
    remainder_of,
    smalltalk_of,
    stated_intent,
)
from toolcrib.context.settings import ContextSettings
from toolcrib.encoders.base import DenseEncoder, FloatArray, space_of
from toolcrib.encoders.language import is_english, is_likely_english, language_of, spoken_words
from toolcrib.errors import EncoderError, SettingsError
from toolcrib.records import SENSITIVITIES, Context, Entity, Sensitivity
from toolcrib.records.scope import is_above
from toolcrib.retrieval.gate import UNSUPPORTED_LANGUAGE
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.text import TextWords, split_words

logger = logging.getLogger(__name__)

MIN_FEATURE_TEXTS = 3
"""Minimum number of texts with a word, or pair of words, that is a feature."""

MAX_WORD_FEATURES = 1_000
"""Maximum number of words and pairs that are features; more slow the fit and gain nothing."""

WORD_SCALE = 4.0
"""Length of the words' features, beside a vector scaled by 4 and cues of about 1 each."""

MAX_CUE_VOTES = 2.0

ENTITY_FEATURES = (
    "secret",
    "ip",
    "tool",
    "money",
    "path",
    "identifier",
    "error",
    "url",
    "date",
    "version",
)


@dataclass(frozen=True)
class TextReading:
    """Text with the entities in it."""

    text: str
    entities: Sequence[Entity]

    @cached_property
    def words(self) -> TextWords:
        """Words of the text, cut once."""
        return split_words(self.text)


@dataclass(frozen=True, slots=True, eq=False)
class TextFeatures:
    """Features of a text as numbers: float32 [width].

    First cue votes, entities and shape; then words and pairs of words, weighted by TF-IDF and
    scaled to the length `WORD_SCALE`.
    """

    cues: Cues
    places: Mapping[str, int]
    rarity: FloatArray

    def of(self, reading: TextReading) -> FloatArray:
        """Features of one text."""
        words = np.zeros(len(self.rarity), dtype=np.float32)
        known = [self.places[gram] for gram in _grams(reading.words) if gram in self.places]
        words[known] = self.rarity[known]
        length = float(np.linalg.norm(words))
        if length > 0:
            words *= WORD_SCALE / length
        return np.concatenate([_given_features(reading, self.cues), words])


def fit_features(texts: Sequence[str], cues: Cues) -> TextFeatures:
    """Choose the features among the words of the texts."""
    counts = Counter(gram for text in texts for gram in _grams(split_words(text)))
    frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORD_FEATURES]
    kept = [gram for gram, count in frequent if count >= MIN_FEATURE_TEXTS]
    rarity = [np.log(len(texts) / counts[gram]) + 1 for gram in kept]
    places = {gram: place for place, gram in enumerate(kept)}
    return TextFeatures(cues, places, np.array(rarity, dtype=np.float32))


def _grams(words: TextWords) -> set[str]:
    bare = words.bare
    return {*bare, *(f"{one} {two}" for one, two in pairwise(bare))}


def _indexes(cues: Cues) -> tuple[tuple[PhraseIndex, tuple[str, ...]], ...]:
    """Indexes of cues with their labels, in the order of the features."""
    made = cues.indexes
    intents = tuple(cues.intents)
    return (
        (made.leads, intents),
        (made.weak_leads, intents),
        (made.intents, intents),
        (made.domains, tuple(cues.domains)),
        (made.urgency, ("alarm", "high", "medium", "low", "calm")),
        (made.sensitivity, SENSITIVITIES[1:]),
        (made.need, ("act", "know")),
        (made.smalltalk, tuple(cues.smalltalk.labels)),
    )


def _given_features(reading: TextReading, cues: Cues) -> FloatArray:
    votes: list[float] = []
    for index, labels in _indexes(cues):
        found = Counter(label for match in index.find(reading.words) for label in match.labels)
        votes += [min(MAX_CUE_VOTES, float(found[label])) for label in labels]
    kinds = {entity.type for entity in reading.entities}
    flags = [float(kind in kinds) for kind in ENTITY_FEATURES]
    flags.append(float(not kinds.isdisjoint(PERSONAL)))
    return np.array([*votes, *flags, *_flags(reading, cues)], dtype=np.float32)


def _flags(reading: TextReading, cues: Cues) -> list[float]:
    """Flags of marks, capitals, lines, length, small talk, and the remaining words."""
    text, count = reading.text, len(reading.words.bare)
    capitals = [word for word in text.split() if len(word) > 2 and word.isupper()]  # noqa: PLR2004
    rest = remainder_of(reading.words, cues.indexes)
    flags = (
        "?" in text,
        "!" in text,
        len(capitals) > 1,
        "\n" in text.strip(),
        count <= 5,  # noqa: PLR2004
        count > 60,  # noqa: PLR2004
        bool(rest.smalltalk),
        *(rest.word_count >= least for least in (1, 2, 4)),
        *(rest.longest_clause >= least for least in (1, 2)),
        rest.words_before > 0,
        rest.has_request,
    )
    return list(map(float, flags))


MODEL_FORMAT = 2
MODEL_FILE = Path(__file__).with_name("presets") / "model.npz"

ARRAYS = ("weights", "offsets", "neighbours", "owners", "trust", "thresholds")
HALF_PRECISION_ARRAYS = ("weights", "neighbours")
"""Arrays stored as float16: half the size, and equal predictions for the development turns."""

NEGATIVE_FIELDS = {
    "smalltalk": ("intent", "domain", "need"),
    "intent": ("smalltalk",),
    "domain": ("smalltalk",),
}
"""Fields whose texts are negatives of a field: small talk has no intent, and a request is no small
talk."""

BORROWED_EVERY = 3

SHARED_IDENTITY = ("format", "encoder", "cues")
"""Parts of the identity that all classifiers of a model share."""


@dataclass(frozen=True, slots=True, eq=False)
class ContextModel:
    """Classifiers of fields, and the features that they share.

    `identity`: encoder, label sets and cues of the fit. `aliases`: other words for intents.
    """

    identity: Mapping[str, str]
    features: TextFeatures
    classifiers: Mapping[str, Classifier]
    aliases: Mapping[str, str]

    def predict(self, vector: FloatArray, reading: TextReading) -> dict[str, Prediction]:
        """Predict each field of a text; `vector`: float32 [dimensions]."""
        extra = self.features.of(reading)
        return {name: each.predict(vector, extra) for name, each in self.classifiers.items()}


def identity_of(sets: Mapping[str, LabelSet], cues: Cues, dense: DenseEncoder) -> dict[str, str]:
    """Identity of a model fitted now: encoder, label sets and cues."""
    heard = cues.model_dump_json()
    return {
        "format": str(MODEL_FORMAT),
        "encoder": dense.name,
        "cues": hashlib.blake2b(heard.encode(), digest_size=16).hexdigest(),
        **{field: chosen.digest for field, chosen in sets.items()},
    }


def fit_context(
    sets: Mapping[str, LabelSet],
    cues: Cues,
    finder: EntityFinder,
    dense: DenseEncoder,
    known: ContextModel | None = None,
    covered: Mapping[str, str] = MappingProxyType({}),
) -> ContextModel:
    """Fit classifiers of fields on their utterances; takes a minute or two for all fields.

    Parts of `known` with an equal identity are reused; its features need equal encoder and cues. A
    field whose digest is in `covered` gets no classifier: another model predicts the field.
    """
    identity = identity_of(sets, cues, dense)
    shared = {**identity, "encoder": space_of(dense)}
    base = known if known and all(known.identity[n] == shared[n] for n in SHARED_IDENTITY) else None
    wanted = [field for field in sets if covered.get(field) != identity[field]]
    classifiers: dict[str, Classifier] = {}
    if base is not None:
        alike = [field for field in wanted if base.identity.get(field) == identity[field]]
        classifiers = {f: base.classifiers[f] for f in alike if f in base.classifiers}
    stale = [field for field in wanted if field not in classifiers]
    labelled = {field: with_others(field, sets) for field in stale}
    texts = list(dict.fromkeys(text for pairs in labelled.values() for text, _ in pairs))
    rows = {text: row for row, text in enumerate(texts)}
    features = base.features if base else fit_features(texts, cues)
    vectors = dense.encode_documents(texts)
    extra = [features.of(TextReading(text, finder.find(text))) for text in texts]
    for field, pairs in labelled.items():
        labels = tuple(sets[field].labels)
        places = [rows[text] for text, _ in pairs]
        owners = [OUTSIDE if label is None else labels.index(label) for _, label in pairs]
        classifiers[field] = fit_classifier(
            labels,
            vectors[places],
            np.array(owners, dtype=np.int64),
            np.stack([extra[place] for place in places]),
        )
    intents = sets["intent"].labels.items()
    aliases = {alias: name for name, label in intents for alias in label.aliases}
    return ContextModel(identity, features, classifiers, aliases)


def with_others(field: str, sets: Mapping[str, LabelSet]) -> list[tuple[str, str | None]]:
    """Texts of a field; every third text of its negative fields is outside of its labels.

    Many turns are both: requests beside small talk are outside of small talk too.
    """
    own = sets[field].texts()
    known = {text for text, _ in own}
    others = [
        text
        for other in NEGATIVE_FIELDS.get(field, ())
        for text, label in sets[other].texts()
        if label is not None and text not in known
    ]
    borrowed = list(dict.fromkeys(others[::BORROWED_EVERY]))
    if field == "smalltalk":
        labelled = [(text, label) for text, label in own if label is not None]
        asked = [*(text for text, label in own if label is None), *borrowed]
        own += _doubled_smalltalk(labelled)
        borrowed += _with_smalltalk([text for text, _ in labelled], asked)
    return [*own, *((text, None) for text in borrowed)]


MAX_COMBINED_TEXTS = 1_800
"""Maximum number of texts that get small talk beside them, shortest first: longer texts hardly
change."""

CLAUSE_TEMPLATES = (
    "{0}, {1}",
    "{0}. {1}",
    "{1}, {0}",
    "{0}! {1}",
    "{1}. {0}",
    "{0} and {1}",
    "{0} {1}",
)


def _with_smalltalk(smalltalk: Sequence[str], requests: Sequence[str]) -> list[str]:
    """Requests with small talk before or behind, shortest first: they remain requests."""
    return [
        CLAUSE_TEMPLATES[at % len(CLAUSE_TEMPLATES)].format(
            smalltalk[at * 7 % len(smalltalk)].rstrip(".!"), text
        )
        for at, text in enumerate(sorted(requests, key=len)[:MAX_COMBINED_TEXTS])
    ]


def _doubled_smalltalk(smalltalk: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Small talk followed by more small talk: several clauses alone make no request."""
    kinds: dict[str, list[str]] = {}
    for text, label in smalltalk:
        kinds.setdefault(label, []).append(text)
    return [
        (
            CLAUSE_TEMPLATES[at % 2].format(text.rstrip(".!"), texts[(at * 7 + 3) % len(texts)]),
            label,
        )
        for label, texts in kinds.items()
        for at, text in enumerate(texts)
    ]


def write_context(model: ContextModel) -> bytes:
    """Model as bytes of a NumPy archive."""
    head = {
        "identity": dict(model.identity),
        "labels": {field: each.labels for field, each in model.classifiers.items()},
        "words": list(model.features.places),
        "aliases": dict(model.aliases),
    }
    arrays: dict[str, Any] = {"rarity": model.features.rarity}
    for field, each in model.classifiers.items():
        for name in ARRAYS:
            kept = getattr(each, name)
            arrays[f"{field}.{name}"] = (
                kept.astype(np.float16) if name in HALF_PRECISION_ARRAYS else kept
            )
    text = json.dumps(head, ensure_ascii=False, sort_keys=True).encode()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, head=np.frombuffer(text, dtype=np.uint8), **arrays)
    return buffer.getvalue()


def read_context(content: bytes, cues: Cues) -> ContextModel:
    """Read a model from `write_context`; `cues`: those of its fit."""
    with np.load(io.BytesIO(content), allow_pickle=False) as kept:
        head = json.loads(bytes(kept["head"]))
        places = {word: place for place, word in enumerate(head["words"])}
        classifiers = {
            field: Classifier(tuple(labels), *(_full(kept[f"{field}.{n}"]) for n in ARRAYS))
            for field, labels in head["labels"].items()
        }
        features = TextFeatures(cues, places, kept["rarity"])
    return ContextModel(head["identity"], features, classifiers, head["aliases"])


def _full(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def shipped_context(cues: Cues) -> ContextModel:
    """Model of the package, for its labels, cues and encoder."""
    return read_context(MODEL_FILE.read_bytes(), cues)


MIN_SMALLTALK_SHARE = 0.5
"""Minimum probability of small talk, which gets no search: it must be likelier than a request."""
MIN_SMALLTALK_SHARE_BESIDE_CLAUSE, MIN_REQUEST_WORDS = 0.75, 2
"""Minimum probability of small talk beside a clause of at least so many words, which may be a
request."""

USER_WORDS = frozenset(["i", "me", "my", "mine", "we", "us", "our", "ours"])
"""Words by which a text refers to its user."""


class SemanticDetector(HeuristicDetector):
    """Detector by a fitted model; a text without a vector has the context of its cues.

    A transformer trained for turns predicts fields with the shipped labels, because its labels are
    right more often than those of heads over vectors: `turns` for English texts, `beside` for
    others.
    """

    def __init__(
        self,
        model: ContextModel,
        finder: EntityFinder,
        turns: TurnClassifier,
        beside: TurnClassifier | None = None,
    ) -> None:
        super().__init__(model.features.cues, finder)
        self._model, self.aliases = model, model.aliases
        fields = _predicted_fields(turns, model)
        # Heads for all fields mean an encoder that may read other languages.
        needed = fields if turns.digests.keys() - model.classifiers.keys() else frozenset[str]()
        others = (turns, needed) if beside is None else (beside, _predicted_fields(beside, model))
        self._has_other = beside is not None
        self._is_english = is_english if beside is None else is_likely_english
        self._turn_classifiers = {True: (turns, fields), False: others}
        own = {name: each.labels for name, each in model.classifiers.items()}
        labels = {**turns.labels, **own}
        self._needs, self._intents = labels["need"], labels["intent"]

    def begin(self, text: str) -> None:
        """Start to classify a text in another thread, for the next `detect` with it as query."""
        whole = head_of(text)
        turns, fields = self._turn_classifiers[self._is_english(whole)]
        if fields:
            turns.begin(whole)

    def detect(
        self,
        text: str,
        query: EncodedQuery | None = None,
        *,
        own: EncodedQuery | None = None,
        entities: bool = True,
        answer: Answer | None = None,
        by_words: bool = False,
    ) -> Context:
        """Detect the context of a turn."""
        if query is None or query.dense is None:
            return super().detect(text, query, entities=entities, answer=answer)
        found = self._finder.find(head_of(text)) if entities else ()
        # A follow-up is read with the earlier text, because its own words are few.
        whole = head_of(query.text)
        try:
            present = found if query.text == text or not entities else self._finder.find(whole)
            reading = TextReading(whole, present)
            predictions = self._predict(query.dense, reading)
            if own is not None and own.dense is not None and own.text != query.text:
                predictions["smalltalk"] = self._smalltalk_alone(own, own.dense, found)
        except EncoderError as error:
            logger.warning("the classifier of turns failed, and cues replace it: %s", error)
            return super().detect(text, query, entities=entities, answer=answer)
        labels = {name: each.label for name, each in predictions.items()}
        confidences = {name: each.confidence for name, each in predictions.items()}
        confidences["smalltalk"] = sum(shares := predictions["smalltalk"].shares)
        held, holds, _ = grade_sensitivity(found, ())
        words = reading.words if query.text == text else split_words(head_of(text))
        is_read = UNSUPPORTED_LANGUAGE not in (own or query).degraded
        is_shown = is_read and not by_words and (own or query).text == text
        refers = own is not None and own.text != query.text
        kind = self._smalltalk(words, shares, answer, is_shown=is_shown, refers=refers)
        labels["smalltalk"] = kind
        if kind is not None:
            # Small talk requests nothing: only its entities set the sensitivity.
            level, signals, needs = held, holds, dict[str, float]()
            labels |= {"intent": None, "domain": None, "need": None, "urgency": "low"}
            if answer is not None:
                least = smalltalk_of(words, self._cues.indexes, answer).confidence
                confidences["smalltalk"] = max(confidences["smalltalk"], least)
        else:
            self._apply_stated(words, labels, confidences, is_read=is_read)
            needs = dict(zip(self._needs, predictions["need"].shares, strict=True))
            level, signals = _sensitivity_of(labels, held, holds)
        return Context(
            text,
            intent=labels["intent"],
            domain=labels["domain"],
            urgency=labels["urgency"] or "low",
            sensitivity=level,
            entities=found,
            language=language_of(head_of(text)),
            smalltalk=labels["smalltalk"],
            need=labels["need"],
            needs=needs,
            confidences=confidences,
            confidence=min(confidences["intent"], confidences["domain"]),
            signals=signals,
        )

    def may_take_for_smalltalk(self, text: str) -> bool:
        """True for a text of another language whose words are no small talk.

        In other languages the classifier has seen few statements (`the bin is full`).
        """
        is_other = self._has_other and not self._is_english(head_of(text))
        return is_other and smalltalk_of(split_words(text), self._cues.indexes).label is None

    def _apply_stated(
        self,
        words: TextWords,
        labels: dict[str, str | None],
        confidences: dict[str, float],
        *,
        is_read: bool,
    ) -> None:
        """Replace the intent by a stated one, and the urgency where the language is not read."""
        stated = stated_intent(words, self._cues.indexes)
        if stated is not None and stated.labels[0] in self._intents:
            confidence = confidences["intent"] if labels["intent"] in stated.labels else 0.0
            labels["intent"] = stated.labels[0]
            confidences["intent"] = max(confidence, STATED_CONFIDENCE)
        # The vector of a text in another language says little of it.
        if not is_read and (urgency := self._urgency(words)).label == "high":
            labels["urgency"], confidences["urgency"] = urgency.label, urgency.confidence

    def _smalltalk_alone(
        self, own: EncodedQuery, vector: FloatArray, found: Sequence[Entity]
    ) -> Prediction:
        """Small talk by a turn's own text, for a turn joined with an earlier message."""
        reading = TextReading(head_of(own.text), found)
        turns, fields = self._turn_classifiers[self._is_english(reading.text)]
        if "smalltalk" in fields:
            return turns.predict(reading.text)["smalltalk"]
        judge = self._model.classifiers["smalltalk"]
        return judge.predict(vector, self._model.features.of(reading))

    def _predict(self, vector: FloatArray, reading: TextReading) -> dict[str, Prediction]:
        own = self._model.predict(vector, reading)
        turns, fields = self._turn_classifiers[self._is_english(reading.text)]
        predictions = turns.predict(reading.text) if fields else {}
        return own | {field: predictions[field] for field in sorted(fields)}

    def _smalltalk(
        self,
        words: TextWords,
        shares: Sequence[float],
        answer: Answer | None,
        *,
        is_shown: bool,
        refers: bool,
    ) -> str | None:
        """Likeliest kind of small talk; None if a request is likelier.

        Words alone decide in answers, and if the vector does not represent the turn: a vector of
        joined turns, of a language that the encoder does not read, or of one word (`passport`), to
        which small talk is as near as a request. A turn that `refers` to an earlier request speaks
        of it (`who was there?`), unless it has phrases of small talk.
        """
        indexes = self._cues.indexes
        rest = remainder_of(words, indexes)
        is_talk = rest.smalltalk and not rest.word_count and not rest.is_question
        is_one_word = sum(spoken_words(each) for each in words.bare if each[0].isalnum()) == 1
        if answer is not None or not is_shown or is_talk or is_one_word:
            return smalltalk_of(words, indexes, answer).label
        is_beside_clause = rest.smalltalk and rest.longest_clause >= MIN_REQUEST_WORDS
        least = MIN_SMALLTALK_SHARE_BESIDE_CLAUSE if is_beside_clause else MIN_SMALLTALK_SHARE
        if refers and (not rest.smalltalk or rest.words_before > 1):
            return None
        kinds = self._model.classifiers["smalltalk"].labels
        kind = kinds[int(np.argmax(shares))] if sum(shares) >= least else None
        if kind is None or is_command(words, indexes):
            return None
        if rest.is_question and kind != ASSISTANT:
            return None
        if not rest.smalltalk and self._urgency(words).label == "high":
            # A vector does not outvote what is stated.
            return None
        # A question about the user's own affairs is not about the assistant.
        spoken = set(words.bare)
        is_theirs = not rest.smalltalk and spoken & USER_WORDS and not spoken & ASSISTANT_WORDS
        return None if kind == ASSISTANT and is_theirs else kind


def _sensitivity_of(
    labels: Mapping[str, str | None], held: Sensitivity, holds: tuple[str, ...]
) -> tuple[Sensitivity, tuple[str, ...]]:
    """Sensitivity and signals by the labels; `held` and `holds`: those of the entities alone."""
    stated = labels["sensitivity"]
    level = stated if stated in SENSITIVITIES else SENSITIVITIES[0]
    signals = tuple(f"out-of-scope:{n}" for n in ("intent", "domain") if labels[n] is None)
    if held == "pii" and is_above(held, level):
        # An entity decides alone: a card number is personal whatever the words around it.
        return held, (*signals, *holds)
    return level, signals


def _predicted_fields(turns: TurnClassifier, model: ContextModel) -> frozenset[str]:
    """Fields that a classifier of turns predicts: those with its labels, or without a head."""
    digests = turns.digests.items()
    heads = model.classifiers
    return frozenset(f for f, own in digests if f not in heads or model.identity.get(f) == own)


# -- by settings -------------------------------------------------------------------------------


def make_context_model(
    settings: ContextSettings, dense: DenseEncoder, kept: bytes | None = None
) -> ContextModel | None:
    """Make the model of the settings: the shipped or a stored one if it applies, or a new fit.

    None if the settings want cues alone. A fit takes some seconds for each field with custom
    labels, and a minute or two for other cues or another encoder.
    """
    if settings.detector == "heuristic":
        return None
    cues = load_cues(settings.cues)
    shipped = shipped_context(cues)
    is_its_space = shipped.identity["encoder"] == space_of(dense)
    if is_its_space and not settings.labels and not settings.cues:
        return shipped
    if kept is not None and (own := stored_context(settings, dense, kept)) is not None:
        return own
    # Another encoder may read languages that the shipped classifier does not.
    digests = shipped_turn_classifier().digests if is_its_space else dict[str, str]()
    finder = EntityFinder(settings.gazetteers)
    if settings.cues or not is_its_space:
        logger.warning(
            "fitting a model of turns to the cues and the encoder %r, which may take minutes; "
            "`learn_labels` (`toolcrib calibrate --labels`) stores it with the index",
            dense.name,
        )
    return fit_context(label_sets(settings.labels), cues, finder, dense, shipped, digests)


def stored_context(
    settings: ContextSettings, dense: DenseEncoder, kept: bytes
) -> ContextModel | None:
    """Read a stored model; None if other settings or another encoder were used for its fit."""
    cues = load_cues(settings.cues)
    own = read_context(kept, cues)
    fits = own.identity == identity_of(label_sets(settings.labels), cues, dense)
    return own if fits else None


def is_shipped(model: ContextModel) -> bool:
    """True for the model that ships with the package."""
    return model.identity == shipped_context(load_cues()).identity


def make_detector(
    settings: ContextSettings,
    model: ContextModel | None,
    dense: DenseEncoder,
    names: Iterable[str],
    services: Iterable[str] = (),
) -> HeuristicDetector:
    """Make the detector of contexts, by a model or by cues alone.

    `names`: of tools; `services`: names of servers.

    Raises:
        SettingsError: there are labels, and cues alone detect; or there is no such region.
    """
    if settings.detector == "heuristic" and settings.labels:
        raise SettingsError(
            "context.labels: the detector 'heuristic' reads cues and no labels; set "
            "context.detector to 'semantic', or leave the labels out"
        )
    given = {"service": tuple(services), **settings.gazetteers}
    finder = EntityFinder(given, names, region=settings.region)
    if model is None:
        return HeuristicDetector(load_cues(settings.cues), finder)
    return SemanticDetector(model, finder, shipped_turn_classifier(), other_turn_classifier(dense))
