"""Logins at servers (OAuth): made in a browser, kept in a keyring or in files, and renewed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import webbrowser
from collections.abc import AsyncGenerator, Callable
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

import anyio
import httpx2
from cryptography.fernet import Fernet, InvalidToken
from fastmcp.client.oauth_callback import OAuthCallbackResult, create_oauth_callback_server
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ConfigDict, ValidationError

from toolcrib.build import MEMORY, is_url
from toolcrib.errors import SettingsError, StoreError, StoreUnavailableError
from toolcrib.extras import import_extra
from toolcrib.indexers.readers.mcp_config import HttpTarget, Target
from toolcrib.settings import GatewaySettings, secret_text
from toolcrib.store.folder import LOGINS_FOLDER, file_lock, write_atomically, write_errors

CLIENT_NAME = "toolcrib"
CALLBACK_HOST = "127.0.0.1"
UNAUTHORISED_STATUS = 401

RENEWAL_TIMEOUT_S, RENEWAL_POLL_S = 10.0, 0.05
"""Time to wait for another process that renews a login, and the time between two looks."""


class ServerLogin(BaseModel):
    """Login at a server: its tokens, the OAuth client that owns them, and the issuer.

    `expires_at` is Unix time, None if the tokens state none.
    """

    model_config = ConfigDict(frozen=True)

    tokens: OAuthToken
    expires_at: float | None = None
    client: OAuthClientInformationFull
    issuer: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None


# -- where logins are kept -------------------------------------------------------------------------


class SecretFiles:
    """Files, one for each server, that only their owner can read; encrypted with a `secret`."""

    def __init__(self, folder: Path, secret: str) -> None:
        self._folder = folder
        self._fernet: Fernet | None = None
        if secret:
            key = hashlib.scrypt(secret.encode(), salt=b"toolcrib", n=2**14, r=8, p=1, dklen=32)
            self._fernet = Fernet(base64.urlsafe_b64encode(key))

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"

    def get(self, url: str) -> str | None:
        """The text of a server; None without a file."""
        try:
            text = self._path(url).read_text(encoding="utf-8")
            return self._fernet.decrypt(text).decode() if self._fernet and text else text
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, InvalidToken) as error:
            raise StoreUnavailableError(
                f"the login in {self._path(url)} cannot be read ({error or 'another secret'}); "
                "log in again"
            ) from None

    def put(self, url: str, text: str) -> None:
        """Keep a text; the first text creates the folder."""
        path = self._path(url)
        with write_errors(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o600)
        write_atomically(
            path, self._fernet.encrypt(text.encode()).decode() if self._fernet else text
        )

    def lock(self, url: str) -> AbstractContextManager[None]:
        """Lock of a server's file for one process; entering raises TimeoutError if it is held."""
        return file_lock(self._path(url).with_suffix(".lock"), timeout_s=0)

    def delete(self, url: str) -> bool:
        """Delete a file."""
        with suppress(FileNotFoundError):
            self._path(url).unlink()
            return True
        return False


