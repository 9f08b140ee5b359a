"""What many tests stand on: the sample registry, settings without models, a crib in a folder."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings as hypothesis_settings

from toolcrib import Crib, Settings, errors
from toolcrib.encoders.base import FloatArray
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.settings import EncoderSettings
from toolcrib.store.folder import copy_sparsely

# An example may open a store, and a busy machine is no failure: no deadline.
# What lands must not hang on luck: the same examples each time. `make fuzz` looks for new ones,
# and for many.
hypothesis_settings.register_profile("steady", deadline=None, derandomize=True, max_examples=30)
hypothesis_settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=500)
hypothesis_settings.load_profile("steady")

# Nobody cuts the power of a test; those that are about that say so. Waiting for the disk at each
# write would take a third of the time of all.
os.environ.setdefault("TOOLCRIB_DURABILITY", "system")

# A store is hundreds of files, which a disk syncs one by one. Docker's own /dev/shm is too small
# for stores, or forbids programs in it.
RAM = Path("/dev/shm")
if RAM.is_dir() and shutil.disk_usage(RAM).free > 2**33:
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(RAM)

# Each HTTP client reads the certificates that it trusts: all of a system's take 30 ms. No test
# calls over TLS, so one certificate is enough.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("certificate.pem"))

# Who runs the tests in the background ignores Ctrl-C, and so would what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
REGISTRY = ROOT / "data" / "registry"
SOURCES = (str(REGISTRY), f"{REGISTRY / 'home_tools.py'}:TOOLS")
COLLECTIONS = sorted(each for each in (ROOT / "data" / "collections").iterdir() if each.is_dir())

END_TO_END = {"console", "deploy", "faults", "typescript"}
"""Folders of tests that start processes, browsers or balancers, and take seconds each."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Whatever was imported stays: to look through it for garbage, again and again, takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        if folder in END_TO_END:
            item.add_marker("e2e")
        if folder == "integrations" and item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid} is slow: `make slow` does not load its folder")


def error_kinds() -> list[type[errors.ToolcribError]]:
    """All classes of errors, the root first."""
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.ToolcribError)
    ]


def rounds(few: int, many: int) -> int:
    """Rounds of a loop of kills: `few`, or `many` in `make fuzz`."""
    return many if hypothesis_settings.get_current_profile_name() == "fuzz" else few


_VECTORS: dict[str, FloatArray] = {}
_FILES_OF_VECTORS: list[Path] = []


@pytest.fixture(scope="session", autouse=True)
def _file_of_vectors(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Place of vectors that all workers of a run share."""
    folder = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    _FILES_OF_VECTORS.append((folder.parent if is_worker else folder) / "vectors.db")


@contextmanager
def encoded_once() -> Iterator[None]:
    """For those who index the sample: the bundled model reads a text once in a run."""
    encode = BundledEncoder._encode

    def remembered(self: BundledEncoder, text: str) -> FloatArray:
        key = f"{self.name} {text}"
        if key not in _VECTORS:
            _VECTORS[key] = encode(self, text)
        return _VECTORS[key]

    with (
        closing(sqlite3.connect(_FILES_OF_VECTORS[0], timeout=60)) as db,
        pytest.MonkeyPatch.context() as patch,
    ):
        db.execute("CREATE TABLE IF NOT EXISTS vectors (text PRIMARY KEY, vector)")
        for text, vector in db.execute("SELECT * FROM vectors"):
            _VECTORS[text] = np.frombuffer(vector, np.float32)
        known = set(_VECTORS)
        patch.setattr(BundledEncoder, "_encode", remembered)
        yield
        new = [(text, _VECTORS[text].tobytes()) for text in _VECTORS.keys() - known]
        with db:
            db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", new)


WITHOUT_MODELS = Settings.model_validate(
    {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}
)
"""Settings under which no model is loaded."""


@pytest.fixture
def settings() -> Settings:
    """Settings whose encoder is the shipped double: fast, the same everywhere."""
    return Settings(encoder=EncoderSettings(dense="deterministic"))


@pytest.fixture
def crib(tmp_path: Path, settings: Settings) -> Iterator[Crib]:
    """An empty crib on the real embedded engine."""
    with Crib.open(tmp_path / "store", settings=settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store of the sample registry and collections with the bundled model; to be copied."""
    folder = tmp_path_factory.mktemp("sample") / "store"
    with Crib.open(folder, settings=Settings()) as crib, encoded_once():
        crib.index_tools(*SOURCES)
        for collection in COLLECTIONS:
            assert crib.index_docs(collection, collection=collection.name).refused == ()
    return folder


@pytest.fixture(scope="module")
def sample_copy(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module's own copy of that store."""
    folder = tmp_path_factory.mktemp("copy")
    copy_sparsely(sample_folder, folder)
    return folder


@pytest.fixture(scope="session")
def sample_crib(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crib]:
    """The sample registry with the bundled model; only for tests that do not write."""
    with Crib.open(tmp_path_factory.mktemp("sample"), settings=Settings()) as opened:
        with encoded_once():
            opened.index_tools(*SOURCES)
        yield opened
