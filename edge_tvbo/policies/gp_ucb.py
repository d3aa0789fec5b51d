"""Upper confidence bounds on one temporal model that is never reset: static, TV and UI."""

from edge_tvbo.model.exploration import DEFAULT_BETA, AgnosticBeta, Beta, exploration
from edge_tvbo.model.field import SensorField
from edge_tvbo.model.posterior import StateSpacePosterior
from edge_tvbo.model.temporal import Static, TimeVarying, Transition, UncertaintyInjection
from edge_tvbo.model.triggers import Never
from edge_tvbo.policies.policy import UpperConfidence

HORIZON = 1024  # readings after which the information gain is taken to stand still


def static(
    name: str, field: SensorField, *, beta: Beta = DEFAULT_BETA, seed: int = 0
) -> UpperConfidence:
    """Give GP-UCB (Srinivas et al. 2010; algorithm 1 of [M24]), which takes the field as fixed."""
    return _unreset(name, field, Static(), beta, seed)


def time_varying(
    name: str,
    field: SensorField,
    *,
    epsilon: float = 0.03,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give TV-GP-UCB ([B16] algorithm 2): a share `epsilon` of the field is new each interval."""
    return _unreset(name, field, TimeVarying(epsilon), beta, seed)


def uncertainty_injection(
    name: str,
    field: SensorField,
    *,
    sigma_w2: float = 0.03,
    beta: Beta = DEFAULT_BETA,
    seed: int = 0,
) -> UpperConfidence:
    """Give UI-TVBO ([ET] section 6): variance `sigma_w2` is added each interval."""
    return _unreset(name, field, UncertaintyInjection(sigma_w2), beta, seed)


def agnostic(
    name: str, field: SensorField, *, beta: Beta | None = None, seed: int = 0
) -> UpperConfidence:
    """Give IGP-UCB (Chowdhury & Gopalan 2017; [ET] appendix B), which takes the field as fixed.

    Without `beta` the width is B + R√(2(γ + 1 + ln 1/δ)), as in `AgnosticBeta.of_noise`.
    """
    width = AgnosticBeta.of_noise(field, HORIZON) if beta is None else exploration(beta)
    posterior = StateSpacePosterior(field, Static())
    return UpperConfidence(name, field, posterior, width, Never(), seed=seed)


def _unreset(
    name: str, field: SensorField, temporal: Transition, beta: Beta, seed: int
) -> UpperConfidence:
    posterior = StateSpacePosterior(field, temporal)
    return UpperConfidence(name, field, posterior, exploration(beta), Never(), seed=seed)
