"""A disk whose power can be cut: a file system in a file, of which a copy is what the disk has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path


class CutDisk:
    """A folder on a small file system of its own; what was not written back is not in `cut`.

    Raises:
        OSError: this system or this user may not mount one.
    """

    def __init__(self, place: Path, size: int) -> None:
        if os.geteuid() or shutil.which("mkfs.ext4") is None:
            raise OSError("mounting needs the rights of root, and mkfs.ext4")
        self._place = place
        self._mounted: list[Path] = []
        self._image = place / "disk.img"
        with self._image.open("wb") as image:
            image.truncate(size)
        _run("mkfs.ext4", "-q", "-F", str(self._image))
        self.folder = self._mount(self._image, place / "disk")

    def cut(self) -> Path:
        """The folder as a machine would find it that lost its power at this moment."""
        image = self._place / f"cut{len(self._mounted)}.img"
        _run("cp", "--sparse=always", str(self._image), str(image))
        return self._mount(image, image.with_suffix(""))

    def close(self) -> None:
        """Let go of it and of every copy."""
        while self._mounted:
            _run("umount", str(self._mounted.pop()))

    def _mount(self, image: Path, folder: Path) -> Path:
        folder.mkdir()
        _run("mount", "-o", "loop", str(image), str(folder))
        self._mounted.append(folder)
        return folder


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]} failed")
