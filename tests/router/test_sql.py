"""SQL is told from sentences, with its tables and columns where it can be parsed."""

from __future__ import annotations

import pytest

from toolcrib.router import sql
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
        "",
    ],
)
def test_sentences_are_none(text):
    assert find_sql(text) is None


def test_joined_tables_and_columns_are_told_and_common_tables_are_not():
    found = find_sql(
        "WITH x AS (SELECT id FROM orders) SELECT c.name FROM x JOIN customers c ON c.id = x.id"
    )
    assert found is not None
    assert set(found.tables) == {"orders", "customers"}
    assert {"id", "name"} <= set(found.columns)
