"""Keys hold from when they are made until they expire or are revoked, for all processes."""

from __future__ import annotations

import hashlib
import time
from contextlib import closing

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from toolcrib.access.keys import ANYONE, Grant, KeyRing, RateLimiter
from toolcrib.clock import ManualClock
from toolcrib.errors import QueryError, RateLimitedError, StoreDamagedError, UnauthenticatedError
from toolcrib.records.codec import as_json
from toolcrib.store.records_db import DbRow
from toolcrib.store.records_db.sqlite import SqliteRecordsDb

NOON = 1_772_366_400.0
DAY_S = 86_400.0
GRANT = Grant(namespaces=("acme",), servers={"mail"}, access="write", rate="5/minute")


@pytest.fixture
def wall():
    wall = ManualClock()
    wall.now = NOON
    return wall


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def ring(records_db, wall, clock):
    return KeyRing(records_db, wall, clock)


def is_known(ring, text) -> bool:
    try:
        ring.verify(text)
    except UnauthenticatedError:
        return False
    return True


def test_who_has_the_text_is_the_caller_that_it_was_made_for(ring):
    key, text = ring.create("ann", GRANT)
    caller = ring.verify(text)
    assert (caller.key_id, caller.name, caller.grant) == (key.id, "ann", GRANT)


def test_a_text_says_what_it_is_and_has_256_random_bits(ring):
    texts = [ring.create("ann", GRANT)[1] for _ in range(20)]
    for text in texts:
        kind, key_id, secret = text.split("_")
        assert (kind, len(bytes.fromhex(key_id)), len(bytes.fromhex(secret))) == ("tc", 6, 32)
    assert len({text.split("_")[2] for text in texts}) == 20


def test_no_secret_is_kept(ring, records_db, tmp_path):
    _, text = ring.create("ann", GRANT)
    (entry,) = records_db.read("keys")
    assert entry.body["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    records_db.close()
    secret = text.split("_")[2]
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret.encode() not in kept
    assert bytes.fromhex(secret) not in kept


def test_no_listing_shows_what_a_secret_could_be_tried_against(ring, wall):
    _, text = ring.create("ann", GRANT)
    (key,) = ring.list()
    digest = hashlib.sha256(text.encode()).hexdigest()
    for shown in (repr(key), str(key.listing(wall())), key.model_dump_json()):
        assert text.split("_")[2] not in shown
        assert digest not in shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tc_",
        "tc__",
        "Bearer tc",
        "sk-1234",
        "tc_0123456789ab_" + "0" * 63,
        "tc_0123456789ab_" + "0" * 65,
        "TC_0123456789AB_" + "0" * 64,
        "tc_0123456789ab_" + "٣" * 64,
        "tc_0123456789ab_" + "0" * 64 + "\n",
        "\udcff",
        "é" * 80,
    ],
)
def test_what_is_no_key_is_told_so(ring, text):
    with pytest.raises(UnauthenticatedError, match="this is no API key"):
        ring.verify(text)


def test_an_unknown_key_and_a_wrong_secret_are_told_alike(ring):
    key, text = ring.create("ann", GRANT)
    said = set()
    for wrong in (f"tc_{key.id}_{'0' * 64}", f"tc_{'0' * 12}_{text[-64:]}"):
        with pytest.raises(UnauthenticatedError) as refused:
            ring.verify(wrong)
        said.add(str(refused.value))
    assert said == {"the API key is not known"}


@given(st.integers(0, 79), st.sampled_from("0123456789abcdef"))
def test_one_wrong_digit_is_a_wrong_key(tmp_path_factory, place, digit):
    with closing(SqliteRecordsDb(tmp_path_factory.mktemp("k") / "ledger.db")) as records_db:
        ring = KeyRing(records_db)
        _, text = ring.create("ann", GRANT)
        wrong = text[:place] + digit + text[place + 1 :]
        assume(wrong != text)
        assert is_known(ring, text)
        assert not is_known(ring, wrong)


def test_a_key_holds_until_it_expires_to_the_moment(ring, wall):
    key, text = ring.create("ann", GRANT, NOON + DAY_S)
    wall.now = NOON + DAY_S - 0.001
    assert ring.verify(text).key_id == key.id
    wall.now = NOON + DAY_S
    with pytest.raises(UnauthenticatedError, match=f"the API key {key.id} .'ann'. is expired"):
        ring.verify(text)
    assert ring.list()[0].state(wall()) == "expired"


@pytest.mark.parametrize("expires_at", [NOON, NOON - DAY_S])
def test_a_key_that_would_not_hold_is_not_made(ring, expires_at):
    with pytest.raises(QueryError, match="in the past"):
        ring.create("ann", GRANT, expires_at)
    assert ring.list() == ()


