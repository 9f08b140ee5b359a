"""`toolcrib eval`, `calibrate` and `report`: measure, fit the confidence, read a log."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer
from rich.markup import escape

from toolcrib.cli.opening import open_crib, service_of
from toolcrib.cli.options import (
    GroupWithRun,
    Json,
    Log,
    Queries,
    Seed,
    StoreOption,
    Tools,
    Url,
    complete_systems,
    load_sets,
    logged_records,
    read_json,
)
from toolcrib.cli.output import err, out, print_choices, print_either, print_json, write_file
from toolcrib.cli.progress import NOTHING_KEPT_NOTE, show_counts
from toolcrib.crib import Crib
from toolcrib.errors import SourceError
from toolcrib.problems import EXIT_NOT_CLEAN
from toolcrib.records import Refusal, Turn
from toolcrib.records.codec import is_object
from toolcrib.settings import load_settings

if TYPE_CHECKING:
    from toolcrib.evaluation.calibrate import CalibrationFit
    from toolcrib.evaluation.choices import Choice, ChoiceResult, LabelledTurn
    from toolcrib.evaluation.dataset import DataSet
    from toolcrib.evaluation.results import Evaluation
    from toolcrib.router.choices.questions import QuestionClassifier

DEFAULT_RANKS = "1,3,5,10"
DEFAULT_SYSTEMS = ("toolcrib", "lexical", "dense")

app = typer.Typer(
    cls=GroupWithRun,
    no_args_is_help=True,
    help="Measure how well tools are found, and other choices are made.",
)

DataSets: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(help="Folders with tools.jsonl and queries.jsonl, BEIR folders, public names."),
]


def _split_option(*names: str, help: str) -> Any:
    """Option that takes the same names of splits as a file of queries: `val` is `dev`."""

    def own_name(given: str) -> str:
        from toolcrib.evaluation.dataset import SPLIT_NAMES

        return SPLIT_NAMES.get(given, given)

    return typer.Option(*names, parser=own_name, metavar="NAME", help=help)


Split: TypeAlias = Annotated[str, _split_option(help="Split of the queries: train, dev or test.")]
Limit: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Most queries of a set, drawn at random.")
]
EnrichmentFiles: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE,FILE", help="Also measure toolcrib with each of these enrichments."),
]
Systems: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        autocompletion=complete_systems,
        help="System to measure, or module:factory; may be repeated. `ours`, `baselines`, `all` "
        "are groups.",
    ),
]
Learn: TypeAlias = Annotated[
    str | None,
    _split_option(help="Split that systems first learn from, such as dev."),
]
Coverage: TypeAlias = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, help="Also measure `-k auto` with this coverage."),
]
LabelledFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="Labelled turns, JSON Lines.")
]
LabelledSplit: TypeAlias = Annotated[
    str | None, _split_option("--split", help="Only turns of this split; default: all.")
]
Html: TypeAlias = Annotated[Path | None, typer.Option(help="Write an HTML report here.")]


@app.command("questions")
def questions(
    context: typer.Context,
    file: LabelledFile,
    config: Annotated[
        Path | None,
        typer.Option(help="File of the question; default: `config` of each row, beside FILE."),
    ] = None,
    split: LabelledSplit = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure how turns are classified: rows with `text` and `labels: {branch: id}`."""
    from toolcrib import build
    from toolcrib.evaluation.choices import measure_choices, read_labelled

    settings = load_settings(context.obj)
    dense = build.make_dense(settings)

    @cache
    def classifier_of(name: str) -> QuestionClassifier:
        path = config or file.parent / name
        return build.question_classifier(path, settings, dense=dense)

    def classes_of(row_config: str) -> list[str]:
        name = str(config or row_config)
        return [each.id for each in classifier_of(name).question.classes] if name else []

    turns = read_labelled(file, "branch", split, classes_of)
    if config is None and not all(each.config for each in turns):
        raise typer.BadParameter("not every row names its `config`", param_hint="--config")
    results: list[ChoiceResult] = []
    asked: list[LabelledTurn] = []
    made: list[Choice] = []
    for name in dict.fromkeys(str(config or each.config) for each in turns):
        classifier = classifier_of(name)
        own = [each for each in turns if config is not None or each.config == name]

        def choose(turn: Turn, by: QuestionClassifier = classifier) -> Choice:
            found = by.classify(turn)
            made.append(_one_label(found.branch, found.confidence, found.degraded))
            return made[-1]

        results.append(_measure_with_progress(name, own, choose, split))
        asked += own
    if len(results) > 1:
        again = iter(made)
        results.append(measure_choices("all", asked, lambda _: next(again), split=split or "all"))
    _show_choices("questions", results, html=html, json=json)


