"""`toolcrib.lock` says which tools were approved, and survives whatever happens to it."""

from __future__ import annotations

from collections import ChainMap
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from toolcrib import ToolSpec
from toolcrib.access.quarantine import LockFile
from toolcrib.errors import SourceError, StoreWriteError

MAIL = ToolSpec(name="send_mail", server="mail", description="Send a mail.")
ROWS = ToolSpec(name="read_rows", server="sql", description="Read rows.")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "toolcrib.lock"


def test_what_is_approved_is_there_for_the_next_reader(path):
    LockFile(path).approve([ROWS, MAIL])
    lock = LockFile(path)
    assert lock.read() == {"mail": {MAIL.id: MAIL.digest}, "sql": {ROWS.id: ROWS.digest}}


def test_it_reads_well_under_version_control(path):
    LockFile(path).approve([ROWS])
    LockFile(path).approve([MAIL])
    text = path.read_text()
    assert text.startswith("# Approved by `toolcrib approve`.")
    assert yaml.safe_load(text) == {
        "version": 1,
        "servers": {"mail": {"mail/send_mail": MAIL.digest}, "sql": {"sql/read_rows": ROWS.digest}},
    }
    assert text.index("mail:") < text.index("sql:")


def test_a_changed_tool_replaces_its_digest(path):
    lock = LockFile(path)
    lock.approve([MAIL])
    changed = MAIL.model_copy(update={"description": "Send a parcel."})
    lock.approve([changed])
    assert lock.read() == {"mail": {MAIL.id: changed.digest}}


def test_what_another_process_wrote_is_seen(path):
    watching = LockFile(path)
    assert watching.read() == {}
    LockFile(path).approve([MAIL])
    assert watching.read().keys() == {"mail"}
    path.unlink()
    assert watching.read() == {}


def test_several_writers_lose_nothing(path):
    specs = [ToolSpec(name=f"tool_{n}", server=f"server_{n % 3}") for n in range(12)]
    with ThreadPoolExecutor(len(specs)) as pool:
        list(pool.map(lambda spec: LockFile(path).approve([spec]), specs))
    digests = {spec.id: spec.digest for spec in specs}
    assert dict(ChainMap(*LockFile(path).read().values())) == digests
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\nservers: [\n", "line 3"),
        ("version: 1\nservers:\n  mail: 3\n", "line 3: servers.mail"),
        ("version: 1\nservers:\n  mail:\n    mail/send: no digest\n", "line 4: servers.mail"),
        ("version: 1\n<<<<<<< HEAD\nservers: {}\n", "line 3"),
        ("version: 1\nservers: {a: \x07}\n", "character"),
        ("version: 2\nservers: {}\n", "version"),
        ("", "the whole"),
        ("version: 1\nsrevers: {}\n", "srevers"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(path, text, said):
    path.write_text(text)
    with pytest.raises(SourceError, match=said) as raised:
        LockFile(path).read()
    assert str(path) in str(raised.value)
    with pytest.raises(SourceError):
        LockFile(path).approve([MAIL])
    assert path.read_text() == text


def test_what_is_no_file_of_text_is_refused(path):
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SourceError, match="UTF-8"):
        LockFile(path).read()
    path.unlink()
    path.mkdir()
    with pytest.raises(SourceError, match="cannot be read"):
        LockFile(path).read()


def test_where_nothing_can_be_written_it_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((StoreWriteError, SourceError)):
        LockFile(tmp_path / "file" / "toolcrib.lock").approve([MAIL])