def test_a_revoked_key_holds_no_longer_where_it_was_revoked(ring):
    key, text = ring.create("ann", GRANT)
    other = ring.create("bob", GRANT)[1]
    assert is_known(ring, text)
    assert ring.revoke(key.id)
    with pytest.raises(UnauthenticatedError, match=f"the API key {key.id} .'ann'. is revoked"):
        ring.verify(text)
    assert is_known(ring, other)


@pytest.mark.parametrize("jump_s", [0, -365 * DAY_S])
def test_it_stops_within_two_seconds_wherever_it_was_in_use_by_any_wall_clock(
    ring, records_db, wall, clock, jump_s
):
    key, text = ring.create("ann", GRANT)
    elsewhere = KeyRing(records_db, wall, clock)
    assert is_known(elsewhere, text)
    ring.revoke(key.id)
    wall.now += jump_s
    clock.now += 1.999
    assert not is_known(elsewhere, text)


def test_a_key_in_use_is_not_looked_up_every_time(ring, records_db, clock):
    key, text = ring.create("ann", GRANT)
    assert is_known(ring, text)
    records_db.delete("keys", key.id)
    assert is_known(ring, text)
    clock.now += 2
    assert not is_known(ring, text)


def test_revoking_again_changes_nothing_and_an_unknown_key_is_none(ring, wall):
    key, _ = ring.create("ann", GRANT)
    assert ring.revoke(key.id)
    wall.now += 60
    assert ring.revoke(key.id)
    assert ring.list()[0].revoked_at == NOON
    assert not ring.revoke("000000000000")


def test_all_keys_stay_listed_with_their_state(ring, wall):
    made = []
    for name, until in (("a", None), ("b", NOON + 2), ("c", None)):
        made.append(ring.create(name, GRANT, until)[0])
        wall.now += 1
    ring.revoke(made[2].id)
    assert [key.state(wall()) for key in ring.list()] == ["active", "expired", "revoked"]
    assert ring.list()[:2] == tuple(made[:2])
    assert as_json(ring.list()[1].listing(wall())) == {
        "id": made[1].id,
        "name": "b",
        "state": "expired",
        "grant": GRANT.model_dump(mode="json"),
        "created_at": "2026-03-01T12:00:01+00:00",
        "expires_at": "2026-03-01T12:00:02+00:00",
        "revoked_at": None,
    }


@pytest.mark.parametrize("name", ["", "  ", "a" * 101, "a\nb", "a\x1bb"])
def test_a_key_has_a_name_for_people(ring, name):
    with pytest.raises(QueryError, match="no name for a key"):
        ring.create(name, GRANT)


def test_a_key_that_says_more_than_is_understood_is_not_believed(ring, records_db):
    """A newer version may have narrowed it in a way that this one would not keep to."""
    key, text = ring.create("ann", GRANT)
    kept = records_db.get("keys", key.id)
    grant = {**kept.body["grant"], "only_on": "mondays"}
    records_db.put("keys", DbRow(key.id, kept.at, {**kept.body, "grant": grant}))
    with pytest.raises(StoreDamagedError, match=f"{key.id}' cannot be read .grant.only_on"):
        ring.verify(text)


def count_until_refused(rates, key_id, grant):
    """Number of counted requests, and seconds until the next."""
    for counted in range(100):
        try:
            rates.count(key_id, grant)
        except RateLimitedError as error:
            return counted, error.retry_after_s
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("jump", [DAY_S, -DAY_S])
def test_a_clock_that_is_set_neither_lifts_a_limit_nor_locks_anybody_out(monkeypatch, jump):
    rates, now = RateLimiter("3/hour"), time.time
    assert count_until_refused(rates, "a", Grant())[0] == 3
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    counted, retry_after_s = count_until_refused(rates, "a", Grant())
    assert counted == 0
    assert 0 < retry_after_s <= 3600


def test_a_limit_holds_for_the_last_period(monkeypatch):
    rates, now = RateLimiter("2/minute"), time.monotonic()
    for seconds, refused_s in [(0, None), (40, None), (50, 10), (61, None), (99, 1), (101, None)]:
        monkeypatch.setattr(time, "monotonic", lambda at=now + seconds: at)
        if refused_s is None:
            rates.count("a", Grant())
            continue
        with pytest.raises(RateLimitedError) as refused:
            rates.count("a", Grant())
        assert refused.value.retry_after_s == pytest.approx(refused_s)


def test_a_keys_own_rate_holds_for_it_alone_and_who_needs_no_key_has_none():
    rates = RateLimiter("1/hour")
    assert count_until_refused(rates, "a", Grant(rate="2/hour"))[0] == 2
    assert count_until_refused(rates, "b", Grant())[0] == 1
    for _ in range(5):
        rates.count(ANYONE.key_id, ANYONE.grant)
    unlimited = RateLimiter()
    for _ in range(5):
        unlimited.count("a", Grant())
