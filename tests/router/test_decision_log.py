"""Every decision is one record, and without a wish for it no word of a user is in there."""

from __future__ import annotations

import json
import resource
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from tests.router.log_conformance import DecisionLogContract, opened, start_writer
from tests.router.log_writer import entry
from tests.router.sample_decisions import MARCH, decision, found, known, said
from toolcrib.errors import SettingsError, StoreDamagedError, StoreWriteError
from toolcrib.records import Context, Entity, KnowledgeResult, Passage, PassageHit, Route
from toolcrib.records.turns import ModelUsage
from toolcrib.router.decision_log import (
    Feedback,
    JsonLinesLog,
    decision_record,
    feedback_record,
    open_log,
    outcome_record,
)
from toolcrib.router.settings import TelemetrySettings
from toolcrib.settings import Settings

WORDS = st.text(alphabet="qxzjkv", min_size=5, max_size=9)
"""Letters that are in none of our own words together."""


def telling(words: list[str], style: int):
    """A decision in which every text of the user's, and all that may quote it, has its words."""
    text = " ".join(words)
    first = words[0]
    passage = PassageHit.of(Passage("handbook", "a.md", text, title=(text,)), 1, 0.5)
    quoting = (f"it names '{first}'", f"a file: {text}", f"{first} is named", f"see {text}, then")
    return decision(
        context=Context(
            text,
            intent="ask",
            domain="office",
            entities=(Entity("person", first, 0, len(first)),),
            signals=(*quoting, quoting[style].upper(), f"({first})", "ends with a question"),
        ),
        kind="both",
        search_text=f"{text} and {first.title()}",
        tools=found("mail/send", query=text, reason=f"{first} is called by its name"),
        knowledge=KnowledgeResult((), (passage,), 0.5, verdict="accept", reason=text),
        signals=(f"history has {first}", f'"{text}"'),
    )


@given(words=st.lists(WORDS, min_size=1, max_size=6), style=st.integers(0, 3))
def test_without_opting_in_no_word_of_the_user_is_in_the_record(words, style):
    made = telling(words, style)
    written = json.dumps(decision_record(made, text=False, at=MARCH)).casefold()
    assert [word for word in words if word in written] == []
    opted_in = json.dumps(decision_record(made, text=True, at=MARCH))
    assert all(word in opted_in for word in words)


@given(words=st.lists(WORDS, min_size=1, max_size=6), style=st.integers(0, 3))
def test_opting_in_adds_one_field_and_changes_no_other(words, style):
    made = telling(words, style)
    with_text = decision_record(made, text=True, at=MARCH)
    with_text.pop("text")
    assert with_text == decision_record(made, text=False, at=MARCH)


def test_a_record_says_when_what_and_how_sure():
    made = decision(
        tools=found("mail/send", sure=0.81234567, threshold=0.5),
        knowledge=known("handbook"),
        kind="both",
        took_ms={"total": 3.14159},
        degraded=("rerank",),
        usage=(ModelUsage("agents", "small", 2, 1, 30, 4, 0.25),),
    )
    assert decision_record(made, text=False, at=MARCH + 0.25) == {
        "kind": "decision",
        "id": "d1",
        "at": "2026-03-01T00:00:00.250+00:00",
        "route": {"kind": "both", "confidence": 0.9, "corrected_from": None},
        "context": {
            "intent": "ask",
            "domain": "office",
            "urgency": "low",
            "sensitivity": "public",
            "language": None,
            "smalltalk": None,
            "need": None,
            "confidence": 0.9,
            "confidences": {},
            "entities": [],
        },
        "tools": {
            "verdict": "accept",
            "confidence": 0.812346,
            "threshold": 0.5,
            "fallback": False,
            "items": [{"id": "mail/send", "score": 1.0, "probability": None}],
        },
        "knowledge": {
            "verdict": "accept",
            "confidence": 0.7,
            "threshold": None,
            "collections": [{"id": "handbook", "confidence": 0.7}],
            "passages": [{"id": "handbook/a.md#0", "score": 0.9}],
        },
        "signals": [],
        "took_ms": {"total": 3.142},
        "degraded": ["rerank"],
        "usage": [
            {
                "use": "agents",
                "model": "small",
                "calls": 2,
                "failed": 1,
                "input_tokens": 30,
                "output_tokens": 4,
                "cost": 0.25,
            }
        ],
    }


def test_with_the_text_everything_that_was_said_stands_in_one_place():
    made = decision(
        context=Context("Ann?", entities=(Entity("person", "Ann", 0, 3),), signals=("asks: Ann",)),
        search_text="mail Ann",
        signals=("asks: Ann", "short"),
    )
    assert decision_record(made, text=True, at=MARCH)["text"] == {
        "turn": "Ann?",
        "search": "mail Ann",
        "entities": [{"type": "person", "text": "Ann", "start": 0, "end": 3}],
        "signals": ["asks: Ann", "short"],
        "reasons": {"route": "it looks like it", "tools": "", "knowledge": ""},
    }


