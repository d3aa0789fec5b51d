"""Benchmark problems: fields that change with time, whose true values are known.

A package adds a problem with an entry point in the group ``edge_tvbo.problems``. The name of the
entry point is the name of the problem. The entry point refers to an object that returns a `Problem`
when it is called without arguments: a function, or a class with the interface of `Problem`.
"""

from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from edge_tvbo.errors import ConfigError, MissingExtra
from edge_tvbo.models.arm_space import Arm
from edge_tvbo.numerics.types import Array
from edge_tvbo.plugins import Registry


class Truth(Protocol):
    """The true values of one run of a problem, in the unit of the field and without noise."""

    def value(self, t: int, arm: Arm) -> float:
        """Return the true value of the problem's `arm` in interval `t`, 0 to horizon - 1."""
        ...

    def best(self, t: int) -> float:
        """Return the best true value that any arm of the problem has in interval `t`."""
        ...


@runtime_checkable
class Problem(Protocol):
    """A field that changes with time, on which policies are compared.

    Attributes
    ----------
    field : SensorField or BoxField
        Arms or box, and the prior that each policy is given. The objective of the field says
        whether the best value is the highest or the lowest.
    horizon : int
        T, number of intervals of a run.
    noise_variance : float
        True noise variance of a reading, in model units². The noise is Gaussian.
    """

    field: Any  # a SensorField or a BoxField
    horizon: int
    noise_variance: float

    def truth(self, generator: np.random.Generator) -> Truth:
        """Return the true values of one run of a benchmark problem, drawn with `generator`."""
        ...


class GridTruth:
    """The true values of one run on finitely many arms, given as an array.

    Parameters
    ----------
    values : (T, M) array
        Value of each arm in each interval.
    objective : "max" or "min"
        Whether the highest or the lowest value is the best.
    """

    def __init__(self, values: Array, objective: Literal["max", "min"] = "max") -> None:
        self._values = values
        self._best = values.max(axis=1) if objective == "max" else values.min(axis=1)

    def value(self, t: int, arm: int) -> float:
        """Return the problem's value of `arm` in interval `t`, from the array of true values."""
        return float(self._values[t, arm])

    def best(self, t: int) -> float:
        """Return the problem's best value in interval `t`, from the array of true values."""
        return float(self._best[t])


_SAMPLED, _FUNCTIONS = f"{__name__}.sampled_fields", f"{__name__}.moving_functions"
PROBLEMS = Registry(
    "problems",
    {
        "static": f"{_SAMPLED}:static",
        "tv-slow": f"{_SAMPLED}:tv_slow",
        "tv-fast": f"{_SAMPLED}:tv_fast",
        "injection": f"{_SAMPLED}:injection",
        "momentum": f"{_SAMPLED}:momentum",
        "transition": f"{_SAMPLED}:transition",
        "abrupt": f"{_SAMPLED}:abrupt",
        "branin": f"{_FUNCTIONS}:branin",
        "hartmann-3": f"{_FUNCTIONS}:hartmann_3",
        "hartmann-6": f"{_FUNCTIONS}:hartmann_6",
        "ackley-4": f"{_FUNCTIONS}:ackley_4",
        "levy-4": f"{_FUNCTIONS}:levy_4",
    },
)


def problems() -> tuple[str, ...]:
    """Return the names of all problems, the built-in ones first."""
    return (*PROBLEMS.builtin, *(name for name in PROBLEMS if name not in PROBLEMS.builtin))


def load_problem(name: str) -> Problem:
    """Return the benchmark problem called `name`.

    Raises
    ------
    ConfigError
        If there is no problem with this name, or if the package that registers the problem cannot
        be used.
    MissingExtra
        If the problem needs scipy, which is not installed.
    """
    make = PROBLEMS.load(name)
    try:
        problem = make()
    except (ConfigError, MissingExtra):
        raise
    except Exception as error:  # a function of another package can raise any error
        found = f"{type(error).__name__}: {error}"
        raise ConfigError(f"The problem {name!r} cannot be built: {found}") from error
    if not isinstance(problem, Problem):
        raise ConfigError(
            f"The problem {name!r} is {problem!r}. A problem needs the attributes field, horizon "
            "and noise_variance, and the method truth. See edge_tvbo.research.Problem."
        )
    return problem
