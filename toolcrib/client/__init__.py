"""The client of the HTTP service: a crib that is somewhere else."""

from toolcrib.client.crib import RemoteCrib

__all__ = ["RemoteCrib"]
