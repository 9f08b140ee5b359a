"""Tokens of tools in an answer: as a provider's JSON, as signatures, and as the gateway has them.

    python benchmarks/tokens.py CORPORA/*.jsonl.gz

WordPiece tokens of compact JSON, over 3,000 tools of each corpus.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from statistics import median

from corpora import specs

from toolcrib import ToolSpec
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.encoders.wordpiece import WordPiece
from toolcrib.integrations.formats import export
from toolcrib.records.definitions import in_short

TOOLS, ANSWER = 3_000, 5


def main() -> None:
    """Print a row a corpus."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpora", type=Path, nargs="+")
    options = parser.parse_args()
    tokenizer = WordPiece(
        json.loads((MODELS_FOLDER / DEFAULT_MODEL / "tokenizer.json").read_bytes()), None
    )

    def tokens(tools: list[ToolSpec], format: str) -> int:
        told = [in_short(tool) for tool in tools] if format == "gateway" else export(tools, format)
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        return len(tokenizer.encode(text.encode("utf-8", "replace").decode()).ids)

    print("| corpus | five tools, median: openai | signature | saved | gateway | saved |")
    print("| --- | --: | --: | --: | --: | --: |")
    for path in options.corpora:
        tools = random.Random(0).sample(list(specs(path)), TOOLS)
        answers = [tools[at : at + ANSWER] for at in range(0, len(tools), ANSWER)]
        full = [tokens(each, "openai") for each in answers]
        row = f"| {path.name} | {median(full):.0f} |"
        for format in ("signature", "gateway"):
            short = [tokens(each, format) for each in answers]
            row += f" {median(short):.0f} | {1 - sum(short) / sum(full):.0%} |"
        print(row)


if __name__ == "__main__":
    main()
