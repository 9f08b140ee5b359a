"""Legs: a clause is a question of its own to the dense one; a scope's words are counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from toolcrib.encoders.base import SparseVector
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.retrieval.dialogue import OWN_SHARE
from toolcrib.retrieval.fusion import LegScores
from toolcrib.retrieval.legs import EncodedQuery, Legs
from toolcrib.store.base import LegQuery, ListRequest, ScoredPoint, Store, point_id
from toolcrib.store.filters import Equals, Filter

DENSE, LEXICAL = DeterministicEncoder(), LexicalEncoder()
MAIL, PARCEL = "read the mail of today", "tell where the parcel is now"
WHOLE = f"{MAIL}, then {PARCEL}"
WEB = "look it up on the web"


def ask(
    store: Store,
    text: str,
    clauses: Sequence[str] | None = None,
    *,
    words: str = "",
    where: Filter | None = None,
    scope: Filter | None = None,
    depth: int = 20,
) -> dict[int, LegScores]:
    """What the legs say; without `words` the lexical one is silent."""
    rows = None if clauses is None else DENSE.encode_documents(clauses)
    lexical = LEXICAL.encode_query(words)
    query = EncodedQuery(text, DENSE.encode_query(text), lexical, (), rows)
    return Legs(store, query, where, scope, depth).candidates()


@pytest.mark.parametrize("depth", [1, 20])
@pytest.mark.parametrize("clauses", [[MAIL, PARCEL], [PARCEL, MAIL], [PARCEL, MAIL, WHOLE]])
def test_a_tool_is_as_near_as_the_clause_that_it_fits_best(
    indexed: Store, clauses: list[str], depth: int
) -> None:
    found = ask(indexed, WEB, clauses, depth=depth)
    alone = [ask(indexed, clause) for clause in clauses]
    nearest = {point: max(one[point].dense for one in alone) for point in found}
    assert {point: scores.clauses for point, scores in found.items()} == pytest.approx(nearest)


def test_every_clause_brings_what_fits_it_however_deep_the_legs_look(indexed: Store) -> None:
    whole = ask(indexed, WEB, depth=1)
    assert whole.keys() == {point_id("web/search")}
    both = ask(indexed, WEB, [MAIL, PARCEL], depth=1)
    assert both.keys() == whole.keys() | {point_id("mail/read_mail"), point_id("post/track_parcel")}


def test_the_other_legs_do_not_see_clauses(indexed: Store) -> None:
    plain = ask(indexed, WHOLE, words=WHOLE)
    found = ask(indexed, WHOLE, [MAIL, PARCEL], words=WHOLE)
    without = {p: scores._replace(clauses=None, by_clause=()) for p, scores in found.items()}
    assert without == plain


@pytest.mark.parametrize("clauses", [None, []])
def test_a_query_of_one_clause_has_no_word_from_clauses(
    indexed: Store, clauses: list[str] | None
) -> None:
    found = ask(indexed, WHOLE, clauses)
    assert {scores.clauses for scores in found.values()} == {None}


def test_a_filter_holds_for_clauses_too(indexed: Store) -> None:
    found = ask(indexed, WHOLE, [MAIL, PARCEL], where=Equals("server", "mail"))
    assert found.keys() == {point_id("mail/send_mail"), point_id("mail/read_mail")}


def test_the_words_of_a_scope_are_counted_once_for_a_query(
    indexed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[LegQuery]] = []
    search = indexed.search

    def recorded(queries: Sequence[LegQuery]) -> list[list[ScoredPoint]]:
        calls.append([query for query in queries if query.idf_corpus is not None])
        return search(queries)

    monkeypatch.setattr(indexed, "search", recorded)
    mail = Equals("server", "mail")
    found = ask(indexed, PARCEL, words=f"{MAIL} send", where=mail, scope=mail, depth=1)
    assert [len(counted) for counted in calls if counted] == [2]

    alone = ask(indexed, MAIL, words=f"{MAIL} send", where=mail, scope=mail)
    assert {point: scores.lexical for point, scores in found.items()} == pytest.approx(
        {point: alone[point].lexical for point in found}
    )


def test_every_cosine_has_the_factor_of_the_query_and_no_other_score(indexed: Store) -> None:
    rows = DENSE.encode_documents([MAIL, PARCEL])
    query = EncodedQuery(WHOLE, DENSE.encode_query(WHOLE), LEXICAL.encode_query(WHOLE), (), rows)
    plain = Legs(indexed, query, None, None).candidates()
    half = Legs(indexed, replace(query, cosine_factor=0.5), None, None).candidates()
    assert half.keys() == plain.keys()
    for point, scores in plain.items():
        assert scores.clauses is not None
        halves = {"dense": scores.dense / 2, "clauses": scores.clauses / 2}
        if scores.examples is not None:
            halves["examples"] = scores.examples / 2
        if scores.anti_patterns is not None:
            halves["anti_patterns"] = scores.anti_patterns / 2
        by_clause = tuple(each / 2 for each in scores.by_clause)
        assert half[point] == scores._replace(**halves, by_clause=by_clause)


def sparse(*pairs):
    indices, values = zip(*pairs, strict=True)
    return SparseVector(np.array(indices, np.uint32), np.array(values, np.float32))


def test_a_query_led_by_own_words_scores_as_both_do_by_their_shares():
    x, y = np.eye(2, dtype=np.float32)
    own = EncodedQuery("delete_branch", x, sparse((1, 1.0), (7, 2.0)), clauses=x[np.newaxis])
    joined = EncodedQuery("delete_invoice\ndelete_branch", y, sparse((1, 1.0), (3, 1.0)))
    led = joined.blend_with(own, OWN_SHARE)
    assert led.dense is not None
    assert np.isclose(np.linalg.norm(led.dense), 1)
    assert np.isclose(led.dense[0] / led.dense[1], OWN_SHARE / (1 - OWN_SHARE))
    assert led.lexical.indices.tolist() == [1, 3, 7]
    assert np.allclose(led.lexical.values, [1, 1 - OWN_SHARE, 2 * OWN_SHARE])
    assert (led.text, led.naming) == (joined.text, own.text)
    assert led.clauses is own.clauses


def test_a_query_led_by_own_words_does_without_vectors_where_either_lacks_one():
    words = sparse((1, 1.0))
    own = EncodedQuery("x", None, words, ("dense",))
    led = EncodedQuery("y", np.ones(1, np.float32), words).blend_with(own, OWN_SHARE)
    assert (led.dense, led.degraded) == (None, ("dense",))
    assert np.allclose(led.lexical.values, [1])


def test_tools_of_equal_words_tie_whatever_the_engine_adds_up_first(
    indexed: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = ask(indexed, WEB, words=MAIL)
    search = indexed.search_and_list

    def noisy(queries: Sequence[LegQuery], listings: Sequence[ListRequest]):
        found, listed = search(queries, listings)
        return [[ScoredPoint(hit.id, hit.score + 2e-6) for hit in hits] for hits in found], listed

    monkeypatch.setattr(indexed, "search_and_list", noisy)
    again = ask(indexed, WEB, words=MAIL)
    assert any(scores.lexical for scores in exact.values())
    assert {p: s.lexical for p, s in again.items()} == {p: s.lexical for p, s in exact.items()}
