"""Policy cases: every registered policy with settings, on small fields, and histories to run.

A case is a policy with parameters. A history is a list of ``(arm, y)`` readings and None, the end
of an interval; before each step the policy selects, as a controller would have it.
"""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.examples import max_examples, naming
from support.naive import se

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.posteriors.regression_posterior import FittedPosterior
from edge_tvbo.models.structural_model import DAY, prior_structure
from edge_tvbo.policy import make_policy, policies
from edge_tvbo.policy.model_free import ModelFreePolicy
from edge_tvbo.policy.registry import parameters_of, settings_class
from edge_tvbo.policy.upper_confidence import UpperConfidence

POSITIONS = np.array([[0.0, 0.0], [0.3, 0.1], [0.3, 0.1], [0.9, 0.4], [0.2, 0.8]])  # one repeated
FAR_APART = 1e3 * np.arange(5.0)[:, None]
K = se(POSITIONS, 0.4)


def parameters(name):
    """Return the parameters of a policy, by name."""
    return {one.name: one for one in parameters_of(settings_class(name))}


def with_parameter(key):
    return [name for name in policies() if key in parameters(name)]


SHORT = {  # so that short histories reach the end of a window or a period
    "r-gp-ucb": {"period": 4},
    "br-gp-ucb": {"period": 6},
    "sw-gp-ucb": {"window": 5},
    "w-gp-ucb": {"window": 8, "gamma": 0.7},
    "w-dbo": {"window": 8, "epsilon": 0.3},
    "rexp3": {"period": 5},
    "ada-opkb": {"horizon": 30},
    "master-gp-ucb": {"horizon": 8},
}
VARIANTS = {
    "tv-gp-ucb fitted": ("tv-gp-ucb", {"epsilon": "fitted"}),
    "mtv-gp-ucb fitted": ("mtv-gp-ucb", {"epsilon": "fitted"}),
    "ttv-gp-ucb fitted": ("ttv-gp-ucb", {"tau": "fitted"}),
    "tv-gp-ucb fitted window=6": ("tv-gp-ucb", {"epsilon": "fitted", "window": 6}),
    "auto length scale": ("auto", {"length_scale": "learned"}),
    "et-gp-ucb likelihood-ratio": ("et-gp-ucb", {"trigger": "likelihood-ratio"}),
}
WINDOWS = {
    f"{name} window=6": (name, {**SHORT.get(name, {}), "window": 6})
    for name in with_parameter("window")
}
STRUCTURED = {  # as the daemon runs them, with the time of day
    "auto, structural": ("auto", {}),
    "kalman-ucb, trained": ("kalman-ucb", {}),
}
CASES = {
    **{name: (name, SHORT.get(name, {})) for name in policies()},
    **VARIANTS,
    **WINDOWS,
    **STRUCTURED,
}


def field_of(K, noise_variance=0.05, prefix="n", positions=POSITIONS):
    names = tuple(f"{prefix}{i}" for i in range(len(K)))
    return SensorField(names, K, noise_variance, positions=positions[: len(K)])


FIELD = field_of(K)


def uncorrelated(M, noise_variance=0.05):
    return field_of(np.eye(M), noise_variance, positions=FAR_APART)


def fully_correlated(M, noise_variance=0.05):
    return field_of(np.ones((M, M)), noise_variance, positions=0 * FAR_APART)


def with_structure(field, *, trained):
    """Return the field with a structure; a trained one has a course, the same for all sensors."""
    structure = prior_structure(field.kernel, DAY / 24)
    if trained:
        course = np.outer(np.sin(np.arange(24)), structure.spread)
        structure = replace(structure, course=course, rows=72)
    return SensorField(
        field.sensors,
        field.kernel,
        field.noise_variance,
        positions=field.positions,
        structure=structure,
    )


def make(case, field=None, **more):
    name, parameters = CASES[case]
    field = FIELD if field is None else field
    if case in STRUCTURED:
        field = with_structure(field, trained=name == "kalman-ucb")
    policy = make_policy(name, field, **{**parameters, **more})
    if case in STRUCTURED:
        policy.set_time(30.0 * DAY)
    return policy


# A policy is sorted by what it is made of, so that a new one needs no entry here.
MADE = {case: make(case) for case in CASES}
NON_ADAPTIVE = ("random", "round-robin", "static")
UPPER = [name for name in policies() if isinstance(MADE[name], UpperConfidence)]
UPPER_CASES = [case for case, (name, _) in CASES.items() if name in UPPER]
WITH_MODEL = [name for name in policies() if not isinstance(MADE[name], ModelFreePolicy)]
FITTED = [
    case
    for case, policy in MADE.items()
    if isinstance(getattr(policy, "_posterior", None), FittedPosterior)
]
SLOW = [
    *FITTED,
    *(case for case, (name, _) in CASES.items() if settings_class(name).needs_positions),
]
FEWER = {*WINDOWS, *STRUCTURED}

every_policy = pytest.mark.parametrize("name", policies())
every_case = pytest.mark.parametrize("case", CASES)


def examples(many, cases=CASES, **strategies):
    """Run a check on `many` drawn examples of each case; fewer of a slow or repeated one.

    The cases with the same number of examples share the examples: to draw one takes longer than to
    check a policy on it.
    """

    def decorate(check):
        groups = defaultdict(list)
        for case in cases:
            share = 2 if case in SLOW else max(2, many // 12) if case in FEWER else many // 2
            groups[share].append(case)

        @pytest.mark.parametrize("number", groups)
        def test(number):
            @max_examples(number)
            @given(**strategies)
            def drawn(**arguments):
                for case in groups[number]:
                    with naming(case):
                        check(case, **arguments)

            drawn()

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return test

    return decorate


def histories(M=len(K), readings=st.floats(-5, 5)):
    reading = st.tuples(st.integers(0, M - 1) | st.none(), readings)
    return st.lists(reading | st.none(), max_size=30)


SEEDS = st.integers(0, 2**63 - 1)


def take(policy, step):
    """Carry one step out, where the arm None is the selected one; return all that is visible."""
    choice = policy.select()
    if step is None:
        result = policy.advance()
    else:
        arm, y = step
        result = policy.observe(choice.arm if arm is None else arm, y)
    mean, std = policy.posterior()
    return choice, result, mean.tobytes(), std.tobytes(), policy.observations, policy.resets


def run(policy, history):
    return [take(policy, step) for step in history]


def assert_valid(policy, history=()):
    for choice, *_ in run(policy, history):
        assert 0 <= choice.arm < len(policy.field)
    mean, std = policy.posterior()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()


def assert_equal_histories(one, two, history):
    assert run(one, history) == run(two, history)
    assert one.snapshot() == two.snapshot()


def assert_resumes(policy, other, history, cut, *, select_first):
    run(policy, history[:cut])
    if select_first:
        policy.select()
    other.restore(policy.snapshot())
    assert other.snapshot() == policy.snapshot()
    resumed, unbroken = run(other, history[cut:]), run(policy, history[cut:])
    assert resumed == unbroken
    assert other.snapshot() == policy.snapshot()
