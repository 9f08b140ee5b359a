"""`toolcrib serve`: never without keys, but on this machine alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing, contextmanager
from io import StringIO

import httpx2
import pytest
from rich.console import Console

from tests.cli.conftest import Shell
from tests.fork_server import ForkedProcess
from toolcrib import serve
from toolcrib.cli import progress
from toolcrib.settings import Settings

ENV = {"TOOLCRIB_CONTEXT__DETECTOR": "heuristic", "TOOLCRIB_ENCODER__DENSE": "deterministic"}


@contextmanager
def serving(shell, *options, **env):
    """A running service and the line that it printed; asserts that it ends well."""
    env = {**os.environ, **ENV, "COLUMNS": "100", **env}
    words = ("toolcrib", "serve", "--port", "0", *options)
    with closing(ForkedProcess(*words, cwd=shell.folder, env=env)) as started:
        yield started.stdout.readline()
        started.send_signal(signal.SIGINT)
        assert started.wait(30) == 0


def test_nothing_is_served_while_nobody_has_a_key(shell):
    stderr = shell.error("serve", "--port", "0")
    assert "toolcrib keys create NAME --store .toolcrib" in stderr
    assert "--insecure-local" in stderr


def test_the_bar_of_a_start_is_about_the_index(indexed, monkeypatch):
    parts = {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}
    settings = Settings.model_validate(parts)
    shown = Console(file=StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr(progress, "notes", shown)
    with serve._open(str(indexed.folder / ".toolcrib"), settings):
        assert "opening the index" in shown.file.getvalue()
    assert "sources" not in shown.file.getvalue()


def test_a_revoked_key_is_none(shell):
    made = shell.json("keys", "create", "ana")["key"]
    shell.json("keys", "revoke", made["id"])
    assert shell("serve", "--port", "0").returncode == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_without_keys_others_are_not_served(shell, host):
    stderr = shell.error("serve", "--insecure-local", "--host", host, "--port", "0")
    assert "needs a loopback host" in stderr


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """The folder of a service that runs, what it printed, and a key to it."""
    shell = Shell(tmp_path_factory.mktemp("served"))
    text = shell.json("keys", "create", "ana", "--write")["text"]
    with serving(shell, "--json") as line:
        yield shell, json.loads(line), text


def test_a_port_that_is_taken_and_a_store_that_is_in_use_are_told(served):
    shell, told, _ = served
    port = told["url"].rpartition(":")[2]
    done = shell("serve", "--insecure-local", "--port", port, "--json", "--store", "other")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["type"] == "SettingsError"
    assert shell("serve", "--insecure-local", "--port", "0").returncode == 3


def test_who_has_a_key_is_served(served):
    shell, told, text = served
    assert set(told) == {"url", "store", "pid"}
    with httpx2.Client(base_url=told["url"]) as client:
        assert client.get("/v1/me").status_code == 401
        client.headers["Authorization"] = f"Bearer {text}"
        assert client.get("/v1/me").json()["name"] == "ana"
        later = shell.json("keys", "create", "bob")["text"]
        client.headers["Authorization"] = f"Bearer {later}"
        assert client.get("/v1/me").json()["name"] == "bob"


@pytest.mark.slow
def test_the_settings_say_where_and_a_person_is_told(shell):
    options = ("--insecure-local", "--store", "mine")
    with serving(shell, *options, TOOLCRIB_SERVICE__HOST="::1") as line:
        assert line.startswith("serving mine at http://[::1]:")


FIRST_ROUTE = """
import sys
from toolcrib import serve
from toolcrib.settings import Settings

with serve._open(":memory:", Settings()) as opened:
    before = set(sys.modules)
    for text in ("Send the report to ada@example.com.", "Wie hoch ist die Rechnung vom Mai?"):
        opened.crib().route(text)
print(*sorted(name for name in set(sys.modules) - before if not name.startswith("encodings")))
"""


@pytest.mark.slow
def test_the_first_turn_loads_nothing_that_could_be_loaded_before(shell):
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ROUTE],
        cwd=shell.folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