def test_with_the_text_no_secret_is_kept():
    secret = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
    made = decision(
        context=Context(
            f"use {secret}",
            entities=(Entity("secret", secret, 4, 4 + len(secret)),),
            signals=(f"mentions {secret}",),
        ),
        search_text=f"log in: use {secret}",
        tools=found("mail/send", reason=f"{secret} fits"),
    )
    kept = decision_record(made, text=True, at=MARCH)["text"]
    assert (kept["turn"], kept["search"]) == ("use ***", "log in: use ***")
    assert secret[:12] not in json.dumps(kept)


@pytest.mark.parametrize(
    ("signal", "kept"),
    [
        ("ends with a question mark", ["ends with a question mark"]),
        ("a word of need: please", ["a word of need"]),
        ("mentions 'Ann'", ["mentions"]),
        ("mentions Ann", ["mentions …"]),
        ("mentions ann@example.org", ["mentions …"]),
        ("attachment report2.pdf", ["attachment …"]),
        ("mentions Zoë", ["mentions …"]),
        ("'Ann'", []),
        ("", []),
    ],
)
def test_of_a_signal_our_own_words_are_kept(signal, kept):
    made = decision(context=Context("Tell ANN the news", signals=(signal,)))
    assert decision_record(made, text=False, at=MARCH)["signals"] == kept


def test_a_correction_is_kept():
    corrected = replace(decision(), route=Route("tools", "because", corrected_from="knowledge"))
    logged = decision_record(corrected, text=False, at=MARCH)["route"]
    assert logged == {"kind": "tools", "confidence": None, "corrected_from": "knowledge"}


class TestFeedback:
    """What would have been right, and how calls ended."""

    def test_only_what_was_said_is_kept(self):
        assert said(tools=[], outcome="failure") == {
            "kind": "feedback",
            "decision": "d1",
            "at": "2026-03-01T00:01:00.000+00:00",
            "tools": [],  # Nothing being right is something said.
            "outcome": "failure",
        }
        assert said(tools=["mail/send"])["tools"] == ["mail/send"]

    def test_a_note_is_kept_only_with_the_text(self):
        feedback = Feedback(note="Ann wanted something else")
        assert "note" not in feedback_record("d1", feedback, text=False, at=MARCH)
        kept = feedback_record("d1", feedback, text=True, at=MARCH)
        assert kept["note"] == "Ann wanted something else"

    def test_no_secret_is_kept_of_words(self):
        secret = "sk-ant-api03-AbCdEf0123456789AbCdEf0123456789"
        words = f"take {secret}"
        feedback = Feedback(note=words, labels=(words, "billing"), intent=words, domain="mail")
        kept = feedback_record("d1", feedback, text=True, at=MARCH)
        assert (kept["note"], kept["intent"], kept["domain"]) == ("take ***", "take ***", "mail")
        assert kept["labels"] == ["take ***", "billing"]

    def test_how_a_call_ended(self):
        ended = outcome_record("d1", "mail/send", "failure", at=MARCH, took_ms=2.00049)
        assert ended == {
            "kind": "outcome",
            "decision": "d1",
            "at": "2026-03-01T00:00:00.000+00:00",
            "tool": "mail/send",
            "outcome": "failure",
            "took_ms": 2.0,
        }
        assert "took_ms" not in outcome_record("d1", "mail/send", "success", at=MARCH)


class TestSettings:
    """No log unless one is named."""

    def test_nothing_is_logged_by_default_and_no_text(self):
        settings = TelemetrySettings()
        assert open_log(settings) is None
        assert settings.text is False

    def test_bounds_are_those_of_the_log(self, tmp_path):
        log = open_log(TelemetrySettings(str(tmp_path / "a.jsonl"), max_bytes=4096, kept=1))
        assert log is not None
        for number in range(200):
            log.write({"kind": "decision", "id": str(number), "filling": "x" * 100})
        sizes = {f.name: f.stat().st_size for f in tmp_path.iterdir()}
        assert set(sizes) == {"a.jsonl", "a.jsonl.1"}
        assert max(sizes.values()) <= 4096

    def test_a_change_of_the_current_folder_leaves_the_log_where_it_is(self, tmp_path, monkeypatch):
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        log = open_log(TelemetrySettings("a.jsonl"))
        assert log is not None
        log.write({"kind": "decision", "id": "1"})
        monkeypatch.chdir(tmp_path / "elsewhere")
        log.write({"kind": "decision", "id": "2"})
        assert [each["id"] for each in log.read()] == ["1", "2"]
        assert not any(Path.cwd().iterdir())

    def test_a_tilde_is_the_home_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        settings = Settings.model_validate({"telemetry": {"path": "~/a.jsonl"}})
        assert settings.telemetry.path == str(tmp_path / "a.jsonl")

    @pytest.mark.parametrize("name", ["log.txt", "log.db"])
    def test_another_suffix_is_an_error_that_names_the_known_one(self, name):
        with pytest.raises(SettingsError, match=rf"'{name}'.*\.jsonl"):
            TelemetrySettings(name)


