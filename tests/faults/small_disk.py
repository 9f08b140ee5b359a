"""A disk that can be filled: a file system in memory, seen by the processes that are sent there."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

MOUNT = "mount -t tmpfs -o size={size} none {folder} && echo ready && exec sleep infinity"
UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


class SmallDisk:
    """A folder on a file system of its own, in a namespace of mounts that needs no rights.

    Raises:
        OSError: this system does not let its users have such namespaces.
    """

    def __init__(self, folder: Path, size: int) -> None:
        folder.mkdir()
        self.folder = folder
        self._holder = subprocess.Popen(
            [*UNSHARE, MOUNT.format(size=size, folder=folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if self._holder.stdout.readline() != "ready\n":
            words = self._holder.stderr.read().strip()
            self.close()
            raise OSError(words or "no namespaces of mounts here")
        # The same folder for those outside of the namespace.
        self.seen = Path(f"/proc/{self._holder.pid}/root{folder}")

    @property
    def module(self) -> tuple[str, ...]:
        """The module in place of `toolcrib` that sees the disk, and its first arguments."""
        return ("tests.faults.on_small_disk", str(self._holder.pid), str(self.folder.parent))

    @property
    def free(self) -> int:
        found = os.statvfs(self.seen)
        return found.f_bavail * found.f_frsize

    def fill(self, but: int) -> None:
        """Leave only so many bytes."""
        with (self.seen / "ballast").open("ab", buffering=0) as ballast, suppress(OSError):
            while self.free > but:
                ballast.write(bytes(min(self.free - but, 2**20)))

    def make_room(self) -> None:
        (self.seen / "ballast").unlink()

    def close(self) -> None:
        """Let go of it; it goes with the last process that sees it."""
        self._holder.kill()
        self._holder.wait()
        for stream in (self._holder.stdout, self._holder.stderr):
            if stream is not None:
                stream.close()
