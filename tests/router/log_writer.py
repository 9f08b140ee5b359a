"""Writes records to a log and prints each id that was taken, until it is done or killed.

`python log_writer.py LOG NAME COUNT MAX_BYTES`
"""

from __future__ import annotations

import sys

from toolcrib.router.decision_log import open_log
from toolcrib.router.settings import TelemetrySettings


def entry(name: str, number: int) -> dict[str, object]:
    """A record with a filling that any mixing of two writes would break."""
    at = "2026-03-01T00:00:00.000+00:00"
    filling = name * (number * 7 % 900)
    return {"kind": "decision", "id": f"{name}-{number}", "at": at, "filling": filling}


if __name__ == "__main__":
    path, name, count, max_bytes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    log = open_log(TelemetrySettings(path, max_bytes=max_bytes, kept=99))
    assert log is not None
    for number in range(count):
        log.write(entry(name, number))
        sys.stdout.write(f"{name}-{number}\n")
        sys.stdout.flush()
    log.close()
