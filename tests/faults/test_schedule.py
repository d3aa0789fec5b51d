"""The check of a gateway's activations: late ones are allowed, early ones are not."""

import pytest
from support.gateway import Gateway

# Times in s at which a daemon on a busy machine was due to activate sensors, with ten reloads:
BUSY = (0.0, 0.2, 0.4, 0.8, 1.249, 1.556, 1.8, 2.0, 2.219, 2.496, 2.8, 3.313, 3.45, 3.6, 3.8)


def check(due):
    gateway = Gateway.__new__(Gateway)
    gateway.activations, gateway._starts = list(enumerate(due)), [0]
    gateway.assert_never_twice()


def test_late_activations_are_allowed():
    check(BUSY)


@pytest.mark.parametrize("n", range(1, len(BUSY)))
def test_an_early_activation_is_found(n):
    with pytest.raises(AssertionError):
        check((*BUSY[:n], BUSY[n - 1] + 0.03, *BUSY[n:]))
