"""What anyone wrote is converted within limits, and what exceeds them is refused alone."""

from __future__ import annotations

import os
import zlib

import pytest

from tests.documents.making import docx, pdf
from toolcrib.documents.processes import ConversionLimits, Converters
from toolcrib.errors import SourceError

MIB = 2**20
HANG_S = 60


def squeezed(unit, times):
    """So many million of a byte, compressed."""
    squeezer = zlib.compressobj(9)
    pieces = [squeezer.compress(unit * 1_000_000) for _ in range(times)]
    return b"".join([*pieces, squeezer.flush()])


def page(stream, *filters):
    shown = b"[" + b" ".join(b"/" + each for each in filters or (b"FlateDecode",)) + b"]"
    return pdf(stream=stream, beside=b"/Filter " + shown)


ENDLESS = {
    "blanks.html": b"<pre>" + b" " * 300_000 + b"x</pre>",
    "open.html": b"<a " * 300_000,
    "bullets.rst": b"- x\n" * 200_000,
    "enumerated.rst": b"".join(b"%d. x\n" % n for n in range(50_000)),
    "states.pdf": page(zlib.compress(b"q " * 5_000_000)),
}
SMALL = {
    "pdf": page(zlib.compress(b"BT /F1 12 Tf 72 720 Td (Text.) Tj ET")),
    "html": b"<p>Text.</p>",
    "docx": docx(body="<w:p><w:r><w:t>Text.</w:t></w:r></w:p>"),
    "md": b"Text.",
}
MUCH = {
    "long.txt": b"word " * 100_000,
    "titles.md": b"# " + b"a" * 290 + b"\n" + b"## b\nx\n" * 10_000,
    "page.pdf": page(zlib.compress(b"BT /F1 12 Tf 72 720 Td " + b"(word) Tj T* " * 3_000 + b"ET")),
}


def large():
    """Documents that need more memory than is given; only for the test that converts them."""
    return {
        "deep.pdf": page(zlib.compress(squeezed(b"\0", 200)), b"FlateDecode", b"FlateDecode"),
        "wide.pdf": page(squeezed(b" ", 150)),
        "cells.html": b"<table>" + b"<tr>" * 2_000 + b"<td>x" * 80_000,
        "paragraphs.docx": docx(body="<w:p/>" * 400_000),
        "lists.md": b"- a\n" * 100_000,
    }


def converted(converters, name, content, **how):
    kind = {"txt": "text", "md": "markdown"}.get(ending := name.rpartition(".")[2], ending)
    given = {"name": name, "kind": kind, "charset": None, "max_tokens": 200}
    return [part.text for part in converters.convert(content, given, **how)]


def refusal(converters, name, content, **how):
    with pytest.raises(SourceError) as caught:
        converted(converters, name, content, **how)
    assert caught.value.source == name
    return caught.value.reason


@pytest.mark.slow
@pytest.mark.timeout(2 * HANG_S)
def test_what_takes_too_long_is_ended_and_the_next_document_is_read():
    with Converters(ConversionLimits(timeout_s=HANG_S, memory_bytes=2**33)) as converters:
        for name, content in ENDLESS.items():
            # A process that is there already is in the middle of it by then.
            assert converted(converters, "before.md", b"Text.") == ["Text."]
            said = refusal(converters, name, content, timeout_s=0.5)
            assert said.startswith("not converted within 0.5 s")
        assert converted(converters, "next.md", b"Text.") == ["Text."]


@pytest.mark.slow
@pytest.mark.timeout(2 * HANG_S)
def test_what_takes_too_much_memory_is_refused_and_the_next_document_is_read():
    with Converters(ConversionLimits(timeout_s=HANG_S, memory_bytes=128 * MIB)) as converters:
        for name, content in large().items():
            small = SMALL[name.rpartition(".")[2]]
            assert converted(converters, f"small-{name}", small) == ["Text."]
            assert "128 MiB" in refusal(converters, name, content), name
        assert converted(converters, "next.md", b"Text.") == ["Text."]


@pytest.mark.slow
def test_what_holds_too_much_text_is_refused():
    with Converters(ConversionLimits(text_chars=10_000)) as converters:
        said = {refusal(converters, name, content) for name, content in MUCH.items()}
    assert said == {"holds more than 10,000 characters of text; split it"}


def test_the_limit_holds_for_a_caller_with_more_time():
    with Converters(ConversionLimits(timeout_s=0.5, memory_bytes=2**33)) as converters:
        said = refusal(converters, "open.html", ENDLESS["open.html"], timeout_s=HANG_S)
    assert said.startswith("not converted within 0.5 s")


def test_one_process_reads_many_documents_and_ends_with_the_last():
    started = []

    class Watched(Converters):
        def _acquire(self):
            started.append(super()._acquire())
            return started[-1]

    with Watched() as converters:
        for number in range(5):
            assert converted(converters, "a.md", b"Text %d." % number) == [f"Text {number}."]
    assert len({id(each) for each in started}) == 1
    assert not started[0].is_alive


def test_a_process_that_died_while_it_waited_is_replaced():
    with Converters() as converters:
        converted(converters, "a.md", b"Text.")
        (waiting,) = converters._idle
        waiting._process.kill()
        waiting._process.wait()
        assert converted(converters, "a.md", b"Text.") == ["Text."]


def test_it_ends_when_whoever_asked_is_gone():
    with Converters() as converters:
        converted(converters, "a.md", b"Text.")
        (waiting,) = converters._idle
        waiting._process.stdin.close()
        assert waiting._process.wait(timeout=HANG_S) == 0


def test_files_beside_the_documents_are_not_run(tmp_path, monkeypatch):
    (tmp_path / "bs4.py").write_text("import os; os.mkdir('run')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with Converters() as converters:
        assert converted(converters, "a.html", b"<p>Text.</p>") == ["Text."]
    assert os.listdir(tmp_path) == ["bs4.py"]  # noqa: PTH208
