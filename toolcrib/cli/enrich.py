"""`toolcrib enrich`: a language model writes search texts about tools."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from toolcrib import build
from toolcrib.access.quarantine import Quarantine
from toolcrib.audit import audit_all, blocks
from toolcrib.cli.options import Json, SourceFormat, SourceServer, folder_of, read_tools
from toolcrib.cli.output import err, out, print_either, print_json, print_refusals
from toolcrib.cli.progress import show_counts
from toolcrib.errors import SettingsError
from toolcrib.indexers.enricher import (
    Enricher,
    EnrichmentFile,
    EnrichmentReport,
    EnrichmentTable,
    KeptEnrichments,
    Question,
    current_lines,
    questions,
)
from toolcrib.indexers.enrichment import ENRICHMENT_NAME, EnrichmentLine, Enrichments
from toolcrib.indexers.sync import Entry, require_entries
from toolcrib.language_models import LanguageModel, count_usage
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import Refusal, ToolSpec
from toolcrib.records.scope import DEFAULT_NAMESPACE
from toolcrib.records.turns import ModelUsage
from toolcrib.settings import Settings, load_settings
from toolcrib.text import count_of

CHARS_PER_TOKEN = 4
ANSWER_TOKENS = 250
"""Estimated tokens of an answer, before the first answer is counted."""


def enrich(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Tools, as `toolcrib index` takes them.")],
    file: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="File to write; its other entries stay. "
            "Default: enrichment.jsonl beside the first source, or the place of `enrichments`.",
        ),
    ] = None,
    server: SourceServer = None,
    format: SourceFormat = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print calls, tokens and cost; call no model.")
    ] = False,
    review: Annotated[
        bool, typer.Option("--review", help="Show the new texts, and the texts they replace.")
    ] = False,
    json: Json = False,
) -> None:
    """Let a language model describe the uses of tools; unchanged tools are skipped."""
    settings = load_settings(context.obj)
    entries = _public_entries(require_entries(read_tools(sources, server, format)), settings)
    found: dict[str, ToolSpec] = {}
    for _, item in entries:
        if isinstance(item, ToolSpec):
            found.setdefault(item.id, item.model_copy(update={"enrichment": None}))
    specs = list(found.values())
    dense = build.make_dense(settings)
    model = build.language_model(settings, "enrich")
    name = model.name if model else None
    with _enrichment_file(file or folder_of(sources[0]) / ENRICHMENT_NAME, settings, file) as kept:
        if dry_run:
            current = current_lines(specs, kept.read(), name)
            _print_estimate(questions(specs, dense, current), len(current), model, json=json)
            return
        with kept.locked():
            held = kept.read()
            current = current_lines(specs, held, name)
            asked = questions(specs, dense, current)
            report, usage = _ask_model(Enricher(specs, kept, model) if model else None, asked)
    left = len(asked) - len(report.written)
    summary = {"written": len(report.written), "up_to_date": len(current), "left": left}
    refused = [*(item for _, item in entries if isinstance(item, Refusal)), *held.refused]
    changes = _changes(specs, held, report.written or current) if review else []
    if json:
        told = {"dropped": report.dropped, "usage": usage, "failed": report.failed}
        told |= {"file": kept.source, "refused": refused}
        print_json({**summary, **told, **({"review": changes} if review else {})})
    else:
        _print_summary(summary, report, kept.source)
        print_refusals("refused", refused)
        _show(changes)
    if left:
        raise typer.Exit(EXIT_NOT_CLEAN)


@contextmanager
def _enrichment_file(
    beside: Path, settings: Settings, named: Path | None
) -> Generator[KeptEnrichments]:
    """Enrichments in the named file, else beside the sources or in the database of the settings."""
    if named is not None or settings.enrichments == "file":
        yield EnrichmentFile(beside)
        return
    if settings.store == build.MEMORY:
        raise SettingsError(
            "enrichments is `database`, which :memory: lacks: set it to `file`, or name a store"
        )
    with closing(build.open_records_db(settings.store, settings)) as records_db:
        yield EnrichmentTable(records_db, DEFAULT_NAMESPACE)


def _public_entries(entries: Sequence[Entry], settings: Settings) -> Sequence[Entry]:
    """The entries, without tools that `toolcrib index` would hold back from models."""
    specs = [item for _, item in entries if isinstance(item, ToolSpec)]
    if not settings.audit or not blocks(audit_all(specs)):
        return entries
    with closing(build.open_records_db(settings.store, settings)) as records_db:
        return Quarantine(records_db, DEFAULT_NAMESPACE).screen_entries(entries)


KEPT_ENRICHMENTS_NOTE = "texts written so far are kept; the same command writes the rest"


def _ask_model(
    enricher: Enricher | None, asked: Sequence[Question]
) -> tuple[EnrichmentReport, Sequence[ModelUsage]]:
    if not asked:
        return EnrichmentReport(), ()
    if enricher is None:
        raise SettingsError(
            "no language model is set; name one: TOOLCRIB_LLM__MODEL and TOOLCRIB_LLM__BASE_URL"
        )
    with count_usage() as meter, show_counts("asking", KEPT_ENRICHMENTS_NOTE) as listener:
        told = partial(listener, "asking")
        report = asyncio.run(_until_stopped(enricher, asked, told))
    return report, meter.usage


async def _until_stopped(
    enricher: Enricher, asked: Sequence[Question], told: Callable[[int, int], None]
) -> EnrichmentReport:
    """Run; the first signal waits for running requests, the second signal does not."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        enricher.stop()
        err.print(f"[yellow]stopping:[/] {KEPT_ENRICHMENTS_NOTE}")
        for each in signals:
            loop.remove_signal_handler(each)

    # Windows and threads other than the main thread have no signal handlers.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        for each in signals:
            loop.add_signal_handler(each, stop)
    return await enricher.run(asked, told)