@app.command("capabilities")
def capabilities(
    context: typer.Context,
    file: LabelledFile,
    config: Annotated[
        Path | None, typer.Option(help="File of capabilities; default: capabilities.file.")
    ] = None,
    split: LabelledSplit = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure how capabilities are selected: rows with `labels: {capabilities: NAMES}`.

    Capabilities that are always active are not counted.
    """
    from toolcrib import build
    from toolcrib.evaluation.choices import Choice, read_labelled
    from toolcrib.router.choices.capabilities import CapabilityRegistry

    settings = load_settings(context.obj)
    registry = CapabilityRegistry.of(config or settings.capabilities.file)
    names = [each.name for each in registry]
    turns = read_labelled(file, "capabilities", split, lambda _: names)
    selector = build.capability_selector(registry, settings)

    def choose(turn: Turn) -> Choice:
        found = selector.select(turn)
        labels = frozenset(found.active) - selector.always
        return Choice(labels, found.probabilities, found.degraded)

    turns = [replace(each, right=each.right - selector.always) for each in turns]
    found = _measure_with_progress(file.stem, turns, choose, split)
    _show_choices("capabilities", [found], html=html, json=json)


def _one_label(label: str | None, confidence: float | None, degraded: tuple[str, ...]) -> Choice:
    from toolcrib.evaluation.choices import Choice

    if label is None:
        return Choice(frozenset(), degraded=degraded)
    return Choice(frozenset({label}), {} if confidence is None else {label: confidence}, degraded)


def _measure_with_progress(
    name: str, turns: Sequence[LabelledTurn], choose: Callable[[Turn], Choice], split: str | None
) -> ChoiceResult:
    from toolcrib.evaluation.choices import measure_choices

    with show_counts("asking", f"{NOTHING_KEPT_NOTE}; --split makes it shorter") as listener:
        done = partial(listener, name)
        return measure_choices(name, turns, choose, split=split or "all", progress=done)


def _show_choices(
    kind: str, results: Sequence[ChoiceResult], *, html: Path | None, json: bool
) -> None:
    if html is not None:
        from toolcrib.report.decisions import render_choices

        write_file(html, render_choices(kind, results))
    value = {"kind": kind, "sets": [asdict(one) for one in results]}
    print_either(value, partial(print_choices, results), json=json)


@app.command("run")
def run(
    context: typer.Context,
    datasets: DataSets = None,
    store: StoreOption = None,
    tools: Tools = None,
    queries: Queries = None,
    system: Systems = None,
    enrichment: EnrichmentFiles = None,
    split: Split = "test",
    k: Annotated[str, typer.Option("--k", "-k", help="Ranks to measure at.")] = DEFAULT_RANKS,
    learn: Learn = None,
    coverage: Coverage = None,
    shots: Annotated[
        int, typer.Option(min=0, help="Training queries that become examples of each intent.")
    ] = 10,
    limit: Limit = None,
    seed: Seed = 0,
    report: Html = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="The sets are runs of agents: steps.jsonl, tools.jsonl.")
    ] = False,
    run_out: Annotated[Path | None, typer.Option(help="Write TREC run files here.")] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="With --json: every query, for `eval compare`.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure systems on labelled queries, and compare each with the first system."""
    from toolcrib.cli.output import print_evaluation
    from toolcrib.evaluation.dataset import with_shots
    from toolcrib.evaluation.results import as_json

    if steps:
        _require_step_options(context)
        _run_steps(context, datasets or [], system, k, json=json)
        return
    sets = [
        with_shots(data, shots, seed)
        for data in load_sets(context, datasets, store, tools, queries, split)
    ]
    enrichments = [file for file in (enrichment or "").split(",") if file]
    indexed = bool(queries and not tools)
    with _systems(context, store, system, indexed=indexed, enrichments=enrichments) as chosen:
        found = _evaluate(
            sets,
            chosen,
            split=split,
            ks=_ranks(k),
            learn=learn,
            coverage=coverage,
            limit=limit,
            seed=seed,
        )
    more = {**_changed_settings(context), "command": shlex.join(["toolcrib", *sys.argv[1:]])}
    found = replace(found, settings={**found.settings, **more})
    value = as_json(found, per_query=per_query)
    print_either(value, partial(print_evaluation, found), json=json)
    # After the output: a path that cannot be written must not lose the figures.
    _write_files(found, run_out, report)


UNMEASURED_SETTINGS = frozenset(
    {"url", "api_key", "namespace", "service", "server", "gateway", "telemetry", "tokens"}
)
"""Settings that do not affect any measure."""


def _changed_settings(context: typer.Context) -> dict[str, str]:
    """Settings of a file or of the environment that are not the defaults, by dotted name."""
    without: Any = {**dict.fromkeys(UNMEASURED_SETTINGS, True), "llm": {"api_key"}}
    settings = load_settings(context.obj)
    return dict(
        _dotted_names(settings.model_dump(mode="json", exclude_defaults=True, exclude=without))
    )


def _dotted_names(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if is_object(value):
            yield from _dotted_names(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", str(value)


def _evaluate(sets: Sequence[DataSet], systems: Mapping[str, Any], **options: Any) -> Evaluation:
    """Evaluate with progress; the options are those of the runner."""
    from toolcrib.evaluation.runner import evaluate

    with show_counts("asking", f"{NOTHING_KEPT_NOTE}; --limit makes it shorter") as listener:
        return evaluate(sets, systems, progress=listener, **options)


STEP_OPTIONS = frozenset({"datasets", "system", "k", "steps", "json"})
"""Parameters of `eval run` that count with `--steps`."""


def _require_step_options(context: typer.Context) -> None:
    """Refuse options that mean nothing for runs of agents."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if name not in STEP_OPTIONS and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter("does not go with --steps", param_hint=parameter.opts[0])


def _run_steps(
    context: typer.Context, folders: Sequence[str], names: list[str] | None, k: str, *, json: bool
) -> None:
    """Measure how often the tool of a run's first call is among the shown tools."""
    from toolcrib.cli.output import print_refused, print_steps
    from toolcrib.evaluation.steps import evaluate_steps, load_runs

    if not folders:
        raise typer.BadParameter("name a folder with steps.jsonl and tools.jsonl")
    ks = _ranks("10,20" if k == DEFAULT_RANKS else k)
    for folder in map(Path, folders):
        refused: list[Refusal] = []
        tools, runs = load_runs(folder, refused.append)
        print_refused(refused)
        with (
            _systems(context, None, names or ["toolcrib", "rank-bm25"], indexed=False) as chosen,
            show_counts("asking", NOTHING_KEPT_NOTE) as listener,
        ):
            found = evaluate_steps(folder.name, tools, runs, chosen, ks, listener)
        print_either(found, partial(print_steps, found), json=json)


def _write_files(found: Evaluation, run_out: Path | None, report: Path | None) -> None:
    if run_out is not None:
        from toolcrib.evaluation.results import write_runs
        from toolcrib.store.folder import write_errors

        with write_errors(run_out):
            write_runs(found, run_out)
    if report is not None:
        from toolcrib.report.page import render

        write_file(report, render(found))


@app.command("compare")
def compare(
    before: Annotated[Path, typer.Argument(help="Earlier output of `eval --json`.")],
    after: Annotated[Path, typer.Argument(help="New output of `eval --json`.")],
    max_drop: Annotated[
        float,
        typer.Option(min=0.0, help="Largest significant drop of a measure that still passes."),
    ] = 0.0,
    json: Json = False,
) -> None:
    """Exit with 1 if a measure dropped significantly, by more than --max-drop."""
    from toolcrib.cli.output import print_falls
    from toolcrib.evaluation.significance import (
        changed_tools,
        find_falls,
        missing_measures,
        unpaired_queries,
    )

    old, new = read_json(before), read_json(after)
    falls = find_falls(old, new, max_drop)
    gone, unpaired = missing_measures(old, new), unpaired_queries(old, new)
    tools = changed_tools(old, new)
    value = {
        "falls": [asdict(fall) for fall in falls],
        "missing": list(gone),
        "unpaired": [asdict(each) for each in unpaired],
        "tools": tools,
    }
    print_either(value, partial(print_falls, falls, gone, unpaired, tools), json=json)
    if falls:
        raise typer.Exit(EXIT_NOT_CLEAN)


@app.command("mistakes")
def mistakes(
    context: typer.Context,
    datasets: DataSets = None,
    store: StoreOption = None,
    tools: Tools = None,
    queries: Queries = None,
    system: Annotated[
        str, typer.Option(autocompletion=complete_systems, help="System whose mistakes are shown.")
    ] = "toolcrib",
    split: Split = "dev",
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="Most of each kind.")] = 20,
    limit: Limit = None,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Show the worst queries, tools confused with each other, and words that no tool has."""
    from toolcrib.cli.output import print_mistakes
    from toolcrib.evaluation.results import find_mistakes

    sets = load_sets(context, datasets, store, tools, queries, split)
    with _systems(context, store, [system], indexed=bool(queries and not tools)) as chosen:
        found = _evaluate(sets, chosen, split=split, limit=limit, seed=seed)
    for data in sets:
        for name, result in found.sets[data.name].systems.items():
            made = find_mistakes(result.outcomes, data.tools, count)
            about = {"dataset": data.name, "system": name, "split": split}
            shown = partial(print_mistakes, f"{data.name}: {name}", made)
            print_either(about | asdict(made), shown, json=json)


TRAJECTORIES = Path("data/trajectories")


@app.command("agents")
def agents(
    context: typer.Context,
    file: LabelledFile,
    split: LabelledSplit = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure the choice of an agent for turns, by `labels: {agent: TARGET}` of FILE."""
    from toolcrib.build import make_agents
    from toolcrib.evaluation.choices import read_labelled

    router = make_agents(load_settings(context.obj))

    def choose(turn: Turn) -> Choice:
        told, failed = router.route(turn)
        return _one_label(told.target, told.confidence, failed)

    turns = read_labelled(file, "agent", split, lambda _: router.targets.targets)
    found = _measure_with_progress(file.stem, turns, choose, split)
    _show_choices("agents", [found], html=html, json=json)


@app.command("routing")
def routing(
    context: typer.Context,
    file: LabelledFile,
    split: LabelledSplit = None,
    store: StoreOption = None,
    html: Html = None,
    json: Json = False,
) -> None:
    """Measure the routes of turns over an index, by `labels: {route: KIND}` of FILE."""
    from toolcrib.evaluation.choices import read_labelled
    from toolcrib.records.turns import RouteKind

    turns = read_labelled(file, "route", split, lambda _: get_args(RouteKind))
    with open_crib(context, store) as crib:

        def choose(turn: Turn) -> Choice:
            made = crib.route(turn)
            return _one_label(made.route.kind, made.route.confidence, made.degraded)

        found = _measure_with_progress(file.stem, turns, choose, split)
    _show_choices("routing", [found], html=html, json=json)


@app.command("guidance")
def guidance(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help=f"Labelled trajectories, JSONL or folders; default: {TRAJECTORIES}."),
    ] = None,
    split: Annotated[str, _split_option(help="Split of trajectories: dev, test or all.")] = "test",
    json: Json = False,
) -> None:
    """Measure the hits and false alarms of guidance, and list every mistake."""
    from toolcrib.cli.output import print_guidance
    from toolcrib.evaluation.trajectories import evaluate_guidance, load_trajectories

    chosen = paths or [TRAJECTORIES]
    trajectories = list(load_trajectories(chosen, split))
    if not trajectories:
        named = ", ".join(map(str, chosen))
        raise SourceError(named, "", f"holds no trajectory of the split {split!r}")
    found = evaluate_guidance(trajectories, split)
    print_either(found, partial(print_guidance, found), json=json)


