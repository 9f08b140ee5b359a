"""Indexes every fourth tool of a registry, beside three processes that index the others.

`python parallel_indexer.py URL PART`: prints a line when all is planned and nothing is written, and
goes on after a line of input.
"""

from __future__ import annotations

import sys

from toolcrib import Crib, IndexProgress, Settings, ToolSpec

PARTS = 4
SETTINGS = Settings.model_validate(
    {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}
)
WORDS = ("mail", "file", "row", "page", "note")


def tools() -> list[ToolSpec]:
    """Tools of servers whose names share other first words in each part than in all."""
    return [
        ToolSpec(
            name=f"acme_{WORDS[(number + server) % PARTS]}_{WORDS[number % 5]}_{number}",
            server=f"server{server}",
            description=f"Works on the {WORDS[number % 5]} {number} of acme.",
        )
        for server in range(3)
        for number in range(16)
    ]


def wait(progress: IndexProgress) -> None:
    """Wait between the plan and the first write."""
    if progress.done == 0:
        sys.stdout.write("planned\n")
        sys.stdout.flush()
        sys.stdin.readline()


if __name__ == "__main__":
    url, part = sys.argv[1], int(sys.argv[2])
    with Crib.open(url, settings=SETTINGS) as crib:
        crib.index_tools(tools()[part::PARTS], progress=wait)
