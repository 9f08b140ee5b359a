"""The contract of a records database, executable: what every kind must do, whatever it is made of.

To hold a new kind to it, inherit and supply the fixture `db`, open on an empty place.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import StoreError
from toolcrib.store.records_db import DbRow, RecordsDb

NOON = 1_772_366_400.0

BODIES = {
    "nothing": {},
    "every kind of value": {"a": None, "b": True, "c": 3, "d": -2.5, "e": [], "f": {}, "g": "x"},
    "many scripts": {"text": "日本語 العربية 🧰 e\u0301 \u200b\x00 'quotes\" \\ \n \u2028"},
    "half a character": {"text": "\ud800"},
    "strange names": {"": 1, "a b": 2, "a.b[]": 3, "ключ": 4},
    "long text": {"text": "word " * 40_000},
    "nesting": {"deep": [[[{"er": [1, [2, [3]]]}]]]},
}
NAMES = ["", " ", "a", "b:1", "b:10", "ä", "日本", "🧰", "'; DROP TABLE entries; --", "a\x00b", "%"]

# Two of these lie within one microsecond, and three share a moment with others below.
TIMES = [-5.0, 0.0, 0.1, 1.0, NOON, NOON + 2e-7, NOON + 1e-6, NOON + 0.123_456_7, 1e12]

TABLES = ["keys", "decisions/a", "decisions/b", "decisions/ä"]
IDS = st.sampled_from(["a", "b", "b:1", "b:10", "b:9", "ä", "日本"])
TABLE = st.sampled_from(TABLES)
MOMENT = st.sampled_from(TIMES)
STEPS = st.one_of(
    st.tuples(st.just("put"), TABLE, IDS, MOMENT, st.integers()),
    st.tuples(st.just("delete"), TABLE, IDS),
    st.tuples(st.just("prune"), TABLE, st.sampled_from([0.1, NOON, NOON + 1.0, float("inf")])),
)

_numbers = itertools.count()


def row(row_id: str = "a", at: float = NOON, **body: object) -> DbRow:
    return DbRow(row_id, at, body)


def in_order(rows: list[DbRow]) -> list[DbRow]:
    return sorted(rows, key=lambda each: (each.at, each.id))


def ids(rows: list[DbRow]) -> list[str]:
    return [each.id for each in rows]


class Model:
    def __init__(self) -> None:
        self.tables: dict[str, dict[str, DbRow]] = {}

    def put(self, table: str, given: DbRow) -> None:
        self.tables.setdefault(table, {})[given.id] = given

    def delete(self, table: str, row_id: str) -> bool:
        return self.tables.get(table, {}).pop(row_id, None) is not None

    def prune(self, table: str, *, before: float) -> int:
        old = [each.id for each in self.on(table) if each.at < before]
        return sum(self.delete(table, row_id) for row_id in old)

    def on(self, table: str) -> list[DbRow]:
        return in_order(list(self.tables.get(table, {}).values()))


def apply(db: RecordsDb | Model, mark: str, kind: str, table: str, *values) -> object:
    """Take one step on tables that begin with this mark; what it answers."""
    if kind == "put":
        name, at, number = values
        return db.put(mark + table, row(name, at, n=number))
    if kind == "delete":
        return db.delete(mark + table, *values)
    return db.prune(mark + table, before=values[0])


class RecordsDbContract:
    def test_a_new_database_holds_nothing(self, db):
        assert db.get("keys", "a") is None
        assert db.newest("keys") == []
        assert db.newest("keys", before=(NOON, "a")) == []
        assert list(db.read("keys")) == []
        assert db.tables() == []
        assert db.delete("keys", "a") is False
        assert db.prune("keys", before=NOON) == 0

    def test_a_body_comes_back_as_it_was_written(self, db):
        for body in BODIES.values():
            db.put("keys", row(**body))
            assert db.get("keys", "a") == row(**body)
            assert list(db.read("keys")) == db.newest("keys") == [row(**body)]

    def test_any_text_names_a_table_or_a_record(self, db):
        for name in NAMES:
            db.put(f"s{name}", row(name))
            db.put("other", row(name, other=True))
            assert db.get(f"s{name}", name) == row(name)
            assert db.tables() == ["other", f"s{name}"]
            assert db.get("s", f"{name}{name}" or "a") is None
            assert db.delete(f"s{name}", name)
            assert db.get("other", name) == row(name, other=True)

    @pytest.mark.parametrize("at", TIMES)
    def test_a_time_comes_back_to_the_last_bit(self, db, at):
        db.put("keys", row(at=NOON + 60, old=True))
        db.put("keys", row(at=at))
        assert db.get("keys", "a") == row(at=at)
        assert db.newest("keys", limit=0) == db.newest("keys", limit=-1) == []
        assert db.newest("keys", before=(float("inf"), "")) == [row(at=at)]
        assert db.newest("keys", before=(at, "b")) == [row(at=at)]

    def test_records_of_one_moment_are_ordered_by_id(self, db):
        names = ["b:9", "a", "b:10", "ä", "b", "Z"]
        for name in names:
            db.put("keys", row(name))
        assert ids(list(db.read("keys"))) == sorted(names)
        assert ids(db.newest("keys", limit=4)) == sorted(names)[:-5:-1]
        assert ids(db.newest("keys", before=(NOON, "b:10"))) == ["b", "a", "Z"]
        assert ids(db.newest("keys", before=(NOON, ""))) == []

    def test_many_records_are_read_whole_and_in_order(self, db):
        # More than a page of them, more than a page of one moment, and ends of pages in moments.
        moments = [NOON + number // 3 for number in range(1200)] + [NOON + 50.5] * 700
        written = [row(f"{n * 7919 % 1900:04}", at) for n, at in enumerate(moments)]
        db.put_all("many", written)
        assert list(db.read("many")) == in_order(written)
        assert db.newest("many", limit=1900) == in_order(written)[::-1]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    def test_pages_of_the_newest_follow_each_other_without_a_gap(self, db, limit):
        written = [row(f"{n:02}", NOON + n // 4) for n in range(30)]
        db.put_all("keys", written)
        seen: list[DbRow] = []
        while page := db.newest(
            "keys", limit=limit, before=(seen[-1].at, seen[-1].id) if seen else None
        ):
            assert len(page) <= limit
            seen += page
        assert seen == in_order(written)[::-1]

    def test_pruning_takes_what_is_older_and_nothing_else(self, db):
        db.put_all("old", [row(f"{n:04}", NOON + n) for n in range(2500)])
        db.put("other", row(at=0.0))
        assert db.prune("old", before=NOON + 2400) == 2400
        assert ids(list(db.read("old"))) == [f"{n:04}" for n in range(2400, 2500)]
        assert db.prune("old", before=float("-inf")) == 0
        assert db.prune("old", before=float("inf")) == 100
        assert db.tables() == ["other"]

    def test_of_one_id_twice_in_a_call_the_last_one_stays(self, db):
        db.put_all("keys", [row(n=1), row("b"), row(n=2)])
        assert list(db.read("keys")) == [row(n=2), row("b")]
        db.put_all("keys", [])
        assert len(db.newest("keys")) == 2

    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            (row(set={1}), "not JSON serializable"),
            (row(number=float("nan")), "not JSON compliant"),
            (row(at=float("inf")), "its time is inf"),
            (row("\ud800"), "half a character"),
        ],
        ids=["no JSON", "NaN", "no time", "half a character"],
    )
    def test_what_cannot_be_kept_is_refused_with_all_of_the_call(self, db, bad, why):
        with pytest.raises(StoreError, match=f"of 'keys' cannot be kept: .*{why}"):
            db.put_all("keys", [row("good"), bad])
        assert db.tables() == []

    def test_what_cannot_be_named_is_only_unknown(self, db):
        db.put("keys", row())
        assert db.get("keys", "\ud800") is None
        assert db.delete("keys", "\ud800") is False
        assert db.delete("keys", "a") is True

    def test_a_closed_database_says_so_and_closes_twice(self, db):
        db.put("keys", row())
        db.close()
        db.close()
        for use in (lambda: db.get("keys", "a"), lambda: db.put("keys", row())):
            with pytest.raises(StoreError, match="closed"):
                use()

    @pytest.mark.slow
    def test_it_does_what_plain_dictionaries_do(self, db):
        @given(st.lists(STEPS, max_size=20), MOMENT, IDS, st.integers(1, 5))
        def check(steps, at, row_id, limit) -> None:
            model, mark = Model(), f"{next(_numbers)}/"
            for step in steps:
                assert apply(db, mark, *step) == apply(model, "", *step)
            held = [name for name in TABLES if model.on(name)]
            own = [name for name in db.tables() if name.startswith(mark)]
            assert own == sorted(mark + name for name in held)
            for table in TABLES:
                assert list(db.read(mark + table)) == model.on(table)
                assert db.get(mark + table, row_id) == model.tables.get(table, {}).get(row_id)
                older = [e for e in model.on(table) if (e.at, e.id) < (at, row_id)]
                found = db.newest(mark + table, limit=limit, before=(at, row_id))
                assert found == older[::-1][:limit]

        check()


class SharedRecordsDbContract(RecordsDbContract):
    """The same, and for several threads, which the engine of local mode is not made for."""

    def test_threads_write_and_read_at_once(self, db):
        def write(name: str) -> None:
            for number in range(40):
                db.put("all", row(f"{name}{number:02}", NOON + number))
                assert db.get("all", f"{name}{number:02}") is not None
                db.newest("all", limit=3)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, "abcd"))
        expected = sorted(
            (f"{name}{n:02}" for name in "abcd" for n in range(40)), key=lambda i: (i[1:], i)
        )
        assert ids(list(db.read("all"))) == expected