@contextmanager
def _systems(
    context: typer.Context,
    store: str | None,
    names: list[str] | None,
    *,
    indexed: bool,
    enrichments: Sequence[str] = (),
) -> Generator[dict[str, Any]]:
    """Factories of the systems by name; their indexes are closed at the end of the block.

    `indexed`: the index in `store` is searched as it is. With `enrichments` each of our systems
    also comes with each of these files.
    """
    from toolcrib import build
    from toolcrib.evaluation.systems.base import BASELINES, OWN_SYSTEMS, PEERS, baseline
    from toolcrib.evaluation.systems.ours import OwnSystems

    settings = load_settings(context.obj)
    ours = [n for n in OWN_SYSTEMS if n != "fusion+rerank" or settings.encoder.reranker is not None]
    groups = {
        "ours": ours,
        "baselines": [*BASELINES],
        "all": [*ours, *BASELINES],
        "peers": [*PEERS],
    }
    defaults = DEFAULT_SYSTEMS[:1] if enrichments else DEFAULT_SYSTEMS
    chosen = list(dict.fromkeys(n for name in names or defaults for n in groups.get(name, [name])))
    factories = {name: baseline(name) for name in chosen if name not in OWN_SYSTEMS}
    dense = build.make_dense(settings)
    with (
        open_crib(context, store) if indexed else nullcontext() as crib,
        closing(OwnSystems(settings, crib)) as own,
    ):
        made: dict[str, Any] = {}
        for name in chosen:
            shown, factory = factories.get(name, ("", None))
            made[shown or name] = partial(factory, dense) if factory else partial(own.make, name)
            for file in enrichments if factory is None else ():
                made[f"{name}+{file}"] = partial(own.make, name, file)
        yield made