class SecretKeyring:
    """The system's keyring: Keychain, Credential Locker, Secret Service."""

    def __init__(self) -> None:
        self._keyring: Any = import_extra("keyring", "gateway.logins: keyring", "gateway")

    def _call(self, act: str, url: str, *more: str) -> Any:
        try:
            return getattr(self._keyring, act)(CLIENT_NAME, url, *more)
        except self._keyring.errors.KeyringError as error:
            raise StoreUnavailableError(
                f"the system's keyring does not work here ({error}); set gateway.logins to file"
            ) from None

    def get(self, url: str) -> str | None:
        """The text of a server."""
        return self._call("get_password", url)

    def put(self, url: str, text: str) -> None:
        """Keep a text in place of the server's former text."""
        self._call("set_password", url, text)

    def lock(self, url: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """No lock: a keyring has none."""
        return nullcontext()

    def delete(self, url: str) -> bool:
        """Delete a text."""
        if was_there := self.get(url) is not None:
            self._call("delete_password", url)
        return was_there


class Logins:
    """Logins by the server's URL; `command` gives the command that logs in at a named server."""

    def __init__(self, texts: SecretFiles | SecretKeyring, command: Callable[[str], str]) -> None:
        self._texts, self.command = texts, command

    @classmethod
    def open(
        cls, location: str, settings: GatewaySettings, command: Callable[[str], str]
    ) -> Logins:
        """Logins beside a store; if the store is no folder, in the current folder."""
        if settings.logins == "keyring":
            return cls(SecretKeyring(), command)
        folder = f".{CLIENT_NAME}-gateway" if is_url(location) or location == MEMORY else location
        secret = secret_text(settings.logins_secret) or ""
        return cls(SecretFiles(Path(folder) / LOGINS_FOLDER, secret), command)

    async def get(self, url: str) -> ServerLogin | None:
        """The login at a server; None without one."""
        text = await asyncio.to_thread(self._texts.get, url)
        try:
            return ServerLogin.model_validate_json(text) if text else None
        except ValidationError:
            raise StoreUnavailableError(f"the login at {url} is damaged: log in again") from None

    async def put(self, url: str, login: ServerLogin) -> None:
        """Keep a login."""
        await asyncio.to_thread(self._texts.put, url, login.model_dump_json(exclude_none=True))

    @asynccontextmanager
    async def renewal(self, url: str) -> AsyncGenerator[None]:
        """Let one process at a time renew a login: servers refuse a refresh token used twice."""
        with ExitStack() as held:
            for _ in range(int(RENEWAL_TIMEOUT_S / RENEWAL_POLL_S)):
                try:
                    held.enter_context(self._texts.lock(url))
                except TimeoutError:
                    await asyncio.sleep(RENEWAL_POLL_S)
                    continue
                except OSError:
                    pass  # A folder that cannot be written keeps no renewed login either.
                break
            yield

    def delete(self, url: str) -> bool:
        """Delete a login; True if there was a login."""
        return self._texts.delete(url)

    def auth(self, target: Target | None) -> LoginAuth | None:
        """Authorisation of requests to a server; None if the server takes no login."""
        return LoginAuth(target.url, self) if may_log_in(target) else None


def may_log_in(target: Target | None) -> TypeGuard[HttpTarget]:
    """True for a server over HTTP whose entry has no `Authorization` header."""
    return isinstance(target, HttpTarget) and not target.has_authorization


# -- authorisation of requests ---------------------------------------------------------------------


class _LoginStorage(OAuthClientProvider):
    """Storage of the login that the SDK gets; `login` is the latest, None before the first."""

    def __init__(self, url: str, logins: Logins, callback: str = "http://127.0.0.1/") -> None:
        # A public client: it has no secret to keep.
        client = OAuthClientMetadata(
            client_name=CLIENT_NAME,
            redirect_uris=[AnyUrl(callback)],
            token_endpoint_auth_method="none",  # noqa: S106 -- the name of a method
        )
        super().__init__(url, client, storage=self)
        self.login: ServerLogin | None = None
        self._url, self._logins = url, logins

    async def get_tokens(self) -> OAuthToken | None:
        return self.login and self.login.tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.login and self.login.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Keep nothing: a client without tokens is useless."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep new tokens, with the client and metadata that renew them."""
        context = self.context
        assert context.client_info is not None
        self.login = ServerLogin(
            tokens=tokens,
            expires_at=context.token_expiry_time,
            client=context.client_info,
            issuer=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        await self._logins.put(self._url, self.login)


class LoginAuth(_LoginStorage):
    """Authorises requests by a kept login, and renews the login without a browser.

    The SDK's own flow opens a browser after a refusal, and makes requests wait for each other.
    """

    async def is_renewed(self) -> bool:
        """True if the kept login is newer than the one in use."""
        with suppress(StoreError):
            now = await self._logins.get(self._url)
            return now is not None and now != self.login
        return False

    async def _initialize(self) -> None:
        self.login = kept = await self._logins.get(self._url)
        await super()._initialize()
        self.context.token_expiry_time = kept and kept.expires_at
        self.context.oauth_metadata = kept and kept.issuer
        self.context.protected_resource_metadata = kept and kept.resource

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context, refused = self.context, ""
        for _ in range(2):
            async with context.lock:
                if self._access_token in {"", refused}:
                    # Another process may have renewed the login.
                    await self._initialize()
                if self._access_token in {"", refused} and context.can_refresh_token():
                    async with self._logins.renewal(self._url):
                        await self._initialize()
                        if self._access_token in {"", refused} and context.can_refresh_token():
                            response = yield await self._refresh_token()
                            await self._handle_refresh_response(response)
                token = self._access_token
                if refused and token in {"", refused}:
                    return
                if token:
                    self._add_auth_header(request)
            response = yield request
            if response.status_code != UNAUTHORISED_STATUS or not token:
                return
            refused = token

    @property
    def _access_token(self) -> str:
        """The token to send; empty if the token has expired."""
        tokens = self.context.current_tokens
        return tokens.access_token if tokens and self.context.is_token_valid() else ""


@dataclass(frozen=True, slots=True)
class LoginOptions:
    """Options of a login: `show` gets the link; with `opens` a browser opens the link.

    The browser is redirected to `port` of this machine; 0 is any free port.
    """

    show: Callable[[str], None]
    opens: bool = True
    port: int = 0
    timeout_s: float = 300.0


class BrowserLogin(_LoginStorage):
    """Authorises requests by a new login that a person makes in a browser.

    The port listens from the start, so that a fast browser is not refused.

    Raises:
        SettingsError: the port is in use.
    """

    def __init__(self, url: str, logins: Logins, options: LoginOptions) -> None:
        try:
            self._listener = socket.create_server((CALLBACK_HOST, options.port))
        except OSError as error:
            raise SettingsError(f"--port {options.port}: {error.strerror}") from None
        self._port, self._options = int(self._listener.getsockname()[1]), options
        super().__init__(url, logins, f"http://{CALLBACK_HOST}:{self._port}/callback")
        self.context.redirect_handler = self._redirect
        self.context.callback_handler = self._callback

    async def _redirect(self, link: str) -> None:
        self._options.show(link)
        if self._options.opens:
            await asyncio.to_thread(webbrowser.open, link)

    async def _callback(self) -> AuthorizationCodeResult:
        result, ready = OAuthCallbackResult(), anyio.Event()
        server = create_oauth_callback_server(
            self._port,
            host=CALLBACK_HOST,
            server_url=self._url,
            result_container=result,
            result_ready=ready,
        )
        async with anyio.create_task_group() as beside:
            beside.start_soon(server.serve, [self._listener])
            await ready.wait()
            server.should_exit = True
        if result.error is not None:
            raise OAuthFlowError(str(result.error))
        return AuthorizationCodeResult(
            code=cast("str", result.code), state=result.state, iss=result.iss
        )

    def close(self) -> None:
        """Close the port."""
        self._listener.close()
