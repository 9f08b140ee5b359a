"""Folder of an embedded store: one owner, generations side by side, one of them live.

    DIR/crib.lock   DIR/current   DIR/g0001/{shard/, layout.json, meta.json}   DIR/next/...

Long work is done in a new generation, which one rename makes live. A closed generation has a
`checksums.json` of its files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from toolcrib.errors import StoreDamagedError, StoreError, StoreLockedError, StoreWriteError
from toolcrib.store.base import Layout, Store

LOCK_FILE = "crib.lock"
HOLDER_FILE = "crib.lock.pid"
POINTER_FILE = "current"
NEXT_FOLDER = "next"
META_FILE = "meta.json"
LAYOUT_FILE = "layout.json"
CHECKSUMS_FILE, CHECKSUM_METHOD = "checksums.json", "crc32"

ENGINE_CONFIG_FILE = "edge_config.json"
"""File that the engine rewrites, with its keys in any order, whenever it loads a shard."""

BLOCK_BYTES = 2**16
"""Bytes that are copied or digested at once; a block of zeros becomes a hole."""

ZERO_BLOCK = bytes(BLOCK_BYTES)

REINDEX_HINT = "index the sources again: `toolcrib index SOURCE... --store NEW_FOLDER`"

RIGHTS_HINT = "give this user the right to read and write all files of the store"

MEMORY_PREFIX = "toolcrib-memory-"
UNLOCKED_FOLDER_S = 60
"""Age from which an unlocked temporary folder is removed; a new folder is locked by then."""

LOGINS_FOLDER = "logins"
"""Folder of the gateway's logins at servers."""

NEIGHBOUR_NAMES = re.compile(rf"library|tenants|{LOGINS_FOLDER}|ledger\.db.*")
"""Names of files that may be in a folder before the store of tools is."""


def lock_folder(folder: Path) -> FileLock:
    """Make the folder if missing, and lock it; the lock ends with the process.

    Our lock is taken before the engine's: a second process that tries the engine's lock can make
    the next flush of the first process fail.

    Raises:
        StoreDamagedError: a file is in the folder's place.
        StoreLockedError: another opener holds the lock; the message names its process.
        StoreWriteError: the folder cannot be made or written to.
    """
    holder = folder / HOLDER_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A store may be opened in one thread and closed in another.
        lock = FileLock(folder / LOCK_FILE, thread_local=False)
        lock.acquire(timeout=0)
        # On a full disk the file stays empty, and the message names no process.
        with suppress(OSError):
            holder.write_text(str(os.getpid()), encoding="ascii")
    except Timeout:
        raise StoreLockedError(_lock_message(folder, holder)) from None
    except (FileExistsError, NotADirectoryError) as error:
        raise StoreDamagedError(
            f"the store {folder} cannot be opened: it, or a folder above it, is a file; choose an "
            "empty or new folder"
        ) from error
    except OSError as error:
        raise StoreWriteError(
            f"the store {folder} cannot be written to ({error.strerror}), which the engine needs "
            "even to search; give this user the right to write there, or name another folder with "
            "--store, such as a copy of this folder"
        ) from error
    return lock


def _lock_message(folder: Path, holder: Path) -> str:
    try:
        number = int(holder.read_text(encoding="ascii"))
        # Processes of two containers may have one number.
        own = " (this one, or one of another container)" if number == os.getpid() else ""
        who = f"process {number}{own}"
    except (OSError, ValueError):
        who = "another process"
    return (
        f"the store {folder} is in use by {who}; close it there with Crib.close(), ask its service "
        "with --url, or run a Qdrant server, which many processes can share "
        "(`toolcrib docs qdrant-server`)"
    )


WRITE_LOCK_TIMEOUT_S = 10.0
"""Time that a write of a small file waits for that of another process."""


@contextmanager
def file_lock(path: Path, *, timeout_s: float = WRITE_LOCK_TIMEOUT_S) -> Generator[None]:
    """Lock by a file, which is removed before the release: a waiting process makes a new file.

    Raises:
        filelock.Timeout: another process held the lock for `timeout_s`.
        OSError: the file cannot be made.
    """
    with FileLock(path, timeout=timeout_s):
        try:
            yield
        finally:
            # Windows removes no open file; there the release of the lock removes it.
            with suppress(OSError):
                path.unlink()


