"""`toolcrib enrich`: a language model writes what the authors of tools left out."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.cli.options import Json, SourceFormat, SourceServer, read_tools
from toolcrib.cli.output import count_of, err, out, print_json
from toolcrib.cli.progress import counting
from toolcrib.errors import SettingsError
from toolcrib.indexers.enricher import (
    Enricher,
    EnrichmentFile,
    EnrichmentReport,
    Question,
    questions,
    up_to_date,
)
from toolcrib.indexers.enrichment import ENRICHMENT_NAME, EnrichmentLine, Enrichments
from toolcrib.indexers.sync import readable
from toolcrib.language_models import metered
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.codec import as_json
from toolcrib.settings import Settings, load_settings

__all__ = ["enrich"]

CHARS_PER_TOKEN = 4
ANSWER_TOKENS = 250
"""What a prompt and an answer are taken for before anybody counts them."""

NO_MODEL = "no language model is set; name one: TOOLCRIB_LLM__MODEL and TOOLCRIB_LLM__BASE_URL"


def enrich(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Tools, as `toolcrib index` takes them.")],
    file: Annotated[
        Path, typer.Option("--out", help="What is written; what it holds already stays.")
    ] = Path(ENRICHMENT_NAME),
    server: SourceServer = None,
    format: SourceFormat = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say calls, tokens and cost, and ask nothing.")
    ] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Show what was written, and what it replaces.")
    ] = False,
    json: Json = False,
) -> None:
    """Have a language model write what tools are good for; only what changed is asked for again."""
    settings = load_settings(context.obj)
    found = {
        item.id: item
        for _, item in readable(read_tools(sources, server, format))
        if isinstance(item, ToolSpec)
    }
    specs = [spec.model_copy(update={"enrichment": None}) for spec in found.values()]
    kept, dense = EnrichmentFile(file), build.make_dense(settings)
    model = build.language_model(settings, "enrich")
    name = model.name if model else None
    if dry_run:
        current = up_to_date(specs, kept.read(), name)
        _say_dry(questions(specs, dense, current), len(current), settings, json=json)
        return
    with kept.locked():
        held = kept.read()
        current = up_to_date(specs, held, name)
        asked = questions(specs, dense, current)
        report, usage = _asked(Enricher(specs, kept, model) if model else None, asked)
    left = len(asked) - len(report.written)
    summary = {"written": len(report.written), "up_to_date": len(current), "left": left}
    if json:
        told = {"dropped": list(map(as_json, report.dropped)), "usage": usage}
        print_json({**summary, "failed": list(map(as_json, report.failed)), **told})
    else:
        _say(summary, report, file)
    if review and not json:
        _review(specs, held, report.written or current)
    if left:
        raise typer.Exit(EXIT_NOT_CLEAN)


KEPT = "what was written stays; the same command does the rest"


def _asked(
    enricher: Enricher | None, asked: Sequence[Question]
) -> tuple[EnrichmentReport, list[dict[str, Any]]]:
    """What came of it, and what the model took.

    Raises:
        SettingsError: there is no model, and something to ask one.
    """
    if not asked:
        return EnrichmentReport(), []
    if enricher is None:
        raise SettingsError(NO_MODEL)
    with metered() as meter, counting("asking", lambda: KEPT) as listener:
        told = partial(listener, "asking")
        report = asyncio.run(_until_stopped(enricher, asked, told))
    return report, [as_json(each) for each in meter.usage]


async def _until_stopped(
    enricher: Enricher, asked: Sequence[Question], told: Callable[[int, int], None]
) -> EnrichmentReport:
    """Run; the first signal waits for answers under way, the second one does not."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        enricher.stop()
        err.print(f"[yellow]stopping:[/] {KEPT}")
        for each in signals:
            loop.remove_signal_handler(each)

    # Windows has none, and neither has a thread that is not the first.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for each in signals:
            loop.add_signal_handler(each, stop)
    return await enricher.run(asked, told)


def _say_dry(asked: Sequence[Question], current: int, settings: Settings, *, json: bool) -> None:
    llm = settings.llm
    own = llm.uses.get("enrich")
    model = (own.model if own else None) or llm.model
    price = llm.prices.get(model or "")
    tokens = sum(question.chars for question in asked) // CHARS_PER_TOKEN
    answers = ANSWER_TOKENS * len(asked)
    cost = None if price is None else (tokens * price.input + answers * price.output) / 1e6
    if json:
        counted = {"calls": len(asked), "up_to_date": current, "model": model}
        spent = {"input_tokens": tokens, "output_tokens": answers, "cost": cost}
        print_json({**counted, **spent, "tools": [question.spec.id for question in asked]})
        return
    costs = "" if cost is None else f", cost about {cost:.2f}"
    out.print(
        f"{count_of(len(asked), 'call')} of {model or 'a model that is not set yet'}, about "
        f"{tokens:,} tokens in and {answers:,} out{costs}; {current} up to date"
    )


def _say(summary: dict[str, int], report: EnrichmentReport, file: Path) -> None:
    out.print(
        f"[bold]{summary['written']} written, {summary['up_to_date']} up to date[/] in "
        f"{escape(str(file))}"
    )
    _say_all("dropped", report.dropped)
    _say_all("failed", report.failed)
    if summary["left"]:
        out.print(f"[yellow]{summary['left']} left[/]: the same command asks for them")


def _say_all(what: str, refusals: Sequence[Refusal]) -> None:
    if refusals:
        out.print(f"[yellow]{len(refusals)} {what}:[/]")
    for each in refusals:
        out.print(f"  [yellow]{escape(each.place)}[/]: {escape(each.reason)}")


def _review(
    specs: Iterable[ToolSpec], before: Enrichments, lines: dict[str, EnrichmentLine] | Any
) -> None:
    """What the author says, and as a diff what was and is written beside it."""
    for spec in specs:
        if spec.id not in lines:
            continue
        old = [text for line in before.lines.get(spec.id, ())[-1:] for text in _texts(line)]
        new = list(_texts(lines[spec.id]))
        out.print(f"[bold]{escape(spec.id)}[/]\n  [dim]{escape(spec.description)}[/]")
        for text in old:
            if text not in new:
                out.print(f"[red]- {escape(text)}[/]")
        for text in new:
            out.print(f"[green]+ {escape(text)}[/]" if text not in old else f"  {escape(text)}")


def _texts(line: EnrichmentLine) -> Iterable[str]:
    yield from [f"purpose: {line.purpose}"] if line.purpose else []
    yield from (f"example: {text}" for text in line.examples)
    yield from (f"not for: {text}" for text in line.not_for)
    yield from (f"safety: {text}" for text in line.safety_tags)
