"""A model folder is read as it stands, or says which of its files is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.encoders.tiny_bert import SMALL, make_encoder
from toolcrib.encoders import onnx
from toolcrib.encoders.onnx import open_model, read_card, usable_cores
from toolcrib.errors import EncoderError

CARD: dict[str, Any] = {
    "name": "m",
    "dimensions": 64,
    "max_tokens": 8,
    "sha256": {"model.onnx": "0123456789abcdef" * 4},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A whole model folder, to be damaged."""
    return make_encoder(tmp_path / "model")


def lay(folder: Path, card: dict[str, Any]) -> Path:
    (folder / "card.json").write_text(json.dumps(card))
    return folder


def test_a_card_tells_what_the_model_is(tmp_path: Path) -> None:
    card = read_card(lay(tmp_path, CARD | {"licence": "nobody asks"}))
    assert (card.name, card.dimensions, card.max_tokens) == ("m", 64, 8)
    assert card.digest == CARD["sha256"]["model.onnx"]


def test_the_identity_is_the_name_and_the_first_digits_of_the_digest(tmp_path: Path) -> None:
    assert read_card(lay(tmp_path, CARD)).identity == "m@0123456789ab"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, r"card\.json cannot be read"),
        ("{", r"card\.json cannot be read"),
        ("\udcff", r"card\.json cannot be read"),
        ("[]", "in another form"),
        (json.dumps(CARD | {"sha256": {}}), r"lacks something.*model\.onnx"),
        (json.dumps(CARD | {"sha256": "ab"}), "in another form"),
        (json.dumps(CARD | {"max_tokens": None}), "in another form"),
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


def test_a_whole_folder_is_a_tokenizer_and_a_graph(folder: Path) -> None:
    model = open_model(folder, read_card(folder))
    ids = np.array([model.tokenizer.encode("stop a timer").ids])
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    vector, tokens = model.session.run(["sentence_embedding", "token_embeddings"], feeds)
    assert vector.shape == (1, SMALL.width)
    assert tokens.shape == (*ids.shape, SMALL.width)


def test_a_run_keeps_to_one_core(folder: Path) -> None:
    options = open_model(folder, read_card(folder)).session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)


def test_texts_are_cut_where_the_card_says_and_never_padded(folder: Path) -> None:
    tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(length=30)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(folder / "tokenizer.json"))
    read = open_model(folder, read_card(lay(folder, CARD))).tokenizer
    assert read.encode("one two").tokens == ["[CLS]", "one", "two", "[SEP]"]
    assert len(read.encode("one two three four five six seven").ids) == CARD["max_tokens"]


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_or_damaged_file_is_named(folder: Path, name: str) -> None:
    card = read_card(folder)
    (folder / name).write_bytes(b"not what it should be")
    with pytest.raises(EncoderError, match=rf"{name} cannot be loaded"):
        open_model(folder, card)
    (folder / name).unlink()
    with pytest.raises(EncoderError, match=rf"{name} cannot be loaded"):
        open_model(folder, card)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system knows no affinity")
def test_only_the_cores_that_this_process_may_use_count() -> None:
    assert usable_cores() == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("told", "cores"), [(6, 6), (None, 1)])
def test_where_they_cannot_be_asked_for_all_count(
    monkeypatch: pytest.MonkeyPatch, told: int | None, cores: int
) -> None:
    monkeypatch.delattr(model_folder.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(model_folder.os, "cpu_count", lambda: told)
    assert usable_cores() == cores
