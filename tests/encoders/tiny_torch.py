"""Tiny models with random weights, made on the spot, for whom sentence-transformers is there."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from tests.encoders.fastembed_folders import SHIPPED

__all__ = ["make_cross_encoder", "make_encoder"]


def make_encoder(folder: Path, prompts: dict[str, str]) -> Path:
    """A two-layer BERT with mean pooling, saved as sentence-transformers does; returns it."""
    library: Any = importlib.import_module("sentence_transformers")
    transformers: Any = importlib.import_module("transformers")
    plain = _save(folder / "plain", transformers.BertModel, transformers)
    model = library.SentenceTransformer(str(plain), prompts=prompts, device="cpu")
    model.save(str(folder / "model"))
    return folder / "model"


def make_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A two-layer BERT that classifies pairs; returns its folder."""
    transformers: Any = importlib.import_module("transformers")
    return _save(folder, transformers.BertForSequenceClassification, transformers, labels)


def _save(folder: Path, kind: Any, transformers: Any, labels: int = 1) -> Path:
    importlib.import_module("torch").manual_seed(7)
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=256,
        initializer_range=0.5,  # random weights must tell texts apart
        num_labels=labels,
    )
    kind(config).eval().save_pretrained(str(folder))
    (folder / "tokenizer.json").write_bytes((SHIPPED / "tokenizer.json").read_bytes())
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 256,
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    return folder
