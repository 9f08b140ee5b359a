"""The folder of an embedded store: generations side by side, and one pointer to the live one.

    DIR/crib.lock   DIR/current   DIR/g0001/{shard/, layout.json, meta.json}   DIR/next/...

Whatever takes long is done in a new generation and swapped in by one rename.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from toolcrib.errors import StoreDamagedError
from toolcrib.store.folder import HOLDER_NAME, LOCK_NAME, read_json, write_atomically
from toolcrib.store.base import Layout

__all__ = ["Generations"]

POINTER = "current"
NEXT = "next"

NEIGHBOURS = re.compile(r"library|tenants|ledger\.db.*")
"""What is kept beside a store of tools, and may be there before it."""


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
                "again into a new folder",
            )
        return self.folder / name

    def _require_ours(self) -> None:
        ours = {LOCK_NAME, HOLDER_NAME, NEXT, f".{POINTER}.draft"}
        names = [path.name for path in self.folder.iterdir()]
        strangers = [
            name
            for name in names
            if name not in ours and not _is_generation(name) and not NEIGHBOURS.fullmatch(name)
        ]
        if strangers:
            raise StoreDamagedError(
                f"{self.folder} is not a toolcrib store: it holds {strangers[0]!r} and no file "
                f"named {POINTER!r}; choose an empty or new folder",
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
    kept = {
        "dense": dict(layout.dense),
        "multi": dict(layout.multi),
        "sparse": list(layout.sparse),
    }
    write_atomically(generation / "layout.json", json.dumps(kept, sort_keys=True))


def read_layout(generation: Path) -> Layout:
    """The layout that the shard was made with."""
    kept: Any = read_json(generation / "layout.json")
    return Layout(kept["dense"], kept["multi"], tuple(kept["sparse"]))