def _ranks(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise typer.BadParameter("write whole numbers, as in 1,5,10", param_hint="--k") from None


def calibrate(
    context: typer.Context,
    log: Log = None,
    queries: Annotated[
        Path | None, typer.Option(help="Labelled queries about the tools of the index, JSONL.")
    ] = None,
    from_feedback: Annotated[
        bool,
        typer.Option("--from-feedback", help="Fit to the feedback on the decisions of LOG."),
    ] = False,
    labels: Annotated[
        bool, typer.Option("--labels", help="Fit the labels and cues of the settings (context.*).")
    ] = False,
    store: StoreOption = None,
    split: Annotated[
        list[str] | None,
        _split_option(help="Only queries of this split; may be repeated. Default: all but test."),
    ] = None,
    seed: Seed = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Fit and measure only; keep the calibration in use.")
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="Restore the calibration that toolcrib ships.")
    ] = False,
    json: Json = False,
) -> None:
    """Fit the confidence to your own tools and queries, and keep it beside the index."""
    from toolcrib.evaluation.dataset import checked_data_set, read_queries

    if (queries is not None) + from_feedback + reset + labels != 1:
        reason = "give one of --queries, --from-feedback, --labels and --reset"
        raise typer.BadParameter(reason, param_hint="--queries")
    if log is not None and not from_feedback:
        raise typer.BadParameter("needs --from-feedback", param_hint="LOG")
    ranks = queries is not None or from_feedback
    if dry_run and not ranks:
        raise typer.BadParameter("needs --queries or --from-feedback", param_hint="--dry-run")
    with open_crib(context, store, writes=True, ranks=ranks) as crib:
        if labels:
            crib.learn_labels()
            _print_summary({"labels": "fitted", "saved": True}, json=json)
            return
        if reset:
            crib.tools.save_calibration(None)
            _print_summary({"method": "default", "saved": True}, json=json)
            return
        if queries is None:
            data = _from_feedback(crib, context, log)
        else:
            data = checked_data_set(queries.name, crib.list_tools(), read_queries(queries))
        fit = _fit(crib, data, split, seed)
        if not dry_run:
            crib.tools.save_calibration(fit.calibration)
    _print_summary(_summary(fit, saved=not dry_run), json=json)
    _warn(fit)


