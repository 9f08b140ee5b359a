"""Audit: finds tools whose texts hide something, instruct a model, or imitate another tool."""

from __future__ import annotations

from toolcrib.audit.audit import audit, audit_all, audit_identity
from toolcrib.audit.findings import Finding, Severity, blocks

__all__ = ["Finding", "Severity", "audit", "audit_all", "audit_identity", "blocks"]
