"""Settings come from one file and from variables; what is unknown or impossible is an error."""

from __future__ import annotations

import sys

import pytest

from toolcrib import Settings
from toolcrib.build import make_dense, make_reranker
from toolcrib.errors import EncoderError, MissingExtraError, SettingsError, ToolcribError
from toolcrib.settings import load_settings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_needs_to_be_set():
    assert load_settings().model_dump() == Settings().model_dump()


def test_the_file_in_the_folder_is_read_and_variables_win(empty_folder, monkeypatch):
    (empty_folder / "toolcrib.yaml").write_text("store: here\nfusion:\n  examples: 0.1\n")
    monkeypatch.setenv("TOOLCRIB_FUSION__EXAMPLES", "0.9")
    monkeypatch.setenv("TOOLCRIB_SERVER__API_KEY", "hush")
    settings = load_settings()
    assert (settings.store, settings.fusion.examples) == ("here", 0.9)
    assert settings.server.api_key is not None
    assert "hush" not in repr(settings)


def test_the_gate_can_be_set(empty_folder, monkeypatch):
    (empty_folder / "toolcrib.yaml").write_text(
        "gate:\n  max_false_acceptance: 0.1\n  fallback: web/search\n"
    )
    monkeypatch.setenv("TOOLCRIB_GATE__ENABLED", "false")
    gate = load_settings().gate
    assert (gate.max_false_acceptance, gate.fallback) == (0.1, "web/search")
    assert (gate.threshold, gate.target_precision, gate.enabled) == (None, None, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shop: x\n", "toolcrib.yaml or TOOLCRIB_*: shop: Extra inputs are not permitted"),
        ("fusion:\n  dens: 1\n", "toolcrib.yaml or TOOLCRIB_*: fusion.dens: "),
        ("fusion:\n  method: magic\n", "toolcrib.yaml or TOOLCRIB_*: fusion.method: Input should"),
        ("encoder:\n  threads: -1\n", "toolcrib.yaml or TOOLCRIB_*: encoder.threads: Input should"),
        (
            "lexical:\n  b: 2\n",
            "toolcrib.yaml or TOOLCRIB_*: lexical: lexical.b is 2.0; it must",
        ),
        ("rerank:\n  depth: 0\n", "toolcrib.yaml or TOOLCRIB_*: rerank.depth: Input should be"),
        ("gate:\n  threshold: 2\n", "toolcrib.yaml or TOOLCRIB_*: gate.threshold: Input should"),
        ("gate:\n  treshold: 0.2\n", "toolcrib.yaml or TOOLCRIB_*: gate.treshold: "),
        (
            "gate:\n  threshold: 0.2\n  target_precision: 0.9\n",
            "toolcrib.yaml or TOOLCRIB_*: gate: gate: give one of threshold, target_",
        ),
        (
            "service:\n  batch: 8\n",
            "toolcrib.yaml or TOOLCRIB_*: service.batch: no longer a setting",
        ),
        ("a: [\n", "toolcrib.yaml is not a YAML mapping: "),
        ("just words\n", "toolcrib.yaml is not a YAML mapping: "),
    ],
)
def test_what_cannot_be_is_an_error_that_says_where(empty_folder, text, reason):
    (empty_folder / "toolcrib.yaml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(reason)


def test_an_unknown_kind_of_encoder_is_an_error():
    with pytest.raises(SettingsError) as caught:
        make_dense(Settings.model_validate({"encoder": {"dense": "magic:x"}}))
    known = "bundled, deterministic, fastembed, sentence-transformers"
    assert str(caught.value) == f"encoder.dense: there is no kind 'magic'; known are {known}"


def test_an_unknown_kind_of_reranker_is_an_error():
    with pytest.raises(SettingsError) as caught:
        make_reranker(Settings.model_validate({"encoder": {"reranker": "magic"}}))
    known = "bundled, fastembed, sentence-transformers"
    assert str(caught.value) == f"encoder.reranker: there is no kind 'magic'; known are {known}"


def test_the_bundled_encoder_can_be_another_folder(empty_folder):
    settings = Settings.model_validate({"encoder": {"dense": "bundled:nowhere"}})
    with pytest.raises(EncoderError, match="nowhere"):
        make_dense(settings)


def test_no_reranker_ships_so_a_folder_must_be_named():
    with pytest.raises(SettingsError, match=r"name a folder, as in bundled:\./my-reranker"):
        make_reranker(Settings.model_validate({"encoder": {"reranker": "bundled"}}))


def test_no_reranker_is_the_default():
    assert make_reranker(Settings()) is None


@pytest.mark.parametrize("kind", ["fastembed", "sentence-transformers"])
def test_models_by_name_are_made_of_the_kind_that_is_named(kind):
    name = f"{kind}:any/model"
    settings = Settings.model_validate({"encoder": {"dense": name, "reranker": name}})
    for make in (make_dense, make_reranker):
        try:
            made = make(settings)
        except ToolcribError as error:
            assert kind in str(error) or "any/model" in str(error)  # noqa: PT017
        else:
            assert "any/model" in made.name


def test_a_model_of_an_extra_that_is_not_installed_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    settings = Settings.model_validate({"encoder": {"dense": "sentence-transformers:any"}})
    with pytest.raises(MissingExtraError) as caught:
        make_dense(settings)
    assert caught.value.extra == "sentence-transformers"
    assert "pip install 'toolcrib[sentence-transformers]'" in str(caught.value)