def _warn(fit: CalibrationFit) -> None:
    """Warn of worse figures, and of a threshold that refuses few unanswerable queries."""
    from toolcrib.evaluation.calibrate import MAX_FALSE_ACCEPTANCE, refusing_threshold

    if fit.falls:
        worse = ", ".join(SUMMARY_WORDS[name] for name in fit.falls)
        err.print(
            f"[yellow]worse than before: {worse}; give more labelled queries, also unanswerable "
            "queries, or restore the shipped calibration by `toolcrib calibrate --reset`[/]"
        )
    fitted = fit.calibration
    if higher := refusing_threshold(fitted.curves[""], fitted.threshold):
        err.print(
            f"[yellow]threshold {fitted.threshold:g} accepts most of the queries that no tool "
            f"answers; with gate.max_false_acceptance {MAX_FALSE_ACCEPTANCE} it is {higher[0]:g}, "
            f"and refuses {1 - higher[1]:.0%} of the others[/]"
        )


def _from_feedback(crib: Crib, context: typer.Context, log: Path | None) -> DataSet:
    from toolcrib.evaluation.dataset import checked_data_set
    from toolcrib.evaluation.decisions import labelled_queries

    path, records = logged_records(context, log)
    queries = labelled_queries(records, path)
    if not queries:
        raise SourceError(path, "", "holds no decision with feedback that names its right tools")
    return checked_data_set(path, crib.list_tools(), queries)


