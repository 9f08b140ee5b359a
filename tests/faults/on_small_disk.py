"""`toolcrib` as a process that sees another one's disks, from a folder of theirs.

`python -m tests.faults.on_small_disk PID FOLDER ARGUMENT...`
"""

from __future__ import annotations

import ctypes
import os
import runpy
import sys
from contextlib import ExitStack
from pathlib import Path

PID, FOLDER = sys.argv[1:3]
del sys.argv[1:3]

LIBC = ctypes.CDLL(None, use_errno=True)

with ExitStack() as stack:
    namespaces = [
        stack.enter_context(Path(f"/proc/{PID}/ns/{kind}").open("rb")) for kind in ("user", "mnt")
    ]
    for namespace in namespaces:
        if LIBC.setns(namespace.fileno(), 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace.name)
os.chdir(FOLDER)

runpy.run_module("toolcrib", run_name="__main__")
