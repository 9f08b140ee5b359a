"""Bad input, kind by kind, each refused with its place and cause."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.indexers.readers.conformance import read_source, split, write
from toolcrib.indexers.readers.base import MAX_SOURCE_BYTES
from toolcrib.indexers.readers.registry import formats
from toolcrib.records import Refusal

GOOD = {"name": "good", "tags": ["t"]}


def refused(path: Path, content: bytes | str | None = None) -> str:
    """Reason of the one refusal that is all that `path` yields."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    (refusal,) = read_source(str(path))
    assert isinstance(refusal, Refusal)
    assert (refusal.source, refusal.place) == (str(path), "")
    return refusal.reason


def invisible(field: str, character: str, position: int) -> str:
    return f"{field}: invisible character {character} at position {position}"


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGE_BOMB = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)
TOO_MANY = "aliases up to *a5 at line 7 stand for more than 1,000,000 values"


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("t.json", '{\n  "tools": [}\n', "not valid JSON: expected value at line 2 column 13"),
        ("t.json", "[" * 100_000, "not valid JSON: nested deeper than 200 levels"),
        ("t.json", '{"a":' * 5_000, "not valid JSON: nested deeper than 200 levels"),
        (
            "t.yaml",
            "tools:\n  - name: a\n - b\n",
            "not valid YAML: did not find expected key at line 3",
        ),
        (
            "t.yaml",
            "a: !!python/object/apply:os.getcwd []\n",
            "not valid YAML: could not determine",
        ),
        ("t.yaml", "a: 1\n---\nb: 2\n", "not valid YAML: expected a single document"),
        ("t.yaml", "? [a]\n: b\n", "not valid YAML: a key must be text at line 1 column 3"),
        ("t.yaml", "a: &a [*a]\n", "not valid YAML: alias *a at line 1 contains itself"),
        ("t.yaml", BOMB, f"not valid YAML: {TOO_MANY}"),
        ("t.yaml", MERGE_BOMB, f"not valid YAML: {TOO_MANY}"),
        ("t.yaml", "[" * 100_000, "not valid YAML: nested deeper than 200 levels at line 1"),
        ("t.yaml", "- " * 100_000, "not valid YAML: nested deeper than 200 levels at line 1"),
        ("t.yaml", "a: b\0", "not valid YAML: unacceptable character #x0000"),
        ("t.json", b'[{"name": "caf\xe9"}]', "not UTF-8: byte 0xe9 at position 14"),
        ("t.json", '{"name": "a"}'.encode("utf-16"), "not UTF-8: byte 0xff at position 0"),
        ("t.json", "", "the file is empty"),
        ("t.yaml", "\ufeff \n", "the file is empty"),
        ("t.yaml", "# nothing yet\n", "holds no tools"),
        ("t.json", "[]", "holds no tools"),
        ("t.json", '{"tools": []}', "holds no tools"),
        ("t.jsonl", "", "holds no tools"),
        ("t.jsonl", '{"name": "a"', "line 1: not valid JSON: EOF while parsing an object"),
        ("t.gz", b"\x1f\x8bdamaged file", "damaged gzip file: Unknown compression method"),
        (
            "t.json.gz",
            gzip.compress(b"[]", mtime=0)[:-9],
            "damaged gzip file: Compressed file ended",
        ),
    ],
)
def test_what_cannot_be_read_at_all(tmp_path, file, content, reason):
    assert refused(tmp_path / file, content).startswith(reason)


@pytest.mark.parametrize(
    ("content", "shape"),
    [
        (json.dumps(dict.fromkeys("bac")), "an object with the keys 'a', 'b', 'c'"),
        (
            json.dumps(dict.fromkeys("bacdef")),
            "an object with the keys 'a', 'b', 'c', 'd', 'e', 'f'",
        ),
        ('{"tools": {"a": 1}}', "an object with the keys 'tools'"),
        ("[1, 2]", "a list"),
        ('[{"title": "x"}]', "a list"),
        ("42", "a number"),
        ('"text"', "text"),
        ("true", "true or false"),
    ],
)
def test_a_shape_that_nobody_knows(tmp_path, content, shape):
    known = ", ".join(formats())
    expected = f"{shape} is not a shape that is known; say which of {known} with --format"
    assert refused(tmp_path / "t.json", content) == expected


def test_a_shape_that_nobody_knows_forced(tmp_path):
    path = write(tmp_path, "t.json", "42")
    for name in ("toolspec", "functions"):
        [refusal] = read_source(path, format=name)
        assert refusal == Refusal(path, "", "must be a list or an object, not a number")


@pytest.mark.parametrize("file", ["t.json", "t.yaml", "noending"])
def test_a_file_over_the_limit_is_not_read(tmp_path, file):
    path = tmp_path / file
    with path.open("wb") as sparse:
        sparse.truncate(50 * 2**20)
    assert refused(path).startswith("larger than 33,554,432 bytes (52,428,800 on disk)")


def test_a_small_file_that_unpacks_to_a_large_one(tmp_path):
    packed = gzip.compress(b" " * (MAX_SOURCE_BYTES + 1))
    reason = refused(tmp_path / "t.json.gz", packed)
    assert reason.startswith(f"larger than 33,554,432 bytes ({len(packed):,} on disk)")


