"""Cheap looks at a turn: attachments, and the shape of its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Turn
from toolcrib.router.router import LOOKED_AT, MAX_ATTACHMENTS, text_signals

TRACE = """it broke:
Traceback (most recent call last):
  File "x.py", line 1, in <module>
ZeroDivisionError: division by zero"""


def attached(*attachments):
    return text_signals(Turn(text="look at this", attachments=attachments))


@pytest.mark.parametrize(
    ("attachment", "signal"),
    [
        ({"name": "figures.csv"}, "attachment:csv"),
        ({"name": "FIGURES.CSV", "mime": "application/pdf"}, "attachment:csv"),
        ({"name": r"C:\reports\q3.xlsx"}, "attachment:xlsx"),
        ({"name": "/tmp/archive.tar.gz"}, "attachment:gz"),
        ({"name": "README", "mime": "text/Markdown"}, "attachment:markdown"),
        ({"mime": "image/png"}, "attachment:png"),
        ({"mime": "image"}, "attachment:image"),
        ({"name": "Makefile"}, "attachment:unknown"),
        ({"name": "notes." + "x" * 300}, "attachment:" + "x" * 20),
        ("plain-name.pdf", "attachment:pdf"),
    ],
)
def test_what_came_with_a_turn_is_told_by_name_or_else_by_type(attachment, signal):
    assert attached(attachment) == (signal,)


def test_attachments_of_one_kind_are_one_signal():
    assert attached("a.csv", "b.csv", "c.pdf") == ("attachment:csv", "attachment:pdf")


@pytest.mark.parametrize(
    "nonsense", [[None], [42], [{}], [{"name": "  "}], [["a.csv"]], "a.csv", {"name": "a.csv"}, 7]
)
def test_attachments_that_are_none_are_counted_and_never_an_error(nonsense):
    assert text_signals(Turn.model_validate({"text": "x", "attachments": nonsense})) == (
        "attachments-unreadable:1",
    )


def test_what_can_be_read_beside_nonsense_is_read():
    assert attached("a.csv", None, 3, {"size": 9}) == (
        "attachment:csv",
        "attachments-unreadable:3",
    )


def test_of_very_many_attachments_the_first_are_looked_at():
    assert len(attached(*(f"a.x{n}" for n in range(500)))) == MAX_ATTACHMENTS


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        ("why is this slow: SELECT id, name FROM users WHERE age > 3", ("sql",)),
        ("select *\nfrom orders", ("sql",)),
        ("INSERT INTO t VALUES (1)", ("sql",)),
        ("run update users set name = 'x'", ("sql",)),
        ("delete from carts where id = 1", ("sql",)),
        ("select a gift from", ()),
        ("please update the users about the delay", ()),
        (TRACE, ("stack-trace",)),
        ("Exception in thread main\n\tat com.example.Main.run(Main.java:5)", ("stack-trace",)),
        ("panic: runtime error", ("stack-trace",)),
        ("Caused by: java.io.IOException", ("stack-trace",)),
        ("look:\n```python\nprint(1)\n```", ("code-block",)),
        ("```\nSELECT 1 FROM t\n```", ("sql", "code-block")),
        ("how is the weather", ()),
        ("", ()),
    ],
)
def test_the_shape_of_a_text_is_told(text, signals):
    assert text_signals(Turn(text=text)) == signals


def test_of_a_long_text_the_beginning_is_looked_at():
    assert text_signals(Turn(text="x " * LOOKED_AT + TRACE)) == ()


@given(
    text=st.text(max_size=300),
    attachments=st.lists(st.none() | st.integers() | st.text() | st.dictionaries(
        st.sampled_from(["name", "mime", "size"]), st.text() | st.integers(), max_size=3)),
)  # fmt: skip
def test_whatever_comes_signals_are_few_short_and_never_twice(text, attachments):
    signals = text_signals(Turn.model_validate({"text": text, "attachments": attachments}))
    assert len(set(signals)) == len(signals) <= MAX_ATTACHMENTS + 4
    assert all(len(signal) <= 50 for signal in signals)
