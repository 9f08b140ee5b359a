"""`toolcrib eval questions`: measure what chooses between things other than tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from toolcrib.cli.output import print_choices, print_json
from toolcrib.errors import StoreWriteError

if TYPE_CHECKING:
    from toolcrib.evaluation.choices import ChoiceResult

__all__ = ["Html", "LabelledFile", "Split", "show_choices"]

LabelledFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="Labelled turns, JSON Lines.")
]
Split: TypeAlias = Annotated[
    str | None, typer.Option(help="Only turns of this split; default: all.")
]
Html: TypeAlias = Annotated[Path | None, typer.Option(help="Write a page to look at.")]


def show_choices(
    kind: str, results: Sequence[ChoiceResult], *, html: Path | None, json: bool
) -> None:
    """Print what was measured, and write its page.

    Raises:
        StoreWriteError: the page cannot be written.
    """
    if html is not None:
        from toolcrib.evaluation.report.choices import render_choices

        try:
            html.write_text(render_choices(kind, results), encoding="utf-8")
        except OSError as error:
            raise StoreWriteError(f"{html} cannot be written: {error.strerror}") from error
    if json:
        print_json({"kind": kind, "sets": [asdict(one) for one in results]})
    else:
        print_choices(results)
