"""The page as a whole: one document, complete without a network, and safe to open."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.results import Evaluation, QueryResult, SetResult, SystemResult
from toolcrib.evaluation.systems.base import Answer, Ranked
from toolcrib.report.page import fill, render

VOID = {"meta", "br", "img", "link", "input", "hr"}
FETCHING = {"src", "href", "srcset", "poster", "data", "action", "xlink:href", "background"}
HOSTILE = '</code></svg><script>alert(\'"$\\frac{1}$ &amp;")</script><img src=x onerror=alert(1)>'


class Reader(HTMLParser):
    """Collects what stands in a document, and that every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def values(self, tag: str, name: str) -> list[str]:
        return [v or "" for t, n, v in self.attributes if t == tag and n == name]

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def written(evaluation: Evaluation) -> str:
    return render(evaluation)


@pytest.fixture(scope="module")
def reader(written: str) -> Reader:
    return Reader(written)


def lone(outcome: QueryResult, system: str = "toolcrib", **result) -> Evaluation:
    """One system, one set, one query."""
    measured = SystemResult(system, "1.0", {}, {}, 0.0, 0.0, outcomes=(outcome,), **result)
    one = SetResult("small", "test", 1, 1, 0, {system: measured})
    return Evaluation({"small": one}, {system: {}})


def test_the_page_is_well_formed(reader: Reader):
    assert reader.tags.count("h1") == reader.tags.count("title") == reader.tags.count("main") == 1


def test_nothing_is_loaded_from_anywhere(written: str, reader: Reader):
    assert {"script", "link", "iframe", "img", "object"}.isdisjoint(reader.tags)
    fetched = [value or "" for _, name, value in reader.attributes if name in FETCHING]
    assert all(value.startswith("#") for value in fetched)
    assert "@import" not in written
    assert all(target.startswith("#") for target in re.findall(r"url\(\s*['\"]?([^)]*)", written))


def test_the_same_evaluation_gives_the_same_page(evaluation: Evaluation, written: str):
    assert render(evaluation) == written


def test_colours_of_drawings_are_the_pages_variables(written: str):
    drawings = "".join(re.findall(r"<svg.*?</svg>", written, re.DOTALL))
    defined = set(re.findall(r"(--[\w]+):", written))
    assert not re.search(r"#[0-9a-f]{6}\b", drawings)
    assert set(re.findall(r"var\((--\w+)\)", drawings)) <= defined


def test_every_drawing_says_what_it_shows(reader: Reader):
    labels = reader.values("svg", "aria-label")
    assert len(labels) == reader.tags.count("svg") == 3 * 3
    assert any("Recall at 10: toolcrib 0." in label for label in labels)


def test_several_sets_come_as_a_macro_section_and_one_fold_each(reader: Reader):
    assert "All data sets" in reader.text
    assert reader.values("details", "class").count("set") == 2


def test_a_single_set_stands_open_without_a_macro_section(evaluation: Evaluation):
    one = Evaluation({"office": evaluation.sets["office"]}, evaluation.macro)
    reader = Reader(render(one))
    assert "All data sets" not in reader.text
    assert "set" not in reader.values("details", "class")
    assert reader.tags.count("svg") == 3


def test_versions_warnings_notes_and_settings_are_written(reader: Reader):
    for told in ("bm25s 0.3.16", "below its own leg", "name leak: 12.0%", "--report out.html"):
        assert told in reader.text


def test_worst_queries_show_what_was_wanted_and_what_came_instead():
    query = LabelledQuery(
        "q", "send a letter", relevant={"post/send": 1}, forbidden=frozenset({"rm"})
    )
    answer = Answer((Ranked("rm", 2.0), Ranked("fax/send", 1.0), Ranked("post/send", 0.5)), 0.81)
    reader = Reader(render(lone(QueryResult(query, answer, 1.0, 5, {"ndcg@10": 0.5}))))
    expected = "send a letter post/send rm ✗ forbidden fax/send post/send ✓ 0.50 0.81 sure"
    assert expected in reader.text


def test_parts_without_data_are_left_out_with_the_reason():
    query = LabelledQuery("q", "tell a joke", answerable=False)
    reader = Reader(render(lone(QueryResult(query, Answer(()), 1.0, 0))))
    assert "svg" not in reader.tags
    assert "confidence and cost" in reader.text
    for reason in (
        "Recall by set size: left out, as recall was measured at fewer than two set sizes.",
        "Is the confidence a probability?: left out, as no system gives a confidence.",
        "Time per query: left out, as nothing was timed.",
    ):
        assert reason in reader.text


def test_an_evaluation_of_nothing_still_gives_a_page():
    assert "Nothing was measured." in Reader(render(Evaluation({}, {}))).text


def test_hostile_names_and_queries_are_shown_and_never_obeyed(evaluation: Evaluation):
    office = evaluation.sets["office"]
    evil = replace(office.systems["toolcrib"], name=HOSTILE, version=HOSTILE)
    worst = replace(
        evil.outcomes[0],
        query=LabelledQuery("q", HOSTILE, relevant={HOSTILE: 1}),
        answer=Answer((Ranked(HOSTILE + "2", 1.0),), 0.99),
        measures={"ndcg@10": -1.0},
    )
    evil = replace(evil, outcomes=(worst, *evil.outcomes[1:]))
    systems = {HOSTILE: evil, "bm25s": office.systems["bm25s"]}
    one = replace(office, name=HOSTILE, systems=systems, warnings=(HOSTILE,), notes=(HOSTILE,))
    macro = {HOSTILE: evaluation.macro["toolcrib"], "bm25s": evaluation.macro["bm25s"]}
    sets = {HOSTILE: one, "office": office}
    reader = Reader(render(Evaluation(sets, macro, settings={HOSTILE: HOSTILE})))
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    assert not [name for _, name, _ in reader.attributes if name.startswith("on")]
    assert HOSTILE in reader.text
    assert "$\\frac" in "".join(reader.values("svg", "aria-label"))


def test_letters_that_no_file_can_hold_do_not_stop_the_page():
    query = LabelledQuery("q", "lone \ud800 surrogate", relevant={"天気\x00": 1})
    answer = Answer((Ranked("天気", 1.0),))
    outcome = QueryResult(query, answer, 1.0, 5, {"ndcg@10": 0.0})
    evaluation = lone(outcome, system="天気 \x07\ud800")
    assert "lone ? surrogate" in Reader(render(evaluation)).text


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="'lead' is undefined"):
        fill("decisions.html.jinja")
