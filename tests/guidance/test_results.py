"""A failure is read from what a server says, whichever way it says it; a report of one is none."""

from __future__ import annotations

import json

import pytest

from toolcrib.errors import UnknownToolError
from toolcrib.guidance.results import (
    has_failed,
    is_acknowledgement,
    is_empty,
    states_failure,
    text_of,
    truncation,
)

LONG = "All about it, line by line. " * 20

FAILURES = [
    str(UnknownToolError("mail__sned", ["mail__send"])),
    "the arguments of 'mail/send' must be an object, or JSON of one, not list: [1]",
    "Tool call timed out.",
    *("Fehler: Datei fehlt", "Erreur : fichier manquant", "ошибка: нет файла", "خطأ: لا يوجد ملف"),
    *("エラーが発生しました", "错误：没有文件", "오류: 파일 없음"),
    "Document /tmp/report.docx does not exist",
    "Unknown tool: rent_boat",
    "HTTP error! Status: 403",
    "Error executing tool list_rows: Sheet 'May' not found",
    "ls: cannot access 'x': No such file or directory",
    "/bin/sh: 1: jq: not found",
    "Navigation timeout of 10000 ms exceeded",
    "### Error\nTimeoutError: locator.click: Timeout 5000ms exceeded. " + LONG,
    f"Failed to fetch https://example.org/a: fetch failed\n{LONG}",
    f"Traceback (most recent call last): {LONG}",
    f"Loading...\nValueError: no such booking\n{LONG}\nCommand completed with return code: 1",
    f"<returncode>1</returncode>\n<output>\n{LONG}\n</output>",
    f"Exit code: 2\nWall time: 0.1 seconds\nOutput:\n{LONG}",
    f"Process exited with code 127\nOutput:\n{LONG}",
    f"No replacement was performed, old_str `{LONG}` did not appear verbatim in /a.py.",
    f"Your edit has a syntax error. Please read this message and then retry.\n{LONG}",
    f'[Your command "ls" is NOT executed. The previous command is still running. {LONG}]',
    "[ERROR] no such row",
    *("export failed", "import refused by the server", "class not found"),
    '  File "a.py", line 6\n    def load(self):\nSyntaxError: expected an except block',
    "The user may not do this: permission denied",
    "Rate limit exceeded, come back later",
    "429 Too Many Requests",
    f"HTTP/1.1 502 Bad Gateway\n{LONG}",
    '{"error": "No presentation is currently loaded"}',
    '{"error": {"code": 7}}',
    '{"success": false, "rows": []}',
    '{"status": "error", "message": "no"}',
    '{"object": "error", "status": 404}',
    '{"isError": true}',
    '{"success": "false"}',
    '{"statusCode": 404, "message": "gone"}',
    '{"title": "Gone", "status": 410, "detail": "It was removed."}',
    '{"errors": [{"message": "no such field"}], "data": null}',
    '{"__type": "ThrottlingException", "message": "Rate exceeded"}',
    "{'error': 'no such user'}",
    "{'success': False, 'rows': []}",
    '{"message": "Required status check is expected.", "status": "405"}',
    '{"errorMessages": ["Issue does not exist."], "errors": {}}',
    '{"errorMessages": [], "errors": {"priority": "It is not on the screen."}}',
    '{"errorCode": "E0000047", "errorSummary": "API call exceeded rate limit."}',
    f"<html>\n<head><title>502 Bad Gateway</title></head>\n<body>{LONG}</body></html>",
    '{"results": [{"success": false}, {"error": "gone"}]}',
    '{"result": {"data": {"ok": false}}}',
    '{"id": 1, "error": "gone"}\n{"id": 2, "error": "gone"}',
    '[{"type": "text", "text": "Error: gone"}]',
    '{"output": "jq: missing", "metadata": {"exit_code": 127, "duration_seconds": 0.1}}',
    '[{"stdout": "", "stderr": "x", "outcome": {"type": "exit", "exit_code": 1}}]',
    '{"stdout": "", "returncode": -9}',
    f'{{"error": "{LONG}',
]
HEALTHY = [
    "",
    *("Fehlerfrei gespeichert", "エラー処理の手引きを保存しました。", "erreurs : 0"),
    "12 passed, 0 failed",
    "404 Main Street, Springfield",
    '{"url": "https://example.org", "status": 503}',
    '{"errors": [{"line": 3}], "data": {"files": 1}}',
    "FAILED tests/test_a.py::test_b - AssertionError\n1 failed, 31 passed in 2.1s",
    "src/a.py:61: error: Incompatible types in assignment",
    "2024-05-03 11:02:07 ERROR worker 4 lost its connection",
    "Found 3 errors in 2 files",
    f"Exit code: 0\nOutput:\n{LONG}\nIt ends with exit code 1 if a row is missing.",
    f"Exit code 1 means that a row is missing.\n{LONG}",
    "12\t    raise ValueError('no such row')",
    "    if row is None:\n        raise ValueError('no such row')",
    "from shop.errors import NotFoundError, TimeoutException",
    "[retry]\ntimeout = 5\n",
    "<file>\n00541|         except Exception as error:\n</file>",
    "No results found.",
    "No error was found",
    "Successfully created rule 'deny invalid tokens'",
    "Script completed, errors: 0\nCommand completed with return code: 0",
    "def load():\n    raise ValueError('cannot load')  # an error\n" + LONG,
    "Common error messages of the shop. " + LONG,
    "[]",
    '{"error": null, "status": "success"}',
    '{"error": "", "rows": [1]}',
    "{'error': None, 'rows': [1]}",
    f'{{"error": null, "rows": ["{LONG}',
    "{'error': '', 'success': True}",
    '{"errorMessages": [], "errors": {}, "key": "IT-4"}',
    "<!doctype html><html><head><title>500 Ways to Tie a Tie</title></head></html>",
    '{"error": 0.25, "estimate": 3}',
    '{"output": "", "metadata": {"exit_code": 0}}',
    '{"stdout": "x", "returncode": null}',
    '{"results": [{"success": false}, {"success": true}]}',
    '{"rows": [], "note": "no error"}',
    f'{{"rows": ["{LONG}',
    "The report of May: what could not be sold. " + LONG,
]


