"""Rules: the context of a turn by its words alone, deterministic, without a model."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import dropwhile
from typing import Literal, TypeAlias
from unicodedata import category

from toolcrib.context.cues import CueIndexes, Cues, load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.phrases import Match, PhraseIndex
from toolcrib.context.pii import grade_sensitivity
from toolcrib.encoders.language import language_of, spoken_words
from toolcrib.numerics import exclusive_probabilities
from toolcrib.records import Context, Entity
from toolcrib.records.scope import Sensitivity
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.text import EFFECT_OF, STOPWORDS, TextWords, head_and_tail, singular, split_words

_UNKNOWN_CONFIDENCE = 0.3
_MAX_CUE_SIGNALS = 3


@dataclass(frozen=True, slots=True)
class Estimate:
    """Label, its confidence (0 to 1), and the phrases that are evidence for the label."""

    label: str | None
    confidence: float
    signals: tuple[str, ...] = ()


def phrase_weights(found: Iterable[Match]) -> defaultdict[str, float]:
    """Votes of phrases, each once: more for longer phrases, and shared by its labels."""
    votes = defaultdict[str, float](float)
    for match in {match.phrase: match for match in found}.values():
        for label in match.labels:
            votes[label] += math.sqrt(match.last - match.first) / len(match.labels)
    return votes


def estimate(
    votes: Mapping[str, float],
    labels: Iterable[str],
    found: Iterable[Match],
    *,
    sharpness: float = 1.0,
) -> Estimate:
    """Label with the most votes; `labels` order ties; none without any vote.

    The confidence is its share of `exp(sharpness * votes)`, and grows with its lead.
    """
    given = {label: sharpness * votes.get(label, 0.0) for label in labels}
    best = max(given, key=lambda label: given[label], default="")
    if not given.get(best):
        return Estimate(None, _UNKNOWN_CONFIDENCE)
    spoke = dict.fromkeys(match.phrase for match in found if best in match.labels)
    confidence = exclusive_probabilities(given)[best]
    return Estimate(best, confidence, tuple(map(repr, spoke))[:_MAX_CUE_SIGNALS])


_OPENER_SCORE = 0.5
_EARLY_REFERENCE_SCORE, _LATE_REFERENCE_SCORE, _FURTHER_REFERENCE_SCORE = 0.5, 0.25, 0.15
_SHORT_TURN_SCORE = 0.35

_MAX_EARLY_WORDS = 6
"""First words of a turn in which a reference points to earlier turns: its referent is seldom in the
same turn."""

_MAX_SHORT_TURN_WORDS = 3
_MAX_REFERENCE_WORDS = 2
"""Maximum number of words beside references in a turn without content of its own."""
_MAX_PARTIAL_SCORE = 0.9
"""Score of a turn with every sign of a reference that has content of its own."""


def follow_up_score(words: TextWords, cues: Cues) -> float:
    """Dependence of a turn on earlier turns: 0 if independent, 1 without content of its own.

    An opener (`and`, `what about`), words that refer back (`it`, `the same`) and brevity add up. A
    verb behind the opener (`then close it`) is content; without words that refer back it makes the
    turn independent (`and then delete the branch`).
    """
    indexes = cues.indexes
    count = sum(spoken_words(word) for word in words.bare if word[0].isalnum())
    if count == 0:
        return 0.0
    if is_command(words, indexes):
        return 1.0
    opener = opener_of(words, indexes)
    start = opener.last if opener is not None else 0
    references = [match for match in indexes.references.find(words) if match.first >= start]
    opening_words = sum(word[0].isalnum() for word in words.bare[:start])
    reference_words = opening_words + sum(match.last - match.first for match in references)
    own = count - reference_words
    if (
        reference_words
        and own <= _MAX_REFERENCE_WORDS
        and not _has_leading_verb(words, start, indexes, alone=own <= 1)
    ):
        return 1.0
    if opener is not None and not references and own > _MAX_REFERENCE_WORDS:
        return 0.0 if begins_with_order(words, cues) else _OPENER_SCORE
    score = _OPENER_SCORE if opener is not None else 0.0
    if references:
        is_early = references[0].first < _MAX_EARLY_WORDS
        score += _EARLY_REFERENCE_SCORE if is_early else _LATE_REFERENCE_SCORE
        score += _FURTHER_REFERENCE_SCORE * (len(references) - 1)
    if count <= _MAX_SHORT_TURN_WORDS:
        score += _SHORT_TURN_SCORE
    return min(score, _MAX_PARTIAL_SCORE)


_RECALL_END = "again"
"""Last word of a question for what was said before: `who was it again?`."""


_MAX_RECALL_WORDS = 12


def recall_of(words: TextWords, indexes: CueIndexes) -> Match | None:
    """Phrase of a recall at the start of a turn, past openers and interjections.

    In a question (`which gate did you say?`) it may stand later.
    """
    for at in _starts(words, (indexes.openers, indexes.smalltalk, indexes.politeness)):
        if (recall := indexes.recalls.at(words, at)) is not None:
            return recall
        if words.bare[at] in _QUESTION_WORDS:
            later = (each for each in indexes.recalls.find(words) if each.first > at)
            return next((replace(each, first=at) for each in later), None)
    return None


def recall_question(words: TextWords) -> list[int]:
    """Positions of the words of a short question that ends with `again`; else empty."""
    *before, clause = [each for each in _clauses(words, set()) if each] or [[]]
    asks = not _QUESTION_WORDS.isdisjoint(words.bare[at] for at in clause[:2])
    is_short = sum(map(len, before)) <= _MAX_REFERENCE_WORDS and len(clause) <= _MAX_RECALL_WORDS
    return clause if asks and is_short and words.bare[clause[-1]] == _RECALL_END else []


def asks_more(words: TextWords, start: int, cues: Cues) -> bool:
    """True if a sentence, an order or a question follows the clause with the word at `start`."""
    last = max(at for at, word in enumerate(words.bare) if word[0].isalnum())
    if any(words.bare[at] in _SENTENCE_ENDS for at in range(start, last)):
        return True
    asks = _QUESTION_WORDS | _AUXILIARIES
    first_words = [clause[0] for clause in _clauses(words, set()) if clause]
    return any(
        words.bare[at] in asks or _is_order_verb(words, at, cues)
        for at in first_words
        if at > start
    )


_INTERJECTIONS = frozenset(["hm", "hmm", "hmmm", "oh", "ah", "uh", "um", "er", "well", "sorry"])


def opener_of(words: TextWords, indexes: CueIndexes) -> Match | None:
    """Opener at the start of a turn, past interjections and small talk: `hm, and for Friday?`."""
    starts = _starts(words, (indexes.smalltalk,))
    return next((opener for at in starts if (opener := indexes.openers.at(words, at))), None)


def _starts(words: TextWords, passed: Sequence[PhraseIndex]) -> Iterator[int]:
    """Positions past phrases, marks and interjections, up to the first other word."""
    at = 0
    while at < len(words.bare):
        yield at
        ends = [match.last for index in passed if (match := index.at(words, at)) is not None]
        word = words.bare[at]
        if not ends and word[0].isalnum() and word not in _INTERJECTIONS:
            return
        at = max(ends, default=at + 1)


def is_command(words: TextWords, indexes: CueIndexes) -> bool:
    """True if a text only gives a command about the previous turn, such as `retry`."""
    found = _phrases(words, (indexes.commands, indexes.smalltalk, indexes.politeness))
    return bool(indexes.commands.find(words)) and all(match.labels for match in found)


def _contextual_indexes(indexes: CueIndexes) -> tuple[PhraseIndex, ...]:
    """Indexes of phrases that mean nothing without the previous turns."""
    talk = indexes.smalltalk, indexes.replies, indexes.commands
    return *talk, indexes.openers, indexes.references, indexes.politeness


_DIGITS = re.compile(r"\d")


def begins_with_order(words: TextWords, cues: Cues) -> bool:
    """True if a text begins with a verb of doing, past openers and politeness."""
    indexes = cues.indexes
    opener = opener_of(words, indexes)
    at = opener.last if opener is not None else 0
    while at < len(words.bare):
        polite = indexes.politeness.at(words, at)
        if polite is None and words.bare[at][0].isalnum():
            return _is_order_verb(words, at, cues)
        at = at + 1 if polite is None else polite.last
    return False


def _is_order_verb(words: TextWords, at: int, cues: Cues) -> bool:
    lead = cues.indexes.leads.at(words, at)
    labels = () if lead is None else lead.labels
    acts = any(cues.intents[label].need == "act" for label in labels)
    return acts or words.bare[at] in EFFECT_OF


def _has_leading_verb(words: TextWords, start: int, indexes: CueIndexes, *, alone: bool) -> bool:
    """True if an order's verb is at `start`; a verb that stands `alone` must be unambiguous."""
    first = next((at for at in range(start, len(words.bare)) if words.bare[at][0].isalnum()), None)
    if first is None:
        return False
    weak = not alone and indexes.weak_leads.at(words, first) is not None
    return weak or indexes.leads.at(words, first) is not None


