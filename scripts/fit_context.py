"""Fit the context model that ships with the package, on the shipped labels, cues and encoder.

    python scripts/fit_context.py [--check]

What the classifier of turns tells (scripts/fit_turns.py, first) is not fitted again.
Run it whenever a file in toolcrib/context/presets or an encoder changes; a test fails
until then. `--check` only says whether it must be run.
"""

from __future__ import annotations

import argparse
import sys

from toolcrib.build import make_dense
from toolcrib.context.classifier import shipped_turn_classifier
from toolcrib.context.cues import load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.labels import label_sets
from toolcrib.context.model import (
    MODEL_FILE,
    fit_context,
    identity_of,
    read_context,
    write_context,
)
from toolcrib.settings import Settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    cues, sets, dense = load_cues(), label_sets({}), make_dense(Settings())
    if options.check:
        known = read_context(MODEL_FILE.read_bytes(), cues).identity
        sys.exit(known != identity_of(sets, cues, dense))
    covered = shipped_turn_classifier().digests
    model = fit_context(sets, cues, EntityFinder(), dense, covered=covered)
    MODEL_FILE.write_bytes(write_context(model))
    print(f"{MODEL_FILE.name}: {MODEL_FILE.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
