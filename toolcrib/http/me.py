"""Whom the service takes a caller for."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from toolcrib.http.endpoints import Endpoint, answer
from toolcrib.http.visits import visit_of
from toolcrib.http.wire.records import MeAnswer
from toolcrib.http.wire.scope import scope_as_dict

__all__ = ["ENDPOINTS"]


async def describe_me(request: Request) -> Response:
    """Say whose key this is, and what it allows."""
    visit = visit_of(request)
    grant = visit.caller.grant
    return answer(
        {
            "name": visit.caller.name,
            "access": grant.access,
            "namespaces": grant.namespaces,
            "namespace": visit.namespace,
            "scope": scope_as_dict(visit.scope()),
        },
    )


ENDPOINTS = (Endpoint("GET", "/v1/me", describe_me, "keys", MeAnswer),)
