"""Cases of the experiment AUTO: policies, references, and kinds of change of the fields.

The policies of the papers have the parameters that the papers use for temperatures. For ET-GP-UCB,
the time between resets has a lower bound that holds for every rate of change ε from 0 to 1.
TV-GP-UCB is also run with a fitted ε.

The two `REFERENCES` are not policies: they use readings that a policy cannot have. The regret of a
reference shows how low a regret can be, and is not compared with the regret of `auto`.
"""

from collections.abc import Iterator

from edge_tvbo.research.experiments.base import PolicyCase

PUBLISHED = (
    PolicyCase("gp-ucb", "gp-ucb"),
    PolicyCase("r-gp-ucb", "r-gp-ucb", {"period": 15}),
    PolicyCase("tv-gp-ucb", "tv-gp-ucb", {"epsilon": 0.03}),
    PolicyCase("tv-gp-ucb fitted", "tv-gp-ucb", {"epsilon": "fitted"}),
    PolicyCase("ui-tvbo", "ui-tvbo", {"sigma_w2": 0.03}),
    PolicyCase("et-gp-ucb", "et-gp-ucb", {"delta_b": 0.1, "n_lower": 12}),
    PolicyCase("igp-ucb", "igp-ucb"),
    PolicyCase("br-gp-ucb", "br-gp-ucb"),
    PolicyCase("sw-gp-ucb", "sw-gp-ucb"),
    PolicyCase("w-gp-ucb", "w-gp-ucb"),
    PolicyCase("mtv-gp-ucb", "mtv-gp-ucb"),
    PolicyCase("w-dbo", "w-dbo"),
)
LATE, BEST_SENSOR = "all sensors, one interval late", "best sensor of the test rows"
REFERENCES = (LATE, BEST_SENSOR)
RATES = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.2)
ABRUPT_PERIODS = (30, 100)  # intervals after which a new function is drawn
BEHIND = "R_T/T of auto minus this"  # regret of auto minus the row's regret, in the same run
OVER_BLOCKS = "error of the difference over blocks"  # standard error of `BEHIND`


def kinds_of_change() -> dict[str, float | int]:
    """Return the kinds of change of the experiment AUTO's synthetic fields, by their labels.

    A float is the rate of a gradual change. An int is the number of intervals after which a new
    function is drawn.
    """
    gradual: dict[str, float | int] = {f"ε = {rate:g}": rate for rate in RATES}
    return {**gradual, **{f"new every {period}": period for period in ABRUPT_PERIODS}}


def policies(rate: float | int) -> Iterator[PolicyCase]:
    """Yield the policies that the experiment compares on fields with one kind of change.

    `rate` is one of the values of `kinds_of_change`.
    """
    for name in ("auto", "gp-ucb", "r-gp-ucb", "et-gp-ucb"):
        yield PolicyCase(name, name)
    yield PolicyCase("et-gp-ucb 12", "et-gp-ucb", {"n_lower": 12})
    yield PolicyCase("sw-gp-ucb", "sw-gp-ucb")
    yield PolicyCase("tv-gp-ucb 0.03", "tv-gp-ucb", {"epsilon": 0.03})
    if isinstance(rate, float):
        if rate != 0.03:
            yield PolicyCase(f"tv-gp-ucb {rate:g}", "tv-gp-ucb", {"epsilon": rate})
        yield PolicyCase(f"ui-tvbo {rate:g}", "ui-tvbo", {"sigma_w2": rate})