def _fit(crib: Crib, data: DataSet, split: list[str] | None, seed: int) -> CalibrationFit:
    from toolcrib.evaluation.calibrate import learn

    for note in data.notes:
        err.print(f"[yellow]{escape(note)}[/]")
    data.require_splits(*split or ())
    wanted = split or sorted({query.split for query in data.queries} - {"test"}) or ["test"]
    if "test" in wanted:
        err.print(
            "[yellow]the fit uses queries of the split test: `toolcrib eval` on these queries will "
            "now be too good[/]"
        )
    kept = "the calibration in use is unchanged; the same command starts again"
    with show_counts("asking", kept) as listener:
        return learn(crib, data.split(*wanted), seed=seed, progress=partial(listener, "asking"))


def _summary(fit: CalibrationFit, *, saved: bool) -> dict[str, Any]:
    fitted, before = fit.calibration, fit.before
    return {
        "method": fitted.method,
        "head": fitted.head is not None,
        "queries": fitted.queries,
        "threshold": fitted.threshold,
        **fitted.figures.model_dump(exclude={"queries"}),
        "before": None if before is None else before.model_dump(),
        "by_words": None if fitted.lexical is None else fitted.lexical.figures.model_dump(),
        "falls": list(fit.falls),
        "data_digest": fitted.data_digest,
        "seed": fitted.seed,
        "saved": saved,
    }


SUMMARY_WORDS = {
    "labels": "labels",
    "method": "method",
    "queries": "labelled queries",
    "threshold": "recommended threshold",
    "ece": "calibration error of the confidence (ECE)",
    "log_loss": "logarithmic loss of the confidence",
    "auroc": "AUROC of the confidence",
    "ece_first": "calibration error of the first tool's probability",
    "false_acceptance": "unanswerable queries accepted, where 95 % of the answerable ones are",
    "coverage": "queries accepted at the threshold",
    "precision": "accepted queries with a right first tool",
    "saved": "saved",
}
"""Labels of the summary's lines on a terminal; other fields are only for `--json`."""


def _print_summary(summary: Mapping[str, Any], *, json: bool) -> None:
    if json:
        print_json(summary)
        return
    compared = {"before": summary.get("before"), "by words": summary.get("by_words")}
    for name, words in SUMMARY_WORDS.items():
        if summary.get(name) is None:
            continue
        shown = _figure_text(summary[name])
        for title, figures in compared.items():
            value = None if figures is None else figures.get(name)
            # Figures by words leave out queries for which words find no tool.
            if value is not None and (name != "queries" or value != summary[name]):
                shown += f" [dim]({title} {_figure_text(value)})[/]"
        out.print(f"[dim]{words}:[/] {shown}")


def _figure_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def report(
    context: typer.Context,
    log: Log = None,
    html: Html = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show the routes, times, accuracy and calibration of logged decisions.

    The decisions are those of LOG, or with --url those of a service that the key may see.
    """
    from toolcrib.cli.output import print_decisions
    from toolcrib.evaluation.decisions import summarise

    settings = load_settings(context.obj)
    has_log = log is not None or settings.telemetry.path is not None
    service = service_of(settings, log and str(log), url) if url or not has_log else None
    path, records = logged_records(context, log, service)
    summary = summarise(records)
    if not summary.decisions:
        raise SourceError(path, "", "holds records, but no decision that can be read")
    if html is not None:
        from toolcrib.report.decisions import render_decisions

        write_file(html, render_decisions(summary))
    print_either(asdict(summary), partial(print_decisions, summary), json=json)
