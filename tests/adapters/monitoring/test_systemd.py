"""systemd notifications on a datagram socket, and the watchdog's keep-alive messages."""

import os
import socket
import time

import pytest
from edge_tvbo_adapters.monitoring.systemd import SystemdNotifier

from edge_tvbo.daemon.watchdog import RETRY_DELAY_S, Watchdog


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """Return a socket that receives as systemd does, and its name for $NOTIFY_SOCKET."""
    name = str(tmp_path / "notify") if request.param == "path" else f"\0edge-tvbo-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name)
        sock.setblocking(False)
        yield sock, name.replace("\0", "@")


def received(sock):
    messages = []
    while True:
        try:
            messages.append(sock.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_every_notification_has_the_documented_form(systemd):
    sock, name = systemd
    notifier = SystemdNotifier({"NOTIFY_SOCKET": name})

    notifier.ready("54 sensors")
    notifier.status("mote-17 is\nselected")
    notifier.status("mote-17 is\nselected")
    notifier.alive()
    notifier.reloading()
    notifier.stopping()

    ready, status, alive, reloading, stopping = received(sock)
    assert ready == "READY=1\nSTATUS=54 sensors"
    assert status == "STATUS=mote-17 is selected"
    assert (alive, stopping) == ("WATCHDOG=1", "STOPPING=1")
    text, time_us = reloading.split("\nMONOTONIC_USEC=")
    assert text == "RELOADING=1"
    assert abs(int(time_us) / 1e6 - time.monotonic()) < 60


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "/no/such/socket"},
        {"NOTIFY_SOCKET": "vsock:2:9"},
        {"NOTIFY_SOCKET": "@" + "x" * 300},
    ],
)
def test_missing_or_invalid_socket_is_ignored(environment):
    notifier = SystemdNotifier(environment)

    notifier.ready("x")
    notifier.alive()
    notifier.stopping()


def test_full_socket_neither_blocks_nor_raises(systemd):
    sock, name = systemd
    notifier = SystemdNotifier({"NOTIFY_SOCKET": name})

    for _ in range(1000):
        notifier.alive()

    assert set(received(sock)) == {"WATCHDOG=1"}


def fill(name):
    """Send messages until the socket that systemd does not read is full."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                other.sendto(b"STATUS=x", name.replace("@", "\0"))


def test_readiness_is_reported_again_if_the_socket_was_full(systemd):
    """Otherwise systemd would end the daemon after TimeoutStartSec."""
    sock, name = systemd
    watchdog = new_watchdog(name, Link())
    fill(name)
    watchdog.service(0.0)
    assert not any(each.startswith("READY=1") for each in received(sock))
    watchdog.service(1.0)
    watchdog.service(2.0)
    assert [each.startswith("READY=1") for each in received(sock)].count(True) == 1


def test_a_status_that_systemd_did_not_receive_is_reported_again(tmp_path):
    name = str(tmp_path / "notify")
    notifier = SystemdNotifier({"NOTIFY_SOCKET": name})
    notifier.status("hall is selected")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name)
        sock.setblocking(False)
        notifier.status("hall is selected")
        notifier.status("hall is selected")
        assert received(sock) == ["STATUS=hall is selected"]


def test_watchdog_of_another_process_is_ignored():
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30000000"}

    assert SystemdNotifier(environment).watchdog_timeout == 30.0
    assert (
        SystemdNotifier(environment | {"WATCHDOG_PID": str(os.getpid())}).watchdog_timeout == 30.0
    )
    assert SystemdNotifier(environment | {"WATCHDOG_PID": "1"}).watchdog_timeout is None
    assert SystemdNotifier({"WATCHDOG_USEC": "30000000"}).watchdog_timeout is None


# --- the watchdog -----------------------------------------------------------------------------


class Link:
    is_alive = True

    def alive(self, now):
        return self.is_alive


def new_watchdog(name, link, seconds=30.0):
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": str(int(seconds * 1e6))}
    return Watchdog(SystemdNotifier(environment), link.alive, lambda: "mote-17")


def test_watchdog_is_notified_every_half_period(systemd):
    sock, name = systemd
    watchdog = new_watchdog(name, Link())
    assert received(sock) == []

    times = []
    now = 100.0
    while now < 200.0:
        watchdog.service(now)
        times += [now for each in received(sock) if each == "WATCHDOG=1"]
        assert watchdog.wake_at() > now
        now = min(now + 4.0, watchdog.wake_at())

    assert times == [100.0 + 15.0 * i for i in range(7)]


def test_the_watchdog_is_notified_again_if_the_socket_was_full(systemd):
    """Otherwise the next message would be half a period later, when systemd ends the daemon."""
    sock, name = systemd
    watchdog = new_watchdog(name, Link())
    watchdog.service(100.0)
    fill(name)
    watchdog.service(115.0)
    assert received(sock).count("WATCHDOG=1") == 1  # that of the first call
    assert watchdog.wake_at() == 115.0 + RETRY_DELAY_S
    watchdog.service(watchdog.wake_at())
    assert received(sock).count("WATCHDOG=1") == 1
    assert watchdog.wake_at() == 116.0 + 15.0


def test_stopped_loop_does_not_notify_the_watchdog(systemd):
    sock, name = systemd
    watchdog = new_watchdog(name, Link(), seconds=0.02)
    watchdog.service(100.0)
    assert "WATCHDOG=1" in received(sock)
    time.sleep(0.1)

    assert received(sock) == []  # only the loop notifies: there is no timer and no thread


def test_stalled_link_stops_the_notifications(systemd, caplog):
    sock, name = systemd
    link = Link()
    watchdog = new_watchdog(name, link)
    watchdog.service(100.0)
    link.is_alive = False
    received(sock)

    now = 100.0
    while now < 140.0:
        now = watchdog.wake_at()
        watchdog.service(now)
    assert "WATCHDOG=1" not in received(sock)
    assert [each.levelname for each in caplog.records] == ["ERROR"]

    link.is_alive = True
    watchdog.service(now + RETRY_DELAY_S)
    assert "WATCHDOG=1" in received(sock)


def test_closing_reports_that_the_daemon_stops(systemd):
    sock, name = systemd
    new_watchdog(name, Link()).close()

    assert received(sock) == ["STOPPING=1"]


def test_without_a_timeout_the_watchdog_never_wakes_the_loop(systemd):
    sock, name = systemd
    watchdog = Watchdog(SystemdNotifier({"NOTIFY_SOCKET": name}), Link().alive, lambda: "mote-17")
    watchdog.service(100.0)

    assert received(sock) == ["READY=1\nSTATUS=mote-17"]
    assert watchdog.wake_at() == float("inf")
