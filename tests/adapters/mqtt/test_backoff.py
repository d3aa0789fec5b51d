"""Backoff: waits double up to a bound; duplicate client ids are distinguished from outages."""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from edge_tvbo_adapters.mqtt.backoff import (
    MIN_SHORT_SESSIONS,
    SHORT_SESSION_S,
    STABLE_SESSION_S,
    Backoff,
)
from hypothesis import given
from hypothesis import strategies as st

seeds = st.integers(0, 2**32)


@given(seeds, st.floats(0.01, 10), st.floats(10, 600), st.integers(1, 2000))
def test_every_wait_is_within_its_bound(seed, shortest, longest, attempts):
    backoff = Backoff(shortest, longest, Random(seed))
    for attempt in range(attempts):
        bound = min(longest, shortest * 2.0 ** min(attempt, 64))
        assert 0.0 <= backoff.wait() <= bound


@pytest.mark.parametrize("attempt", [0, 3, 12])
def test_every_tenth_of_the_bound_is_equally_likely(attempt):
    tenths = Counter()
    for seed in range(2000):
        backoff = Backoff(1.0, 60.0, Random(seed))
        waits = [backoff.wait() for _ in range(attempt + 1)]
        tenths[int(10 * waits[-1] / min(60.0, 2.0**attempt))] += 1
    assert sorted(tenths) == list(range(10))
    assert min(tenths.values()) > 140 and max(tenths.values()) < 260


def test_the_bound_doubles_up_to_the_longest():
    waits = [0.0] * 12
    for seed in range(200):
        backoff = Backoff(1.0, 60.0, Random(seed))
        waits = [total + backoff.wait() / 200 for total in waits]
    assert all(later > earlier for earlier, later in pairwise(waits[:7]))
    assert min(waits[7:]) > 25


@given(seeds)
def test_equal_seeds_give_equal_waits(seed):
    first, again, other = (Backoff(1.0, 60.0, Random(each)) for each in (seed, seed, seed + 1))
    waits = [first.wait() for _ in range(8)]
    assert waits == [again.wait() for _ in range(8)]
    assert waits != [other.wait() for _ in range(8)]


class Bounds(Random):
    """Draws the bound itself."""

    def uniform(self, a, b):
        return b


@given(st.floats(SHORT_SESSION_S, STABLE_SESSION_S, exclude_max=True))
def test_only_a_stable_session_resets_the_waits(lasted):
    backoff = Backoff(1.0, 60.0, Bounds())
    for _ in range(10):
        backoff.wait()
    backoff.ended(lasted)
    assert backoff.wait() == 60.0
    backoff.ended(STABLE_SESSION_S)
    assert backoff.wait() == 1.0


def test_several_short_sessions_in_a_row_mean_a_duplicate_client_id():
    backoff = Backoff(1.0, 60.0, Random(0))
    for _ in range(MIN_SHORT_SESSIONS):
        assert not backoff.sessions_end_early
        backoff.ended(SHORT_SESSION_S / 2)
    assert backoff.sessions_end_early
    assert backoff.wait() == 60.0


def test_a_longer_session_clears_the_duplicate_client_id():
    backoff = Backoff(1.0, 60.0, Random(0))
    for _ in range(MIN_SHORT_SESSIONS):
        backoff.ended(0.1)
    backoff.ended(SHORT_SESSION_S)
    assert not backoff.sessions_end_early


def test_failed_attempts_do_not_mean_a_duplicate_client_id():
    backoff = Backoff(1.0, 60.0, Random(0))
    for _ in range(20):
        backoff.wait()
    assert not backoff.sessions_end_early


def test_sessions_ended_by_us_do_not_mean_a_duplicate_client_id():
    backoff = Backoff(1.0, 60.0, Random(0))
    for _ in range(MIN_SHORT_SESSIONS):
        backoff.ended(0.1, by_broker=False)
    assert not backoff.sessions_end_early


def test_an_unreachable_broker_clears_the_duplicate_client_id():
    backoff = Backoff(1.0, 60.0, Random(0))
    for _ in range(MIN_SHORT_SESSIONS):
        backoff.ended(0.1)
    backoff.clear()
    assert not backoff.sessions_end_early


def test_waits_for_a_duplicate_client_id_are_long_even_if_the_configured_ones_are_short():
    backoff = Backoff(0.01, 0.1, Random(0))
    for _ in range(MIN_SHORT_SESSIONS):
        backoff.ended(0.1)
    assert backoff.wait() == 60.0