def temporary_folder() -> tuple[Path, Callable[[], None]]:
    """Make the folder of a store in memory; return it with the function that removes it.

    Unlocked folders of other stores are removed: their processes were killed.

    Raises:
        StoreWriteError: there is no temporary folder to write to.
    """
    try:
        made = Path(tempfile.mkdtemp(prefix=MEMORY_PREFIX))
    except OSError as error:
        raise StoreWriteError(
            "a store in memory keeps files of the engine in a temporary folder, and none can be "
            f"made ({error.strerror}): mount a folder in memory at /tmp, or name one in TMPDIR"
        ) from error
    for old in made.parent.glob(f"{MEMORY_PREFIX}*"):
        with suppress(OSError, StoreLockedError, StoreWriteError):
            if time.time() - old.stat().st_mtime > UNLOCKED_FOLDER_S:
                lock_folder(old).release()
                shutil.rmtree(old, ignore_errors=True)
    lock = lock_folder(made)
    remove_made = weakref.finalize(lock, _remove_own, made, os.getpid())

    def remove() -> None:
        lock.release()
        remove_made()

    return made / "store", remove


def _remove_own(folder: Path, owner: int) -> None:
    """Remove a folder in the process that made it; a forked child leaves it to its parent."""
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def require_space(folder: Path, least: int) -> None:
    """Check that a number of bytes is free: without space, a write by memory map kills us."""
    free = shutil.disk_usage(folder).free
    if free < least:
        raise StoreWriteError(
            f"only {free // 2**20} MiB are free where {folder} lies; "
            f"toolcrib stops writing below {least // 2**20} MiB: free some space"
        )


def write_atomically(path: Path, text: str) -> None:
    """Replace a file so that a crash leaves the whole old or the whole new content.

    The file keeps its mode, and the text its line ends.

    Raises:
        StoreWriteError: the disk refuses.
    """
    draft = path.with_name(f".{path.name}.draft")
    with write_errors(path):
        with draft.open("w", encoding="utf-8", newline="") as file:
            if path.exists():
                shutil.copymode(path, draft)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_file(path.parent)


@contextmanager
def write_errors(path: Path) -> Generator[None]:
    """Turn an error of the file system into a StoreWriteError that names this path."""
    try:
        yield
    except OSError as error:
        raise StoreWriteError(f"{path} cannot be written: {error.strerror or error}") from error


