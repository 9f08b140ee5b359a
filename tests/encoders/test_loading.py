"""Models are loaded once, whoever asks, and folders are told from names by how they are written."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from toolcrib.encoders.registry import LoadOnce, ModelName
from toolcrib.errors import EncoderError, SettingsError


def test_many_threads_that_ask_at_once_get_one_loaded_thing() -> None:
    everyone = threading.Barrier(8)
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    load = LoadOnce(make)
    got: list[object] = []

    def ask() -> None:
        everyone.wait()
        got.append(load())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert got == made * 8


def test_a_failure_is_not_kept() -> None:
    answers = iter([OSError("busy"), 7])

    def make() -> int:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    load = LoadOnce(make)
    with pytest.raises(OSError, match="busy"):
        load()
    assert load() == 7


def test_a_name_is_a_name_even_where_a_folder_is_called_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ModelName("fastembed", "~/org/model").location == str(tmp_path / "org" / "model")
    with pytest.raises(EncoderError, match="there is no folder"):
        ModelName("fastembed", "./file")
    with pytest.raises(SettingsError, match="fastembed:NAME"):
        ModelName("fastembed", "")
    assert ModelName("fastembed", "org/model").folder is None
    assert ModelName("fastembed", "./org/model").folder == Path("org/model")


def test_a_folder_has_one_identity_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model" / "sub").mkdir(parents=True)
    (tmp_path / "model" / "model.onnx").write_bytes(b"weights")
    monkeypatch.chdir(tmp_path / "model")
    spelled = {"./", "../model", str(tmp_path / "model"), "./sub/.."}
    assert len({ModelName("k", text).identity for text in spelled}) == 1


def test_the_identity_follows_every_file_that_can_move_a_vector(tmp_path: Path) -> None:
    def identity() -> str:
        return ModelName("k", str(tmp_path)).identity

    seen = [identity()]
    for name in ("model.onnx", "tokenizer.json", "vocab.txt", "model.safetensors"):
        (tmp_path / name).write_bytes(b"1")
        seen.append(identity())
    (tmp_path / "model.onnx").write_bytes(b"2")
    seen.append(identity())
    assert len(set(seen)) == len(seen)


def test_the_runtime_of_models_leaves_no_record_of_its_use(tmp_path: Path) -> None:
    code = (
        "from toolcrib.encoders.onnx import BundledEncoder\n"
        "BundledEncoder().encode_query('send a mail')\n"
    )
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    kept = {name: value for name, value in os.environ.items() if "TELEMETRY" not in name}
    subprocess.run([sys.executable, "-c", code], env={**kept, **home}, check=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
