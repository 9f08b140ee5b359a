"""Settings come from one file and from variables; what is unknown or impossible is an error."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from toolcrib import Settings
from toolcrib.build import make_dense, make_reranker
from toolcrib.encoders.lexical import LexicalSettings
from toolcrib.errors import EncoderError, MissingExtraError, SettingsError, ToolcribError
from toolcrib.indexers.points import FieldWeights
from toolcrib.retrieval.fusion import FusionWeights
from toolcrib.retrieval.gate import GateSettings
from toolcrib.retrieval.rerank import RerankSettings
from toolcrib.router.settings import Limits, ToolSettings
from toolcrib.settings import load_settings


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def loaded(empty_folder):
    """Load settings from a file of this text."""

    def load(text):
        (empty_folder / "toolcrib.yaml").write_text(text)
        return load_settings()

    return load


def test_nothing_needs_to_be_set():
    assert load_settings().model_dump() == Settings().model_dump()
    assert make_reranker(Settings()) is None


def test_the_file_in_the_folder_is_read_and_variables_win(loaded, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_FUSION__EXAMPLES", "0.9")
    monkeypatch.setenv("TOOLCRIB_SERVER__API_KEY", "hush")
    settings = loaded("store: here\nfusion:\n  examples: 0.1\n")
    assert (settings.store, settings.fusion.examples) == ("here", 0.9)
    assert settings.server.api_key is not None
    assert "hush" not in repr(settings)


def test_the_key_of_a_language_model_comes_from_the_environment_or_a_file_of_its_own(
    loaded, empty_folder, monkeypatch
):
    with pytest.raises(SettingsError, match="TOOLCRIB_LLM__API_KEY"):
        loaded("llm:\n  model: small\n  api_key: hush\n")
    monkeypatch.setenv("TOOLCRIB_LLM__API_KEY", "hush")
    monkeypatch.setenv("TOOLCRIB_LLM__USES__JUDGE__MODEL", "large")
    llm = loaded("llm:\n  model: small\n").llm
    assert (llm.key(), llm.uses["judge"].model) == ("hush", "large")
    assert "hush" not in repr(llm)
    (empty_folder / "secret").write_text("from a file\n")
    monkeypatch.setenv("TOOLCRIB_LLM__API_KEY_FILE", "secret")
    assert load_settings().llm.key() == "from a file"


def test_the_secret_of_logins_comes_from_the_environment(loaded, monkeypatch):
    with pytest.raises(SettingsError, match="TOOLCRIB_GATEWAY__LOGINS_SECRET"):
        loaded("gateway:\n  logins_secret: hush\n")
    monkeypatch.setenv("TOOLCRIB_GATEWAY__LOGINS_SECRET", "hush")
    secret = loaded("gateway:\n  k: 3\n").gateway.logins_secret
    assert secret is not None
    assert secret.get_secret_value() == "hush"


def test_the_gate_can_be_set(loaded, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_GATE__ENABLED", "false")
    gate = loaded("gate:\n  max_false_acceptance: 0.1\n  fallback: web/search\n").gate
    assert (gate.max_false_acceptance, gate.fallback) == (0.1, "web/search")
    assert (gate.threshold, gate.target_precision, gate.enabled) == (None, None, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("shop: x", "shop: there is no such setting"),
        ("fusion: {dens: 1}", "fusion.dens: there is no such setting; did you mean 'fu"),
        ("collections: [{name: a, priorty: 1}]", "collections.0.priorty: there is no such setting"),
        ("fusion: {method: magic}", "fusion.method: Input should"),
        ("encoder: {threads: -1}", "encoder.threads: Input should"),
        ("lexical: {b: 2}", "lexical.b: Input should be less than or equal to 1"),
        ("rerank: {depth: 0}", "rerank.depth: Input should be"),
        ("gate: {threshold: 2}", "gate.threshold: Input should"),
        ("gate: {treshold: 0.2}", "gate.treshold: "),
        ("gate: {threshold: 0.2, target_precision: 0.9}", "gate: gate: give one of threshold, tar"),
    ],
)
def test_what_cannot_be_is_an_error_that_says_where(loaded, text, reason):
    with pytest.raises(SettingsError) as caught:
        loaded(text)
    assert str(caught.value).startswith(f"toolcrib.yaml or TOOLCRIB_*: {reason}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [", "not valid YAML: .* line 2"),
        ("just words", "not a YAML mapping"),
        ("tools: {k: 2}\nstore: x\ntools: {k: 3}", "'tools' of line 1 comes again at line 3"),
    ],
)
def test_a_file_that_is_no_mapping_is_an_error(loaded, text, reason):
    with pytest.raises(SettingsError, match=f"toolcrib.yaml is .*{reason}"):
        loaded(text)


def test_a_file_of_another_user_is_an_error(loaded, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(SettingsError, match=r"^toolcrib\.yaml cannot be read: Permission denied"):
        loaded("store: here")


def test_a_file_with_the_other_ending_is_not_passed_over(empty_folder):
    (empty_folder / "toolcrib.yml").write_text("store: here\n")
    with pytest.raises(SettingsError, match=r"rename it to toolcrib\.yaml"):
        load_settings()
    assert load_settings(Path("toolcrib.yml")).store == "here"


def test_an_error_of_yaml_names_the_line_and_quotes_none_of_it(loaded):
    with pytest.raises(SettingsError) as caught:
        loaded("store: here\napi_key: plain: b\n")
    assert "line 2" in str(caught.value)
    assert "plain" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "knowledge: {map: [{domain: api, intent: integrat, collections: [barn]}]}",
            "intent 'integrat', which no turn can have; did you mean",
        ),
        (
            "collections: [{name: barn, answers: [[zzz, ask]]}]",
            "domain 'zzz', which no turn can have; known are ",
        ),
    ],
)
def test_a_map_that_speaks_of_labels_that_there_are_not_is_an_error(loaded, text, reason):
    with pytest.raises(SettingsError, match=re.escape(reason)):
        loaded(text)


def test_the_map_that_ships_is_named(loaded, empty_folder, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_KNOWLEDGE__MAP", "preset")
    assert ("api", None) in {(each.domain, each.intent) for each in Settings().knowledge.entries}
    (empty_folder / "labels.yaml").write_text(
        "labels: {barn: {utterances: [a cow]}, api: {utterances: [a call]}}"
    )
    with pytest.raises(SettingsError, match="domain 'code', which no turn can have"):
        loaded("context: {labels: {domain: labels.yaml}}")


def test_a_map_may_speak_of_labels_and_of_intents_of_the_settings_own_cues(loaded, empty_folder):
    (empty_folder / "cues.yaml").write_text(
        "{intents: {mow: {leads: [mow], need: act}}, domains: {garden: [lawn]}}"
    )
    settings = loaded(
        "context: {detector: heuristic, cues: cues.yaml}\n"
        "knowledge: {map: [{domain: garden, intent: mow, collections: [a]}]}\n"
    )
    assert settings.knowledge.map[0].domain == "garden"


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


def test_variables_may_hold_json_below_those_of_single_settings(loaded, monkeypatch):
    monkeypatch.setenv("TOOLCRIB_TOOLS", '{"k": 3, "pass_through": 7}')
    monkeypatch.setenv("toolcrib_tools__k", "5")
    monkeypatch.setenv("TOOLCRIB_COLLECTIONS", '[{"name": "security"}]')
    found = loaded("tools: {k: 1, max_required: 2}")
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
def test_a_budget_that_is_none_is_an_error(loaded, setting, value):
    nested: object = float(value)
    for step in reversed(setting.split(".")):
        nested = {step: nested}
    with pytest.raises(SettingsError, match=re.escape(setting)):
        loaded(yaml.safe_dump(nested))


@pytest.mark.parametrize(
    "setting", ["documents.timeout_s", "service.body_s", "service.keep_days", "server.timeout_s"]
)
def test_whatever_is_waited_for_ends(setting):
    section, name = setting.split(".")
    with pytest.raises(ValidationError, match=name):
        Settings.model_validate({section: {name: math.inf}})


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *(("lexical.k1", value) for value in ("-0.1", "nan", "inf")),
        *(("lexical.b", value) for value in ("1.1", "nan")),
        ("fusion.dense", "inf"),
        ("fields.name", "inf"),
    ],
)
def test_a_weight_out_of_its_range_is_an_error(monkeypatch, setting, value):
    monkeypatch.setenv("TOOLCRIB_" + setting.upper().replace(".", "__"), value)
    with pytest.raises(SettingsError, match=re.escape(setting)):
        load_settings()


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: LexicalSettings(k1=-1), "k1: Input should be greater than or equal to 0"),
        (lambda: replace(LexicalSettings(), b=2), "b: "),
        (lambda: FieldWeights(name=math.nan), "name: Input should be a finite number"),
        (lambda: FusionWeights(clauses=2), "clauses: "),
        (lambda: RerankSettings(depth=0), "depth: "),
        (lambda: GateSettings(threshold=1.5), "threshold: "),
        (lambda: ToolSettings(max_cost=math.nan), "max_cost: "),
        (lambda: Limits(stage_ms={"tools": 0.0}), "stage_ms.tools: "),
        (lambda: LexicalSettings(k=1), "k: unknown field"),
    ],
)
def test_a_section_that_is_made_by_hand_has_the_same_bounds(make, fault):
    with pytest.raises(SettingsError, match=f"^{fault}"):
        make()


def test_a_store_without_a_name_is_an_error(monkeypatch):
    monkeypatch.setenv("TOOLCRIB_STORE", "")
    with pytest.raises(SettingsError, match="store: String should have at least 1"):
        load_settings()


def test_a_list_that_is_none_is_an_error_in_words_of_yaml(monkeypatch):
    monkeypatch.setenv("TOOLCRIB_TOOLS__SERVERS", "mail")
    with pytest.raises(SettingsError, match=r"tools.servers: Input should be a list$"):
        load_settings()


def test_a_collection_that_stands_there_twice_is_an_error():
    twice = {"collections": [{"name": "security"}, {"name": "agile"}, {"name": "security"}]}
    with pytest.raises(ValidationError, match="security are given more than once"):
        Settings.model_validate(twice)


@pytest.mark.parametrize(
    ("make", "field", "known"),
    [
        (make_dense, "dense", "bundled, multilingual, deterministic, fastembed, sentence"),
        (make_reranker, "reranker", "bundled, fastembed, sentence"),
    ],
)
def test_an_unknown_kind_of_model_is_an_error(make, field, known):
    with pytest.raises(SettingsError, match=f"encoder.{field}: .*'magic'; known are {known}"):
        make(Settings.model_validate({"encoder": {field: "magic:x"}}))


def test_the_bundled_encoder_can_be_another_folder(empty_folder):
    settings = Settings.model_validate({"encoder": {"dense": "bundled:nowhere"}})
    with pytest.raises(EncoderError, match="nowhere"):
        make_dense(settings)


def test_no_reranker_ships_so_a_folder_must_be_named():
    with pytest.raises(SettingsError, match=r"name a folder, as in bundled:\./my-reranker"):
        make_reranker(Settings.model_validate({"encoder": {"reranker": "bundled"}}))


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
    with pytest.raises(MissingExtraError, match="pip install") as caught:
        make_dense(settings)
    assert caught.value.extra == "sentence-transformers"
