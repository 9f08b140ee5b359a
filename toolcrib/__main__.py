"""`python -m toolcrib` is `toolcrib`."""

from __future__ import annotations

from toolcrib.cli import Process, main


def run() -> None:
    """Run one command in a process that ends after it."""
    Process.runs_one_command = True
    main()


if __name__ == "__main__":
    run()