def _print_estimate(
    asked: Sequence[Question], current: int, chat: LanguageModel | None, *, json: bool
) -> None:
    model = chat.name if chat else None
    tokens = sum(question.chars for question in asked) // CHARS_PER_TOKEN
    answers = ANSWER_TOKENS * len(asked)
    cost = chat.price.of(tokens, answers) if chat and chat.price else None
    counted = {"calls": len(asked), "up_to_date": current, "model": model}
    spent = {"input_tokens": tokens, "output_tokens": answers, "cost": cost}
    value = {**counted, **spent, "tools": [question.spec.id for question in asked]}
    costs = "" if cost is None else f", cost about {cost:.2f}"
    text = (
        f"{count_of(len(asked), 'call')} of {model or 'a model that is not set yet'}, about "
        f"{tokens:,} tokens in and {answers:,} out{costs}; {current} up to date"
    )
    print_either(value, text, json=json)


def _print_summary(summary: dict[str, int], report: EnrichmentReport, where: str) -> None:
    out.print(
        f"[bold]{summary['written']} written, {summary['up_to_date']} up to date[/] in "
        f"{escape(where)}"
    )
    print_refusals("dropped", report.dropped)
    print_refusals("failed", report.failed)
    if summary["left"]:
        out.print(f"[yellow]{summary['left']} left[/]: the same command writes them")


def _changes(
    specs: Iterable[ToolSpec], before: Enrichments, lines: Mapping[str, EnrichmentLine]
) -> list[dict[str, Any]]:
    """For each tool: its author's description, the new texts, and the former texts."""
    return [
        {
            "id": spec.id,
            "description": spec.description,
            "before": [t for line in before.lines.get(spec.id, ())[-1:] for t in _texts(line)],
            "after": list(_texts(lines[spec.id])),
        }
        for spec in specs
        if spec.id in lines
    ]


def _show(changes: Iterable[Mapping[str, Any]]) -> None:
    for each in changes:
        out.print(f"[bold]{escape(each['id'])}[/]\n  [dim]{escape(each['description'])}[/]")
        old, new = each["before"], each["after"]
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
