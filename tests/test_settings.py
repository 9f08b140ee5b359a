"""Settings come from one file and from variables; what is unknown or impossible is an error."""

from __future__ import annotations

import math
import re
import sys

import pytest
import yaml
from pydantic import ValidationError

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


def test_the_key_of_a_language_model_comes_from_the_environment_or_a_file_of_its_own(
    empty_folder, monkeypatch
):
    (empty_folder / "toolcrib.yaml").write_text("llm:\n  model: small\n  api_key: hush\n")
    with pytest.raises(SettingsError, match="TOOLCRIB_LLM__API_KEY"):
        load_settings()
    (empty_folder / "toolcrib.yaml").write_text("llm:\n  model: small\n")
    monkeypatch.setenv("TOOLCRIB_LLM__API_KEY", "hush")
    monkeypatch.setenv("TOOLCRIB_LLM__USES__JUDGE__MODEL", "large")
    llm = load_settings().llm
    assert (llm.key(), llm.uses["judge"].model) == ("hush", "large")
    assert "hush" not in repr(llm)
    (empty_folder / "secret").write_text("from a file\n")
    monkeypatch.setenv("TOOLCRIB_LLM__API_KEY_FILE", "secret")
    assert load_settings().llm.key() == "from a file"


def test_the_secret_of_logins_comes_from_the_environment(empty_folder, monkeypatch):
    (empty_folder / "toolcrib.yaml").write_text("gateway:\n  logins_secret: hush\n")
    with pytest.raises(SettingsError, match="TOOLCRIB_GATEWAY__LOGINS_SECRET"):
        load_settings()
    (empty_folder / "toolcrib.yaml").write_text("gateway:\n  k: 3\n")
    monkeypatch.setenv("TOOLCRIB_GATEWAY__LOGINS_SECRET", "hush")
    secret = load_settings().gateway.logins_secret
    assert secret is not None
    assert secret.get_secret_value() == "hush"


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
        ("shop: x\n", "toolcrib.yaml or TOOLCRIB_*: shop: there is no such setting"),
        (
            "fusion:\n  dens: 1\n",
            "toolcrib.yaml or TOOLCRIB_*: fusion.dens: there is no such setting; did you mean 'fu",
        ),
        (
            "collections:\n- name: a\n  priorty: 1\n",
            "toolcrib.yaml or TOOLCRIB_*: collections.0.priorty: there is no such setting; did ",
        ),
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
        ("a: [\n", "toolcrib.yaml is not a YAML mapping: "),
        ("just words\n", "toolcrib.yaml is not a YAML mapping: "),
    ],
)
def test_what_cannot_be_is_an_error_that_says_where(empty_folder, text, reason):
    (empty_folder / "toolcrib.yaml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert str(caught.value).startswith(reason)


def test_an_error_of_yaml_names_the_line_and_quotes_none_of_it(empty_folder):
    (empty_folder / "toolcrib.yaml").write_text("store: here\napi_key: plain: b\n")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert "line 2" in str(caught.value)
    assert "plain" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "knowledge: {map: [{domain: api, intent: integrat, collections: [barn]}]}",
            "knowledge.map names the intent 'integrat', which no turn can have; did you mean",
        ),
        (
            "collections: [{name: barn, answers: [[zzz, ask]]}]",
            "the collection 'barn' names the domain 'zzz', which no turn can have; known are ",
        ),
    ],
)
def test_a_map_that_speaks_of_labels_that_there_are_not_is_an_error(empty_folder, text, reason):
    (empty_folder / "toolcrib.yaml").write_text(text)
    with pytest.raises(SettingsError, match=re.escape(reason)):
        load_settings()


