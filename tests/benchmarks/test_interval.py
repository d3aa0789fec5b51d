"""Cost of one interval through the public API, M = 46: against bare kernels, and over time."""

import resource

import pytest
from benchmarks.rounds import in_turns, ratios, spread
from benchmarks.runners import READINGS, Fused, FusedWindow, Ours, field_of

from edge_tvbo.numerics.jit import COMPILATION

M = 46


def microseconds(ours, theirs):
    return f"{spread(ours, 1e6)} µs, it {spread(theirs, 1e6)} µs"


@pytest.mark.parametrize(
    ("name", "settings"),
    [("tv-gp-ucb", {"epsilon": 0.03}), ("ui-tvbo", {}), ("et-gp-ucb", {}), ("gp-ucb", {})],
)
def test_an_interval_costs_at_most_ten_bare_kernels(name, settings, bench):
    field = field_of(M)
    ours, bare = in_turns(Ours(name, field, **settings), Fused(field))
    detail = f"{microseconds(ours, bare)}; ours compiled {COMPILATION}"
    bench(
        f"an interval of {name}, M=46",
        "a bare fused kernel",
        ratios(ours, bare),
        most=10,
        detail=detail,
    )


def test_a_window_costs_at_most_two_bare_kernels(bench):
    field = field_of(M)
    ours, bare = in_turns(Ours("sw-gp-ucb", field, window=64), FusedWindow(field, 64))
    bench(
        "an interval of sw-gp-ucb, M=46, W=64",
        "a bare fused kernel",
        ratios(ours, bare),
        most=2,
        detail=microseconds(ours, bare),
    )


@pytest.mark.parametrize("name", ["tv-gp-ucb", "et-gp-ucb"])
def test_the_millionth_interval_costs_what_the_hundredth_did_and_no_memory(name, bench):
    young, old = Ours(name, field_of(M)), Ours(name, field_of(M))
    young.live(READINGS[:100])
    old.live(READINGS * 5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(99):
        old.live(READINGS * 5)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    late, early = in_turns(old, young)
    bench(
        f"an interval of {name} after 10⁶, M=46",
        "itself after 10²",
        ratios(late, early),
        most=1.1,
        detail=f"{microseconds(late, early)}; memory grew by {grown} KiB",
    )
    assert grown <= 1024