ASSISTANT = "assistant"
"""Kind of small talk that asks about the assistant."""

ASSISTANT_WORDS = frozenset(["you", "your", "yours", "yourself", "u", "ur"])
"""Words by which a text refers to the assistant."""

_QUESTION_WORDS = frozenset(
    ["what", "which", "who", "whom", "whose", "when", "where", "why", "how"]
)
_AUXILIARIES = frozenset(
    ["is", "are", "was", "were", "am", "do", "does", "did", "has", "have", "can", "could", "will"]
)
_MIN_QUESTION_WORDS = 3
"""Minimum number of words of an independent question; `ok what now?` is none."""

_SMALLTALK_CONFIDENCE, _MIN_SMALLTALK_CONFIDENCE, _CONFIDENCE_LOSS_PER_WORD = 0.95, 0.5, 0.15
_WORDS_PER_ASIDE = 6
"""Words for each further free word, which may be a name or an aside: `thanks, Corinna`."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """Small talk of a turn, and its remaining words, without fillers.

    `word_count`: of the remaining words. `longest_clause`: most of them in one clause without small
    talk, without names. `words_before`: those before small talk in the same clause, as in `text Ann
    good night`. `has_request`: a cue of a request is among them. `is_question`: fillers behind
    small talk are a question, as in `ok what is on today`, or thanks are in one: `did it work?`.
    """

    smalltalk: tuple[Match, ...]
    word_count: int
    longest_clause: int
    words_before: int
    has_request: bool
    is_question: bool


@lru_cache(maxsize=32)
def remainder_of(words: TextWords, indexes: CueIndexes) -> Remainder:
    """Rest of a turn without its small talk; quoted small talk belongs to the rest."""
    quoted = _quoted_places(words)
    found = tuple(each for each in indexes.smalltalk.find(words) if each.first not in quoted)
    covered = {at for match in found for at in range(match.first, match.last)}
    rest: list[int] = []
    apart = before = 0
    is_question = False
    first = min(covered, default=len(words.bare))
    for clause in _clauses(words, covered):
        beside = [at for at in clause if at not in covered]
        is_question |= _is_question(words, [at for at in beside if at > first], indexes)
        is_question |= _asks_for_success(words, clause, found, indexes)
        own = [at for at in beside if indexes.fillers.at(words, at) is None]
        rest += own
        smalltalk_at = next((at for at in clause if at in covered), None)
        if smalltalk_at is None:
            apart = max(apart, sum(_word_weight(words, at) for at in own))
        else:
            before += sum(at < smalltalk_at for at in own)
    asking = indexes.leads, indexes.intents, indexes.domains, indexes.need
    asks = any(index.at(words, at) for at in rest for index in asking)
    count = sum(spoken_words(words.bare[at]) for at in rest)
    return Remainder(found, count, apart, before, asks, is_question)


def _is_question(words: TextWords, places: Sequence[int], indexes: CueIndexes) -> bool:
    """True if words at these positions ask a question that is not about the assistant."""
    asked = list(dropwhile(lambda at: indexes.politeness.at(words, at) is not None, places))
    if len(asked) < _MIN_QUESTION_WORDS:
        return False
    first, whole = words.bare[asked[0]], words.bare[asked[0] : asked[-1] + 2]
    is_led = first in _QUESTION_WORDS or (first in _AUXILIARIES and "?" in whole)
    return is_led and ASSISTANT_WORDS.isdisjoint(whole)


def _asks_for_success(
    words: TextWords, clause: Sequence[int], found: Sequence[Match], indexes: CueIndexes
) -> bool:
    """True if a clause asks for what its thanks would praise: `did it work now?`."""
    is_led = bool(clause) and words.bare[clause[0]] in _AUXILIARIES
    praises = (match for match in found if "thanks" in match.labels)
    has_praise = any(match.first in clause for match in praises)
    return is_led and has_praise and _is_question(words, clause, indexes)


def _word_weight(words: TextWords, at: int) -> int:
    """Number of words that one word counts for; a name in a sentence counts for none."""
    called = words.capitalised[at] and at > 0 and words.bare[at - 1] not in _SENTENCE_ENDS
    return 0 if called else spoken_words(words.bare[at])


def _clauses(words: TextWords, covered: set[int]) -> Iterator[list[int]]:
    """Positions of the words of each clause; covered spans are never divided."""
    clause: list[int] = []
    for at, word in enumerate(words.bare):
        if at in covered or (word[0].isalnum() and word not in _JOINS):
            clause.append(at)
        elif word in _JOINS or (word[0] not in _INNER_MARKS and category(word[0])[0] in "PS"):
            yield clause
            clause = []
    yield clause


def _quoted_places(words: TextWords) -> set[int]:
    """Positions between quotation marks; an apostrophe has no white space on either side."""
    quoted: set[int] = set()
    opened: int | None = None
    for at, word in enumerate(words.bare):
        if word not in _QUOTES:
            continue
        after = words.spaced[at + 1][0] if at + 1 < len(words.bare) else " "
        if opened is None and (at == 0 or words.spaced[at][0] == " " or word in _OPENING_QUOTES):
            opened = at
        elif opened is not None and not after.isalnum():
            quoted.update(range(opened + 1, at))
            opened = None
    return quoted


REFUSAL = "refusal"
"""Kind of small talk that refuses an offer or request of the assistant."""

RECALL = "recall"
"""Kind of small talk that asks what was said or done: the conversation holds the answer."""

Answer: TypeAlias = Literal["refusal", "recall", "answer"]
"""Reply to the assistant's message: a refusal, a recall, or any other answer to its question."""

