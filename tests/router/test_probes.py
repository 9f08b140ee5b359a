"""Probes: SQL is told from sentences, files have kinds, and signals are few and short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.records import Attachment, Turn
from toolcrib.records.turns import MAX_ATTACHMENTS
from toolcrib.router import probes
from toolcrib.router.probes import file_kind, find_sql, text_signals


@pytest.fixture(params=[True, False], ids=["parser", "no-parser"])
def parser(request, monkeypatch):
    """SQL is told from sentences with sqlglot, and without."""
    if not request.param:
        monkeypatch.setattr(probes, "_sqlglot", lambda: None)


STATEMENTS = {
    "SELECT * FROM orders": ("select", ("orders",)),
    "update products set price = 5 where id = 3": ("update", ("products",)),
    "run this: DELETE FROM sessions WHERE age > 30": ("delete", ("sessions",)),
    "INSERT INTO logs (a) VALUES (1);": ("insert", ("logs",)),
    "drop table users;": ("ddl", ("users",)),
    "```sql\nselect region, sum(total) from sales group by 1\n```\nwhat is it?": (
        "select",
        ("sales",),
    ),
}


@pytest.mark.parametrize(("text", "told"), STATEMENTS.items())
@pytest.mark.usefixtures("parser")
def test_statements_are_found_with_and_without_a_parser(text, told):
    found = find_sql(text)
    assert found is not None
    assert (found.kind, found.tables) == told
    assert text[found.start : found.end].lower().startswith(told[0] if told[0] != "ddl" else "drop")


@pytest.mark.parametrize(
    "text",
    [
        "select a restaurant from the list",
        "please delete from the list whatever is old",
        "update the docs set",
        "pick and select colleagues from sales",
        "insert into the box",
        "select the best photo from Rome and send it",
        "Select photos from Rome; send them to Ana",
        "select two cities from Italy (big ones) and compare them",
        "please select 3 images from Drive > Holidays",
        "select name from contacts and call him",
        "Select songs from Radiohead",
        "attach some files: take logs, select lines from server.log",
        "delete from archive everything before May",
        "DELETE from basket all spam!",
        "Delete from basket: milk, eggs",
        "insert into calendar a dentist visit",
        "replace into words: teh by the",
        "drop table reservations at Luigi's",
        "create table for six at Luigi's",
        "create view of the sales dashboard",
        "",
    ],
)
@pytest.mark.usefixtures("parser")
def test_sentences_are_none(text):
    assert find_sql(text) is None
    assert text_signals(Turn(text=text)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "select name from customers",
        "select *\nfrom orders",
        "run update users set name = 'x'",
        "select name, age from customers order by age",
        "select distinct city from shops\nwhat does it give?",
        "please run select id from orders limit 5",
        "what is this? select a.b from c join d on a.x = d.x",
        "explain select a from b where c in (1, 2)",
        "with x as (select 1) select * from x",
        "select case when a then 1 else 2 end from t where b",
        "delete from sessions",
        "delete from sessions s where s.age > 3",
        "insert into logs values (1)",
        "merge into stock s using delivery d on s.id = d.id",
        "truncate table logs.",
        "create table if not exists t (a int)",
        "alter table t add column b text",
    ],
)
@pytest.mark.usefixtures("parser")
def test_statements_without_capitals_or_marks_are_found_too(text):
    found = find_sql(text)
    assert found is not None
    assert all(table.isidentifier() for table in found.tables)
    assert text_signals(Turn(text=text)) == ("sql",)


def test_joined_tables_and_columns_are_told_and_common_tables_are_not():
    found = find_sql(
        "WITH x AS (SELECT id FROM orders) SELECT c.name FROM x JOIN customers c ON c.id = x.id"
    )
    assert found is not None
    assert set(found.tables) == {"orders", "customers"}
    assert {"id", "name"} <= set(found.columns)


# -- signals and files -------------------------------------------------------------------------

TRACE = """it broke:
Traceback (most recent call last):
  File "x.py", line 1, in <module>
ZeroDivisionError: division by zero"""


@pytest.mark.parametrize(
    ("attachment", "kind"),
    [
        ({"name": "figures.csv"}, "csv"),
        ({"name": "FIGURES.CSV", "mime": "application/pdf"}, "csv"),
        ({"name": r"C:\reports\q3.xlsx"}, "xlsx"),
        ({"name": "/tmp/archive.tar.gz"}, "gz"),
        ({"name": "README", "mime": "text/Markdown"}, "markdown"),
        ({"mime": "image/png"}, "png"),
        ({"mime": "image"}, "image"),
        ({"name": "Makefile"}, "unknown"),
        ({"name": "notes." + "x" * 300}, "x" * 20),
        ("plain-name.pdf", "pdf"),
    ],
)
def test_what_came_with_a_turn_is_told_by_name_or_else_by_type(attachment, kind):
    turn = Turn(text="look at this", attachments=[attachment])
    assert text_signals(turn) == (f"attachment:{kind}",)


@pytest.mark.parametrize(
    ("text", "signals"),
    [
        (TRACE, ("stack-trace",)),
        ("Exception in thread main\n\tat com.example.Main.run(Main.java:5)", ("stack-trace",)),
        ("panic: runtime error", ("stack-trace",)),
        ("Caused by: java.io.IOException", ("stack-trace",)),
        ("look:\n```python\nprint(1)\n```", ("code-block",)),
        ("```\nSELECT 1 FROM t\n```", ("sql", "code-block")),
        ("how is the weather", ()),
    ],
)
def test_the_shape_of_a_text_is_told(text, signals):
    assert text_signals(Turn(text=text)) == signals


@given(
    text=st.text(max_size=300),
    attachments=st.lists(st.none() | st.integers() | st.text() | st.dictionaries(
        st.sampled_from(["name", "mime", "size"]), st.text() | st.integers(), max_size=3)),
)  # fmt: skip
def test_whatever_comes_signals_are_few_short_and_never_twice(text, attachments):
    signals = text_signals(Turn.model_validate({"text": text, "attachments": attachments}))
    assert len(set(signals)) == len(signals) <= MAX_ATTACHMENTS + 4
    assert all(len(signal) <= 50 for signal in signals)


SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
SLIDES = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
LETTER = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("attachment", "words", "fact"),
    [
        ({"name": "q3.xlsx", "mime": SHEET}, "spreadsheet", "attachment_table"),
        ({"mime": SHEET}, "spreadsheet", "attachment_table"),
        ({"mime": SLIDES}, "presentation", ""),
        ({"mime": LETTER}, "Word document", "attachment_document"),
        ({"mime": "application/vnd.oasis.opendocument.text"}, "Word document", None),
        ({"mime": "application/vnd.oasis.opendocument.spreadsheet"}, "spreadsheet", None),
        ({"name": "q3.csv", "mime": "application/vnd.ms-excel"}, "CSV table", "attachment_table"),
        ({"name": "scan", "mime": "IMAGE/TIFF"}, "image", "attachment_image"),
        ({"name": "C:\\mail\\order.eml"}, "e-mail message", "attachment_document"),
    ],
)
def test_a_file_has_one_kind_by_its_suffix_or_else_its_type(attachment, words, fact):
    kind = file_kind(Attachment(**attachment))
    assert kind is not None
    assert kind.words == words
    assert fact is None or kind.fact == fact


@pytest.mark.parametrize("name", ["Makefile", "data.xyz", "pdf", "a.pdf.sig"])
def test_an_unknown_file_has_no_kind(name):
    assert file_kind(Attachment(name=name)) is None
