"""How the next sensor is chosen: a registry by name, and three verbs.

``select`` says which arm to activate in the current interval, ``observe`` takes a reading in,
``advance`` ends the interval. A new policy is one file with one maker for each name, and one line
for each name below; files do not import each other.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from edge_tvbo.errors import ConfigError, hint

if TYPE_CHECKING:
    from edge_tvbo.models.field import SensorField
    from edge_tvbo.policy.base import Policy


class Entry(NamedTuple):
    """Where a policy is made, and by which keywords it is tuned; `seed` is everyone's."""

    maker: str  # "file:function" in this package
    parameters: tuple[str, ...] = ()
    needs_positions: bool = False  # of the sensors: it learns how fast the field changes in space


_REGISTRY = {
    "auto": Entry("auto:mixture", ("delta_b", "length_scale", "beta")),
    "gp-ucb": Entry("gp_ucb:static", ("window", "beta")),
    "tv-gp-ucb": Entry("gp_ucb:time_varying", ("epsilon", "window", "beta")),
    "ui-tvbo": Entry("gp_ucb:uncertainty_injection", ("sigma_w2", "window", "beta")),
    "r-gp-ucb": Entry("resetting:periodic", ("period", "window", "beta")),
    "et-gp-ucb": Entry(
        "resetting:event_triggered",
        ("delta_b", "n_lower", "n_upper", "noise_cap", "trigger", "keep_last", "window", "beta"),
    ),
    "sw-gp-ucb": Entry("sliding_window:sliding_window", ("window", "beta")),
    "igp-ucb": Entry("gp_ucb:agnostic", ("window", "beta")),
    "br-gp-ucb": Entry("resetting:agnostic", ("period", "window", "beta")),
    "mtv-gp-ucb": Entry("momentum:momentum", ("epsilon", "alpha", "window", "beta")),
    "ttv-gp-ucb": Entry("momentum:transition", ("tau", "rho", "window", "beta")),
    "w-gp-ucb": Entry("sliding_window:weighted", ("gamma", "window", "beta")),
    "a-gp-ucb": Entry(
        "unknown_length_scale.policies:shrinking",
        (
            "length_scale",
            "nu",
            "bound",
            "delta",
            "growth",
            "norm_growth",
            "ratio",
            "beta",
            "window",
        ),
        needs_positions=True,
    ),
    "lb-gp-ucb": Entry(
        "unknown_length_scale.policies:balanced",
        ("length_scale", "nu", "bound", "delta", "growth", "ratio", "beta", "window"),
        needs_positions=True,
    ),
    "lnb-gp-ucb": Entry(
        "unknown_length_scale.policies:norm_balanced",
        (
            "length_scale",
            "nu",
            "bound",
            "delta",
            "growth",
            "norm_growth",
            "ratio",
            "beta",
            "window",
        ),
        needs_positions=True,
    ),
    "mle-gp-ucb": Entry(
        "unknown_length_scale.policies:most_likely",
        ("length_scale", "nu", "bound", "delta", "prior", "beta", "window"),
        needs_positions=True,
    ),
    "mcmc-gp-ucb": Entry(
        "unknown_length_scale.policies:sampled",
        ("length_scale", "nu", "bound", "delta", "prior", "samples", "beta", "window"),
        needs_positions=True,
    ),
    "w-dbo": Entry("wdbo:wasserstein", ("epsilon", "alpha", "window", "beta")),
    "rexp3": Entry("baselines:rexp3", ("period", "gamma")),
    "d-ucb": Entry("baselines:discounted", ("gamma", "xi")),
    "oracle": Entry("baselines:oracle"),
    "random": Entry("baselines:random"),
    "round-robin": Entry("baselines:round_robin"),
    "static": Entry("baselines:static", ("sensor",)),
}
_WHOLE = ("window", "period", "n_lower", "n_upper", "noise_cap", "samples", "seed")


def policies() -> tuple[str, ...]:
    """Give the names `make_policy` knows.

    >>> "et-gp-ucb" in policies()
    True
    """
    return tuple(_REGISTRY)


def needing_positions() -> tuple[str, ...]:
    """Give the policies for fields of which nothing is known but where the sensors are."""
    return tuple(name for name, entry in _REGISTRY.items() if entry.needs_positions)


def parameters() -> Mapping[str, tuple[str, ...]]:
    """Give the keywords of each policy; needs neither numpy nor numba."""
    return {name: (*entry.parameters, "seed") for name, entry in _REGISTRY.items()}


def make_policy(name: str, field: "SensorField", /, **settings: Any) -> "Policy":
    """Make the policy `name` over `field`, tuned by keywords that its maker documents.

    Raises
    ------
    ConfigError
        For a name or a keyword that does not exist, or a value out of range.

    Examples
    --------
    >>> from edge_tvbo import SensorField
    >>> field = SensorField(("a", "b"), [[1, 0.5], [0.5, 1]], noise_variance=0.01)
    >>> policy = make_policy("et-gp-ucb", field, delta_b=0.1, seed=1)
    >>> choice = policy.select()
    >>> policy.observe(choice.arm, 0.3).reset
    False
    >>> policy.advance()
    """
    entry = _REGISTRY.get(name)
    if entry is None:
        names = ", ".join(_REGISTRY)
        raise ConfigError(f"There is no policy {name!r}; there are {names}.{hint(name, _REGISTRY)}")
    known = (*entry.parameters, "seed")
    for keyword in settings:
        if keyword not in known:
            raise ConfigError(
                f"{name} has no setting {keyword!r}; it has {', '.join(known)}."
                f"{hint(keyword, known)}"
            )
        value = settings[keyword]
        if keyword in _WHOLE and value is not None and not _is_count(value):
            raise ConfigError(f"{keyword} is {value!r}; it must be a whole number, 0 or more.")
        if keyword == "keep_last" and not isinstance(value, bool):
            raise ConfigError(f"keep_last is {value!r}; it can be true or false.")
    module, _, function = entry.maker.partition(":")
    make = getattr(import_module(f"{__name__}.{module}"), function)
    policy: Policy = make(name, field, **settings)
    return policy


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


class _Registry(ModuleType):
    """The package, called as the function that it hides once it is imported: `edge_tvbo.policy`.

    >>> from edge_tvbo import make_policy, policies
    >>> "auto" in policies()
    True
    """

    def __call__(self) -> tuple[str, ...]:
        return policies()


sys.modules[__name__].__class__ = _Registry
