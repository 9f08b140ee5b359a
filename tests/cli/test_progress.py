"""Progress of long work: what is told, by what measure, and what Ctrl-C leaves."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from tests.cli.conftest import ENV
from toolcrib import Crib, ToolSpec
from toolcrib.cli import progress, train
from toolcrib.cli.progress import WorkStep, index_progress, show_counts
from toolcrib.records import IndexProgress

HALF = IndexProgress(90, 100, share=0.5)
GRAPH = IndexProgress(100, 100, stage="optimise", share=1.0)


class Lines(io.StringIO):
    """A stream that tells when somebody has written a line with these words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words = words
        self.seen = threading.Event()

    def write(self, text: str) -> int:
        if self.words in text:
            self.seen.set()
        return super().write(text)


@pytest.fixture
def written(monkeypatch):
    """Write notes where they can be read, on a terminal or not."""

    def to(stream, *, terminal=False):
        monkeypatch.setattr(progress, "LINE_INTERVAL_S", 0.01)
        console = Console(file=stream, force_terminal=terminal, width=100, soft_wrap=True)
        monkeypatch.setattr(progress, "notes", console)
        return stream

    return to


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        ((), "sources: 0:00:0"),
        ((HALF,), "indexing: 90 of 100, 50% of the work, about 0:0"),
        ((HALF, GRAPH), "building the graph: 0:00:0"),
    ],
)
def test_without_a_terminal_lines_come_though_the_work_is_silent(written, reports, words):
    lines = written(Lines(words))
    with index_progress() as listener:
        for each in reports:
            listener(each)
        assert lines.seen.wait(20)


def test_a_bar_goes_by_work_and_to_and_fro_where_the_rest_is_not_known(written, monkeypatch):
    bars = []

    class Watched(progress.Progress):
        def __enter__(self):
            bars.append(self)
            return super().__enter__()

    monkeypatch.setattr(progress, "Progress", Watched)
    written(io.StringIO(), terminal=True)
    with index_progress() as listener:
        [bar] = bars
        assert bar.tasks[0].total is None
        listener(IndexProgress(0, 100))
        listener(HALF)
        [task] = bar.tasks
        assert (task.completed / task.total, task.fields["counted"]) == (0.5, "90 of 100")
        listener(GRAPH)
        [task] = bar.tasks
        assert (task.description, task.total) == ("building the graph", None)


def test_quiet_tells_nothing(written):
    stream = written(io.StringIO())
    progress.notes.quiet = True
    with show_counts("asking") as listener:
        listener("asking", 1, 2)
    assert stream.getvalue() == ""


def test_what_is_done_and_goes_on_promises_no_end():
    assert "left" not in str(WorkStep("mining", 10, 10, 1.0))


@pytest.mark.parametrize(
    ("reports", "rebuilt", "said"),
    [
        ((), False, "no tool was written; the same command starts again"),
        ((HALF,), False, "90 tools kept; the same command does the rest"),
        ((HALF, GRAPH), False, "100 tools kept; the same command does the rest"),
        ((HALF,), True, "the old index is still in use; the same command starts again"),
    ],
)
def test_ended_early_it_says_what_is_kept(reports, rebuilt, said, capsys):
    def stop():
        with index_progress(is_rebuilt=rebuilt) as listener:
            for each in reports:
                listener(each)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert capsys.readouterr().err == f"stopped: {said}\n"


def test_the_share_of_an_index_run_goes_by_the_length_of_texts(tmp_path, settings):
    short = [ToolSpec(name=f"short_{n}", description="Do it.") for n in range(256)]
    long = [ToolSpec(name=f"long_{n}", description="word " * 200) for n in range(128)]
    heard = []
    with Crib.open(tmp_path / "store", settings=settings) as crib:
        crib.index_tools(long, short, progress=heard.append)
    told = [each for each in heard if each.stage == "write"]
    shares = [each.share for each in told]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    # Two thirds of the tools, and the smaller part of the work.
    [two_thirds] = [each.share for each in told if each.done == 256]
    assert two_thirds < 0.5


def test_ended_training_names_its_last_checkpoint(tmp_path):
    assert "starts again" in train._interruption_note(tmp_path)
    written = tmp_path / "work" / "checkpoints" / "checkpoint-20"
    written.mkdir(parents=True)
    assert "starts again" in train._interruption_note(tmp_path)
    (written / "trainer_state.json").write_text("{}")
    assert train._interruption_note(tmp_path).startswith(
        f"the last checkpoint is in {written.parent};"
    )


@pytest.mark.e2e
def test_ctrl_c_says_what_is_kept_and_the_same_command_does_the_rest(shell):
    texts = (f"number {n} " * 50 for n in range(6000))
    tools = ({"name": f"t{n}", "server": "s", "description": t} for n, t in enumerate(texts))
    shell.write("many.jsonl", *tools)
    command = [sys.executable, "-m", "toolcrib", "index", "many.jsonl"]
    env = {**os.environ, **ENV}
    with subprocess.Popen(
        command, cwd=shell.folder, env=env, stderr=subprocess.PIPE, text=True
    ) as started:
        folder = shell.folder / ".toolcrib"
        while started.poll() is None and not (folder / "current").exists():
            time.sleep(0.01)
        started.send_signal(signal.SIGINT)
        said = started.stderr.read()
        code = started.wait(120)
    # Python ends by the signal, whatever the exit code, where Ctrl-C met a string that is executed
    # (a dataclass of a module that is being loaded); a shell shows both as 130.
    assert code in {130, -signal.SIGINT}
    assert "Traceback" not in said
    assert "stopped: " in said
    assert "the same command" in said
