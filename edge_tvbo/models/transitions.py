"""How a field changes with time, for models whose state is the field itself.

Each is f_{t+1} = sqrt(retain) f_t + sqrt(inject) g_{t+1} with g drawn anew from the spatial prior,
so that Cov(f_t, f_s) = retain^((t-s)/2) p_s K for t ≥ s, with p_0 = 1 and
p_{t+1} = retain p_t + inject.
"""

from typing import NamedTuple

from edge_tvbo.errors import ConfigError


class Transition(NamedTuple):
    """What one interval does to the field; both are variances, without unit."""

    retain: float
    inject: float


def Static() -> Transition:  # noqa: N802 these three are read as types
    """Give the field that never changes: d(t, t') = 1."""
    return Transition(1.0, 0.0)


def TimeVarying(epsilon: float) -> Transition:  # noqa: N802
    """Give [B16]'s forgetting field, of which `epsilon` is new each interval.

    d(t, t') = (1-ε)^(|t-t'|/2), [B16] eq. 4. The prior's scale stays 1.
    """
    if not 0.0 <= epsilon <= 1.0:
        raise ConfigError(f"epsilon is {epsilon}; it can be 0 (never changes) to 1 (all new).")
    return Transition(1.0 - epsilon, epsilon)


def UncertaintyInjection(sigma_w2: float) -> Transition:  # noqa: N802
    """Give the Wiener field, to which variance `sigma_w2` is added each interval.

    d(t, t') = 1 + σ_w² min(t, t'), UI-TVBO in [ET] section 6. The prior's scale is 1 + σ_w² t.
    """
    if not (0.0 <= sigma_w2 < float("inf")):
        raise ConfigError(f"sigma_w2 is {sigma_w2}; it can be 0 or more.")
    return Transition(1.0, sigma_w2)
