"""The allowlist: from a database or a file, found in texts, and nothing beside it is kept."""

from __future__ import annotations

import sys

import pytest
import sqlalchemy

from toolcrib.errors import MissingExtraError, SettingsError, SourceError
from toolcrib.router.choices.allowlist import ALLOWLIST_FILE, Allowlist, load_allowlist, reflect
from toolcrib.text import split_words

SHOP = Allowlist.model_validate(
    {
        "tables": {
            "orderItems": ["unit_price"],
            "customers": {"aliases": ["the folks"]},
            "Stores": [],
        }
    }
)


@pytest.mark.parametrize(
    ("text", "tables", "columns"),
    [
        ("order items by unit price", ("orderItems",), ("unit_price",)),
        ("SELECT unit_price FROM orderItems", ("orderItems",), ("unit_price",)),
        ("quantos clientes por loja?", ("customers", "Stores"), ()),
        ("¿las TIENDAS?", ("Stores",), ()),
        ("the folks who left", ("customers",), ()),
        ("restore the customerservice", (), ()),
    ],
)
def test_texts_name_tables_by_whole_words(text, tables, columns):
    assert SHOP.named_in(split_words(text)) == (tables, columns)


SALES = Allowlist.model_validate(
    {"tables": {"orders": ["status", "customer", "total"], "customers": ["id", "city"], "log": []}}
)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT status, COUNT(*) AS n FROM orders GROUP BY status ORDER BY n",
        "SELECT o.total, c.city FROM shop.orders o JOIN customers c ON c.id = o.customer",
        'select STATUS from "orders"',
        "WITH t AS (SELECT SUM(total) AS s FROM orders) SELECT s FROM t",
        "SELECT total FROM orders WHERE customer IN (SELECT id FROM customers)",
        "SELECT status, SUM(total) AS s FROM orders GROUP BY status HAVING s > 1 -- by status",
        "SELECT strftime('%Y', status) FROM orders WHERE status LIKE '5\\%'",
        "SELECT status FROM orders UNION SELECT city FROM customers ORDER BY status",
    ],
)
def test_a_statement_may_read_what_is_on_the_list(statement):
    assert SALES.statement_faults(statement) == ()


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("SELECT id FROM users", "table 'users'"),
        ("SELECT total FROM orders WHERE customer IN (SELECT id FROM users)", "table 'users'"),
        ("SELECT (WITH users AS (SELECT 1 x) SELECT x FROM users), id FROM users", "table 'users'"),
        ("SELECT c.total FROM orders o JOIN customers c ON c.id = o.customer", "column"),
        ("SELECT id FROM customers WHERE password = 1", "column"),
        ("SELECT id AS password, password FROM customers", "column"),
        ("SELECT line FROM log", "column"),
        ("SELECT * FROM orders", "all columns"),
        ("SELECT c.* FROM customers c", "all columns"),
        ("DELETE FROM orders", "reads"),
        ("SELECT status INTO copy FROM orders", "reads"),
        ("WITH x AS (DELETE FROM orders RETURNING status) SELECT status FROM x", "reads"),
        ("SELECT total FROM orders; DROP TABLE orders", "reads"),
        ("SELECT total FROM orders, LATERAL (SELECT password FROM customers) q", "reads"),
        ("SELECT id FROM customers HAVING MAX(password) > 1", "column"),
        ("SELECT x FROM customers AS c(x)", "place"),
        ("SELECT id FROM customers QUALIFY password = 1", "column"),
        ("SELECT id FROM customers HAVING (SELECT MAX(line) FROM log) > 1", "column"),
        ("SELECT total FROM orders FOR UPDATE", "reads"),
        ("SELECT pg_read_file('/etc/passwd')", "function 'pg_read_file'"),
        ("SELECT status FROM orders WHERE query_to_xml('SELECT password')", "function"),
        ("SELECT total FROM orders /*! UNION SELECT password FROM users */", "differently"),
        ("SELECT total FROM orders WHERE 1=1--1 UNION SELECT id FROM users", "differently"),
        (
            r"SELECT id FROM customers WHERE city='\'' UNION SELECT id FROM users -- '",
            "differently",
        ),
        (
            "SELECT id FROM customers WHERE id={#\nd '1'} UNION SELECT id FROM users -- #}\nid",
            "differently",
        ),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "deep"),
        ("SELECT id FROM customers WHERE " + "NOT " * 3000, "characters"),
        ("SELECT (", "SQL"),
        ("", "reads"),
    ],
)
def test_a_statement_with_anything_else_has_a_fault(statement, fault):
    assert any(fault in each for each in SALES.statement_faults(statement))


def test_a_plan_that_names_other_tables_or_columns_is_told_which():
    names = SALES.unlisted_names(["Orders", "users"], ["orders.status", "password"])
    assert names == ("users", "password")


def test_a_table_of_another_schema_is_another_table():
    allowlist = Allowlist.model_validate({"tables": {"shop.orders": ["total"]}})
    for table in ("orders", "shop.orders", "db.shop.orders"):
        assert allowlist.statement_faults(f"SELECT total FROM {table}") == ()
    assert "'hr.orders'" in allowlist.statement_faults("SELECT total FROM hr.orders")[0]


def test_tables_of_one_name_have_their_own_columns():
    tables = {"shop.orders": ["id", "total"], "hr.orders": ["id", "salary"]}
    allowlist = Allowlist.model_validate({"tables": tables})
    assert allowlist.statement_faults("SELECT total FROM shop.orders") == ()
    assert allowlist.statement_faults("SELECT salary FROM shop.orders")
    both = "FROM shop.orders AS s JOIN hr.orders AS h ON s.id = h.id"
    assert allowlist.statement_faults(f"SELECT s.id {both}") == ()
    assert allowlist.statement_faults(f"SELECT s.salary {both}")


def test_only_what_is_on_the_list_is_kept():
    kept = SHOP.keep(["ORDERITEMS", "secrets", "customers"], ["o.unit_price", "password"])
    assert kept == (("orderItems", "customers"), ("unit_price",))
    assert SHOP.keep(["public.orderitems"], []) == (("orderItems",), ())
    assert SHOP.keep(['"public"."orderitems"'], []) == (("orderItems",), ())


def test_a_database_gives_its_tables_and_views(tmp_path):
    url = f"sqlite:///{tmp_path / 'shop.db'}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE orders (id INTEGER, total REAL)"))
        connection.execute(sqlalchemy.text("CREATE VIEW big AS SELECT id FROM orders"))
    engine.dispose()
    found = reflect(url)
    assert found.as_file() == {"tables": {"orders": ["id", "total"], "big": ["id"]}}
    assert Allowlist.model_validate(found.as_file()) == found


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite://", "no tables"),
        ("nodatabase://ada:hush@localhost/shop", "schema"),
        ("oracle+cx_oracle://ada:hush@localhost/shop", "cx_Oracle"),
    ],
)
def test_what_gives_no_tables_is_refused_and_keeps_its_password(url, told):
    with pytest.raises(SourceError, match=told) as raised:
        reflect(url)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_without_sqlalchemy_its_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingExtraError, match=r"toolcrib\[sql\]"):
        reflect("sqlite://")


def test_a_wrong_file_is_named(tmp_path):
    file = tmp_path / "list.yaml"
    file.write_text("tables: {orders: {colums: [id]}}")
    with pytest.raises(SettingsError, match=r"list\.yaml.*colums"):
        load_allowlist(file)


def test_the_embedded_one_reads():
    assert "orders" in load_allowlist(ALLOWLIST_FILE).tables
