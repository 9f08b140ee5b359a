"""Chat models: the protocol of providers' clients, their replies and failures."""

from __future__ import annotations

import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from toolcrib.extras import makes_http_client
from toolcrib.records import Message

Mode: TypeAlias = Literal["tool", "schema", "text"]
"""Mode of a structured answer: as arguments of a tool, by a JSON schema, or as text."""

TRANSIENT_STATUSES = {408, 409, 425, 429}
"""Statuses, beside the server errors from 500 on, after which a retry may succeed."""

MODE_STATUSES = {400, 404, 422, 500, 501}
"""Statuses of servers that refuse tools or schemas."""

MODE_WORDS = ("tool", "function", "response_format", "output_config", "schema", "grammar", "jinja")
"""Words in the error of a server that refuses the mode."""

REFUSED_OPTIONS = {"temperature": "temperature", "max_completion_tokens": "max_tokens"}
"""Options that some models refuse, by the word that names the option in the error."""

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
    """Shape of an answer: a name of letters and `_`, a description, and its JSON schema."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def as_function(self) -> dict[str, Any]:
        """Tool that takes the answer as its arguments, in OpenAI's form."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.schema,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ChatReply:
    """Reply of a model: the JSON of its answer, or a text that may hold the answer.

    `is_in_mode`: the reply came in the mode of the request. Tokens are 0 if unreported.
    """

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    is_in_mode: bool = True


@dataclass(eq=False, repr=False)
class ChatFailure(Exception):  # noqa: N818 -- it never leaves the package: see LanguageModelError
    """Failure of a call.

    `reason` never quotes the provider's text, which may hold prompts and keys. `transient`: a retry
    may succeed, after `retry_after_s` if known. `mode_refused`: another mode may work.
    `refused_option`: a request without this option may work.
    """

    reason: str
    _: KW_ONLY
    transient: bool = False
    retry_after_s: float | None = None
    mode_refused: bool = False
    refused_option: str | None = None


class ChatModel(Protocol):
    """Chat model behind a provider's protocol; called in one event loop alone."""

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    @property
    def server(self) -> str:
        """Address of the server: all models of a server share a limit."""
        ...

    @property
    def modes(self) -> Sequence[Mode]:
        """Modes that the client knows, the best first."""
        ...

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """Send one request, without retries; in the mode `text` the messages hold the schema.

        Raises:
            ChatFailure: there is no reply.
        """
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class SdkChatModel(ABC):
    """Chat model by a provider's SDK; a subclass writes the request and reads the response.

    `provider` is the name of the protocol as OpenTelemetry has it. Without the extra `llm`, a
    subclass raises `MissingExtraError`.
    """

    modes: Sequence[Mode] = ("tool", "schema", "text")
    provider: str
    _create: Callable[..., Awaitable[Any]]

    def __init__(
        self,
        name: str,
        server: str,
        client: Callable[..., Any],
        api_key: str | None,
        options: Mapping[str, float | None],
    ) -> None:
        self.name, self.server = name, server
        self._options = {option: value for option, value in options.items() if value is not None}
        # Both given: the SDK must not read the environment. Local servers need no key.
        with makes_http_client(server):
            self._client: Any = client(base_url=server, api_key=api_key or "none", max_retries=0)
        # Headers from the environment (`OPENAI_CUSTOM_HEADERS`) may hold keys of other servers.
        self._client._custom_headers = {}  # noqa: SLF001 -- there is no public way
        if hasattr(self._client, "organization"):
            self._client.organization = self._client.project = None

    @abstractmethod
    def _body(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> dict[str, Any]:
        """Fields of a request."""

    @abstractmethod
    def _reply(self, response: Any, mode: Mode) -> ChatReply:
        """Reply in a response."""

    async def complete(
        self, messages: Sequence[Message], answer: AnswerSchema, mode: Mode
    ) -> ChatReply:
        """Send one request."""
        try:
            response = await self._create(**self._body(messages, answer, mode))
        except Exception as error:  # noqa: BLE001 -- whatever the SDK raises is a failure
            failure = failure_of(error)
            if failure.refused_option is not None:
                given = self._options.pop(failure.refused_option, None)
                if failure.refused_option == "max_tokens" and given is not None:
                    self._options["max_completion_tokens"] = given
            raise failure from None
        return read_reply(self._reply, response, mode)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def role_of(message: Message) -> Literal["system", "user", "assistant"]:
    """Role of a message in any chat protocol; unknown roles are the assistant's."""
    if message.role in {"system", "developer"}:
        return "system"
    return "user" if message.role == "user" else "assistant"


def failure_of(error: Exception) -> ChatFailure:
    """Failure for an error of a provider's SDK; all SDKs name statuses and headers alike."""
    status = getattr(error, "status_code", None)
    if not isinstance(status, int):
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if kinds & {"APIConnectionError", "ConnectionError", "TimeoutError", "TransportError"}:
            return ChatFailure("it cannot be reached, or broke off", transient=True)
        if kinds & {"APIResponseValidationError", "JSONDecodeError"}:
            return ChatFailure(NO_PROTOCOL, transient=True)
        return ChatFailure(f"its client raised {type(error).__name__}{_place_of(error)}")
    body = getattr(error, "body", None)
    text = str(body or "").casefold()
    about_mode = any(word in text for word in MODE_WORDS)
    silent = not body and status not in {404, SERVER_ERROR}
    refused = status in MODE_STATUSES and (about_mode or silent)
    return ChatFailure(
        f"it answered with status {status}{ADVICE.get(status, '')}",
        transient=not refused and (status in TRANSIENT_STATUSES or status >= SERVER_ERROR),
        retry_after_s=_retry_after(getattr(error, "response", None)),
        mode_refused=refused,
        refused_option=next((name for word, name in REFUSED_OPTIONS.items() if word in text), None)
        if status in {400, 422}
        else None,
    )


def _place_of(error: Exception) -> str:
    """Place where an error was raised, in place of its text, which may quote prompts."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    code = frames[-1].f_code if frames else None
    return f" in {Path(code.co_filename).name}, {code.co_name}" if code else ""


def read_reply(read: Callable[[Any, Mode], ChatReply], response: Any, mode: Mode) -> ChatReply:
    """Read a server's response by `read`.

    Raises:
        ChatFailure: a field of the protocol is missing.
    """
    try:
        return read(response, mode)
    except (AttributeError, LookupError, TypeError):
        raise ChatFailure(NO_PROTOCOL, transient=True) from None


def token_count(usage: Any, name: str) -> int:
    """Tokens that a response reports; a count that is missing or no number is 0."""
    count: Any = usage.get(name) if hasattr(usage, "get") else getattr(usage, name, None)
    return count if isinstance(count, int) else 0


def _retry_after(response: Any) -> float | None:
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
