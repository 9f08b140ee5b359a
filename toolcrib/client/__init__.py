"""Client of the HTTP service: a crib at a URL."""

from toolcrib.client.crib import RemoteCrib

__all__ = ["RemoteCrib"]
