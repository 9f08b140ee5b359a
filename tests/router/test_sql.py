"""SQL is told from sentences, with its tables and columns where it can be parsed."""

from __future__ import annotations

import pytest

from toolcrib.records import Turn
from toolcrib.router import sql
from toolcrib.router.router import text_signals
from toolcrib.router.sql import find_sql

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
@pytest.mark.parametrize("parser", [True, False])
def test_statements_are_found_with_and_without_a_parser(text, told, parser, monkeypatch):
    if not parser:
        monkeypatch.setattr(sql, "_sqlglot", lambda: None)
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
        "please select one item from the list",
        "delete from my calendar the dentist",
        "select the best photo from Rome and send it",
        "Select photos from Rome; send them to Ana",
        "select two cities from Italy (big ones) and compare them",
        "please select 3 images from Drive > Holidays",
        "select name from contacts and call him",
        "Select songs from Radiohead",
        "I want to select photos from holidays",
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
@pytest.mark.parametrize("parser", [True, False])
def test_sentences_are_none(text, parser, monkeypatch):
    if not parser:
        monkeypatch.setattr(sql, "_sqlglot", lambda: None)
    assert find_sql(text) is None
    assert text_signals(Turn(text=text)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "select name from customers",
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
@pytest.mark.parametrize("parser", [True, False])
def test_statements_without_capitals_or_marks_are_found_too(text, parser, monkeypatch):
    if not parser:
        monkeypatch.setattr(sql, "_sqlglot", lambda: None)
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
