r"""Questions that name a document by its code, with the rule for codes and without it.

    python benchmarks/codes.py      # the rules of Ruff, by `F401` and the like
    python benchmarks/codes.py --docs FOLDER --code 'CVE-\d+-\d+'

Codes are drawn at random from the documents, and each is put into one of `QUESTIONS`. A question is
answered right if the first passage, or its title, has the code.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from toolcrib import Crib
from toolcrib.retrieval import passages

QUESTIONS = (
    "{}",
    "what does {} mean?",
    "explain {} to a newcomer, please",
    "we got {}, what now?",
    "how do I fix {}",
    "is {} important before the release?",
)
COLLECTION = "docs"


def write_rules(folder: Path) -> None:
    """A document for each rule of Ruff."""
    command = (sys.executable, "-m", "ruff", "rule", "--all", "--output-format", "json")
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for rule in json.loads(done.stdout):
        text = f"# {rule['name']} ({rule['code']})\n\n{rule['explanation']}\n"
        (folder / f"{rule['name']}.md").write_text(text, encoding="utf-8")


def share_right(crib: Crib, asked: list[tuple[str, str]]) -> float:
    right = 0
    for code, question in asked:
        found = crib.find_knowledge(question, collections=[COLLECTION], k=1).passages
        whole = re.compile(rf"(?<!\w){re.escape(code)}(?!\w)")
        right += any(whole.search("\n".join((*p.passage.title, p.passage.text))) for p in found)
    return right / len(asked)


def main() -> None:
    """Index the documents, ask, and print both shares as JSON."""
    parser = argparse.ArgumentParser(description="Measure questions by code.")
    parser.add_argument("--docs", type=Path, help="folder of documents; default: Ruff's rules")
    parser.add_argument("--code", default=r"[A-Z]+\d{3,}", help="regular expression of a code")
    parser.add_argument("--questions", type=int, default=150)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, Crib.open(":memory:") as crib:
        folder = options.docs or Path(made)
        if options.docs is None:
            write_rules(folder)
        report = crib.index_docs(folder, collection=COLLECTION)
        texts = (path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.md")))
        codes = sorted({code for text in texts for code in re.findall(options.code, text)})
        draw = random.Random(0)
        drawn = draw.sample(codes, min(options.questions, len(codes)))
        asked = [(code, draw.choice(QUESTIONS).format(code)) for code in drawn]
        shares = {"with": share_right(crib, asked)}
        passages.CODE_WEIGHT = 0
        shares["without"] = share_right(crib, asked)
    print(json.dumps({"passages": len(report.added), "questions": len(asked)} | shares))


if __name__ == "__main__":
    main()
