"""Fit the context model that ships with the package, on the shipped labels, cues and encoder.

    python scripts/fit_context.py [--check] [--folder FOLDER]

With `--folder` it is fitted for the encoder of a model folder, also on the small talk of the
training turns of data/multilingual, and lies in there. What the classifier of turns tells
(scripts/fit_turns.py, first, with the same folder) is not fitted again.
Run it whenever a file in toolcrib/router/context/presets or an encoder changes; a test fails
until then. `--check` only says whether it must be run.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from toolcrib.build import make_dense
from toolcrib.encoders.onnx import BundledEncoder
from toolcrib.router.context.classifier import shipped_turns, turns_beside
from toolcrib.router.context.cues import load_cues
from toolcrib.router.context.entities import EntityFinder
from toolcrib.router.context.labels import LabelSet, label_sets
from toolcrib.router.context.model import (
    BESIDE_ENCODER,
    SHIPPED,
    fit_context,
    identity_of,
    read_context,
    write_context,
)
from toolcrib.settings import Settings


def with_translations(chosen: LabelSet) -> LabelSet:
    """Labels of small talk with the small talk of training turns in other languages."""
    from fit_turns import translations

    said = [
        (text, labels.get("smalltalk"))
        for text, labels in translations({"smalltalk": chosen}).items()
    ]
    labels = {
        name: label.model_copy(
            update={"utterances": (*label.utterances, *(t for t, told in said if told == name))}
        )
        for name, label in chosen.labels.items()
    }
    return LabelSet(labels=labels, outside=chosen.outside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    cues, sets = load_cues(), label_sets({})
    dense = BundledEncoder(options.folder) if options.folder else make_dense(Settings())
    turns = turns_beside(dense) if options.folder else shipped_turns()
    # The classifier of turns that ships reads English: other encoders need all fields of their own.
    told = turns.digests if turns else {}
    path: Path = options.folder / BESIDE_ENCODER if options.folder else SHIPPED
    if options.check:
        known = read_context(path.read_bytes(), cues).identity
        sys.exit(known != identity_of(sets, cues, dense))
    fitted = sets
    if options.folder:
        fitted = {**sets, "smalltalk": with_translations(sets["smalltalk"])}
    model = fit_context(fitted, cues, EntityFinder(), dense, told=told)
    path.write_bytes(write_context(replace(model, identity=identity_of(sets, cues, dense))))
    print(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
