"""Indexes tools and prints every id that became durable, until somebody kills it.

`python killed_indexer.py FOLDER ROUND COUNT`
"""

from __future__ import annotations

import sys

from toolcrib import Crib, IndexProgress, Settings, ToolSpec
from toolcrib.settings import EncoderSettings


def tools(round_number: int, count: int) -> list[ToolSpec]:
    """Make the tools of a round: the same ids every time, another text every time."""
    return [
        ToolSpec(
            name=f"tool {number}",
            description=f"Turns bolt{number} by hand, as round{round_number} has it.",
            success_examples=(f"turn bolt{number}",) if number % 3 == 0 else (),
            version=str(round_number),
        )
        for number in range(count)
    ]


def say(progress: IndexProgress) -> None:
    for tool_id in progress.ids:
        sys.stdout.write(f"{tool_id}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    folder, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    settings = Settings(encoder=EncoderSettings(dense="deterministic"))
    with Crib.open(folder, settings=settings) as crib:
        crib.index_tools(tools(number, count), progress=say)
