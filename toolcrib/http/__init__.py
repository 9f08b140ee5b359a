"""The HTTP service."""

from toolcrib.http.app import make_app
from toolcrib.http.callers import Anyone, Callers

__all__ = ["Anyone", "Callers", "make_app"]
