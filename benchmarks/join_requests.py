"""A data set out of the requests of `data/requests` and the tools that they are for.

    python benchmarks/join_requests.py CORPORA OUT [--held-out]
    toolcrib eval run OUT

CORPORA is a folder with `*.jsonl.gz`, one tool a line; the requests name tools by their ids
there. OUT gets every tool that a request needs and up to `SIBLINGS` others of the same servers.
With `--held-out` only the splits that no training read, and the tools of their servers.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

from corpora import rows

SIBLINGS = 20
REQUESTS = Path(__file__).resolve().parents[1] / "data" / "requests" / "queries.jsonl"


def main() -> None:
    """Join them, and say how many there are."""
    parser = argparse.ArgumentParser(description="Join the written requests with their tools.")
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    requests = list(rows(REQUESTS))
    if options.held_out:
        requests = [request for request in requests if request["split"] != "train"]
    needed = {tool for request in requests for tool in request["relevant"]}
    tools = []
    for path in sorted(options.corpora.glob("*.jsonl.gz")):
        tools += rows(path)
    servers = {tool["server"] for tool in tools if tool["id"] in needed}
    beside: Counter[str] = Counter()
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "tools.jsonl").open("w", encoding="utf-8") as file:
        for tool in tools:
            if tool["id"] not in needed:
                beside[tool["server"]] += 1
                if tool["server"] not in servers or beside[tool["server"]] > SIBLINGS:
                    continue
            file.write(json.dumps(tool) + "\n")
    with (options.out / "queries.jsonl").open("w", encoding="utf-8") as file:
        for request in requests:
            grades = dict.fromkeys(request["relevant"], 1)
            fields = {key: request[key] for key in ("id", "text", "split")}
            file.write(json.dumps({**fields, "relevant": grades, "answerable": True}) + "\n")
    missing = needed - {tool["id"] for tool in tools}
    print(f"{len(requests):,} requests; tools that the corpora lack: {len(missing):,}")


if __name__ == "__main__":
    main()