@pytest.mark.parametrize("text", FAILURES)
def test_a_result_that_states_a_failure_is_one_whatever_flag_comes_with_it(text):
    assert states_failure(text)
    assert has_failed(text, success=None, error=None)


@pytest.mark.parametrize("text", HEALTHY)
def test_a_result_about_failures_of_others_is_none(text):
    assert not states_failure(text)
    assert not has_failed(text, success=True, error=None)


def test_the_flag_decides_where_the_text_only_has_a_word_of_failure():
    ticket = "cannot log in since May"

    assert has_failed(ticket, success=None, error=None)
    assert not has_failed(ticket, success=True, error=None)
    assert not has_failed("HTTP/1.1 502 Bad Gateway", success=True, error=None)
    assert has_failed("done", success=False, error=None)
    assert has_failed("done", success=None, error="refused")
    assert not has_failed("done", success=True, error="a warning")
    assert has_failed('{"error": "refused"}', success=True, error=None)


def test_a_result_nested_without_end_or_of_many_documents_is_read_in_time():
    assert not states_failure('{"result": ' * 5_000 + "1" + "}" * 5_000)
    assert states_failure('{"error": "gone"}\n' * 20_000)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image"}], '[{"type": "image"}]'),
        ([{"type": "text", "text": ""}, {"type": "image"}], "\n[image bd2ce46c]"),
        ([{"text": "a"}, {"rows": 1}], '[{"text": "a"}, {"rows": 1}]'),
        ({"b": 1, "a": "é"}, '{"a": "é", "b": 1}'),
    ],
)
def test_a_result_of_any_shape_has_a_text(result, text):
    assert text_of(result) == text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("Total rows: 720, Returned: 720\nSample results (first 5 rows):\nRow 1", "5 of 720"),
        ("Showing 20 of 311 files\na\nb", "20 of 311"),
        ("a\n... and 715 more rows", "a part"),
        ("[output truncated]", "a part"),
        ("All 20 rows:\n1\n2", ""),
        ("Total rows: 1, Returned: 1\nSample results (first 5 rows):\nRow 1", ""),
        (json.dumps(list(range(90))), ""),
    ],
)
def test_an_answer_that_says_that_it_was_cut_says_by_how_much(text, part):
    assert truncation(text) == part


def test_an_acknowledgement_and_an_empty_answer_are_told_apart():
    assert is_acknowledgement("Successfully wrote to a.txt")
    assert is_acknowledgement("File saved successfully")
    assert not is_acknowledgement("Query executed successfully. " + LONG)
    assert all(map(is_empty, ("[]", "", "No matches found", '{"total_count": 0}', "0 rows")))
    assert not any(map(is_empty, ("[1]", "none of these: a, b " + LONG, "10 rows", "0.8 %")))