# -- JSON Lines: one line a record, rotated, whole again after a torn line --------------------

LENGTH = 300


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logs" / "decisions.jsonl"


class TestJsonLinesLog(DecisionLogContract):
    """Appended, never changed."""


def sized(number: int) -> dict[str, object]:
    """A record whose line is `LENGTH` bytes long."""
    record = {"kind": "decision", "id": f"a-{number:03}", "filling": ""}
    length = len(json.dumps(record, separators=(",", ":"))) + 1
    return record | {"filling": "x" * (LENGTH - length)}


def written(path, count: int, **settings) -> JsonLinesLog:
    log = JsonLinesLog(path, **settings)
    for number in range(count):
        log.write(sized(number))
    return log


def numbers(log: JsonLinesLog) -> list[int]:
    return [int(record["id"][2:]) for record in log.read()]


def test_a_record_is_one_line_of_ascii(path):
    JsonLinesLog(path).write({"kind": "decision", "id": "ä\n"})
    assert path.read_bytes() == b'{"kind":"decision","id":"\\u00e4\\n"}\n'


def test_a_full_file_is_put_aside_and_the_oldest_goes(path):
    log = written(path, 11, max_bytes=3 * LENGTH, kept=2)
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["decisions.jsonl", "decisions.jsonl.1", "decisions.jsonl.2"]
    assert numbers(log) == list(range(3, 11))
    assert path.with_name("decisions.jsonl.1").stat().st_size == 3 * LENGTH
    assert log.find("a-003") == sized(3)


def test_with_none_to_keep_a_full_file_goes(path):
    assert numbers(written(path, 7, max_bytes=3 * LENGTH, kept=0)) == [6]


def test_a_record_that_is_longer_than_a_file_may_be_is_kept_whole(path):
    log = JsonLinesLog(path, max_bytes=LENGTH, kept=2)
    log.write(entry("a", 100))
    log.write(sized(1))
    assert [record["id"] for record in log.read()] == ["a-100", "a-001"]


def test_a_rotation_that_was_broken_off_hides_nothing(path):
    log = written(path, 9, max_bytes=3 * LENGTH, kept=5)
    path.with_name("decisions.jsonl.1").rename(path.with_name("decisions.jsonl.3"))
    assert sorted(numbers(log)) == list(range(9))


def test_threads_write_one_line_after_the_other(path):
    log = JsonLinesLog(path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(log.write, map(sized, range(200))))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(lines, key=itemgetter("id")) == [sized(number) for number in range(200)]


def test_an_empty_line_is_no_broken_record(path, caplog):
    log = written(path, 1)
    with path.open("ab") as file:
        file.write(b"\n")
    log.write(sized(1))
    assert numbers(log) == [0, 1]
    assert not caplog.records


def test_processes_rotate_together_and_lose_nothing(path):
    children = [start_writer(path, name, 200, 20_000) for name in "ab"]
    for child in children:
        child.communicate()
    found = [record["id"] for record in opened(path).read()]
    assert len(found) == len(set(found)) == 400
    assert path.with_name("decisions.jsonl.2").exists()


def test_while_another_process_rotates_a_record_goes_where_it_can(path, monkeypatch):
    monkeypatch.setattr("toolcrib.router.decision_log.ROTATION_TIMEOUT_S", 0)
    log = written(path, 3, max_bytes=3 * LENGTH)
    with FileLock(f"{path}.lock"):
        log.write(sized(3))
    assert numbers(log) == [0, 1, 2, 3]
    assert not path.with_name("decisions.jsonl.1").exists()


@given(st.binary(max_size=60))
def test_whatever_a_crash_left_at_the_end_costs_that_line_only(tmp_path_factory, torn):
    path = tmp_path_factory.mktemp("torn") / "log.jsonl"
    log = written(path, 2)
    with path.open("ab") as file:
        file.write(torn)
    log.write(sized(2))
    records = [record for record in log.read() if "filling" in record]
    assert [record["id"] for record in records] == ["a-000", "a-001", "a-002"]


def test_lines_that_are_no_record_are_counted_in_a_warning(path, caplog):
    log = written(path, 2)
    with path.open("ab") as file:
        file.write(b"no record\n[]\n" + b"[" * 200_000 + b"\n")
    assert numbers(log) == [0, 1]
    [warning] = caplog.messages
    assert str(path) in warning
    assert warning.endswith(": 3")


def test_a_disk_that_takes_a_part_is_an_error_and_the_next_record_is_whole(path):
    log = written(path, 1)
    _, hard = limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(StoreWriteError, match="part of a record"):
            log.write(sized(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.write(sized(2))
    assert numbers(log) == [0, 2]


def test_a_log_that_is_no_file_cannot_be_read(path):
    path.mkdir(parents=True)
    with pytest.raises(StoreDamagedError, match=r"decisions\.jsonl cannot be read"):
        list(JsonLinesLog(path).read())
