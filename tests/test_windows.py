"""Rules of Windows, under which the code must work, as far as another system can show them."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from tests.conftest import ROOT
from toolcrib.store import folder

POSIX_MODULES = ("fcntl", "grp", "pwd", "resource", "termios", "tty")
POSIX_NAMES = {
    os: ("fork", "geteuid", "getpgid", "getuid", "killpg", "setpgrp", "setsid", "sysconf"),
    signal: ("SIGALRM", "SIGKILL", "SIGHUP", "SIGUSR1", "alarm", "setitimer"),
    socket: ("AF_UNIX", "recv_fds", "send_fds"),
}


def load() -> None:
    package = importlib.import_module("toolcrib")
    for found in pkgutil.walk_packages(package.__path__, "toolcrib."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


@pytest.mark.slow
def test_no_module_needs_what_windows_lacks():
    load()  # Other libraries choose by the system's name, and stay as they are.
    with pytest.MonkeyPatch.context() as patch:
        for name in [each for each in sys.modules if each.partition(".")[0] == "toolcrib"]:
            patch.delitem(sys.modules, name)
        for name in POSIX_MODULES:
            patch.setitem(sys.modules, name, None)
        for module, names in POSIX_NAMES.items():
            for name in names:
                patch.delattr(module, name)
        load()


FOLDER = """
import os, sys
from pathlib import Path

for name in sys.argv[2:]:
    delattr(os, name)

from toolcrib import Crib, ToolSpec
from toolcrib.router.decision_log import JsonLinesLog
from toolcrib.store.folder import copy_sparsely

place = Path(sys.argv[1])
for folder in ("index", "copy", "index"):
    with Crib.open(place / folder) as crib:
        crib.index_tools([ToolSpec(name="mail.send", description="Sends a letter")])
        print(folder, crib.find_tools("a letter").tools[0].score)
    if folder == "index":
        copy_sparsely(place / "index", place / "copy")
    JsonLinesLog(place / "log.jsonl").write({"kind": "decision", "id": folder})
print(len((place / "log.jsonl").read_bytes().splitlines()))
"""
CALLS = ("SEEK_DATA", "SEEK_HOLE", "O_CLOEXEC", "fork", "pread", "pwrite", "register_at_fork")
"""Names of `os` that an index and a log may use while they run."""


def test_an_index_a_copy_and_a_log_are_written_without_the_calls_that_windows_lacks(tmp_path):
    printed = {}
    for calls in (CALLS, ()):
        (folder := tmp_path / str(len(calls))).mkdir()
        command = [sys.executable, "-c", FOLDER, str(folder), *calls]
        printed[calls] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed[CALLS] == printed[()]
    assert printed[CALLS].splitlines()[-1] == "3"


def test_files_are_flushed_by_a_handle_that_may_write_and_folders_are_not_opened(
    monkeypatch, tmp_path
):
    opened: list[tuple[Path, int]] = []
    really = os.open

    def watched(path: Path, flags: int) -> int:
        opened.append((path, flags))
        return really(path, flags)

    file = tmp_path / "a.bin"
    file.write_bytes(b"a")
    system = SimpleNamespace(**{**vars(os), "open": watched, "name": "nt"})
    monkeypatch.setattr(folder, "os", system)
    folder.sync_file(file)
    folder.sync_file(tmp_path)
    assert opened == [(file, os.O_RDWR)]


def test_the_workflow_runs_the_tests_on_windows():
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))["jobs"]
    assert "windows-latest" in jobs["systems"]["strategy"]["matrix"]["system"]
