"""Whether a tool's texts try to hide something, to order a model about, or to pass for another."""

from __future__ import annotations

from toolcrib.indexers.audit.audit import audit_all
from toolcrib.indexers.audit.findings import Finding, Severity, blocks
from toolcrib.indexers.audit.audit import audit

__all__ = ["Finding", "Severity", "audit", "audit_all", "blocks"]
