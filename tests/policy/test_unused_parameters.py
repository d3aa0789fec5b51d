"""Unused parameters: those that a policy names as unused change nothing of what it does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import max_examples
from support.policy_cases import POSITIONS, K, field_of, histories, run

from edge_tvbo.models.field import SensorField
from edge_tvbo.models.structural_model import prior_structure
from edge_tvbo.policy import policies
from edge_tvbo.policy.registry import build_policy, read_settings, settings_class

SHARES = st.floats(0.01, 0.99)
VALUES = {  # of the parameters that can be unused
    "alpha": SHARES,
    "bound": st.floats(0.1, 10.0),
    "delta": SHARES,
    "delta_b": SHARES,
    "noise_cap": st.integers(6, 99),
    "norm_growth": st.floats(0.0, 2.0),
}
UNUSED = {  # by policy: the parameters that make others unused
    "auto": {},
    "et-gp-ucb": {"n_upper": 6, "noise_cap": 6},
    "glr-gp-ucb": {"test_window": 1},
    "mtv-gp-ucb": {"epsilon": "fitted"},
    "a-gp-ucb": {"beta": 1.0},
    "mle-gp-ucb": {"beta": 1.0},
    "mcmc-gp-ucb": {"beta": 1.0, "samples": 2},
    "w-dbo": {"epsilon": 0.0},
}
FIELD = SensorField(
    field_of(K).sensors,
    K,
    0.05,
    positions=POSITIONS,
    structure=prior_structure(np.asarray(K), 600.0),
)


def unused(name, **parameters):
    return [each.parameter for each in read_settings(settings_class(name), parameters).unused()]


@pytest.mark.parametrize("name", UNUSED)
def test_an_unused_parameter_changes_nothing(name):
    names = unused(name, **UNUSED[name])
    assert names

    @max_examples(4)
    @given(st.fixed_dictionaries({each: VALUES[each] for each in names}), histories())
    def check(values, history):
        one, other = (
            build_policy(read_settings(settings_class(name), parameters), FIELD)
            for parameters in (UNUSED[name], UNUSED[name] | values)
        )
        assert unused(name, **UNUSED[name] | values) == names
        assert run(one, history) == run(other, history)

    check()


@pytest.mark.parametrize("name", policies())
def test_with_its_defaults_a_policy_uses_every_parameter(name):
    assert unused(name) == (["delta_b"] if name == "auto" else [])


@pytest.mark.parametrize("name", ["lb-gp-ucb", "lnb-gp-ucb"])
def test_regret_balancing_uses_the_bound_even_if_beta_is_set(name):
    assert unused(name, beta=1.0) == []


def test_auto_uses_delta_b_if_it_learns_the_length_scale():
    assert unused("auto", length_scale="learned") == []
