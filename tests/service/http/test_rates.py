"""How often a key may ask, by a clock that may be set."""

from __future__ import annotations

import time

import pytest

from toolcrib.errors import RateLimitedError
from toolcrib.service.http.authenticator import RateLimiter
from toolcrib.service.keys import ANYONE, Caller, Grant

DAY_S = 86_400


def count_until_refused(rates, caller):
    """How many requests were taken into account, and in how many seconds to ask again."""
    for taken in range(100):
        try:
            rates.count(caller)
        except RateLimitedError as error:
            return taken, error.retry_after_s
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("jump", [DAY_S, -DAY_S, 90, -90])
def test_a_clock_that_is_set_locks_nobody_out(monkeypatch, jump):
    rates, caller, now = RateLimiter("3/hour"), Caller("a", "test", Grant()), time.time
    assert count_until_refused(rates, caller)[0] == 3
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    taken, retry_after_s = count_until_refused(rates, caller)
    assert taken == 3
    assert 0 < retry_after_s <= 3600


def test_a_clock_that_runs_a_little_fast_lifts_no_limit(monkeypatch):
    rates, caller, now = RateLimiter("3/hour"), Caller("a", "test", Grant()), time.time
    count_until_refused(rates, caller)
    for step in range(10):
        monkeypatch.setattr(time, "time", lambda step=step: now() + step / 10)
        assert count_until_refused(rates, caller)[0] == 0


def test_a_keys_own_rate_holds_for_it_alone_and_who_needs_no_key_has_none():
    rates = RateLimiter("1/hour")
    assert count_until_refused(rates, Caller("a", "test", Grant(rate="2/hour")))[0] == 2
    assert count_until_refused(rates, Caller("b", "test", Grant()))[0] == 1
    for _ in range(5):
        rates.count(ANYONE)
    unlimited = RateLimiter(None)
    for _ in range(5):
        unlimited.count(Caller("a", "test", Grant()))
