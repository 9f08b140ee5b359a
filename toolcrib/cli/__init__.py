"""The command line."""

from __future__ import annotations

import gc
import io
import os
import sys

__all__ = ["Process", "main"]


GC_THRESHOLD_OBJECTS = 50_000
"""New objects until a garbage collection: loading modules makes many, and all of them stay."""


class Process:
    """Process of the command line; `runs_one_command` if it ends after one command."""

    runs_one_command = False


def main() -> None:
    """Run `toolcrib`; a user's mistake ends in one line and an exit code, never a stack trace."""
    # Libraries would draw their own progress bars; these variables must be set before they load.
    for bars in (
        "TQDM_DISABLE",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "HF_DATASETS_DISABLE_PROGRESS_BARS",
    ):
        os.environ.setdefault(bars, "1")
    _prepare_streams()
    try:
        gc.set_threshold(GC_THRESHOLD_OBJECTS)
        # In here, so that Ctrl-C ends the loading of modules without a stack trace too.
        from toolcrib.cli.app import app

        app(prog_name="toolcrib")
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has closed it (`toolcrib list | head`).
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 -- what is not ours is raised on
        from toolcrib.cli.app import report

        sys.exit(report(error, as_json="--json" in sys.argv))


def _prepare_streams() -> None:
    """Replace closed streams, and let output of any encoding take all characters."""
    for name in ("stdin", "stdout", "stderr"):
        # A stream that the shell closed (`>&-`) is None, and the next file gets its number.
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A stream of another encoding gets escapes (`\u5370`), which JSON has too.
            stream.reconfigure(errors="backslashreplace")
