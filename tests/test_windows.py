"""Rules of Windows, under which the code must work, as far as another system can show them."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import socket
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
