"""Makes keys and prints the text of each that was acknowledged, until somebody kills it.

`python key_maker.py STORE`
"""

from __future__ import annotations

import sys

from toolcrib import Settings, build
from toolcrib.access.keys import Grant, KeyRing

if __name__ == "__main__":
    ring = KeyRing(build.open_records_db(sys.argv[1], Settings()))
    while True:
        _, text = ring.create("test", Grant(namespaces=("*",)))
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
