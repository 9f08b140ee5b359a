"""Writes records and prints each that was acknowledged, until it is done or killed.

`python records_db_writer.py PATH NAME COUNT [MAX_FILE_BYTES]`: with a limit, files of this process
can grow no further, as on a full disk.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from toolcrib.errors import StoreWriteError
from toolcrib.store.records_db import DbRow
from toolcrib.store.records_db.sqlite import SqliteRecordsDb


def record(name: str, number: int) -> DbRow:
    """A record with a filling that any mixing of two writes would break."""
    return DbRow(f"{name}-{number:06}", float(number), {"filling": name * (number * 7 % 900)})


if __name__ == "__main__":
    path, name, count, *limit = sys.argv[1:]
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    db = SqliteRecordsDb(Path(path))
    try:
        for number in range(int(count)):
            db.put("records", record(name, number))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
    except StoreWriteError as error:
        sys.stdout.write(f"{error}\n")
    db.close()
