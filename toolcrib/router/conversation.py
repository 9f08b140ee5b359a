"""Conversation: the text that a turn is searched with, joined with what the turn refers to.

References are resolved by words and vectors, or by a language model that the settings name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from pydantic import Field

from toolcrib.encoders.base import FloatArray
from toolcrib.language_models import FieldwiseAnswer, LanguageModel
from toolcrib.language_models.turns import both_ends, prompt, show_turn, shown_messages
from toolcrib.records import Turn
from toolcrib.records.turns import MAX_ATTACHMENTS
from toolcrib.retrieval.legs import has_words
from toolcrib.router.context.rules import Answer, HeuristicDetector
from toolcrib.router.probes import file_kind, find_sql
from toolcrib.text import split_words

FollowUp: TypeAlias = Literal["joined", "shifted", "first"]
"""Origin of a search text: joined with an earlier message, a new topic, or the first message."""

MAX_SEARCHED_CHARS, SEARCHED_HEAD_CHARS, SEARCHED_TAIL_CHARS = 2_000, 700, 500
"""A pasted log has its question before or behind it: both ends of a longer text are searched."""

MAX_JOINED_CHARS = 400
"""Part of an earlier message that a text is joined with: its own words must weigh more."""

OLDER_MESSAGE_COSINE_LEAD = 0.1
"""Cosine by which an older message must be nearer to be taken in place of the last message."""

NEW_TOPIC_BELOW_COSINE = 0.05
"""Below this cosine to all earlier messages, a text that may refer to them is a new topic."""

SURE_FOLLOW_UP = 0.9
"""Probability from which a text refers to an earlier message, however far its words are."""

MAX_ANSWER_WORDS = 12
OFFER_WORDS = frozenset(["else", "more", "further", "help", "assist"])
"""Words of a question that only offers more: it may be refused, and asks for no other answer."""

SENTENCE_END = re.compile(r"[.!?]\s+(?=\S)")

Encode = Callable[[Sequence[str]], FloatArray]


@dataclass(frozen=True, slots=True)
class SearchText:
    """Text to search with, its origin, and signals."""

    text: str
    follow_up: FollowUp
    signals: tuple[str, ...] = ()


RUN = "run"
SQL_WORDS = {"select": "a SQL query on the database", "ddl": "a SQL statement on the database"}
SQL_STATEMENT = "a SQL {} statement on the database"
"""Words that stand for a statement: its own words are data, and name no tool."""

ATTACHMENT_PREFIX = "attached file:"


def gist(text: str) -> str:
    """Text to search with: both ends of a very long text."""
    return both_ends(text, MAX_SEARCHED_CHARS, SEARCHED_HEAD_CHARS, SEARCHED_TAIL_CHARS)


def by_itself(turn: Turn) -> SearchText:
    """Text to search with if nothing was said before."""
    own = gist(turn.text)
    signals = () if own == turn.text else ("long-text",)
    return SearchText(_with_files(turn, _without_sql(own)), "first", signals)


def answer_of(turn: Turn, detector: HeuristicDetector) -> Answer | None:
    """Answer to a question of the assistant; the turn belongs to the turn before, then."""
    last = turn.history[-1] if turn.history else None
    if last is None or last.role != "assistant" or not last.content.rstrip().endswith("?"):
        return None
    asked, own = last.content[-MAX_JOINED_CHARS:], split_words(gist(turn.text)).bare
    if not own or len(own) > MAX_ANSWER_WORDS or "?" in own:
        return None
    reply, question = detector.reply(turn.text), SENTENCE_END.split(asked)[-1]
    is_offer = not OFFER_WORDS.isdisjoint(split_words(question).bare)
    may_be_refused = is_offer or detector.may_be_refused(question)
    if reply == "refusal" or (reply == "denial" and may_be_refused):
        return "refusal"
    # `Order 8812.` after `Which order is it?` orders nothing.
    is_echo = own[0] in split_words(asked).bare
    is_order = reply is None and not is_echo and detector.orders(turn.text)
    return None if is_offer or is_order else "answer"


def _without_sql(text: str) -> str:
    """Text with words for its statement: `UPDATE prices ...` wants a query run."""
    found = find_sql(text)
    if found is None:
        return text
    before, after = text[: found.start].rstrip(), text[found.end :].strip(" \n;`")
    words = SQL_WORDS.get(found.kind, SQL_STATEMENT.format(found.kind.upper()))
    return " ".join(filter(None, (before or RUN, words, after)))


def _with_files(turn: Turn, text: str) -> str:
    """Text with the kinds of the attached files, in the words of tools that take them."""
    kinds = filter(None, map(file_kind, turn.attachments[:MAX_ATTACHMENTS]))
    words = ", ".join(dict.fromkeys(each.words for each in kinds))
    return f"{text} ({ATTACHMENT_PREFIX} {words})" if words else text


def search_text(turn: Turn, detector: HeuristicDetector, encode: Encode) -> SearchText:
    """Build the text to search with.

    `encode` gives unit vectors of texts, float32 [n, d]; it is called only if there is a choice
    between messages that words do not make.
    """
    alone = by_itself(turn)
    own, signals = alone.text, alone.signals
    earlier = [m.content for m in turn.history if m.role == "user" and m.content.strip()]
    if not earlier:
        return alone
    is_answer = answer_of(turn, detector) is not None
    leaning = 1.0 if is_answer else detector.leans(gist(turn.text))
    chosen = None
    if leaning >= 0.5:  # noqa: PLR2004 -- more likely than not
        places = _request_places(turn, detector) or range(len(earlier))
        if is_answer or not detector.says_something(gist(turn.text)):
            chosen = places[-1]
        else:
            chosen = _nearest(own, earlier, places, leaning, detector, encode)
    if chosen is None:
        return SearchText(own, "shifted", (*signals, "topic-shift"))
    ground = " ".join(gist(earlier[chosen])[:MAX_JOINED_CHARS].split())
    signals = (*signals, f"follow-up:{len(earlier) - chosen}")
    return SearchText(f"{ground}\n{own}", "joined", signals)


def _request_places(turn: Turn, detector: HeuristicDetector) -> list[int]:
    """Places of requests among the user's messages: no small talk, no reply and no answer."""
    messages = [
        turn.model_copy(update={"text": each.content, "history": turn.history[:at]})
        for at, each in enumerate(turn.history)
        if each.role == "user" and each.content.strip()
    ]
    return [
        place
        for place, each in enumerate(messages)
        if detector.says_something(each.text) and answer_of(each, detector) is None
    ]


