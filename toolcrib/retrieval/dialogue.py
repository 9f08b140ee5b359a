"""Dialogue: the words of a query, and the messages before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from toolcrib.errors import QueryError
from toolcrib.records.codec import in_words
from toolcrib.records.turns import MAX_HISTORY_MESSAGES, Message

OWN_SHARE, MARKED_OWN_SHARE = 0.4, 0.3
"""Weight of the last message; the rest is for the whole dialogue. The second is for a text that is
itself a dialogue: its last message mostly completes an earlier one."""

STANDALONE_TERMS = 25
"""Distinct terms from which a last message counts alone: a long message seldom refers to others,
and long earlier messages would hide its subject."""

MAX_DIALOGUE_CHARS = 2_000
"""Characters of a dialogue that are searched: the encoder reads some 1,000, the lexical leg all."""

MAX_EARLIER_MESSAGES = 5
"""Newest earlier messages of the user that count: older ones mostly have another subject. Three
lose 3 points of recall in conversations of one subject, all lose as much behind two others."""

MAX_REPLY_CHARS = 100
"""Beginning of the assistant's last reply that counts: a user speaks of what it says (`add one`,
after `there is no index`). What follows mostly offers other things."""

_MARK = re.compile(r"(?<!\S)(user|human|system|assistant|ai|bot|agent)\s?:", re.IGNORECASE)
_USERS = frozenset({"user", "human"})


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Last message of a user, and the whole dialogue; `is_marked` by roles in the text.

    The whole dialogue: the user's newest messages, and the beginning of the assistant's last reply.
    Of a text with role marks it has all messages of the user.
    """

    own: str
    whole: str
    is_marked: bool = False


def read_messages(given: Iterable[Any]) -> tuple[Message, ...]:
    """Newest messages of a history, from messages or dictionaries; other entries are errors."""
    try:
        return tuple(map(Message.model_validate, list(given)[-MAX_HISTORY_MESSAGES:]))
    except (TypeError, ValidationError) as error:
        reason = in_words(error, "message") if isinstance(error, ValidationError) else str(error)
        raise QueryError(
            f"history is a list of messages with role and content: {reason}"
        ) from error


def read_dialogue(query: str, history: Sequence[Message] = ()) -> Dialogue | None:
    """Dialogue of a query with history, or of a query with role marks; None for one message.

    A text has role marks if it begins with one and has another: `user: ... system: ...`.
    """
    earlier = [each.content for each in history if each.role == "user" and each.content.strip()]
    marked = _marked_messages(query)
    if not marked and not earlier:
        return None
    *before, own = marked or [query]
    reply = _last_reply(history) if earlier else []
    newest = earlier[-MAX_EARLIER_MESSAGES:]
    return Dialogue(own, _newest([*newest, *reply, *before, own]), is_marked=bool(marked))


def _last_reply(history: Sequence[Message]) -> list[str]:
    """Beginning of the assistant's reply at the end of a history; empty if it ends otherwise."""
    last = history[-1]
    reply = last.content.strip()[:MAX_REPLY_CHARS] if last.role == "assistant" else ""
    return [reply] if reply else []


def _marked_messages(text: str) -> list[str]:
    """Messages of the user in a text with role marks; empty for any other text."""
    found = list(_MARK.finditer(text)) if ":" in text else []
    if len(found) <= 1 or text[: found[0].start()].strip():
        return []
    ends = [*(mark.start() for mark in found[1:]), len(text)]
    messages = (
        text[mark.end() : end].strip()
        for mark, end in zip(found, ends, strict=True)
        if mark.group(1).lower() in _USERS
    )
    return list(filter(None, messages))


def _newest(messages: Sequence[str]) -> str:
    """Newest messages within the limit, in their order; the last is never cut."""
    kept: list[str] = []
    left = MAX_DIALOGUE_CHARS
    for message in reversed(messages):
        left -= len(message)
        if kept and left < 0:
            break
        kept.append(message)
    return "\n".join(reversed(kept))
