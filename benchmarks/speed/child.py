"""A process that answers requests on its standard input, one JSON object a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["Child"]

HERE = Path(__file__).resolve().parents[1]


class Child:
    """The near end of `python -m MODULE ARGUMENTS`; `about` is the first line that it writes."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=HERE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.about = self._read()

    def ask(self, **wanted: Any) -> dict[str, Any]:
        """Answer to a request."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._module} ended before it answered")
        return json.loads(line)