Reply: TypeAlias = Literal["refusal", "denial", "confirmation"]
_REPLIES: tuple[Reply, ...] = ("refusal", "denial", "confirmation")


def has_reply(words: TextWords, indexes: CueIndexes, kinds: Sequence[Reply] = _REPLIES) -> bool:
    """True if a text holds words or signs of a reply of these kinds, whatever else it says."""
    found = _reply_phrases(words, indexes)
    return any(label in kinds for match in found for label in match.labels)


def _reply_phrases(words: TextWords, indexes: CueIndexes) -> list[Match]:
    # `good` is a confirmation, `good night` is none.
    return list(_phrases(words, (indexes.replies, indexes.smalltalk, indexes.politeness)))


def _phrases(words: TextWords, lists: Sequence[PhraseIndex]) -> Iterator[Match]:
    """Longest phrases of any index from left to right; other words have no labels."""
    at = 0
    while at < len(words.bare):
        found = [match for index in lists if (match := index.at(words, at)) is not None]
        alone = Match(words.bare[at], (), at, at + 1)
        longest = max(found, key=lambda match: match.last, default=alone)
        if found or words.bare[at][0].isalnum():
            yield longest
        at = longest.last


def smalltalk_of(words: TextWords, indexes: CueIndexes, answer: Answer | None = None) -> Estimate:
    """Kind of small talk, if its phrases and fillers are nearly all of the turn.

    A refusal or recall is one whatever its words. `thanks!` is small talk, `thanks, now deploy it`
    is not: no remaining word may be a request. In an answer to a question, or beside a command,
    `great` is no thanks.
    """
    if answer in {REFUSAL, RECALL}:
        return Estimate(answer, _SMALLTALK_CONFIDENCE)
    is_answer = answer is not None and has_reply(words, indexes, ("confirmation",))
    rest = remainder_of(words, indexes)
    if is_answer or not rest.smalltalk or is_command(words, indexes):
        return Estimate(None, _SMALLTALK_CONFIDENCE)
    allowed = 1 + len(words.bare) // _WORDS_PER_ASIDE
    if (
        rest.has_request
        or rest.is_question
        or rest.words_before > 1
        or rest.longest_clause
        or rest.word_count > allowed
        or (answer and rest.word_count and _informs(rest.smalltalk[0]))
    ):
        return Estimate(None, _SMALLTALK_CONFIDENCE - _CONFIDENCE_LOSS_PER_WORD)
    votes = Counter[str]()
    for match in rest.smalltalk:
        votes[match.labels[0]] += match.last - match.first
    sure = max(
        _SMALLTALK_CONFIDENCE - _CONFIDENCE_LOSS_PER_WORD * rest.word_count,
        _MIN_SMALLTALK_CONFIDENCE,
    )
    return Estimate(votes.most_common(1)[0][0], sure, (repr(rest.smalltalk[0].phrase),))


