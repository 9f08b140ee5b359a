"""A runtime is one module and one entry: settings open its classes, `doctor` shows its package."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from toolcrib.build import make_dense, make_reranker
from toolcrib.cli.app import app
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.encoders.registry import RUNTIMES, Runtime
from toolcrib.errors import EncoderError, SettingsError
from toolcrib.settings import Settings


def chosen(**encoder: object) -> Settings:
    return Settings.model_validate({"encoder": encoder})


@pytest.mark.parametrize("kind", RUNTIMES)
def test_the_classes_of_each_runtime_are_in_its_module(kind: str) -> None:
    runtime = RUNTIMES[kind]
    module = import_module(f"toolcrib.encoders.{runtime.module}")
    for name in filter(None, (runtime.encoder, runtime.reranker)):
        assert callable(getattr(module, name).from_setting)


def test_a_new_runtime_is_one_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    added = Runtime("fake", "DeterministicEncoder", package="hypothesis")
    monkeypatch.setitem(RUNTIMES, "added", added)
    dense = make_dense(chosen(dense="added:32"))
    assert isinstance(dense, DeterministicEncoder)
    assert dense.dimensions == 32
    with pytest.raises(SettingsError, match="added"):
        make_dense(chosen(dense="unknown"))
    with pytest.raises(SettingsError, match="added"):
        make_reranker(chosen(reranker="added"))
    report = CliRunner().invoke(app, ["doctor", "--json", "--store", str(tmp_path / "none")])
    assert json.loads(report.output)["versions"]["hypothesis"] == version("hypothesis")


def test_the_bundled_encoder_is_that_of_a_folder_where_one_is_named(tmp_path: Path) -> None:
    assert make_dense(chosen()).name == BundledEncoder().name
    with pytest.raises(EncoderError, match=tmp_path.name):
        make_dense(chosen(dense=f"bundled:{tmp_path}"))
    with pytest.raises(SettingsError, match="reranker"):
        make_reranker(chosen(reranker="bundled"))
