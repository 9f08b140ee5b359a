"""Evidence: every labelled query is asked as it is, and with its right tools hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolcrib import Crib, ToolSpec
from toolcrib.evaluation.calibrate import gather_evidence
from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.retrieval.calibration import FEATURES, QUERY_FEATURES

SHELF = [
    ToolSpec(name="send_mail", server="mail", description="Send a mail to somebody."),
    ToolSpec(name="read_mail", server="mail", description="Read the mail of today."),
    ToolSpec(name="send_parcel", server="post", description="Send a parcel to somebody."),
    ToolSpec(name="gone", server="post", description="Send a mail to somebody.", enabled=False),
]


def _query(text: str, *relevant: str, **fields: Any) -> LabelledQuery:
    grades = dict.fromkeys(relevant, 1.0)
    return LabelledQuery(text, text, relevant=grades, answerable=bool(relevant), **fields)


MAIL = _query("send a mail to somebody", "mail/send_mail")
PARCEL = _query("send a parcel to somebody", "post/send_parcel")
NOTHING = _query("what is the meaning of life")


@pytest.fixture
def full(crib: Crib) -> Crib:
    crib.index_tools(*SHELF)
    return crib


def test_every_ranked_tool_has_features_and_a_label(full: Crib) -> None:
    one = gather_evidence(full, [MAIL, NOTHING])[0]
    assert one.query is MAIL
    assert one.features.shape == (3, len(FEATURES))
    assert one.right.tolist() == [True, False, False]
    assert (one.first_server, one.lost, one.weight, one.hidden) == ("mail", 0, 1.0, False)
    assert one.first_is_right
    assert one.answerable


def test_the_features_are_those_that_answers_are_judged_by(full: Crib) -> None:
    one = gather_evidence(full, [MAIL, NOTHING])[0]
    known = full.tools.retriever.evidence(MAIL.text)
    assert np.array_equal(one.features, known.features)
    assert np.array_equal(one.about, known.query)
    assert one.about.shape == (len(QUERY_FEATURES),)


def test_what_can_be_answered_is_asked_again_without_its_tools(full: Crib) -> None:
    found = gather_evidence(full, [MAIL, PARCEL, NOTHING])
    mail, hidden_mail, parcel, hidden_parcel, nothing = found
    assert not nothing.hidden
    assert [mail.hidden, parcel.hidden] == [False, False]
    for shown, hidden in ((mail, hidden_mail), (parcel, hidden_parcel)):
        assert hidden.hidden
        assert hidden.query is shown.query
        assert len(hidden.right) == len(shown.right) - 1
        assert not hidden.right.any()
        assert not hidden.answerable
        assert hidden.lost == 0
    assert hidden_parcel.first_server == "mail"


def test_tools_whose_texts_are_alike_are_hidden_together(full: Crib) -> None:
    full.index_tools(ToolSpec(name="send_mail", server="mail2", description=SHELF[0].description))
    _, hidden = gather_evidence(full, [MAIL])
    assert len(hidden.right) == 2


def test_hidden_ones_weigh_a_tenth_of_all(full: Crib) -> None:
    found = gather_evidence(full, [MAIL, PARCEL])
    hidden = sum(one.weight for one in found if one.hidden)
    assert hidden / sum(one.weight for one in found) == pytest.approx(0.1)


def test_needed_tools_that_are_not_found_are_counted(full: Crib) -> None:
    query = _query("send a mail to somebody", "mail/send_mail", "no/such", "post/gone")
    one = gather_evidence(full, [query, NOTHING])[0]
    assert one.lost == 2
    assert one.right.sum() == 1


def test_what_is_unanswerable_among_its_candidates_is_asked_of_them_alone(full: Crib) -> None:
    among = ("mail/read_mail", "post/send_parcel")
    query = _query(MAIL.text, candidates=among, unanswerable_scope="candidates")
    [one] = gather_evidence(full, [query])
    assert len(one.right) == 2
    [whole] = gather_evidence(full, [_query(MAIL.text, candidates=among)])
    assert len(whole.right) == 3


def test_what_cannot_be_asked_and_what_finds_nothing_is_left_out(full: Crib) -> None:
    assert gather_evidence(full, [_query("  ")]) == []
    nobody = _query("mail", candidates=("no/such",), unanswerable_scope="candidates")
    assert gather_evidence(full, [nobody]) == []
    assert gather_evidence(full, []) == []


def test_progress_is_told_after_every_query(full: Crib) -> None:
    told: list[tuple[int, int]] = []
    gather_evidence(full, [MAIL, PARCEL], progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]
