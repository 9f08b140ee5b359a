"""The HTTP service."""

from toolcrib.service.http.app import make_app
from toolcrib.service.http.authenticator import Anyone, Callers

__all__ = ["Anyone", "Callers", "make_app"]