def test_the_map_that_ships_is_named(empty_folder, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_KNOWLEDGE__MAP", "preset")
    assert ("api", None) in {(each.domain, each.intent) for each in Settings().knowledge.entries}
    (empty_folder / "labels.yaml").write_text(
        "labels: {barn: {utterances: [a cow]}, api: {utterances: [a call]}}"
    )
    (empty_folder / "toolcrib.yaml").write_text("context: {labels: {domain: labels.yaml}}")
    with pytest.raises(SettingsError, match=re.escape("domain 'code', which no turn can have")):
        load_settings()


def test_a_map_may_speak_of_labels_and_of_intents_of_the_settings_own_cues(empty_folder):
    (empty_folder / "cues.yaml").write_text(
        "{intents: {mow: {leads: [mow], need: act}}, domains: {garden: [lawn]}}"
    )
    (empty_folder / "toolcrib.yaml").write_text(
        "context: {detector: heuristic, cues: cues.yaml}\n"
        "knowledge: {map: [{domain: garden, intent: mow, collections: [a]}]}\n"
    )
    assert load_settings().knowledge.map[0].domain == "garden"


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("TOOLCRIB_STOR", "TOOLCRIB_STORE"),
        ("toolcrib_recovry", "TOOLCRIB_RECOVERY"),
        ("TOOLCRIB_GATES__X", "TOOLCRIB_GATE"),
        ("TOOLCRIB_TOOLS_PASS_THROUGH", "TOOLCRIB_TOOLS__PASS_THROUGH"),
        ("TOOLCRIB_SERVICE_PORT", "TOOLCRIB_SERVICE__PORT"),
        ("TOOLCRIB_STORE__X", "TOOLCRIB_STORE"),
        ("TOOLCRIB_XQZ", None),
    ],
)
def test_a_variable_that_is_no_setting_is_an_error_that_says_what_was_meant(
    monkeypatch, variable, meant
):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError) as caught:
        load_settings()
    hint = f"; did you mean '{meant}'" if meant else ""
    assert f"{variable.upper()}: there is no such setting{hint}" in str(caught.value)


def test_variables_may_hold_json_below_those_of_single_settings(empty_folder, monkeypatch):
    (empty_folder / "toolcrib.yaml").write_text("tools: {k: 1, max_required: 2}")
    monkeypatch.setenv("TOOLCRIB_TOOLS", '{"k": 3, "pass_through": 7}')
    monkeypatch.setenv("toolcrib_tools__k", "5")
    monkeypatch.setenv("TOOLCRIB_COLLECTIONS", '[{"name": "security"}]')
    found = load_settings()
    assert (found.tools.k, found.tools.pass_through, found.tools.max_required) == (5, 7, 2)
    assert [each.name for each in found.collections] == ["security"]


@pytest.mark.parametrize("variable", ["TOOLCRIB_API_KEY", "TOOLCRIB_URL", "MY_TOOLCRIB_STOR"])
def test_variables_that_others_read_are_left_alone(monkeypatch, variable):
    monkeypatch.setenv(variable, "x")
    assert load_settings().model_dump() == Settings().model_dump()


def test_what_kubernetes_says_of_a_service_that_is_called_toolcrib_is_no_setting(monkeypatch):
    for name in ("SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP_ADDR"):
        monkeypatch.setenv(f"TOOLCRIB_{name}", "10.0.0.1")
    with pytest.raises(SettingsError):
        load_settings()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.2")
    assert load_settings().service.port == Settings().service.port


@pytest.mark.parametrize("value", ["-1", "nan", "-inf"])
@pytest.mark.parametrize(
    "setting",
    ["limits.total_ms", "limits.stage_ms.tools", "rerank.budget_ms", "knowledge.token_budget"],
)
def test_a_budget_that_is_none_is_an_error(empty_folder, setting, value):
    nested: object = float(value)
    for step in reversed(setting.split(".")):
        nested = {step: nested}
    (empty_folder / "toolcrib.yaml").write_text(yaml.safe_dump(nested))
    with pytest.raises(SettingsError, match=re.escape(setting)):
        load_settings()


@pytest.mark.parametrize(
    "setting", ["documents.timeout_s", "service.body_s", "service.keep_days", "server.timeout_s"]
)
def test_whatever_is_waited_for_ends(setting):
    section, name = setting.split(".")
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({section: {name: math.inf}})


def test_a_collection_that_stands_there_twice_is_an_error():
    twice = {"collections": [{"name": "security"}, {"name": "agile"}, {"name": "security"}]}
    with pytest.raises(ValidationError, match="security are given more than once"):
        Settings.model_validate(twice)


def test_an_unknown_kind_of_encoder_is_an_error():
    with pytest.raises(SettingsError) as caught:
        make_dense(Settings.model_validate({"encoder": {"dense": "magic:x"}}))
    known = "bundled, multilingual, deterministic, fastembed, sentence-transformers"
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