def _informs(smalltalk: Match) -> bool:
    """True if words beside the first small talk of an answer inform: `Friday, thanks`."""
    return smalltalk.first > 0 or "greeting" in smalltalk.labels


def stated_intent(words: TextWords, indexes: CueIndexes) -> Match | None:
    """Opening that states the intent, past politeness; None without one, or with several."""
    at = 0
    while at < len(words.bare):
        opening, polite = indexes.openings.at(words, at), indexes.politeness.at(words, at)
        if opening is not None and (polite is None or opening.last >= polite.last):
            return opening if len(opening.labels) == 1 else None
        if polite is None and words.bare[at] not in _CLAUSE_MARKS:
            return None
        at = at + 1 if polite is None else polite.last
    return None


def meta_of(words: TextWords, indexes: CueIndexes) -> tuple[str, ...]:
    """Signals of a question about the assistant: its capabilities, or its usage; else none."""
    kinds = {label for match in indexes.meta.find(words) for label in match.labels}
    if not kinds and smalltalk_of(words, indexes).label != ASSISTANT:
        return ()
    return ("meta_question", *(f"meta_question_{kind}" for kind in sorted(kinds)))


_LEAD_VOTES, _WEAK_LEAD_VOTES, _LATER_CLAUSE_SHARE = 3.0, 1.5, 0.4
"""Votes of a clause's first words, and the share of them that later clauses get."""

