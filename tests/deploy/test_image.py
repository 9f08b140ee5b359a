"""The image: how it is built, what is in it, and as whom it runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT
from toolcrib.settings import ServiceSettings, load_settings

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {"service", "server", "mcp", "gateway", "client", "observe", "docs", "context"}

Instructions = list[tuple[str, str]]


def read(text: str) -> dict[str, Instructions]:
    """The instructions of each stage by its name; those before the first under ``""``."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    stages: dict[str, Instructions] = {"": []}
    name = ""
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, value = line.split(maxsplit=1)
            if word == "FROM":
                name = value.split(" AS ")[1]
                stages[name] = []
            stages[name].append((word, value))
    return stages


STAGES = read((ROOT / "Dockerfile").read_text("utf-8"))
EVERYTHING = [one for stage in STAGES.values() for one in stage]
SERVICE = STAGES["service"]


def values(word: str, instructions: Instructions = EVERYTHING) -> list[str]:
    return [value for name, value in instructions if name == word]


def variables() -> dict[str, str]:
    return dict(part.split("=", 1) for part in shlex.split(values("ENV", SERVICE)[0]))


def test_the_packages_are_the_wheel_with_these_extras():
    (last,) = [run for run in values("RUN", STAGES["packages"]) if "toolcrib-*.whl" in run]
    named = re.search(r"\[([\w,]+)\]", last)
    assert set(named[1].split(",")) == EXTRAS
    assert set(PROJECT["optional-dependencies"]) >= EXTRAS
    assert "--no-index" in last


def test_every_other_package_is_one_whose_digest_is_known():
    (first,) = [run for run in values("RUN") if "requirements.txt" in run]
    assert "--require-hashes" in first
    assert "--only-binary :all:" in first


def test_no_secret_is_part_of_the_image():
    names = [name for value in [*values("ENV"), *values("ARG")] for name in value.split()]
    assert not any(re.search(r"KEY|SECRET|TOKEN|PASSWORD", name.upper()) for name in names)


def test_it_runs_as_nobody_that_the_system_knows():
    assert values("USER") == ["10001:10001"]
    assert SERVICE.index(("USER", "10001:10001")) > max(
        at for at, (word, _) in enumerate(SERVICE) if word == "COPY"
    )
    (data,) = [copy for copy in values("COPY", SERVICE) if copy.endswith(" /data")]
    assert "--chown=10001:10001" in data


def test_its_variables_are_settings_that_fit_a_container(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name, value in variables().items():
        if name.startswith("TOOLCRIB_"):
            monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.store == "/data"
    assert settings.service.host == "0.0.0.0"
    assert values("EXPOSE") == [str(settings.service.port)]


def test_the_encoder_tells_nobody_that_it_is_used(tmp_path):
    """onnxruntime's own record of its use would be in the home folder."""
    kept = {name: value for name, value in variables().items() if name.startswith("ORT_")}
    env = {**os.environ, **kept, "HOME": str(tmp_path)}
    load = "from toolcrib.encoders.onnx import BundledEncoder as B; B().encode_query('a letter')"
    subprocess.run([sys.executable, "-c", load], env=env, cwd=ROOT, check=True)
    assert list(tmp_path.iterdir()) == []


def sources() -> list[str]:
    copies = [copy for copy in values("COPY") if not copy.startswith("--from=")]
    return [source for copy in copies for source in copy.split()[:-1]]


def test_the_builder_is_shown_what_it_copies_and_nothing_else():
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == set(sources())
    assert {"**/__pycache__", "**/.*"} <= set(rules)
    assert all((ROOT / source).exists() for source in sources())


def shorten(source: str, target: str) -> None:
    """Copy a file, a large one without its content: its name is packed all the same, at once."""
    if Path(source).stat().st_size < 2**20:
        shutil.copy2(source, target)
    else:
        Path(target).touch()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> set[str]:
    """The names in the wheel that the first stage builds, of nothing but what it copies."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for copy in values("COPY", STAGES["wheel"]):
        for name in copy.split()[:-1]:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".*")
                shutil.copytree(ROOT / name, source / name, ignore=ignored, copy_function=shorten)
            else:
                shutil.copy(ROOT / name, source / name)
    (command,) = values("RUN", STAGES["wheel"])
    words = [sys.executable, "-m", *shlex.split(command.replace("/wheel", str(built)))]
    done = subprocess.run(words, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = built.iterdir()
    return set(zipfile.ZipFile(file).namelist())


def test_the_wheel_holds_every_file_of_the_package(wheel):
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "toolcrib").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files - wheel == set()


def test_the_health_check_asks_the_port_that_the_settings_name():
    check = values("HEALTHCHECK", SERVICE)[0]
    assert f"'TOOLCRIB_SERVICE__PORT', '{ServiceSettings().port}'" in check


def test_the_linter_finds_nothing():
    linter = shutil.which("hadolint") or shutil.which("hadolint", path=Path(sys.executable).parent)
    if linter is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [linter, ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
