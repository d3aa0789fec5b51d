"""A broker, or a bridge on the way to it, that loses PUBACKs: the link reconnects and says why."""

import re
import time
from contextlib import closing
from itertools import count

import pytest
from support.link import link_to, logged
from support.proxy import Proxy

from edge_tvbo.messages.commands import Activate

KEEPALIVE_S = 1


@pytest.fixture
def proxy(broker):
    """Yield a proxy to the broker."""
    with closing(Proxy(broker.port)) as running:
        yield running


@pytest.mark.parametrize(("every", "goal"), [(1, 30), (20, 500)])
def test_activations_continue_though_acknowledgements_are_lost(
    broker, proxy, drive, peer, caplog, every, goal
):
    """At 1 in 20 lost, the 20 places of the outbox are all taken after 400 publications."""
    watcher = peer(broker.port, "lab/a/activate")
    proxy.swallow = every
    link = link_to(proxy.port, keepalive=KEEPALIVE_S)
    driver = drive(link)
    driver.online()
    numbers = count()

    def has_arrived():
        link.send("lab", Activate("a", next(numbers), 600.0, 600.1))
        return len(watcher.received) >= goal

    driver.until(has_arrived)
    driver.until(lambda: link.status().activations == {"lab": len(watcher.received)})
    assert proxy.connections > 1
    assert re.search(r"has not acknowledged .* for 2 s.*\[E414\]$", logged(caplog)[0])


def test_the_age_of_the_oldest_unacknowledged_publication_is_reported(proxy, drive):
    proxy.swallow = 1
    link = link_to(proxy.port, keepalive=60)
    driver = drive(link)
    driver.online()
    driver.until(lambda: link.status().unacknowledged_s > 0.1)
    assert link.online


def test_a_broker_that_acknowledges_slowly_keeps_its_session(proxy, drive):
    """Each acknowledgement restarts the clock, because a broker acknowledges in order."""
    keepalive = 3  # a broker that stands still for 2 s is no fault
    proxy.delay = 0.2 * keepalive
    link = link_to(proxy.port, keepalive=keepalive)
    driver = drive(link)
    driver.online()
    numbers, end = count(), time.monotonic() + 2.5 * keepalive

    def is_over():
        """Keep an activation in flight, so that one is unacknowledged all the time."""
        link.send("lab", Activate("a", next(numbers), 600.0, 700.0))
        return time.monotonic() > end

    driver.until(is_over)
    assert proxy.connections == 1
