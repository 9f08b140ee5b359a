"""From data sets and systems to an evaluation: what is asked, counted, left out and reported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from rank_bm25 import BM25Plus

from toolcrib.errors import CalibrationError, MissingExtraError, SettingsError, UnknownToolError
from toolcrib.evaluation.dataset import DataSet, LabelledQuery
from toolcrib.evaluation.measures import PromptTokens, main_measure
from toolcrib.evaluation.results import QueryResult, SetResult, SystemResult
from toolcrib.evaluation.runner import (
    compare_with_first,
    evaluate,
    leg_warnings,
    macro_comparisons,
    summarise,
)
from toolcrib.evaluation.systems.base import Answer, Ranked
from toolcrib.evaluation.systems.ours import OwnSystems
from toolcrib.records import ToolSpec
from toolcrib.settings import Settings
from toolcrib.text import tokenise

TOOLS = tuple(
    ToolSpec(name=name, description=description)
    for name, description in {
        "send_mail": "Send an e-mail message to someone.",
        "read_mail": "Read the messages of an inbox.",
        "weather": "Weather forecast of a city.",
        "calendar": "Create events and meetings.",
        "translate": "Translate text between languages.",
    }.items()
)
QUERIES = (
    LabelledQuery("mail", "send a message", relevant={"send_mail": 1}),
    LabelledQuery("forecast", "forecast of the weather in my city", relevant={"weather": 1}),
    LabelledQuery("meeting", "create a meeting and send it", relevant={"calendar": 2}),
    LabelledQuery("both", "translate messages", relevant={"translate": 1, "read_mail": 1}),
    LabelledQuery("none", "mow the lawn", answerable=False, unanswerable_scope="corpus"),
)
DATA = DataSet("office", TOOLS, QUERIES, notes=("made for a test",))


class Bm25:
    """A plain BM25 of another library, with a confidence of sorts; knows no restrictions."""

    version = "rank-bm25"

    def __init__(self) -> None:
        self.closed = False

    def index(self, tools: Sequence[ToolSpec]) -> None:
        self._ids = [tool.id for tool in tools]
        self._bm25 = BM25Plus([tokenise(f"{tool.name} {tool.description}") for tool in tools])

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        if among is not None:
            raise NotImplementedError
        scores = self._bm25.get_scores(tokenise(query)) - self._bm25.get_scores(["?"])
        best = [place for place in np.argsort(-scores, kind="stable")[:k] if scores[place] > 0]
        ranked = tuple(Ranked(self._ids[place], float(scores[place])) for place in best)
        confidence = ranked[0].score / (1 + ranked[0].score) if ranked else None
        return Answer(ranked, confidence, "accept" if ranked else "abstain")

    def close(self) -> None:
        self.closed = True


class Fixed:
    """Always the same tools, of those that are asked for."""

    version = "1"

    def __init__(self, *ids: str) -> None:
        self._ids = ids
        self.asked: list[tuple[str, int, Sequence[str] | None]] = []
        self.indexed = 0
        self.closed = False

    def index(self, tools: Sequence[ToolSpec]) -> None:
        self.indexed += 1

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        self.asked.append((query, k, among))
        allowed = [id for id in self._ids if among is None or id in among]
        return Answer(tuple(Ranked(id, 1.0) for id in allowed))

    def close(self) -> None:
        self.closed = True


def _fixed(*ids: str) -> Callable[[], Fixed]:
    return lambda: Fixed(*ids)


def test_end_to_end_with_a_real_ranking():
    evaluation = evaluate([DATA], {"bm25": Bm25, "fixed": _fixed("weather", "calendar")})
    office = evaluation.sets["office"]
    assert (office.tools, office.queries, office.unanswerable) == (5, 5, 1)
    assert office.notes == ("made for a test",)
    bm25, fixed = office.systems["bm25"], office.systems["fixed"]
    # BM25 has the right tool first for each of the four; only "both" needs a second one.
    assert bm25.measures["hit@1"].mean == 1
    assert bm25.measures["completeness@10"].mean == 1
    assert bm25.measures["recall@1"].mean == pytest.approx(3.5 / 4)
    assert bm25.measures["recall@1"].low <= bm25.measures["recall@1"].mean
    assert fixed.measures["mrr"].mean == pytest.approx((1 + 1 / 2) / 4)
    assert fixed.against_first["hit@1"].difference == pytest.approx(1 / 4 - 1)
    assert bm25.against_first == {}
    assert bm25.version == "rank-bm25"


def test_a_system_without_a_confidence_is_judged_by_its_scores_which_are_no_probabilities():
    systems = evaluate([DATA], {"bm25": Bm25, "fixed": _fixed("weather")}).sets["office"].systems
    gates = systems["bm25"].gates
    # Nothing is found for the one unanswerable query: its confidence is 0, below all others.
    assert gates["auroc"] == 1
    assert gates["accepted"] == pytest.approx(4 / 5)
    assert gates["abstained"] == pytest.approx(1 / 5)
    assert gates["accepted_precision"] == 1
    assert systems["fixed"].gates["auroc"] == pytest.approx(0.5)
    assert "ece" not in systems["fixed"].gates
    assert "accepted" not in systems["fixed"].gates


def test_unanswerable_queries_have_an_outcome_but_no_measures():
    outcomes = evaluate([DATA], {"bm25": Bm25}).sets["office"].systems["bm25"].outcomes
    measured = {outcome.query.id: bool(outcome.measures) for outcome in outcomes}
    assert measured == {
        "mail": True,
        "forecast": True,
        "meeting": True,
        "both": True,
        "none": False,
    }
    assert all(outcome.ms > 0 for outcome in outcomes)


def test_tokens_are_those_of_the_returned_tools():
    system = evaluate([DATA], {"fixed": _fixed("weather", "calendar")}).sets["office"].systems
    prompt = PromptTokens(TOOLS)
    tokens = prompt.count(["weather", "calendar"])
    assert system["fixed"].prompt_tokens == tokens
    assert system["fixed"].tokens_saved == pytest.approx(1 - tokens / prompt.whole_registry)
    assert set(system["fixed"].latency_ms) == {"p50", "p99"}
    told, short = system["fixed"].tokens, prompt.count(["weather", "calendar"], "signature")
    assert told["schemas_p50"] == told["schemas_p95"] == tokens > short
    assert told["signatures_p50"] == told["signatures_p95"] == short
    assert (told["menu"], told["searches"]) == (
        prompt.whole_registry,
        pytest.approx(prompt.whole_registry / short),
    )


def test_each_set_gets_a_fresh_system_that_is_indexed_once_and_closed():
    made: list[Fixed] = []

    def create() -> Fixed:
        made.append(Fixed("weather"))
        return made[-1]

    evaluate([DATA, replace(DATA, name="again")], {"fixed": create})
    assert [(system.indexed, system.closed) for system in made] == [(1, True), (1, True)]


def test_a_system_is_closed_when_it_fails():
    broken = Fixed("no-such-tool")
    with pytest.raises(UnknownToolError, match="no-such-tool"):
        evaluate([DATA], {"broken": lambda: broken})
    assert broken.closed


class Stumbling(Fixed):
    """Raises what no error of ours is."""

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        raise RuntimeError("out of luck")


def test_a_library_that_fails_costs_no_other_system_its_figures_and_a_note_says_so():
    systems = {"fixed": _fixed("weather"), "stumbling": Stumbling, "bm25": Bm25}
    office = evaluate([DATA], systems).sets["office"]
    assert list(office.systems) == ["fixed", "bm25"]
    assert office.notes[-1] == "stumbling failed and is not measured: RuntimeError: out of luck"


def test_answers_that_lacked_something_are_counted_in_a_note():
    queries = (
        *QUERIES[:2],
        LabelledQuery("es", "¿qué tiempo hará en la ciudad?", relevant={"weather": 1}),
    )
    with closing(OwnSystems(Settings())) as own:
        data = DataSet("languages", TOOLS, queries)
        found = evaluate([data], {"toolcrib": lambda: own.make("toolcrib")}).sets["languages"]
    assert found.notes == ("toolcrib: 1 of 3 answers are marked 'unsupported-language'",)


class Unnumbered(Fixed):
    """Has no numbers for scores."""

    def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
        return Answer((Ranked("weather", float("nan")),))


def test_a_score_that_is_no_number_is_named_with_its_query():
    systems = {"fixed": _fixed("weather"), "unnumbered": Unnumbered}
    office = evaluate([DATA], systems).sets["office"]
    assert list(office.systems) == ["fixed"]
    assert f"'weather' for the query '{DATA.queries[0].id}' is nan" in office.notes[-1]


def test_the_first_system_must_not_fail():
    with pytest.raises(RuntimeError, match="out of luck"):
        evaluate([DATA], {"stumbling": Stumbling, "bm25": Bm25})


RESTRICTED = DataSet(
    "restricted",
    TOOLS,
    (
        LabelledQuery("free", "weather", relevant={"weather": 1}),
        LabelledQuery(
            "bound",
            "calendar",
            relevant={"calendar": 1},
            candidates=("calendar", "weather"),
            unanswerable_scope="candidates",
        ),
    ),
)


def test_candidates_are_all_that_may_be_returned():
    system = Fixed("translate", "calendar")
    result = evaluate([RESTRICTED], {"fixed": lambda: system}).sets["restricted"]
    assert system.asked[-1] == ("calendar", 10, ("calendar", "weather"))
    by_id = {o.query.id: o for o in result.systems["fixed"].outcomes}
    assert [tool.id for tool in by_id["bound"].answer.ranked] == ["calendar"]
    assert result.notes == ()


def test_a_system_that_cannot_be_restricted_leaves_such_queries_out_and_a_note_says_so():
    systems = {"fixed": _fixed("weather"), "bm25": Bm25}
    result = evaluate([RESTRICTED], systems).sets["restricted"]
    assert [o.query.id for o in result.systems["bm25"].outcomes] == ["free"]
    assert result.systems["bm25"].measures["hit@1"].mean == 1
    # On the one query that both answered they agree.
    assert result.systems["bm25"].against_first["hit@1"].difference == 0
    (note,) = result.notes
    assert note.startswith("bm25 cannot be restricted to given candidates: 1 of 2 queries")


def test_a_system_that_answers_nothing_has_no_figures():
    bound = replace(RESTRICTED, queries=RESTRICTED.queries[1:])
    evaluation = evaluate([bound], {"fixed": _fixed("weather"), "bm25": Bm25})
    bm25 = evaluation.sets["restricted"].systems["bm25"]
    assert (bm25.measures, bm25.latency_ms, bm25.against_first) == ({}, {}, {})
    assert evaluation.macro["bm25"] == {}


def test_without_systems_the_sets_are_described_all_the_same():
    assert evaluate([DATA], {}).sets["office"].queries == 5


def test_a_missing_extra_is_named_before_any_query(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    system = Fixed("weather")
    with pytest.raises(MissingExtraError, match=r"toolcrib\[eval\]"):
        evaluate([DATA], {"fixed": lambda: system})
    assert system.asked == []


def test_not_implemented_is_no_excuse_where_nothing_was_restricted():
    class Unfinished(Fixed):
        def search(self, query: str, k: int, among: Sequence[str] | None = None) -> Answer:
            if query == "translate messages":
                raise NotImplementedError
            return Answer(())

    with pytest.raises(NotImplementedError):
        evaluate([DATA], {"unfinished": Unfinished})


def test_the_macro_average_weighs_sets_alike_whatever_their_size():
    one = replace(DATA, name="one", queries=QUERIES[1:2])
    evaluation = evaluate([DATA, one], {"fixed": _fixed("weather")})
    assert evaluation.macro["fixed"]["hit@1"] == pytest.approx((1 / 4 + 1) / 2)
    assert {"latency_p50_ms", "prompt_tokens", "tokens_saved"} <= evaluation.macro["fixed"].keys()


def test_a_limit_draws_the_same_queries_for_every_system_and_again():
    def asked(seed: int) -> list[tuple[str, ...]]:
        systems = evaluate([DATA], {"a": _fixed(), "b": _fixed()}, limit=3, seed=seed)
        return [
            tuple(outcome.query.id for outcome in system.outcomes)
            for system in systems.sets["office"].systems.values()
        ]

    first, second = asked(0)
    assert first == second
    assert len(first) == 3
    assert asked(0)[0] == first
    assert len({asked(seed)[0] for seed in range(8)}) > 1


def test_progress_counts_the_queries_of_each_system():
    seen: list[tuple[str, int, int]] = []
    evaluate([RESTRICTED], {"bm25": Bm25}, progress=lambda *step: seen.append(step))
    assert seen == [("restricted: bm25", done, 2) for done in (0, 1, 2)]


def test_a_split_without_queries_is_an_error_that_names_the_splits_there_are():
    dev = replace(DATA, queries=tuple(replace(query, split="dev") for query in QUERIES))
    with pytest.raises(SettingsError, match=r"'office' .*'test'.*: dev"):
        evaluate([dev], {"fixed": _fixed()})
    assert evaluate([dev], {"fixed": _fixed()}, split="dev").sets["office"].split == "dev"


def test_two_sets_of_one_name_are_an_error():
    with pytest.raises(SettingsError, match="office"):
        evaluate([DATA, DATA], {"fixed": _fixed()})


@pytest.mark.parametrize("wrong", [{"ks": ()}, {"ks": (0,)}, {"limit": 0}])
def test_numbers_that_ask_for_nothing_are_an_error(wrong: dict[str, object]):
    with pytest.raises(SettingsError, match="at least 1"):
        evaluate([DATA], {"fixed": _fixed()}, **wrong)


def test_no_system_learns_from_what_it_is_measured_on():
    with pytest.raises(SettingsError, match="cannot be the measured split"):
        evaluate([DATA], {"fixed": _fixed()}, learn="test")


class Studious(Fixed):
    """Remembers what it was given to learn from."""

    learned: tuple[str, ...] = ()

    def learn(self, queries: Sequence[LabelledQuery]) -> None:
        Studious.learned = tuple(query.id for query in queries)


def test_a_system_that_can_learn_does_so_from_the_split_named_and_others_are_left_alone():
    extra = LabelledQuery("studied", "weather", split="dev", relevant={"weather": 1})
    data = replace(DATA, queries=(*DATA.queries, extra))
    evaluate([data], {"fixed": _fixed(), "studious": lambda: Studious("weather")}, learn="dev")
    assert Studious.learned == ("studied",)


def test_a_set_without_the_split_to_learn_from_has_a_note():
    office = evaluate([DATA], {"fixed": _fixed("weather")}, learn="dve").sets["office"]
    assert "'dve'" in office.notes[-1]
    assert "learned" in office.notes[-1]


class Generous(Fixed):
    """Finds sets too: always its first two."""

    def complete(self, query: str, coverage: float) -> tuple[str, ...]:
        return self._ids[:2]


def test_sets_of_a_systems_own_size_are_measured_when_a_coverage_is_asked_for():
    systems = {"fixed": _fixed("weather"), "generous": lambda: Generous("weather", "calendar")}
    office = evaluate([DATA], systems, coverage=0.9).sets["office"]
    generous = office.systems["generous"].measures
    # Two of the four answerable queries need one of these, and nothing else.
    assert generous["set_size@90"].mean == 2
    assert generous["coverage@90"].mean == pytest.approx(2 / 4)
    assert "coverage@90" not in office.systems["fixed"].measures
    assert "coverage@90" not in office.systems["generous"].against_first
    note = "fixed does not choose how many tools to return, or is not calibrated"
    assert office.notes == (*DATA.notes, note)


class Unsure(Fixed):
    """Would find sets, had it learned anything."""

    def complete(self, query: str, coverage: float) -> tuple[str, ...]:
        raise CalibrationError("not calibrated")


def test_a_system_that_is_not_calibrated_for_sets_is_measured_on_all_else():
    office = evaluate([DATA], {"unsure": lambda: Unsure("weather")}, coverage=0.9).sets["office"]
    assert "hit@1" in office.systems["unsure"].measures
    assert office.notes[-1].startswith("unsure does not choose how many tools")


PROMPT = PromptTokens([])


def _result(name: str, values: list[float], measure: str = "ndcg@10") -> SystemResult:
    outcomes = [
        QueryResult(LabelledQuery(str(n), "?"), Answer(()), float(n), 0, {measure: value})
        for n, value in enumerate(values)
    ]
    return summarise(name, "1", outcomes, PROMPT, seed=0)


def _results(**values: list[float]) -> dict[str, SystemResult]:
    return {name: _result(name, given) for name, given in values.items()}


GOOD, BAD = [0.9, 0.8, 1.0, 0.7] * 10, [0.4, 0.5, 0.6, 0.3] * 10


def test_latency_is_given_as_percentiles_of_single_searches():
    result = _result("a", [1.0] * 101)
    assert result.latency_ms == {"p50": 50, "p99": 99}


def test_a_consistent_difference_is_significant_and_noise_is_not():
    noisy = [value + (0.1 if n % 2 else -0.1) for n, value in enumerate(GOOD)]
    against = compare_with_first(_results(first=GOOD, bad=BAD, noisy=noisy), seed=0)
    assert against["bad"].against_first["ndcg@10"].difference == pytest.approx(-0.4)
    assert against["bad"].against_first["ndcg@10"].significant
    assert not against["noisy"].against_first["ndcg@10"].significant


def test_more_systems_make_each_p_value_larger():
    alone = compare_with_first(_results(first=GOOD, bad=BAD), seed=0)["bad"]
    among = compare_with_first(_results(first=GOOD, bad=BAD, also=BAD, too=BAD), seed=0)["bad"]
    ratio = among.against_first["ndcg@10"].p / alone.against_first["ndcg@10"].p
    assert ratio == pytest.approx(3)


def test_the_report_warns_where_fusion_is_below_its_own_leg():
    (warning,) = leg_warnings(_results(toolcrib=BAD, lexical=GOOD, dense=BAD), seed=0)
    assert warning.startswith("toolcrib is below its own leg 'lexical' in ndcg@10 (-0.400, p = ")
    assert "for this measure alone" in warning


def test_nothing_is_warned_of_where_fusion_is_ahead_or_a_baseline_is():
    assert leg_warnings(_results(fusion=GOOD, lexical=BAD, dense=GOOD), seed=0) == ()
    assert leg_warnings(_results(toolcrib=BAD, bm25s=GOOD), seed=0) == ()


def test_the_main_measure_is_ndcg_at_ten_or_at_the_largest_cutoff():
    assert main_measure({"ndcg@1": 0, "ndcg@10": 0, "ndcg@50": 0}) == "ndcg@10"
    assert main_measure({"ndcg@1": 0, "ndcg@5": 0, "mrr": 0}) == "ndcg@5"
    assert main_measure({}) == ""


def test_the_first_tool_is_right_if_its_grade_is_positive():
    query = LabelledQuery("q", "?", relevant={"a": 1, "b": 0})
    firsts = {
        tool: QueryResult(query, Answer((Ranked(tool, 1),)), 0, 0).first_is_right for tool in "abc"
    }
    assert firsts == {"a": True, "b": False, "c": False}
    assert not QueryResult(query, Answer(()), 0, 0).first_is_right


def _set(**values: list[float]) -> SetResult:
    queries = len(next(iter(values.values())))
    return SetResult("set", "test", 1, queries, 0, _results(**values))


def test_over_sets_every_set_counts_the_same_whatever_its_size():
    sets = {
        "large": _set(first=[0.5] * 90, other=[0.6] * 90),
        "small": _set(first=[0.9] * 10, other=[0.4] * 10),
    }
    compared = macro_comparisons(sets, seed=0)["other"]["ndcg@10"]
    assert compared.difference == pytest.approx((0.1 - 0.5) / 2)
    assert compared.significant


def test_over_sets_a_gain_on_one_and_a_like_loss_on_another_are_nothing():
    noisy = [0.5 + 0.3 * (-1) ** n for n in range(40)]
    sets = {
        "one": _set(first=[0.5] * 40, other=noisy),
        "two": _set(first=noisy, other=[0.5] * 40),
    }
    assert not macro_comparisons(sets, seed=0)["other"]["ndcg@10"].significant


def test_a_measure_that_a_set_lacks_is_not_compared_over_sets():
    one = _set(first=GOOD, other=BAD)
    other = SetResult(
        "b", "test", 1, 40, 0, {n: _result(n, GOOD, "mrr") for n in ("first", "other")}
    )
    assert macro_comparisons({"a": one, "b": other}, seed=0) == {"other": {}}
