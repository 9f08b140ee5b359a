"""`toolcrib gateway` as a program, whatever else the command line has.

What an index run does is shown every `PROGRESS_S` seconds, and a request over HTTP may take
`REQUEST_TIMEOUT_S`, where the environment says so.
"""

from __future__ import annotations

import os

import typer

from toolcrib.cli import progress
from toolcrib.gateway import serve
from toolcrib.serve import gateway

app = typer.Typer()


@app.callback()
def configure(context: typer.Context) -> None:
    """Have no settings file."""
    context.obj = None
    progress.LINE_INTERVAL_S = float(os.environ.get("PROGRESS_S", progress.LINE_INTERVAL_S))
    serve.REQUEST_TIMEOUT_S = float(os.environ.get("REQUEST_TIMEOUT_S", serve.REQUEST_TIMEOUT_S))


app.command("gateway")(gateway)

if __name__ == "__main__":
    app()