_INTENT_SHARPNESS, _DOMAIN_SHARPNESS, _NEED_SHARPNESS = 0.6, 1.4, 0.5
"""Sharpness at which confidences come close to the share of right labels."""

_INTENT_NEED_VOTES = 1.0

STATED_CONFIDENCE = 0.9
"""Confidence of an intent by an opening, which is right for at least 95 % of labelled texts."""

_LEVELS = {"calm": "low", "alarm": "high"}
_JOINS = frozenset({"and", "then", "also", "but", "so", "or"})
_CLAUSE_MARKS = frozenset(".;:?!,\"'()-–—")
_CLAUSE_ENDS = _CLAUSE_MARKS | _JOINS
_INNER_MARKS = frozenset("'-_")
"""Marks that occur inside words."""
_SENTENCE_ENDS = frozenset(".!?:;…")
_OPENING_QUOTES = frozenset("“„«「『")
_QUOTES = frozenset("\"'`”»」』") | _OPENING_QUOTES

_NO_CUE_CONFIDENCE, _ONE_CUE_CONFIDENCE, _NEXT_CUE_GAIN, _MAX_CUES_CONFIDENCE = 0.7, 0.8, 0.05, 0.9
"""Confidence of the urgency, by the number of cues."""

_LEVEL_CONFIDENCES: dict[Sensitivity, float] = {"public": 0.55, "internal": 0.65}
_OTHER_LEVEL_CONFIDENCE = 0.85
_ENTITY_CONFIDENCE = 0.95

