"""Alternating rounds: the times that functions take, and the ratios of these times."""

import time
from statistics import quantiles


def in_turns(*runs, rounds=15, clock=time.perf_counter):
    """Return the seconds that each function took, by round, for each function.

    A function that returns a number did its work so many times; its time is divided by that. For a
    comparison with a fixed time, `time.process_time` leaves out the other load of the machine.
    """

    def seconds(run):
        began = clock()
        times = run()
        return (clock() - began) / (times or 1)

    return list(zip(*([seconds(run) for run in runs] for _ in range(rounds)), strict=True))


def ratios(ours, theirs):
    """Return ours / theirs, round by round."""
    return [one / other for one, other in zip(ours, theirs, strict=True)]


def spread(values, scale=1.0):
    """Return the median and the quartiles, scaled, as text.

    >>> spread([1, 2, 3, 4, 5], 10)
    '30 (15 to 45)'
    """
    low, middle, high = quantiles(values) if len(values) > 1 else (*values,) * 3
    return f"{_short(middle * scale)} ({_short(low * scale)} to {_short(high * scale)})"


def _short(number):
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"
