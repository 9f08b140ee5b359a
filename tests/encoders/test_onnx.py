"""Models of our own format keep their contracts, and say what a broken folder lacks."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.encoders.conformance import (
    DOCUMENTS,
    QUERIES,
    TEXTS,
    DenseEncoderContract,
    RerankerContract,
)
from tests.encoders.tiny_bert import SHIPPED, Shape, make_encoder, make_reranker, random_weights
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.encoders import onnx
from toolcrib.encoders.base import DenseEncoder, Reranker
from toolcrib.encoders.onnx import (
    DEFAULT_MODEL,
    MAX_CLAUSES,
    MAX_TYPED_CHARS,
    BundledEncoder,
    BundledReranker,
    MultilingualEncoder,
    clauses,
    open_model,
    read_card,
    usable_cores,
)
from toolcrib.errors import EncoderError, MissingExtraError
from toolcrib.settings import EncoderSettings
from toolcrib.training.export import Weights, export

CARD: dict[str, Any] = {
    "name": "m",
    "dimensions": 384,
    "max_tokens": 8,
    "sha256": {"model.onnx": "0123456789abcdef" * 4},
}
QUERY = "how warm is it"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The shipped model in a folder of its own, to be damaged."""
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copyfile(SHIPPED / name, tmp_path / name)
    return lay(tmp_path, CARD)


def lay(folder: Path, card: dict[str, Any]) -> Path:
    (folder / "card.json").write_text(json.dumps(card))
    return folder