def sync_file(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, memory maps included."""
    is_windows = os.name == "nt"
    if is_windows and path.is_dir():
        return  # Windows opens no folders
    # Windows flushes only files that are open for writing.
    handle = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path, *, names_only: bool = False) -> None:
    """Flush every file and every name of a folder to the disk."""
    for inside, _, names in os.walk(folder, topdown=False):
        for name in (".",) if names_only else (*names, "."):
            sync_file(Path(inside, name))


def sync_names(folder: Path) -> None:
    """Flush the names of a folder and of its parents to the disk."""
    for above in folder.absolute().parents:
        # A parent folder may be unreadable to this user, and existed before.
        with suppress(OSError):
            sync_file(above)


def allocated_bytes(folder: Path) -> int:
    """Bytes that a folder's files take on the disk, without holes."""
    found = [file.stat() for file in _files(folder)]
    return sum(getattr(each, "st_blocks", -(-each.st_size // 512)) * 512 for each in found)


def is_in_memory(folder: Path) -> bool:
    """True on a file system in memory, where reading a hole by memory map takes space."""
    device = folder.stat().st_dev
    with suppress(OSError):  # Other systems have no such list.
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        name = f"{os.major(device)}:{os.minor(device)}"
        return any(line.split()[2] == name and " - tmpfs " in line for line in mounts.splitlines())
    return False


def hole_bytes(files: Iterable[Path]) -> int:
    """Bytes of the holes of files, where the system tells them."""
    found = (file.stat() for file in files)
    return sum(
        max(0, each.st_size - getattr(each, "st_blocks", each.st_size) * 512) for each in found
    )


def _files(folder: Path) -> Iterator[Path]:
    for inside, _, names in os.walk(folder):
        yield from (Path(inside, name) for name in names)


def read_json(path: Path) -> Mapping[str, Any]:
    """Read a document that `write_atomically` wrote."""
    with read_errors(path):
        return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def read_errors(path: Path) -> Generator[None]:
    """Turn an error of reading into a store error: another user's file is not damaged."""
    try:
        yield
    except PermissionError as error:
        name = error.filename or path
        raise StoreWriteError(f"{name} cannot be read ({error.strerror}); {RIGHTS_HINT}") from error
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreDamagedError(f"{path} cannot be read ({error}); {REINDEX_HINT}") from error


def copy_sparsely(source: Path, target: Path) -> None:
    """Copy a folder, leaving holes as holes: the engine's files are mostly holes."""
    for folder, _, names in os.walk(source):
        into = target / Path(folder).relative_to(source)
        into.mkdir(parents=True, exist_ok=True)
        for name in names:
            _copy_file(Path(folder) / name, into / name)


def _copy_file(source: Path, target: Path) -> None:
    with source.open("rb", buffering=0) as reading, target.open("wb") as writing:
        writing.truncate(os.fstat(reading.fileno()).st_size)
        for position, block in _blocks(reading):
            writing.seek(position)
            writing.write(block)


def _blocks(file: FileIO) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each block that is not all zeros."""
    # Windows reports no holes: there they are read, as zeros.
    seek_data = getattr(os, "SEEK_DATA", None)
    position, size = 0, os.fstat(file.fileno()).st_size
    while position < size:
        if seek_data is not None:
            try:
                data = file.seek(position, seek_data)
            except OSError:  # ENXIO: only holes remain
                return
            position = data - data % BLOCK_BYTES
        file.seek(position)
        block = file.read(BLOCK_BYTES)
        if block != ZERO_BLOCK[: len(block)]:
            yield position, block
        position += BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Checksums:
    """Content of a generation when it was closed: number of points, and a digest by file.

    `written`: number of points that were ever written, None if unknown.
    """

    points: int
    written: int | None
    files: Mapping[str, str]

    @classmethod
    def of(cls, generation: Path, points: int, written: int | None) -> Checksums:
        """Digest every file of a generation: writes by memory map change no time stamp."""
        named = ((file.relative_to(generation).as_posix(), file) for file in _files(generation))
        files = {
            name: _digest(file)
            for name, file in named
            if name != CHECKSUMS_FILE and not name.startswith(".")
        }
        return cls(points, written, files)

    @classmethod
    def check(cls, generation: Path) -> Checksums | None:
        """Check that a generation has not changed since it was closed.

        None if it was never closed, or closed with another kind of digest.

        Raises:
            StoreDamagedError: a file has changed; the error names the first.
        """
        path = generation / CHECKSUMS_FILE
        if not path.exists():
            return None
        kept = read_json(path)
        if kept.get("method") != CHECKSUM_METHOD:
            return None
        with read_errors(generation):
            found = cls.of(generation, int(kept["points"]), kept["written"])
            files = dict(kept["files"])
        wrong = sorted(k for k in {*files, *found.files} if files.get(k) != found.files.get(k))
        if wrong:
            raise StoreDamagedError(
                f"{generation / wrong[0]} has changed since the index was closed"
                f"{f', and {len(wrong) - 1} more files too' if wrong[1:] else ''}; {REINDEX_HINT}"
            )
        return found

    def write(self, generation: Path) -> None:
        """Write the checksums into the generation, as the last write to it."""
        kept = {"method": CHECKSUM_METHOD} | asdict(self)
        write_atomically(generation / CHECKSUMS_FILE, json.dumps(kept, sort_keys=True))

    @staticmethod
    def remove(generation: Path) -> None:
        """Remove the checksums durably, before the first write."""
        (generation / CHECKSUMS_FILE).unlink(missing_ok=True)
        sync_file(generation)


def _digest(file: Path) -> str:
    """CRC-32 of a file's bytes, and its size; holes count as zeros.

    Six times as fast as a cryptographic digest, which only forgery would need.
    """
    if file.name == ENGINE_CONFIG_FILE:
        text = json.dumps(json.loads(file.read_bytes()), sort_keys=True)
        return f"{zlib.crc32(text.encode()):08x}"
    digest = 0
    with file.open("rb", buffering=0) as reading:
        for position, block in _blocks(reading):
            digest = zlib.crc32(block, zlib.crc32(position.to_bytes(8), digest))
        return f"{digest:08x}-{os.fstat(reading.fileno()).st_size:x}"


def holds_store(folder: Path) -> bool:
    """True if a folder has a store, complete or not."""
    with read_errors(folder):
        return (folder / POINTER_FILE).exists() or any(folder.glob(f"g*/{META_FILE}"))


class Generations:
    """Names, makes and removes generations of any engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.next_folder = folder / NEXT_FOLDER
        """Folder of the store that will replace this store."""

    def current(self) -> Path | None:
        """The live generation; None in a new folder.

        Raises:
            StoreDamagedError: the pointer cannot be read, or names no generation.
        """
        pointer = self.folder / POINTER_FILE
        if not pointer.exists():
            return self._only_complete()
        with read_errors(pointer):
            name = pointer.read_text(encoding="ascii").strip()
        if not _is_generation(name) or not (self.folder / name / "shard").is_dir():
            raise StoreDamagedError(f"{pointer} names {name!r}, which is missing; {REINDEX_HINT}")
        return self.folder / name

    def _only_complete(self) -> Path | None:
        """The only complete generation, in place of a missing pointer."""
        whole = sorted(path.parent for path in self.folder.glob(f"g*/{META_FILE}"))
        if len(whole) > 1:
            raise StoreDamagedError(
                f"{self.folder / POINTER_FILE} is missing, and there are {len(whole)} generations; "
                f"write the name of the right generation to it: `echo {whole[-1].name} > "
                f"{self.folder / POINTER_FILE}`"
            )
        if whole:
            self.make_current(whole[0])
        return whole[0] if whole else None

    def require_store_or_empty(self) -> None:
        """Check that the folder is a store or empty, before the first write.

        Raises:
            StoreDamagedError: the folder is no store, and has other files.
        """
        try:
            names = sorted(path.name for path in self.folder.iterdir())
        except OSError:
            # There is no folder yet, or its lock will raise the error.
            return
        ours = {LOCK_FILE, HOLDER_FILE, NEXT_FOLDER, f".{POINTER_FILE}.draft"}
        strangers = [
            name
            for name in names
            if name not in ours and not _is_generation(name) and not NEIGHBOUR_NAMES.fullmatch(name)
        ]
        if strangers and POINTER_FILE not in names:
            raise StoreDamagedError(
                f"{self.folder} is not a toolcrib store: it holds {strangers[0]!r} and no file "
                f"named {POINTER_FILE!r}; choose an empty or new folder"
            )

    def next_generation(self) -> Path:
        """The path of a new generation."""
        taken = [int(p.name[1:]) for p in self.folder.iterdir() if _is_generation(p.name)]
        return self.folder / f"g{max(taken, default=0) + 1:04d}"

    def make_current(self, generation: Path) -> None:
        """Make a complete generation the live one, durably."""
        write_atomically(self.folder / POINTER_FILE, generation.name + "\n")

    def remove_others(self, live: Path) -> None:
        """Remove the folders that a finished or interrupted run left."""
        for path in self.folder.iterdir():
            if path != live and (_is_generation(path.name) or path.name == NEXT_FOLDER):
                shutil.rmtree(path, ignore_errors=True)


def _is_generation(name: str) -> bool:
    return name[:1] == "g" and name[1:].isdigit()


def write_layout(generation: Path, layout: Layout) -> None:
    """Keep the layout beside the shard."""
    write_atomically(generation / LAYOUT_FILE, json.dumps(asdict(layout), sort_keys=True))


def read_layout(generation: Path) -> Layout:
    """The layout that the shard was made with."""
    path = generation / LAYOUT_FILE
    kept: Any = read_json(path)
    try:
        return Layout(dict(kept["dense"]), dict(kept["multi"]), tuple(kept["sparse"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamagedError(f"{path} is no layout ({error!r}); {REINDEX_HINT}") from error


class LazyStore:
    """Opens a store once, by `opener`; safe for several threads."""

    def __init__(self, opener: Callable[[], Store], exists: Callable[[], bool]) -> None:
        self._opener = opener
        self._exists = exists
        self._store: Store | None = None
        self._is_closed = False
        self._lock = threading.RLock()

    @property
    def exists(self) -> bool:
        """True if the store exists; does not make it."""
        return self._store is not None or self._exists()

    def open(self) -> Store:
        """The store, made if missing; an error after `close`."""
        with self._lock:
            if self._store is None:
                if self._is_closed:
                    raise StoreError("the store is closed")
                self._store = self._opener()
            return self._store

    def close(self) -> None:
        """Close the store; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            if self._store is not None:
                self._store.close()
