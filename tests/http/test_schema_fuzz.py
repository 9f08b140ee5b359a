"""Whatever is made up from the OpenAPI document, the service answers as that document says."""

from __future__ import annotations

import pytest

from benchmarks.fuzz_service import answers, fuzz, stock
from toolcrib.http.app import ENDPOINTS

SEED = 1


@pytest.fixture(scope="module")
def fuzzed(start, tmp_path_factory):
    reports = tmp_path_factory.mktemp("reports")
    (reports / "monday.html").write_text("<h1>Monday</h1>", encoding="utf-8")
    with start(reports=str(reports), gateway_config=str(reports / "mcp.json")) as started:
        yield started


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grant", "phases", "examples"),
    [
        ({"namespaces": ("*",), "access": "admin"}, ("examples", "fuzzing", "stateful"), 2),
        ({"servers": frozenset({"mail"}), "max_sensitivity": "public"}, ("fuzzing",), 1),
    ],
    ids=["a key that may do everything", "a key that sees little"],
)
def test_no_answer_is_a_fault_or_other_than_documented(fuzzed, tmp_path, grant, phases, examples):
    with fuzzed.client() as client:
        known = stock(client)
    found = fuzz(
        fuzzed.url,
        tmp_path,
        key=fuzzed.key(**grant),
        known=known,
        examples=examples,
        seed=SEED,
        phases=phases,
    )
    assert list(found.failures) == [], found.log
    assert found.operations == len(ENDPOINTS)
    assert found.cases >= len(ENDPOINTS) * examples // 2
    assert ("POST /v1/tools/search", "200") in answers(fuzzed.url)
