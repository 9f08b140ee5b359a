"""Lines to a service: their connections, for threads and event loops, until they are closed."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from toolcrib.client import RemoteCrib
from toolcrib.errors import ServiceError


async def everything_else():
    """Wait for whatever else the running loop was given to do."""
    await asyncio.sleep(0)
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))


def test_calls_share_a_connection(faulty):
    with RemoteCrib(faulty.url) as crib:
        for _ in range(5):
            crib.facets()
    assert faulty.record.connections == 1


async def test_twins_share_a_connection(faulty):
    async with RemoteCrib(faulty.url) as crib:
        for _ in range(5):
            await crib.afacets()
    assert faulty.record.connections == 1


def test_threads_may_ask_at_once(faulty):
    found = []
    with RemoteCrib(faulty.url) as crib:
        asking = [threading.Thread(target=lambda: found.append(crib.facets())) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert [each.tools for each in found] == [2] * 8


async def test_tasks_may_ask_at_once(faulty):
    async with RemoteCrib(faulty.url) as crib:
        found = await asyncio.gather(*(crib.afacets() for _ in range(8)))
    assert [each.tools for each in found] == [2] * 8


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_event_loop_after_the_other_may_ask(faulty):
    crib = RemoteCrib(faulty.url)
    assert [asyncio.run(crib.afacets()).tools for _ in range(3)] == [2, 2, 2]
    crib.close()
    del crib
    # The connections of a loop that has ended can only be dropped, which Python remarks on.
    gc.collect()


def test_a_closed_crib_says_so(faulty):
    async def again():
        crib = RemoteCrib(faulty.url)
        await crib.afacets()
        await crib.aclose()
        await crib.aclose()
        await crib.afacets()

    with RemoteCrib(faulty.url) as crib:
        crib.facets()
    crib.close()
    with pytest.raises(ServiceError, match="this crib is closed"):
        crib.facets()
    with pytest.raises(ServiceError, match="this crib is closed"):
        asyncio.run(again())


async def test_closing_without_awaiting_closes_what_the_loop_has_open(faulty):
    crib = RemoteCrib(faulty.url)
    await crib.afacets()
    crib.close()
    await everything_else()
    with pytest.raises(ServiceError, match="this crib is closed"):
        await crib.afacets()


def test_connections_of_another_running_loop_are_closed_there(faulty):
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    crib = RemoteCrib(faulty.url)
    asyncio.run_coroutine_threadsafe(crib.afacets(), loop).result()
    asyncio.run(crib.aclose())
    asyncio.run_coroutine_threadsafe(everything_else(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert crib._async_line._pools == {}
