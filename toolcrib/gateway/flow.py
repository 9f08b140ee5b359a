"""Flow policy: after private data and foreign text, sending data out needs the user's consent.

Foreign text may contain instructions for the model, which no audit of tools sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from toolcrib.audit.characters import visible
from toolcrib.caches import BoundedMap
from toolcrib.errors import ForbiddenError
from toolcrib.gateway.catalog import CatalogEntry
from toolcrib.gateway.config import ServerConfig
from toolcrib.gateway.connection import PendingCall
from toolcrib.gateway.downstream import MAX_CONVERSATIONS
from toolcrib.indexers.readers.base import is_list
from toolcrib.indexers.readers.mcp_config import Overlay, fits_any
from toolcrib.records import ToolSpec
from toolcrib.records.codec import is_object, object_of
from toolcrib.settings import FlowMode
from toolcrib.text import name_words

FlowTrait: TypeAlias = Literal["reads_private", "brings_foreign", "sends_out"]
"""Effect of a tool on the data of a conversation; an entry's `Overlay` states them."""

FLOW_TRAITS: tuple[FlowTrait, ...] = get_args(FlowTrait)

MAX_SHOWN_CHARS = 400
"""Length of each text of the arguments in a question to the user."""

MAX_SPELLING_CHARS = 12
"""Length of a hidden character that is spelled out, at most."""


_VERBS_AND_NOUNS = {
    "read": "browse crawl describe download execute export fetch find get list load lookup open "
    "query read recall run scrape search select show tail view",
    "private": "account accounts balance calendar chat clipboard contact contacts customer "
    "customers database db directory document documents drive email emails env event events file "
    "files folder history inbox invoice invoices mail mailbox mails memory message messages note "
    "notes order orders photo photos profile repo repository rows screenshot secret secrets sql "
    "table ticket tickets transactions vault",
    "foreign": "comment comments email emails feed http inbox issue issues mail mails message "
    "messages news page pages pull request review reviews rss site ticket tickets tweet tweets "
    "url web webpage website",
    "send": "comment email forward gist invite issue mail notify pay post publish push reply "
    "request send share submit ticket transfer tweet upload webhook wire",
}
_WORDS = {kind: frozenset(words.split()) for kind, words in _VERBS_AND_NOUNS.items()}
"""Words of names: verbs of reading and sending, nouns for private data and foreign text."""

_ADDRESS_NAME = re.compile(
    r"(?:\A|_)(?:url|uri|webhook|endpoint|recipient|to|bcc|cc|email)s?\Z", re.IGNORECASE
)
"""Names of parameters for a destination; a fetched address can carry data too."""


def flow_traits(spec: ToolSpec) -> frozenset[FlowTrait]:
    """Guess a tool's traits from its name, its parameters and its hints.

    A hint adds traits and removes none, because an untrusted server states it.
    """
    words = name_words(spec.name)
    parameters = object_of(spec.input_schema.get("properties"))
    addressed = any(_ADDRESS_NAME.search(name) for name in parameters)
    kinds = {kind for kind, known in _WORDS.items() if words & known}
    reads, is_open = "read" in kinds, "open_world" in spec.safety_tags
    found: dict[FlowTrait, bool] = {
        "reads_private": reads and "private" in kinds,
        "brings_foreign": (reads and (addressed or "foreign" in kinds))
        or (is_open and "read_only" in spec.safety_tags),
        "sends_out": addressed
        or (not reads and "send" in kinds)
        or (is_open and "writes" in spec.safety_tags),
    }
    return frozenset(trait for trait, holds in found.items() if holds)


def _readable(value: Any) -> Any:
    """Argument for a question: no entry is left out, only the end of a long text.

    Else a long text in front could hide the recipient behind it.
    """
    if is_object(value):
        return {_spelled(name): _readable(each) for name, each in value.items()}
    if is_list(value):
        return [_readable(each) for each in value]
    if not isinstance(value, str):
        return value
    shown, left_out = _spelled(value[:MAX_SHOWN_CHARS]), len(value) - MAX_SHOWN_CHARS
    return f"{shown}… ({left_out:,} more characters)" if left_out > 0 else shown


def _spelled(text: str) -> str:
    """The whole text, with hidden characters spelled out."""
    return visible(text, len(text) * MAX_SPELLING_CHARS)


class FlowPolicy:
    """Policy over the calls of each conversation, by its key.

    Traits that `mcp.json` states for a server's tools override the guess, trait by trait.
    """

    def __init__(self, mode: FlowMode, configs: Iterable[ServerConfig]) -> None:
        self._mode = mode
        self._overlays: dict[str, Overlay] = {}
        self.update(configs)
        self._traits: BoundedMap[str, dict[FlowTrait, str]] = BoundedMap(MAX_CONVERSATIONS)

    def update(self, configs: Iterable[ServerConfig]) -> None:
        """Update the statements of server entries; a removed server may still have a call."""
        self._overlays |= {config.name: config.overlay for config in configs}

    def traits(self, spec: ToolSpec) -> frozenset[FlowTrait]:
        """Traits of a tool: stated by its server's entry, otherwise guessed."""
        guess, overlay = flow_traits(spec), self._overlays[spec.server]
        stated: dict[FlowTrait, Any] = {trait: getattr(overlay, trait) for trait in FLOW_TRAITS}
        return frozenset(
            trait
            for trait, names in stated.items()
            if (trait in guess if names is None else fits_any(spec.name, names))
        )

    async def check(self, call: PendingCall, entry: CatalogEntry, arguments: Any) -> None:
        """Allow a call, if needed by the user's consent, and record the call's traits."""
        if self._mode == "off":
            return
        traits, key = self.traits(entry.spec), call.request.key
        met = self._traits.get(key) or {}
        if "sends_out" in traits and {"reads_private", "brings_foreign"} <= met.keys():
            why = (
                f"{entry.name} sends data out, and this conversation has read private data with "
                f"{met['reads_private']} and foreign text with {met['brings_foreign']}"
            )
            if self._mode == "refuse":
                raise ForbiddenError(f"The call was not made: {why}. The gateway forbids this.")
            shown = json.dumps(_readable(arguments), ensure_ascii=False)
            await self._ask(call, f"{why}. Allow the call?\n{shown}", why)
        brought: dict[FlowTrait, str] = dict.fromkeys(traits, entry.name)
        # Read the traits again: other calls may have ended meanwhile.
        self._traits[key] = brought | (self._traits.get(key) or {})

    async def _ask(self, call: PendingCall, question: str, why: str) -> None:
        no_fields: dict[str, Any] = {"type": "object", "properties": {}}
        params = ElicitRequestFormParams(message=question, requested_schema=no_fields)
        answer = await call.answer(ElicitRequest(params=params))
        if not isinstance(answer, ElicitResult):
            raise ForbiddenError(f"The call was not made: {why}. No user could be asked.")
        if answer.action != "accept":
            raise ForbiddenError(f"The call was not made: {why}. The user did not agree.")

    def leave(self, key: str) -> None:
        """Forget an ended conversation."""
        self._traits.pop(key, None)