_FIRST_CHARS, _LAST_CHARS = 2_000, 500
"""Characters read at each end: a request stands before or behind a pasted text."""


class HeuristicDetector:
    """Detector of a turn's context by cues, and base of other detectors; deterministic.

    Confidences grow with the lead of the winning label's votes; they are rough, and not calibrated.
    """

    def __init__(self, cues: Cues | None = None, finder: EntityFinder | None = None) -> None:
        self._cues = cues or load_cues()
        self._finder = finder or EntityFinder()
        self.aliases: Mapping[str, str] = {}
        """Other words for intents, with the intents' names; cues have none."""

    def begin(self, text: str) -> None:
        """Do nothing: cues take no time."""

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
        """Detect the context of a turn; calls no tool and writes nothing.

        `query`: the encoded text, if encoded. `own`: for a text joined with an earlier message, the
        turn alone, which decides small talk. Cues alone need neither. A long text is searched for
        entities in its head, for cues at both ends. Without `entities`, entities and personal data
        are not searched. `answer`: kind of a turn that answers the assistant's question.
        `by_words`: only words, and no model, show small talk.
        """
        del query, own, by_words
        words = _words(text)
        found = self._finder.find(text) if entities else ()
        sensitivity, sensitive = self._sensitivity(words, found)
        estimates = {"smalltalk": smalltalk_of(words, self._cues.indexes, answer)}
        if estimates["smalltalk"].label is None:
            estimates |= self._request(words, found)
        confidences = {name: one.confidence for name, one in estimates.items()}
        decisive = ("intent", "domain") if "intent" in estimates else ("smalltalk",)
        labels = {name: one.label for name, one in estimates.items()}
        return Context(
            text,
            intent=labels.get("intent"),
            domain=labels.get("domain"),
            urgency=labels.get("urgency") or "low",
            sensitivity=sensitivity,
            entities=found,
            language=language_of(text),
            smalltalk=labels["smalltalk"],
            need=labels.get("need"),
            confidences={**confidences, "sensitivity": sensitive.confidence},
            confidence=min(confidences[name] for name in decisive),
            signals=tuple(
                f"{name}: {signal}"
                for name, one in (estimates | {"sensitivity": sensitive}).items()
                for signal in one.signals
            ),
        )

    def may_take_for_smalltalk(self, text: str) -> bool:
        """True for a text that the detector may wrongly take for small talk; cues never do."""
        del text
        return False

    def follow_up_score(self, text: str) -> float:
        """Dependence of a text on earlier messages, from 0 (none) to 1 (certain)."""
        return follow_up_score(_words(text), self._cues)

    def rule_mentions(self, text: str) -> int:
        """Number of phrases in a text that name written rules."""
        found = self._cues.indexes.grounds.find(_words(text))
        return len({match.phrase for match in found})

    def orders(self, text: str) -> bool:
        """True if a text begins with an order, past openers and politeness."""
        return begins_with_order(_words(text), self._cues)

    def reply(self, text: str) -> Reply | None:
        """Kind of reply, if the text is nothing but a reply."""
        found = _reply_phrases(_words(text), self._cues.indexes)
        kinds = {label for match in found for label in match.labels}
        says_more = not all(match.labels for match in found)
        return None if says_more else next((kind for kind in _REPLIES if kind in kinds), None)

    def has_reply(self, text: str) -> bool:
        """True if a text holds words or signs of a reply, whatever else it says."""
        return has_reply(_words(text), self._cues.indexes)

    def recalls(self, text: str, messages: Iterable[str]) -> bool:
        """True if a text only asks for what was said or done in these earlier messages.

        A question that ends with `again` names an item (`the second one`), or all its words occur
        in the messages: `what was that code again?` may ask for a code that nobody has named.
        """
        words, indexes = _words(text), self._cues.indexes
        if not any(word[0].isalnum() for word in words.bare):
            return False
        if (recall := recall_of(words, indexes)) is not None:
            return not asks_more(words, recall.first, self._cues)
        question = recall_question(words)
        references = indexes.references.find(words)
        if not question or any(match.last - match.first > 1 for match in references):
            return bool(question)
        own = _stems(words.bare[at] for at in question) - _QUESTION_WORDS - _AUXILIARIES
        return own - {_RECALL_END} <= _stems(split_words("\n".join(messages)).bare)

    def has_content(self, text: str) -> bool:
        """True if a text is no small talk, and more than replies and references."""
        words, indexes = _words(text), self._cues.indexes
        says_more = not all(match.labels for match in _phrases(words, _contextual_indexes(indexes)))
        return says_more and smalltalk_of(words, indexes).label is None

    def content_words(self, text: str) -> frozenset[str]:
        """Words without cues, fillers and verbs; identifiers by their form: `8812` is `0000`."""
        indexes = self._cues.indexes
        cues = *_contextual_indexes(indexes), indexes.fillers, indexes.leads, indexes.weak_leads
        found = _phrases(_words(text), cues)
        bare = (singular(match.phrase) for match in found if not match.labels)
        return frozenset(_DIGITS.sub("0", word) for word in bare if word not in STOPWORDS)

    def may_be_refused(self, question: str) -> bool:
        """True if a question asks for consent."""
        return bool(self._cues.indexes.consents.find(_words(question)))

    def inquires(self, sentence: str) -> bool:
        """True if a statement asks for something: `I need your user ID.`."""
        return bool(self._cues.indexes.inquiries.find(_words(sentence)))

    def offers_help(self, question: str) -> bool:
        """True if a question only offers more help: a denial refuses it, nothing answers it."""
        return bool(self._cues.indexes.offers.find(_words(question)))

    def _request(self, words: TextWords, entities: tuple[Entity, ...]) -> dict[str, Estimate]:
        spoken = [
            label
            for kind in sorted({entity.type for entity in entities})
            for label in self._cues.entities.get(kind, ())
        ]
        intent = self._intent(words, spoken)
        return {
            "intent": intent,
            "domain": self._domain(words, spoken),
            "urgency": self._urgency(words),
            "need": self._need(words, intent),
        }

    def _sensitivity(
        self, words: TextWords, entities: tuple[Entity, ...]
    ) -> tuple[Sensitivity, Estimate]:
        phrases = self._cues.indexes.sensitivity.find(words)
        level, signals, by_entity = grade_sensitivity(entities, phrases)
        by_level = _LEVEL_CONFIDENCES.get(level, _OTHER_LEVEL_CONFIDENCE)
        sure = _ENTITY_CONFIDENCE if by_entity else by_level
        return level, Estimate(level, sure, signals)

    def _intent(self, words: TextWords, spoken: list[str]) -> Estimate:
        if (stated := stated_intent(words, self._cues.indexes)) is not None:
            return Estimate(stated.labels[0], STATED_CONFIDENCE, (repr(stated.phrase),))
        found = self._cues.indexes.intents.find(words)
        votes = phrase_weights(found)
        leads = list(self._leads(words))
        for number, (lead, weight) in enumerate(leads):
            for label in lead.labels:
                votes[label] += weight * _LATER_CLAUSE_SHARE if number else weight
        for label in spoken:
            votes[label] += 1
        heard = [*(lead for lead, _ in leads), *found]
        return estimate(votes, self._cues.intents, heard, sharpness=_INTENT_SHARPNESS)

    def _leads(self, words: TextWords) -> Iterator[tuple[Match, float]]:
        """First phrase of each clause after polite words, and its votes."""
        starts = [0, *(at + 1 for at, word in enumerate(words.bare) if word in _CLAUSE_ENDS)]
        passed = 0
        for start in starts:
            # Polite words are no clause of their own: `and` after `and`.
            at: int | None = start if start >= passed else None
            while at is not None and at < len(words.bare):
                passed = at + 1
                lead, weight, at = self._lead(words, at)
                if lead is not None:
                    yield lead, weight

    def _lead(self, words: TextWords, at: int) -> tuple[Match | None, float, int | None]:
        """Leading phrase at this word and its votes; or the next position, past a polite phrase."""
        indexes = self._cues.indexes
        options = (
            (indexes.leads.at(words, at), _LEAD_VOTES),
            (indexes.weak_leads.at(words, at), _WEAK_LEAD_VOTES),
            (indexes.politeness.at(words, at), 0.0),
        )
        known = [(match, votes) for match, votes in options if match is not None]
        if not known:
            return None, 0.0, None
        match, votes = max(known, key=lambda option: option[0].last)
        return (match, votes, None) if votes else (None, 0.0, match.last)

    def _domain(self, words: TextWords, spoken: list[str]) -> Estimate:
        found = self._cues.indexes.domains.find(words)
        votes = phrase_weights(found)
        for label in spoken:
            votes[label] += 1
        return estimate(votes, self._cues.domains, found, sharpness=_DOMAIN_SHARPNESS)

    def _urgency(self, words: TextWords) -> Estimate:
        found = self._cues.indexes.urgency.find(words)
        says = {
            level: tuple(dict.fromkeys(repr(m.phrase) for m in found if level in m.labels))
            for level in ("calm", "high", "alarm", "medium", "low")
        }
        if says["low"] and not says["high"]:
            # `what is an outage?` reports no outage.
            says["alarm"] = ()
        level = next((level for level, phrases in says.items() if phrases), None)
        if level is None:
            return Estimate("low", _NO_CUE_CONFIDENCE)
        more = math.inf if level == "calm" else _NEXT_CUE_GAIN * (len(says[level]) - 1)
        sure = min(_ONE_CUE_CONFIDENCE + more, _MAX_CUES_CONFIDENCE)
        return Estimate(_LEVELS.get(level, level), sure, says[level][:3])

    def _need(self, words: TextWords, intent: Estimate) -> Estimate:
        found = self._cues.indexes.need.find(words)
        votes = phrase_weights(found)
        if intent.label is not None:
            votes[self._cues.intents[intent.label].need] += _INTENT_NEED_VOTES
        return estimate(votes, ("act", "know"), found, sharpness=_NEED_SHARPNESS)


def _stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(singular(word) for word in words if word[0].isalnum()) - STOPWORDS


def _words(text: str) -> TextWords:
    return split_words(head_and_tail(text, _FIRST_CHARS + _LAST_CHARS, _FIRST_CHARS, _LAST_CHARS))
