"""What a store's folder needs of the file system: one holder, whole files, sparse copies."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from toolcrib.errors import StoreDamagedError, StoreLockedError, StoreWriteError

__all__ = ["FolderLock", "copy_sparsely", "read_json", "require_space", "write_atomically"]

LOCK_NAME = "crib.lock"
HOLDER_NAME = "crib.lock.pid"


class FolderLock:
    """The right of one process to use a folder; the system frees it when the process dies.

    It comes before the engine's own lock, because a second opener that only meets that one can
    make the first one's next flush fail.
    """

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    @classmethod
    def acquire(cls, folder: Path) -> FolderLock:
        """Make the folder if need be and take its lock at once.

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
                "folder with --store, or give this user the right to write there",
            ) from error
        return cls(lock)

    def release(self) -> None:
        """Let others have the folder."""
        self._lock.release()


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
            f"toolcrib stops writing below {least // 2**20} MiB: free some space",
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
        _sync_folder(path.parent)
    except OSError as error:
        raise StoreWriteError(f"{path} cannot be written: {error.strerror}") from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a document that `write_atomically` wrote.

    Raises:
        StoreDamagedError: it is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StoreDamagedError(
            f"{path} cannot be read ({error}); index the sources again into a new folder",
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
            _copy_range(reading.fileno(), writing.fileno(), start, position)


def _copy_range(reading: int, writing: int, start: int, end: int) -> None:
    while start < end:
        chunk = os.pread(reading, min(end - start, 2**20), start)
        start += os.pwrite(writing, chunk, start)
