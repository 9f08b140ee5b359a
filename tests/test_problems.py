"""One table says what every error means to the outside."""

from __future__ import annotations

import copy
import pickle

import pytest

import toolcrib
from tests.conftest import error_kinds
from toolcrib import errors
from toolcrib.problems import (
    INTERNAL,
    PROBLEMS,
    exit_code,
    problem_of,
    public_text,
    retry_after,
    slug_of,
)

KINDS = error_kinds()

ROWS = [
    (errors.UnauthenticatedError, "unauthenticated", 401, 2),
    (errors.ForbiddenError, "forbidden", 403, 2),
    (errors.QuarantinedError, "quarantined", 403, 2),
    (errors.UnknownToolError, "unknown-tool", 404, 2),
    (errors.UnknownCollectionError, "unknown-collection", 404, 2),
    (errors.UnknownDecisionError, "unknown-decision", 404, 2),
    (errors.CalibrationError, "calibration", 409, 2),
    (errors.TooLargeError, "too-large", 413, 2),
    (errors.QueryError, "query", 422, 2),
    (errors.SpecError, "spec", 422, 2),
    (errors.SourceError, "source", 422, 2),
    (errors.UnknownFormatError, "unknown-format", 422, 2),
    (errors.FeedbackError, "feedback", 422, 2),
    (errors.RateLimitedError, "rate-limited", 429, 3),
    (errors.SettingsError, "settings", 500, 2),
    (errors.StoreError, "store", 500, 3),
    (errors.StoreDamagedError, "store-damaged", 500, 3),
    (errors.BadPointError, "bad-point", 500, 3),
    (errors.MissingExtraError, "missing-extra", 501, 5),
    (errors.OverloadedError, "overloaded", 503, 3),
    (errors.ServiceUnavailableError, "service-unavailable", 503, 3),
    (errors.StoreUnavailableError, "store-unavailable", 503, 3),
    (errors.StoreLockedError, "store-locked", 503, 3),
    (errors.IndexMismatchError, "index-mismatch", 503, 4),
    (errors.EncoderError, "encoder", 503, 5),
    (errors.LanguageModelRefusedError, "language-model-refused", 503, 5),
    (errors.LanguageModelLateError, "language-model-late", 504, 5),
    (errors.DeadlineError, "deadline", 504, 3),
    (errors.StoreWriteError, "store-write", 507, 3),
]


def error_of(kind, text="words"):
    """An error of a class, whatever its constructor takes."""
    if issubclass(kind, errors.SourceError):
        return kind("source", "place", text)
    return kind(text, "extra") if kind is errors.MissingExtraError else kind(text)


def test_a_star_import_of_errors_hides_no_other_public_name():
    assert set(vars(errors)) & set(toolcrib.__all__) == {"ToolcribError"}


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_passes_from_process_to_process(kind):
    error = error_of(kind)
    for passed in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(passed) is kind
        assert (str(passed), passed.args, vars(passed)) == (str(error), error.args, vars(error))


@pytest.mark.parametrize(("kind", "slug", "status", "code"), ROWS)
def test_the_table_says(kind, slug, status, code):
    error = error_of(kind)
    assert (slug_of(kind), problem_of(error).status, exit_code(error)) == (slug, status, code)


def test_every_class_has_a_slug_of_its_own_and_a_row_of_its_own_or_one_above():
    assert all(problem_of(error_of(kind)) is not INTERNAL for kind in KINDS)
    assert set(PROBLEMS) <= set(KINDS)
    assert len({slug_of(kind) for kind in KINDS}) == len(KINDS)


def test_a_class_of_elsewhere_is_as_the_one_above_it():
    class OddQueryError(errors.QueryError):
        pass

    assert slug_of(OddQueryError) == "query"
    assert problem_of(OddQueryError("x")).status == 422


def test_what_is_no_error_of_ours_is_internal():
    assert (slug_of(KeyError), problem_of(KeyError("x")).status) == ("internal", 500)
    assert "x" not in public_text(KeyError("secret of x")).split()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if issubclass(kind, errors.StoreError)])
def test_no_store_tells_where_it_is(kind):
    assert "qdrant" not in public_text(error_of(kind, "http://qdrant:6333"))


@pytest.mark.parametrize("kind", [errors.QueryError, errors.ForbiddenError, errors.DeadlineError])
def test_what_a_caller_can_mend_is_told(kind):
    assert public_text(error_of(kind, "say it otherwise")) == "say it otherwise"


def test_when_to_ask_again_is_the_errors_word_or_the_tables():
    assert retry_after(errors.OverloadedError("x", retry_after_s=7.5)) == 7.5
    kinds = errors.OverloadedError, errors.StoreUnavailableError, errors.QueryError
    assert [retry_after(kind("x")) for kind in kinds] == [1.0, 1.0, None]