def _nearest(
    own: str,
    earlier: Sequence[str],
    places: Sequence[int],
    leaning: float,
    detector: HeuristicDetector,
    encode: Encode,
) -> int | None:
    """Place of the message that a text refers to; None if it is near to none of them.

    The message that shares most words, or kinds of identifiers; then one that is clearly nearer
    than the last message, by vectors; then the last message.
    """
    content = detector.content(own)
    shared = [len(content & detector.content(earlier[place])) for place in places]
    if max(shared) > 0:
        return max(zip(shared, places, strict=True))[1]
    if leaning >= SURE_FOLLOW_UP and len(places) == 1:
        return places[0]
    vectors = encode([own, *(earlier[place] for place in places)])
    near = vectors[1:] @ vectors[0]
    best = int(np.argmax(near))
    if leaning < SURE_FOLLOW_UP and near[best] < NEW_TOPIC_BELOW_COSINE:
        return None
    is_ahead = near[best] > near[-1] + OLDER_MESSAGE_COSINE_LEAD
    return places[best] if is_ahead else places[-1]


# -- by a language model -----------------------------------------------------------------------

CONVERSATION_BY_MODEL = "conversation-by-model"
"""Signal of a search text by a language model."""

REFERENCE_RULES = """You read a conversation with an assistant, up to what the user says now. \
`leans_on`: the number of the message without which what is said now cannot be understood, or null \
if it can be: a new topic leans on nothing. `request`: what is said now, in its own words and \
language, with what it refers to ("it", "the second one", "that repository") named as the \
conversation names it; empty if it leans on nothing."""


class TurnReference(FieldwiseAnswer):
    """Reference of a turn to an earlier message."""

    leans_on: int | None
    request: str = Field(default="", max_length=MAX_SEARCHED_CHARS)


class ConversationReader:
    """Reader of references: one question to a language model for a turn with a history."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def read(
        self, turn: Turn, known: SearchText, max_s: float = float("inf")
    ) -> tuple[SearchText, tuple[str, ...]]:
        """Text to search with, and marks of what is missing; takes at most `max_s`.

        `known`, the text by words and vectors, is the fallback if the model fails
        (`conversation-llm`), is late (`conversation-llm-late`), or names no message that there is.
        """
        messages = prompt(REFERENCE_RULES, show_turn(turn))
        found, lacking = self._model.try_ask("conversation", messages, TurnReference, max_s)
        if found is None:
            return known, lacking
        made = _joined_text(turn, found)
        return (known, ("conversation-llm",)) if made is None else (made, lacking)


def _joined_text(turn: Turn, found: TurnReference) -> SearchText | None:
    """Text to search with by a model's answer; None if the answer is of no use."""
    alone = by_itself(turn)
    place, shown = found.leans_on, shown_messages(turn)
    if place is None:
        return replace(
            alone,
            follow_up="shifted",
            signals=(*alone.signals, "topic-shift", CONVERSATION_BY_MODEL),
        )
    request = " ".join(found.request.split())
    if not 0 < place <= len(shown) or not has_words(request):
        return None
    # An answer of the assistant belongs to the question before it.
    back = sum(each.role == "user" for each in shown[place - 1 :])
    back += shown[place - 1].role != "user"
    text = by_itself(turn.model_copy(update={"text": request})).text
    return SearchText(text, "joined", (*alone.signals, f"follow-up:{back}", CONVERSATION_BY_MODEL))
