"""What a power cut leaves at the least: names and files that were synced, as they were then."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

BLOCK = 2**16


class SyncedDisk:
    """Records what is synced in a folder; what the system writes by itself does not count.

    Nor does what the engine syncs, which is not seen here: a real disk keeps more.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        self.folder = folder
        self.synced = 0
        self._names: dict[int, dict[str, int]] = {}
        self._files: dict[int, tuple[int, dict[int, bytes]]] = {}
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._recorded)

    def _recorded(self, handle: int) -> None:
        self._sync(handle)
        found = os.fstat(handle)
        place = Path(f"/proc/self/fd/{handle}").readlink()
        if not place.is_relative_to(self.folder):
            return
        self.synced += 1
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = {path.name: path.stat().st_ino for path in place.iterdir()}
        else:
            self._files[found.st_ino] = (found.st_size, _blocks(handle, found.st_size))

    def cut(self, target: Path) -> Path:
        """Make a folder of what would be there after a power cut at this moment."""
        self._restore(self.folder.stat().st_ino, target)
        return target

    def _restore(self, folder: int, target: Path) -> None:
        target.mkdir()
        for name, number in self._names.get(folder, {}).items():
            if number in self._names:
                self._restore(number, target / name)
            elif number in self._files:
                size, blocks = self._files[number]
                with (target / name).open("wb") as file:
                    for start, block in blocks.items():
                        file.seek(start)
                        file.write(block)
                    file.truncate(size)


def _blocks(handle: int, size: int) -> dict[int, bytes]:
    """The blocks of a file that are not all zeros, by where they begin."""
    # What is synced may be open for writing alone.
    with Path(f"/proc/self/fd/{handle}").open("rb") as file:
        found: dict[int, bytes] = {}
        position = 0
        while position < size:
            try:
                position = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError:  # only holes remain
                break
            block = os.pread(file.fileno(), BLOCK, position)
            if any(block):
                found[position] = block
            position += len(block)
        return found