class TestBundledEncoder(DenseEncoderContract):
    """The model inside the package."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> DenseEncoder:
        return BundledEncoder()

    def test_a_vector_is_the_same_bit_for_bit_alone_and_in_any_batch(
        self, encoder: DenseEncoder
    ) -> None:
        alone = np.stack([encoder.encode_query(text) for text in DOCUMENTS])
        assert np.array_equal(encoder.encode_documents(DOCUMENTS), alone)

    def test_one_thread_gives_what_several_give(self, encoder: DenseEncoder) -> None:
        one = BundledEncoder(threads=1)
        four = BundledEncoder(threads=4).encode_documents(DOCUMENTS)
        assert np.array_equal(one.encode_documents(DOCUMENTS), four)

    def test_meaning_is_found_without_a_shared_word(self, encoder: DenseEncoder) -> None:
        rows = encoder.encode_documents(DOCUMENTS)
        best = [DOCUMENTS[int(np.argmax(rows @ encoder.encode_query(text)))] for text in QUERIES]
        assert best == [
            "Show the temperature of every room.",
            "Send an e-mail to one or more people, with a subject, a text and attached files.",
            "List the open issues of a repository, newest first.",
        ]

    def test_the_name_holds_the_digest_of_the_weights_that_ship(
        self, encoder: DenseEncoder
    ) -> None:
        digest = hashlib.sha256((SHIPPED / "model.onnx").read_bytes()).hexdigest()
        assert encoder.name == f"{DEFAULT_MODEL}@{digest[:12]}"


def test_text_beyond_the_token_limit_changes_nothing(folder: Path) -> None:
    encoder = BundledEncoder(folder)
    short = encoder.encode_query("one two three four five six")
    assert np.array_equal(short, encoder.encode_query("one two three four five six seven eight"))


def test_making_one_loads_no_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    assert BundledEncoder(folder).dimensions == 384
    assert BundledReranker(folder).name == "m@0123456789ab"


def test_an_encoder_is_freed_with_its_last_use_and_not_by_the_garbage_collector() -> None:
    encoder = BundledEncoder()
    encoder.encode_query("send a mail")
    alive = weakref.ref(encoder)
    del encoder
    assert alive() is None


def test_a_card_of_another_width_than_the_model_is_refused(folder: Path) -> None:
    lay(folder, CARD | {"dimensions": 5})
    with pytest.raises(EncoderError, match=r"must be \(1, 5\)"):
        BundledEncoder(folder).encode_query("x")


@pytest.mark.parametrize("text", ["x", "book a table, then text Ann"])
def test_a_reranker_is_no_encoder(tmp_path: Path, text: str) -> None:
    encoder = BundledEncoder(make_reranker(tmp_path))
    with pytest.raises(EncoderError, match=r"model\.onnx .*sentence_embedding"):
        encoder.encode_clauses(text)


def test_encoding_a_query_imports_neither_fastembed_nor_torch() -> None:
    script = (
        "import sys; from toolcrib.encoders.onnx import BundledEncoder;"
        "BundledEncoder().encode_query('x');"
        "print([m for m in ('fastembed', 'torch', 'qdrant_client') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


PARTS = ["Hi, ", "and ", "then ", "book a table ", ". ", "😀", "\ud83d", "\ude00", " \n", "東京 "]
ANY_TEXT = st.text(st.characters()) | st.lists(st.sampled_from(PARTS)).map("".join)


class TestClauses:
    """A query that asks for several things has a vector for each of them, from one pass."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> BundledEncoder:
        return BundledEncoder()

    @pytest.mark.parametrize(
        ("text", "rows"),
        [
            pytest.param("book a table for two", 1, id="one"),
            pytest.param("book a table for two, then text Ann about it", 3, id="two"),
            pytest.param("Find the file. Mail it to Tom! And then delete it.", 4, id="three"),
            pytest.param("Hi, book a table for two", 1, id="a greeting is no clause"),
            pytest.param("Hi, book a table for two, then text Ann about it", 3, id="nor here"),
            pytest.param("find the file number %d. " * 9, 7, id="at most six"),
            pytest.param("half a \ud83d smile, then another \udc00 one", 3, id="lone surrogates"),
            pytest.param("", 1, id="empty"),
            pytest.param(" \n", 1, id="white space"),
            pytest.param("find last month's invoice, and then pay it. " * 2_400, 7, id="very long"),
        ],
    )
    def test_the_whole_query_comes_first_and_a_row_for_each_of_several_clauses(
        self, encoder: BundledEncoder, text: str, rows: int
    ) -> None:
        found = encoder.encode_clauses(text)
        assert found.shape == (rows, encoder.dimensions)
        assert found.dtype == np.float32
        assert np.array_equal(found[0], encoder.encode_query(text))

    @given(ANY_TEXT)
    def test_any_text_gives_unit_vectors_and_the_querys_own_first(
        self, encoder: BundledEncoder, text: str
    ) -> None:
        found = encoder.encode_clauses(text)
        assert len(found) == 1 or 3 <= len(found) <= 1 + len(clauses(text))
        assert np.abs(np.linalg.norm(found, axis=1) - 1).max() < 1e-5
        assert np.array_equal(found[0], encoder.encode_query(text))

    @pytest.mark.parametrize("before", ["", "😀👩‍👩‍👧 東京 é: "])
    def test_a_clause_is_nearer_to_what_it_asks_for_than_the_whole_query(
        self, encoder: BundledEncoder, before: str
    ) -> None:
        wanted = encoder.encode_documents([DOCUMENTS[1], DOCUMENTS[14]])
        text = f"{before}list the open issues of a repository, then stop a timer"
        whole, *_, first, second = encoder.encode_clauses(text) @ wanted.T
        assert first[0] > whole[0] > second[0]
        assert second[1] > whole[1] > first[1]

    def test_a_clause_is_read_in_the_light_of_the_others(self, encoder: BundledEncoder) -> None:
        meant = encoder.encode_query("delete the report")
        report, heating = (
            encoder.encode_clauses(f"{first}, then delete it")[2]
            for first in ("mail the report to Anna", "turn on the heating")
        )
        assert report @ meant > heating @ meant + 0.1

    def test_a_clause_beyond_the_token_limit_has_no_row(self, folder: Path) -> None:
        (folder / "card.json").write_text(json.dumps(CARD | {"max_tokens": 13}))
        encoder = BundledEncoder(folder)
        within = "find the open file, then mail it to Tom, "
        found = encoder.encode_clauses(f"{within}then stop the timer")
        assert found.shape == (3, 384)
        assert np.array_equal(found, encoder.encode_clauses(f"{within}before you go home"))


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reranker in int8, as it would ship."""
    folder = tmp_path_factory.mktemp("reranker") / "model"
    return make_reranker(folder, name="a-model", quantised=True)


class TestBundledReranker(RerankerContract):
    """A cross-encoder on onnxruntime alone."""

    @pytest.fixture(scope="class")
    @classmethod
    def reranker(cls, shipped: Path) -> Reranker:
        return BundledReranker(shipped)

    def test_a_score_is_the_same_bit_for_bit_alone_and_among_others(
        self, reranker: Reranker
    ) -> None:
        alone = [reranker.score(QUERY, [text])[0] for text in TEXTS]
        assert reranker.score(QUERY, TEXTS).tolist() == alone

    def test_a_score_is_the_logit_of_the_query_and_then_the_text(
        self, reranker: Reranker, shipped: Path
    ) -> None:
        model = open_model(shipped, read_card(shipped))
        query, text = (model.tokenizer.encode(part).ids for part in (QUERY, TEXTS[1]))
        pair = np.array([query + text[1:]])  # one mark begins both, and each has one at its end
        (logit,) = model.session.run(
            ["logit"], {"input_ids": pair, "attention_mask": np.ones_like(pair)}
        )
        assert reranker.score(QUERY, TEXTS[1:2]).tolist() == logit.tolist()


def test_a_pair_beyond_the_token_limit_is_cut(tmp_path: Path) -> None:
    reranker = BundledReranker(make_reranker(tmp_path, Shape(tokens=8)))
    text = "one two three four five six"
    assert np.array_equal(reranker.score("go", [text]), reranker.score("go", [f"{text} seven"]))


def test_no_texts_need_no_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    scores = BundledReranker(folder).score(QUERY, [])
    assert (scores.shape, scores.dtype) == ((0,), np.float32)


def test_an_encoder_is_no_reranker(tmp_path: Path) -> None:
    reranker = BundledReranker(make_encoder(tmp_path))
    with pytest.raises(EncoderError, match=r"model\.onnx .*logit"):
        reranker.score(QUERY, TEXTS)


def test_a_score_that_is_no_number_is_refused(tmp_path: Path) -> None:
    made = random_weights(cross_encoder=True)
    spoilt = made.tensors | {"classifier.bias": np.array([np.nan], dtype=np.float32)}
    card = {"name": "spoilt", "max_tokens": 16}
    export(Weights(spoilt, made.heads, made.tokenizer), tmp_path, card, quantised=False)
    with pytest.raises(EncoderError, match=r"spoilt@.* gave NaN or infinity"):
        BundledReranker(tmp_path).score(QUERY, TEXTS)


def test_a_crib_asks_the_reranker_that_its_settings_name(shipped: Path) -> None:
    chosen = EncoderSettings(dense="deterministic", reranker=f"bundled:{shipped}")
    tools = [ToolSpec(name=f"tool_{at}", description=text) for at, text in enumerate(TEXTS)]
    with Crib.open(":memory:", settings=Settings(encoder=chosen)) as crib:
        crib.index_tools(*tools)
        hits = crib.find_tools(QUERY, k=3, explain=True, gate=False).tools
    texts = [f"{hit.name}: {hit.tool.description}" for hit in hits]
    words = [hit.legs["rerank"] for hit in hits]
    assert words == BundledReranker(shipped).score(QUERY, texts).tolist()
    assert len(words) == len(TEXTS)


PIECES = ["book", "Ann", "and", "Then", "so", " ", "  ", "\n", ", ", ". ", "?!", ";", "é", "東京"]
ANY_QUERY = st.text() | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


CONJUNCTIONS = ["and", "then", "also", "after", "afterwards", "before", "but", "so", "finally"]


def parts(text: str) -> list[str]:
    return [text[start:end] for start, end in clauses(text)]


def letters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book a table, then text Ann", ["book a table,", "then text Ann"]),
        ("Is it warm? Turn it off!", ["Is it warm?", "Turn it off!"]),
        ("one; two: three. four! five", ["one;", "two:", "three.", "four!", "five"]),
        ("pay the bill...  write to Tom", ["pay the bill...", "write to Tom"]),
        ("pay the bill.\nwrite to Tom", ["pay the bill.", "write to Tom"]),
        ("pay the bill\n\nwrite to Tom", ["pay the bill", "write to Tom"]),
        ("find the file AND mail it", ["find the file", "AND mail it"]),
        *((f"do this {word} do that", ["do this", f"{word} do that"]) for word in CONJUNCTIONS),
        ("", []),
        ("\n\t ", []),
    ],
)
def test_a_query_is_cut_at_punctuation_and_before_conjunctions(
    text: str, expected: list[str]
) -> None:
    assert parts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "list open issues",
        "use v1.2 of a,b at 10:30 on example.com",
        "sandbox the android handset soon",
        "and book a table",
        "salt and",
        "What is the weather like?",
        "what is the weather like ? ",
    ],
)
def test_a_plain_query_is_one_clause(text: str) -> None:
    assert parts(text) == [text.strip()]


def test_of_too_many_clauses_the_longest_stay_in_their_order() -> None:
    text = "four. b. eleven. to. seventeen. a hundred. nine. three"
    assert parts(text) == ["four.", "eleven.", "seventeen.", "a hundred.", "nine.", "three"]
    assert clauses("go. " * 9) == [(at, at + 3) for at in range(0, 4 * MAX_CLAUSES, 4)]


@given(ANY_QUERY)
def test_clauses_lie_in_order_inside_the_text_and_hold_more_than_white_space(text: str) -> None:
    spans = clauses(text)
    ends = [0, *(end for _, end in spans)]
    assert len(spans) <= MAX_CLAUSES
    assert all(end <= start for end, (start, _) in zip(ends, spans, strict=False))
    assert ends[-1] <= len(text)
    assert all(text[start:end].strip() for start, end in spans)


@given(ANY_QUERY)
def test_no_letter_is_lost_where_the_clauses_are_few(text: str) -> None:
    found = parts(text)
    assert len(found) == MAX_CLAUSES or letters("".join(found)) == letters(text)


@given(ANY_QUERY)
def test_a_clause_is_not_cut_again(text: str) -> None:
    assert all(parts(part) == [part] for part in parts(text))


def test_a_card_tells_what_the_model_is(tmp_path: Path) -> None:
    card = read_card(lay(tmp_path, CARD | {"licence": "nobody asks"}))
    assert (card.name, card.dimensions, card.max_tokens) == ("m", 384, 8)
    assert card.digest == CARD["sha256"]["model.onnx"]
    assert card.identity == "m@0123456789ab"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, r"card\.json cannot be read"),
        ("{", r"card\.json cannot be read"),
        ("\udcff", r"card\.json cannot be read"),
        ("[]", "of another type"),
        (json.dumps(CARD | {"sha256": {}}), r"lacks a field.*model\.onnx"),
        (json.dumps(CARD | {"sha256": "ab"}), "of another type"),
        (json.dumps(CARD | {"max_tokens": None}), "of another type"),
        (json.dumps(CARD | {"dimensions": "many"}), "many"),
        *(
            (json.dumps({key: CARD[key] for key in CARD if key != lacking}), lacking)
            for lacking in CARD
        ),
    ],
)
def test_a_card_that_does_not_tell_enough_is_refused(
    tmp_path: Path, content: str | None, fault: str
) -> None:
    if content is not None:
        (tmp_path / "card.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(EncoderError, match=fault) as caught:
        read_card(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_run_keeps_to_one_core(folder: Path) -> None:
    options = open_model(folder, read_card(folder)).session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_texts_are_cut_where_the_card_says_and_never_padded(folder: Path) -> None:
    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=30)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(folder / "tokenizer.json"))
    read = open_model(folder, read_card(lay(folder, CARD))).tokenizer
    one, two = (tokenizer.token_to_id(word) for word in ("one", "two"))
    assert read.encode("one two").ids[1:-1] == [one, two]
    assert len(read.encode("one two three four five six seven").ids) == CARD["max_tokens"]


def test_without_the_package_of_twelve_languages_its_folder_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "toolcrib_multilingual", None)
    with pytest.raises(MissingExtraError, match=r"first .*packages/toolcrib-multilingual"):
        MultilingualEncoder.from_setting("", 0)


def test_a_tokenizer_of_another_kind_is_read_by_the_package_of_its_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "pre_tokenizer": None}))
    card = read_card(lay(folder, CARD))
    assert len(open_model(folder, card).tokenizer.encode("one").ids) == 3
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[tokenizers\]"):
        open_model(folder, card)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(folder: Path, name: str) -> None:
    card = read_card(folder)
    (folder / name).write_bytes(b"not what it should be")
    with pytest.raises(EncoderError, match=rf"{name} cannot be loaded"):
        open_model(folder, card)
    (folder / name).unlink()
    with pytest.raises(EncoderError, match=rf"{name} cannot be loaded"):
        open_model(folder, card)


@pytest.mark.parametrize(("told", "cores"), [(6, 6), (None, 1)])
def test_where_they_cannot_be_asked_for_all_count(
    monkeypatch: pytest.MonkeyPatch, told: int | None, cores: int
) -> None:
    monkeypatch.delattr(onnx.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(onnx.os, "cpu_count", lambda: told)
    assert usable_cores() == cores


def test_a_pasted_text_has_no_unknown_words() -> None:
    encoder = BundledEncoder()
    assert encoder.unknown_words("a brnach") == ["brnach"]
    assert encoder.unknown_words(f"a brnach {'x ' * MAX_TYPED_CHARS}") == []
