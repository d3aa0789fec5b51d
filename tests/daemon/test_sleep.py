"""The wait of the loop: what ends it, and for which operations the link's socket is ready."""

import os
import select
import socket
from contextlib import ExitStack, closing
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from edge_tvbo.daemon.loop import sleep

BOTH = EVENT_READ | EVENT_WRITE
LONG_S = 600.0  # more than a test may take, so a wait that does not end early fails


class Link:
    """A link with a socket and the operations to wait for, or without a socket."""

    def __init__(self, *interest):
        self._interest = interest or None

    def interest(self):
        return self._interest


@pytest.fixture
def pair():
    with ExitStack() as stack:
        yield tuple(stack.enter_context(closing(each)) for each in socket.socketpair())


def fill(sock):
    """Send until the other end accepts nothing more."""
    sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            sock.send(bytes(2**16))


@pytest.mark.parametrize(
    ("wanted", "has_input", "is_full", "ready"),
    [
        (EVENT_READ, True, False, EVENT_READ),
        (BOTH, False, False, EVENT_WRITE),
        (BOTH, True, False, BOTH),
        (BOTH, True, True, EVENT_READ),
    ],
)
def test_a_wait_returns_for_which_operations_the_socket_is_ready(
    pair, wanted, has_input, is_full, ready
):
    ours, theirs = pair
    if has_input:
        theirs.send(b"x")
    if is_full:
        fill(ours)
    assert sleep(Link(ours.fileno(), wanted), LONG_S) == ready


@pytest.mark.parametrize("wanted", [EVENT_READ, EVENT_WRITE, BOTH])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_socket_with_an_error_is_ready_for_all_operations(pair, wanted, is_open):
    ours, theirs = pair
    theirs.close()
    descriptor = ours.fileno()
    if not is_open:
        ours.close()
    assert sleep(Link(descriptor, wanted), LONG_S) == wanted


def test_a_wake_up_ends_a_wait_and_is_read():
    reader, writer = os.pipe()
    try:
        os.set_blocking(reader, False)
        os.write(writer, b"\x0f\x0f")
        assert sleep(Link(), LONG_S, wakeup=reader) == 0
        with pytest.raises(BlockingIOError):
            os.read(reader, 1)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_service_with_input_ends_a_wait_and_keeps_its_input(pair):
    ours, theirs = pair
    theirs.send(b"x")
    with socket.socket() as idle:
        assert sleep(Link(idle.fileno(), 0), LONG_S, [ours]) == 0
    assert ours.recv(1) == b"x"


def test_a_wait_is_rounded_up_to_milliseconds_and_is_never_without_end(monkeypatch):
    """A wait of 0 ms until a deadline would repeat until the deadline, with a busy processor."""
    waits = []

    class Poll:
        def poll(self, timeout):
            waits.append(timeout)
            return []

    monkeypatch.setattr(select, "poll", Poll)
    for seconds in (float("-inf"), -0.1, 0.0, 1e-6, 0.001, 0.0011, 1.0):
        sleep(Link(), seconds)
    assert waits == [0, 0, 0, 1, 1, 2, 1000]
