"""Lines of `data/multilingual`, and the English lines that they say anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINES = ROOT / "data" / "multilingual"
SAID = ROOT / "toolcrib" / "context" / "presets" / "said.jsonl"
ENGLISH = {
    "query": "queries",
    "turn": "turns",
    "plain-turn": "plain-turns",
    "request": "requests/queries",
    "everyday": "everyday",
}
"""Files of `data` with the English texts, by what the ids of `data/multilingual` begin with."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def english_rows() -> dict[str, dict[str, Any]]:
    """The English lines, by the ids that `data/multilingual` has; those of `SAID` are to train."""
    found = {
        f"{kind}:{row['id']}": row
        for kind, name in ENGLISH.items()
        for row in rows(ROOT / "data" / f"{name}.jsonl")
    }
    for row in rows(SAID):
        name = hashlib.blake2b(row["text"].encode(), digest_size=6).hexdigest()
        found[f"said:{name}"] = {**row, "split": "train"}
    return found


def training_lines() -> Iterator[dict[str, str]]:
    """Lines of the training split in all languages: `id`, `text`, `lang`, and `en` in English."""
    english = english_rows()
    for path in sorted(LINES.glob("*.jsonl")):
        for row in rows(path):
            if row["split"] == "train":
                yield {**row, "lang": path.stem, "en": english[row["id"]]["text"]}
