"""The contract of a ledger, executable: what every kind must do, whatever it is made of.

To hold a new kind to it, inherit and supply the fixture `ledger`, open on an empty place.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.errors import StoreError
from toolcrib.store.ledger import Entry, Ledger

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
NAMES = [
    "",
    " ",
    "a",
    "b:1",
    "b:10",
    "b:9",
    "ä",
    "日本",
    "🧰",
    "'; DROP TABLE entries; --",
    "a\x00b",
    "%",
]

# Two of these lie within one microsecond, and three share a moment with others below.
TIMES = [-5.0, 0.0, 0.1, 1.0, NOON, NOON + 2e-7, NOON + 1e-6, NOON + 0.123_456_7, 1e12]

SHELVES = ["keys", "decisions/a", "decisions/b", "decisions/ä"]
IDS = st.sampled_from(["a", "b", "b:1", "b:10", "b:9", "ä", "日本"])
SHELF = st.sampled_from(SHELVES)
MOMENT = st.sampled_from(TIMES)
STEPS = st.one_of(
    st.tuples(st.just("put"), SHELF, IDS, MOMENT, st.integers()),
    st.tuples(st.just("delete"), SHELF, IDS),
    st.tuples(st.just("prune"), SHELF, st.sampled_from([0.1, NOON, NOON + 1.0, float("inf")])),
)

_numbers = itertools.count()


def entry(entry_id: str = "a", at: float = NOON, **body: object) -> Entry:
    return Entry(entry_id, at, body)


def in_order(entries: list[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda each: (each.at, each.id))


def ids(entries: list[Entry]) -> list[str]:
    return [each.id for each in entries]


class Model:
    """What a ledger must hold, as plain dictionaries."""

    def __init__(self) -> None:
        self.shelves: dict[str, dict[str, Entry]] = {}

    def put(self, shelf: str, given: Entry) -> None:
        self.shelves.setdefault(shelf, {})[given.id] = given

    def delete(self, shelf: str, entry_id: str) -> bool:
        return self.shelves.get(shelf, {}).pop(entry_id, None) is not None

    def prune(self, shelf: str, *, before: float) -> int:
        old = [each.id for each in self.on(shelf) if each.at < before]
        return sum(self.delete(shelf, entry_id) for entry_id in old)

    def on(self, shelf: str) -> list[Entry]:
        return in_order(list(self.shelves.get(shelf, {}).values()))


def apply(ledger: Ledger | Model, mark: str, kind: str, shelf: str, *values) -> object:
    """Take one step on shelves that begin with this mark; what it answers."""
    if kind == "put":
        name, at, number = values
        return ledger.put(mark + shelf, entry(name, at, n=number))
    if kind == "delete":
        return ledger.delete(mark + shelf, *values)
    return ledger.prune(mark + shelf, before=values[0])


class LedgerContract:
    """Every test of the contract; the subclass supplies the fixture `ledger`."""

    def test_a_new_ledger_holds_nothing(self, ledger: Ledger) -> None:
        assert ledger.get("keys", "a") is None
        assert ledger.newest("keys") == []
        assert ledger.newest("keys", before=(NOON, "a")) == []
        assert list(ledger.read("keys")) == []
        assert ledger.shelves() == []
        assert ledger.delete("keys", "a") is False
        assert ledger.prune("keys", before=NOON) == 0

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
    def test_a_body_comes_back_as_it_was_written(self, ledger: Ledger, body) -> None:
        ledger.put("keys", entry(**body))
        assert ledger.get("keys", "a") == entry(**body)
        assert list(ledger.read("keys")) == ledger.newest("keys") == [entry(**body)]

    @pytest.mark.parametrize("name", NAMES)
    def test_any_text_names_a_shelf_or_a_record(self, ledger: Ledger, name: str) -> None:
        ledger.put(f"s{name}", entry(name))
        ledger.put("other", entry(name, other=True))
        assert ledger.get(f"s{name}", name) == entry(name)
        assert ledger.shelves("s") == [f"s{name}"]
        assert ledger.delete(f"s{name}", name)
        assert ledger.get("other", name) == entry(name, other=True)

    @pytest.mark.parametrize("at", TIMES)
    def test_a_time_comes_back_to_the_last_bit(self, ledger: Ledger, at: float) -> None:
        ledger.put("keys", entry(at=at))
        assert ledger.get("keys", "a") == entry(at=at)
        assert ledger.newest("keys", before=(at, "b")) == [entry(at=at)]

    def test_shelf_and_id_do_not_run_together(self, ledger: Ledger) -> None:
        ledger.put("a", entry("bc", n=1))
        ledger.put("ab", entry("c", n=2))
        assert ledger.get("a", "bc") == entry("bc", n=1)
        assert ledger.get("ab", "c") == entry("c", n=2)

    def test_a_record_of_the_same_id_is_replaced_with_its_time(self, ledger: Ledger) -> None:
        ledger.put("keys", entry(at=NOON, old=True))
        ledger.put("keys", entry(at=NOON - 60, new=True))
        assert list(ledger.read("keys")) == [entry(at=NOON - 60, new=True)]

    def test_records_of_one_moment_are_ordered_by_id(self, ledger: Ledger) -> None:
        names = ["b:9", "a", "b:10", "ä", "b", "Z"]
        for name in names:
            ledger.put("keys", entry(name))
        assert ids(list(ledger.read("keys"))) == sorted(names)
        assert ids(ledger.newest("keys", limit=4)) == sorted(names)[:-5:-1]
        assert ids(ledger.newest("keys", before=(NOON, "b:10"))) == ["b", "a", "Z"]
        assert ids(ledger.newest("keys", before=(NOON, ""))) == []

    def test_many_records_are_read_whole_and_in_order(self, ledger: Ledger) -> None:
        # More than a page of them, more than a page of one moment, and ends of pages in moments.
        moments = [NOON + number // 3 for number in range(1200)] + [NOON + 50.5] * 700
        written = [entry(f"{n * 7919 % 1900:04}", at) for n, at in enumerate(moments)]
        ledger.put_all("many", written)
        assert list(ledger.read("many")) == in_order(written)
        assert ledger.newest("many", limit=1900) == in_order(written)[::-1]

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
    def test_pages_of_the_newest_follow_each_other_without_a_gap(self, ledger, limit) -> None:
        written = [entry(f"{n:02}", NOON + n // 4) for n in range(30)]
        ledger.put_all("keys", written)
        seen: list[Entry] = []
        while page := ledger.newest(
            "keys", limit=limit, before=(seen[-1].at, seen[-1].id) if seen else None
        ):
            assert len(page) <= limit
            seen += page
        assert seen == in_order(written)[::-1]

    @pytest.mark.parametrize("limit", [0, -1])
    def test_no_record_is_asked_for_and_none_comes(self, ledger: Ledger, limit: int) -> None:
        ledger.put("keys", entry())
        assert ledger.newest("keys", limit=limit) == []

    def test_before_the_end_of_time_is_everything(self, ledger: Ledger) -> None:
        ledger.put("keys", entry())
        assert ledger.newest("keys", before=(float("inf"), "")) == [entry()]
        assert ledger.newest("keys", before=(float("-inf"), "")) == []

    def test_pruning_takes_what_is_older_and_nothing_else(self, ledger: Ledger) -> None:
        ledger.put_all("old", [entry(f"{n:04}", NOON + n) for n in range(2500)])
        ledger.put("other", entry(at=0.0))
        assert ledger.prune("old", before=NOON + 2400) == 2400
        assert ids(list(ledger.read("old"))) == [f"{n:04}" for n in range(2400, 2500)]
        assert ledger.prune("old", before=float("-inf")) == 0
        assert ledger.prune("old", before=float("inf")) == 100
        assert ledger.shelves() == ["other"]

    def test_shelves_are_those_that_hold_anything_and_begin_so(self, ledger: Ledger) -> None:
        for name in ("keys", "decisions/a", "decisions/b", "decision"):
            ledger.put(name, entry())
        ledger.delete("decisions/b", "a")
        assert ledger.shelves() == ["decision", "decisions/a", "keys"]
        assert ledger.shelves("decisions/") == ["decisions/a"]
        assert ledger.shelves("z") == []

    def test_of_one_id_twice_in_a_call_the_last_one_stays(self, ledger: Ledger) -> None:
        ledger.put_all("keys", [entry(n=1), entry("b"), entry(n=2)])
        assert list(ledger.read("keys")) == [entry(n=2), entry("b")]
        ledger.put_all("keys", [])
        assert len(ledger.newest("keys")) == 2

    @pytest.mark.parametrize(
        ("bad", "why"),
        [
            (entry(set={1}), "not JSON serializable"),
            (entry(number=float("nan")), "not JSON compliant"),
            (entry(at=float("inf")), "its time is inf"),
            (entry("\ud800"), "half a character"),
        ],
        ids=["no JSON", "NaN", "no time", "half a character"],
    )
    def test_what_cannot_be_kept_is_refused_with_all_of_the_call(self, ledger, bad, why) -> None:
        with pytest.raises(StoreError, match=f"of 'keys' cannot be kept: .*{why}"):
            ledger.put_all("keys", [entry("good"), bad])
        assert ledger.shelves() == []

    def test_what_cannot_be_named_is_only_unknown(self, ledger: Ledger) -> None:
        ledger.put("keys", entry())
        assert ledger.get("keys", "\ud800") is None
        assert ledger.delete("keys", "\ud800") is False
        assert ledger.delete("keys", "a") is True

    def test_a_closed_ledger_says_so_and_closes_twice(self, ledger: Ledger) -> None:
        ledger.put("keys", entry())
        ledger.close()
        ledger.close()
        with pytest.raises(StoreError, match="closed"):
            ledger.get("keys", "a")
        with pytest.raises(StoreError, match="closed"):
            ledger.put("keys", entry())

    def test_it_does_what_plain_dictionaries_do(self, ledger: Ledger) -> None:
        @settings(max_examples=40)
        @given(st.lists(STEPS, max_size=20), MOMENT, IDS, st.integers(1, 5))
        def check(steps, at, entry_id, limit) -> None:
            model, mark = Model(), f"{next(_numbers)}/"
            for step in steps:
                assert apply(ledger, mark, *step) == apply(model, "", *step)
            held = [name for name in SHELVES if model.on(name)]
            assert ledger.shelves(mark) == sorted(mark + name for name in held)
            for shelf in SHELVES:
                assert list(ledger.read(mark + shelf)) == model.on(shelf)
                assert ledger.get(mark + shelf, entry_id) == model.shelves.get(shelf, {}).get(
                    entry_id
                )
                older = [e for e in model.on(shelf) if (e.at, e.id) < (at, entry_id)]
                found = ledger.newest(mark + shelf, limit=limit, before=(at, entry_id))
                assert found == older[::-1][:limit]

        check()


class SharedLedgerContract(LedgerContract):
    """The same, and for several threads, which the engine of local mode is not made for."""

    def test_threads_write_and_read_at_once(self, ledger: Ledger) -> None:
        def write(name: str) -> None:
            for number in range(40):
                ledger.put("all", entry(f"{name}{number:02}", NOON + number))
                assert ledger.get("all", f"{name}{number:02}") is not None
                ledger.newest("all", limit=3)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, "abcd"))
        expected = sorted(
            (f"{name}{n:02}" for name in "abcd" for n in range(40)), key=lambda i: (i[1:], i)
        )
        assert ids(list(ledger.read("all"))) == expected
