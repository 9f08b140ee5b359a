"""Tokens of an issuer (OAuth, OpenID Connect): signed JWTs that callers send in place of keys."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from pydantic import ValidationError

from toolcrib.access.keys import KEY_TEXT, Caller, Grant, KeyRing
from toolcrib.errors import (
    ForbiddenError,
    ServiceUnavailableError,
    SettingsError,
    UnauthenticatedError,
)
from toolcrib.extras import import_extra
from toolcrib.records.codec import in_words, list_of
from toolcrib.settings import TokenSettings

if TYPE_CHECKING:
    from jwt import PyJWKClient

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""Signatures by a private key only: with a shared secret, callers could sign tokens too."""

REQUIRED_CLAIMS = ("exp", "iss", "aud", "sub")
SCOPE_CLAIMS = ("scope", "scp")
"""Claims with the scopes, as a text or a list."""

TOKEN_CLOCK_SKEW_S = 30
KEYS_FETCH_TIMEOUT_S = 5
RETRY_S = 5.0
"""Time after a failed look-up of the issuer's keys until the next one."""

MAX_CALLER_NAME_CHARS = 100

METADATA_PATH = "/.well-known/oauth-protected-resource"


class KeysAndTokens:
    """Verifier of keys, and of one issuer's tokens, whose scopes decide the grant. Thread-safe."""

    def __init__(self, ring: KeyRing, settings: TokenSettings) -> None:
        self._ring, self.settings = ring, settings
        self._jwt: Any = import_extra("jwt", "tokens", "service")
        self._grants = _grants(settings.scopes)
        self._keys = self._make_client()

    def verify(self, text: str) -> Caller:
        """Caller of a key or a token.

        Raises:
            UnauthenticatedError: the issuer, audience or signature is wrong, or the token expired;
                or the key is wrong.
            ForbiddenError: no scope of the token has a grant.
            ServiceUnavailableError: the issuer's keys cannot be read.
            StoreError: keys cannot be read.
        """
        if KEY_TEXT.fullmatch(text):
            return self._ring.verify(text)
        claims = self._claims(text)
        held = {scope for name in SCOPE_CLAIMS for scope in _scopes(claims.get(name))}
        grant = next((grant for scope, grant in self._grants.items() if scope in held), None)
        if grant is None:
            raise ForbiddenError(
                f"the token has no scope with a grant; those are {', '.join(self._grants)}"
            )
        subject = str(claims["sub"])
        name = claims.get("client_id") or claims.get("azp") or subject
        return Caller(f"sub:{subject}", str(name)[:MAX_CALLER_NAME_CHARS], grant)

    def _claims(self, text: str) -> Mapping[str, Any]:
        try:
            # Before the keys are fetched: a token of another issuer causes no request.
            unsafe = self._jwt.decode(text, options={"verify_signature": False})
            if unsafe.get("iss") != self.settings.issuer:
                raise UnauthenticatedError("the token is of another issuer")
            return self._jwt.decode(
                text,
                self._keys.get_signing_key_from_jwt(text),
                algorithms=ALGORITHMS,
                audience=self.settings.audience,
                issuer=self.settings.issuer,
                leeway=TOKEN_CLOCK_SKEW_S,
                options={"require": REQUIRED_CLAIMS},
            )
        except (self._jwt.PyJWKClientConnectionError, ValueError) as error:
            raise self._unavailable(error) from None
        except self._jwt.PyJWTError as error:
            raise UnauthenticatedError(f"the token is invalid: {error}") from None

    def _make_client(self) -> PyJWKClient:
        """Client of the issuer's keys that fetches none for `RETRY_S` after a failure.

        Its URL is found at first use. Fetches wait for each other: a silent issuer would hold up
        all threads that verify tokens.
        """
        from jwt import PyJWKClient, PyJWKClientConnectionError

        given, discover = self.settings.jwks_url, self._discovered_url

        class Client(PyJWKClient):
            retry_at = 0.0
            is_found = given is not None

            def fetch_data(self) -> Any:
                if time.monotonic() < self.retry_at:
                    raise PyJWKClientConnectionError("they could not be fetched a moment ago")
                self.retry_at = time.monotonic() + RETRY_S
                if not self.is_found:
                    self.uri, self.is_found = discover(), True
                found = super().fetch_data()
                self.retry_at = 0.0
                return found

        return Client(given or self.settings.issuer, timeout=KEYS_FETCH_TIMEOUT_S)

    def _discovered_url(self) -> str:
        issuer = self.settings.issuer
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        metadata = self._jwt.PyJWKClient(url, cache_jwk_set=False, timeout=KEYS_FETCH_TIMEOUT_S)
        found: Any = metadata.fetch_data()
        if found.get("issuer") != issuer or not isinstance(found.get("jwks_uri"), str):
            raise self._unavailable(f"{url} is not its metadata; set tokens.jwks_url")
        return found["jwks_uri"]

    def _unavailable(self, reason: object) -> ServiceUnavailableError:
        return ServiceUnavailableError(
            f"the keys of the issuer {self.settings.issuer} cannot be read: {reason}"
        )

    # -- metadata of this service (RFC 9728) -------------------------------------------------------

    @property
    def resource(self) -> str | None:
        """Public URL of the protected resource; None if the audience is no URL."""
        audience = self.settings.audience
        return audience if audience.startswith(("https://", "http://")) else None

    @property
    def metadata_path(self) -> str:
        """Path of the metadata, after the resource's origin."""
        path = urlsplit(self.resource or "").path.rstrip("/")
        return f"{METADATA_PATH}{path}"

    def challenge(self) -> str:
        """Parameter of `WWW-Authenticate` with the URL of the metadata; may be empty."""
        if self.resource is None:
            return ""
        return f', resource_metadata="{urljoin(self.resource, self.metadata_path)}"'

    def metadata(self) -> dict[str, Any]:
        """Metadata of the protected resource: its issuer, and the scopes of tokens."""
        return {
            "resource": self.resource,
            "authorization_servers": [self.settings.issuer],
            "scopes_supported": list(self._grants),
            "bearer_methods_supported": ["header"],
        }


def callers_of(ring: KeyRing, settings: TokenSettings | None) -> KeyRing | KeysAndTokens:
    """Verifier of keys, and of tokens if the settings name an issuer.

    Raises:
        SettingsError: a scope's grant is invalid.
        MissingExtraError: the package for tokens is missing.
    """
    return ring if settings is None else KeysAndTokens(ring, settings)


def _grants(scopes: Mapping[str, Mapping[str, Any]]) -> dict[str, Grant]:
    found: dict[str, Grant] = {}
    for scope, grant in scopes.items():
        try:
            found[scope] = Grant.model_validate(grant)
        except ValidationError as error:
            raise SettingsError(f"tokens.scopes.{scope}: {in_words(error)}") from None
    return found


def _scopes(claim: Any) -> list[str]:
    words = claim.split() if isinstance(claim, str) else list_of(claim)
    return [word for word in words if isinstance(word, str)]