def test_a_file_that_does_not_exist(tmp_path):
    assert refused(tmp_path / "nope.json").startswith("there is no such file or folder")


def test_a_file_that_vanishes_while_it_is_read(tmp_path, monkeypatch):
    def fail(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "t.json").write_text("[]")
    monkeypatch.setattr(Path, "open", fail)
    assert refused(tmp_path / "t.json") == "cannot be read: Permission denied"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"description": "x", "tags": []}, "name: missing"),
        ({"name": None, "tags": []}, "name: missing"),
        ({"name": ""}, "name: empty"),
        ({"name": "..."}, "name: a name needs at least one letter or digit"),
        ({"name": 7}, "name: must be text, not a number"),
        ({"name": "x" * 600}, "name: 600 characters; at most 512 are accepted"),
        ({"name": "a", "input_schema": []}, "input_schema: must be an object, not a list"),
        ({"name": "a", "input_schema": "{}"}, "input_schema: must be an object, not text"),
        ({"name": "a", "tags": "x"}, "tags: must be a list, not text"),
        ({"name": "a", "tags": ["x", 1]}, "tags[1]: must be text, not a number"),
        ({"name": "a", "annotations": [1], "x": 1}, "annotations: must be an object, not a list"),
        ({"name": "a", "enabled": "perhaps"}, "enabled: must be true or false, not text"),
        (
            {"name": "a", "cost_estimate": -1},
            "cost_estimate: Input should be greater than or equal",
        ),
        ({"name": "a", "avg_latency_ms": "slow"}, "avg_latency_ms: must be a number, not text"),
        ({"name": "a", "description": "x" * 2**20}, "description: 1,048,576 characters; at most"),
        ({"name": "a\x07b"}, invisible("name", "U+0007 (control character)", 1)),
        ({"name": "a\nb"}, invisible("name", "U+000A (control character)", 1)),
        ({"name": "pay\u200bment"}, invisible("name", "U+200B (ZERO WIDTH SPACE)", 3)),
        ({"name": "\u202egnp.exe"}, invisible("name", "U+202E (RIGHT-TO-LEFT OVERRIDE)", 0)),
        (
            {"name": "a", "server": "s\ufeff"},
            invisible("server", "U+FEFF (ZERO WIDTH NO-BREAK SPACE)", 1),
        ),
        ({"name": "a", "id": "x\u0085y"}, invisible("id", "U+0085 (control character)", 1)),
        ({"name": "a", "description": "\ud800"}, "holds half of a surrogate pair"),
        ({"name": "a", "annotations": {"x": float("nan")}}, "holds a value that JSON cannot"),
        ("text", "a tool must be an object, not text"),
        (None, "a tool must be an object, not null"),
    ],
)
def test_a_bad_tool_is_refused_alone(tmp_path, bad, reason):
    path = write(tmp_path, "tools.json", {"tools": [bad, GOOD]})
    [tool], [refusal] = split(read_source(path))
    assert (tool.name, refusal.source, refusal.place) == ("good", path, "tools[0]")
    assert refusal.reason.startswith(reason)


def test_a_bad_line_is_refused_with_its_number(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b'{"name": "a", "tags": []}\n{"name": \n\n"text"\n{"name": "caf\xe9"}\n'
        + b"[" * 9_000
        + b"\n"
        b'{"name": "b", "description": "\\ud800"}\n{"name": "c"}'
    )
    tools, refusals = split(read_source(str(path)))
    assert [tool.name for tool in tools] == ["a", "c"]
    assert [(refusal.place, refusal.reason) for refusal in refusals] == [
        ("line 2", "not valid JSON: EOF while parsing a value at column 8"),
        ("line 4", "a tool must be an object, not text"),
        ("line 5", "not UTF-8: byte 0xe9 at position 13; save the file as UTF-8"),
        ("line 6", "not valid JSON: nested deeper than 200 levels"),
        ("line 7", "holds half of a surrogate pair, which is no character"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("filler", "said"),
    [
        (b"\n", "blank or overlong lines without end"),
        (b"x", "blank or overlong lines without end"),
        (b"{}\n", "10,000 wrong entries in a row"),
    ],
)
def test_a_little_file_that_unpacks_to_gigabytes_keeps_no_good_file_out(tmp_path, filler, said):
    good = b'{"name": "before", "tags": []}\n{"name": "between"}\n'
    # The same member again and again: packing two gigabytes would take longer than reading them.
    member = gzip.compress(filler * (2**24 // len(filler)))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(good) + member * 128)
    (tmp_path / "b.jsonl").write_text('{"name": "after", "tags": []}\n{"name": "last"}\n')
    assert (tmp_path / "a.jsonl.gz").stat().st_size < 4 * 2**20
    tools, refusals = split(read_source(str(tmp_path)))
    assert [tool.name for tool in tools] == ["before", "between", "after", "last"]
    assert said in refusals[-1].reason
    assert refusals[-1].reason.endswith("the rest is not read")
