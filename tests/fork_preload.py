"""Modules and tables that every service and gateway loads; the fork server loads them once.

No engine and no model: a process that is forked beside their threads would hang.
"""

from __future__ import annotations

import importlib

from toolcrib.context.rules import HeuristicDetector

for name in (
    "prometheus_client",
    "qdrant_client",
    "uvloop",
    "toolcrib.cli.hosts",
    "toolcrib.encoders.fake",
    "toolcrib.gateway.serve",
    "toolcrib.http.server",
    "toolcrib.learning.learner",
    "toolcrib.router.router",
    "toolcrib.serve",
    "toolcrib.store.qdrant_edge",
    "toolcrib.store.qdrant_server",
    "toolcrib.store.records_db.sqlite",
    "toolcrib.telemetry",
    "toolcrib.tenants",
):
    importlib.import_module(name)

detector = HeuristicDetector()
detector.detect("Can you send the report to Ana?")
detector.follow_up_score("and then?")
