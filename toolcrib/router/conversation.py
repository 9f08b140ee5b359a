"""Conversation: the search text of a turn, joined with the message that it refers to.

References are resolved by words and vectors, or by a language model if the settings name one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from pydantic import Field

from toolcrib.context.rules import RECALL, REFUSAL, Answer, HeuristicDetector
from toolcrib.encoders.base import FloatArray
from toolcrib.language_models import FieldwiseAnswer, LanguageModel
from toolcrib.language_models.turns import prompt, show_turn, shown_messages
from toolcrib.records import Turn
from toolcrib.records.turns import MAX_ATTACHMENTS
from toolcrib.retrieval.legs import has_words
from toolcrib.router.probes import file_kind, find_sql
from toolcrib.text import head_and_tail, split_words

MAX_SEARCHED_CHARS, SEARCHED_HEAD_CHARS, SEARCHED_TAIL_CHARS = 2_000, 700, 500
"""Longer texts are cut to head and tail: a pasted log has its question before or behind it."""

MAX_JOINED_CHARS = 400
"""Characters of an earlier message in a joined text, so that the turn's own words weigh more."""

MAX_COMPARED_REQUESTS = 3
"""Newest requests that are compared by cosine: an older one is named by its words."""

OLDER_MESSAGE_COSINE_LEAD = 0.1
"""Cosine by which an older message must lead the last message to be chosen."""

NEW_TOPIC_BELOW_COSINE = 0.05
"""A possible follow-up with a lower cosine to all earlier messages is a new topic."""

SURE_FOLLOW_UP = 0.9
"""Score from which a text is a follow-up whatever its cosines."""

MAX_ANSWER_WORDS = 12
QUESTION_MARKS = frozenset(["?", "？"])
"""Signs at the end of a question: also the wide one of Chinese and Japanese."""

SENTENCE_END = re.compile(r"[.!?]\s+(?=\S)")

Encode = Callable[[Sequence[str]], FloatArray]


@dataclass(frozen=True, slots=True)
class SearchText:
    """Text to search with, its relation to earlier messages, and signals.

    `follow_up`: joined with an earlier message, a new topic, or the first message.
    """

    text: str
    follow_up: Literal["joined", "shifted", "first"]
    signals: tuple[str, ...] = ()


RUN = "run"
SQL_WORDS = {"select": "a SQL query on the database", "ddl": "a SQL statement on the database"}
SQL_STATEMENT = "a SQL {} statement on the database"
"""Words that replace a statement: the statement's own words name no tool."""

ATTACHMENT_PREFIX = "attached file:"


def excerpt(text: str) -> str:
    """Text to search with: head and tail of a very long text."""
    return head_and_tail(text, MAX_SEARCHED_CHARS, SEARCHED_HEAD_CHARS, SEARCHED_TAIL_CHARS)


def standalone_text(turn: Turn) -> SearchText:
    """Search text of a turn without its history."""
    own = excerpt(turn.text)
    signals = () if own == turn.text else ("long-text",)
    return SearchText(_with_files(turn, _without_sql(own)), "first", signals)


def answer_kind(turn: Turn, detector: HeuristicDetector) -> Answer | None:
    """Kind of a turn that replies to the assistant's last message; None for any other turn.

    A text that asks for what was said is a recall. A text that only refuses (`never mind`) needs no
    question: a statement offers things too.
    """
    last = turn.history[-1] if turn.history else None
    if last is None or last.role != "assistant":
        return None
    if detector.recalls(turn.text, (message.content for message in turn.history)):
        return RECALL
    asked, reply = last.content.rstrip()[-MAX_JOINED_CHARS:], detector.reply(turn.text)
    question = SENTENCE_END.split(asked)[-1]
    # `OK` after `Let me know how it goes.` answers nothing.
    is_asked = asked[-1:] in QUESTION_MARKS or (reply is None and detector.inquires(question))
    if not is_asked:
        return REFUSAL if reply == REFUSAL else None
    own = split_words(excerpt(turn.text)).bare
    if not own or len(own) > MAX_ANSWER_WORDS or not QUESTION_MARKS.isdisjoint(own):
        return None
    is_offer = detector.offers_help(question)
    may_be_refused = is_offer or detector.may_be_refused(question)
    if reply == REFUSAL or (reply == "denial" and may_be_refused):
        return REFUSAL
    # `Order 8812.` after `Which order is it?` is no order.
    is_echo = own[0] in split_words(asked).bare
    is_order = reply is None and not is_echo and detector.orders(turn.text)
    return None if is_offer or is_order else "answer"


def _without_sql(text: str) -> str:
    """Text with its SQL statement replaced by words: `UPDATE prices ...` runs a query."""
    found = find_sql(text)
    if found is None:
        return text
    before, after = text[: found.start].rstrip(), text[found.end :].strip(" \n;`")
    words = SQL_WORDS.get(found.kind, SQL_STATEMENT.format(found.kind.upper()))
    return " ".join(filter(None, (before or RUN, words, after)))


