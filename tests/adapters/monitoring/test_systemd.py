"""What systemd is told, heard on a datagram socket of our own, and when the watchdog is fed."""

import os
import socket
import time

import pytest
from edge_tvbo_adapters.monitoring.systemd import SystemdNotifier

from edge_tvbo.daemon.watchdog import RETRY_DELAY_S, Watchdog


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path):
    """Give what listens as systemd does, and the name that it has in an environment."""
    name = str(tmp_path / "notify") if request.param == "path" else f"\0edge-tvbo-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name)
        sock.setblocking(False)
        yield sock, name.replace("\0", "@")


def heard(sock):
    messages = []
    while True:
        try:
            messages.append(sock.recv(4096).decode())
        except BlockingIOError:
            return messages


def test_every_word_arrives_as_systemd_has_it(systemd):
    sock, name = systemd
    ours = SystemdNotifier({"NOTIFY_SOCKET": name})

    ours.ready("54 sensors")
    ours.status("mote-17 is\nselected")
    ours.status("mote-17 is\nselected")
    ours.alive()
    ours.reloading()
    ours.stopping()

    ready, status, fed, reloading, stopping = heard(sock)
    assert ready == "READY=1\nSTATUS=54 sensors"
    assert status == "STATUS=mote-17 is selected"
    assert (fed, stopping) == ("WATCHDOG=1", "STOPPING=1")
    said, moment = reloading.split("\nMONOTONIC_USEC=")
    assert said == "RELOADING=1"
    assert abs(int(moment) / 1e6 - time.monotonic()) < 60


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
def test_where_nobody_listens_it_is_silent(environment):
    ours = SystemdNotifier(environment)

    ours.ready("x")
    ours.alive()
    ours.stopping()


def test_a_full_socket_neither_blocks_nor_raises(systemd):
    sock, name = systemd
    ours = SystemdNotifier({"NOTIFY_SOCKET": name})

    for _ in range(1000):
        ours.alive()

    assert set(heard(sock)) == {"WATCHDOG=1"}


def test_the_watchdog_of_another_process_is_not_ours():
    environment = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "30000000"}

    assert SystemdNotifier(environment).watchdog_timeout == 30.0
    assert (
        SystemdNotifier(environment | {"WATCHDOG_PID": str(os.getpid())}).watchdog_timeout == 30.0
    )
    assert SystemdNotifier(environment | {"WATCHDOG_PID": "1"}).watchdog_timeout is None
    assert SystemdNotifier({"WATCHDOG_USEC": "30000000"}).watchdog_timeout is None


# --- the watchdog -----------------------------------------------------------------------------


class Link:
    moving = True

    def alive(self, now):
        return self.moving


def watchdog(name, link, seconds=30.0):
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": str(int(seconds * 1e6))}
    return Watchdog(SystemdNotifier(environment), link.alive, lambda: "mote-17")


def test_ready_comes_after_a_whole_turn_and_food_at_half_the_period(systemd):
    sock, name = systemd
    dog = watchdog(name, Link())
    assert heard(sock) == []

    fed = []
    now = 100.0
    while now < 200.0:
        dog.service(now)
        fed += [now for each in heard(sock) if each == "WATCHDOG=1"]
        assert dog.wake_at() > now
        now = min(now + 4.0, dog.wake_at())

    assert fed == [100.0 + 15.0 * i for i in range(7)]


def test_a_loop_that_does_not_turn_feeds_nobody(systemd):
    sock, name = systemd
    dog = watchdog(name, Link())
    dog.service(100.0)
    heard(sock)

    assert heard(sock) == []  # nothing but the loop feeds it: there is no timer and no thread


def test_a_link_that_stands_still_is_not_covered_up(systemd, caplog):
    sock, name = systemd
    link = Link()
    dog = watchdog(name, link)
    dog.service(100.0)
    link.moving = False
    heard(sock)

    now = 100.0
    while now < 140.0:
        now = dog.wake_at()
        dog.service(now)
    assert "WATCHDOG=1" not in heard(sock)
    assert [each.levelname for each in caplog.records] == ["ERROR"]

    link.moving = True
    dog.service(now + RETRY_DELAY_S)
    assert "WATCHDOG=1" in heard(sock)


def test_the_end_is_announced(systemd):
    sock, name = systemd
    watchdog(name, Link()).close()

    assert heard(sock) == ["STOPPING=1"]


def test_without_a_watchdog_nothing_is_fed_and_nothing_wakes_the_loop(systemd):
    sock, name = systemd
    dog = Watchdog(SystemdNotifier({"NOTIFY_SOCKET": name}), Link().alive, lambda: "mote-17")
    dog.service(100.0)

    assert heard(sock) == ["READY=1\nSTATUS=mote-17"]
    assert dog.wake_at() == float("inf")
