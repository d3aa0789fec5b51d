"""Live messages of the dashboard: a cancellation ends the wait for a message in every case."""

import asyncio
import selectors

import pytest
from edge_tvbo_adapters.dashboard import live
from edge_tvbo_adapters.dashboard.server import Dashboard, DashboardContent


def test_a_cancellation_that_coincides_with_a_message_is_not_lost(monkeypatch):
    """On Python 3.11, `asyncio.wait_for` returns the message, and the task continues for ever."""

    async def run():
        noted = []
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "add_reader", lambda _, note, mask: noted.append((note, mask)))
        monkeypatch.setattr(loop, "remove_reader", lambda _: None)
        monkeypatch.setattr(loop, "remove_writer", lambda _: None)
        task = asyncio.create_task(live._ready((0, selectors.EVENT_READ), 10.0))
        while not noted:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        note, mask = noted[0]
        note(mask)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_a_cancellation_that_coincides_with_an_event_ends_the_stream(turns):
    async def consume(stream):
        async for _ in stream:
            pass

    async def turn(times):
        for _ in range(times):
            await asyncio.sleep(0)

    async def run():
        dashboard, queue = Dashboard(DashboardContent("", "lab", {}, None, None)), asyncio.Queue()
        task = asyncio.create_task(consume(dashboard._stream(queue)))
        await turn(5)
        queue.put_nowait(b"event")
        await turn(turns)
        task.cancel()
        await turn(20)
        assert task.cancelled()

    asyncio.run(run())
