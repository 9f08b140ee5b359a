"""API keys at the gateway's HTTP: who may come in, and what of it they see."""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache

from fastmcp.server.auth import AccessToken, TokenVerifier

from toolcrib.access.keys import Caller, Grant, KeyRing, within
from toolcrib.errors import ServiceError, StoreError
from toolcrib.namespaces import DEFAULT
from toolcrib.records import Scope

__all__ = ["KeyVerifier", "reach"]

CLAIM = "grant"

logger = logging.getLogger(__name__)


class KeyVerifier(TokenVerifier):
    """Lets in whoever shows a key that holds for the default namespace."""

    def __init__(self, ring: KeyRing) -> None:
        super().__init__()
        self._ring = ring

    async def verify_token(self, token: str) -> AccessToken | None:
        """Who holds this key; None for nobody."""
        try:
            caller = await asyncio.to_thread(self._ring.verify, token)
            caller.namespace(DEFAULT)
        except ServiceError:
            return None
        except StoreError:
            logger.warning("keys cannot be looked up", exc_info=True)
            return None
        claims = {CLAIM: caller.grant.model_dump_json()}
        return AccessToken(token=token, client_id=caller.key_id, scopes=[], claims=claims)


def reach(token: AccessToken | None, scope: Scope) -> Scope:
    """What the holder of a key may use of a scope: all of it where no keys are used."""
    return scope if token is None else _reach(str(token.claims[CLAIM]), scope)


@lru_cache(maxsize=256)
def _reach(grant: str, scope: Scope) -> Scope:
    return within(Caller("", "", Grant.model_validate_json(grant)).scope(), scope)
