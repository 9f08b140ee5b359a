"""The folder of an embedded store: one holder, generations side by side, one of them live.

    DIR/crib.lock   DIR/current   DIR/g0001/{shard/, layout.json, meta.json}   DIR/next/...

Whatever takes long is done in a new generation and swapped in by one rename.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from toolcrib.errors import StoreDamagedError, StoreLockedError, StoreWriteError
from toolcrib.store.base import Layout

__all__ = [
    "Generations",
    "copy_sparsely",
    "lock_folder",
    "read_json",
    "read_layout",
    "require_space",
    "write_atomically",
    "write_layout",
]

LOCK_NAME = "crib.lock"
HOLDER_NAME = "crib.lock.pid"
POINTER = "current"
NEXT = "next"

NEIGHBOURS = re.compile(r"library|tenants|ledger\.db.*")
"""What is kept beside a store of tools, and may be there before it."""


def lock_folder(folder: Path) -> FileLock:
    """Make the folder if need be and take its lock at once; it ends with the process.

    It comes before the engine's own lock, because a second opener that only meets that one can
    make the first one's next flush fail.

    Raises:
        StoreLockedError: somebody holds it; the message says which process.
        StoreWriteError: the folder cannot be made or written to.
    """
    holder = folder / HOLDER_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Whoever closes a store may be another thread than who opened it.
        lock = FileLock(folder / LOCK_NAME, thread_local=False)
        lock.acquire(timeout=0)
        holder.write_text(str(os.getpid()), encoding="ascii")
    except Timeout:
        raise StoreLockedError(_locked(folder, holder)) from None
    except OSError as error:
        raise StoreWriteError(
            f"the store {folder} cannot be written to ({error.strerror}); name another "
            "folder with --store, or give this user the right to write there"
        ) from error
    return lock


def _locked(folder: Path, holder: Path) -> str:
    try:
        who = f"process {int(holder.read_text(encoding='ascii'))}"
    except (OSError, ValueError):
        who = "another process"
    return (
        f"the store {folder} is in use by {who}; close it there, or run a Qdrant server, "
        "which many processes can share (docs/how-to/qdrant-server.md)"
    )


def require_space(folder: Path, least: int) -> None:
    """See that so many bytes are free: an engine that writes by way of memory dies of none.

    Raises:
        StoreWriteError: there are not.
    """
    free = shutil.disk_usage(folder).free
    if free < least:
        raise StoreWriteError(
            f"only {free // 2**20} MiB are free where {folder} lies; "
            f"toolcrib stops writing below {least // 2**20} MiB: free some space"
        )


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a crash leaves the old content or the new, never a part.

    Raises:
        StoreWriteError: the disk refuses.
    """
    draft = path.with_name(f".{path.name}.draft")
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreWriteError(f"{path} cannot be written: {error.strerror}") from error


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a document that `write_atomically` wrote.

    Raises:
        StoreDamagedError: it is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreDamagedError(
            f"{path} cannot be read ({error}); index the sources again into a new folder"
        ) from error


def copy_sparsely(source: Path, target: Path) -> None:
    """Copy a folder, leaving holes as holes: the engine's files are mostly holes."""
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            _copy_file(Path(folder) / name, into / name)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb") as reading, target.open("wb") as writing:
        size = os.fstat(reading.fileno()).st_size
        writing.truncate(size)
        position = 0
        while position < size:
            try:
                start = os.lseek(reading.fileno(), position, os.SEEK_DATA)
            except OSError:  # ENXIO: only holes remain
                return
            position = os.lseek(reading.fileno(), start, os.SEEK_HOLE)
            while start < position:
                chunk = os.pread(reading.fileno(), min(position - start, 2**20), start)
                start += os.pwrite(writing.fileno(), chunk, start)


class Generations:
    """Names, makes and removes generations; knows nothing of what a shard is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def next_folder(self) -> Path:
        """Where a store is built that will replace this one."""
        return self.folder / NEXT

    def current(self) -> Path | None:
        """The live generation; None in a new folder.

        Raises:
            StoreDamagedError: the folder is somebody else's, or points nowhere.
        """
        try:
            name = (self.folder / POINTER).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            self._require_ours()
            return None
        if not (self.folder / name / "shard").is_dir():
            raise StoreDamagedError(
                f"{self.folder / POINTER} names {name!r}, which is not there; index the sources "
                "again into a new folder"
            )
        return self.folder / name

    def _require_ours(self) -> None:
        ours = {LOCK_NAME, HOLDER_NAME, NEXT, f".{POINTER}.draft"}
        strangers = [
            name
            for name in (path.name for path in self.folder.iterdir())
            if name not in ours and not _is_generation(name) and not NEIGHBOURS.fullmatch(name)
        ]
        if strangers:
            raise StoreDamagedError(
                f"{self.folder} is not a toolcrib store: it holds {strangers[0]!r} and no file "
                f"named {POINTER!r}; choose an empty or new folder"
            )

    def unused(self) -> Path:
        """The path of a generation that is not there yet."""
        taken = [int(p.name[1:]) for p in self.folder.iterdir() if _is_generation(p.name)]
        return self.folder / f"g{max(taken, default=0) + 1:04d}"

    def make_current(self, generation: Path) -> None:
        """Point to a complete generation, durably."""
        write_atomically(self.folder / POINTER, generation.name + "\n")

    def remove_others(self, live: Path) -> None:
        """Remove what a finished or broken-off run left behind."""
        for path in self.folder.iterdir():
            if path != live and (_is_generation(path.name) or path.name == NEXT):
                shutil.rmtree(path, ignore_errors=True)


def _is_generation(name: str) -> bool:
    return name[:1] == "g" and name[1:].isdigit()


def write_layout(generation: Path, layout: Layout) -> None:
    """Keep the layout beside the shard."""
    write_atomically(generation / "layout.json", json.dumps(asdict(layout), sort_keys=True))


def read_layout(generation: Path) -> Layout:
    """The layout that the shard was made with."""
    kept: Any = read_json(generation / "layout.json")
    return Layout(kept["dense"], kept["multi"], tuple(kept["sparse"]))