def _with_files(turn: Turn, text: str) -> str:
    """Text with the kinds of the attached files, in words that tools use for such files."""
    kinds = filter(None, map(file_kind, turn.attachments[:MAX_ATTACHMENTS]))
    words = ", ".join(dict.fromkeys(each.words for each in kinds))
    return f"{text} ({ATTACHMENT_PREFIX} {words})" if words else text


def search_text(
    turn: Turn, answer: Answer | None, detector: HeuristicDetector, encode: Encode
) -> SearchText:
    """Build the search text of a turn with its history.

    `answer`: result of `answer_kind`. `encode` gives unit vectors of texts, float32 [n, d]; it is
    called only if words do not decide between earlier messages.
    """
    alone = standalone_text(turn)
    own, signals = alone.text, alone.signals
    earlier = [m.content for m in turn.history if m.role == "user" and m.content.strip()]
    if not earlier:
        return alone
    # `add one` and `does it?` say something, yet nothing to look for.
    is_whole = bool(answer) or not detector.content_words(own)
    leaning = 1.0 if is_whole else detector.follow_up_score(excerpt(turn.text))
    chosen = None
    if leaning >= 0.5:  # noqa: PLR2004 -- more likely than not
        has_content = detector.has_content(excerpt(turn.text))
        requests = _request_places(turn, detector)
        if requests and has_content and not is_whole:
            chosen = _nearest(own, earlier, requests, leaning, detector, encode)
        elif requests or not has_content or detector.has_reply(turn.text):
            # Behind a mere greeting `What can I do for you?` has no answer.
            chosen = (requests or range(len(earlier)))[-1]
    if chosen is None:
        return SearchText(own, "shifted", (*signals, "topic-shift"))
    ground = " ".join(excerpt(earlier[chosen])[:MAX_JOINED_CHARS].split())
    signals = (*signals, f"follow-up:{len(earlier) - chosen}")
    parts = [ground, own]
    asked = turn.history[-1].content.rstrip()[-MAX_JOINED_CHARS:]
    if answer and asked[-1:] in QUESTION_MARKS and detector.has_reply(turn.text):
        # `yes` says nothing that `Shall I set it to 21 degrees?` does not.
        parts.insert(1, SENTENCE_END.split(asked)[-1])
    return SearchText("\n".join(parts), "joined", signals)


def _request_places(turn: Turn, detector: HeuristicDetector) -> list[int]:
    """Positions of requests among the user's messages: no small talk, reply or answer.

    The first message with content is a request, even if a question is before it.
    """
    messages = [
        turn.model_copy(update={"text": each.content, "history": turn.history[:at]})
        for at, each in enumerate(turn.history)
        if each.role == "user" and each.content.strip()
    ]
    places: list[int] = []
    for place, each in enumerate(messages):
        if detector.has_content(each.text) and not (places and answer_kind(each, detector)):
            places.append(place)
    return places


def _nearest(
    own: str,
    earlier: Sequence[str],
    places: Sequence[int],
    leaning: float,
    detector: HeuristicDetector,
    encode: Encode,
) -> int | None:
    """Position of the message that a text refers to; None for a new topic.

    First the message with the most shared words, or kinds of identifiers; then a recent message
    whose cosine clearly leads; then the last message.
    """
    content = detector.content_words(own)
    shared = [len(content & detector.content_words(earlier[place])) for place in places]
    if max(shared) > 0:
        return max(zip(shared, places, strict=True))[1]
    places = places[-MAX_COMPARED_REQUESTS:]
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
    """Reader of references: one call of a language model for a turn with a history."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model

    def read(
        self, turn: Turn, known: SearchText, max_s: float = float("inf")
    ) -> tuple[SearchText, tuple[str, ...]]:
        """Search text of a turn, and marks of failures, within `max_s`.

        `known`, the text by words and vectors, is the fallback if the model fails
        (`conversation-llm`), is late (`conversation-llm-late`), or names a message that does not
        exist.
        """
        messages = prompt(REFERENCE_RULES, show_turn(turn))
        found, lacking = self._model.try_ask("conversation", messages, TurnReference, max_s)
        if found is None:
            return known, lacking
        made = _joined_text(turn, found)
        return (known, ("conversation-llm",)) if made is None else (made, lacking)


def _joined_text(turn: Turn, found: TurnReference) -> SearchText | None:
    """Search text by a model's answer; None if the answer is unusable."""
    alone = standalone_text(turn)
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
    text = standalone_text(turn.model_copy(update={"text": request})).text
    return SearchText(text, "joined", (*alone.signals, f"follow-up:{back}", CONVERSATION_BY_MODEL))
