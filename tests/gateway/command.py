"""`toolcrib gateway` as a program, whatever else the command line has."""

from __future__ import annotations

import typer

from toolcrib.cli.gateway import gateway

app = typer.Typer()


@app.callback()
def configure(context: typer.Context) -> None:
    """Have no settings file."""
    context.obj = None


app.command("gateway")(gateway)

if __name__ == "__main__":
    app()
