"""What the figures were measured on: hardware and versions, no names and no paths."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("toolcrib", "qdrant-edge-py", "onnxruntime", "numpy", "pydantic")


def machine() -> dict[str, Any]:
    """Processor, cores that may be used, memory, system, and how busy it was at the start."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": _cores(),
        "memory_gb": round(int((_field("/proc/meminfo", "MemTotal") or "0").split()[0]) / 1e6, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average_at_start": round(os.getloadavg()[0], 2),
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in found if key.strip() == name), "")


def versions() -> dict[str, str]:
    """Versions of python and of what toolcrib stands on."""
    found = {name: metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}
