"""Chat models: the protocol that each provider's client keeps, its replies and its failures."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from toolcrib.records import Message

Mode: TypeAlias = Literal["tool", "schema", "text"]
"""How a structured answer is asked for: as arguments of a tool, by a JSON schema, or in words."""

PASSING = {408, 409, 425, 429}
"""Statuses, beside those of a failing server, after which asking again may help."""

NOT_IN_THIS_MODE = {400, 404, 422, 500, 501}
"""Statuses of servers that do not take tools, or no schemas, and say so or nothing at all."""

OF_MODES = ("tool", "function", "response_format", "output_config", "schema", "grammar", "jinja")
"""Words of an error that is about the mode."""

SERVER_ERROR = 500
NO_PROTOCOL = "it did not answer in its protocol"

ADVICE: Mapping[int, str] = {
    400: "; is llm.model right, and does the prompt fit it?",
    401: "; is the key right?",
    403: "; is the key right?",
    404: "; are llm.base_url and llm.model right?",
}


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """What an answer must look like: a name of letters and `_`, what it is, its JSON schema."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def as_function(self) -> dict[str, Any]:
        """A tool that takes it, in OpenAI's form."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.schema,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What a model said: the JSON of its answer, or a text that may hold it.

    `followed`: whether it came the way that it was asked for. Tokens are 0 where the server
    reports none.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    followed: bool = True


class ChatFailure(Exception):  # noqa: N818 -- it never leaves the package: see LanguageModelError
    """A call without a reply.

    `reason` is in our own words, as a provider's may quote prompts and keys. `passing`: asking
    again may help, after `retry_after_s` where that is known. `mode_refused`: another way to ask
    for the answer may do. `refuses_temperature`: so does asking without one.
    """

    def __init__(
        self,
        reason: str,
        *,
        passing: bool = False,
        retry_after_s: float | None = None,
        mode_refused: bool = False,
        refuses_temperature: bool = False,
    ) -> None:
        self.reason = reason
        self.passing = passing
        self.retry_after_s = retry_after_s
        self.mode_refused = mode_refused
        self.refuses_temperature = refuses_temperature
        super().__init__(reason)


class ChatModel(Protocol):
    """A model behind some provider's protocol; it is called in one event loop alone."""

    @property
    def name(self) -> str:
        """Which model it is."""
        ...

    @property
    def server(self) -> str:
        """Where its requests go: all of one server share a limit."""
        ...

    @property
    def modes(self) -> Sequence[Mode]:
        """The ways of asking that it knows, the best first."""
        ...

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """One request, never made again here; with `text` the messages hold the schema.

        Raises:
            ChatFailure: there is no reply.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


def unconfigured(client: Any) -> Any:
    """An SDK's client without the headers that it read from the environment.

    `OPENAI_CUSTOM_HEADERS`, `ANTHROPIC_CUSTOM_HEADERS` and the like may hold the keys of other
    servers, and would go to whatever server the settings name.
    """
    client._custom_headers = {}  # noqa: SLF001 -- there is no public way
    if hasattr(client, "organization"):
        client.organization = client.project = None
    return client


def role_of(message: Message) -> Literal["system", "user", "assistant"]:
    """The role of a message in any chat protocol; unknown ones are the assistant's."""
    if message.role in {"system", "developer"}:
        return "system"
    return "user" if message.role == "user" else "assistant"


def failure_of(error: Exception) -> ChatFailure:
    """What an error of a provider's SDK means; they name statuses and headers alike."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {"APIConnectionError", "ConnectionError", "TimeoutError", "TransportError"}:
            return ChatFailure("it cannot be reached, or broke off", passing=True)
        if kinds & {"APIResponseValidationError", "JSONDecodeError"}:
            return ChatFailure(NO_PROTOCOL, passing=True)
        return ChatFailure(f"its client raised {type(error).__name__}{_place_of(error)}")
    body = getattr(error, "body", None)
    said = str(body or "").casefold()
    about_mode = any(word in said for word in OF_MODES)
    silent = not body and status not in {404, SERVER_ERROR}
    refused = status in NOT_IN_THIS_MODE and (about_mode or silent)
    return ChatFailure(
        f"it answered with status {status}{ADVICE.get(status, '')}",
        passing=not refused and (status in PASSING or status >= SERVER_ERROR),
        retry_after_s=_retry_after(getattr(error, "response", None)),
        mode_refused=refused,
        refuses_temperature=status in {400, 422} and "temperature" in said,
    )


def _place_of(error: Exception) -> str:
    """Where an error was raised: what it says may quote prompts."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    code = frames[-1].f_code if frames else None
    return f" in {Path(code.co_filename).name}, {code.co_name}" if code else ""


def read_reply(read: Callable[[Any, Mode], ChatReply], said: Any, mode: Mode) -> ChatReply:
    """What a server said, as `read` finds it.

    Raises:
        ChatFailure: it lacks what its protocol has.
    """
    try:
        return read(said, mode)
    except (AttributeError, LookupError, TypeError):
        raise ChatFailure(NO_PROTOCOL, passing=True) from None


def _retry_after(response: Any) -> float | None:
    """Seconds after which to ask again, as the headers of a response have it."""
    headers: Any = getattr(response, "headers", None) or {}
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        given = str(headers["retry-after"])
        if given.replace(".", "", 1).isdecimal():
            return float(given)
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (KeyError, ValueError, OverflowError):
        return None
