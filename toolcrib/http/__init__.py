"""HTTP service: application, authentication and endpoints."""

from toolcrib.http.app import make_app
from toolcrib.http.authenticator import Anyone, Callers

__all__ = ["Anyone", "Callers", "make_app"]
