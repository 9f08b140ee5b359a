"""`toolcrib` by a wall clock that somebody sets: ahead by as many seconds as a file says.

`python another_clock.py FILE ARGUMENT...`
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path

FILE = Path(sys.argv.pop(1))

seconds, nanoseconds = time.time, time.time_ns


def ahead() -> float:
    """How far this clock is ahead of the machine's; behind where that is negative."""
    return float(FILE.read_text(encoding="ascii"))


# Before anything of toolcrib is imported, which may take the clock as it finds it then.
time.time = lambda: seconds() + ahead()
time.time_ns = lambda: nanoseconds() + round(ahead() * 1e9)

runpy.run_module("toolcrib", run_name="__main__")
