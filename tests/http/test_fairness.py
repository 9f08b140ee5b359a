"""Nobody keeps others waiting: turns, shares, deadlines of bodies, an end of what was given up."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.http.conftest import half_a_body
from tests.http.test_middleware import BLOCKED, Gate, type_of
from toolcrib.http.workers import Owner, Shares, Workers

A1, A2, B1 = Owner("a", "1"), Owner("a", "2"), Owner("b", "1")
PATIENCE_S = 30
HANG_S = 240


def tools(count, server, words=20):
    text = "Does a thing with a file, a mail and a table. " * words
    return [{"name": f"t{n}", "server": server, "description": f"{text}{n}"} for n in range(count)]


# -- turns -----------------------------------------------------------------------------------


class Held:
    """Work that begins, waits until it may go on, and then does something more."""

    def __init__(self, more=lambda: None):
        self.begun, self.go, self._more = threading.Event(), threading.Event(), more

    def __call__(self):
        self.begun.set()
        assert self.go.wait(PATIENCE_S)
        self._more()

    async def begin(self, pool, *owner):
        working = asyncio.ensure_future(pool(self, *owner))
        await asyncio.to_thread(self.begun.wait)
        return working


async def in_order(pool, asked):
    """Order of work that was requested while all threads were busy."""
    work, order = Held(), []
    holding = await work.begin(pool, Owner("held", ""))
    waiting = [
        asyncio.ensure_future(pool(lambda owner=owner: order.append(owner), owner))
        for owner in asked
    ]
    await asyncio.sleep(0)
    work.go.set()
    await asyncio.gather(holding, *waiting)
    return order


@pytest.fixture
def single():
    made = Workers(1)
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_turns_go_round_among_tenants_and_then_among_their_keys(single, kind):
    asked = [A1] * 4 + [A2] * 2 + [B1] * 2
    done = await in_order(getattr(single, kind), asked)
    assert done == [A1, B1, A2, B1, A1, A2, A1, A1]


@given(st.lists(st.sampled_from([A1, A2, B1, Owner("c", "1")]), max_size=30))
async def test_whoever_waits_is_at_most_one_turn_of_each_other_tenant_away(asked):
    workers = Workers(1)
    done = await in_order(workers.read, asked)
    workers.close()
    assert sorted(done, key=str) == sorted(asked, key=str)
    for tenant in "abc":
        places = [n for n, owner in enumerate(done) if owner.namespace == tenant]
        for a, b in pairwise(places):
            assert b - a - 1 == len({owner.namespace for owner in done[a + 1 : b]})


async def test_a_long_write_lets_other_tenants_go_first_and_its_own_wait(single):
    order = []

    def go_on():
        for step in range(3):
            single.give_way(A1)
            order.append(f"a{step}")

    long = Held(go_on)
    first = await long.begin(single.write, A1)
    rest = [
        asyncio.ensure_future(single.write(lambda said=said: order.append(said), owner))
        for said, owner in (("own", A2), ("b", B1), ("c", Owner("c", "1")), ("b again", B1))
    ]
    await asyncio.sleep(0)
    long.go.set()
    await asyncio.gather(first, *rest)
    assert order[0] == "b"
    assert order.index("c") < order.index("a2")
    assert order[-1] == "own"


async def test_what_gave_way_goes_on_when_the_service_ends():
    workers, ended = Workers(1), []
    long = Held(lambda: ended.append(workers.give_way(A1)))
    first = await long.begin(workers.write, A1)
    waiting = asyncio.ensure_future(workers.write(lambda: None, B1))
    await asyncio.sleep(0)
    long.go.set()
    workers.close()
    assert ended == [None]
    waiting.cancel()
    await first


async def test_a_turn_that_is_given_up_in_the_moment_it_comes_is_passed_on(single):
    for _ in range(50):
        tasks = [asyncio.ensure_future(single.read(lambda: None, A1)) for _ in range(4)]
        await asyncio.sleep(0)
        for each in tasks[::2]:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert await single.read(lambda: "done", B1) == "done"


# -- shares ----------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([A1, A2, B1, Owner("c", "1"), Owner("d", "1")]), max_size=200))
def test_nobody_takes_all_and_there_is_some_left_for_who_comes_next(asked):
    shares, held = Shares(64, 0.75), []
    for owner in asked:
        if shares.has_room(owner, 1):
            shares.take(owner, 1)
            held.append(owner)
    for owner in {*asked}:
        assert held.count(owner) <= 36
        assert sum(each.namespace == owner.namespace for each in held) <= 48
        assert held.count(owner) >= 1
    assert shares.has_room(Owner("new", "1"), 1)
    for owner in held:
        shares.take(owner, -1)
    assert shares.has_room(A1, 48)


def test_no_key_of_a_tenant_takes_all_that_the_tenant_may_have():
    shares, held = Shares(64, 0.75), Counter()
    for owner in [A1] * 64 + [A2] * 64:
        if shares.has_room(owner, 1):
            shares.take(owner, 1)
            held[owner] += 1
    assert held == {A1: 36, A2: 9}


def test_one_key_leaves_places_to_others(start):
    with (
        start(concurrent=8, workers=8) as service,
        ExitStack() as stack,
        ThreadPoolExecutor() as pool,
    ):
        greedy, other = (stack.enter_context(service.client()) for _ in range(2))
        gate = Gate(service)
        stack.callback(gate.open.set)
        waiting = [pool.submit(greedy.post, "/v1/tools/search", json=BLOCKED) for _ in range(5)]
        gate.wait_for(5)
        answer = greedy.get("/v1/me")
        assert (answer.status_code, type_of(answer)) == (503, "overloaded")
        assert answer.headers["retry-after"] == "1"
        # Another key of the same namespace has what is left of it, one of another more than that.
        assert other.get("/v1/me").status_code == 200
        with service.client("elsewhere") as foreign:
            assert foreign.get("/v1/me").status_code == 200
        gate.open.set()
        assert {each.result().status_code for each in waiting} == {200}
        assert greedy.get("/v1/me").status_code == 200


def test_large_bodies_of_one_key_leave_memory_for_those_of_others(start):
    with start(max_body_bytes=20_000) as service, ExitStack() as stack:
        key = service.key(access="write")
        for _ in range(4):
            stack.enter_context(half_a_body(service, key, size=19_000))
        while service.state.bytes.has_room(Owner("default", key[3:15]), 8 * 19_000):
            time.sleep(0.01)
        sent = {"tools": tools(20, "mail")}
        with service.client() as client:
            own = {"Authorization": f"Bearer {key}"}
            answer = client.post("/v1/tools", json=sent, headers=own)
            assert (answer.status_code, type_of(answer)) == (503, "overloaded")
            assert client.get("/v1/me", headers=own).status_code == 200
            assert client.post("/v1/tools", json=sent).json()["added"] == 20
        with service.client("elsewhere") as foreign:
            assert foreign.post("/v1/tools", json=sent).json()["added"] == 20


# -- bodies ----------------------------------------------------------------------------------


def test_slow_bodies_of_one_key_leave_searches_of_others_alone(start):
    with start(concurrent=8, timeout_s=20, body_s=2) as service, ExitStack() as stack:
        key = service.key(access="read", namespaces=("slow",))
        slow = [stack.enter_context(half_a_body(service, key)) for _ in range(20)]
        with service.client() as client:
            for _ in range(20):
                assert client.post("/v1/tools/search", json=BLOCKED).status_code == 200
        answers = [each.recv(65_536).split(b"\r\n", 1)[0] for each in slow]
        assert {each.split()[1] for each in answers} == {b"503", b"504"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/v1/tools/search", "application/json"), ("/v1/tools", "application/jsonl")],
)
def test_a_body_that_trickles_is_given_up_however_long_an_answer_may_take(start, path, kind):
    with start(timeout_s=30, body_s=0.5) as service:
        key = service.key(access="write")
        with half_a_body(service, key, path, 100_000, kind) as connection:
            connection.settimeout(0.1)
            for _ in range(100):
                try:
                    connection.sendall(b" ")
                    assert connection.recv(65_536).startswith(b"HTTP/1.1 504")
                    break
                except TimeoutError:
                    continue
            else:
                pytest.fail("the body was waited for without end")


# -- large writes ----------------------------------------------------------------------------


def chapters(count):
    return "".join(f"# {n}\n\nA thing that is told {n} times.\n\n" for n in range(count))


LARGE = {
    "/v1/tools": {"tools": tools(700, "big")},
    "/v1/documents": {
        "collection": "c",
        "documents": [{"name": "a.md", "text": chapters(1500)}],
    },
}


class LateWrite:
    """A large write that goes on only while a small one waits, until `small_writes_done`."""

    def __init__(self, service):
        self.begun, self.small_writes_done = threading.Event(), threading.Event()
        workers = service.state.workers
        self._tenants = workers._pools[1]._tenants
        self._give_way = workers.give_way
        workers.give_way = self

    def __call__(self, owner):
        if owner.namespace == "large":
            self.begun.set()
            while not (self.small_writes_done.is_set() or self._small_write_waits()):
                time.sleep(0.01)
        self._give_way(owner)

    def _small_write_waits(self):
        tenant = self._tenants.get("small")
        return tenant is not None and bool(tenant.waiting)


@pytest.mark.slow
@pytest.mark.timeout(HANG_S)
@pytest.mark.parametrize("path", LARGE)
def test_a_large_write_of_one_tenant_lets_those_of_another_through(start, path):
    with (
        start(workers=1, timeout_s=HANG_S) as service,
        ThreadPoolExecutor() as pool,
        service.client("large") as large,
        service.client("small") as small,
        ExitStack() as stack,
    ):
        large.timeout = small.timeout = HANG_S
        # Its store is made by now.
        assert small.post("/v1/tools", json={"tools": tools(1, "first")}).is_success
        late = LateWrite(service)
        stack.callback(late.small_writes_done.set)
        sent = pool.submit(large.post, path, json=LARGE[path])
        assert late.begun.wait(HANG_S)
        for number in range(2):
            assert small.post("/v1/tools", json={"tools": tools(1, f"s{number}")}).is_success
        before = sent.done()
        late.small_writes_done.set()
        assert sent.result().is_success
    assert not before


@pytest.mark.slow
@pytest.mark.parametrize("what", ["tools", "documents"])
def test_what_ended_in_504_is_not_worked_on_any_more(start, what):
    with start(timeout_s=1.5) as service, service.client() as client:
        if what == "tools":
            answer = client.post("/v1/tools", json={"tools": tools(5_000, "big", words=12)})
        else:
            # Many, as one that is not converted in half the time is refused.
            pages = [{"name": f"{n}.md", "text": f"{n}\n\n{chapters(300)}"} for n in range(100)]
            body = {"collection": "c", "documents": pages}
            answer = client.post("/v1/documents", json=body)
        assert answer.status_code == 504
        until = time.monotonic() + PATIENCE_S
        while service.state.workers.abandoned_jobs:
            assert time.monotonic() < until
            time.sleep(0.05)
        there = service.namespaces.crib().info()[0].points
        assert there < 5_000
        client.post("/v1/tools", json={"tools": tools(1, "small")})
        assert service.namespaces.crib().info()[0].points <= there + 1


@pytest.mark.slow
def test_a_hostile_document_is_refused_and_nobody_else_waits(start):
    good = {"collection": "c", "documents": [{"name": "good.md", "text": "Thirty days."}]}
    with start(timeout_s=8) as service, ThreadPoolExecutor() as pool, ExitStack() as stack:
        hostile, honest = (stack.enter_context(service.client(n)) for n in ("hostile", "honest"))
        # Their stores are made by now.
        assert [each.post("/v1/documents", json=good).json()["added"] for each in (hostile, honest)]
        sent = {"collection": "c", "documents": [{"name": "a.html", "text": "<a " * 200_000}]}
        answer = pool.submit(hostile.post, "/v1/documents", json=sent)
        for _ in range(5):
            assert honest.post("/v1/documents", json=good).status_code == 200
            assert honest.get("/healthz").status_code == 200
        assert not answer.done()
        (refusal,) = answer.result().json()["refused"]
        assert refusal["source"] == "a.html"
        assert refusal["reason"].startswith("not converted within 4 s")


def test_an_upload_is_kept_as_it_came_until_its_turn(service, tenant):
    lines = [["file", tool] for tool in tools(300, "big")]
    lines.insert(3, ["file", {"source": "x", "place": "y", "reason": "unreadable"}])
    sent, kind = "\n".join(map(json.dumps, lines)), {"Content-Type": "application/jsonl"}
    answer = tenant.post("/v1/tools", content=sent, headers=kind)
    report = json.loads(answer.text.strip().splitlines()[-1])["report"]
    assert report["added"] == 300
    assert [each["reason"] for each in report["refused"]] == ["unreadable"]
